//! Pushes from Kafka, against a real broker: what is read twice goes out once, and what is refused leaves a letter.
//!
//! [`tasks`]: what comes of a task; [`pressure`]: who can't go on holds up only itself; [`away`]: the broker goes and comes back;
//! [`secured`]: by TLS and a password; [`out`]: what the gateway writes; [`members`]: processes that come, go and die while they share a topic;
//! [`versus`]: beside the plain consumer loop, under the same blows, by a [`tally`] of what came.

mod away;
mod members;
mod out;
mod pressure;
mod secured;
mod tally;
mod tasks;
pub mod topics;
mod versus;

use serde_json::{Value, json};

use crate::world::APP;

/// A text for a chat of [`APP`].
fn task(id: &str, chat: &str) -> Value {
    let message = json!({"msgtype": "text", "text": {"content": text_of(id)}});
    json!({"task_id": id, "app": APP, "target": {"chat": chat}, "message": message})
}

/// What [`task`] says.
fn text_of(id: &str) -> String {
    format!("text of {id}")
}
