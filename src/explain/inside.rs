//! What a callback holds once it is open: payload, ids, chat, rule, route.

use crate::config::nearest;
use crate::config::settings::{App, AppKind, HttpAction, LlmAction};
use crate::ingress::judge;
use crate::model::{ChatKind, Message, now_ms};
use crate::rules::fold::fold;
use crate::rules::{Action, Decision, RuleSet, Run};
use crate::sender::route::{Destination, NoRoute, Route, Routes};
use crate::wecom::payload::{self, Dialect, Payload};

use super::outside::kind;
use super::sealed::listed;
use super::{Diagnosis, Fault, REQUEST, Scene, Seen, Steps};

pub(super) fn read(steps: &mut Steps, scene: &Scene<'_>, app: &App, plain: &[u8]) -> Seen {
    let Some(message) = message(steps, scene, app, plain) else {
        ["chat", "rule", "route"].iter().for_each(|step| steps.skip(step, "there is no message"));
        return Seen::default();
    };
    let routes = Routes::new(scene.settings);
    let key = message.key();
    let reply_to = message.reply_to();
    // At its arrival: what a message brings for its answer is not over yet.
    let found = routes.find(Destination { key: &key, reply_to: &reply_to, received_at: now_ms() });
    chat(steps, scene, app, &message, &found);
    let is_answered = rule(steps, scene, app, &message);
    route(steps, scene, app, &message, &found);
    Seen { acts: is_answered && found.is_ok(), text: Some(message.text).filter(|text| !text.is_empty()) }
}

fn message(steps: &mut Steps, scene: &Scene<'_>, app: &App, plain: &[u8]) -> Option<Message> {
    let payload = match payload::parse(plain, &app.fields) {
        Ok(payload) => payload,
        Err(error) => {
            let mend = "nothing of WeCom's is written so: see what posts it, and whether anything cut or changed it";
            steps.fail("payload", Diagnosis::new(Fault::Unreadable, error.to_string(), mend));
            steps.skip("ids", "the payload can't be read");
            return None;
        }
    };
    let dialect = match payload::dialect(plain) {
        Some(Dialect::Json) => "JSON",
        Some(Dialect::Xml) | None => "XML",
    };
    steps.holds("payload", format!("{dialect}, a message of type {:?}", payload.msg_type));
    let carries = carried(&payload);
    match judge::message(app, payload, plain, REQUEST, scene.arrival.at) {
        Ok(message) => {
            steps.holds("ids", carries);
            Some(message)
        }
        Err(refusal) => {
            let names = listed(&payload::names(plain));
            let says = format!("{refusal}; {carries}; at its top there is: {names}");
            let mend = format!(
                "{}: name the field in [fields] (chat_id, msg_id, sender), if one of those is it",
                scene.file(&app.id)
            );
            steps.fail("ids", Diagnosis::new(Fault::MissingField, says, mend));
            None
        }
    }
}

/// The ids of a payload, which logs and trails show too.
fn carried(payload: &Payload) -> String {
    let said = |id: Option<&str>| id.map_or_else(|| "none".to_owned(), |id| format!("{id:?}"));
    let chat = match payload.chat_kind {
        ChatKind::Group => "group",
        ChatKind::Single => "one-to-one",
    };
    let sender = said(payload.sender.as_ref().map(|(sender, _)| sender.as_str()));
    format!(
        "chat id {} ({chat}), sender {sender}, message id {}",
        said(payload.chat_id.as_deref()),
        said(payload.msg_id.as_deref())
    )
}

fn chat(steps: &mut Steps, scene: &Scene<'_>, app: &App, message: &Message, found: &Result<Route, NoRoute>) {
    let id = &message.chat_id;
    if let Some(entry) = app.chats.get(id) {
        let name = entry.name.as_ref().map(|name| format!(", {name:?}")).unwrap_or_default();
        return steps.holds("chat", format!("{id:?} has an entry in [[chats]]{name}"));
    }
    let is_private = message.chat_kind == ChatKind::Single && matches!(app.kind, AppKind::App(_));
    let needs_none = matches!(app.kind, AppKind::Aibot(_)) || is_private;
    if found.is_ok() || needs_none {
        return steps.holds("chat", format!("{id:?} has no entry in [[chats]] and needs none"));
    }
    if message.is_event() {
        return steps.note("chat", format!("{id:?} has no entry in [[chats]]: its messages could not be answered"));
    }
    let known: Vec<&str> = app.chats.keys().map(String::as_str).collect();
    let near =
        known.iter().find(|known| known.trim().eq_ignore_ascii_case(id)).copied().or_else(|| nearest(id, &known));
    let near = near.map(|near| format!("; there is {near:?}, and ids are compared exactly")).unwrap_or_default();
    let of = scene.others(&app.id).find(|other| other.chats.contains_key(id));
    let of = of.map(|other| format!("; app {:?} has it", other.id)).unwrap_or_default();
    let says = format!("{id:?} has no entry in [[chats]] of {}{near}{of}", scene.file(&app.id));
    let mend = format!("add [[chats]] with id = {id:?} and its robot's webhook");
    steps.fail("chat", Diagnosis::new(Fault::UnknownChat, says, mend));
}

/// Whether it is answered, as far as rules can tell.
fn rule(steps: &mut Steps, scene: &Scene<'_>, app: &App, message: &Message) -> bool {
    let file = scene.file(&app.id);
    let rules = match RuleSet::compile(app) {
        Ok(rules) => rules,
        Err(error) => {
            steps.fail(
                "rule",
                Diagnosis::new(
                    Fault::NoRule,
                    error.to_string(),
                    format!("correct it in {file}: serve does not start with it"),
                ),
            );
            return false;
        }
    };
    match rules.decide(message) {
        Decision::Run(run) => {
            steps.holds("rule", format!("{} sets off {}{}", run.rule, action(&run), terms(&run)));
            true
        }
        Decision::Say { rule, .. } => {
            steps.holds("rule", format!("{rule} answers by itself: a hint, the usage, or for whom the command is"));
            true
        }
        Decision::Block { .. } => {
            let says = "a sensitive word stands in it: it is logged and never answered";
            let mend =
                format!("take the word off [rules] sensitive (or sensitive_file) in {file}, if it should be answered");
            steps.fail("rule", Diagnosis::new(Fault::Sensitive, says, mend));
            false
        }
        Decision::Ignore { reason } => {
            let (why, mend) = why_ignored(app, message, &reason);
            let says = format!("no rule matches ({reason}): {why}");
            steps.fail("rule", Diagnosis::new(Fault::NoRule, says, mend.replace("{file}", &file)));
            false
        }
    }
}

fn action(run: &Run) -> String {
    let host = |url: &url::Url| url.host_str().unwrap_or_default().to_owned();
    match &*run.action {
        Action::Http(HttpAction { url, .. }) => format!("http at {}", host(url)),
        Action::Llm(LlmAction { endpoint, .. }) => format!("llm at {}", host(endpoint)),
        other => other.as_str().to_owned(),
    }
}

fn terms(run: &Run) -> &'static str {
    if run.unless_bound.is_some() { ", for members who are bound; the others get a text instead" } else { "" }
}

/// Why nothing is done upon it, and what would change that; `{file}` stands for the app's file.
fn why_ignored(app: &App, message: &Message, reason: &str) -> (String, &'static str) {
    let rules = &app.rules;
    let words = fold(message.text.trim());
    let begins_with = |prefix: &String| words.starts_with(&fold(prefix));
    match reason {
        "no_mention_rule" => (
            "it speaks to the bot, but is no command, and there is no [mention]".into(),
            "add [mention] in {file}, or write a command",
        ),
        "unknown_command" => (
            "no command has that name, and unknown_command = \"ignore\"".into(),
            "add the command, or an alias, in {file}",
        ),
        "chatter" if message.text.trim().is_empty() => {
            ("its text is empty".into(), "see that the text stands where WeCom puts it (Content, text.content)")
        }
        "chatter" if message.text.contains(['@', '＠']) && app.bot_names.is_empty() => (
            "it mentions somebody, but bot_names is empty".into(),
            "write the bot's name, as the client shows it, into bot_names in {file}",
        ),
        "chatter" if message.text.contains(['@', '＠']) => {
            let names = app.bot_names.join(", ");
            (
                format!("it mentions somebody, but none of bot_names ({names})"),
                "write the bot's name, exactly as the client shows it, into bot_names in {file}",
            )
        }
        "chatter" if rules.prefixes.iter().any(begins_with) => (
            "it begins with a prefix, but no command's name follows".into(),
            "write the name of a command right behind the prefix",
        ),
        "chatter" => {
            let prefixes = rules.prefixes.join(" ");
            (
                format!("it does not mention the bot, begins with no prefix ({prefixes}), and holds no keyword"),
                "mention the bot, use a prefix, or add a keyword in {file}",
            )
        }
        _ if message.is_event() => {
            ("events are taken, and not answered".into(), "nothing is to be mended, unless you expected a message")
        }
        _ => (
            "only text is looked at, and the text of mixed messages".into(),
            "nothing is to be mended, unless you expected a text",
        ),
    }
}

fn route(steps: &mut Steps, scene: &Scene<'_>, app: &App, message: &Message, found: &Result<Route, NoRoute>) {
    let why = match found {
        Ok(route) => {
            let kind = route.channel.kind();
            let api =
                "; whether WeCom lets this machine's address in (60020) shows in `check --online`, not in a callback";
            let api = if kind.is_api() { api } else { "" };
            return steps.holds("route", format!("by {} (route {}){api}", kind.as_str(), route.digest.as_str()));
        }
        Err(why) => *why,
    };
    if message.is_event() {
        return steps.note("route", format!("{why}, and an event needs none"));
    }
    let file = scene.file(&app.id);
    let (fault, mend) = match (why, &app.kind) {
        (NoRoute::Missing, AppKind::Aibot(_)) => (
            Fault::WrongKind,
            format!(
                "{file}: smart robots bring a response_url, and this has none; write the kind of what posts it, \"group_robot\" or \"app\""
            ),
        ),
        (NoRoute::Missing, AppKind::App(_)) if message.chat_kind == ChatKind::Single => (
            Fault::NoRoute,
            format!("{file}: write corp_id, agent_id and secret, to answer one-to-one chats by the API"),
        ),
        (NoRoute::Missing, _) if message.response_url.is_some() => (
            Fault::WrongKind,
            format!(
                "{file}: this is a smart robot's callback (it brings a response_url); write kind \"aibot\", not {:?}",
                kind(app)
            ),
        ),
        (NoRoute::Missing, AppKind::Json(_)) => {
            (Fault::NoRoute, format!("{file}: write [gateway], or give the chat a webhook in [[chats]]"))
        }
        (NoRoute::Missing, _) => (Fault::NoRoute, format!("{file}: give the chat a webhook in [[chats]]")),
        (NoRoute::Shared | NoRoute::Changed, _) => {
            (Fault::NoRoute, format!("{file}: give each chat a webhook of its own"))
        }
        (NoRoute::ForeignResponseUrl, _) => {
            (Fault::NoRoute, "gateway.toml: add the host to [wecom] webhook_hosts, if it is WeCom's".to_owned())
        }
        (NoRoute::ResponseUrlExpired | NoRoute::ResponseUrlUsed, _) => {
            (Fault::NoRoute, "a new message brings a new one".to_owned())
        }
    };
    let says = format!("{why}: a reply would be dropped ({})", why.as_str());
    steps.fail("route", Diagnosis::new(fault, says, mend));
}
