//! Contract: answers that come after the message was committed as `waiting`.

use std::time::Duration;

use wecom_gateway::model::{ReplyTo, Secret};
use wecom_gateway::store::*;

use super::*;

/// A late answer of one text.
pub fn answer(request_id: &str, chat: &str, seq: u64, text: &str) -> LateAnswer {
    let delivery = reply(request_id, chat, 100 + seq as usize, text);
    LateAnswer {
        request_id: request_id.into(),
        lane: lane(chat),
        seq,
        lines: vec![line(Stage::Answered, request_id, &delivery.key)],
        replies: vec![delivery],
        turn: LEVEL,
        depth_limit: 100,
    }
}

/// How the message can be answered.
fn reply_to() -> ReplyTo {
    ReplyTo { chat_kind: ChatKind::Single, response_url: Some(Secret::new("https://host/r?code=1")) }
}

async fn give(store: &SharedStore, answer: LateAnswer) -> Answered {
    store.answer_late(answer).await.expect("answer")
}

/// A message `r1` of `chat` that waits for so long.
async fn wait(store: &SharedStore, ttl: Duration) -> Commit {
    enqueue(store, arrival("chat", "u", "m1", "r1")).await;
    let ticket = LateTicket { ttl, received_at: 11, expires_at: 22, reply_to: reply_to() };
    let waiting = Commit { await_late: Some(ticket), ..commit(&take(store).await, vec![]) };
    assert_eq!(finish(store, waiting.clone()).await, Committed::Done);
    waiting
}

pub async fn a_late_answer_is_queued(fixture: &impl Fixture) {
    let store = fixture.store();
    let commit = wait(&store, LONG).await;
    let waiting = store.waiting(&lane("chat"), "r1").await.expect("waiting");
    let expected = Waiting { key: commit.key, received_at: 11, expires_at: 22, reply_to: reply_to(), answers: 0 };
    assert_eq!(waiting, Some(expected.clone()));
    assert_eq!(give(&store, answer("r1", "chat", 1, "later")).await, Answered::Queued);
    let waiting = store.waiting(&lane("chat"), "r1").await.expect("waiting");
    assert_eq!(waiting, Some(Waiting { answers: 1, ..expected }));
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "later");
    let told = stages(&store, "r1").await;
    assert_eq!(told, [Stage::Accepted, Stage::Handled, Stage::Answered, Stage::Settled]);
}

pub async fn a_late_answer_is_queued_once_per_seq(fixture: &impl Fixture) {
    let store = fixture.store();
    wait(&store, LONG).await;
    for (seq, expected) in [(1, Answered::Queued), (1, Answered::Repeat), (12, Answered::Queued), (2, Answered::Queued)]
    {
        assert_eq!(give(&store, answer("r1", "chat", seq, &seq.to_string())).await, expected);
    }
    for text in ["1", "12", "2"] {
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), text);
    }
    assert_eq!(give(&store, answer("r1", "chat", 2, "2")).await, Answered::Repeat);
    let told = stages(&store, "r1").await;
    assert_eq!(told.iter().filter(|s| **s == Stage::Answered).count(), 3);
}

pub async fn only_the_chat_that_waits_gets_a_late_answer(fixture: &impl Fixture) {
    let store = fixture.store();
    wait(&store, LONG).await;
    assert_eq!(give(&store, answer("r1", "other", 1, "x")).await, Answered::NotWaiting);
    assert_eq!(give(&store, answer("unknown", "chat", 1, "x")).await, Answered::NotWaiting);
    for (chat, request) in [("other", "r1"), ("chat", "unknown")] {
        assert_eq!(store.waiting(&lane(chat), request).await.expect("waiting"), None);
    }
    assert!(store.claim_replies(1, LONG).await.expect("claim").items.is_empty());
    assert_eq!(stages(&store, "r1").await, [Stage::Accepted, Stage::Handled]);
    // The refused tries took no seq.
    assert_eq!(give(&store, answer("r1", "chat", 1, "x")).await, Answered::Queued);
}

pub async fn a_late_answer_comes_too_late(fixture: &impl Fixture) {
    let store = fixture.store();
    wait(&store, SHORT).await;
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(store.waiting(&lane("chat"), "r1").await.expect("waiting"), None);
    assert_eq!(give(&store, answer("r1", "chat", 1, "x")).await, Answered::NotWaiting);
    assert!(store.claim_replies(1, LONG).await.expect("claim").items.is_empty());
}

pub async fn a_late_answer_finds_a_full_lane(fixture: &impl Fixture) {
    let store = fixture.store();
    wait(&store, LONG).await;
    queue(&store, LEVEL, vec![reply("r2", "chat", 0, "waits")]).await;
    let tight = LateAnswer { depth_limit: 1, ..answer("r1", "chat", 1, "later") };
    assert_eq!(give(&store, tight.clone()).await, Answered::LaneFull);
    send(&store, Fate::Delivered).await;
    assert_eq!(give(&store, tight).await, Answered::Queued);
    assert_eq!(text_of(&take_reply(&store).await), "later");
}

pub async fn a_repeated_commit_keeps_the_ticket(fixture: &impl Fixture) {
    let store = fixture.store();
    let commit = wait(&store, LONG).await;
    give(&store, answer("r1", "chat", 1, "later")).await;
    assert_eq!(finish(&store, commit).await, Committed::Lost);
    assert_eq!(give(&store, answer("r1", "chat", 1, "later")).await, Answered::Repeat);
}
