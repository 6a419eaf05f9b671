//! What is remembered between two messages, and its bounds. Pure: the store reads it with the claim and writes it in the
//! commit step (P4).

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::config::settings::{self, SessionScope};
use crate::mask;
use crate::model::{Role, Session, SessionTurn};

/// What was said, and by whom.
pub(super) struct Exchanged<'a> {
    /// The member's words.
    pub text: &'a str,
    /// What the member is called.
    pub name: Option<String>,
    /// What they are answered.
    pub replies: &'a [Value],
    /// The vars that the action set (`null` takes one away).
    pub vars: Option<Map<String, Value>>,
    /// How words are kept, be it anybody's.
    pub shown: &'a dyn Fn(&'a str) -> Cow<'a, str>,
}

/// A session after one exchange, and what of it is new.
#[derive(Debug, PartialEq)]
pub(super) struct After {
    pub session: Session,
    /// The turns of this exchange.
    pub turns: Vec<SessionTurn>,
    /// Whether the vars that the action set found room; where not, they are as they were.
    pub fits: bool,
}

/// The session after an exchange.
pub(super) fn after(mut session: Session, bounds: &settings::Session, exchanged: Exchanged<'_>) -> After {
    let Exchanged { text, name, replies, vars, shown } = exchanged;
    let turn = |role, text, name| {
        let text = mask::cut(&shown(text), bounds.max_turn).to_owned();
        SessionTurn { role, text, name }
    };
    let name = name.filter(|_| bounds.scope == SessionScope::Chat);
    let mut turns = vec![turn(Role::User, text, name)];
    turns.extend(replies.iter().filter_map(content).map(|text| turn(Role::Bot, text, None)));
    turns.truncate(bounds.turns);
    session.turns.extend(turns.iter().cloned());
    let surplus = session.turns.len().saturating_sub(bounds.turns);
    session.turns.drain(..surplus);

    let mut merged = session.vars.clone();
    for (name, value) in vars.unwrap_or_default() {
        if value.is_null() {
            merged.remove(&name);
        } else {
            merged.insert(name, value);
        }
    }
    let fits = serde_json::to_string(&merged).is_ok_and(|json| json.len() <= bounds.max_vars);
    if fits {
        session.vars = merged;
    }
    After { session, turns, fits }
}

fn content(message: &Value) -> Option<&str> {
    let kind = message.get("msgtype")?.as_str()?;
    message.get(kind)?.get("content")?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounds() -> settings::Session {
        settings::Session { max_vars: 1000, ..settings::Session::default() }
    }

    fn said<'a>(text: &'a str, replies: &'a [Value], vars: Option<Map<String, Value>>) -> Exchanged<'a> {
        Exchanged { text, name: Some("小王".into()), replies, vars, shown: &|text| Cow::Borrowed(text) }
    }

    #[test]
    fn turns_and_vars_follow_an_exchange() {
        let mut session = Session::default();
        session.vars.insert("old".into(), json!(1));
        let vars = json!({"n": 2, "old": null}).as_object().cloned();
        let reply = json!({"msgtype": "markdown", "markdown": {"content": "yes"}});
        let After { session, turns, fits } = after(session, &bounds(), said("hi", &[reply], vars));
        assert!(fits);
        assert_eq!(session.vars, json!({"n": 2}).as_object().cloned().expect("an object"));
        let words: Vec<_> = turns.iter().map(|t| (t.role, t.text.as_str(), t.name.as_deref())).collect();
        assert_eq!(words, [(Role::User, "hi", None), (Role::Bot, "yes", None)]);
        assert_eq!(session.turns, turns);
    }

    #[test]
    fn a_shared_session_says_who_spoke() {
        let shared = settings::Session { scope: SessionScope::Chat, ..bounds() };
        let turns = after(Session::default(), &shared, said("hi", &[], None)).turns;
        assert_eq!(turns[0].name.as_deref(), Some("小王"));
    }

    #[test]
    fn a_turn_is_masked_before_it_is_cut() {
        let short = settings::Session { max_turn: 10, ..bounds() };
        let turns = |shown: &'static dyn Fn(&'static str) -> Cow<'static, str>| {
            let exchanged = Exchanged { shown, ..said("电话13800138000", &[], None) };
            after(Session::default(), &short, exchanged).turns
        };
        assert_eq!(turns(&|text| Cow::Borrowed(text))[0].text, "电话");
        assert_eq!(turns(&|text| mask::phones_in(text))[0].text, "电话138*");
    }

    #[test]
    fn sessions_are_bounded() {
        let mut session = Session::default();
        for i in 0..50 {
            session = after(session, &bounds(), said(&format!("{i}{}", "你".repeat(2000)), &[], None)).session;
        }
        assert_eq!(session.turns.len(), bounds().turns);
        assert!(session.turns[0].text.starts_with("30你") && session.turns[0].text.len() <= bounds().max_turn);

        let huge = json!({"x": "y".repeat(bounds().max_vars)}).as_object().cloned();
        let After { session, fits, .. } = after(session, &bounds(), said("hi", &[], huge));
        assert!(!fits && session.vars.is_empty());
    }
}
