//! Push tasks over HTTP: the whole gateway on both stores, from the call to what the fake WeCom sees.

pub mod command;
mod compensator;
mod confirm;
mod customers;
mod fanout;
mod members;
mod takes;
mod turns;

use serde_json::{Value, json};

use crate::world::{APP, World};

/// A task to a chat.
fn task(id: &str, chat: &str, content: &str) -> Value {
    to(id, json!({"chat": chat}), content)
}

/// A task to whomever.
fn to(id: &str, target: Value, content: &str) -> Value {
    json!({"task_id": id, "app": APP, "target": target, "message": {"msgtype": "text", "text": {"content": content}}})
}

/// Hands tasks over; they must be taken.
async fn push(world: &World, tasks: &Value) -> Value {
    let (status, answer) = world.post("push", tasks).await;
    assert_eq!(status, 202, "{answer}");
    answer
}

/// Waits until a task is in this state; the task.
async fn until(world: &World, id: &str, state: &str) -> Value {
    world.api(&format!("push/{id}"), |task| task["state"] == state).await
}
