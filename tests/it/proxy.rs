//! A TCP proxy whose test decides what goes wrong, and when: whatever speaks requests and answers can be put behind it.
//!
//! It passes bytes on as they come until told otherwise. A fault is armed with the bytes that set it off ([`Proxy::arm`]),
//! so it strikes the very request that the test means, on the connection that carries it, and no other: nothing hangs on
//! how bytes are cut into packets or on who is faster. [`Proxy::struck`] waits until it did. What holds for all connections
//! is set at once: [`Proxy::cut_all`], [`Proxy::refuse`], [`Proxy::stall`], [`Proxy::slow_down`], [`Proxy::lead_to`].

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// What happens to the connection whose request holds the armed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request arrives (as far as it was said in one piece with the armed bytes); so many bytes of what the server says from then on pass, then both sides are cut.
    CutAnswer(usize),
    /// So many bytes behind the armed ones still arrive, then both sides are cut.
    CutRequest(usize),
    /// The request arrives; what the server says from then on is thrown away, and both sides stay open.
    SwallowAnswer,
    /// The request arrives, and from then on nothing passes any more, either way; both sides stay open.
    Hang,
}

/// A proxy on a port of its own; its connections end with it.
pub struct Proxy {
    address: SocketAddr,
    control: Arc<Control>,
    _accepting: AbortOnDropHandle<()>,
}

impl Proxy {
    /// Starts one in front of `target`, which need not be there.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port for the proxy");
        let address = listener.local_addr().expect("its address");
        let (settings, _) = watch::channel(Settings { target, refusing: false, stalled: false, delay: Duration::ZERO });
        let cut_all = Mutex::new(CancellationToken::new());
        let control = Arc::new(Control { settings, cut_all, armed: Mutex::default(), struck: watch::channel(0).0 });
        let accepting = tokio::spawn(accept(listener, control.clone()));
        Self { address, control, _accepting: AbortOnDropHandle::new(accepting) }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request that holds `bytes` sets `fault` off, once. Replaces a fault that was armed and not set off.
    pub fn arm(&self, bytes: &[u8], fault: Fault) {
        *lock(&self.control.armed) = Some((bytes.to_vec(), fault));
    }

    /// Takes an armed fault back; answers whether it was still there.
    pub fn disarm(&self) -> bool {
        lock(&self.control.armed).take().is_some()
    }

    /// Waits until so many faults have been set off since the proxy started.
    pub async fn struck(&self, times: usize) {
        let mut struck = self.control.struck.subscribe();
        let enough = struck.wait_for(|so_far| *so_far >= times);
        tokio::time::timeout(Duration::from_secs(20), enough).await.expect("it never struck").expect("the proxy lives");
    }

    /// Cuts every open connection.
    pub fn cut_all(&self) {
        std::mem::take(&mut *lock(&self.control.cut_all)).cancel();
    }

    /// Closes new connections at once, or takes them again. Open ones stay.
    pub fn refuse(&self, refusing: bool) {
        self.control.settings.send_modify(|s| s.refusing = refusing);
    }

    /// Passes nothing on, on open and new connections alike, as a network that drops packets does; or goes on where it was.
    pub fn stall(&self, stalled: bool) {
        self.control.settings.send_modify(|s| s.stalled = stalled);
    }

    /// Holds each piece back for so long, either way.
    pub fn slow_down(&self, delay: Duration) {
        self.control.settings.send_modify(|s| s.delay = delay);
    }

    /// Leads new connections elsewhere. Open ones stay.
    pub fn lead_to(&self, target: SocketAddr) {
        self.control.settings.send_modify(|s| s.target = target);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut_all();
    }
}

/// What holds for all connections.
struct Settings {
    target: SocketAddr,
    refusing: bool,
    stalled: bool,
    delay: Duration,
}

struct Control {
    settings: watch::Sender<Settings>,
    /// Cancelled to cut every connection that was made under it.
    cut_all: Mutex<CancellationToken>,
    armed: Mutex<Option<(Vec<u8>, Fault)>>,
    struck: watch::Sender<usize>,
}

/// No test goes on after a panic under one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("a test panicked here")
}

async fn accept(listener: TcpListener, control: Arc<Control>) {
    loop {
        let Ok((near, _)) = listener.accept().await else { continue };
        if control.settings.borrow().refusing {
            continue;
        }
        let cut = lock(&control.cut_all).child_token();
        let control = control.clone();
        tokio::spawn(async move { cut.clone().run_until_cancelled_owned(join(near, control, cut)).await });
    }
}

/// Both ways of one connection, until either ends.
async fn join(near: TcpStream, control: Arc<Control>, cut: CancellationToken) {
    let target = control.settings.borrow().target;
    let Ok(far) = TcpStream::connect(target).await else { return };
    for side in [&near, &far] {
        side.set_nodelay(true).expect("no delay");
    }
    let ((near_says, near_hears), (far_says, far_hears)) = (near.into_split(), far.into_split());
    let connection = Connection { control, down: watch::channel(None).0, cut };
    let up = connection.pass_up(near_says, far_hears);
    let down = connection.pass_down(far_says, near_hears);
    tokio::join!(up, down);
}

struct Connection {
    control: Arc<Control>,
    /// The fault that was set off here.
    down: watch::Sender<Option<Fault>>,
    cut: CancellationToken,
}

impl Connection {
    /// What the caller says. The end of it is passed on too, and leaves the other way open.
    async fn pass_up(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut said = Vec::new();
        while let Some(piece) = self.piece(&mut from).await {
            let before = said.len();
            said.extend_from_slice(&piece);
            let struck = self.strike(&said);
            let passes = match struck {
                Some((end, Fault::CutRequest(more))) => &piece[..(end + more).saturating_sub(before).min(piece.len())],
                _ => &piece[..],
            };
            if to.write_all(passes).await.is_err() {
                return self.cut.cancel();
            }
            if let Some((end, Fault::CutRequest(more))) = struck {
                let missing = (end + more).saturating_sub(before + piece.len());
                return self.pass_so_many(missing, from, to).await;
            }
            said.drain(..said.len().saturating_sub(self.longest_beginning()));
        }
        let _ = to.shutdown().await;
    }

    /// What the server says, as long as the fault lets it.
    async fn pass_down(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut left = None;
        while let Some(mut piece) = self.piece(&mut from).await {
            match *self.down.borrow() {
                None | Some(Fault::CutRequest(_)) => {}
                Some(Fault::SwallowAnswer | Fault::Hang) => piece.clear(),
                Some(Fault::CutAnswer(bytes)) => {
                    piece.truncate(*left.get_or_insert(bytes));
                }
            }
            let written = to.write_all(&piece).await;
            left = left.map(|bytes| bytes - piece.len());
            if written.is_err() || left == Some(0) {
                return self.cut.cancel();
            }
        }
        let _ = to.shutdown().await;
    }

    /// The last bytes of a connection that is then cut.
    async fn pass_so_many(&self, mut missing: usize, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        while missing > 0 {
            let Some(mut piece) = self.piece(&mut from).await else { break };
            piece.truncate(missing);
            missing -= piece.len();
            if to.write_all(&piece).await.is_err() {
                break;
            }
        }
        self.cut.cancel();
    }

    /// The next bytes, once they may pass; `None` at the end.
    async fn piece(&self, from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
        let mut piece = vec![0; 16 * 1024];
        let read = from.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        piece.truncate(read);
        let mut settings = self.control.settings.subscribe();
        let delay = settings.wait_for(|s| !s.stalled).await.ok()?.delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        // A connection that hangs does so for good.
        let mut down = self.down.subscribe();
        while *down.borrow_and_update() == Some(Fault::Hang) {
            down.changed().await.ok()?;
        }
        Some(piece)
    }

    /// Sets the armed fault off if the request holds its bytes; tells where those end.
    fn strike(&self, said: &[u8]) -> Option<(usize, Fault)> {
        let mut armed = lock(&self.control.armed);
        let (bytes, fault) = armed.as_ref()?;
        let start = said.windows(bytes.len()).position(|window| window == bytes)?;
        let struck = (start + bytes.len(), *fault);
        *armed = None;
        self.down.send_replace(Some(struck.1));
        self.control.struck.send_modify(|times| *times += 1);
        Some(struck)
    }

    /// How much of what was said may still be the beginning of the armed bytes.
    fn longest_beginning(&self) -> usize {
        lock(&self.control.armed).as_ref().map_or(0, |(bytes, _)| bytes.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each `?` by `answer!`, and tells all that it heard once the other side ends.
    async fn server() -> (SocketAddr, tokio::sync::mpsc::UnboundedReceiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        let (tell, heard) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let tell = tell.clone();
                tokio::spawn(async move {
                    let (mut all, mut byte) = (String::new(), [0]);
                    while matches!(stream.read(&mut byte).await, Ok(1)) {
                        all.push(char::from(byte[0]));
                        if byte[0] == b'?' && stream.write_all(b"answer!").await.is_err() {
                            break;
                        }
                    }
                    let _ = tell.send(all);
                });
            }
        });
        (address, heard)
    }

    async fn ask(stream: &mut TcpStream, question: &str) {
        stream.write_all(question.as_bytes()).await.expect("ask");
    }

    /// What comes until the connection ends; a reset is an end.
    async fn rest(stream: &mut TcpStream) -> String {
        let mut all = Vec::new();
        let read = async { while stream.read_buf(&mut all).await.is_ok_and(|read| read > 0) {} };
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("it stays open");
        String::from_utf8(all).expect("text")
    }

    async fn answer(stream: &mut TcpStream) -> String {
        let mut answer = [0; 7];
        let read = stream.read_exact(&mut answer);
        tokio::time::timeout(Duration::from_secs(20), read).await.expect("no answer").expect("an answer");
        String::from_utf8(answer.to_vec()).expect("text")
    }

    /// Whether nothing comes although the other direction is known to work: bounded below, never above.
    async fn is_silent(stream: &mut TcpStream) -> bool {
        tokio::time::timeout(Duration::from_millis(50), stream.read_u8()).await.is_err()
    }

    #[tokio::test]
    async fn faults_strike_the_request_that_was_meant() {
        let (target, mut heard) = server().await;
        let proxy = Proxy::to(target).await;
        let open = async || TcpStream::connect(proxy.address()).await.expect("connect");
        let (mut a, mut b) = (open().await, open().await);
        proxy.arm(b"second", Fault::CutAnswer(3));
        ask(&mut a, "first?").await;
        assert_eq!(answer(&mut a).await, "answer!");
        // Also when its bytes come in pieces.
        ask(&mut a, "sec").await;
        ask(&mut b, "other?").await;
        assert_eq!(answer(&mut b).await, "answer!");
        ask(&mut a, "ond?").await;
        assert_eq!(rest(&mut a).await, "ans");
        proxy.struck(1).await;
        assert_eq!(heard.recv().await.as_deref(), Some("first?second?"));

        proxy.arm(b"ot", Fault::CutRequest(2));
        ask(&mut b, "another?").await;
        assert_eq!(rest(&mut b).await, "");
        assert_eq!(heard.recv().await.as_deref(), Some("other?anothe"));
        assert!(!proxy.disarm());
    }

    #[tokio::test]
    async fn silence_leaves_both_sides_open() {
        let (target, mut heard) = server().await;
        let proxy = Proxy::to(target).await;
        for (times, fault, arrives) in [(1, Fault::SwallowAnswer, "one?two?"), (2, Fault::Hang, "one?")] {
            let mut stream = TcpStream::connect(proxy.address()).await.expect("connect");
            proxy.arm(b"one", fault);
            ask(&mut stream, "one?").await;
            proxy.struck(times).await;
            ask(&mut stream, "two?").await;
            assert!(is_silent(&mut stream).await);
            proxy.cut_all();
            assert_eq!(rest(&mut stream).await, "");
            assert_eq!(heard.recv().await.as_deref(), Some(arrives), "{fault:?}");
        }
    }

    #[tokio::test]
    async fn all_connections_are_stalled_refused_and_led_elsewhere() {
        let ((target, _old), (other, mut heard)) = (server().await, server().await);
        let proxy = Proxy::to(target).await;
        let mut stream = TcpStream::connect(proxy.address()).await.expect("connect");
        proxy.stall(true);
        ask(&mut stream, "one?").await;
        assert!(is_silent(&mut stream).await);
        proxy.slow_down(Duration::from_millis(1));
        proxy.stall(false);
        assert_eq!(answer(&mut stream).await, "answer!");
        proxy.refuse(true);
        assert_eq!(rest(&mut TcpStream::connect(proxy.address()).await.expect("connect")).await, "");
        proxy.refuse(false);
        proxy.lead_to(other);
        let mut elsewhere = TcpStream::connect(proxy.address()).await.expect("connect");
        ask(&mut elsewhere, "two?").await;
        assert_eq!(answer(&mut elsewhere).await, "answer!");
        ask(&mut stream, "three?").await;
        assert_eq!(answer(&mut stream).await, "answer!");
        drop(proxy);
        assert_eq!(rest(&mut elsewhere).await, "");
        assert_eq!(heard.recv().await.as_deref(), Some("two?"));
    }
}
