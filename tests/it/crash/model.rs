//! `kill -9` while a model is asked: the next process asks again under the same `Idempotency-Key`, and the member gets one
//! answer, or one apology.

use serde_json::{Value, json};
use wecom_gateway::sim::{Tag, robot_text};

use super::fleet::{Fleet, Setup};
use crate::model_server::{ModelServer, Reaction};
use crate::on_both_stores;
use crate::world::{On, key};

on_both_stores!(a_model_that_was_being_asked_answers_once, a_model_that_fails_after_a_death_is_one_apology);

async fn a_model_that_was_being_asked_answers_once(on: On) {
    let (texts, outcome) = dies_over(on, Reaction::Say("九十九元".into())).await;
    assert_eq!((texts, outcome), (vec!["九十九元".to_owned()], ("delivered".into(), None)));
}

async fn a_model_that_fails_after_a_death_is_one_apology(on: On) {
    let (texts, (outcome, reason)) = dies_over(on, Reaction::Refuse(401)).await;
    assert!(matches!(&texts[..], [text] if text.contains("抱歉")), "{texts:?}");
    assert_eq!(outcome, "delivered");
    assert!(reason.is_some_and(|reason| reason.contains("401")), "the trail says why");
}

/// Kills the gateway while the model hangs over a mention, and lets it react so when the next process asks. Answers what
/// the member got, and how the message ended.
async fn dies_over(on: On, then: Reaction) -> (Vec<String>, (String, Option<String>)) {
    let model = ModelServer::start().await;
    model.script([Reaction::Hang, then]);
    let mention = Some(model.action(json!({})));
    let mut fleet = Fleet::started(Setup { mention, ..Setup::new(on) }).await;
    post(&fleet, "m1", "@小助手 多少钱").await;
    model.until_asked(1).await;
    fleet.kill(0);
    fleet.start(0, None).await;
    fleet.fake.until(|fake| !fake.texts(&key("c0")).is_empty()).await;

    // What came behind it is there: nothing more comes of it.
    let tag = Tag::new("c0", "u1", 2).to_string();
    post(&fleet, "m2", &format!("/echo {tag}")).await;
    fleet.fake.until(|fake| fake.texts(&key("c0")).contains(&tag)).await;
    let asked = model.asked();
    assert!(asked.len() == 2 && asked[0].key == asked[1].key && asked[0].body == asked[1].body, "{asked:?}");
    let outcome = fleet.outcome("m1").await;
    let trail: Value = fleet.api("messages/m1").await;
    let handled = |stage: &&Value| stage["stage"] == "handled";
    let stages = trail["items"][0]["stages"].as_array().expect("stages");
    assert_eq!(stages.iter().filter(handled).count(), 1, "{trail}");
    let mut texts = fleet.fake.texts(&key("c0"));
    texts.retain(|text| *text != tag);
    assert_eq!(fleet.fake.ledger().violations(), []);
    fleet.end().await;
    (texts, outcome)
}

async fn post(fleet: &Fleet, msg_id: &str, words: &str) {
    assert_eq!(fleet.caller.post(&robot_text("c0", "u1", msg_id, words)).await, Some(200), "{msg_id}");
}
