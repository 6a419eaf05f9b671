//! Who is reached by which route, and what leaves by none.

use std::time::Duration;

use super::*;
use crate::config::settings::{Api, Gateway, JsonAuth};
use crate::wecom::crypto::{CallbackCrypto, ReceiveId};

fn digest(webhook: &str) -> RouteDigest {
    RouteDigest::of("group_robot", webhook)
}

const PACE: Pace = Pace { limit: 20, window: Duration::from_secs(60) };
const FLOW: Flow = Flow { pace: PACE, coalesce: true, weight: 1 };

/// Routes of `(app, chat, webhook)`.
fn routes(entries: &[(&str, &str, &str)]) -> Routes {
    let mut routes = Routes::default();
    for (app, chat, webhook) in entries {
        let robot = GroupRobot::new(Secret::new(*webhook));
        routes.insert(app, chat, Route::new(digest(webhook), robot, FLOW));
    }
    routes
}

/// A reply of chat `a` of app `x`, queued for this route.
fn reply(route: RouteDigest, bound: bool) -> Delivery {
    Delivery {
        id: "r.0".into(),
        request_id: "r".into(),
        key: MessageKey::new("x", "a", "u", "m"),
        app: "x".into(),
        chat_id: "a".into(),
        reply_to: ReplyTo::default(),
        push: None,
        message: serde_json::Value::Null,
        route,
        bound,
        repeat_until: None,
        expires_at: 0,
        received_at: 0,
        queued_at: 0,
        trace: None,
    }
}

#[test]
fn a_reply_leaves_by_its_own_chats_route_or_not_at_all() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)], Result<&'a str, NoRoute>);
    // Queued while its webhook was `A`.
    let cases: &[Case] = &[
        ("unchanged", &[("x", "a", "A"), ("x", "b", "B")], Ok("A")),
        ("no routes", &[], Err(NoRoute::Missing)),
        ("only the other chat", &[("x", "b", "B")], Err(NoRoute::Missing)),
        ("gone, and its webhook is another's", &[("x", "b", "A")], Err(NoRoute::Missing)),
        ("replaced; the old one is nobody's", &[("x", "a", "A2"), ("x", "b", "B")], Ok("A2")),
        ("two chats swapped", &[("x", "a", "B"), ("x", "b", "A")], Err(NoRoute::Changed)),
        ("replaced; the old one is another app's", &[("x", "a", "A2"), ("y", "a", "A")], Err(NoRoute::Changed)),
        ("used twice", &[("x", "a", "A"), ("x", "b", "A")], Err(NoRoute::Shared)),
        ("used twice over apps", &[("x", "a", "A"), ("y", "a", "A")], Err(NoRoute::Shared)),
        ("the same chat id in another app", &[("y", "a", "A")], Err(NoRoute::Missing)),
    ];
    for (name, entries, want) in cases {
        let routes = routes(entries);
        let got = guard(&reply(digest("A"), false), &routes).map(|route| route.digest);
        assert_eq!(got, want.map(digest), "{name}");
    }
}

#[test]
fn a_reply_that_says_where_it_goes_stays_with_its_route() {
    let same = routes(&[("x", "a", "A")]);
    assert!(guard(&reply(digest("A"), true), &same).is_ok());
    let replaced = guard(&reply(digest("old"), true), &same);
    assert_eq!(replaced.map(drop), Err(NoRoute::Changed), "made for an app message, say");
    let mut by_app = Routes::default();
    let app_chat = AppChat::new(Arc::new(api()), "a");
    by_app.insert("x", "a", Route::new(app_chat.digest(), app_chat.clone(), FLOW));
    assert_eq!(guard(&reply(digest("A"), false), &by_app).map(drop), Err(NoRoute::Changed), "a robot's");
    assert!(guard(&reply(app_chat.digest(), true), &by_app).is_ok());
}

fn api() -> Api {
    Api { corp_id: "ww1".into(), agent_id: 7, secret: Secret::new("s3cret"), ask_contacts: false }
}

fn crypto() -> CallbackCrypto {
    CallbackCrypto::new(Secret::new("t"), &Secret::new("a".repeat(43)), ReceiveId::Any).unwrap()
}

/// An app `x` of this kind, whose chat `heavy` has an entry without a route.
fn of_kind(kind: AppKind) -> Routes {
    let chat =
        Chat { id: "heavy".into(), name: None, weight: 9, pace: Pace { limit: 1, ..PACE }, coalesce: true, way: None };
    let gateway = Gateway {
        url: Secret::new("http://127.0.0.1/send"),
        instance_guid: None,
        client_msg_id_window: Duration::from_secs(600),
    };
    let app = App {
        api: matches!(kind, AppKind::App(_)).then(|| Arc::new(api())),
        gateway: matches!(kind, AppKind::Json(_)).then(|| Arc::new(gateway)),
        chats: [(chat.id.clone(), chat)].into(),
        ..App::for_tests("x", kind)
    };
    let hosts = vec!["qyapi.weixin.qq.com".to_owned(), "127.0.0.1".to_owned()];
    Routes { apps: [("x".to_owned(), Arc::new(app))].into(), hosts, ..Routes::default() }
}

fn found(routes: &Routes, chat: &str, sender: &str, reply_to: &ReplyTo) -> Result<Route, NoRoute> {
    let key = MessageKey::new("x", chat, sender, "m");
    routes.find(Destination { key: &key, reply_to, received_at: now_ms() })
}

#[test]
fn a_group_is_never_taken_for_a_member() {
    let routes = of_kind(AppKind::App(crypto()));
    let (group, single) = (ReplyTo::default(), ReplyTo { chat_kind: ChatKind::Single, response_url: None });
    let route = found(&routes, "u1", "u1", &single).unwrap();
    assert_eq!(route.channel.kind(), ChannelKind::AppMessage);
    assert_eq!(route.pace, Pace { limit: 16, ..PACE }, "WeCom's own limit, below the app's");
    assert_eq!(route.channel.body(serde_json::json!({}), "r.0")["touser"], "u1");
    assert_eq!(found(&routes, "wrGroup", "u1", &group).unwrap_err(), NoRoute::Missing);
    assert_eq!(found(&routes, "u1", "u1", &group).unwrap_err(), NoRoute::Missing, "what was not said to be single");
    for everybody in ["@all", "u1|u2"] {
        assert_eq!(found(&routes, everybody, everybody, &single).unwrap_err(), NoRoute::Missing, "{everybody}");
    }
    let heavy = found(&routes, "heavy", "u1", &single).unwrap();
    assert_eq!((heavy.weight, heavy.pace.limit), (9, 1));
}

#[test]
fn what_a_member_wrote_alone_is_not_answered_into_a_group_of_their_name() {
    let mut routes = of_kind(AppKind::App(crypto()));
    routes.insert("x", "u1", Route::new(digest("A"), GroupRobot::new(Secret::new("A")), FLOW));
    let (group, single) = (ReplyTo::default(), ReplyTo { chat_kind: ChatKind::Single, response_url: None });
    let kind = |to| found(&routes, "u1", "u1", to).map(|route| route.channel.kind());
    assert_eq!((kind(&single), kind(&group)), (Ok(ChannelKind::AppMessage), Ok(ChannelKind::GroupRobot)));
}

#[test]
fn every_kind_has_its_way() {
    let to = ReplyTo::default();
    let json = found(&of_kind(AppKind::Json(JsonAuth::None)), "c", "u", &to).unwrap();
    assert_eq!(json.channel.kind(), ChannelKind::JsonGateway);
    assert_eq!(found(&of_kind(AppKind::GroupRobot(crypto())), "c", "u", &to).unwrap_err(), NoRoute::Missing);
}

#[test]
fn a_response_url_is_good_for_an_hour_at_a_known_host() {
    let routes = of_kind(AppKind::Aibot(crypto()));
    let to = |url: &str| ReplyTo { response_url: Some(Secret::new(url)), ..ReplyTo::default() };
    let good = "https://qyapi.weixin.qq.com/cgi-bin/aibot/response?response_code=C";
    let route = found(&routes, "c", "u", &to(good)).unwrap();
    assert!(route.is_single_use() && !format!("{route:?}").contains("response_code"));
    assert_eq!(found(&routes, "c", "u", &ReplyTo::default()).unwrap_err(), NoRoute::Missing);
    let foreign =
        ["https://evil.example/x", "http://qyapi.weixin.qq.com/x", "file:///etc/passwd", "", "qyapi.weixin.qq.com"];
    for url in foreign {
        assert_eq!(found(&routes, "c", "u", &to(url)).unwrap_err(), NoRoute::ForeignResponseUrl, "{url}");
    }
    let key = MessageKey::new("x", "c", "u", "m");
    let taken =
        |ago: i64| routes.find(Destination { key: &key, reply_to: &to(good), received_at: now_ms() - ago }).map(drop);
    assert_eq!((taken(3_590_000), taken(3_601_000)), (Ok(()), Err(NoRoute::ResponseUrlExpired)));
}

#[test]
fn chat_ids_are_compared_as_they_stand() {
    let routes = routes(&[("x", "wrA", "A")]);
    for other in ["wra", " wrA", "wrA ", "wrA\0", ""] {
        assert!(routes.of("x", other).is_none(), "{other:?}");
    }
    assert!(routes.of("x", "wrA").is_some());
}

#[test]
fn a_route_does_not_tell_its_webhook() {
    assert!(!format!("{:?}", routes(&[("x", "a", "https://host/send?key=k-e-y")])).contains("k-e-y"));
}
