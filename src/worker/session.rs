//! What is remembered of a member in a chat between two messages, and its bounds. Pure: the store reads it with the
//! claim and writes it in the commit step (P4).

use std::time::Duration;

use serde_json::{Map, Value};

use crate::model::{Role, Session, SessionTurn};

/// How long a session is kept in the store after its last message.
pub(super) const KEPT: Duration = Duration::from_secs(24 * 3600);
/// Turns kept, both sides counted.
const MAX_TURNS: usize = 20;
/// Bytes kept of one turn.
const MAX_TURN_BYTES: usize = 2048;
/// Bytes that `vars` may take as JSON.
const MAX_VARS_BYTES: usize = 16 * 1024;

/// The session after one exchange: the member's words, ours, and the vars that the action set (`null` takes one away).
/// Vars that would outgrow the bound are left as they were; the second answer says so.
pub(super) fn after(
    mut session: Session,
    said: &str,
    replies: &[Value],
    vars: Option<Map<String, Value>>,
) -> (Session, bool) {
    session.turns.push(SessionTurn { role: Role::User, text: cut(said) });
    let answers = replies.iter().filter_map(content).map(|text| SessionTurn { role: Role::Bot, text: cut(text) });
    session.turns.extend(answers);
    let surplus = session.turns.len().saturating_sub(MAX_TURNS);
    session.turns.drain(..surplus);

    let mut merged = session.vars.clone();
    for (name, value) in vars.unwrap_or_default() {
        if value.is_null() {
            merged.remove(&name);
        } else {
            merged.insert(name, value);
        }
    }
    let fits = serde_json::to_string(&merged).is_ok_and(|json| json.len() <= MAX_VARS_BYTES);
    if fits {
        session.vars = merged;
    }
    (session, fits)
}

fn content(message: &Value) -> Option<&str> {
    let kind = message.get("msgtype")?.as_str()?;
    message.get(kind)?.get("content")?.as_str()
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TURN_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn turns_and_vars_follow_an_exchange() {
        let mut session = Session::default();
        session.vars.insert("old".into(), json!(1));
        let vars = json!({"n": 2, "old": null}).as_object().cloned();
        let reply = json!({"msgtype": "markdown", "markdown": {"content": "yes"}});
        let (session, fits) = after(session, "hi", &[reply], vars);
        assert!(fits);
        assert_eq!(session.vars, json!({"n": 2}).as_object().cloned().expect("an object"));
        let turns: Vec<_> = session.turns.iter().map(|t| (t.role, t.text.as_str())).collect();
        assert_eq!(turns, [(Role::User, "hi"), (Role::Bot, "yes")]);
    }

    #[test]
    fn sessions_are_bounded() {
        let mut session = Session::default();
        for i in 0..50 {
            session = after(session, &format!("{i}{}", "你".repeat(2000)), &[], None).0;
        }
        assert_eq!(session.turns.len(), MAX_TURNS);
        assert!(session.turns[0].text.starts_with("30你") && session.turns[0].text.len() <= MAX_TURN_BYTES);

        let huge = json!({"x": "y".repeat(MAX_VARS_BYTES)}).as_object().cloned();
        let (session, fits) = after(session, "hi", &[], huge);
        assert!(!fits && session.vars.is_empty());
    }
}
