//! Real redis-server processes on free ports of 127.0.0.1, each with its own folder, gone with their handle.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use tempfile::TempDir;
use wecom_gateway::model::Secret;

/// Arguments by which an answered write survives a kill.
pub const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
/// Tries to find a port that nobody takes between our look and the server's start.
const PORT_TRIES: usize = 20;

/// Among the arguments: any port that is free.
#[allow(dead_code, reason = "benches need none")]
pub const FREE_PORT: &str = "(free)";

/// A running (or killed) server.
pub struct RedisServer {
    child: Option<Child>,
    port: u16,
    /// In place of each [`FREE_PORT`] among `args`, in order.
    free: Vec<u16>,
    folder: TempDir,
    args: Vec<String>,
    is_sentinel: bool,
}

impl RedisServer {
    /// Starts a server with these arguments and waits until it takes connections. A test without a server fails.
    pub fn spawn(args: &[&str]) -> Self {
        Self::spawn_as(args, false)
    }

    /// Starts a sentinel, which watches nobody yet.
    #[allow(dead_code, reason = "benches need none")]
    pub fn spawn_sentinel() -> Self {
        Self::spawn_as(&[], true)
    }

    fn spawn_as(args: &[&str], is_sentinel: bool) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        let folder = tempfile::tempdir().expect("a folder for redis-server");
        let mut server = Self { child: None, port: 0, free: Vec::new(), folder, args, is_sentinel };
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            server.port = free_port();
            server.free = server.args.iter().filter(|arg| *arg == FREE_PORT).map(|_| free_port()).collect();
            match server.start() {
                Ok(()) => return server,
                Err(said) => log = said,
            }
        }
        panic!("redis-server does not start:\n{log}");
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What stands in place of the `n`-th [`FREE_PORT`].
    #[allow(dead_code, reason = "benches need none")]
    pub fn free_port(&self, n: usize) -> u16 {
        self.free[n]
    }

    /// Its address.
    pub fn url(&self) -> Secret {
        Secret::new(format!("redis://127.0.0.1:{}", self.port))
    }

    /// Its process, while it runs.
    #[allow(dead_code, reason = "benches ask for its CPU time")]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it without a warning (`SIGKILL`).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill redis-server");
            child.wait().expect("redis-server ends");
        }
    }

    /// Kills it and starts it again on the same port and folder.
    pub fn restart(&mut self) {
        self.kill();
        if let Err(log) = self.start() {
            panic!("redis-server does not start again:\n{log}");
        }
    }

    /// Kills it and starts it again with nothing in its folder.
    pub fn restart_empty(&mut self) {
        self.kill();
        self.folder = tempfile::tempdir().expect("a folder for redis-server");
        self.restart();
    }

    /// Every write that a [`DURABLE`] one has taken, as its log has them.
    pub fn written(&self) -> String {
        let logs = std::fs::read_dir(self.folder.path().join("appendonlydir")).expect("the log's folder");
        let text = |log: std::io::Result<std::fs::DirEntry>| std::fs::read(log.expect("a file").path()).expect("a log");
        logs.map(|log| String::from_utf8_lossy(&text(log)).into_owned()).collect()
    }

    /// Lets it hang: connections stay open and nothing is answered.
    pub fn hang(&self) {
        self.signal("-STOP");
    }

    /// Lets it go on after [`RedisServer::hang`].
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().expect("kill is there").success());
    }

    /// Runs one command.
    pub async fn command<T: redis::FromRedisValue>(&self, words: &[&str]) -> T {
        self.command_at(self.url().expose(), words).await
    }

    /// Runs one command with a password.
    pub async fn command_as<T: redis::FromRedisValue>(&self, password: &str, words: &[&str]) -> T {
        self.command_at(&format!("redis://:{password}@127.0.0.1:{}", self.port), words).await
    }

    async fn command_at<T: redis::FromRedisValue>(&self, url: &str, words: &[&str]) -> T {
        let client = redis::Client::open(url).expect("a client");
        let mut connection = client.get_multiplexed_async_connection().await.expect("a connection");
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]);
        command.query_async(&mut connection).await.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Starts the process and reads its log until it says that it is ready; `Err` is the log of one that ended.
    fn start(&mut self) -> Result<(), String> {
        let mut command = Command::new("redis-server");
        if self.is_sentinel {
            // It keeps there what it is told.
            let file = self.folder.path().join("sentinel.conf");
            std::fs::File::options().create(true).append(true).open(&file).expect("a sentinel's file");
            command.arg(file).arg("--sentinel");
        } else {
            command.args(["--save", ""]);
        }
        let mut free = self.free.iter();
        let args = self.args.iter().map(|arg| match arg.as_str() {
            FREE_PORT => free.next().expect("one for each").to_string(),
            arg => arg.to_owned(),
        });
        let mut child = command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string(), "--logfile", ""])
            .arg("--dir")
            .arg(self.folder.path())
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("these tests need redis-server on the PATH: {error}"));
        let log = BufReader::new(child.stdout.take().expect("its log"));
        self.child = Some(child);
        said_in(log, if self.is_sentinel { "Sentinel ID is" } else { "Ready to accept connections" })
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads a server's log until `words` stand in a line of it; `Err` is the log of one that ended without.
pub fn said_in(log: impl BufRead + Send + 'static, words: &'static str) -> Result<(), String> {
    let (ready, is_ready) = mpsc::channel();
    // Reads on after that, so that the server never waits for its log to be read.
    std::thread::spawn(move || {
        let mut said = String::new();
        for line in log.lines().map_while(Result::ok) {
            if line.contains(words) {
                let _ = ready.send(Ok(()));
                said.clear();
            }
            said.push_str(&line);
            said.push('\n');
        }
        let _ = ready.send(Err(said));
    });
    is_ready.recv().expect("its log tells something")
}

/// A port that nobody has now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
