//! Plain JSON webhooks: who may post, and what their bodies may call things.

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::client::{HEADER_VALUE, HMAC_SECRET, INSIDE};
use super::endpoint::{CHAT, Endpoint, HOOK, HOOK_HEADER, SIGNED_HOOK, text};
use super::seal::Callback;

fn message(id: &str, content: &str) -> String {
    json!({"MsgType": "text", "roomType": 2, "ChatId": CHAT, "FromUserName": "wmJ", "Content": content, "MsgId": id})
        .to_string()
}

fn mac(secret: &str, body: &str) -> String {
    let hmac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body);
    hex::encode(hmac.finalize().into_bytes())
}

#[tokio::test]
async fn the_header_must_be_right() {
    let endpoint = Endpoint::new().await;
    let body = message("auth", INSIDE);
    let longer = format!("{HEADER_VALUE}x");
    let rows: [&[(&str, &str)]; 6] = [
        &[],
        &[(HOOK_HEADER.0, "")],
        &[(HOOK_HEADER.0, "Opens-the-webhook")],
        &[(HOOK_HEADER.0, &longer)],
        &[(HOOK_HEADER.0, &HEADER_VALUE[1..])],
        &[("Authorization", HEADER_VALUE)],
    ];
    for headers in rows {
        endpoint.client.post_json(HOOK, headers, body.as_str()).await.refused(403, "unauthorized");
        // Nobody learns what would have been wrong with the body.
        endpoint.client.post_json(HOOK, headers, "{").await.refused(403, "unauthorized");
    }
    endpoint.nothing_of(&["auth"]).await;
    endpoint.client.post_json(HOOK, &[("x-webhook-token", HEADER_VALUE)], body).await.taken();
    endpoint.trail("auth").await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn the_hmac_must_cover_the_body() {
    let endpoint = Endpoint::new().await;
    let body = message("mac", INSIDE);
    let right = mac(HMAC_SECRET, &body);
    for wrong in
        ["", "sha256=", "zz", &right[1..], &mac("another", &body), &mac(HMAC_SECRET, "{}"), &format!("sha1={right}")]
    {
        let headers = [("X-Signature", wrong)];
        endpoint.client.post_json(SIGNED_HOOK, &headers, body.as_str()).await.refused(403, "unauthorized");
    }
    endpoint.nothing_of(&["mac"]).await;
    for right in [right.clone(), format!("sha256={right}"), right.to_uppercase()] {
        let headers = [("x-signature", right.as_str())];
        endpoint.client.post_json(SIGNED_HOOK, &headers, body.as_str()).await.taken();
    }
    endpoint.trail("mac").await;
    // A signature for one body opens no other, not by a blank.
    let headers = [("x-signature", right.as_str())];
    endpoint.client.post_json(SIGNED_HOOK, &headers, format!("{body} ")).await.refused(403, "unauthorized");
    endpoint.world.end().await;
}

#[tokio::test]
async fn ten_posts_at_once_are_one_call_of_the_action() {
    let endpoint = Endpoint::new().await;
    let body = message("msg_1", "/query 5");
    let posts = (0..10).map(|_| endpoint.client.post_json(HOOK, &[HOOK_HEADER], body.as_str()));
    join_all(posts).await.iter().for_each(super::client::Answer::taken);
    assert_eq!(endpoint.trail("msg_1").await["outcome"], "delivered");
    assert_eq!((endpoint.counted(HOOK, "stored").await, endpoint.counted(HOOK, "duplicate").await), (1, 9));
    assert_eq!(endpoint.world.fake.service().count(), 1);
    endpoint.world.end().await;
}

#[tokio::test]
async fn every_spelling_of_chat_message_and_sender_is_known() {
    let endpoint = Endpoint::new().await;
    let chats = [
        "ChatId",
        "ChatID",
        "chatid",
        "chat_id",
        "RoomId",
        "roomid",
        "room_id",
        "GroupId",
        "group_id",
        "ConversationId",
        "conversationId",
    ];
    let messages = ["MsgId", "MsgID", "msgid", "msg_id", "messageId"];
    let senders = ["ExternalUserId", "ExternalUserID", "external_userid", "UserId", "UserID", "userid", "FromUserName"];
    for n in 0..chats.len() {
        let (chat, message, sender) = (chats[n], messages[n % messages.len()], senders[n % senders.len()]);
        println!("{chat} {message} {sender}");
        let (id, from) = (format!("spelt-{n}"), format!("u{n}"));
        let body = json!({chat: CHAT, message: id, sender: from, "content": "hi", "msgtype": "text"});
        endpoint.client.post_json(HOOK, &[HOOK_HEADER], body.to_string()).await.taken();
        let trail = endpoint.trail(&id).await;
        assert_eq!((&trail["chat"], &trail["sender"]), (&json!(CHAT), &json!(from)));
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn an_external_contact_is_believed_before_a_member() {
    let endpoint = Endpoint::new().await;
    let bodies: [Value; 3] = [
        json!({"FromUserName": "sys", "UserId": "member", "ExternalUserId": "wmX"}),
        json!({"FromUserName": "sys", "from": {"userid": "member", "external_userid": "wmX"}}),
        json!({"FromUserName": "sys", "From": {"UserId": "member"}, "external_userid": "wmX"}),
    ];
    for (n, mut body) in bodies.into_iter().enumerate() {
        let id = format!("who-{n}");
        body["chatid"] = CHAT.into();
        body["msgid"] = id.as_str().into();
        endpoint.client.post_json(HOOK, &[HOOK_HEADER], body.to_string()).await.taken();
        assert_eq!(endpoint.trail(&id).await["sender"], "wmX", "{body}");
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_number_beyond_doubles_keeps_its_digits() {
    let endpoint = Endpoint::new().await;
    let body =
        r#"{"msgid":45612553542513459290001,"chatid":9007199254740993,"userid":1.50,"msgtype":"text","content":"hi"}"#;
    endpoint.client.post_json(HOOK, &[HOOK_HEADER], body).await.taken();
    let trail = endpoint.trail("45612553542513459290001").await;
    assert_eq!((&trail["chat"], &trail["sender"]), (&json!("9007199254740993"), &json!("1.50")));
    endpoint.world.end().await;
}

#[tokio::test]
async fn an_open_webhook_takes_no_sealed_callback_and_a_robot_no_open_one() {
    let endpoint = Endpoint::new().await;
    let sealed = Callback::of(text("crossed", INSIDE)).to(HOOK);
    endpoint.client.post(&sealed).await.refused(403, "unauthorized");
    endpoint.client.post_json(HOOK, &[HOOK_HEADER], sealed.json()).await.refused(400, "missing_field");
    let open = message("crossed", INSIDE);
    endpoint.client.post_json(crate::world::APP, &[HOOK_HEADER], open).await.refused(400, "missing_query");
    endpoint.nothing_of(&["crossed"]).await;
    endpoint.world.end().await;
}
