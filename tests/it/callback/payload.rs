//! What a decrypted message says: ids as they stand, optional parts missing, types that are only counted.

use serde_json::json;

use super::client::INSIDE;
use super::endpoint::{AIBOT, CHAT, CORP_APP, Endpoint, text};
use super::seal::{CORP, Callback};
use crate::world::{APP, key};

#[tokio::test]
async fn an_id_comes_back_as_it_was_written() {
    let endpoint = Endpoint::new().await;
    let ids = [
        "CAIQg/PKxgYY2sC9tpuAgAMg9/zKaw==",
        "CAIQ+a/b",
        "cAIQ+a/b",
        "4561255354251345929",
        "4561255354251345928",
        "004",
        "4",
        "1e3",
        "a:b%3Ac{d}",
        "a:b:c{d}",
        " padded ",
        "padded",
        "群消息·😀",
        "../../etc",
        "?a=b&c#d",
    ];
    for id in ids {
        endpoint.client.post(&Callback::of(text(id, "hi"))).await.taken();
    }
    for id in ids {
        assert_eq!(endpoint.trail(id).await["msg_id"], id);
    }
    let long = "x".repeat(512);
    endpoint.client.post(&Callback::of(text(&long, "hi"))).await.taken();
    assert_eq!(endpoint.trail(&long).await["msg_id"], long.as_str());
    endpoint.world.end().await;
}

#[tokio::test]
async fn an_id_that_would_break_names_is_refused() {
    let endpoint = Endpoint::new().await;
    for id in [format!("{INSIDE}{}", "x".repeat(512)), format!("{INSIDE}\n"), format!("{INSIDE}\u{7f}")] {
        endpoint.client.post(&Callback::of(text(&id, "hi"))).await.refused(400, "bad_payload");
    }
    for json in [r#""msgid":"only-inside\u0000""#, r#""msgid":"m","chatid":"only-inside\r\nX: 1""#] {
        let payload = format!(r#"{{{json},"from":{{"userid":"u"}},"msgtype":"text","text":{{"content":"hi"}}}}"#);
        endpoint.client.post(&Callback::of(payload)).await.refused(400, "bad_payload");
    }
    endpoint.world.end().await;
}

/// The parts of a robot's message; what is not needed for routing may be missing.
const PARTS: [(&str, &str, bool); 9] = [
    ("WebhookUrl", "<WebhookUrl> http://127.0.0.1:9/cgi-bin/webhook/send?key=x</WebhookUrl>", true),
    ("ChatId", "<ChatId>c1</ChatId>", false),
    ("ChatType", "<ChatType>group</ChatType>", true),
    ("From", "<From><UserId>u1</UserId><Name><![CDATA[U 1]]></Name><Alias>u</Alias></From>", false),
    ("GetChatInfoUrl", "<GetChatInfoUrl><![CDATA[http://127.0.0.1:9/x?code=1&a]]></GetChatInfoUrl>", true),
    ("PostId", "<PostId>p</PostId>", true),
    ("MsgType", "<MsgType>text</MsgType>", true),
    ("Text", "<Text><Content><![CDATA[/echo hi]]></Content></Text>", true),
    ("MsgId", "<MsgId>{}</MsgId>", false),
];

fn without(missing: &str, id: &str) -> String {
    let parts = PARTS.iter().filter(|(name, ..)| *name != missing).map(|(_, part, _)| part.replace("{}", id));
    format!("<xml>{}</xml>", parts.collect::<String>())
}

#[tokio::test]
async fn only_what_routing_needs_must_be_there() {
    let endpoint = Endpoint::new().await;
    for (missing, _, optional) in PARTS {
        println!("without {missing}");
        let id = format!("without-{missing}");
        let answer = endpoint.client.post(&Callback::of(without(missing, &id))).await;
        if optional {
            answer.taken();
            let trail = endpoint.trail(&id).await;
            assert_eq!((&trail["chat"], &trail["sender"]), (&json!(CHAT), &json!("u1")), "{trail}");
        } else {
            answer.refused(400, "missing_field");
        }
    }
    for inner in ["<Name><![CDATA[U 1]]></Name>", "<Alias>u</Alias>"] {
        let payload = without("", "m").replace(inner, "").replace(">m<", &format!(">{}<", inner.len()));
        endpoint.client.post(&Callback::of(payload)).await.taken();
    }
    endpoint.fence().await;
    // Without a type it is known by its content; without content there is nothing to say.
    assert!(endpoint.world.texts(CHAT).iter().filter(|text| *text == "hi").count() >= 6);
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_one_to_one_message_needs_no_chat_id() {
    let endpoint = Endpoint::new().await;
    let single = without("ChatId", "single").replace("group", "single");
    endpoint.client.post(&Callback::of(single)).await.taken();
    assert_eq!(endpoint.trail("single").await["chat"], "u1");
    // A self-built app's messages say nothing of chats.
    let app = "<xml><ToUserName><![CDATA[x]]></ToUserName><FromUserName><![CDATA[u9]]></FromUserName>\
               <CreateTime>1409659813</CreateTime><MsgType>text</MsgType><Content>hi</Content><MsgId>77</MsgId></xml>";
    endpoint.client.post(&Callback::for_receiver(app, CORP).to(CORP_APP)).await.taken();
    let trail = endpoint.trail("77").await;
    assert_eq!((&trail["chat"], &trail["sender"]), (&json!("u9"), &json!("u9")));
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_smart_robot_is_acked_with_nothing() {
    let endpoint = Endpoint::new().await;
    let payload = json!({
        "msgid": "hX7-qR-YSuKTmrMFYeLQVwAA", "aibotid": "AIB", "chatid": "c1", "chattype": "group",
        "from": {"userid": "u1"}, "response_url": "https://qyapi.weixin.qq.com/cgi-bin/aibot/response?code=x",
        "msgtype": "text", "text": {"content": "@小助手 /echo hi"}, "quote": {"msgtype": "text", "text": {"content": "old"}},
    });
    let callback = Callback::of(payload.to_string()).to(AIBOT);
    for _ in 0..2 {
        let answer = endpoint.client.post_as(&callback, callback.json()).await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b""[..]));
    }
    let trail = endpoint.trail("hX7-qR-YSuKTmrMFYeLQVwAA").await;
    assert_eq!((&trail["chat"], &trail["sender"]), (&json!("c1"), &json!("u1")));
    // A refusal has a body here too.
    endpoint.client.post_as(&callback, callback.clone().forged().xml() + "x").await.refused(400, "bad_envelope");
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_type_that_nobody_handles_is_counted() {
    let endpoint = Endpoint::new().await;
    let long = "x".repeat(512);
    for (n, msg_type) in ["voice", "sticker", "IMAGE", "类型", "stream", long.as_str()].into_iter().enumerate() {
        let id = format!("type-{n}");
        let payload = text(&id, INSIDE).replace("<MsgType>text<", &format!("<MsgType>{msg_type}<"));
        endpoint.client.post(&Callback::of(payload)).await.taken();
        let trail = endpoint.trail(&id).await;
        assert_eq!(trail["outcome"], "ignored");
        assert_eq!(trail["reason"], format!("type:{}", msg_type.to_ascii_lowercase()));
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_text_is_read_whole() {
    let endpoint = Endpoint::new().await;
    let said = [
        ("<![CDATA[/echo x]]]]><![CDATA[>y]]>", "x]]>y"),
        ("/echo a &amp; b &lt;c&gt; &#x4F60;", "a & b <c> 你"),
        ("<![CDATA[/echo <a>&amp;</a>]]>", "<a>&amp;</a>"),
        ("/echo <!-- not said -->1<![CDATA[2]]>3", "123"),
    ];
    for (n, (content, _)) in said.iter().enumerate() {
        let payload = without("Text", &format!("said-{n}"))
            .replace("</xml>", &format!("<Text><Content>{content}</Content></Text></xml>"));
        endpoint.client.post(&Callback::of(payload)).await.taken();
    }
    endpoint.fence().await;
    assert_eq!(endpoint.world.texts(CHAT), said.map(|(_, heard)| heard));
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_command_is_read_from_a_mixed_message() {
    let endpoint = Endpoint::new().await;
    let image = "<MsgItem><MsgType>image</MsgType><Image><ImageUrl>http://127.0.0.1:9/i</ImageUrl></Image></MsgItem>";
    let words =
        "<MsgItem><MsgType>text</MsgType><Text><Content><![CDATA[@小助手 /echo one]]></Content></Text></MsgItem>";
    let xml = without("Text", "mixed-1")
        .replace("<MsgType>text<", "<MsgType>mixed<")
        .replace("</xml>", &format!("<MixedMessage>{image}{words}</MixedMessage></xml>"));
    endpoint.client.post(&Callback::of(xml)).await.taken();
    for (n, name, item_type) in [(2, "mixed", "msgtype"), (3, "mixed_message", "msg_type")] {
        let items = json!([{item_type: "image", "image": {"url": "x"}}, {item_type: "text", "text": {"content": format!("/echo {n}")}}]);
        let payload = json!({
            "msgid": format!("mixed-{n}"), "chatid": CHAT, "chattype": "group", "from": {"userid": "u1"},
            "msgtype": "mixed", name: {"msg_item": items},
        });
        endpoint.client.post(&Callback::of(payload.to_string())).await.taken();
    }
    endpoint.fence().await;
    assert_eq!(endpoint.world.texts(CHAT), ["one", "2", "3"]);
    assert_eq!(endpoint.world.fake.posts(&key(CHAT)), 4);
    endpoint.world.end().await;
}

#[tokio::test]
async fn an_authentic_payload_that_cannot_be_read_is_no_success() {
    let endpoint = Endpoint::new().await;
    let payloads = [
        &b""[..],
        b"hello",
        b"1616140317555161061",
        b"\xff\xfe\x00",
        b"<xml><MsgId>1</MsgId>",
        b"<!DOCTYPE x [<!ENTITY a \"only-inside\">]><xml><MsgId>&a;</MsgId></xml>",
        b"<xml><MsgId>&only-inside;</MsgId></xml>",
        b"{\"msgid\":",
        b"[1]",
        b"{\"only-inside\":1}}",
    ];
    for payload in payloads {
        println!("{}", String::from_utf8_lossy(payload));
        endpoint.client.post(&Callback::of(payload)).await.refused(400, "bad_payload");
    }
    assert_eq!(endpoint.counted(APP, "bad_payload").await, payloads.len() as u64);
    // What a message lacks is said, what else it holds is not.
    let payload = format!("<xml><MsgType>{INSIDE}</MsgType><ChatId>{INSIDE}</ChatId><Text>{INSIDE}</Text></xml>");
    let sentence = endpoint.client.post(&Callback::of(payload)).await.refused(400, "missing_field");
    assert!(sentence.contains("sender"), "{sentence}");
    endpoint.world.end().await;
}
