//! One gateway as a process of its own. It is gone with its handle.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, prlimit, waitpid};
use serde_json::Value;
use tokio::sync::watch;

const BINARY: &str = env!("CARGO_BIN_EXE_wecom-gateway");
/// Hides the system's CA certificates from a process.
pub const NO_CERTIFICATES: [(&str, &str); 2] = [("SSL_CERT_FILE", "/dev/null"), ("SSL_CERT_DIR", "/dev/null")];
/// Log lines that are kept for whoever asks why.
const LINES: usize = 300;

/// A process that serves.
pub struct Gateway {
    child: Child,
    pub callbacks: SocketAddr,
    pub admin: SocketAddr,
    log: Log,
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    /// What it wrote, its last lines.
    pub said: String,
}

impl Ended {
    /// The signal that ended it.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

#[derive(Clone)]
struct Log(Arc<watch::Sender<State>>);

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    addresses: Option<(SocketAddr, SocketAddr)>,
    /// Nobody writes any more: the process has ended.
    closed: bool,
}

impl Gateway {
    /// Starts `serve` and waits until it takes callbacks; `trap` is a crash point. `Err` where it ended instead.
    pub async fn start(config: &Path, trap: Option<&str>) -> Result<Self, Ended> {
        Self::of(Command::new(BINARY), config, trap).await
    }

    /// As [`Gateway::start`], one whose disk can be made full: where a limit refuses a write, only the write fails.
    pub async fn start_on_a_small_disk(config: &Path) -> Result<Self, Ended> {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"trap "" XFSZ; exec "$0" "$@""#, BINARY]);
        Self::of(shell, config, None).await
    }

    /// As [`Gateway::start`], one that trusts the certificates of this file alone.
    pub async fn start_trusting(certificates: &Path, config: &Path) -> Result<Self, Ended> {
        let mut command = Command::new(BINARY);
        command.env("SSL_CERT_FILE", certificates);
        Self::of(command, config, None).await
    }

    /// As [`Gateway::start`], on a machine that has no CA certificates.
    pub async fn start_without_certificates(config: &Path) -> Result<Self, Ended> {
        let mut command = Command::new(BINARY);
        command.envs(NO_CERTIFICATES);
        Self::of(command, config, None).await
    }

    async fn of(mut command: Command, config: &Path, trap: Option<&str>) -> Result<Self, Ended> {
        command
            .arg("serve")
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.env_remove("WECOM_GATEWAY_CRASH").envs(trap.map(|trap| ("WECOM_GATEWAY_CRASH", trap)));
        let mut child = command.spawn().expect("the gateway's binary");
        let log = Log(Arc::new(watch::Sender::new(State::default())));
        let (stderr, reader) = (BufReader::new(child.stderr.take().expect("its stderr")), log.clone());
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).for_each(|line| reader.add(line));
            reader.0.send_modify(|state| state.closed = true);
        });
        log.until(|state| state.closed || state.addresses.is_some()).await;
        let addresses = log.0.borrow().addresses;
        match addresses {
            Some((callbacks, admin)) => Ok(Self { child, callbacks, admin, log }),
            None => Err(Ended { status: child.wait().expect("its end"), said: log.text() }),
        }
    }

    /// From now on no file of its takes a byte, as on a full disk; or they do again.
    pub fn fill_disk(&self, full: bool) {
        let limit = Rlimit { current: full.then_some(0), maximum: None };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Fsize, limit).expect("a process of ours");
    }

    /// Waits until it has written a line with this in it.
    pub async fn says(&self, words: &str) {
        self.log.until(|state| state.lines.iter().any(|line| line.contains(words))).await;
    }

    /// Waits until it ends by itself.
    pub async fn ends(mut self) -> Ended {
        self.log.until(|state| state.closed).await;
        Ended { status: self.child.wait().expect("its end"), said: self.log.text() }
    }

    /// `kill -9`
    pub fn kill(self) {}

    /// SIGTERM, and waits for its end.
    pub async fn terminate(self) -> Ended {
        self.signal(Signal::TERM);
        self.ends().await
    }

    /// Puts it to sleep where it stands.
    pub fn sleep(&self) {
        self.signal(Signal::STOP);
    }

    /// Waits until it sleeps.
    pub async fn is_asleep(&self) {
        let pid = Pid::from_child(&self.child);
        let waited = tokio::task::spawn_blocking(move || waitpid(Some(pid), WaitOptions::UNTRACED));
        let (_, status) = waited.await.expect("no panic").expect("a child of ours").expect("a change");
        assert!(status.stopped(), "it ended instead: {status:?}");
    }

    /// Wakes it.
    pub fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends it any signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process of ours");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Log {
    fn add(&self, line: String) {
        let event: Value = serde_json::from_str(&line).unwrap_or_default();
        let address = |field: &str| event[field].as_str().and_then(|text| text.parse().ok());
        self.0.send_modify(|state| {
            if let Some(addresses) = address("callback_addr").zip(address("admin_addr")) {
                state.addresses = Some(addresses);
            }
            state.lines.push_back(line);
            let over = state.lines.len().saturating_sub(LINES);
            state.lines.drain(..over);
        });
    }

    async fn until(&self, holds: impl FnMut(&State) -> bool) {
        // This is a sender: there is one for as long as it waits.
        let _ = self.0.subscribe().wait_for(holds).await;
    }

    fn text(&self) -> String {
        self.0.borrow().lines.iter().fold(String::new(), |text, line| text + line + "\n")
    }
}
