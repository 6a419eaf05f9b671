//! A real MariaDB on a free port of 127.0.0.1, in a folder of its own, gone with its last handle. Tests that run at once
//! share one and have a database each: a server takes a second to start.

use std::io::BufReader;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use tempfile::TempDir;
use wecom_gateway::model::Secret;

use crate::redis_server::{free_port, said_in};

/// Tries to find a port that nobody takes between our look and the server's start.
const PORT_TRIES: usize = 20;

/// The one that runs now.
static SHARED: Mutex<Weak<MariaDbServer>> = Mutex::new(Weak::new());
/// Numbers databases.
static DATABASES: AtomicU32 = AtomicU32::new(0);

/// A running server.
pub struct MariaDbServer {
    child: Option<Child>,
    port: u16,
    folder: TempDir,
    memory: Memory,
}

/// What a server may use, in MiB.
#[derive(Clone, Copy)]
struct Memory {
    /// Of pages.
    pool: u32,
    /// Of its redo log.
    log: u32,
}

/// Enough for tests, which several servers may run at once for.
const SMALL: Memory = Memory { pool: 32, log: 16 };
/// As a team's own, small, server has it.
const USUAL: Memory = Memory { pool: 512, log: 512 };

/// A database of its own on a server.
pub struct MariaDb {
    name: String,
    server: Arc<MariaDbServer>,
}

impl MariaDb {
    /// A new database on the shared server. A test without a server fails.
    pub async fn new() -> Self {
        let shared = tokio::task::spawn_blocking(|| {
            let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let server = Arc::new(MariaDbServer::spawn(SMALL));
                *shared = Arc::downgrade(&server);
                server
            })
        });
        Self::on(shared.await.expect("a server")).await
    }

    /// A new database on a server of its own.
    pub async fn alone() -> Self {
        Self::with(SMALL).await
    }

    /// As [`MariaDb::alone`], with the memory for a measurement.
    pub async fn measured() -> Self {
        Self::with(USUAL).await
    }

    async fn with(memory: Memory) -> Self {
        let server = tokio::task::spawn_blocking(move || MariaDbServer::spawn(memory));
        Self::on(Arc::new(server.await.expect("a server"))).await
    }

    async fn on(server: Arc<MariaDbServer>) -> Self {
        let name = format!("records{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let url = format!("mysql://root@127.0.0.1:{}", server.port);
        let mut connection = MySqlConnection::connect(&url).await.expect("a connection");
        connection.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await.expect("a database");
        Self { name, server }
    }

    /// Its address.
    pub fn url(&self) -> Secret {
        self.url_by(self.server())
    }

    /// Its address by way of a proxy that leads to its [`MariaDb::server`].
    pub fn url_by(&self, proxy: SocketAddr) -> Secret {
        Secret::new(format!("mysql://root@{proxy}/{}", self.name))
    }

    /// Where its server listens.
    pub fn server(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.server.port))
    }

    /// A connection to it.
    pub async fn connect(&self) -> MySqlConnection {
        MySqlConnection::connect(self.url().expose()).await.expect("a connection")
    }

    /// Bytes of its tables' files.
    pub fn size(&self) -> u64 {
        let folder = self.server.folder.path().join("data").join(&self.name);
        let files = std::fs::read_dir(folder).expect("its folder");
        files.map(|file| file.expect("a file").metadata().expect("its size").len()).sum()
    }

    /// Kills its server, which must be its own, without a warning.
    pub fn kill(&mut self) {
        Arc::get_mut(&mut self.server).expect("a server of its own").kill();
    }

    /// Starts it again on the same port and folder.
    pub fn start(&mut self) {
        Arc::get_mut(&mut self.server).expect("a server of its own").start().expect("it starts again");
    }
}

impl MariaDbServer {
    fn spawn(memory: Memory) -> Self {
        let folder = tempfile::tempdir().expect("a folder for mariadbd");
        let install = Command::new("mariadb-install-db")
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ])
            .arg(format!("--datadir={}", folder.path().join("data").display()))
            // Two that install at once take each other's files from a shared one.
            .arg(format!("--tmpdir={}", folder.path().display()))
            .output()
            .unwrap_or_else(|error| panic!("these tests need mariadb-install-db on the PATH: {error}"));
        assert!(install.status.success(), "{}", String::from_utf8_lossy(&install.stderr));
        let mut server = Self { child: None, port: 0, folder, memory };
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            server.port = free_port();
            match server.start() {
                Ok(()) => return server,
                Err(said) => log = said,
            }
        }
        panic!("mariadbd does not start:\n{log}");
    }

    /// Starts the process and reads its log until it says that it is ready; `Err` is the log of one that ended.
    fn start(&mut self) -> Result<(), String> {
        let folder = self.folder.path();
        // Debian keeps servers where an ordinary user's PATH does not look.
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let mut child = Command::new("mariadbd")
            .env("PATH", path)
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin"])
            .arg(format!("--innodb-buffer-pool-size={}M", self.memory.pool))
            .arg(format!("--innodb-log-file-size={}M", self.memory.log))
            .arg("--user=root")
            .arg(format!("--port={}", self.port))
            .arg(format!("--datadir={}", folder.join("data").display()))
            .arg(format!("--tmpdir={}", folder.display()))
            .arg(format!("--socket={}", folder.join("socket").display()))
            .arg(format!("--pid-file={}", folder.join("pid").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("these tests need mariadbd on the PATH or in /usr/sbin: {error}"));
        let log = BufReader::new(child.stderr.take().expect("its log"));
        self.child = Some(child);
        said_in(log, "ready for connections")
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill mariadbd");
            child.wait().expect("mariadbd ends");
        }
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        self.kill();
    }
}
