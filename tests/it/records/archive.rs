//! What was said, in SQL: read back in order, forgotten for good.

use serde_json::{Map, Value, json};
use wecom_gateway::model::{Role, Session, SessionKey, SessionTurn};
use wecom_gateway::records::exchange;
use wecom_gateway::records::trail::Recorded;
use wecom_gateway::store::{Line, Stage};

use super::{In, on_both_databases, records};

on_both_databases!(
    exchanges_come_back_in_order_with_the_last_vars,
    sessions_of_others_stay_their_own,
    a_deleted_session_stays_deleted_in_whatever_order_its_lines_come,
    retention_forgets_exchanges_too,
    trails_and_exchanges_lie_in_one_journal,
);

fn member() -> SessionKey {
    SessionKey::of_sender("app", "群:1", "wmA")
}

fn parse(at: i64, line: &Line) -> Recorded {
    Recorded::parse(&format!("{at}\t{line}")).expect("a line")
}

/// The exchange number `n`: two turns, and these vars.
fn said(key: &SessionKey, n: i64, vars: Option<&Value>) -> Recorded {
    let turn = |role, text: String| SessionTurn { role, text, name: None };
    let turns = [turn(Role::User, format!("问{n}")), turn(Role::Bot, format!("答{n}"))];
    let detail = exchange(&turns, vars.and_then(Value::as_object));
    let line =
        Line { stage: Stage::Exchanged, request_id: format!("r{n}"), key: key.line_key(&format!("m{n}")), detail };
    parse(n, &line)
}

fn forgotten(key: &SessionKey, at: i64) -> Recorded {
    let line = Line { stage: Stage::Forgotten, request_id: String::new(), key: key.line_key(""), detail: Map::new() };
    parse(at, &line)
}

fn texts(session: Option<Session>) -> Vec<String> {
    session.unwrap_or_default().turns.into_iter().map(|turn| turn.text).collect()
}

async fn exchanges_come_back_in_order_with_the_last_vars(kind: In) {
    let (_database, records) = records(kind).await;
    let vars = json!({"city": "上海"});
    let lines = vec![
        said(&member(), 3, None),
        said(&member(), 1, Some(&json!({"city": "北京"}))),
        said(&member(), 2, Some(&vars)),
    ];
    for _ in 0..2 {
        records.write(lines.clone()).await.expect("writes");
    }
    let session = records.archived(&member(), 0, 100).await.expect("reads").expect("there");
    assert_eq!(Value::Object(session.vars.clone()), vars, "the last that knew of any");
    assert_eq!(texts(Some(session)), ["问1", "答1", "问2", "答2", "问3", "答3"]);
    let last = records.archived(&member(), 0, 3).await.expect("reads");
    assert_eq!(texts(last), ["答2", "问3", "答3"]);
}

async fn sessions_of_others_stay_their_own(kind: In) {
    let (_database, records) = records(kind).await;
    records.write(vec![said(&member(), 1, None)]).await.expect("writes");
    for other in [
        SessionKey::of_sender("app", "群:1", "wma"),
        SessionKey::of_chat("app", "群:1"),
        SessionKey::of_sender("app2", "群:1", "wmA"),
    ] {
        assert_eq!(records.archived(&other, 0, 10).await.expect("reads"), None, "{other:?}");
    }
}

async fn a_deleted_session_stays_deleted_in_whatever_order_its_lines_come(kind: In) {
    let (_database, records) = records(kind).await;
    // The third was said in the millisecond of the deletion: nothing says that it came later.
    let said = |n| self::said(&member(), n, None);
    let lines = [said(1), said(2), said(3), forgotten(&member(), 3), said(4)];
    for turn in 0..lines.len() {
        let mut order = lines.to_vec();
        order.rotate_left(turn);
        for (cut, member) in [(1, "one by one"), (5, "at once")] {
            for some in order.chunks(cut) {
                records.write(some.to_vec()).await.expect("writes");
            }
            // What a second, slower process would write after all is done.
            records.write(lines[..2].to_vec()).await.expect("writes");
            let session = records.archived(&self::member(), 0, 10).await.expect("reads");
            assert_eq!(texts(session), ["问4", "答4"], "turned by {turn}, {member}");
        }
    }
}

async fn retention_forgets_exchanges_too(kind: In) {
    let (_database, records) = records(kind).await;
    let lines = (1..=9).map(|n| said(&member(), n, None)).chain([forgotten(&SessionKey::of_chat("app", "x"), 1)]);
    records.write(lines.collect()).await.expect("writes");
    assert!(records.prune(6, 3).await.expect("prunes"), "there is more");
    assert!(!records.prune(6, 3).await.expect("prunes"), "there is no more");
    let left = records.archived(&member(), 0, 100).await.expect("reads");
    assert_eq!(texts(left), ["问6", "答6", "问7", "答7", "问8", "答8", "问9", "答9"]);
}

async fn trails_and_exchanges_lie_in_one_journal(kind: In) {
    let (_database, records) = records(kind).await;
    let mut lines = super::life(1, "delivered");
    lines.push(said(&member(), 2, None));
    records.write(lines).await.expect("writes");
    let item = records.messages_by_id("m1", None, 10).await.expect("reads").items.remove(0);
    assert_eq!((item.outcome.as_str(), item.stages.len()), ("delivered", 3));
    assert_eq!(records.messages_by_id("m2", None, 10).await.expect("reads").items, [], "what was said is no trail");
    assert!(records.archived(&member(), 0, 10).await.expect("reads").is_some());
}
