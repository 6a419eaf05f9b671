//! `wecom-gateway push`: a file of tasks, handed to a gateway that runs.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;

use super::{task, until};
use crate::on_both_stores;
use crate::world::{On, World};

on_both_stores!(a_file_of_tasks_is_handed_over_line_by_line);

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
