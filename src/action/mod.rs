//! Actions: what the bot says, once a rule has decided that it says something.
//!
//! `reply` fills in a template, `help` lists the commands, `http` asks a service of the team's own, `llm` a model. What
//! always holds:
//!
//! - An action only answers. It sends nothing and remembers nothing: whatever it says is committed by the caller in one
//!   step, so an action that ran twice after a crash is still one answer.
//! - A failure is a value for the log and the trail. Members get an [`apology`] with the request id and nothing else.

mod http;
mod llm;
pub mod template;

use std::time::Duration;

use reqwest::redirect;
use serde_json::{Map, Value, json};

use crate::http_client;
use crate::mask;
use crate::member::{self, Profile};
use crate::model::{ChatKind, Message, Session};
use crate::rules::{self, RuleSet, Run};
use crate::trace_context::TraceContext;
use crate::wecom;
pub(crate) use http::signature;
use template::{Template, TemplateError};

/// How long to wait for a connection to a service, within the action's own timeout.
const CONNECT: Duration = Duration::from_secs(5);

/// Shorter than most servers keep an idle connection, so that few requests meet one that is being closed.
const IDLE: Duration = Duration::from_secs(20);

/// Runs actions. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Actions {
    client: reqwest::Client,
}

/// What an action works on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What the member wrote.
    pub message: &'a Message,
    /// What people call the chat, where it is configured.
    pub chat_name: Option<&'a str>,
    /// What was decided.
    pub run: &'a Run,
    /// What is remembered of the member in this chat.
    pub session: &'a Session,
    /// What is known of the member beyond it; empty where the action does not speak of it.
    pub profile: &'a Profile,
    /// The app's rules, for `help`.
    pub rules: &'a RuleSet,
    /// The span of this, which goes along to a service.
    pub trace: Option<TraceContext>,
}

impl Request<'_> {
    /// What the member is called: what is known of them stands above what the callback says.
    pub(super) fn member_name(&self) -> Option<&str> {
        self.profile.contact.get(member::NAME).or(self.message.sender_name.as_ref()).map(String::as_str)
    }
}

/// What an action answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Nothing.
    Silent,
    /// Nothing yet; the answer comes to `POST /api/v1/replies`.
    Later,
    /// Something to say or to remember.
    Say {
        /// WeCom's own message JSON, in order, unchecked; empty where there is only something to remember.
        messages: Vec<Value>,
        /// Replaces the session's vars.
        vars: Option<Map<String, Value>>,
        /// Who the member is in the business system.
        user_id: Option<String>,
    },
}

/// Why an action gave no answer. No text of it holds a URL, a header or a byte of a body.
#[derive(Debug, thiserror::Error)]
pub enum ActionError {
    /// The whole call took longer than it may.
    #[error("the service did not answer in time")]
    Timeout,
    /// No connection: refused, DNS, TLS.
    #[error("the service can't be reached: {0}")]
    Connect(String),
    /// The connection ended before the answer did.
    #[error("the connection broke before the answer was whole: {0}")]
    Broken(String),
    /// A status that is no answer.
    #[error("the service answered HTTP {0}")]
    Status(u16),
    /// 200 with a body that is not what was agreed on.
    #[error("the service's answer can't be used: {0}")]
    BadAnswer(String),
    /// A request that can't be written down.
    #[error("the request can't be written: {0}")]
    Request(#[from] serde_json::Error),
    /// A template that can't be filled in.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

impl Actions {
    /// Takes the client that `http` and `llm` actions use, see [`http_client()`].
    pub fn new(client: reqwest::Client) -> Self {
        Self { client }
    }

    /// Runs the action that was decided on.
    pub async fn run(&self, request: Request<'_>) -> Result<Answer, ActionError> {
        match &*request.run.action {
            rules::Action::Reply(template) => Ok(say(&fill_in(template, &request)?)),
            rules::Action::Help => Ok(say(&request.rules.help_text(request.message))),
            rules::Action::Mute(muted) => Ok(say(rules::texts::muted(*muted))),
            rules::Action::Http(action) => http::ask(&self.client, action, &request).await,
            rules::Action::Llm(action) => llm::ask(&self.client, action, &request).await,
        }
    }
}

/// A client for `http` and `llm` actions: pooled, follows no redirect (a signed request is for one address only) and heeds no
/// proxy variables of the environment, so where requests go is read from the configuration alone. Names of headers go out in title
/// case, as documents write them: not every service reads them in any case.
pub fn http_client() -> Result<reqwest::Client, reqwest::Error> {
    http_client::built(|| {
        reqwest::Client::builder()
            .user_agent(concat!("wecom-gateway/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .http1_title_case_headers()
    })
}

/// The message that a member gets where an action failed.
pub fn apology(request_id: &str) -> Value {
    wecom::message::text(&rules::texts::apology(request_id))
}

/// One text message, or silence where it would be blank: WeCom refuses empty content.
fn say(text: &str) -> Answer {
    if text.trim().is_empty() {
        return Answer::Silent;
    }
    Answer::Say { messages: vec![wecom::message::text(text)], vars: None, user_id: None }
}

/// A binding's captures are its arguments. In a group others read along: there phone numbers are masked in all that a member
/// has not just written as a command.
fn fill_in(template: &Template, request: &Request<'_>) -> Result<String, TemplateError> {
    let Request { message, chat_name, run, session, profile, .. } = request;
    let (command, contact) = (run.command.as_ref(), &profile.contact);
    let mut told = json!({
        "args": run.captures,
        "session": {"vars": session.vars},
        "user": {
            "id": profile.user_id(),
            "name": request.member_name(),
            "remark": contact.get("remark"),
            "phone": contact.get(member::PHONE),
            "email": contact.get("email"),
        },
    });
    if message.chat_kind == ChatKind::Group {
        told["user"]["phone"] = contact.get(member::PHONE).map(|phone| mask::phone(phone)).into();
        mask::json(&mut told);
    }
    let [args, session, user] = ["args", "session", "user"].map(|root| told[root].take());
    template.render(json!({
        "args": command.map_or(args, |command| command.args.clone().into()),
        "chat": {"id": message.chat_id, "name": chat_name},
        "command": {"name": command.map(|command| &command.name)},
        "message": {"id": message.msg_id, "text": message.text},
        "sender": {"key": message.sender_key},
        "session": session,
        "user": user,
    }))
}

#[cfg(test)]
mod tests;
