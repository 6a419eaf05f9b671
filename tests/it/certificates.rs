//! A machine without CA certificates: what is spoken by plain http needs none.

use std::process::Command;

use wecom_gateway::sim::{FakeWeCom, Options, Scenario, scenario::robot_app};

use crate::crash::process::{Gateway, NO_CERTIFICATES};
use crate::world::{APP, TEST};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_and_its_commands_need_none_for_plain_http() {
    let fake = FakeWeCom::start(Options::default()).await.unwrap();
    let scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, &["c1".into()]));
    let config = scenario.write().unwrap();
    let started = tokio::time::timeout(TEST, Gateway::start_without_certificates(&config)).await.expect("in time");
    let gateway = started.unwrap_or_else(|ended| panic!("{}", ended.said));

    let mut trace = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    trace.args(["trace", "nobody", "--admin"]).arg(format!("http://{}", gateway.admin)).envs(NO_CERTIFICATES);
    let traced = tokio::time::timeout(TEST, tokio::task::spawn_blocking(move || trace.output()));
    let traced = traced.await.expect("in time").unwrap().unwrap();
    let said = String::from_utf8_lossy(&traced.stderr);
    assert!(said.contains("nothing is known under the id \"nobody\""), "{said}");

    let said = tokio::time::timeout(TEST, gateway.terminate()).await.expect("in time").said;
    assert!(said.contains("nothing can be sent by https"), "{said}");
    fake.stop().await;
}
