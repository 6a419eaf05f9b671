//! What is sound but lets strangers in is told where somebody looks: by `check`, and by `serve` at its start.

use std::process::Command;

use serde_json::json;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario, scenario::json_app, scenario::robot_app};

use crate::crash::process::Gateway;
use crate::world::{APP, TEST};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_doors_are_told_by_check_and_at_each_start() {
    let fake = FakeWeCom::start(Options::default()).await.unwrap();
    let mut sample = robot_app(&fake, "sample", &[]);
    sample["token"] = "SampleTokenReplaceMe".into();
    let mut open = json_app(&fake, "open", &[], ("X-Token", "v"));
    open["auth"] = json!({"type": "none"});
    let scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, &["c1".into()]));
    let scenario = scenario.app("sample", sample).app("open", open);
    let config = scenario.write().unwrap();
    let told = [
        "app \"open\": auth is \"none\", so that anybody who can reach its callback path",
        "app \"sample\": token or encoding_aes_key is the published sample",
    ];

    let mut check = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
    check.args(["check", "--config"]).arg(&config);
    let checked = tokio::task::spawn_blocking(move || check.output()).await.unwrap().unwrap();
    let said = String::from_utf8([checked.stdout, checked.stderr].concat()).unwrap();
    assert!(checked.status.success(), "hints are no faults: {said}");
    for words in told {
        assert!(said.contains(&format!("Hint: {words}")), "{words}: {said}");
    }
    assert!(!said.contains(&format!("Hint: app \"{APP}\"")), "{said}");

    let served = async { Gateway::start(&config, None).await.unwrap().terminate().await.said };
    let said = tokio::time::timeout(TEST, served).await.expect("within its time");
    for words in told {
        let words = words.replace('"', "\\\"");
        let line = said.lines().find(|line| line.contains(&words)).unwrap_or_else(|| panic!("{words}: {said}"));
        assert!(line.contains("WARN"), "{line}");
    }
    fake.stop().await;
}
