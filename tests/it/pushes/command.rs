//! `wecom-gateway push`: a file of tasks, handed to a gateway that runs.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use super::{task, until};
use crate::on_both_stores;
use crate::world::{On, World};

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
