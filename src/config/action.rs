//! What triggers do: the `action` tables, and the templates of `reply`.
//!
//! A template holds plain values only: `{{ args.order_id }}` and the like, no statement, filter, call or sum. What a
//! member wrote is put in as text; there is nothing in a template that it could steer.

use std::time::Duration;

use minijinja::Environment;

use super::gateway::web_url;
use super::reader::{Table, nearest, quoted};
use super::settings::{Action, HttpAction};
use super::units::show;

/// What a template may speak of.
const ROOTS: [&str; 7] = ["args", "user", "chat", "message", "sender", "command", "session"];
const TYPES: [&str; 4] = ["reply", "http", "llm", "help"];

/// Where an action stands.
pub(super) struct Place<'p> {
    /// An answer after this is of no use.
    pub(super) max_reply_age: Duration,
    /// Names of the arguments there; `None` where it isn't the configuration that says.
    pub(super) args: Option<&'p [&'p str]>,
}

/// Reads `action` of the table `t`, where it must be.
pub(super) fn action(t: &mut Table, place: &Place) -> Option<Action> {
    let action = t.section_if("action", |t| one_action(t, place));
    t.require("action", action, "say what it does, such as action = { type = \"reply\", text = \"…\" }").flatten()
}

fn one_action(t: &mut Table, place: &Place) -> Option<Action> {
    let kind = t.word("type", &TYPES.map(|name| (name, name)));
    match t.require("type", kind, &format!("write one of {}", quoted(&TYPES))) {
        Some("reply") => {
            let text = t.parsed("text", |text| check_template(text, place).map(|()| text.to_owned()));
            t.require("text", text, "write the reply").map(|text| Action::Reply { text })
        }
        Some("http") => http(t, place).map(Action::Http),
        Some("help") => Some(Action::Help),
        Some(_) => {
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
        t.fault("timeout", format!("{timeout} is longer than max_reply_age ({age}), after which nothing is sent: shorten it, or lengthen max_reply_age"));
    }
    let secret = t.secret("secret");
    Some(HttpAction { url: url?, timeout, secret })
}

/// Whether a template holds plain values only, of things that are there.
fn check_template(text: &str, place: &Place) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("is empty: write the reply".into());
    }
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        rest = &rest[open + 1..];
        match rest.chars().next() {
            Some(c @ ('%' | '#')) => {
                return Err(format!(
                    "holds \"{{{c}\": a reply takes plain values alone, such as {{{{ args.order_id }}}}"
                ));
            }
            Some('{') => {}
            _ => continue,
        }
        let (value, after) = rest[1..].split_once("}}").ok_or("holds \"{{\" without \"}}\": close it")?;
        check_value(value.trim(), place)?;
        rest = after;
    }
    match Environment::empty().template_from_str(text) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("is no template ({e}): correct it")),
    }
}

/// `root.name.name`, where a name may be a place in a list.
fn check_value(value: &str, place: &Place) -> Result<(), String> {
    let is_name = |part: &str| part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_place = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let is_word = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let mut parts = value.split('.');
    let root = parts.next().unwrap_or_default();
    let plain =
        is_name(root) && is_word(root) && parts.clone().all(|part| is_place(part) || is_name(part) && is_word(part));
    if !plain {
        return Err(format!(
            "holds {{{{ {value} }}}}, which is no plain value: write one such as {{{{ args.order_id }}}} or {{{{ user.name }}}}"
        ));
    }
    let meant =
        |word, known: &[&str]| nearest(word, known).map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
    if !ROOTS.contains(&root) {
        return Err(format!(
            "speaks of {root:?}, which a reply doesn't know: {}write one of {}",
            meant(root, &ROOTS),
            quoted(&ROOTS)
        ));
    }
    match (root, parts.next(), place.args) {
        ("args", Some(name), Some(args)) if !args.contains(&name) => Err(format!(
            "speaks of the argument {name:?}, which isn't there: {}list it in args, or correct its name",
            meant(name, args)
        )),
        _ => Ok(()),
    }
}
