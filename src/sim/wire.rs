//! Connections that can be cut: a listener whose connections carry [`Scissors`], with which a handler drops its own
//! connection after the request was read and before any byte of the answer left.
//!
//! That is the failure that leaves a sender not knowing whether its message arrived.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Listens like a `TcpListener`.
pub struct WireListener(pub TcpListener);

/// One connection.
pub struct Wire {
    stream: TcpStream,
    scissors: Scissors,
}

/// Cuts the connection that it came with.
#[derive(Clone, Debug, Default)]
pub struct Scissors(Arc<AtomicBool>);

impl Scissors {
    /// From now on nothing is written; the connection closes at the next try.
    pub fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }
    fn check(&self) -> io::Result<()> {
        match self.0.load(Ordering::Acquire) {
            true => Err(io::ErrorKind::ConnectionReset.into()),
            false => Ok(()),
        }
    }
}

impl Listener for WireListener {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        let (stream, peer) = Listener::accept(&mut self.0).await;
        // Small answers must not wait for more to say.
        let _ = stream.set_nodelay(true);
        (Wire { stream, scissors: Scissors::default() }, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl Connected<IncomingStream<'_, WireListener>> for Scissors {
    fn connect_info(stream: IncomingStream<'_, WireListener>) -> Self {
        stream.io().scissors.clone()
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.scissors.check()?;
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
