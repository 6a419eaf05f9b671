//! Samples of every product's payloads (ids made up), and what must not be taken.

use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Payload {
    parse(text.as_bytes(), &Fields::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn refused(text: &str) -> PayloadError {
    parse(text.as_bytes(), &Fields::default()).unwrap_err()
}

/// What most tests look at: chat, kind, message id, sender, type, text.
type Gist<'a> = (Option<&'a str>, ChatKind, Option<&'a str>, Option<(&'a str, SenderKind)>, &'a str, &'a str);

fn gist(payload: &Payload) -> Gist<'_> {
    let sender = payload.sender.as_ref().map(|(id, kind)| (id.as_str(), *kind));
    (payload.chat_id.as_deref(), payload.chat_kind, payload.msg_id.as_deref(), sender, &payload.msg_type, &payload.text)
}

const GROUP: ChatKind = ChatKind::Group;
const SINGLE: ChatKind = ChatKind::Single;
const EXTERNAL: SenderKind = SenderKind::External;
const INTERNAL: SenderKind = SenderKind::Internal;
const UNKNOWN: SenderKind = SenderKind::Unknown;

/// A group robot's XML around `inside`.
fn robot(inside: &str) -> String {
    format!(
        "<xml><WebhookUrl><![CDATA[ https://qyapi.weixin.qq.com/x]]></WebhookUrl><ChatId><![CDATA[wrGroup1]]></ChatId>\
         <ChatType>group</ChatType><From><UserId>zhangsan</UserId><Name><![CDATA[张三]]></Name><Alias>zs</Alias></From>\
         <GetChatInfoUrl>https://x</GetChatInfoUrl><MsgId>CAIQg/PK+xgY==</MsgId>{inside}</xml>"
    )
}

#[test]
fn self_built_app_text() {
    let payload = read(
        "<xml><ToUserName><![CDATA[ww1]]></ToUserName>\n<FromUserName><![CDATA[zhangsan]]></FromUserName>\n\
         <CreateTime>1409659813</CreateTime>\n<MsgType><![CDATA[text]]></MsgType>\n<Content><![CDATA[ hello ]]></Content>\n\
         <MsgId>4561255354251345929</MsgId>\n<AgentID>218</AgentID>\n</xml>",
    );
    let sender = Some(("zhangsan", UNKNOWN));
    assert_eq!(gist(&payload), (None, SINGLE, Some("4561255354251345929"), sender, "text", " hello "));
    assert_eq!(payload.sent_at, Some(1_409_659_813_000));
    assert_eq!((payload.sender_name, payload.response_url), (None, None));
}

#[test]
fn self_built_app_other_types_have_no_text() {
    for (kind, extra) in [
        ("image", "<PicUrl>u</PicUrl><MediaId>m</MediaId>"),
        ("voice", "<MediaId>m</MediaId><Format>amr</Format>"),
        ("location", "<Location_X>23.1</Location_X><Label>l</Label><AppType>wxwork</AppType>"),
        ("link", "<Title>t</Title><Description>d</Description><Url>u</Url>"),
        ("sticker_of_next_year", "<Content>not for us</Content>"),
    ] {
        let payload =
            read(&format!("<xml><FromUserName>a</FromUserName><MsgType>{kind}</MsgType>{extra}<MsgId>1</MsgId></xml>"));
        assert_eq!((payload.msg_type.as_str(), payload.text.as_str()), (kind, ""));
    }
}

#[test]
fn self_built_app_events() {
    for (inside, msg_type) in [
        ("<Event><![CDATA[subscribe]]></Event>", "event:subscribe"),
        ("<Event>CLICK</Event><EventKey>k</EventKey>", "event:click"),
        ("<Event>LOCATION</Event>", "event:location"),
        ("<Event></Event>", "event"),
        ("", "event"),
    ] {
        let payload = read(&format!("<xml><FromUserName>a</FromUserName><MsgType>event</MsgType>{inside}</xml>"));
        assert_eq!(gist(&payload), (None, SINGLE, None, Some(("a", UNKNOWN)), msg_type, ""), "{inside}");
    }
}

#[test]
fn contact_events() {
    let payload = read(
        "<xml><ToUserName>ww1</ToUserName><FromUserName>sys</FromUserName><CreateTime>1403610513</CreateTime><MsgType>event</MsgType>\
         <Event>change_external_contact</Event><ChangeType>add_external_contact</ChangeType><UserID>zhangsan</UserID>\
         <ExternalUserID>wmAbC</ExternalUserID><State>s</State><WelcomeCode>w</WelcomeCode></xml>",
    );
    let msg_type = "event:change_external_contact:add_external_contact";
    assert_eq!(gist(&payload), (None, SINGLE, None, Some(("wmAbC", EXTERNAL)), msg_type, ""));

    let payload = read(
        "<xml><FromUserName>sys</FromUserName><MsgType>event</MsgType><Event>change_external_chat</Event><ChatId>wrC</ChatId>\
         <ChangeType>update</ChangeType><UpdateDetail>add_member</UpdateDetail>\
         <MemChangeList><Item>u1</Item><Item>u2</Item></MemChangeList></xml>",
    );
    assert_eq!(
        gist(&payload),
        (Some("wrC"), GROUP, None, Some(("sys", UNKNOWN)), "event:change_external_chat:update", "")
    );
}

#[test]
fn group_robot_text_in_xml() {
    let payload = read(&robot("<MsgType>text</MsgType><Text><Content><![CDATA[@RobotA hello]]></Content></Text>"));
    let sender = Some(("zhangsan", INTERNAL));
    assert_eq!(gist(&payload), (Some("wrGroup1"), GROUP, Some("CAIQg/PK+xgY=="), sender, "text", "@RobotA hello"));
    assert_eq!((payload.sender_name.as_deref(), payload.sent_at), (Some("张三"), None));
}

#[test]
fn group_robot_text_in_json() {
    let payload = read(
        r#"{"webhook_url":"https://x","chatid":"wrGroup1","chattype":"group","from":{"userid":"zhangsan","alias":"zs"},
            "msgid":"CAIQ\/1","msgtype":"text","text":{"content":"@RobotA \u4f60\u597d"}}"#,
    );
    let sender = Some(("zhangsan", INTERNAL));
    assert_eq!(gist(&payload), (Some("wrGroup1"), GROUP, Some("CAIQ/1"), sender, "text", "@RobotA 你好"));
    assert_eq!(payload.sender_name.as_deref(), Some("zs"));
}

#[test]
fn text_parts_of_mixed_messages_are_joined() {
    let xml = robot(
        "<MsgType>mixed</MsgType><MixedMessage>\
         <MsgItem><MsgType>text</MsgType><Text><Content>@RobotA /help</Content></Text></MsgItem>\n\
         <MsgItem><MsgType>image</MsgType><Image><ImageUrl>u</ImageUrl></Image></MsgItem>\
         <MsgItem><MsgType>text</MsgType><Text><Content>now</Content></Text></MsgItem></MixedMessage>",
    );
    let robot_json = r#"{"chatid":"c","from":{"userid":"u"},"msgid":"1","msgtype":"mixed","mixed_message":{"msg_item":[
        {"msg_type":"text","text":{"content":"@RobotA /help"}},{"msg_type":"image","image":{"image_url":"u"}},
        {"msg_type":"text","text":{"content":"now"}}]}}"#;
    let aibot_json = r#"{"chatid":"c","from":{"userid":"u"},"msgid":"1","msgtype":"mixed","mixed":{"msg_item":[
        {"msgtype":"text","text":{"content":"@RobotA /help"}},{"msgtype":"image","image":{"url":"u"}},
        {"msgtype":"text","text":{"content":"now"}}]},"quote":{"msgtype":"text","text":{"content":"older words"}}}"#;
    for text in [xml.as_str(), robot_json, aibot_json] {
        let payload = read(text);
        assert_eq!((payload.msg_type.as_str(), payload.text.as_str()), ("mixed", "@RobotA /help now"), "{text}");
    }
}

#[test]
fn group_robot_events_and_buttons() {
    for (text, msg_type) in [
        (
            robot("<MsgType>event</MsgType><Event>\n <EventType><![CDATA[add_to_chat]]></EventType>\n</Event>"),
            "event:add_to_chat",
        ),
        (
            robot("<MsgType>event</MsgType><Event><EventType>delete_from_chat</EventType></Event>"),
            "event:delete_from_chat",
        ),
        (robot("<MsgType>attachment</MsgType><Attachment><CallbackId>c</CallbackId></Attachment>"), "attachment"),
        (robot("<MsgType>image</MsgType><Image><ImageUrl>u</ImageUrl></Image>"), "image"),
        (r#"{"chatid":"c","msgtype":"event","event":{"event_type":"enter_chat"}}"#.into(), "event:enter_chat"),
        (r#"{"msgtype":"attachment","attachment":{"callbackid":"c","actions":[{"name":"n"}]}}"#.into(), "attachment"),
    ] {
        let payload = read(&text);
        assert_eq!((payload.msg_type.as_str(), payload.text.as_str()), (msg_type, ""), "{text}");
    }
}

#[test]
fn chats_of_one_or_two_people() {
    let chat = |inside: &str| {
        let payload = read(&format!("<xml><MsgType>text</MsgType>{inside}</xml>"));
        (payload.chat_id, payload.chat_kind)
    };
    let wok = || Some("wokX".to_owned());
    assert_eq!(chat("<ChatId>wokX</ChatId><ChatType>single</ChatType>"), (wok(), SINGLE));
    assert_eq!(chat("<ChatId>wokX</ChatId>"), (wok(), GROUP));
    assert_eq!(chat("<ChatId>wokX</ChatId><ChatType>blackboard</ChatType>"), (wok(), GROUP));
    assert_eq!(chat("<ChatType>single</ChatType>"), (None, SINGLE));
    assert_eq!(chat(""), (None, SINGLE));
    assert_eq!(chat("<ChatType>group</ChatType>"), (None, GROUP), "a group without id is no one-to-one chat");
}

#[test]
fn optional_parts_may_be_missing() {
    for drop in [
        "<Alias>zs</Alias>",
        "<Name><![CDATA[张三]]></Name>",
        "<ChatType>group</ChatType>",
        "<GetChatInfoUrl>https://x</GetChatInfoUrl>",
    ] {
        let whole = robot("<MsgType>text</MsgType><Text><Content>hi</Content></Text>");
        assert!(whole.contains(drop));
        let payload = read(&whole.replace(drop, ""));
        assert_eq!((payload.chat_kind, payload.text.as_str()), (GROUP, "hi"), "without {drop}");
    }
}

#[test]
fn aibot_messages() {
    let payload = read(
        r#"{"msgid":"CAIQ16HMjQYY/NGagIOAgAMgq4KM0AI=","aibotid":"AIBOT","chatid":"wrG","chattype":"group","from":{"userid":"lisi"},
            "response_url":"https://qyapi.weixin.qq.com/cgi-bin/aibot/response?response_code=R1","msgtype":"text",
            "text":{"content":"@RobotA hello"},"quote":{"msgtype":"text","text":{"content":"quoted"}}}"#,
    );
    let sender = Some(("lisi", INTERNAL));
    assert_eq!(
        gist(&payload),
        (Some("wrG"), GROUP, Some("CAIQ16HMjQYY/NGagIOAgAMgq4KM0AI="), sender, "text", "@RobotA hello")
    );
    let url = payload.response_url.unwrap();
    assert!(url.expose().ends_with("response_code=R1"));

    let payload = read(
        r#"{"msgid":"1","chattype":"single","from":{"userid":"lisi"},"msgtype":"voice","voice":{"content":"spoken"},
            "quote":{"msgtype":"voice","voice":{"content":"older words"}}}"#,
    );
    assert_eq!(gist(&payload), (None, SINGLE, Some("1"), Some(("lisi", INTERNAL)), "voice", "spoken"));

    let payload = read(
        r#"{"msgid":"2","create_time":1700000000,"aibotid":"A","from":{"corpid":"ww1","userid":"lisi"},"msgtype":"event",
            "event":{"eventtype":"template_card_event","template_card_event":{"card_type":"c","event_key":"k"}}}"#,
    );
    assert_eq!((payload.msg_type.as_str(), payload.sent_at), ("event:template_card_event", Some(1_700_000_000_000)));
    assert_eq!(read(r#"{"msgid":"3","msgtype":"stream","stream":{"id":"s"}}"#).msg_type, "stream");
}

#[test]
fn plain_json_webhooks() {
    let text = |kind: &str, chat: &str| {
        let body = format!(
            r#"{{"MsgType":"Text","roomType":{kind},{chat}"FromUserName":"wmJ","Content":"/echo hi","MsgId":9007199254740993}}"#
        );
        let payload = read(&body);
        assert_eq!(payload.msg_id.as_deref(), Some("9007199254740993"));
        assert_eq!((payload.msg_type.as_str(), payload.text.as_str()), ("text", "/echo hi"));
        assert_eq!(payload.sender, Some(("wmJ".into(), UNKNOWN)));
        (payload.chat_id, payload.chat_kind)
    };
    let chat = Some("wrJ".to_owned());
    assert_eq!(text("2", r#""ChatId":"wrJ","#), (chat.clone(), GROUP));
    assert_eq!(text("\"2\"", r#""ChatId":"wrJ","#), (chat.clone(), GROUP));
    assert_eq!(text("1", r#""ChatId":"wrJ","#), (chat, SINGLE));
    assert_eq!(text("1", ""), (None, SINGLE));
    assert_eq!(text("null", r#""ChatId":null,"#), (None, SINGLE));
}

#[test]
fn ids_come_out_digit_for_digit() {
    for id in ["9007199254740993", "4561255354251345929", "123456789012345678901234567890", "1.50", "1e3", "-7"] {
        let payload = read(&format!(r#"{{"msgid": {id} ,"chatid":{id},"from":{{"userid":{id}}}}}"#));
        let sender = Some((id, INTERNAL));
        assert_eq!(gist(&payload), (Some(id), GROUP, Some(id), sender, "unknown", ""));
    }
    let payload = read(r#"{"MsgId":"007","ChatId":" WrMiXeD ","UserId":"Li,Si@x"}"#);
    assert_eq!(gist(&payload), (Some(" WrMiXeD "), GROUP, Some("007"), Some(("Li,Si@x", INTERNAL)), "unknown", ""));
}

#[test]
fn every_spelling_of_the_contract() {
    let spellings = "ChatId ChatID chatid chat_id RoomId roomid room_id GroupId group_id ConversationId conversationId";
    for name in spellings.split(' ') {
        assert_eq!(read(&format!("<xml><{name}>c</{name}></xml>")).chat_id.as_deref(), Some("c"), "{name}");
        assert_eq!(read(&format!(r#"{{"{name}":"c"}}"#)).chat_id.as_deref(), Some("c"), "{name}");
    }
    for name in ["MsgId", "MsgID", "msgid", "msg_id", "messageId"] {
        assert_eq!(read(&format!(r#"{{"{name}":"m"}}"#)).msg_id.as_deref(), Some("m"), "{name}");
    }
    for (names, kind) in
        [("ExternalUserId ExternalUserID external_userid", EXTERNAL), ("UserId UserID userid", INTERNAL)]
    {
        for name in names.split(' ') {
            let sender = Some(("s".to_owned(), kind));
            assert_eq!(read(&format!(r#"{{"{name}":"s","FromUserName":"f"}}"#)).sender, sender, "{name}");
            assert_eq!(read(&format!(r#"{{"From":{{"{name}":"s"}},"FromUserName":"f"}}"#)).sender, sender, "{name}");
            assert_eq!(read(&format!("<xml><from><{name}>s</{name}></from></xml>")).sender, sender, "{name}");
        }
    }
}

#[test]
fn the_better_spelling_wins_then_the_first() {
    assert_eq!(read(r#"{"roomId":"r","chatId":"c"}"#).chat_id.as_deref(), Some("c"));
    assert_eq!(read(r#"{"chatid":"","room_id":"r"}"#).chat_id.as_deref(), Some("r"));
    assert_eq!(read(r#"{"chatId":"first","ChatId":"second"}"#).chat_id.as_deref(), Some("first"));
    assert_eq!(read("<xml><MsgId>1</MsgId><MsgId>2</MsgId></xml>").msg_id.as_deref(), Some("1"));
    let both = r#"{"userid":"u","from":{"external_userid":"wmA","userid":"v"},"FromUserName":"f"}"#;
    assert_eq!(read(both).sender, Some(("wmA".into(), EXTERNAL)));
    // Only where a callback has them: never inside something else.
    assert_eq!(gist(&read(r#"{"quote":{"chatid":"c","msgid":"m"},"data":[{"chatid":"c"}]}"#)).0, None);
    assert_eq!(read("<xml><Attachment><ChatId>c</ChatId></Attachment></xml>").chat_id, None);
}

#[test]
fn an_apps_own_spellings_win() {
    let fields =
        Fields { chat_id: vec!["groupCode".into()], msg_id: vec!["uuid".into()], sender: vec!["talker".into()] };
    let own = |text: &str| parse(text.as_bytes(), &fields).unwrap();
    let payload =
        own(r#"{"chatid":"c","groupCode":"g","msgid":"1","uuid":"u","userid":"x","talker":"t","content":"hi"}"#);
    assert_eq!(gist(&payload), (Some("g"), GROUP, Some("u"), Some(("t", UNKNOWN)), "text", "hi"));
    let payload = own("<xml><groupcode>other</groupcode><ChatId>c</ChatId><From><talker>t</talker></From></xml>");
    assert_eq!((payload.chat_id.as_deref(), payload.sender), (Some("c"), Some(("t".into(), UNKNOWN))));
}

#[test]
fn markup_inside_text_stays_text() {
    let content =
        |inside: &str| read(&robot(&format!("<MsgType>text</MsgType><Text><Content>{inside}</Content></Text>"))).text;
    assert_eq!(content("<![CDATA[x]]]]><![CDATA[>y]]>"), "x]]>y");
    assert_eq!(content("a &amp; b &lt;c&gt;<![CDATA[ & <d>]]>&#33;"), "a & b <c> & <d>!");
    assert_eq!(content("<![CDATA[<xml><ChatId>other</ChatId></xml>]]>"), "<xml><ChatId>other</ChatId></xml>");
    assert_eq!(content("a<!-- b -->c"), "ac");
}

#[test]
fn types_may_be_missing_or_spelled_as_they_like() {
    assert_eq!(read(r#"{"content":"hi"}"#).msg_type, "text");
    assert_eq!(read(r#"{"text":{"content":"hi"}}"#).text, "hi");
    assert_eq!(read(r#"{"event":{"eventtype":"Enter_Chat"}}"#).msg_type, "event:enter_chat");
    assert_eq!(read(r#"{"mixed":{"msg_item":[{"text":{"content":"a"}}]}}"#).msg_type, "mixed");
    assert_eq!(read("<xml><MsgType> TEXT\n</MsgType><Content>hi</Content></xml>").text, "hi");
    assert_eq!(read("{}").msg_type, "unknown");
}

#[test]
fn times_are_seconds_or_milliseconds() {
    let sent_at = |time: &str| read(&format!(r#"{{"create_time":{time}}}"#)).sent_at;
    assert_eq!(sent_at("1700000000"), Some(1_700_000_000_000));
    assert_eq!(sent_at("\"1700000000\""), Some(1_700_000_000_000));
    assert_eq!(sent_at("1700000000123"), Some(1_700_000_000_123));
    for none in ["-1", "\"soon\"", "1.5", "99999999999999999999", "null", "{}"] {
        assert_eq!(sent_at(none), None, "{none}");
    }
}

#[test]
fn ids_that_are_none_are_refused_by_name() {
    let long = "x".repeat(513);
    let too_long = |field, limit| PayloadError::TooLong { field, limit };
    assert_eq!(refused(&format!(r#"{{"chatid":"{long}"}}"#)), too_long("chat id", 512));
    assert_eq!(refused(&format!("<xml><MsgId>{long}</MsgId></xml>")), too_long("message id", 512));
    assert_eq!(refused(&format!(r#"{{"from":{{"userid":"{long}"}}}}"#)), too_long("sender", 512));
    assert_eq!(refused(&format!(r#"{{"response_url":"{}"}}"#, "u".repeat(2049))), too_long("response_url", 2048));
    assert!(parse(format!(r#"{{"chatid":"{}"}}"#, "x".repeat(512)).as_bytes(), &Fields::default()).is_ok());
    for (text, field) in [
        (r#"{"chatid":"a\u0000b"}"#, "chat id"),
        (r#"{"msgid":"a\nb"}"#, "message id"),
        ("<xml><FromUserName>a&#27;b</FromUserName></xml>", "sender"),
        (r#"{"msgtype":"te\u0007xt"}"#, "message type"),
    ] {
        assert_eq!(refused(text), PayloadError::ControlCharacter { field });
    }
}

#[test]
fn names_are_made_presentable() {
    let name = |name: &str| read(&format!(r#"{{"from":{{"name":"{name}"}}}}"#)).sender_name;
    assert_eq!(name("a\\u0007\\n名"), Some("a名".into()));
    assert_eq!(name("\\n"), None);
    assert_eq!(name(&"名".repeat(500)).unwrap().chars().count(), 128);
}

#[test]
fn what_cannot_be_read_says_so_without_showing_it() {
    for text in ["", "hello", "[1]", "\"x\"", "MsgType=text"] {
        assert_eq!(refused(text), PayloadError::Unrecognised, "{text}");
    }
    assert_eq!(parse(b"{\"a\":\"\xff\"}", &Fields::default()), Err(PayloadError::Unrecognised));
    for text in [
        "{",
        r#"{"a":1}}"#,
        r#"{"FromUserName": :secret"}"#,
        r#"{"chatid":"\ud800"}"#,
        r#"{"from":{"userid":"secret\q"}}"#,
    ] {
        let error = refused(text);
        assert!(matches!(error, PayloadError::Json { line: 1, .. }), "{text}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert_eq!(refused("<xml><MsgType>text"), PayloadError::Xml(XmlError::Truncated));
    let bomb = "<!DOCTYPE x [<!ENTITY a \"b\">]><xml><Content>&a;</Content></xml>";
    assert!(matches!(refused(bomb), PayloadError::Xml(XmlError::Forbidden(_))));
    assert_eq!(refused(&"<xml>".repeat(1000)), PayloadError::Xml(XmlError::TooDeep));
    // Deep JSON is passed over, wherever it stands.
    for name in ["x", "from", "mixed", "text"] {
        let deep = format!(r#"{{"{name}":{}{},"msgid":"1"}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&deep).msg_id.as_deref(), Some("1"));
    }
}

/// Clients that cut a text at UTF-16 units leave half of a pair.
#[test]
fn half_a_surrogate_pair_costs_one_character_and_no_message() {
    let payload = read(
        r#"{"msgid":"1","chatid":"c","from":{"userid":"u","name":"张\ud83d"},"msgtype":"text","text":{"content":"好\ud83d"},"x":"\ude00"}"#,
    );
    assert_eq!((payload.text.as_str(), payload.sender_name.as_deref()), ("好\u{fffd}", Some("张\u{fffd}")));
    assert_eq!(read(r#"{"content":"\ud83d\ude00\ud83d"}"#).text, "😀\u{fffd}");
    let parts = r#"{"msgtype":"mixed","mixed":{"msg_item":[{"text":{"content":"a\udbff"}},{"text":{"content":"b"}}]}}"#;
    assert_eq!(read(parts).text, "a\u{fffd} b");
    assert_eq!(read(r#"{"msgtype":"voice","voice":{"content":"\udc00 hi"}}"#).text, "\u{fffd} hi");
    // An id has to be known again: two that are no text must not become one.
    for text in [r#"{"chatid":"\ud800"}"#, r#"{"msgid":"a\udc00"}"#, r#"{"from":{"userid":"\ud800"}}"#] {
        assert!(matches!(refused(text), PayloadError::Json { .. }), "{text}");
    }
}

#[test]
fn a_byte_order_mark_and_blanks_in_front_are_passed_over() {
    assert_eq!(read("\u{feff}\n{\"msgid\":\"1\"}").msg_id.as_deref(), Some("1"));
    assert_eq!(read("\u{feff}<?xml version=\"1.0\"?>\n<xml><MsgId>1</MsgId></xml>\n").msg_id.as_deref(), Some("1"));
}

#[test]
fn digests_tell_events_apart() {
    assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ne!(digest(b"<xml><UserID>a</UserID></xml>"), digest(b"<xml><UserID>b</UserID></xml>"));
}

proptest! {
    /// Damaged in any place, a payload is read or refused, and no id comes out that stores and logs can't take.
    #[test]
    fn damage_never_panics(sample in 0..3usize, at in 0..400usize, cut in 0..5usize, insert in ".{0,3}") {
        let xml = robot("<MsgType>text</MsgType><Text><Content><![CDATA[a]]>&amp;b</Content></Text>");
        let json = r#"{"chatid":"wrG","from":{"userid":"u"},"msgid":12345678901234567890,"msgtype":"mixed","mixed":{"msg_item":[{"text":{"content":"\u4f60"}}]}}"#;
        let text = [xml.as_str(), json, "<xml><MsgType>event</MsgType><Event>LOCATION</Event></xml>"][sample];
        let start = text.floor_char_boundary(at.min(text.len()));
        let end = text.ceil_char_boundary((start + cut).min(text.len()));
        let damaged = format!("{}{insert}{}", &text[..start], &text[end..]);
        let _ = envelope::ciphertext(damaged.as_bytes());
        if let Ok(payload) = parse(damaged.as_bytes(), &Fields::default()) {
            let ids = [payload.chat_id, payload.msg_id, payload.sender.map(|(id, _)| id)];
            for id in ids.into_iter().flatten() {
                prop_assert!(!id.is_empty() && id.len() <= 512 && !id.chars().any(char::is_control));
            }
        }
    }
}

#[test]
fn names_at_the_top_are_told_without_their_values() {
    assert_eq!(
        names(robot("<Text><Content>x</Content></Text>").as_bytes()).join(" "),
        "WebhookUrl ChatId ChatType From GetChatInfoUrl MsgId Text"
    );
    assert_eq!(names(br#" {"room":"1","from":{"id":2}}"#).join(" "), "room from");
    for unreadable in [&b"x"[..], b"{", b"<xml><a>", b"\xff"] {
        assert_eq!(names(unreadable), Vec::<String>::new());
    }
}
