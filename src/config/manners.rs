//! Manners: `per_member`, `admins`, `mute` and `unmute` of `[rules]`, `only` and `only_text` of `[[commands]]`, and the terms
//! of `[[bindings]]`.

use super::reader::Table;
use super::rules::{Names, command_name};
use super::settings::{Audience, Manners, Only, Terms};
use super::units;

/// Reads what `[rules]` says of it.
pub(super) fn manners(t: &mut Table) -> Manners {
    let per_member = t.parsed("per_member", units::rate);
    let admins = t.strings("admins").unwrap_or_default().into_iter().collect();
    let (mute, unmute) = (t.strings("mute"), t.strings("unmute"));
    let default = Manners::default_names();
    let manners = Manners {
        per_member,
        admins,
        mute: mute.clone().unwrap_or(default.0),
        unmute: unmute.clone().unwrap_or(default.1),
    };
    for (key, names) in [("mute", mute), ("unmute", unmute)] {
        match names {
            Some(names) if names.is_empty() => t.fault(key, "is empty: name the command, or remove the key"),
            Some(_) if manners.admins.is_empty() => {
                t.fault(key, "names a command that nobody may use: list who may in admins, or remove the key");
            }
            _ => {}
        }
    }
    manners
}

/// Notes the names of the mute commands, as far as there are any.
pub(super) fn note_names(t: &Table, names: &mut Names, prefixes: &[String], manners: &Manners) {
    if manners.admins.is_empty() {
        return;
    }
    for (key, words) in [("rules.mute", &manners.mute), ("rules.unmute", &manners.unmute)] {
        for (i, word) in words.iter().enumerate() {
            let key = format!("{key}[{i}]");
            if let Err(mend) = command_name(word, prefixes) {
                t.fault(&key, format!("{word:?} {mend}"));
            }
            names.note(t, &key, word);
        }
    }
}

/// Reads whom a command is for.
pub(super) fn only(t: &mut Table, manners: &Manners) -> Option<Only> {
    let audiences = [
        ("bound", Audience::Bound),
        ("internal", Audience::Internal),
        ("external", Audience::External),
        ("admin", Audience::Admin),
    ];
    let audience = t.word("only", &audiences);
    let text = t.filled("only_text");
    match audience {
        Some(Audience::Admin) if manners.admins.is_empty() => {
            t.fault("only", "\"admin\" is nobody yet: list who may in [rules] admins");
        }
        None if text.is_some() && t.sound(&["only"]) => {
            t.fault("only_text", "is for those whom only leaves out: write only = \"bound\", or remove it");
        }
        _ => {}
    }
    audience.map(|audience| Only { audience, text })
}

/// Reads the terms of a binding, and names the first key that says how long a user id holds.
pub(super) fn terms(t: &mut Table) -> (Terms, Option<&'static str>) {
    let default = Terms::default();
    let unbind = t.flag("unbind", false);
    let ttl = t.parsed("ttl", units::some_duration);
    let renew_on_use = t.flag("renew_on_use", false);
    let key = if ttl.is_some() { Some("ttl") } else { renew_on_use.then_some("renew_on_use") };
    if let Some(key) = key.filter(|_| unbind) {
        t.fault(key, "says how long a binding holds, but unbind ends one: remove one of the two");
    }
    (Terms { unbind, ttl: ttl.unwrap_or(default.ttl), renew_on_use }, key)
}
