//! Kinds and limits of messages.

use serde_json::{Value, json};

use super::*;

fn sent(message: Value) -> Vec<Value> {
    fit(&message, &GROUP_ROBOT).unwrap_or_else(|error| panic!("{error}: {message}"))
}

fn refused(message: Value) -> String {
    fit(&message, &GROUP_ROBOT).unwrap_err().to_string()
}

fn contents(parts: &[Value]) -> Vec<&str> {
    parts.iter().map(|part| part[part["msgtype"].as_str().unwrap()]["content"].as_str().unwrap()).collect()
}

/// `message` with the value at `pointer` replaced, or removed where it is null.
fn with(message: &Value, pointer: &str, value: Value) -> Value {
    let mut message = message.clone();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = message.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
    if value.is_null() {
        parent.remove(name);
    } else {
        parent.insert(name.to_owned(), value);
    }
    message
}

#[test]
fn short_messages_go_out_as_they_are() {
    for message in [
        text("你好"),
        json!({"msgtype": "text", "text": {"content": "hi", "mentioned_list": ["a", "@all"], "mentioned_mobile_list": []}}),
        json!({"msgtype": "markdown", "markdown": {"content": "**b** <@zhangsan>"}}),
        json!({"msgtype": "markdown_v2", "markdown_v2": {"content": "| a |\n|---|"}}),
    ] {
        assert_eq!(sent(message.clone()), [message]);
    }
}

#[test]
fn a_message_never_says_where_it_goes() {
    let stray = json!({"msgtype": "text", "text": {"content": "hi"}, "chatid": "wrOther", "visible_to_user": "x", "markdown": {"content": "no"}});
    assert_eq!(sent(stray), [text("hi")]);
}

#[test]
fn long_texts_are_cut_by_bytes() {
    let parts = sent(text(&"你".repeat(683)));
    assert_eq!(contents(&parts).iter().map(|part| part.len()).collect::<Vec<_>>(), [2046, 3]);
    let parts = sent(json!({"msgtype": "markdown", "markdown": {"content": "你".repeat(1366)}}));
    assert_eq!(contents(&parts).iter().map(|part| part.len()).collect::<Vec<_>>(), [4095, 3]);
    let line = "a".repeat(9000);
    let parts = sent(json!({"msgtype": "markdown_v2", "markdown_v2": {"content": line}}));
    assert_eq!(contents(&parts).concat(), line);
    assert_eq!(parts.len(), 3);
    assert!(sent(text(&"x".repeat(2048))).len() == 1 && sent(text(&"x".repeat(2049))).len() == 2);
}

#[test]
fn mentions_stay_with_the_first_part() {
    let content = "段落。".repeat(600);
    let parts = sent(
        json!({"msgtype": "text", "text": {"content": content, "mentioned_list": ["@all"], "mentioned_mobile_list": ["1"]}}),
    );
    assert_eq!(contents(&parts).concat(), content);
    assert_eq!(parts[0]["text"]["mentioned_list"], json!(["@all"]));
    assert_eq!(parts[0]["text"]["mentioned_mobile_list"], json!(["1"]));
    for part in &parts[1..] {
        assert_eq!(part["text"].as_object().unwrap().keys().collect::<Vec<_>>(), ["content"]);
    }
}

#[test]
fn markdown_fences_survive_the_cut_and_texts_have_none() {
    let content = format!("```sql\n{}```", "select 1;\n".repeat(600));
    let parts = sent(json!({"msgtype": "markdown", "markdown": {"content": content}}));
    for part in contents(&parts) {
        assert!(part.len() <= 4096 && part.starts_with("```sql\nselect") && part.ends_with(";\n```"), "{part}");
    }
    assert!(!contents(&sent(text(&content)))[1].contains("sql"));
}

#[test]
fn types_that_cannot_be_sent_are_named() {
    assert_eq!(refused(json!({"msgtype": "miniprogram", "miniprogram": {}})), "unknown msgtype `miniprogram`");
    assert!(refused(json!({"msgtype": "x".repeat(1000)})).len() < 100);
    for message in [json!({}), json!({"msgtype": 1}), json!("hi"), json!(null), json!([])] {
        assert_eq!(refused(message), "a message is an object with a text `msgtype`");
    }
    let message = json!({"msgtype": "markdown_v2", "markdown_v2": {"content": "x"}});
    assert_eq!(fit(&message, &APP_MESSAGE), Err(MessageError::UnsupportedType("markdown_v2")));
}

#[test]
fn empty_and_missing_contents_are_named() {
    for kind in ["text", "markdown", "markdown_v2"] {
        for content in ["", " \n\t", "\u{3000}"] {
            assert_eq!(
                refused(json!({"msgtype": kind, kind: {"content": content}})),
                format!("`{kind}.content` is empty")
            );
        }
        for body in [json!({}), json!({"content": 1}), json!("hi"), json!(null)] {
            let message = json!({"msgtype": kind, kind: body});
            assert_eq!(refused(message), format!("`{kind}.content` must be a text"));
        }
        assert_eq!(refused(json!({"msgtype": kind})), format!("`{kind}.content` must be a text"));
    }
    let message = json!({"msgtype": "text", "text": {"content": "hi", "mentioned_list": "@all"}});
    assert_eq!(refused(message), "`text.mentioned_list` must be a list of texts");
    let message = json!({"msgtype": "text", "text": {"content": "hi", "mentioned_mobile_list": [13800000000u64]}});
    assert_eq!(refused(message), "`text.mentioned_mobile_list` must be a list of texts");
}

#[test]
fn news() {
    let article = json!({"title": "t", "url": "https://x", "description": "d", "picurl": "https://y"});
    let news = |articles: Vec<Value>| json!({"msgtype": "news", "news": {"articles": articles}});
    assert_eq!(sent(news(vec![article.clone(); 8])), [news(vec![article.clone(); 8])]);
    assert_eq!(refused(news(vec![])), "`news.articles` is empty");
    assert_eq!(refused(news(vec![article.clone(); 9])), "`news.articles` has 9 articles, at most 8 are taken");
    assert_eq!(refused(news(vec![json!({"title": "t"})])), "`news.articles.url` must be a text");
    assert_eq!(refused(news(vec![article.clone(), json!({"url": "u"})])), "`news.articles.title` must be a text");
    let long = |name: &str, bytes: usize| {
        news(vec![with(&json!({"a": article}), &format!("/a/{name}"), json!("x".repeat(bytes)))["a"].clone()])
    };
    assert_eq!(sent(long("title", 128)).len() + sent(long("description", 512)).len(), 2);
    assert_eq!(refused(long("title", 129)), "`news.articles.title` has 129 bytes, at most 128 are taken");
    assert_eq!(refused(long("description", 513)), "`news.articles.description` has 513 bytes, at most 512 are taken");
    assert_eq!(refused(news(vec![json!("x")])), "`news.articles` must be a list of objects");
    assert_eq!(refused(json!({"msgtype": "news", "news": {}})), "`news.articles` must be a list");
}

#[test]
fn images() {
    use base64::Engine as _;
    let image = |bytes: usize| {
        let base64 = base64::engine::general_purpose::STANDARD.encode(vec![7; bytes]);
        json!({"msgtype": "image", "image": {"base64": base64, "md5": "D41D8CD98F00B204E9800998ECF8427E"}})
    };
    let good = image(100);
    assert_eq!(sent(good.clone()), std::slice::from_ref(&good));
    let limit = 2 * 1024 * 1024;
    for bytes in [limit - 1, limit] {
        assert_eq!(sent(image(bytes)).len(), 1, "{bytes}");
    }
    for bytes in [limit + 1, limit + 2, limit + 3, 2 * limit] {
        assert!(refused(image(bytes)).contains("at most 2097152 are taken"), "{bytes}");
    }
    assert_eq!(refused(with(&good, "/image/base64", json!("no base64!"))), "`image.base64` must be base64");
    assert_eq!(refused(with(&good, "/image/base64", json!(null))), "`image.base64` must be base64");
    for md5 in [json!(null), json!(""), json!("d41d8cd9"), json!("z".repeat(32)), json!(32)] {
        assert_eq!(refused(with(&good, "/image/md5", md5)), "`image.md5` must be 32 hex digits");
    }
}

#[test]
fn files_and_voices() {
    for kind in ["file", "voice"] {
        let good = json!({"msgtype": kind, kind: {"media_id": "3a8"}});
        assert_eq!(sent(good.clone()), [good]);
        for body in [json!({}), json!({"media_id": ""}), json!({"media_id": 3}), json!(null)] {
            assert_eq!(refused(json!({"msgtype": kind, kind: body})), format!("`{kind}.media_id` must be a text"));
        }
    }
}

#[test]
fn what_is_to_be_uploaded_has_its_content() {
    use base64::Engine as _;
    let base64 = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let file = json!({"msgtype": "file", "file": {"base64": base64(b"a,b,c,d"), "filename": "a.csv"}});
    assert_eq!(sent(file.clone()), std::slice::from_ref(&file));
    let voice = json!({"msgtype": "voice", "voice": {"base64": base64(b"#!AMR\n0123456789")}});
    assert_eq!(sent(voice.clone()), std::slice::from_ref(&voice));
    let rows = [
        (with(&file, "/file/filename", json!(null)), "`file.filename` must be a text"),
        (with(&file, "/file/base64", json!("?")), "`file.base64` must be base64"),
        (with(&file, "/file/base64", json!(base64(b"12345"))), "`file.base64` must be more than 5 bytes"),
        (with(&voice, "/voice/base64", json!(base64(b"ID3 no AMR"))), "`voice.base64` must be an AMR file"),
    ];
    for (message, fault) in rows {
        assert_eq!(refused(message), fault);
    }
    let long = with(&voice, "/voice/base64", json!(base64(&[b"#!AMR\n".as_slice(), &vec![0; 2 << 20]].concat())));
    assert!(refused(long).contains("at most 2097152 are taken"));
    // An app's own ids come from elsewhere.
    assert_eq!(fit(&file, &APP_MESSAGE).unwrap_err().to_string(), "`file.media_id` must be a text");
}

#[test]
fn each_channel_takes_its_own() {
    let own = |kind: &str, body: Value| json!({"msgtype": kind, kind: body});
    let card = |kind: &str| {
        own(
            "template_card",
            json!({"card_type": kind, "task_id": "t-1@x", "main_title": {"title": "t"}, "card_action": {"type": 1, "url": "u"}}),
        )
    };
    let textcard = own("textcard", json!({"title": "t", "description": "d", "url": "https://x"}));
    let media = |kind: &str| own(kind, json!({"media_id": "m"}));
    let markdown = |bytes: usize| own("markdown", json!({"content": "x".repeat(bytes)}));
    let parts = |message: &Value, limits| fit(message, limits).map_or(0, |parts| parts.len());
    type Row = (Value, [usize; 4]);
    let rows: Vec<Row> = vec![
        (text(&"x".repeat(2049)), [2, 2, 2, 2]),
        (markdown(2048), [1, 1, 1, 0]),
        (markdown(4096), [1, 2, 2, 0]),
        (own("markdown_v2", json!({"content": "x"})), [1, 0, 0, 0]),
        (textcard.clone(), [0, 1, 1, 0]),
        (card("text_notice"), [1, 1, 0, 0]),
        (card("vote_interaction"), [0, 1, 0, 0]),
        (media("image"), [0, 1, 1, 0]),
        (media("file"), [1, 1, 1, 0]),
        (media("video"), [0, 1, 1, 0]),
    ];
    for (message, expected) in rows {
        let got = [&GROUP_ROBOT, &APP_MESSAGE, &APP_CHAT, &JSON_GATEWAY].map(|limits| parts(&message, limits));
        assert_eq!(got, expected, "{}", message.to_string().chars().take(100).collect::<String>());
    }
    let app = |message: &Value| fit(message, &APP_MESSAGE).unwrap_err().to_string();
    assert_eq!(app(&with(&textcard, "/textcard/description", json!(null))), "`textcard.description` must be a text");
    assert!(app(&with(&textcard, "/textcard/title", json!("长".repeat(129)))).contains("129 characters, at most 128"));
    let vote = card("vote_interaction");
    assert!(app(&with(&vote, "/template_card/task_id", json!(null))).contains("where a card asks"));
    assert!(app(&with(&vote, "/template_card/task_id", json!("a b"))).contains("letters, digits"));
}

#[test]
fn template_cards() {
    let notice = json!({"msgtype": "template_card", "template_card": {
        "card_type": "text_notice", "main_title": {"title": "t"}, "card_action": {"type": 1, "url": "https://x"},
        "horizontal_content_list": [{}, {}, {}, {}, {}, {}], "jump_list": [{}, {}, {}], "vertical_content_list": [{}, {}, {}, {}]}});
    assert_eq!(sent(notice.clone()), std::slice::from_ref(&notice));
    let subtitle = with(&notice, "/template_card/main_title", json!(null));
    assert_eq!(
        refused(subtitle.clone()),
        "`template_card.main_title.title` must be a text where sub_title_text is none"
    );
    sent(with(&subtitle, "/template_card/sub_title_text", json!("s")));

    let news = with(&notice, "/template_card/card_type", json!("news_notice"));
    assert_eq!(refused(news.clone()), "`template_card.card_image.url` must be a text where image_text_area is none");
    let news = with(&news, "/template_card/card_image", json!({"url": "https://x"}));
    sent(news.clone());
    assert_eq!(
        refused(with(&news, "/template_card/main_title", json!({"desc": "d"}))),
        "`template_card.main_title.title` must be a text"
    );

    let rows = [
        (
            "/template_card/card_type",
            json!("vote_interaction"),
            "`template_card.card_type` must be text_notice or news_notice",
        ),
        ("/template_card/card_action", json!(null), "`template_card.card_action` must be an object"),
        ("/template_card/card_action", json!({"type": 0}), "`template_card.card_action.type` must be 1 or 2"),
        ("/template_card/card_action", json!({"type": 1}), "`template_card.card_action.url` must be a text"),
        (
            "/template_card/card_action",
            json!({"type": 2, "url": "u"}),
            "`template_card.card_action.appid` must be a text",
        ),
        (
            "/template_card/jump_list",
            json!([1, 2, 3, 4]),
            "`template_card.jump_list` has 4 entries, at most 3 are taken",
        ),
        ("/template_card/jump_list", json!("x"), "`template_card.jump_list` must be a list"),
        (
            "/template_card/horizontal_content_list",
            json!([1, 2, 3, 4, 5, 6, 7]),
            "`template_card.horizontal_content_list` has 7 entries, at most 6 are taken",
        ),
        (
            "/template_card/vertical_content_list",
            json!([1, 2, 3, 4, 5]),
            "`template_card.vertical_content_list` has 5 entries, at most 4 are taken",
        ),
    ];
    for (pointer, value, fault) in rows {
        assert_eq!(refused(with(&notice, pointer, value)), fault);
    }
    assert_eq!(refused(json!({"msgtype": "template_card"})), "`template_card` must be an object");
}

#[test]
fn mentions_reach_the_wire_as_they_are() {
    let parts = sent(json!({"msgtype": "markdown", "markdown": {"content": "ok <@zhangsan>"}}));
    assert!(parts[0].to_string().contains("<@zhangsan>"));
}
