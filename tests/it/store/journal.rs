//! Contract: the journal, and what the store tells of itself.

use serde_json::json;
use wecom_gateway::model::{Lane, now_ms};
use wecom_gateway::store::*;

use super::operators::tuning;
use super::pushes::{new_push, queue_push};
use super::*;

pub async fn lines_tell_what_happened_in_order(fixture: &impl Fixture) {
    let store = fixture.store();
    let before = now_ms();
    enqueue(&store, arrival("chat", "u", "m1", "r1")).await;
    let claimed = take(&store).await;
    let mut done = commit(&claimed, vec![reply("r1", "chat", 0, "hi")]);
    done.lines[0].detail.insert("rule".into(), json!("command\tquery\n"));
    finish(&store, done.clone()).await;
    let head = take_reply(&store).await;
    begin(&store, begin_of(&head)).await;
    let retry = vec![line(Stage::Retried, "r1", &done.key)];
    settle(&store, Settle { lines: retry, ..settle_of(&head, again(ParkReason::Transient)) }).await;
    let head = take_reply(&store).await;
    let two = vec![line(Stage::Settled, "r1", &done.key), line(Stage::Settled, "r1.b", &done.key)];
    settle(&store, Settle { lines: two, ..settle_of(&head, Fate::Delivered) }).await;
    let entries = entries(&store).await;
    let told: Vec<_> = entries.iter().map(|e| (e.line.stage, e.line.request_id.as_str())).collect();
    let expected = [
        (Stage::Accepted, "r1"),
        (Stage::Handled, "r1"),
        (Stage::Retried, "r1"),
        (Stage::Settled, "r1"),
        (Stage::Settled, "r1.b"),
    ];
    assert_eq!(told, expected);
    assert_eq!(entries[1].line, done.lines[0]);
    assert!(entries[0].line.detail.is_empty());
    assert!(entries.iter().all(|e| e.line.key == done.key));
    // Stamped by the store's clock, which is this machine's in tests.
    assert!(entries.is_sorted_by_key(|e| e.at) && entries[0].at >= before && entries[4].at <= now_ms());
}

async fn accept(store: &SharedStore, chat: &str, ids: impl IntoIterator<Item = usize>) {
    for i in ids {
        enqueue(store, arrival(chat, "u", &format!("m{i}"), &format!("r{i}"))).await;
    }
}

async fn read(store: &SharedStore, max: usize) -> JournalBatch {
    let mut batches = store.read_journal(max).await.expect("journal");
    assert_eq!(batches.len(), 1, "one chat, one shard");
    batches.remove(0)
}

fn requests(batch: &JournalBatch) -> Vec<String> {
    assert_eq!(batch.count, batch.lines.len());
    batch.lines.iter().map(|l| Entry::parse(l).expect("a line").line.request_id).collect()
}

pub async fn a_journal_is_read_and_trimmed_piece_by_piece(fixture: &impl Fixture) {
    let store = fixture.store();
    accept(&store, "chat", 0..5).await;
    let first = read(&store, 3).await;
    assert_eq!(requests(&first), ["r0", "r1", "r2"]);
    assert_eq!(read(&store, 3).await, first, "reading takes nothing away");
    accept(&store, "chat", 5..6).await;
    store.trim_journal(&first).await.expect("trim");
    let second = read(&store, 3).await;
    assert_eq!(requests(&second), ["r3", "r4", "r5"]);
    store.trim_journal(&second).await.expect("trim");
    assert!(store.read_journal(3).await.expect("journal").is_empty());
}

pub async fn a_trim_by_the_slower_reader_is_passed_over(fixture: &impl Fixture) {
    let store = fixture.store();
    let other = fixture.reopen().await;
    accept(&store, "chat", 0..2).await;
    let mine = read(&store, 10).await;
    let theirs = read(&other, 10).await;
    assert_eq!(mine, theirs);
    store.trim_journal(&mine).await.expect("trim");
    // The journal is empty now, and what comes next must not be taken for what was trimmed.
    accept(&store, "chat", 2..5).await;
    other.trim_journal(&theirs).await.expect("trim");
    store.trim_journal(&mine).await.expect("trim");
    assert_eq!(requests(&read(&store, 10).await), ["r2", "r3", "r4"]);
    assert_eq!(store.depth().await.expect("depth").journal, 3);
}

pub async fn the_depth_is_told(fixture: &impl Fixture) {
    let store = fixture.store();
    for (chat, texts) in [("c1", ["a", "b"]), ("c2", ["a", "b"]), ("c3", ["a", "b"])] {
        queue_texts(&store, chat, &texts).await;
    }
    accept(&store, "in1", 0..2).await;
    accept(&store, "in2", 0..1).await;
    take(&store).await;
    send(&store, Fate::Again { park: LONG, why: ParkReason::Held }).await;
    take_reply(&store).await;
    // Accepted and handled three times, accepted three times more, settled once.
    let depth = store.depth().await.expect("depth");
    let mut parked_for = ParkedFor::default();
    parked_for.add("held", 1);
    let Depth { oldest_message, oldest_reply, .. } = depth;
    assert_eq!(
        depth,
        Depth {
            waiting: 9,
            in_lanes: 2,
            out_lanes: 3,
            parked: 1,
            parked_for,
            in_leases: 1,
            out_leases: 1,
            oldest_message,
            oldest_reply,
            journal: 10
        }
    );
    assert!(oldest_message.is_some() && oldest_reply.is_some(), "{depth:?}");
}

/// Whatever stands in front of a lane is looked at, whether it is ready, being sent or parked.
pub async fn the_oldest_is_told(fixture: &impl Fixture) {
    let store = fixture.store();
    let oldest = async || {
        let Depth { oldest_message, oldest_reply, .. } = store.depth().await.expect("depth");
        (oldest_message, oldest_reply)
    };
    assert_eq!(oldest().await, (None, None));
    let mut waits = reply("r", "chat", 0, "a");
    waits.received_at = 12_345;
    queue(&store, LEVEL, vec![waits, reply("r", "chat", 1, "b")]).await;
    queue_texts(&store, "other", &["a"]).await;
    assert_eq!(oldest().await.1, Some(12_345));
    for _ in 0..2 {
        take_reply(&store).await;
    }
    assert_eq!(oldest().await.1, Some(12_345));
    // A lane of pushes alone counts too.
    let mut push = new_push("task", "pushed", 0);
    push.fate.as_mut().expect("a delivery").received_at = 1_234;
    assert_eq!(queue_push(&store, push).await, Pushed::Queued);
    assert_eq!(oldest().await.1, Some(1_234));
    let mut first = arrival("in", "u", "m0", "r0");
    first.message.received_at = 23_456;
    enqueue(&store, first).await;
    enqueue(&store, arrival("in", "u", "m1", "r1")).await;
    assert_eq!(oldest().await.0, Some(23_456));
    take(&store).await;
    assert_eq!(oldest().await.0, None);
}

pub async fn a_chat_tells_its_state(fixture: &impl Fixture) {
    let store = fixture.store();
    let idle = ChatStatus {
        lane: lane("never seen"),
        depth: 0,
        oldest: None,
        leased: false,
        parked: None,
        paused: false,
        muted: false,
        dead: None,
        weight: None,
        last_error: None,
    };
    let mut waits = reply("r", "chat", 0, "a");
    waits.received_at = 12_345;
    queue(&store, LEVEL, vec![waits, reply("r", "chat", 1, "b")]).await;
    let ask = async || store.chats(vec![lane("never seen"), lane("chat")]).await.expect("chats");
    let ready = ChatStatus { lane: lane("chat"), depth: 2, oldest: Some(12_345), ..idle.clone() };
    assert_eq!(ask().await, [idle.clone(), ready.clone()]);
    let head = take_reply(&store).await;
    let leased = ChatStatus { leased: true, ..ready };
    assert_eq!(ask().await[1], leased);
    begin(&store, begin_of(&head)).await;
    settle(&store, settle_of(&head, Fate::Delivered)).await;
    send(&store, Fate::Delivered).await;
    assert_eq!(ask().await[1], ChatStatus { lane: lane("chat"), ..idle.clone() });
    // A chat of which nothing else is known can be muted too.
    for chat in ["never seen", "chat"] {
        store.tune(Tuning { muted: Some(true), ..tuning(chat) }).await.expect("mutes");
    }
    let muted = |chat: &str| ChatStatus { lane: lane(chat), muted: true, ..idle.clone() };
    assert_eq!(ask().await, [muted("never seen"), muted("chat")]);
}

pub async fn a_dead_chat_tells_its_route_and_last_error(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["a", "b"]).await;
    let head = take_reply(&store).await;
    begin(&store, begin_of(&head)).await;
    let gone = Fate::Ended { back_off: None, chat_dead: Some(route("home")) };
    settle(&store, Settle { last_error: Some("93000: 机器人不在群里".into()), ..settle_of(&head, gone) }).await;
    let status = async || store.chats(vec![lane("chat")]).await.expect("chats").remove(0);
    let dead = status().await;
    assert_eq!((dead.dead, dead.last_error.as_deref()), (Some(route("home")), Some("93000: 机器人不在群里")));
    // Nothing said leaves the error as it is; a revival clears what the chat died of too.
    send_dropped(&store).await;
    assert!(status().await.last_error.is_some());
    store.revive(&lane("chat")).await.expect("revive");
    let revived = status().await;
    assert_eq!((revived.dead, revived.last_error), (None, None));
    // What is no revival clears nothing.
    queue(&store, LEVEL, vec![reply("r2", "chat", 0, "c")]).await;
    let head = take_reply(&store).await;
    begin(&store, begin_of(&head)).await;
    let again = Fate::Again { park: Duration::ZERO, why: ParkReason::Transient };
    settle(&store, Settle { last_error: Some("not sent".into()), ..settle_of(&head, again) }).await;
    store.revive(&lane("chat")).await.expect("revive");
    assert_eq!(status().await.last_error.as_deref(), Some("not sent"));
}

async fn send_dropped(store: &SharedStore) {
    let head = take_reply(store).await;
    settle(store, settle_of(&head, ENDED)).await;
}

pub async fn busy_chats_are_those_with_something_waiting(fixture: &impl Fixture) {
    let store = fixture.store();
    assert_eq!(store.busy_chats(10).await.expect("busy"), []);
    for chat in ["c1", "c2", "c3", "c4"] {
        queue_texts(&store, chat, &["a"]).await;
    }
    let done = send(&store, Fate::Delivered).await;
    let held = send(&store, Fate::Again { park: LONG, why: ParkReason::Held }).await;
    take_reply(&store).await;
    let mut busy = store.busy_chats(10).await.expect("busy");
    busy.sort_unstable();
    let expected: Vec<Lane> =
        ["c1", "c2", "c3", "c4"].map(lane).into_iter().filter(|l| *l != done.lease.lane).collect();
    assert_eq!(busy, expected);
    assert!(busy.contains(&held.lease.lane));
    assert_eq!(store.busy_chats(2).await.expect("busy").len(), 2);
    // Nor is one missed of which something was set, and each is named once.
    let set = |chat: &str| Tuning { turn: Turn { weight: 1, head_start: LONG }, ..tuning(chat) };
    store.tune(Tuning { muted: Some(true), ..set("muted") }).await.expect("mutes");
    store.tune(Tuning { paused: Some(true), ..set("paused") }).await.expect("tunes");
    store.tune(Tuning { weight: Some(Some(7)), ..set("heavy") }).await.expect("tunes");
    store.tune(Tuning { weight: Some(Some(7)), paused: Some(true), ..set("c4") }).await.expect("tunes");
    let named = async || {
        let mut names: Vec<_> =
            store.busy_chats(10).await.expect("busy").iter().map(|lane| lane.app_and_chat().1).collect();
        names.sort_unstable();
        names
    };
    let mut all: Vec<String> = expected.iter().map(|lane| lane.app_and_chat().1).collect();
    all.extend(["c4", "heavy", "muted", "paused"].map(str::to_owned));
    all.sort_unstable();
    all.dedup();
    assert_eq!(named().await, all);
    store.tune(Tuning { muted: Some(false), ..set("muted") }).await.expect("mutes");
    store.tune(Tuning { paused: Some(false), ..set("paused") }).await.expect("tunes");
    store.tune(Tuning { weight: Some(None), ..set("heavy") }).await.expect("tunes");
    all.retain(|chat| chat.starts_with('c'));
    assert_eq!(named().await, all);
}

pub async fn what_is_kept_of_a_batch_goes_to_the_end(fixture: &impl Fixture) {
    let store = fixture.store();
    accept(&store, "chat", 0..5).await;
    let first = read(&store, 3).await;
    let kept = first.lines[1].clone();
    assert!(store.rotate_journal(&first, vec![kept.clone()]).await.expect("rotate"));
    let all = read(&store, 10).await;
    assert_eq!((requests(&all), &all.lines[2]), (vec!["r3".into(), "r4".into(), "r1".into()], &kept));
    assert_eq!(store.depth().await.expect("depth").journal, 3);
    // The batch is not there any more: neither is anything else taken, nor is the line put there twice.
    assert!(!store.rotate_journal(&first, vec![kept]).await.expect("rotate"));
    assert_eq!(read(&store, 10).await, all);
}
