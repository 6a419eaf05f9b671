//! The proxy between WeCom and the gateways: one address, each connection to a gateway that lives, by turn.
//!
//! A connection lives and dies with the gateway behind it; where none takes it, it is closed. It reads nothing.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::AbortOnDropHandle;

pub struct Front {
    addr: SocketAddr,
    behind: Arc<Behind>,
    _accepting: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Behind {
    gateways: Mutex<Vec<SocketAddr>>,
    turn: AtomicUsize,
}

impl Front {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let (addr, behind) = (listener.local_addr().expect("its address"), Arc::<Behind>::default());
        let shared = Arc::clone(&behind);
        let accepting = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let behind = Arc::clone(&shared);
                tokio::spawn(async move {
                    if let Some(mut gateway) = behind.connect().await {
                        // Ends with whichever end goes first.
                        let _ = copy_bidirectional(&mut stream, &mut gateway).await;
                    }
                });
            }
        });
        Self { addr, behind, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// An app's callback URL.
    pub fn callback(&self, app: &str) -> String {
        format!("http://{}/callback/{app}", self.addr)
    }

    pub fn add(&self, gateway: SocketAddr) {
        self.behind.gateways.lock().unwrap().push(gateway);
    }

    pub fn remove(&self, gateway: SocketAddr) {
        self.behind.gateways.lock().unwrap().retain(|other| *other != gateway);
    }
}

impl Behind {
    /// A connection to a gateway, each tried once.
    async fn connect(&self) -> Option<TcpStream> {
        let gateways = self.gateways.lock().unwrap().clone();
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for n in 0..gateways.len() {
            let Ok(stream) = TcpStream::connect(gateways[(first + n) % gateways.len()]).await else { continue };
            let _ = stream.set_nodelay(true);
            return Some(stream);
        }
        None
    }
}
