//! The rules of an app: `[rules]`, `[[commands]]`, `[[keywords]]`, `[mention]`, `[[bindings]]`.
//!
//! A name means one command, a required argument never follows an optional one, and every pattern compiles: whatever a
//! member writes later, the rules themselves can't fail.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::Regex;

use super::action::{Place, action, action_if};
use super::files;
use super::manners::{self, note_names};
use super::reader::{Table, is_visible};
use super::settings::{Action, Arg, ArgKind, Binding, Command, Keyword, Rules, UnknownCommand};
use super::units::Mend;
use crate::rules::fold::fold;

/// Reads all of them; `max_reply_age` bounds how long an action may take.
pub(super) fn rules(t: &mut Table, max_reply_age: Duration) -> Rules {
    let rules = t.section("rules", rules_section);
    Rules {
        commands: commands(t, &rules, max_reply_age),
        keywords: t.each("keywords", |t| keyword(t, max_reply_age)),
        mention: t.section_if("mention", |t| action(t, &Place { max_reply_age, args: &[] })).flatten(),
        bindings: bindings(t, max_reply_age),
        ..rules
    }
}

fn rules_section(t: &mut Table) -> Rules {
    let mut sensitive = t.strings("sensitive").unwrap_or_default();
    sensitive.extend(sensitive_file(t));
    let unknown = [("hint", UnknownCommand::Hint), ("ignore", UnknownCommand::Ignore)];
    Rules {
        prefixes: t.strings("prefixes").unwrap_or_else(|| vec!["/".into(), "／".into()]),
        unknown_command: t.word("unknown_command", &unknown).unwrap_or(UnknownCommand::Hint),
        sensitive,
        commands_on_mention: t.flag("commands_on_mention", true),
        bare_name: t.flag("bare_name", true),
        commands: Vec::new(),
        keywords: Vec::new(),
        mention: None,
        bindings: Vec::new(),
        manners: manners::manners(t),
    }
}

/// Words of `sensitive_file`, one a line; its path is relative to the app file.
fn sensitive_file(t: &mut Table) -> Vec<String> {
    let Some(name) = t.filled("sensitive_file") else { return Vec::new() };
    let path = t.file().with_file_name(name);
    match files::text(&path, "create it, or correct its path, which is relative to this file") {
        Ok(text) => {
            t.reads(&text);
            let lines = text.trim_start_matches('\u{feff}').lines();
            lines.map(str::trim).filter(|line| is_visible(line)).map(str::to_owned).collect()
        }
        Err(wrong) => {
            t.fault("sensitive_file", format!("{} {wrong}", path.display()));
            Vec::new()
        }
    }
}

fn commands(t: &mut Table, rules: &Rules, max_reply_age: Duration) -> Vec<Command> {
    let mut names = Names::default();
    let prefixes = &rules.prefixes;
    note_names(t, &mut names, prefixes, &rules.manners);
    t.each("commands", |t| {
        let name = t.parsed("name", |text| command_name(text, prefixes));
        let name = t.require("name", name, "write the word that calls the command, without its prefix");
        let aliases = t.strings("aliases").unwrap_or_default();
        for (i, alias) in aliases.iter().enumerate() {
            if let Err(mend) = command_name(alias, prefixes) {
                t.fault(&format!("aliases[{i}]"), format!("{alias:?} {mend}"));
            }
        }
        name.iter().for_each(|name| names.note(t, "name", name));
        (0..).zip(&aliases).for_each(|(i, alias): (usize, _)| names.note(t, &format!("aliases[{i}]"), alias));
        let summary = t.string("summary").unwrap_or_default();
        let args = args(t);
        let arg_names: Vec<_> = args.iter().map(|arg| arg.name.as_str()).collect();
        let action = action(t, &Place { max_reply_age, args: &arg_names });
        let only = manners::only(t, &rules.manners);
        Some(Command { name: name?, aliases, summary, args, only, action: action? })
    })
}

/// One word, as it follows a prefix.
pub(super) fn command_name(text: &str, prefixes: &[String]) -> Result<String, Mend> {
    let folded = fold(text);
    if !is_visible(text) {
        return Err("is empty: write the word that calls the command".into());
    }
    if folded.contains(char::is_whitespace) {
        return Err("holds a blank, which ends a command's name: write one word".into());
    }
    let stands_in_front = |prefix: &&String| is_visible(prefix) && folded.starts_with(&fold(prefix));
    match prefixes.iter().find(stands_in_front) {
        Some(prefix) => Err(format!("begins with the prefix {prefix:?}: write the name alone")),
        None => Ok(text.to_owned()),
    }
}

/// Names of commands, folded as the rules fold them, and where each stands.
#[derive(Default)]
pub(super) struct Names(BTreeMap<String, String>);

impl Names {
    /// Notes one; one that is taken already is a fault.
    pub(super) fn note(&mut self, t: &Table, key: &str, word: &str) {
        if let Some(place) = self.0.get(&fold(word)) {
            t.fault(key, format!("{word:?} calls a command already ({place}): remove one of the two, or rename it"));
        } else {
            self.0.insert(fold(word), t.path_of(key));
        }
    }
}

fn args(t: &mut Table) -> Vec<Arg> {
    let mut before: Vec<Arg> = Vec::new();
    t.each("args", |t| {
        let arg = arg(t)?;
        if before.iter().any(|other| other.name == arg.name) {
            t.fault("name", format!("{:?} is the name of an argument before it: give each its own", arg.name));
        }
        match before.last() {
            Some(last) if last.kind == ArgKind::Rest => {
                t.fault_here(format!(
                    "follows {:?}, which takes all that is left: move the one of type \"rest\" to the end",
                    last.name
                ));
            }
            Some(last) if arg.required && !last.required => {
                t.fault(
                    "required",
                    format!(
                        "is true after the optional {:?}: move required arguments in front, or make this one optional",
                        last.name
                    ),
                );
            }
            _ => {}
        }
        before.push(arg.clone());
        Some(arg)
    })
}

fn arg(t: &mut Table) -> Option<Arg> {
    const TYPES: [(&str, ArgKind); 7] = [
        ("string", ArgKind::String),
        ("integer", ArgKind::Integer),
        ("number", ArgKind::Number),
        ("phone", ArgKind::Phone),
        ("date", ArgKind::Date),
        ("choice", ArgKind::Choice(Vec::new())),
        ("rest", ArgKind::Rest),
    ];
    let name = t.filled("name");
    let name = t.require("name", name, "write the argument's key, as actions see it");
    let label = t.filled("label");
    let mut kind = t.word("type", &TYPES).unwrap_or(ArgKind::String);
    let choices = t.strings("choices");
    match (&mut kind, choices) {
        (ArgKind::Choice(into), Some(choices)) if !choices.is_empty() => *into = choices,
        (ArgKind::Choice(_), _) => {
            t.fault("choices", "is missing: list what may be chosen, such as choices = [\"甲\", \"乙\"]")
        }
        (_, Some(_)) => t.fault("choices", "belongs to type \"choice\": write type = \"choice\", or remove it"),
        (_, None) => {}
    }
    let required = t.flag("required", true);
    let name = name?;
    Some(Arg { label: label.unwrap_or_else(|| name.clone()), name, kind, required })
}

fn keyword(t: &mut Table, max_reply_age: Duration) -> Option<Keyword> {
    let any = t.strings("any").filter(|any| !any.is_empty());
    let any = t.require("any", any, "list the words that trigger it, such as any = [\"优惠券\"]");
    let action = action(t, &Place { max_reply_age, args: &[] });
    Some(Keyword { any: any?, action: action? })
}

fn bindings(t: &mut Table, max_reply_age: Duration) -> Vec<Binding> {
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    t.each("bindings", |t| {
        let binding = binding(t, max_reply_age)?;
        if let Some(place) = places.insert(binding.pattern.as_str().to_owned(), t.path_of("pattern")) {
            t.fault("pattern", format!("is that of {place} too, so that this one is never reached: make the two one"));
        }
        Some(binding)
    })
}

fn binding(t: &mut Table, max_reply_age: Duration) -> Option<Binding> {
    let pattern = t.parsed_long("pattern", sentence);
    let pattern = t.require(
        "pattern",
        pattern,
        "write a regular expression in single quotes, such as '手机号是(?P<phone>1[3-9][0-9]{9})$'",
    );
    let (terms, holds) = manners::terms(t);
    let captures: Vec<_> = pattern.iter().flat_map(Regex::capture_names).flatten().collect();
    let action = action_if(t, &Place { max_reply_age, args: &captures });
    if pattern.is_some() && captures.is_empty() && action.is_none() && !terms.unbind {
        let mend = "has no action, and its pattern captures nothing that could be kept: write a named group such as \
                    (?P<phone>1[3-9][0-9]{9}), or an action";
        t.fault_here(mend);
    }
    if terms.unbind && matches!(action, Some(Some(Action::Http(_) | Action::Llm(_) | Action::Help))) {
        t.fault("action", "stands beside unbind, which asks nobody: remove one of the two, or let it reply");
    }
    if let Some(key) = holds.filter(|_| !terms.unbind && !matches!(action, Some(None | Some(Action::Http(_))))) {
        t.fault(
            key,
            "says how long a user id holds, but only an action of type \"http\" answers one: write it, or remove this",
        );
    }
    let action = match action {
        Some(None) => return None,
        Some(action) => action,
        None => None,
    };
    Some(Binding { pattern: pattern?, action, terms })
}

/// A pattern that is more than every text: a binding is looked for in front of all other rules.
fn sentence(text: &str) -> Result<Regex, Mend> {
    let pattern = Regex::new(text).map_err(|e| format!("is no pattern ({}): correct it", in_one_line(&e)))?;
    // Nothing of one kind is in all of these but that they are written.
    const ANYTHING: [&str; 6] = ["你好", "hello", "1", "/help", "？", "A b"];
    if pattern.is_match("") || ANYTHING.iter().all(|text| pattern.is_match(text)) {
        return Err(
            "matches whatever is written, so that no other rule would be reached: write what the sentence says, \
                    such as '手机号是(?P<phone>1[3-9][0-9]{9})$'"
                .into(),
        );
    }
    Ok(pattern)
}

/// The regex crate draws the pattern over several lines; the last says what is wrong.
fn in_one_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim().trim_start_matches("error: ").to_owned()
}

/// How long an action may take.
pub(super) fn longest(action: &Action) -> Duration {
    match action {
        Action::Reply { .. } | Action::Help => Duration::ZERO,
        Action::Http(http) => http.timeout,
        Action::Llm(llm) => llm.max_age, // refused requests are repeated until then
    }
}
