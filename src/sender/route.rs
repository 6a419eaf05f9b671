//! Routes: by which channel each chat is reached, and the guard in front of every send.
//!
//! Pure. A reply remembers the digest of its chat's route from when it was queued; [`guard`] compares that with
//! today's routes, so that no edit of the configuration can move a reply to another chat: it goes by the route
//! of its own chat, or nowhere.

use std::collections::HashMap;
use std::sync::Arc;

use crate::config::settings::{Chat, Settings};
use crate::model::RouteDigest;
use crate::sender::channel::{Channel, GroupRobot};
use crate::store::Pace;
use crate::wecom::message::Limits;

/// How one chat is reached now.
#[derive(Clone, Debug)]
pub struct Route {
    /// Names channel and address without telling them.
    pub digest: RouteDigest,
    /// The way itself.
    pub channel: Arc<dyn Channel>,
    /// Rate of the robot.
    pub pace: Pace,
    /// Whether waiting replies may leave as one message while pace holds them back.
    pub coalesce: bool,
    /// 1..=100; an operator's weight in the store wins over it.
    pub weight: u32,
    /// What people call the chat.
    pub name: Option<String>,
}

impl Route {
    fn of(chat: &Chat) -> Option<Self> {
        let webhook = chat.webhook.as_ref()?;
        Some(Self {
            digest: webhook.digest.clone(),
            channel: Arc::new(GroupRobot::new(webhook.url.clone())),
            pace: chat.pace,
            coalesce: chat.coalesce,
            weight: chat.weight,
            name: chat.name.clone(),
        })
    }

    /// What one message may hold, in bytes.
    pub fn limits(&self) -> &Limits {
        self.channel.limits()
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
}

impl NoRoute {
    /// The reason in trails and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Missing => "route_missing",
            Self::Changed => "route_changed",
            Self::Shared => "route_shared",
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
    /// Whose each route is: one chat each, unless the configuration is at fault.
    owners: HashMap<RouteDigest, Vec<ChatRef>>,
}

impl Routes {
    /// Reads the routes off the settings.
    pub fn new(settings: &Settings) -> Self {
        let mut routes = Self::default();
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
        let owner = ChatRef { app: app.to_owned(), chat: chat.to_owned() };
        self.owners.entry(route.digest.clone()).or_default().push(owner);
        self.by_app.entry(app.to_owned()).or_default().insert(chat.to_owned(), route);
    }

    /// The route of a chat now.
    pub fn of(&self, app: &str, chat: &str) -> Option<&Route> {
        self.by_app.get(app)?.get(chat)
    }

    fn belongs_to_another(&self, digest: &RouteDigest, app: &str, chat: &str) -> bool {
        self.owners.get(digest).is_some_and(|owners| owners.iter().any(|owner| !owner.is(app, chat)))
    }
}

/// By which route a reply of (`app`, `chat`) that was queued for the route `recorded` may leave now.
///
/// A chat whose webhook was replaced keeps its waiting replies: the new webhook is its own, and the old one is nobody's.
pub fn guard<'a>(recorded: &RouteDigest, app: &str, chat: &str, routes: &'a Routes) -> Result<&'a Route, NoRoute> {
    let current = routes.of(app, chat).ok_or(NoRoute::Missing)?;
    if routes.belongs_to_another(&current.digest, app, chat) {
        return Err(NoRoute::Shared);
    }
    if routes.belongs_to_another(recorded, app, chat) {
        return Err(NoRoute::Changed);
    }
    Ok(current)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::Secret;

    fn digest(webhook: &str) -> RouteDigest {
        RouteDigest::of("group_robot", webhook)
    }

    /// Routes of `(app, chat, webhook)`.
    fn routes(entries: &[(&str, &str, &str)]) -> Routes {
        let mut routes = Routes::default();
        for (app, chat, webhook) in entries {
            let route = Route {
                digest: digest(webhook),
                channel: Arc::new(GroupRobot::new(Secret::new(*webhook))),
                pace: Pace { limit: 20, window: Duration::from_secs(60) },
                coalesce: true,
                weight: 1,
                name: None,
            };
            routes.insert(app, chat, route);
        }
        routes
    }

    #[test]
    fn a_reply_leaves_by_its_own_chats_route_or_not_at_all() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str, &'a str)], Result<&'a str, NoRoute>);
        // A reply of chat `a` of app `x`, queued while its webhook was `A`.
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
            let got = guard(&digest("A"), "x", "a", &routes).map(|route| route.digest.clone());
            assert_eq!(got, want.map(digest), "{name}");
        }
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
