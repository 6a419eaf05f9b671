//! What triggers do: the `action` tables.
//!
//! A reply's template is judged by the code that fills it in later, so what is taken here can't fail there; beyond that
//! it may only name arguments that are there.

use std::time::Duration;

use super::gateway::web_url;
use super::reader::{Table, nearest};
use super::settings::{Action, HttpAction};
use super::units::{Mend, show};
use crate::action::template;

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
    let action = t.section_if("action", |t| one_action(t, place));
    t.require("action", action, "say what it does, such as action = { type = \"reply\", text = \"…\" }").flatten()
}

fn one_action(t: &mut Table, place: &Place) -> Option<Action> {
    let types = [("reply", Type::Reply), ("http", Type::Http), ("llm", Type::Llm), ("help", Type::Help)];
    match t.required_word("type", &types) {
        Some(Type::Reply) => {
            let text = t.parsed_unseen("text", |text| reply(text, place));
            t.require("text", text, "write the reply").map(|text| Action::Reply { text })
        }
        Some(Type::Http) => http(t, place).map(Action::Http),
        Some(Type::Help) => Some(Action::Help),
        Some(Type::Llm) => {
            t.drop_rest();
            t.fault("type", "\"llm\" is not available in this version: ask a service of your own with type = \"http\"");
            None
        }
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

/// A template that can be filled in, and names no argument that isn't there.
fn reply(text: &str, place: &Place) -> Result<String, Mend> {
    if text.trim().is_empty() {
        return Err("is empty: write the reply".into());
    }
    template::check(text)
        .map_err(|e| format!("{e}: write values such as {{{{ args.order_id }}}} or {{{{ user.name }}}}"))?;
    let paths = text.split("{{").skip(1).filter_map(|piece| piece.split_once("}}")).map(|(path, _)| path.trim());
    for name in paths.filter_map(|path| path.strip_prefix("args.")).filter_map(|path| path.split('.').next()) {
        if !place.args.contains(&name) {
            let mend = match nearest(name, place.args) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "correct its name, or remove it".into(),
            };
            return Err(format!("speaks of the argument {name:?}, which isn't there: {mend}"));
        }
    }
    Ok(text.to_owned())
}
