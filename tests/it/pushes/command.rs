//! `wecom-gateway push`: a file of tasks, handed to a gateway that runs.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use axum::http::StatusCode;
use axum::{Json, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc::unbounded_channel;

use super::{task, until};
use crate::on_both_stores;
use crate::world::{On, TEST, World};

on_both_stores!(a_file_of_tasks_is_handed_over_line_by_line);

/// A chat without a way out, such as a mistyped one: its deliveries end when the task is taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_to_nobody_is_told_at_once() {
    let world = World::new(On::Embedded, &["c1"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.jsonl");
    let mut both = task("t3", "c1", "hi");
    both["target"] = json!({"chats": ["c1", "c9"]});
    let lines = [task("t1", "c1", "hi"), task("t2/x", "cl", "hi"), both].map(|task| task.to_string());
    std::fs::write(&file, lines.join("\n")).unwrap();
    // The same again says the same.
    for table in ["outcome tasks taken 1 dropped 2", "outcome tasks taken 0 known before 1 dropped 2"] {
        let (code, out, err) = command(&world, &file).await;
        assert_eq!(code, 1, "{out}{err}");
        let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(out, table, "{err}");
        assert!(err.contains(":2: dropped in chat \"cl\" (route_missing)"), "{err}");
        assert!(err.contains(":3: dropped in chat \"c9\" (route_missing)"), "{err}");
        assert!(err.contains("2 of 3 tasks were dropped, at least in part"), "{err}");
    }
    world.end().await;
}

/// A token on the command line, or in its environment, makes the secrets of the configured ones unneeded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_brings_a_token_needs_none_of_the_configuration() {
    let world = World::new(On::Embedded, &["c1"]).await;
    let folder = tempfile::tempdir().unwrap();
    let (config, file) = (folder.path().join("gateway.toml"), folder.path().join("tasks.jsonl"));
    let tokens = "tokens = [{ name = \"ops\", secret = \"${NOT_SET_ANYWHERE}\", scope = \"admin\" }]";
    std::fs::write(&config, format!("[admin]\nlisten = \"{}\"\n{tokens}\n", world.app.admin_addr())).unwrap();
    std::fs::write(&file, task("t1", "c1", "hi").to_string()).unwrap();
    for (flags, variable, code) in [(&["--token", "x"][..], None, 0), (&[], Some("x"), 0), (&[], None, 2)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
        command.arg("push").arg("--config").arg(&config).arg("--file").arg(&file).args(flags);
        command.env_remove("WECOM_GATEWAY_TOKEN").envs(variable.map(|token| ("WECOM_GATEWAY_TOKEN", token)));
        let run = tokio::task::spawn_blocking(move || command.output());
        let output = run.await.expect("no panic").expect("the binary");
        assert_eq!(output.status.code(), Some(code), "{flags:?} {variable:?}: {output:?}");
    }
    world.end().await;
}

/// Brokers that are away cost minutes, in which nothing else is said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_kafka_is_told_once() {
    let away = || (StatusCode::SERVICE_UNAVAILABLE, json!({"error": {"message": "the broker is away"}}));
    let taken = || (StatusCode::ACCEPTED, json!([{"task_id": "t1", "state": "queued", "via": "kafka"}]));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.jsonl");
    std::fs::write(&file, task("t1", "c1", "hi").to_string()).unwrap();
    for (first, words, then) in [
        (vec![], "waiting: the brokers of [kafka] have not answered the gateway yet", vec![away(), taken()]),
        (vec![away()], "waiting: the broker is away", vec![away(), taken()]),
    ] {
        // In a gateway's place.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = format!("http://{}", listener.local_addr().unwrap());
        let (answers, next) = unbounded_channel();
        let next = Arc::new(tokio::sync::Mutex::new(next));
        let gateway = Router::new().fallback(async move || {
            let (status, answer) = next.lock().await.recv().await.expect("an answer");
            (status, Json(answer))
        });
        let served = tokio::spawn(async move { axum::serve(listener, gateway).await });
        first.into_iter().for_each(|answer| answers.send(answer).unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
        command.args(["push", "--admin", &admin, "--via", "kafka", "--file"]).arg(&file);
        let mut push = command.stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(push.stderr.take().unwrap());
        // Without a word it ends by itself.
        let watched = tokio::task::spawn_blocking(move || {
            let mut said = said.lines();
            let line = said.next().expect("a word").unwrap();
            then.into_iter().for_each(|answer| answers.send(answer).unwrap());
            let more: Vec<String> = said.map(Result::unwrap).collect();
            (line, more, push.wait().unwrap())
        });
        let (line, more, status) = tokio::time::timeout(TEST, watched).await.expect("within its time").unwrap();
        assert!(line.starts_with(words) && more.is_empty() && status.success(), "{line} {more:?} {status}");
        served.abort();
    }
}

async fn command(world: &World, file: &Path) -> (i32, String, String) {
    run(world, file, &[]).await
}

/// Exit code, stdout and stderr of `push --file`, with more words.
pub async fn run(world: &World, file: &Path, more: &'static [&'static str]) -> (i32, String, String) {
    let (admin, file) = (format!("http://{}", world.app.admin_addr()), file.to_owned());
    let run = tokio::task::spawn_blocking(move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wecom-gateway"));
        command.args(["push", "--admin", &admin, "--file"]).arg(file).args(more).output().expect("the binary")
    });
    let Output { status, stdout, stderr } = run.await.expect("no panic");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("an exit code"), text(stdout), text(stderr))
}

async fn a_file_of_tasks_is_handed_over_line_by_line(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tasks.jsonl");
    let mut lines: Vec<String> =
        (0..300).map(|n| task(&format!("t{n}"), ["c1", "c2"][n % 2], &n.to_string()).to_string()).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let (code, out, err) = command(&world, &file).await;
    assert_eq!((code, out.as_str()), (0, "outcome  tasks\ntaken      300\n"), "{err}");
    until(&world, "t298", "delivered").await;
    let even: Vec<String> = (0..150).map(|n| (2 * n).to_string()).collect();
    assert_eq!(world.texts("c1"), even, "in the order of the file");
    // Once more, with lines that are at fault.
    lines[1] = "{".into();
    lines[250] = json!({"task_id": "t250", "app": "support", "target": {"chat": "c1"}, "mesage": {}}).to_string();
    lines[251] = task("t0", "c2", "another").to_string();
    lines.push(task("new", "c2", "new").to_string());
    std::fs::write(&file, lines.join("\n")).unwrap();
    let (code, out, err) = command(&world, &file).await;
    assert_eq!(code, 1, "{out}{err}");
    assert_eq!(out, "outcome       tasks\ntaken             1\nknown before    297\nrefused           3\n", "{err}");
    let name = file.display();
    for words in [
        ":2: is no JSON",
        ":251: mesage: is no field here",
        ":252: task_id: another task is known",
        "3 of 301 tasks were refused",
    ] {
        assert!(err.contains(words), "{words}: {err}");
    }
    assert!(err.contains(&format!("{name}:2:")), "{err}");
    until(&world, "new", "delivered").await;
    assert_eq!(world.fake.arrived().len(), 301);
    world.end().await;
}
