//! Contract: sessions: read with a claim, written in a commit, forgotten on demand.

use std::time::Duration;

use serde_json::json;
use wecom_gateway::model::{Role, Session, SessionKey, SessionTurn};
use wecom_gateway::store::*;

use super::*;

fn words(text: &str) -> Session {
    let turns = vec![SessionTurn { role: Role::User, text: text.into(), name: None }];
    Session { turns, vars: [("city".to_owned(), json!("上海"))].into_iter().collect() }
}

fn key(chat: &str, sender: &str) -> SessionKey {
    SessionKey::of_sender(APP, chat, sender)
}

/// Takes one message in and claims it.
async fn next(store: &SharedStore, chat: &str, sender: &str, id: &str) -> ClaimedMessage {
    enqueue(store, arrival(chat, sender, id, id)).await;
    take(store).await
}

pub async fn a_session_belongs_to_one_member_of_one_chat(fixture: &impl Fixture) {
    let store = fixture.store();
    let claimed = next(&store, "chat", "u1", "m1").await;
    assert_eq!(claimed.remembered, Remembered::default());
    let exchange = Some(said("u1", words("你好"), LONG));
    finish(&store, Commit { exchange, ..commit(&claimed, vec![]) }).await;
    let kept = Remembered { session: words("你好"), found: true, forgotten: 0 };
    for (chat, sender, expected) in
        [("chat", "u1", kept.clone()), ("chat", "u2", Remembered::default()), ("c2", "u1", Remembered::default())]
    {
        let claimed = next(&store, chat, sender, &format!("{chat}{sender}")).await;
        assert_eq!(claimed.remembered, expected, "{chat} {sender}");
        assert_eq!(store.session(&key(chat, sender)).await.expect("reads"), expected);
        // A commit that says nothing of the session leaves it.
        finish(&store, commit(&claimed, vec![])).await;
    }
    assert_eq!(next(&store, "chat", "u1", "m3").await.remembered, kept);
    assert_eq!(stages(&store, "r").await, [Stage::Exchanged], "its line is left in the same step");
}

pub async fn a_session_may_be_one_for_a_whole_chat(fixture: &impl Fixture) {
    let store = fixture.store();
    let claimed = next(&store, "chat", "u1", "m1").await;
    let shared = SessionKey::of_chat(APP, "chat");
    let exchange = Exchange { key: shared.clone(), ..said("u1", words("hi"), LONG) };
    finish(&store, Commit { exchange: Some(exchange), ..commit(&claimed, vec![]) }).await;
    assert_eq!(store.session(&shared).await.expect("reads").session, words("hi"));
    assert!(!next(&store, "chat", "u1", "m2").await.remembered.found, "it is nobody's own");
}

pub async fn a_session_ends_with_its_ttl(fixture: &impl Fixture) {
    let store = fixture.store();
    let claimed = next(&store, "chat", "u1", "m1").await;
    let exchange = Some(said("u1", words("hi"), SHORT));
    finish(&store, Commit { exchange, ..commit(&claimed, vec![]) }).await;
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(next(&store, "chat", "u1", "m2").await.remembered, Remembered::default());
}

pub async fn a_forgotten_session_is_not_there_and_known_to_be_forgotten(fixture: &impl Fixture) {
    let store = fixture.store();
    let claimed = next(&store, "chat", "u1", "m1").await;
    let exchange = Some(said("u1", words("hi"), LONG));
    finish(&store, Commit { exchange, ..commit(&claimed, vec![]) }).await;
    store.forget_session(&key("chat", "u1"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    let claimed = next(&store, "chat", "u1", "m2").await;
    let Remembered { session, found, forgotten } = claimed.remembered.clone();
    assert!(session == Session::default() && !found && forgotten > 0, "{:?}", claimed.remembered);
    let lines = entries(&store).await;
    let line = lines.iter().find(|entry| entry.line.stage == Stage::Forgotten).expect("it says so");
    assert_eq!(line.line.key.session(), key("chat", "u1").as_str());
    // What comes after it is remembered, and a second time forgets it too.
    let exchange = Exchange { forgotten, ..said("u1", words("again"), LONG) };
    finish(&store, Commit { exchange: Some(exchange), ..commit(&claimed, vec![]) }).await;
    assert_eq!(store.session(&key("chat", "u1")).await.expect("reads").session, words("again"));
    store.forget_session(&key("chat", "u1"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    let after = store.session(&key("chat", "u1")).await.expect("reads");
    assert!(after.session == Session::default() && after.forgotten > forgotten, "{after:?}");
}

pub async fn what_was_under_way_when_it_was_forgotten_is_not_remembered(fixture: &impl Fixture) {
    let store = fixture.store();
    let claimed = next(&store, "chat", "u1", "m1").await;
    store.forget_session(&key("chat", "u1"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    let exchange = Some(said("u1", words("older words"), LONG));
    let done = Commit { exchange, ..commit(&claimed, vec![reply("m1", "chat", 0, "yes")]) };
    assert_eq!(finish(&store, done).await, Committed::Done);
    assert_eq!(store.session(&key("chat", "u1")).await.expect("reads").session, Session::default());
    assert_eq!(stages(&store, "r").await, [], "nor does the archive hear of it");
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "yes", "all else is committed");
}

pub async fn that_it_was_forgotten_outlives_what_is_said_after(fixture: &impl Fixture) {
    let store = fixture.store();
    store.forget_session(&key("chat", "u1"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    let claimed = next(&store, "chat", "u1", "m1").await;
    let exchange = Exchange { forgotten: claimed.remembered.forgotten, ..said("u1", words("new"), SHORT) };
    finish(&store, Commit { exchange: Some(exchange), ..commit(&claimed, vec![]) }).await;
    pass(SHORT + Duration::from_millis(5)).await;
    // Else what the archive was not told to forget yet would be looked for.
    assert!(next(&store, "chat", "u1", "m2").await.remembered.forgotten > 0);
}

pub async fn what_is_said_after_ends_in_its_own_time(fixture: &impl Fixture) {
    let store = fixture.store();
    store.forget_session(&key("chat", "u1"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    for n in 0..2 {
        let claimed = next(&store, "chat", "u1", &format!("m{n}")).await;
        let Remembered { session, found, forgotten } = claimed.remembered.clone();
        assert!(!found && session == Session::default() && forgotten > 0, "{n}: {:?}", claimed.remembered);
        let exchange = Exchange { forgotten, ..said("u1", words("new"), SHORT) };
        finish(&store, Commit { exchange: Some(exchange), ..commit(&claimed, vec![]) }).await;
        pass(SHORT + Duration::from_millis(5)).await;
        assert!(!store.session(&key("chat", "u1")).await.expect("reads").found);
    }
    // Said for longer, it is there for longer.
    let claimed = next(&store, "chat", "u1", "m2").await;
    let exchange = Exchange { forgotten: claimed.remembered.forgotten, ..said("u1", words("new"), LONG) };
    finish(&store, Commit { exchange: Some(exchange), ..commit(&claimed, vec![]) }).await;
    assert_eq!(store.session(&key("chat", "u1")).await.expect("reads").session, words("new"));
}
