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
use crate::config::settings::{App, AppKind, Chat, ChatWay, OnUnknown, Settings};
use crate::model::{ChatKind, Delivery, MessageKey, ReplyTo, RouteDigest, Secret, millis, now_ms};
use crate::sender::channel::{AppChat, AppMessage, Channel, CustomerTask, GroupRobot, JsonGateway, ResponseUrl};
use crate::store::Pace;
use crate::task::Recipient;
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

impl Flow {
    /// What a chat's entry says, or its app.
    fn of(app: &App, chat: &str) -> Self {
        let any = Self { pace: app.pace, coalesce: app.coalesce, weight: 1 };
        app.chats.get(chat).map_or(any, Self::from)
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
        let flow = Flow::of(app, &chat);
        match &app.kind {
            AppKind::App(_) => {
                // A group that has no entry is nobody's: its id must never be read as a member's.
                let api = app.api.clone().filter(|_| to.reply_to.chat_kind == ChatKind::Single);
                let message = api.and_then(|api| AppMessage::new(api, &sender, app.on_unknown));
                let message = message.ok_or(NoRoute::Missing)?;
                Ok(Route::new(message.digest(), message, flow))
            }
            AppKind::Json(_) => json_gateway(app, &chat, app.on_unknown),
            AppKind::Aibot(_) => {
                let url = to.reply_to.response_url.as_ref().ok_or(NoRoute::Missing)?;
                self.may_be_called(url, to.received_at)?;
                let response_url = ResponseUrl::new(url.clone());
                Ok(Route::new(response_url.digest(), response_url, flow))
            }
            AppKind::GroupRobot(_) => Err(NoRoute::Missing),
        }
    }

    /// How a push reaches its recipient now: a chat by its own entry, or by its app's gateway; members and customers by their app alone. `chat` is
    /// the chat of its lane.
    ///
    /// # Errors
    /// [`NoRoute::Missing`] where it does not.
    pub fn of_push(&self, app: &str, chat: &str, to: &Recipient, on_unknown: OnUnknown) -> Result<Route, NoRoute> {
        let entry = self.of(app, chat);
        let app = self.apps.get(app).ok_or(NoRoute::Missing)?;
        match (to, entry) {
            (Recipient::Chat, Some(route)) => Ok(route.clone()),
            (Recipient::Chat, None) => json_gateway(app, chat, on_unknown),
            (Recipient::Members(set), _) => {
                let api = app.api.clone().ok_or(NoRoute::Missing)?;
                let message = AppMessage::to_set(api, set.clone(), on_unknown);
                Ok(Route::new(message.digest(), message, Flow::of(app, chat)))
            }
            (Recipient::Customers(set), _) => {
                let task = CustomerTask::new(app.api.clone().ok_or(NoRoute::Missing)?, set.clone());
                Ok(Route::new(task.digest(), task, Flow::of(app, chat)))
            }
        }
    }

    /// How a delivery reaches whom it is for now.
    fn of_delivery(&self, delivery: &Delivery) -> Result<Route, NoRoute> {
        let Delivery { app, chat_id, key, reply_to, received_at, .. } = delivery;
        match &delivery.push {
            // Its body is made: what it asks of the far side stands in there.
            Some(push) => self.of_push(app, chat_id, &push.to, OnUnknown::Hold),
            None => self.find(Destination { key, reply_to, received_at: *received_at }),
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
        let ends = received_at.saturating_add(millis(RESPONSE_URL_LIVES));
        if now_ms() > ends { Err(NoRoute::ResponseUrlExpired) } else { Ok(()) }
    }

    fn belongs_to_another(&self, digest: &RouteDigest, app: &str, chat: &str) -> bool {
        self.owners.get(digest).is_some_and(|owners| owners.iter().any(|owner| !owner.is(app, chat)))
    }
}

fn json_gateway(app: &App, chat: &str, on_unknown: OnUnknown) -> Result<Route, NoRoute> {
    let gateway = app.gateway.clone().ok_or(NoRoute::Missing)?;
    let gateway = JsonGateway::new(gateway, chat, on_unknown);
    Ok(Route::new(gateway.digest(), gateway, Flow::of(app, chat)))
}

/// By which route a reply or push may leave now.
///
/// A chat whose webhook was replaced keeps its waiting replies: the new webhook is its own, and the old one is nobody's. A
/// reply whose body says where it goes leaves by the route that it was made for, or not at all.
///
/// # Errors
/// [`NoRoute`] where it may leave by none.
pub fn guard(delivery: &Delivery, routes: &Routes) -> Result<Route, NoRoute> {
    let (app, chat, recorded) = (delivery.app.as_str(), delivery.chat_id.as_str(), &delivery.route);
    let current = routes.of_delivery(delivery)?;
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
mod tests;
