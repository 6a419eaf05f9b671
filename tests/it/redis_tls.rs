//! Redis by TLS (`rediss://`): a gateway that trusts the server's certificate works on it, and no other does.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario, robot_text, scenario::robot_app};

use crate::crash::process::Gateway;
use crate::redis_server::{FREE_PORT, RedisServer};
use crate::world::{APP, caller_at, key};

/// A certificate for this machine and its key, signed by itself.
fn certificate(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let [certificate, key] = ["crt", "key"].map(|kind| folder.join(format!("{name}.{kind}")));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"])
        .args([
            "-subj",
            "/CN=redis",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .expect("openssl: scripts/test brings it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    (certificate, key)
}

#[tokio::test]
async fn a_server_is_reached_by_tls_where_its_certificate_is_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, private) = certificate(folder.path(), "redis");
    let (stranger, _) = self::certificate(folder.path(), "stranger");
    let server = RedisServer::spawn(&[
        "--tls-port",
        FREE_PORT,
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        private.to_str().unwrap(),
        "--tls-ca-cert-file",
        certificate.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ]);
    let fake = FakeWeCom::start(Options::default()).await.unwrap();
    let scenario = || {
        let scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, &["c1".into()]));
        scenario.on_redis(&format!("rediss://127.0.0.1:{}", server.free_port(0)))
    };
    let trusting = scenario();
    let gateway = Gateway::start_trusting(&certificate, &trusting.write().unwrap()).await.unwrap();
    let caller = caller_at(gateway.callbacks, &trusting, APP);
    assert_eq!(caller.post(&robot_text("c1", "u1", "m1", "/echo hello")).await, Some(200));
    fake.until(|fake| fake.posts(&key("c1")) == 1).await;
    let kept: u64 = server.command(&["EXISTS", "wg:meta"]).await;
    assert_eq!(kept, 1, "it worked on that server");

    let wary = scenario();
    let other = Gateway::start_trusting(&stranger, &wary.write().unwrap()).await.unwrap();
    other.says("redis can't be used").await;
    let ready = reqwest::get(format!("http://{}/readyz", other.admin)).await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(ready["store"], "unreachable", "{ready}");
}
