//! What a task says, held against the limits of every channel that it goes by.
//!
//! A push is one delivery with one state, so a text that is too long for one message is refused and not cut, and what
//! the gateway would leave out (a `touser`, `safe`, an interval of the duplicate check) is refused too.

use std::collections::HashSet;

use serde_json::Value;

use super::customer_message;
use super::task::{Target, TaskFault};
use crate::config::settings::OnUnknown;
use crate::sender::route::Routes;
use crate::task::Recipient;
use crate::wecom::message::{self, Limits, MessageError, RESPONSE_URL};

/// Bytes that one task may put into the lanes, over all its deliveries.
const MOST_BYTES: usize = 256 << 20;

/// The routes of one app.
pub(super) struct RoutesOf<'a> {
    pub routes: &'a Routes,
    pub app: &'a str,
}

/// Checks a message, and answers it as it is stored: `msgtype` and that one body, but for customers.
pub(super) fn check(said: &Value, target: &Target, of: &RoutesOf<'_>) -> Result<Value, TaskFault> {
    let route = |to| of.routes.of_push(of.app, "", &to, OnUnknown::Hold);
    match target {
        Target::Chats(chats) => to_chats(said, chats, of),
        Target::Members(set) => {
            let message = fitting(said, &RESPONSE_URL)?;
            let route = route(Recipient::Members(set.clone())).map_err(|_| no_members("members"))?;
            fitting(said, route.channel.limits())?;
            Ok(message)
        }
        Target::Customers(set) => {
            route(Recipient::Customers(set.clone())).map_err(|_| no_members("customers"))?;
            customer_message::check(said)
        }
    }
}

fn to_chats(said: &Value, chats: &[String], of: &RoutesOf<'_>) -> Result<Value, TaskFault> {
    let message = fitting(said, &RESPONSE_URL)?;
    let bytes = message.to_string().len();
    if bytes.saturating_mul(chats.len()) > MOST_BYTES {
        let mend = "send media by media_id, or to fewer chats at once";
        return Err(TaskFault::new("message", format!("has {bytes} bytes for each of {} chats: {mend}", chats.len())));
    }
    let mut checked: HashSet<*const Limits> = HashSet::new();
    for chat in chats {
        // One without a route is dropped, and says so in its own trail.
        let Ok(route) = of.routes.of_push(of.app, chat, &Recipient::Chat, OnUnknown::Hold) else { continue };
        let limits = route.channel.limits();
        if checked.insert(std::ptr::from_ref(limits)) {
            fitting(said, limits)?;
        }
    }
    Ok(message)
}

fn no_members(whom: &str) -> TaskFault {
    let mend = "it takes an app of kind \"app\" with corp_id, agent_id and secret";
    TaskFault::new("target", format!("this app reaches no {whom}: {mend}"))
}

/// The message where it fits as it is.
fn fitting(said: &Value, limits: &Limits) -> Result<Value, TaskFault> {
    let mut parts = message::fit(said, limits).map_err(fault)?;
    let msgtype = said["msgtype"].as_str().unwrap_or_default();
    if parts.len() > 1 {
        let most = match msgtype {
            "text" => limits.text,
            "markdown" => limits.markdown,
            _ => limits.markdown_v2,
        };
        let bytes = said[msgtype]["content"].as_str().map_or(0, str::len);
        let mend = "a push is one message, shorten it or make several tasks of it";
        let text = format!("has {bytes} bytes, at most {most} are taken by the channel: {mend}");
        return Err(TaskFault::new(format!("message.{msgtype}.content"), text));
    }
    let mut others = said.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    if let Some(name) = others.find(|name| *name != "msgtype" && *name != msgtype) {
        return Err(super::read::unknown("message.", name, &["msgtype", msgtype]));
    }
    parts.pop().ok_or_else(|| TaskFault::new("message", "says nothing"))
}

fn fault(error: MessageError) -> TaskFault {
    let field = match &error {
        MessageError::NoType | MessageError::UnknownType(_) | MessageError::UnsupportedType(_) => {
            "message.msgtype".into()
        }
        MessageError::Field { field, .. } | MessageError::Empty(field) | MessageError::TooMuch { field, .. } => {
            format!("message.{field}")
        }
    };
    TaskFault::new(field, error.to_string())
}
