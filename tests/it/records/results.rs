//! The outbox of results: what is told of pushes, once it is known, as long as nobody has it.

use serde_json::json;
use wecom_gateway::model::MessageKey;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{PushResult, Records};
use wecom_gateway::store::Stage;

use super::{Database, In, life, line, on_both_databases};

on_both_databases!(
    an_end_is_told_until_somebody_has_it,
    nothing_is_kept_where_nobody_is_told,
    pruning_forgets_what_was_told_alone,
);

async fn telling(kind: In) -> (Database, Records) {
    let database = Database::new(kind).await;
    let records = database.open().await.telling_results(true);
    (database, records)
}

/// Task `t<n>`, queued at `n` for one chat.
fn pushed(n: i64) -> Recorded {
    let reply = json!([{"id": format!("r{n}.0"), "digest": "d"}]);
    line(n, Stage::Pushed, &format!("r{n}"), &push(n), json!({"task": format!("t{n}"), "replies": reply}))
}

fn settled(n: i64, at: i64, state: &str) -> Recorded {
    let detail =
        json!({"delivery": format!("r{n}.0"), "state": state, "reason": "r".repeat(2000), "errcode": 7, "msgid": "m"});
    line(at, Stage::Settled, &format!("r{n}"), &push(n), detail)
}

fn push(n: i64) -> MessageKey {
    MessageKey::of_push("app", "群:1", &format!("t{n}"))
}

async fn told(records: &Records) -> Vec<(String, String, i64)> {
    let results = records.untold(100).await.unwrap();
    results.into_iter().map(|result| (result.task_id, result.state, result.at)).collect()
}

fn end(n: i64, state: &str, at: i64) -> (String, String, i64) {
    (format!("t{n}"), state.to_owned(), at)
}

async fn an_end_is_told_until_somebody_has_it(kind: In) {
    let (_database, records) = telling(kind).await;
    records.write(vec![pushed(1), pushed(2)]).await.unwrap();
    records.write(life(10, "delivered")).await.unwrap();
    assert_eq!(told(&records).await, [], "what is on its way, and what answers a message");
    records.write(vec![settled(1, 4, "delivered"), settled(2, 3, "unknown")]).await.unwrap();
    // A flush that is repeated, as after a crash.
    records.write(vec![settled(1, 4, "delivered"), settled(2, 3, "unknown")]).await.unwrap();
    assert_eq!(told(&records).await, [end(2, "unknown", 3), end(1, "delivered", 4)], "the oldest first");
    let results = records.untold(1).await.unwrap();
    let [PushResult { app, chat, delivery, reason, errcode, msgid, left_out, .. }] = results.as_slice() else {
        panic!("{results:?}")
    };
    assert_eq!((app.as_str(), chat.as_str(), delivery.as_str()), ("app", "群:1", "r2.0"));
    assert_eq!((*errcode, msgid.as_deref(), left_out.as_deref()), (Some(7), Some("m"), None));
    assert!(reason.as_ref().is_some_and(|reason| reason.starts_with("rrr")));
    records.told(&results).await.unwrap();
    records.told(&results).await.unwrap();
    assert_eq!(told(&records).await, [end(1, "delivered", 4)]);
    // It is settled by hand later on: a second end, and the first one stays told.
    let word = json!({"delivery": "r2.0", "action": "delivered", "by": "ops"});
    records.write(vec![settled(2, 3, "unknown"), line(9, Stage::Operated, "r2", &push(2), word)]).await.unwrap();
    assert_eq!(told(&records).await, [end(1, "delivered", 4), end(2, "delivered", 9)]);
}

async fn nothing_is_kept_where_nobody_is_told(kind: In) {
    let database = Database::new(kind).await;
    let records = database.open().await;
    records.write(vec![pushed(1), settled(1, 4, "delivered")]).await.unwrap();
    assert_eq!(told(&records).await, []);
}

async fn pruning_forgets_what_was_told_alone(kind: In) {
    let (_database, records) = telling(kind).await;
    let ends = (1..=5).flat_map(|n| [pushed(n), settled(n, n, "delivered")]);
    records.write(ends.collect()).await.unwrap();
    let results = records.untold(3).await.unwrap();
    records.told(&results).await.unwrap();
    while records.prune(100, 1).await.unwrap() {}
    assert_eq!(told(&records).await, [end(4, "delivered", 4), end(5, "delivered", 5)]);
}
