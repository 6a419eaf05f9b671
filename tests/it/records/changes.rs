//! What operators changed, in SQL: once each, newest first, found by what it is about.

use serde_json::{Value, json};
use wecom_gateway::model::MessageKey;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::records::{ChangeItem, Changes, Records};
use wecom_gateway::store::{ChangeKind, Line, Who};

use super::{In, life, on_both_databases, records};

on_both_databases!(
    a_change_says_who_did_what_and_is_there_once,
    changes_are_found_by_what_they_are_about,
    changes_come_newest_first_page_by_page,
    retention_forgets_changes_too,
    a_change_of_overlong_ids_is_cut,
);

fn changed(at: i64, id: &str, who: Who<'_>, of: [&str; 3], detail: Value) -> Recorded {
    let [app, chat, sender] = of;
    let line = Line::change(id, ChangeKind::Chat, who, MessageKey::new(app, chat, sender, ""), detail);
    Recorded::parse(&format!("{at}\t{line}")).expect("a line")
}

async fn ids(records: &Records, of: Changes) -> Vec<String> {
    let page = records.changes(&of, None, 100).await.expect("reads");
    page.items.into_iter().map(|item| item.id).collect()
}

async fn a_change_says_who_did_what_and_is_there_once(kind: In) {
    let (_database, records) = records(kind).await;
    let detail = json!({"weight": {"from": null, "to": 7}});
    let first = changed(1_780_000_000_123, "c1", Who::operator("ops"), ["app", "群:1", ""], detail.clone());
    // The same call once more: its step told it again, later.
    let again = changed(1_780_000_000_999, "c1", Who::operator("ops"), ["app", "群:1", ""], json!({}));
    records.write(vec![first, again.clone()]).await.expect("writes");
    records.write([life(1, "delivered"), vec![again]].concat()).await.expect("writes");
    let expected = ChangeItem {
        id: "c1".into(),
        at: "2026-05-28T20:26:40.123Z".into(),
        by: "ops".into(),
        via: "api".into(),
        kind: "chat".into(),
        app: Some("app".into()),
        chat: Some("群:1".into()),
        sender: None,
        detail: detail.as_object().cloned().unwrap_or_default(),
    };
    assert_eq!(records.changes(&Changes::default(), None, 10).await.expect("reads").items, [expected]);
    // It is of no message.
    assert_eq!(records.messages_by_id("c1", None, 10).await.expect("reads").items, []);
}

async fn changes_are_found_by_what_they_are_about(kind: In) {
    let (_database, records) = records(kind).await;
    let (ops, boss) = (Who::operator("ops"), Who::member("boss"));
    let lines = vec![
        changed(1, "a", ops, ["app", "c1", ""], json!({})),
        changed(2, "b", boss, ["app", "c1", ""], json!({})),
        changed(3, "c", ops, ["app", "", "u1"], json!({})),
        changed(4, "d", ops, ["other", "c1", "u1"], json!({})),
        changed(5, "e", Who::SIGNAL, ["", "", ""], json!({})),
    ];
    records.write(lines).await.expect("writes");
    let some = |text: &str| Some(text.to_owned());
    for (of, expected) in [
        (Changes::default(), "edcba"),
        (Changes { app: some("app"), ..Changes::default() }, "cba"),
        (Changes { chat: some("c1"), ..Changes::default() }, "dba"),
        (Changes { app: some("app"), chat: some("c1"), ..Changes::default() }, "ba"),
        (Changes { sender: some("u1"), ..Changes::default() }, "dc"),
        (Changes { by: some("boss"), ..Changes::default() }, "b"),
        (Changes { by: some("BOSS"), ..Changes::default() }, ""),
        (Changes { by: some("ops"), from: Some(3), ..Changes::default() }, "dc"),
    ] {
        assert_eq!(ids(&records, of.clone()).await.concat(), expected, "{of:?}");
    }
}

async fn changes_come_newest_first_page_by_page(kind: In) {
    let (_database, records) = records(kind).await;
    // Three at a time.
    let lines = (0..9).map(|n| changed(n / 3, &format!("c{n}"), Who::operator("ops"), ["app", "c", ""], json!({})));
    records.write(lines.collect()).await.expect("writes");
    let (mut seen, mut from) = (Vec::new(), None);
    loop {
        let page = records.changes(&Changes::default(), from.as_ref(), 2).await.expect("reads");
        seen.extend(page.items.into_iter().map(|item| item.id));
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen, (0..9).rev().map(|n| format!("c{n}")).collect::<Vec<_>>());
}

async fn retention_forgets_changes_too(kind: In) {
    let (_database, records) = records(kind).await;
    let lines = (0..9).map(|n| changed(n, &format!("c{n}"), Who::WATCH, ["", "", ""], json!({})));
    records.write(lines.collect()).await.expect("writes");
    assert!(records.prune(7, 3).await.expect("prunes"), "there is more");
    while records.prune(7, 3).await.expect("prunes") {}
    assert_eq!(ids(&records, Changes::default()).await, ["c8", "c7"]);
}

/// A server would refuse the whole flush, again and again.
async fn a_change_of_overlong_ids_is_cut(kind: In) {
    let (_database, records) = records(kind).await;
    let long = "长".repeat(600);
    let detail = json!({"files": "f".repeat(100_000)});
    let line = changed(1, &"i".repeat(200), Who::member(&long), [&"a".repeat(70), &long, &long], detail);
    records.write(vec![line]).await.expect("writes");
    let item = records.changes(&Changes::default(), None, 1).await.expect("reads").items.remove(0);
    let cut = "长".repeat(512);
    assert_eq!((item.id.len(), item.app.map(|app| app.len()), &item.by), (128, Some(64), &cut));
    assert_eq!((item.chat.as_ref(), item.sender.as_ref()), (Some(&cut), Some(&cut)));
    assert_eq!(item.detail["files"].as_str().map(str::len), Some(100_000));
}
