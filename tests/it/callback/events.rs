//! Events: they need no chat, sender or id, and without an id they are known by their payload.

use sha2::{Digest, Sha256};

use super::endpoint::{AIBOT, Endpoint};
use super::seal::Callback;
use crate::world::APP;

fn added(user: &str, time: &str) -> String {
    format!(
        "<xml><ChatId><![CDATA[c1]]></ChatId><ChatType>group</ChatType><From><UserId>{user}</UserId></From>{time}\
         <MsgType>event</MsgType><Event><EventType><![CDATA[add_to_chat]]></EventType></Event></xml>"
    )
}

/// The id of an event without one.
fn digest_of(payload: &str) -> String {
    format!("digest:{}", hex::encode(Sha256::digest(payload)))
}

#[tokio::test]
async fn events_of_one_second_stay_apart_and_copies_fall_together() {
    let endpoint = Endpoint::new().await;
    for time in ["<CreateTime>1700000000</CreateTime>", ""] {
        let (a, b) = (added("user_a", time), added("user_b", time));
        // Encrypted anew each time, as WeCom does.
        for payload in [&a, &b, &a, &b, &a] {
            endpoint.client.post(&Callback::of(payload)).await.taken();
        }
        for (payload, sender) in [(&a, "user_a"), (&b, "user_b")] {
            let trail = endpoint.trail(&digest_of(payload)).await;
            assert_eq!((trail["sender"].as_str(), trail["outcome"].as_str()), (Some(sender), Some("ignored")));
            assert_eq!(trail["reason"], "event:add_to_chat");
            let accepted = trail["stages"].as_array().unwrap().iter().filter(|stage| stage["stage"] == "accepted");
            assert_eq!(accepted.count(), 1, "{trail}");
        }
    }
    assert_eq!((endpoint.counted(APP, "stored").await, endpoint.counted(APP, "duplicate").await), (4, 6));
    endpoint.world.end().await;
}

#[tokio::test]
async fn without_the_window_the_store_knows_the_copies() {
    let endpoint = Endpoint::with(|scenario| scenario.set("dedup", "window", "0s")).await;
    let event = added("user_a", "");
    endpoint.client.post(&Callback::of(&event)).await.taken();
    let first = endpoint.trail(&digest_of(&event)).await;
    endpoint.client.post(&Callback::of(&event)).await.taken();
    assert_eq!(endpoint.counted(APP, "duplicate").await, 1);
    assert_eq!(endpoint.trail(&digest_of(&event)).await["request_id"], first["request_id"]);
    endpoint.world.end().await;
}

#[tokio::test]
async fn an_event_needs_nothing_but_its_type() {
    let endpoint = Endpoint::new().await;
    let events = [
        "<xml><MsgType>event</MsgType></xml>",
        "<xml><MsgType>event</MsgType><Event>change_external_contact</Event><ChangeType>add</ChangeType></xml>",
        "<xml><ToUserName>ww1</ToUserName><FromUserName>sys</FromUserName><CreateTime>1</CreateTime>\
         <MsgType>event</MsgType><Event>LOCATION</Event></xml>",
        "<xml><Event><EventType>enter_chat</EventType></Event></xml>",
        r#"{"msgtype":"event","event":{"eventtype":"enter_chat","enter_chat":{}}}"#,
        r#"{"msgtype":"event","from":{"userid":"u"},"create_time":1700000000,"event":{"eventtype":"feedback_event"}}"#,
    ];
    for event in events {
        for app in [APP, AIBOT] {
            let callback = Callback::of(event).to(app);
            let answer = endpoint.client.post_as(&callback, callback.json()).await;
            assert_eq!(answer.status, 200, "{event}: {answer:?}");
        }
        let trails = endpoint.trails(&digest_of(event)).await;
        assert_eq!(trails.len(), 2, "one of each app: {trails:?}");
        assert!(trails.iter().all(|trail| trail["outcome"] == "ignored"), "{trails:?}");
    }
    endpoint.world.end().await;
}
