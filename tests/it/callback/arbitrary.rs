//! Whatever comes from outside, the endpoint answers below 500 and goes on.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use reqwest::Method;

use super::endpoint::{AIBOT, ANY_APP, CORP_APP, Endpoint, HOOK, HOOK_HEADER, text};
use super::seal::{Callback, percent_encoded, plaintext};
use crate::world::APP;

/// Runs `cases` of `strategy` against one gateway, which must be as well afterwards as before.
fn holds<S: Strategy>(cases: u32, strategy: S, case: impl AsyncFn(&Endpoint, S::Value) -> u16) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let endpoint = runtime.block_on(Endpoint::new());
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy, |value| {
        let status = runtime.block_on(case(&endpoint, value));
        prop_assert!((200..500).contains(&status), "{status}");
        Ok(())
    });
    outcome.unwrap();
    runtime.block_on(async {
        endpoint.client.post(&Callback::of(text("afterwards", "hi"))).await.taken();
        assert_eq!(endpoint.trail("afterwards").await["outcome"], "ignored");
        endpoint.world.end().await;
    });
}

/// Words of callbacks, strung together without sense.
fn words() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![
        "<xml>",
        "</xml>",
        "<Encrypt>",
        "</Encrypt>",
        "<![CDATA[",
        "]]>",
        "<From>",
        "</From>",
        "<UserId>",
        "</UserId>",
        "<MsgType>event</MsgType>",
        "<MsgType>",
        "text",
        "</MsgType>",
        "<MsgId>",
        "</MsgId>",
        "<Text>",
        "<Content>",
        "</Content>",
        "</Text>",
        "<ChatId>",
        "</ChatId>",
        "&amp;",
        "&#0;",
        "&#x4F60;",
        "&",
        "<",
        ">",
        "/",
        "<!--",
        "-->",
        "<?xml version=\"1.0\"?>",
        "<!DOCTYPE",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "\"",
        "\"encrypt\":",
        "\"msgid\":",
        "\"from\":",
        "\"userid\":",
        "\"chatid\":",
        "\"msgtype\":\"event\"",
        "\"event\":",
        "\"text\":",
        "1e999",
        "-0",
        "null",
        "\\u0000",
        "\\ud800",
        "9007199254740993",
        " ",
        "\n",
        "\u{feff}",
        "群",
        "AAAA",
        "==",
        "\0",
    ]);
    let piece = prop_oneof![6 => known.prop_map(|word| word.as_bytes().to_vec()), 1 => vec(any::<u8>(), 0..8)];
    vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A well-formed message, and what is left of it after a few blows.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let whole = select(vec![
        text("damaged", "@小助手 /echo hi"),
        r#"{"msgid":"damaged","chatid":"c1","from":{"userid":"u1"},"msgtype":"text","text":{"content":"hi"}}"#
            .to_owned(),
        r#"{"msgtype":"event","create_time":1700000000,"event":{"eventtype":"enter_chat"}}"#.to_owned(),
    ]);
    (whole, vec((any::<Index>(), any::<u8>(), 0..6_usize), 0..4)).prop_map(|(whole, blows)| {
        let mut bytes = whole.into_bytes();
        for (place, byte, cut) in blows {
            let place = place.index(bytes.len().max(1)).min(bytes.len());
            let end = (place + cut).min(bytes.len());
            bytes.splice(place..end, [byte]);
        }
        bytes
    })
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..300), words(), damaged()]
}

#[test]
fn any_body_is_answered() {
    holds(400, (bytes(), select(vec![APP, CORP_APP, AIBOT, HOOK])), async |endpoint, (body, app)| {
        let callback = Callback::of("").to(app);
        let headers = [HOOK_HEADER, ("Content-Type", "application/json")];
        endpoint.client.ask(Method::POST, &callback.target(), &headers, body).await.status
    });
}

#[test]
fn any_decrypted_payload_is_answered() {
    holds(600, (bytes(), select(vec![APP, AIBOT, ANY_APP])), async |endpoint, (payload, app)| {
        endpoint.client.post(&Callback::of(payload).to(app)).await.status
    });
}

#[test]
fn any_plaintext_of_whole_blocks_is_answered() {
    let blocks = (vec(any::<u8>(), 0..200), any::<u32>(), any::<bool>(), 0..40_u8);
    holds(400, blocks, async |endpoint, (message, length, honest, pad)| {
        let length = if honest { message.len() as u32 } else { length };
        let mut blocks = plaintext(length, &message, b"");
        let whole = blocks.len().next_multiple_of(32);
        blocks.resize(whole, pad);
        endpoint.client.post(&Callback::of_blocks(blocks).to(ANY_APP)).await.status
    });
}

#[test]
fn any_query_is_answered() {
    let name = select(vec!["msg_signature", "signature", "timestamp", "nonce", "echostr", "x", ""]);
    let value = prop_oneof![
        vec(any::<u8>(), 0..60).prop_map(|bytes| url::form_urlencoded::byte_serialize(&bytes).collect::<String>()),
        "[!$%&'()*+,\\-./0-9:;=?@A-Za-z_~]{0,40}",
        any::<i64>().prop_map(|number| number.to_string()),
    ];
    holds(400, (vec((name, value), 0..8), any::<bool>()), async |endpoint, (pairs, get)| {
        let query: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        let target = format!("/callback/{APP}?{}", query.join("&"));
        let callback = Callback::of(text("query", "hi"));
        match get {
            true => endpoint.client.get(&target).await.status,
            false => endpoint.client.ask(Method::POST, &target, &[], callback.xml()).await.status,
        }
    });
}

#[test]
fn any_path_is_answered() {
    let path = prop_oneof!["[!$%&'()*+,\\-./0-9:;=@A-Za-z_~]{0,40}", "(%[0-9A-F]{2}){1,8}"];
    holds(300, path, async |endpoint, path| {
        let target = format!("/callback/{path}?{}", Callback::of("").query());
        endpoint.client.ask(Method::POST, &target, &[], "").await.status
    });
}

#[test]
fn any_echostr_is_answered() {
    holds(300, bytes(), async |endpoint, bytes| {
        let callback = Callback::of_ciphertext(String::from_utf8_lossy(&bytes));
        let target = format!("{}&echostr={}", callback.target(), percent_encoded(&callback.ciphertext));
        endpoint.client.get(&target).await.status
    });
}
