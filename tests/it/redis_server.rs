//! A redis-server of one test: free port, own folder, every write on disk before its answer, gone when dropped.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long it may take to start.
const START: Duration = Duration::from_secs(20);

pub struct RedisServer {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl RedisServer {
    /// Fails where no redis-server is installed: its tests must not pass by being skipped.
    pub fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args(["--appendfsync", "always", "--dir"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()?;
        let deadline = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() > deadline || process.try_wait()?.is_some() {
                let _ = process.kill();
                return Err(io::Error::other("redis-server did not start"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Self { process, port, _folder: folder })
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
