//! An HTTP/1 listener that strangers can't wear out: connections are bounded in number, and each in how long it may take
//! over a request's head: short over the first, so that whoever sends nothing holds a place for seconds.
//!
//! After `stop` no connection is taken, idle ones close, and a request under way is answered.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, Request};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower_service::Service;
use tracing::{debug, info, warn};

/// How long a connection may take until its first request's head is there.
const FIRST_HEAD: Duration = Duration::from_secs(5);
/// How long a connection may wait for the next request's head, its first byte included. Longer than the minute for which
/// proxies commonly keep idle connections, so that it is they who close.
const HEAD: Duration = Duration::from_secs(75);
/// How long to wait where the machine gives no connection (out of file descriptors).
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Serves `router` on `listener` until `stop`, with at most `connections` at once; more wait in the system's queue.
pub async fn serve(listener: TcpListener, router: Router, connections: usize, stop: CancellationToken) {
    let permits = Arc::new(Semaphore::new(connections));
    let graceful = GracefulShutdown::new();
    let _ = stop.run_until_cancelled(accept_loop(&listener, &router, &permits, &graceful)).await;
    drop(listener);
    graceful.shutdown().await;
}

async fn accept_loop(listener: &TcpListener, router: &Router, permits: &Arc<Semaphore>, graceful: &GracefulShutdown) {
    let mut exhausted = false;
    // The semaphore is never closed.
    while let Ok(permit) = permits.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if std::mem::take(&mut exhausted) {
                    info!("connections can be accepted again");
                }
                tokio::spawn(connection(stream, peer, router.clone(), graceful.watcher(), permit));
            }
            // The peer's own fault, gone before it was taken.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                if !std::mem::replace(&mut exhausted, true) {
                    warn!(%error, "no connection can be accepted; raise the limit of open files");
                }
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
    _permit: OwnedSemaphorePermit,
) {
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "TCP_NODELAY could not be set");
    }
    let has_asked = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        answer(router.clone(), peer, request)
    });
    let mut http = http1::Builder::new();
    // In title case, as documents write names: not everybody reads them in any case.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).title_case_headers(true);
    let mut served = pin!(watcher.watch(http.serve_connection(TokioIo::new(stream), service)));
    let ended = match timeout(FIRST_HEAD, served.as_mut()).await {
        Ok(ended) => ended,
        Err(_) if has_asked.load(Ordering::Relaxed) => served.await,
        Err(_) => return debug!(%peer, "a connection asked nothing in time"),
    };
    if let Err(error) = ended {
        debug!(%error, %peer, "a connection ended badly");
    }
}

async fn answer(mut router: Router, peer: SocketAddr, request: Request<Incoming>) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    router.call(request).await
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn start(connections: usize) -> (SocketAddr, CancellationToken, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route(
            "/",
            get(|ConnectInfo(peer): ConnectInfo<SocketAddr>| async move {
                ([("x-request-id", "r-1")], peer.ip().to_string())
            }),
        );
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(listener, router, connections, stop.clone()));
        (address, stop, served)
    }

    async fn ask(stream: &mut TcpStream) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("written");
        let mut answer = vec![0; 1024];
        let read = stream.read(&mut answer).await.expect("read");
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    #[tokio::test]
    async fn requests_know_their_peer_and_a_stop_ends_idle_connections() {
        let (address, stop, served) = start(8).await;
        let mut stream = TcpStream::connect(address).await.expect("connected");
        let answer = ask(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("127.0.0.1"), "{answer}");
        stop.cancel();
        served.await.expect("it ends");
        assert_eq!(stream.read(&mut [0; 1]).await.expect("closed"), 0);
    }

    /// HTTP takes names in any case, a client may look for them as the contract writes them.
    #[tokio::test]
    async fn headers_are_written_as_the_contract_spells_them() {
        let (address, _stop, _served) = start(8).await;
        let answer = ask(&mut TcpStream::connect(address).await.expect("connected")).await;
        for header in ["Content-Type: text/plain", "X-Request-Id: r-1"] {
            assert!(answer.contains(&format!("\r\n{header}")), "{answer}");
        }
    }

    #[tokio::test]
    async fn whoever_asked_once_may_be_silent_longer_than_who_never_did() {
        let (address, stop, served) = start(2).await;
        let mut known = TcpStream::connect(address).await.expect("connected");
        assert!(ask(&mut known).await.starts_with("HTTP/1.1 200"));
        let mut silent = TcpStream::connect(address).await.expect("connected");
        tokio::time::pause();
        assert_eq!(silent.read(&mut [0; 1]).await.expect("closed"), 0);
        tokio::time::resume();
        assert!(ask(&mut known).await.starts_with("HTTP/1.1 200"));
        stop.cancel();
        served.await.expect("it ends");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_makes_room_after_a_while() {
        let (address, stop, served) = start(1).await;
        let mut silent = TcpStream::connect(address).await.expect("connected");
        silent.write_all(b"GET / HT").await.expect("written");
        let mut next = TcpStream::connect(address).await.expect("it waits in the system's queue");
        assert!(ask(&mut next).await.starts_with("HTTP/1.1 200"));
        stop.cancel();
        served.await.expect("it ends");
    }
}
