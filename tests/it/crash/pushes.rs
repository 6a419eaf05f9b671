//! Death in the middle of a task's fan-out: the same task again goes on where it stopped, and each chat gets it once.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::fleet::{Fleet, Setup, chats};
use crate::on_both_stores;
use crate::world::{APP, On};

/// `abort` ends a process by this signal.
const SIGABRT: i32 = 6;
/// Four pages, and a part of a fifth.
const CHATS: usize = 300;

on_both_stores!(
    before_the_first_page,
    after_a_page_before_its_cursor,
    after_a_cursor_before_the_next_page,
    before_the_last_answer,
    with_the_request_written,
);

async fn before_the_first_page(on: On) {
    dies(on, "opened").await;
}

async fn after_a_page_before_its_cursor(on: On) {
    dies(on, "paged:2").await;
}

async fn after_a_cursor_before_the_next_page(on: On) {
    dies(on, "advanced").await;
}

async fn before_the_last_answer(on: On) {
    dies(on, "advanced:5").await;
}

async fn with_the_request_written(on: On) {
    dies(on, "written:20").await;
}

/// Hands a task over; `None` where nobody answers.
async fn push(fleet: &Fleet, task: &Value) -> Option<(u16, Value)> {
    let url = format!("http://{}/api/v1/push", fleet.gateway(0).admin);
    let answer = fleet.http.post(url).json(task).send().await.ok()?;
    Some((answer.status().as_u16(), answer.json().await.ok()?))
}

async fn dies(on: On, trap: &str) {
    let chats = chats(CHATS);
    let mut fleet = Fleet::new(Setup { chats: chats.clone(), ..Setup::new(on) }).await;
    fleet.start(0, Some(trap)).await;
    let message = json!({"msgtype": "text", "text": {"content": "hi"}});
    let task = json!({"task_id": "t1", "app": APP, "target": {"chats": chats}, "message": message});
    // It may have answered by the time that it dies over a send.
    let _ = push(&fleet, &task).await;
    assert_eq!(fleet.ends(0).await.signal(), Some(SIGABRT), "{trap}");
    fleet.start(0, None).await;
    let (status, answer) = push(&fleet, &task).await.expect("an answer");
    assert_eq!(status, 202, "{answer}");
    let states = ended(&fleet).await;
    let mut arrived: HashMap<String, usize> = HashMap::new();
    fleet.fake.arrived().into_iter().for_each(|sent| *arrived.entry(sent.chat).or_default() += 1);
    assert_eq!(states.len(), CHATS, "{trap}");
    let mut unknown = 0;
    for (chat, state) in &states {
        let times = arrived.get(chat).copied().unwrap_or_default();
        match state.as_str() {
            "delivered" => assert_eq!(times, 1, "{trap}: {chat}"),
            // What was under way at the death.
            "unknown" => {
                assert!(times <= 1, "{trap}: {chat} {times}");
                unknown += 1;
            }
            other => panic!("{trap}: {chat} is {other}"),
        }
    }
    assert!(unknown <= 8, "{trap}: {unknown} unknown, more than are sent at once");
    let again = push(&fleet, &task).await.expect("an answer");
    assert_eq!((again.0, &again.1[0]["repeat"]), (202, &json!(true)), "{again:?}");
    fleet.end().await;
}

/// The state of each chat, once none waits any more.
async fn ended(fleet: &Fleet) -> HashMap<String, String> {
    let mut again = tokio::time::interval(std::time::Duration::from_millis(50));
    loop {
        again.tick().await;
        let task = fleet.api("push/t1?limit=1000").await;
        if task["state"] != "queued" && task["taken"] == CHATS {
            let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
            let items = task["items"].as_array().into_iter().flatten();
            return items.map(|item| (text(item, "chat"), text(item, "state"))).collect();
        }
    }
}
