//! What triggers do: the `action` tables.
//!
//! A reply's template is judged by the code that fills it in later, so what is taken here can't fail there; beyond that
//! it may only name arguments that are there.

use std::time::Duration;

use super::gateway::web_url;
use super::llm::llm;
use super::reader::{Table, nearest};
use super::settings::{Action, HttpAction};
use super::units::{Mend, show};
use crate::action::template::{self, TemplateError};

/// What a template may name beside its arguments; beneath the last stands whatever actions keep there.
pub(super) const VALUES: [&str; 12] = [
    "user.name",
    "user.id",
    "user.remark",
    "user.phone",
    "user.email",
    "chat.id",
    "chat.name",
    "message.id",
    "message.text",
    "sender.key",
    "command.name",
    "session.vars",
];

/// Where an action stands.
pub(super) struct Place<'p> {
    /// An answer after this is of no use.
    pub(super) max_reply_age: Duration,
    /// Names of the arguments there.
    pub(super) args: &'p [&'p str],
}

/// `action.type`, before the values that come with it.
#[derive(Clone, Copy)]
enum Type {
    Reply,
    Http,
    Llm,
    Help,
}

/// Reads `action` of the table `t`, where it must be.
pub(super) fn action(t: &mut Table, place: &Place) -> Option<Action> {
    let action = action_if(t, place);
    t.require("action", action, "say what it does, such as action = { type = \"reply\", text = \"…\" }").flatten()
}

/// Reads `action` of the table `t`; `None` where it is absent, `Some(None)` where it has a fault.
pub(super) fn action_if(t: &mut Table, place: &Place) -> Option<Option<Action>> {
    t.section_if("action", |t| one_action(t, place))
}

fn one_action(t: &mut Table, place: &Place) -> Option<Action> {
    let types = [("reply", Type::Reply), ("http", Type::Http), ("llm", Type::Llm), ("help", Type::Help)];
    match t.required_word("type", &types) {
        Some(Type::Reply) => {
            let text = t.parsed_long("text", |text| reply(text, place));
            t.require("text", text, "write the reply").map(|text| Action::Reply { text })
        }
        Some(Type::Http) => http(t, place).map(Action::Http),
        Some(Type::Help) => Some(Action::Help),
        Some(Type::Llm) => llm(t, place).map(Action::Llm),
        None => {
            t.drop_rest();
            None
        }
    }
}

fn http(t: &mut Table, place: &Place) -> Option<HttpAction> {
    let url = t.parsed_unseen("url", web_url);
    let url = t.require("url", url, "write the address of your service, such as \"http://orders:9000/bot\"");
    let timeout = t.span("timeout", Duration::from_secs(8));
    if timeout > place.max_reply_age {
        let (timeout, age) = (show(timeout), show(place.max_reply_age));
        let why = format!("{timeout} is longer than max_reply_age ({age}), after which nothing is sent");
        t.fault("timeout", format!("{why}: shorten it, or lengthen max_reply_age"));
    }
    let secret = t.secret("secret");
    Some(HttpAction { url: url?, timeout, secret })
}

/// A template that can be filled in, and names no value that isn't there: it would be empty in every reply.
fn reply(text: &str, place: &Place) -> Result<String, Mend> {
    if text.trim().is_empty() {
        return Err("is empty: write the reply".into());
    }
    match template::check(text) {
        Ok(()) | Err(TemplateError::UnknownRoot(_)) => {} // names are judged whole
        Err(e) => return Err(format!("{e}: write values such as {{{{ args.order_id }}}} or {{{{ user.name }}}}")),
    }
    let names = text.split("{{").skip(1).filter_map(|piece| piece.split_once("}}")).map(|(name, _)| name.trim());
    names.into_iter().try_for_each(|name| value(name, place.args))?;
    Ok(text.to_owned())
}

/// Whether a value of this name is there, given the names of the arguments.
fn value(name: &str, args: &[&str]) -> Result<(), Mend> {
    let args_of_its_own = args.iter().map(|arg| format!("args.{arg}"));
    let known: Vec<String> = args_of_its_own.chain(VALUES.map(str::to_owned)).collect();
    let all_args = name == "args" && !args.is_empty();
    if all_args || name.starts_with("session.vars.") || known.iter().any(|known| known == name) {
        return Ok(());
    }
    let meant = nearest(name, &known).map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    Err(format!("speaks of `{name}`, which isn't there: {meant}write one of {}", known.join(", ")))
}
