//! One row for each thing that can come back.

use super::ChannelKind::*;
use super::*;
use crate::mask;

const EVERY_CHANNEL: [ChannelKind; 6] = [GroupRobot, AppMessage, AppChat, CustomerTask, ResponseUrl, JsonGateway];
const MINUTE: Verdict = Verdict::Paced(Duration::from_secs(60));

fn coded(status: u16, errcode: i64) -> Reply {
    Reply::Http { status, code: Some((errcode, "words".into())) }
}

fn taken(left_out: Option<&str>) -> Reply {
    Reply::Taken(Receipt { msgid: Some("m".into()), left_out: left_out.map(str::to_owned), failed: vec![] })
}

fn bare(status: u16) -> Reply {
    Reply::Http { status, code: None }
}

#[test]
fn rows_that_hold_on_every_channel() {
    use Verdict::*;
    let rows = [
        (Reply::NotTried("too many open files".into()), NotTried),
        (Reply::NotWritten("dns".into()), Transient),
        (Reply::NoAnswer("timeout".into()), Unknown),
        (taken(None), Delivered),
        (taken(Some("invaliduser u1")), Partial),
        (bare(200), Unknown),
        (bare(204), Unknown),
        (bare(301), Configuration),
        (bare(400), Rejected),
        (bare(403), Rejected),
        (bare(404), Rejected),
        (bare(413), Rejected),
        (bare(429), MINUTE),
        (bare(500), Unknown),
        (bare(502), Transient),
        (bare(503), Transient),
        (bare(504), Unknown),
        (bare(599), Unknown),
        (bare(101), Unknown),
        (bare(999), Unknown),
        // The status outweighs a code that contradicts it.
        (coded(400, 0), Rejected),
        (coded(429, 0), MINUTE),
        (coded(500, 0), Unknown),
        (coded(503, 93000), Transient),
        // System.
        (coded(200, -1), Transient),
        (coded(200, 6000), Transient),
        (coded(200, 45009), MINUTE),
        (coded(200, 45033), Paced(Duration::from_secs(3))),
        // Ours to mend.
        (coded(200, 40001), Configuration),
        (coded(200, 40013), Configuration),
        (coded(200, 40056), Configuration),
        (coded(200, 41002), Configuration),
        (coded(200, 41004), Configuration),
        (coded(200, 48001), Configuration),
        (coded(200, 48002), Configuration),
        (coded(200, 48004), Configuration),
        (coded(200, 50003), Configuration),
        (coded(200, 60020), Configuration),
        (coded(200, 301042), Configuration),
        (coded(200, 301002), Configuration),
        (coded(200, 84074), Configuration),
        (coded(200, 93004), Configuration),
        (coded(200, 93019), Configuration),
        // The content, or the recipient.
        (coded(200, 40003), Rejected),
        (coded(200, 40007), Rejected),
        (coded(200, 40008), Rejected),
        (coded(200, 40033), Rejected),
        (coded(200, 40035), Rejected),
        (coded(200, 40058), Rejected),
        (coded(200, 40063), Rejected),
        (coded(200, 40096), Rejected),
        (coded(200, 40206), Rejected),
        (coded(200, 44004), Rejected),
        (coded(200, 45001), Rejected),
        (coded(200, 45002), Rejected),
        (coded(200, 45008), Rejected),
        (coded(200, 60111), Rejected),
        (coded(200, 81013), Rejected),
        (coded(200, 82004), Rejected),
        (coded(200, 84061), Rejected),
        (coded(200, 93005), Rejected),
        (coded(200, 93006), Rejected),
        (coded(200, 846_608), Rejected),
        // In no official list.
        (coded(200, 93017), Rejected),
        (coded(200, 123_456_789), Rejected),
    ];
    for channel in EVERY_CHANNEL {
        for (reply, expected) in &rows {
            assert_eq!(verdict(channel, reply), *expected, "{channel:?} {reply:?}");
        }
    }
}

#[test]
fn a_chat_is_gone_where_the_channel_has_a_chat() {
    for errcode in [93000, 93008, 86001, 86003, 86008, 40050, 49008, 90501, 90509] {
        for channel in EVERY_CHANNEL {
            let expected = match channel {
                GroupRobot | AppChat | JsonGateway => Verdict::ChatGone,
                AppMessage | CustomerTask | ResponseUrl => Verdict::Rejected,
            };
            assert_eq!(verdict(channel, &coded(200, errcode)), expected, "{channel:?} {errcode}");
            assert_eq!(verdict(channel, &coded(400, errcode)), expected, "{channel:?} {errcode}");
        }
    }
}

#[test]
fn an_errcode_of_0_says_who_is_left_out() {
    let read = |body: &str| read_answer(200, body.as_bytes());
    let all = r#"{"errcode":0,"errmsg":"ok","invaliduser":"","unlicenseduser":"","msgid":"m"}"#;
    assert_eq!(read(all), Reply::Taken(Receipt { msgid: Some("m".into()), ..Receipt::default() }));
    assert_eq!(verdict(AppMessage, &read(all)), Verdict::Delivered);
    let some = r#"{"errcode":0,"errmsg":"ok","invaliduser":"u1|u2","invalidparty":"","unlicenseduser":"u3"}"#;
    assert_eq!(
        read(some),
        Reply::Taken(Receipt { left_out: Some("invaliduser u1|u2, unlicenseduser u3".into()), ..Receipt::default() })
    );
    let customers = read(r#"{"errcode":0,"errmsg":"ok","fail_list":["wm1","wm2"],"msgid":"m"}"#);
    let failed = vec!["wm1".to_owned(), "wm2".to_owned()];
    let told = Receipt { msgid: Some("m".into()), left_out: Some("fail_list wm1|wm2".into()), failed };
    assert_eq!(customers, Reply::Taken(told));
    let refused = r#"{"errcode":81013,"errmsg":"all","invaliduser":"u1"}"#;
    assert_eq!(read(refused), Reply::Http { status: 200, code: Some((81013, "all".into())) });
    // A front's refusal stays one.
    assert_eq!(read_answer(502, some.as_bytes()), Reply::Http { status: 502, code: Some((0, "ok".into())) });
}

#[test]
fn token_errors_are_refreshed_only_where_there_is_a_token() {
    for errcode in [40014, 41001, 42001, 42009] {
        for channel in EVERY_CHANNEL {
            let expected = match channel {
                AppMessage | AppChat | CustomerTask => Verdict::Token,
                GroupRobot | ResponseUrl | JsonGateway => Verdict::Configuration,
            };
            assert_eq!(verdict(channel, &coded(200, errcode)), expected, "{channel:?} {errcode}");
        }
    }
}

#[test]
fn answers_are_read_for_what_they_say() {
    let receipt = |status, body: &str| match read_answer(status, body.as_bytes()) {
        Reply::Taken(Receipt { msgid, left_out: None, .. }) => msgid,
        other => panic!("{other:?}"),
    };
    assert_eq!(receipt(200, r#"{"errcode":0,"errmsg":"ok"}"#), None);
    assert_eq!(receipt(201, r#" {"errmsg":"ok","errcode":"0","msgid":"x"} "#), Some("x".into()));
    let read = |body: &str| match read_answer(200, body.as_bytes()) {
        Reply::Http { status: 200, code } => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(r#"{"errcode":"93000"}"#), Some((93000, String::new())));
    assert_eq!(read(r#"{"errcode":-1,"errmsg":null}"#), Some((-1, String::new())));
    assert_eq!(read(r#"{"errcode":1,"errmsg":["a"]}"#), Some((1, String::new())));
    for silent in [
        "",
        "ok",
        "<html>",
        "[0]",
        "{}",
        "null",
        r#"{"errcode":null}"#,
        r#"{"errcode":false}"#,
        r#"{"errcode":0.0}"#,
        r#"{"errcode":""}"#,
        r#"{"errcode":"ok"}"#,
        r#"{"errcode":[0]}"#,
        r#"{"code":0}"#,
        r#"{"errcode":0"#,
        r#"{"errcode":99999999999999999999}"#,
    ] {
        assert_eq!(read(silent), None, "{silent}");
    }
    assert_eq!(read_answer(502, b"\xff\xfe"), bare(502));
}

#[test]
fn errmsg_is_kept_short_and_without_our_address() {
    let told = |errcode: i64, errmsg: &str| {
        let body = serde_json::json!({"errcode": errcode, "errmsg": errmsg}).to_string();
        let Reply::Http { code: Some((_, shown)), .. } = read_answer(200, body.as_bytes()) else { panic!("{body}") };
        shown
    };
    let shown = |errmsg: &str| told(48002, errmsg);
    assert_eq!(
        shown("not allow to access from your ip, hint: [1700], from ip: 203.0.113.7, more info at https://x"),
        "not allow to access from your ip, hint: [1700], more info at https://x"
    );
    // Sixteen numbers, of which the last would end in the middle.
    let numbers = vec!["13800138000"; 40].join("|");
    let answer = format!("{{\"errcode\":0,\"invaliduser\":\"{numbers}\"}}");
    let Reply::Taken(Receipt { left_out: Some(left_out), .. }) = read_answer(200, answer.as_bytes()) else { panic!() };
    for text in [left_out, shown(&numbers)] {
        assert!(text.ends_with("|") && !mask::phones_in(&text).contains("138001"), "{text}");
    }
    assert_eq!(shown("invalid webhook url, hint: [1700], from ip: 2001:db8::1"), "invalid webhook url, hint: [1700]");
    assert_eq!(shown("From IP:203.0.113.7 twice, from ip: 203.0.113.8"), " twice");
    assert_eq!(shown("a\nb\u{0}c"), "a b c");
    assert_eq!(shown(&"错".repeat(500)), "错".repeat(200));
    // But where that is what has to be entered; whatever else stands there is no address.
    let refused = "not allow to access from your ip, hint: [1700], from ip: 203.0.113.7, more info at https://x";
    for errcode in [60020, 301042] {
        let expected = "not allow to access from your ip, hint: [1700], more info at https://x (from ip: 203.0.113.7)";
        assert_eq!(told(errcode, refused), expected);
        assert!(address_mend(errcode).is_some());
    }
    assert_eq!(told(60020, "no, from ip: <b>x</b>"), "no");
    assert!(told(60020, &format!("{} from ip: 203.0.113.7", "错".repeat(500))).ends_with("错 (from ip: 203.0.113.7)"));
    assert_eq!(address_mend(48002), None);
}

#[test]
fn words_are_distinct() {
    let verdicts = [
        Verdict::Delivered,
        Verdict::Partial,
        Verdict::NotTried,
        MINUTE,
        Verdict::Transient,
        Verdict::Token,
        Verdict::ChatGone,
        Verdict::Rejected,
        Verdict::Configuration,
        Verdict::Unknown,
    ];
    let mut words: Vec<_> =
        verdicts.iter().map(|v| v.as_str()).chain(EVERY_CHANNEL.iter().map(|c| c.as_str())).collect();
    let all = words.len();
    words.sort_unstable();
    words.dedup();
    assert_eq!(words.len(), all);
}

#[test]
fn the_address_that_wecom_saw_is_read_and_no_other() {
    let body = |errmsg: &str| serde_json::json!({"errcode": 60020, "errmsg": errmsg}).to_string().into_bytes();
    for (errmsg, address) in [
        ("not allow to access from your ip, hint: [1700], from ip: 203.0.113.7, more info at https://x", "203.0.113.7"),
        ("From IP:2001:db8::1", "2001:db8::1"),
    ] {
        assert_eq!(seen_address(&body(errmsg)), address.parse().ok(), "{errmsg}");
    }
    for errmsg in ["ok", "from ip:", "from ip: , more", "from ip: nowhere"] {
        assert_eq!(seen_address(&body(errmsg)), None, "{errmsg}");
    }
    assert_eq!(shown("from ip:"), "");
    assert_eq!(seen_address(b"<html>"), None);
}
