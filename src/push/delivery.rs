//! From a task to its deliveries: each tied to its recipient, written as its channel's request, named the same whenever the task comes again.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::desk::Source;
use super::read::AHEAD;
use super::task::{Target, Task};
use crate::config::Settings;
use crate::model::{Delivery, Lane, MessageKey, Outcome, ReplyTo, content_digest, delivery_id, millis};
use crate::sender::route::{NoRoute, Routes};
use crate::store::{Line, NewPush, Stage, Turn};
use crate::task::{EXPIRED, MemberSet, PushOf, PushState, Recipient};

/// What names of [`set_chat`] begin with.
const SET: &str = "to:";

/// The request id of a task: the same whenever it comes.
pub(super) fn request_id(task_id: &str) -> String {
    let mut id = hex::encode(Sha256::digest(task_id));
    id.truncate(31);
    id.insert(0, 't');
    id
}

/// How long a task is known from now: past the last time that it, or a repeat of it, may be sent.
pub(super) fn known_for(settings: &Settings) -> Duration {
    settings.push.keep.saturating_add(2 * AHEAD)
}

/// The chat, in lanes and keys, of members: one member's own, or one of this very set.
pub(super) fn chat_of(set: &MemberSet) -> String {
    match set.one() {
        Some(user) => user.to_owned(),
        None => set_chat(set),
    }
}

/// The chat, in lanes and keys, of a set that is no chat of anybody's: one of this very set.
pub(super) fn set_chat(set: &impl Serialize) -> String {
    // Lists of texts: writing them can't fail.
    let digest = hex::encode(Sha256::digest(serde_json::to_string(set).unwrap_or_default()));
    format!("{SET}{}", &digest[..16])
}

/// Whether that is what a chat is called, by its name.
pub(crate) fn is_set(chat: &str) -> bool {
    chat.starts_with(SET)
}

/// What deliveries are made with.
#[derive(Clone, Copy)]
pub(super) struct Maker<'a> {
    pub settings: &'a Settings,
    pub routes: &'a Routes,
    /// Unix ms.
    pub now: i64,
}

impl Maker<'_> {
    /// The `n`-th delivery of a task on its way into its lane.
    pub fn push(&self, task: &Task, source: &Source, n: usize) -> NewPush {
        let (chat, to) = match &task.target {
            Target::Chats(chats) => (chats.get(n).cloned().unwrap_or_default(), Recipient::Chat),
            Target::Members(set) => (chat_of(set), Recipient::Members(set.clone())),
            Target::Customers(set) => (set_chat(set), Recipient::Customers(set.clone())),
        };
        let request_id = request_id(&task.id);
        let id = delivery_id(&request_id, n);
        let key = MessageKey::of_push(&task.app, &chat, &task.id);
        let route = match self.routes.of_push(&task.app, &chat, &to, task.on_unknown) {
            _ if self.now > task.expires_at => Err(EXPIRED),
            route => route.map_err(NoRoute::as_str),
        };
        let body = match &route {
            Ok(route) => route.channel.body(task.message.clone(), &id),
            Err(_) => task.message.clone(),
        };
        let line = |stage, detail: Value| Line {
            stage,
            request_id: request_id.clone(),
            key: key.clone(),
            detail: detail.as_object().cloned().unwrap_or_default(),
        };
        let replies = json!([{"id": id, "digest": content_digest(&body)}]);
        let mut told = json!({"task": task.id, "type": task.kind, "source": source.told(), "replies": replies});
        if let Some(by) = source.by() {
            told["by"] = by.into();
        }
        let mut lines = vec![line(Stage::Pushed, told)];
        let weight = route.as_ref().map_or(1, |route| route.weight);
        let fate = match route {
            Ok(route) => {
                let push = Some(Box::new(PushOf { task_id: task.id.clone(), to }));
                Ok(Delivery {
                    id: id.clone(),
                    request_id: request_id.clone(),
                    key: key.clone(),
                    app: task.app.clone(),
                    chat_id: chat.clone(),
                    reply_to: ReplyTo::default(),
                    push,
                    message: body,
                    bound: route.channel.is_bound(),
                    repeat_until: route.channel.knows_repeats_for().map(|span| self.now.saturating_add(millis(span))),
                    route: route.digest,
                    expires_at: task.expires_at,
                    received_at: self.now,
                    queued_at: self.now,
                    trace: task.trace,
                })
            }
            Err(reason) => {
                let state = Outcome::Dropped;
                lines.push(line(Stage::Settled, json!({"delivery": id, "state": state.as_str(), "reason": reason})));
                Err(PushState::because(state, reason))
            }
        };
        NewPush {
            task_id: task.id.clone(),
            delivery_id: id,
            lane: Lane::of_chat(&task.app, &chat),
            fate,
            keep: known_for(self.settings),
            turn: Turn { weight, head_start: self.settings.sender.head_start },
            depth_limit: self.settings.store.lane_depth,
            lines,
        }
    }
}
