//! The tasks: short texts for many groups, few for each, so that the 20 messages a minute that WeCom lets a robot send are never
//! reached and what is measured is the way there. A group's tasks lie in one partition, as they must to keep their order.

use serde_json::{Value, json};

/// The one app.
pub const APP: &str = "bench";
/// Tasks of each chat.
const EACH: usize = 10;

/// The chats of so many tasks.
pub fn chats(tasks: usize) -> Vec<String> {
    (0..tasks.div_ceil(EACH)).map(|n| format!("wrBench{n:05}")).collect()
}

/// So many tasks, shared out over partitions.
pub fn tasks(count: usize, partitions: usize) -> Vec<Vec<Value>> {
    let chats = chats(count);
    let mut shares = vec![Vec::new(); partitions];
    for n in 0..count {
        let at = n % chats.len();
        shares[at % partitions].push(task(&id(n), &chats[at]));
    }
    shares
}

fn id(n: usize) -> String {
    format!("t{n}")
}

fn task(id: &str, chat: &str) -> Value {
    let message = json!({"msgtype": "text", "text": {"content": format!("您的订单已发出，预计明天送达。#{id}")}});
    json!({"task_id": id, "app": APP, "target": {"chat": chat}, "message": message})
}

/// The task that a text is of.
pub fn of_text(text: &str) -> &str {
    text.rsplit_once('#').map_or(text, |(_, id)| id)
}
