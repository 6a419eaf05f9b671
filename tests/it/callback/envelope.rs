//! The outer body: what may stand around the ciphertext, and what is refused before any key is used.

use super::client::INSIDE;
use super::endpoint::{AIBOT, Endpoint, text};
use super::seal::{Callback, seconds_from_now};
use crate::world::APP;

#[tokio::test]
async fn the_ciphertext_is_found_in_whatever_is_around_it() {
    let endpoint = Endpoint::new().await;
    let wraps = [
        "<xml><Encrypt><![CDATA[{}]]></Encrypt></xml>",
        "<xml><Encrypt>{}</Encrypt></xml>",
        "<xml><AgentID>1</AgentID><Encrypt><![CDATA[{}]]></Encrypt><ToUserName>x</ToUserName></xml>",
        "<xml>\n  <Encrypt>\n {} \n</Encrypt>\r\n</xml>",
        "<xml><Encrypt><![CDATA[\n\t{}\r\n]]></Encrypt></xml>",
        "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<xml><Encrypt><![CDATA[{}]]></Encrypt></xml>\n\n",
        "  \r\n<xml><!-- a comment --><Encrypt a='1'>{}</Encrypt ></xml>",
        "<xml><Other><Encrypt>bm8=</Encrypt></Other><Encrypt>{}</Encrypt></xml>",
        r#"{"encrypt":"{}"}"#,
        r#"{"tousername":"x","Encrypt":"{}","agentid":218}"#,
        "\u{feff}\n{\"agentid\":\"1\",\"encrypt\": \"{}\\n\"}\n",
    ];
    for (n, wrap) in wraps.iter().enumerate() {
        let id = format!("wrap-{n}");
        // A robot may be given JSON, and a smart robot XML: what comes is seen, not configured.
        for app in [APP, AIBOT] {
            let callback = Callback::of(text(&id, "hi")).to(app);
            let answer = endpoint.client.post_as(&callback, wrap.replace("{}", &callback.ciphertext)).await;
            assert_eq!(answer.status, 200, "{wrap}: {answer:?}");
        }
        assert_eq!(endpoint.trails(&id).await.len(), 2, "{wrap}");
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_body_that_is_not_sealed_is_refused() {
    let endpoint = Endpoint::new().await;
    let signed = Callback::of(text("open", INSIDE));
    let open = text("open", INSIDE);
    for (body, name) in [
        (open.clone(), "a plain message"),
        (format!("<xml>{open}<AgentID>1000002</AgentID></xml>"), "one inside another"),
        (format!(r#"{{"msgid":"open","msgtype":"text","text":{{"content":"{INSIDE}"}}}}"#), "JSON"),
        (String::new(), "nothing"),
        (" \n ".into(), "blanks"),
        (format!("encrypt={}", signed.ciphertext), "a form"),
        (signed.ciphertext.clone(), "the bare ciphertext"),
        (format!("[{}]", signed.json()), "a list"),
        (format!("{}{}", signed.json(), signed.json()), "two objects"),
        (signed.xml().replace("</xml>", ""), "half a document"),
        (signed.xml().replace("Encrypt>", "encrypt>"), "another name"),
        (format!("<xml><a>{}</a></xml>", signed.xml()), "too far inside"),
        (signed.xml().replace("<ToUserName>", "<Encrypt>eA==</Encrypt><ToUserName>"), "two of them"),
        (format!(r#"{{"encrypt":"{0}","Encrypt":"{0}"}}"#, signed.ciphertext), "two spellings"),
    ] {
        println!("{name}");
        endpoint.client.post_as(&signed, body).await.refused(400, "bad_envelope");
    }
    let utf16: Vec<u8> = signed.xml().encode_utf16().flat_map(u16::to_le_bytes).collect();
    endpoint.client.post_as(&signed, utf16).await.refused(400, "bad_envelope");
    let gzip = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0];
    endpoint.client.post_as(&signed, gzip).await.refused(400, "bad_envelope");
    // Signed values of one callback don't open another's body.
    let other = Callback::of(text("open", INSIDE));
    endpoint.client.post_as(&signed, other.xml()).await.refused(403, "signature_mismatch");
    endpoint.nothing_of(&["open"]).await;
    endpoint.world.end().await;
}

/// Ten levels of ten entities each: a gigabyte, where they are expanded.
fn entity_bomb() -> String {
    let levels: String =
        (1..=10).map(|level| format!("<!ENTITY e{level} \"{}\">", format!("&e{};", level - 1).repeat(10))).collect();
    format!("<!DOCTYPE x [<!ENTITY e0 \"boom\">{levels}]><xml><Encrypt>&e10;</Encrypt></xml>")
}

/// What only an attacker writes; `{}` is where the ciphertext stands.
fn hostile_documents() -> Vec<String> {
    let mut documents: Vec<String> = [
        "<!DOCTYPE x [<!ENTITY a SYSTEM \"file:///etc/hostname\">]><xml><Encrypt>&a;</Encrypt></xml>",
        "<!DOCTYPE x SYSTEM \"http://127.0.0.1:9/x.dtd\"><xml><Encrypt>{}</Encrypt></xml>",
        "<!DOCTYPE xml><xml><Encrypt>{}</Encrypt></xml>",
        "<?xml-stylesheet href=\"x\"?><xml><Encrypt>{}</Encrypt></xml>",
        "<xml><Encrypt>{}&unknown;</Encrypt></xml>",
        "<xml><Encrypt>{}</Encrypt></xml><xml/>",
        "<xml><Encrypt>{}</Encrypt></xml>trailer",
        "<xml><Encrypt><![CDATA[{}</Encrypt></xml>",
        "<xml><Encrypt>{}</Encrypt></html>",
    ]
    .map(String::from)
    .into();
    documents.push(entity_bomb());
    let deep =
        |levels: usize| format!("<xml>{}{}<Encrypt>{{}}</Encrypt></xml>", "<a>".repeat(levels), "</a>".repeat(levels));
    documents.extend([deep(100), deep(100_000), "<a>".repeat(349_525), format!("<xml>{}", "<a/>".repeat(200_000))]);
    documents.push(format!("<xml><Encrypt>{{}}</Encrypt><{}", "a".repeat(1_000_000)));
    documents.extend(["[".repeat(1_000_000), format!("{{\"a\":{}", "[".repeat(1_000_000))]);
    documents.push(format!("{{{}", "\"a\":{".repeat(200_000)));
    documents
}

#[tokio::test]
async fn what_no_callback_has_is_refused_unopened() {
    let endpoint = Endpoint::new().await;
    let signed = Callback::of(text("hostile", INSIDE));
    for document in hostile_documents() {
        println!("{:.60}", document);
        let body = document.replace("{}", &signed.ciphertext);
        endpoint.client.post_as(&signed, body).await.refused(400, "bad_envelope");
    }
    endpoint.nothing_of(&["hostile"]).await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_large_document_around_the_ciphertext_is_no_fault() {
    let endpoint = Endpoint::new().await;
    let callback = Callback::of(text("wide", "hi"));
    let filler = "<a>&amp;<![CDATA[x]]></a>".repeat(30_000);
    let body = format!("<xml>{filler}<Encrypt>{}</Encrypt></xml>", callback.ciphertext);
    endpoint.client.post_as(&callback, body).await.taken();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = format!(r#"{{"more":{deep},"encrypt":"{}"}}"#, callback.ciphertext);
    endpoint.client.post_as(&callback, body).await.taken();
    endpoint.world.end().await;
}

#[tokio::test]
async fn an_old_or_undated_callback_is_refused() {
    let endpoint = Endpoint::new().await;
    let at = |timestamp: &str| Callback::of(text("undated", INSIDE)).at(timestamp);
    for timestamp in ["abc", "", "99999999999999999999", "-99999999999999999999", "1e9", "0x10", "12 ", "１２"] {
        endpoint.client.post(&at(timestamp)).await.refused(400, "bad_timestamp");
    }
    let off = |minutes: i64| seconds_from_now(minutes * 60).to_string();
    let last = i64::MAX.to_string();
    for timestamp in ["-1", "0", "1409659813", &off(-31), &off(6), &last, &i64::MIN.to_string()] {
        endpoint.client.post(&at(timestamp)).await.refused(403, "timestamp_skew");
    }
    // Which of the two is wrong is told only to who can sign.
    endpoint.client.post(&at(&off(-31)).forged()).await.refused(403, "signature_mismatch");
    endpoint.nothing_of(&["undated"]).await;
    for (id, minutes) in [("29 min old", -29), ("4 min ahead", 4)] {
        endpoint.client.post(&Callback::of(text(id, "hi")).at(off(minutes))).await.taken();
        endpoint.trail(id).await;
    }
    endpoint.world.end().await;
}
