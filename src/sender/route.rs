//! Routes: by which channel each chat is reached, and the guard in front of every send.
//!
//! Pure. An entry of the configuration says how its chat is reached; a chat without one is reached by what its app's kind
//! gives: the member of a one-to-one chat by `message/send`, a conversation by its JSON gateway, an aibot's message by its
//! own `response_url`. A reply remembers the digest of its chat's route from when it was queued; [`guard`] compares that
//! with today's routes, so that no edit of the configuration can move a reply to another chat: it goes by the route
//! of its own chat, or nowhere.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use crate::config::is_loopback;
use crate::config::settings::{App, AppKind, Chat, ChatWay, Settings};
use crate::model::{ChatKind, Delivery, MessageKey, ReplyTo, RouteDigest, Secret, now_ms};
use crate::sender::channel::{AppChat, AppMessage, Channel, GroupRobot, JsonGateway, ResponseUrl};
use crate::store::Pace;
use crate::wecom::verdict::ChannelKind;

/// How long a `response_url` may be called (document/path/101138), from when its message was taken.
const RESPONSE_URL_LIVES: Duration = Duration::from_secs(3600);

/// How one chat is reached now.
#[derive(Clone, Debug)]
pub struct Route {
    /// Names channel and address without telling them.
    pub digest: RouteDigest,
    /// The way itself.
    pub channel: Arc<dyn Channel>,
    /// Rate of the chat.
    pub pace: Pace,
    /// Whether waiting replies may leave as one message while pace holds them back.
    pub coalesce: bool,
    /// 1..=100; an operator's weight in the store wins over it.
    pub weight: u32,
}

/// How a chat's replies may leave, by whatever channel.
#[derive(Clone, Copy)]
struct Flow {
    pace: Pace,
    coalesce: bool,
    weight: u32,
}

impl From<&Chat> for Flow {
    fn from(chat: &Chat) -> Self {
        Self { pace: chat.pace, coalesce: chat.coalesce, weight: chat.weight }
    }
}

impl Route {
    fn new(digest: RouteDigest, channel: impl Channel + 'static, flow: Flow) -> Self {
        let Flow { pace, coalesce, weight } = flow;
        let pace = channel.most().map_or(pace, |most| slower(pace, most));
        Self { digest, channel: Arc::new(channel), pace, coalesce, weight }
    }

    fn of(chat: &Chat) -> Option<Self> {
        Some(match chat.way.as_ref()? {
            ChatWay::Webhook(webhook) => {
                let robot = GroupRobot::new(webhook.url.clone());
                Self::new(webhook.digest.clone(), robot, chat.into())
            }
            ChatWay::AppChat(api) => {
                let app_chat = AppChat::new(api.clone(), &chat.id);
                Self::new(app_chat.digest(), app_chat, chat.into())
            }
        })
    }

    /// Whether it takes one call, and no second one.
    pub fn is_single_use(&self) -> bool {
        self.channel.kind() == ChannelKind::ResponseUrl
    }
}

/// The one that allows less in its time.
fn slower(a: Pace, b: Pace) -> Pace {
    let per_hour = |pace: Pace| f64::from(pace.limit) / pace.window.as_secs_f64();
    if per_hour(a) <= per_hour(b) { a } else { b }
}

/// What is to be answered: a chat, and what its message said of how that can be done.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The message.
    pub key: &'a MessageKey,
    /// What it said.
    pub reply_to: &'a ReplyTo,
    /// When it was taken, Unix ms.
    pub received_at: i64,
}

impl<'a> From<&'a Delivery> for Destination<'a> {
    fn from(delivery: &'a Delivery) -> Self {
        Self { key: &delivery.key, reply_to: &delivery.reply_to, received_at: delivery.received_at }
    }
}

/// Why a reply has no way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRoute {
    /// The chat has no route now.
    #[error("the chat has no route")]
    Missing,
    /// The route by which the reply was to leave belongs to another chat now.
    #[error("the reply's route belongs to another chat now")]
    Changed,
    /// Two chats claim the chat's route, so neither has it.
    #[error("the chat's route is used by another chat too")]
    Shared,
    /// The message's own address leads to a host that is not allowed.
    #[error("the response_url leads to a host that is not in webhook_hosts, or there without encryption")]
    ForeignResponseUrl,
    /// The message's own address is over.
    #[error("the response_url is older than an hour")]
    ResponseUrlExpired,
    /// The message's own address has had its one call.
    #[error("the response_url was used by an earlier answer")]
    ResponseUrlUsed,
}

impl NoRoute {
    /// The reason in trails and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "route_missing",
            Self::Changed => "route_changed",
            Self::Shared => "route_shared",
            Self::ForeignResponseUrl => "response_url_host",
            Self::ResponseUrlExpired => "response_url_expired",
            Self::ResponseUrlUsed => "response_url_used",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ChatRef {
    app: String,
    chat: String,
}

impl ChatRef {
    fn is(&self, app: &str, chat: &str) -> bool {
        self.app == app && self.chat == chat
    }
}

/// The routes of all chats of all apps.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    by_app: HashMap<String, HashMap<String, Route>>,
    /// Whose each webhook is: one chat's, unless the configuration is at fault.
    owners: HashMap<RouteDigest, Vec<ChatRef>>,
    /// For the chats without a route of their own.
    apps: HashMap<String, Arc<App>>,
    /// Hosts that a `response_url` may lead to.
    hosts: Vec<String>,
}

impl Routes {
    /// Reads the routes off the settings.
    pub fn new(settings: &Settings) -> Self {
        let apps = settings.apps.iter().map(|(id, app)| (id.clone(), app.clone())).collect();
        let mut routes = Self { apps, hosts: settings.wecom.webhook_hosts.clone(), ..Self::default() };
        for app in settings.apps.values() {
            for chat in app.chats.values() {
                if let Some(route) = Route::of(chat) {
                    routes.insert(&app.id, &chat.id, route);
                }
            }
        }
        routes
    }

    fn insert(&mut self, app: &str, chat: &str, route: Route) {
        if route.channel.kind() == ChannelKind::GroupRobot {
            let owner = ChatRef { app: app.to_owned(), chat: chat.to_owned() };
            self.owners.entry(route.digest.clone()).or_default().push(owner);
        }
        self.by_app.entry(app.to_owned()).or_default().insert(chat.to_owned(), route);
    }

    /// The route that the configuration gives a chat.
    pub fn of(&self, app: &str, chat: &str) -> Option<&Route> {
        self.by_app.get(app)?.get(chat)
    }

    /// How an answer reaches its chat now.
    ///
    /// # Errors
    /// [`NoRoute`] where it does not.
    pub fn find(&self, to: Destination<'_>) -> Result<Route, NoRoute> {
        let [app, chat, sender, _] = to.key.parts();
        let (entry, app) = (self.of(&app, &chat), self.apps.get(&app));
        // What a member wrote to an app alone is answered to them alone, also where a group bears their id.
        let is_private = app.is_some_and(|app| matches!(app.kind, AppKind::App(_)))
            && to.reply_to.chat_kind == ChatKind::Single
            && chat == sender;
        if let Some(route) = entry.filter(|_| !is_private) {
            return Ok(route.clone());
        }
        let app = app.ok_or(NoRoute::Missing)?;
        let any = Flow { pace: app.pace, coalesce: app.coalesce, weight: 1 };
        let flow = app.chats.get(&chat).map_or(any, Flow::from);
        match &app.kind {
            AppKind::App(_) => {
                // A group that has no entry is nobody's: its id must never be read as a member's.
                let api = app.api.clone().filter(|_| to.reply_to.chat_kind == ChatKind::Single);
                let message = api.and_then(|api| AppMessage::new(api, &sender, app.on_unknown));
                let message = message.ok_or(NoRoute::Missing)?;
                Ok(Route::new(message.digest(), message, flow))
            }
            AppKind::Json(_) => {
                let gateway = app.gateway.clone().ok_or(NoRoute::Missing)?;
                let gateway = JsonGateway::new(gateway, &chat, app.on_unknown);
                Ok(Route::new(gateway.digest(), gateway, flow))
            }
            AppKind::Aibot(_) => {
                let url = to.reply_to.response_url.as_ref().ok_or(NoRoute::Missing)?;
                self.may_be_called(url, to.received_at)?;
                let response_url = ResponseUrl::new(url.clone());
                Ok(Route::new(response_url.digest(), response_url, flow))
            }
            AppKind::GroupRobot(_) => Err(NoRoute::Missing),
        }
    }

    /// A callback is no authority on where requests may go.
    fn may_be_called(&self, url: &Secret, received_at: i64) -> Result<(), NoRoute> {
        let url = Url::parse(url.expose()).map_err(|_| NoRoute::ForeignResponseUrl)?;
        let is_known = url.host_str().is_some_and(|host| self.hosts.iter().any(|known| known == host));
        let is_private = url.scheme() == "https" || (url.scheme() == "http" && is_loopback(&url));
        if !is_known || !is_private {
            return Err(NoRoute::ForeignResponseUrl);
        }
        let ends = received_at.saturating_add(i64::try_from(RESPONSE_URL_LIVES.as_millis()).unwrap_or(i64::MAX));
        if now_ms() > ends { Err(NoRoute::ResponseUrlExpired) } else { Ok(()) }
    }

    fn belongs_to_another(&self, digest: &RouteDigest, app: &str, chat: &str) -> bool {
        self.owners.get(digest).is_some_and(|owners| owners.iter().any(|owner| !owner.is(app, chat)))
    }
}

/// By which route a reply may leave now.
///
/// A chat whose webhook was replaced keeps its waiting replies: the new webhook is its own, and the old one is nobody's. A
/// reply whose body says where it goes leaves by the route that it was made for, or not at all.
///
/// # Errors
/// [`NoRoute`] where it may leave by none.
pub fn guard(delivery: &Delivery, routes: &Routes) -> Result<Route, NoRoute> {
    let (app, chat, recorded) = (delivery.app.as_str(), delivery.chat_id.as_str(), &delivery.route);
    let current = routes.find(delivery.into())?;
    if routes.belongs_to_another(&current.digest, app, chat) {
        return Err(NoRoute::Shared);
    }
    let is_replaced = *recorded != current.digest;
    if is_replaced && (delivery.bound || current.channel.is_bound() || routes.belongs_to_another(recorded, app, chat)) {
        return Err(NoRoute::Changed);
    }
    Ok(current)
}

#[cfg(test)]
mod tests {
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
            message: serde_json::Value::Null,
            route,
            bound,
            repeat_until: None,
            expires_at: 0,
            received_at: 0,
            queued_at: 0,
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
        let chat = Chat {
            id: "heavy".into(),
            name: None,
            weight: 9,
            pace: Pace { limit: 1, ..PACE },
            coalesce: true,
            way: None,
        };
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
        let taken = |ago: i64| {
            routes.find(Destination { key: &key, reply_to: &to(good), received_at: now_ms() - ago }).map(drop)
        };
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
}
