//! The real nginx and the real Caddy with the files of `deploy/`, on free ports of 127.0.0.1; gone with their handle.
//!
//! Of the files only what names a place is changed: addresses, the certificate. What stands around them here is what a
//! distribution's own main file does (folders, logs).

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::redis_server::free_port;
use crate::world::TEST;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Tries to find ports that nobody takes between our look and the server's start.
const PORT_TRIES: usize = 5;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Nginx,
    Caddy,
}

/// A reverse proxy before two gateways.
pub struct ReverseProxy {
    child: Child,
    pub address: SocketAddr,
    _folder: TempDir,
}

impl ReverseProxy {
    /// Starts one and waits until it takes connections. A test without the program fails.
    pub async fn start(kind: Kind, gateways: [SocketAddr; 2]) -> Self {
        let started = async {
            for _ in 0..PORT_TRIES {
                if let Some(proxy) = Self::try_start(kind, gateways).await {
                    return proxy;
                }
            }
            panic!("{kind:?} does not start: what it says stands above");
        };
        tokio::time::timeout(TEST, started).await.expect("it takes connections")
    }

    /// `None` where it ended.
    async fn try_start(kind: Kind, gateways: [SocketAddr; 2]) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let mut command = match kind {
            Kind::Nginx => nginx(folder.path(), address, gateways),
            Kind::Caddy => caddy(folder.path(), address, gateways),
        };
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = spawned.unwrap_or_else(|error| panic!("{kind:?}: {error}: scripts/test brings it"));
        let mut proxy = Self { child, address, _folder: folder };
        let mut again = tokio::time::interval(Duration::from_millis(20));
        while proxy.child.try_wait().unwrap().is_none() {
            if TcpStream::connect(address).await.is_ok() {
                return Some(proxy);
            }
            again.tick().await;
        }
        None
    }
}

impl Drop for ReverseProxy {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program as scripts/test fetches it, else that of the PATH.
fn program(fetched: &str, name: &str) -> Command {
    let fetched = Path::new(ROOT).join("target").join(fetched);
    Command::new(if fetched.exists() { fetched } else { PathBuf::from(name) })
}

/// A file of `deploy/`, with each of these texts, which it must hold once, replaced.
fn example(file: &str, changes: &[(&str, String)]) -> String {
    let text = fs::read_to_string(Path::new(ROOT).join("deploy").join(file)).unwrap();
    changes.iter().fold(text, |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
        text.replace(from, to)
    })
}

fn nginx(folder: &Path, address: SocketAddr, [first, second]: [SocketAddr; 2]) -> Command {
    let (certificate, key) = certificate(folder);
    let site = example(
        "nginx/wecom-gateway.conf",
        &[
            ("server 127.0.0.1:8080 ", format!("server {first} ")),
            ("server 127.0.0.1:8090 ", format!("server {second} ")),
            ("listen 443 ssl;", format!("listen {address};\n    listen 127.0.0.1:{} ssl;", free_port())),
            ("/etc/ssl/bot.example.com/fullchain.pem", certificate),
            ("/etc/ssl/bot.example.com/privkey.pem", key),
        ],
    );
    fs::write(folder.join("site.conf"), site).unwrap();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("    {name}_temp_path {}/{name};\n", folder.display()))
        .collect();
    // One process, so that it ends with its handle.
    let main = format!(
        "daemon off;\nmaster_process off;\nerror_log stderr crit;\npid {folder}/pid;\nevents {{}}\nhttp {{\n    access_log off;\n{temporary}    include {folder}/site.conf;\n}}\n",
        folder = folder.display()
    );
    fs::write(folder.join("nginx.conf"), main).unwrap();
    let mut command = program("tools/nginx", "nginx");
    command.env("PATH", path_with_servers()).args(["-e", "stderr", "-p"]).arg(folder).arg("-c");
    command.arg(folder.join("nginx.conf"));
    command
}

fn caddy(folder: &Path, address: SocketAddr, [first, second]: [SocketAddr; 2]) -> Command {
    let site = example(
        "caddy/Caddyfile",
        &[
            ("bot.example.com {", format!("http://:{} {{\n\tbind 127.0.0.1", address.port())),
            ("127.0.0.1:8080 127.0.0.1:8090", format!("{first} {second}")),
        ],
    );
    let file = folder.join("Caddyfile");
    fs::write(&file, format!("{{\n\tadmin off\n\tlog {{\n\t\tlevel ERROR\n\t}}\n}}\n{site}")).unwrap();
    let mut command = program("python/bin/caddy", "caddy");
    command.args(["run", "--adapter", "caddyfile", "--config"]).arg(file);
    // Where it keeps what it would remember.
    command.env("HOME", folder).env_remove("XDG_DATA_HOME").env_remove("XDG_CONFIG_HOME");
    command
}

/// A self-signed certificate and its key.
fn certificate(folder: &Path) -> (String, String) {
    let [certificate, key] = ["fullchain.pem", "privkey.pem"].map(|name| folder.join(name).display().to_string());
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]);
    command.args(["-subj", "/CN=bot.example.com", "-keyout", &key, "-out", &certificate]);
    let made = command.output().expect("openssl: scripts/test brings it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

/// Debian keeps servers where a user's PATH does not look.
fn path_with_servers() -> String {
    format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default())
}
