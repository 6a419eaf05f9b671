//! To whom a task goes: a chat, a list of chats, or members by their ids, departments and tags.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::read::{plain, unknown};
use super::task::{Target, TaskFault};
use crate::task::{EVERYBODY, MemberSet};

/// Chats of one task.
const MOST_CHATS: usize = 10_000;
/// Bytes of a chat's id, as in callbacks.
const MOST_CHAT_ID: usize = 512;
/// WeCom's bounds of `touser`, `toparty` and `totag` (document/path/90236).
const MOST_OF: [(&str, usize); 3] = [("users", 1000), ("parties", 100), ("tags", 100)];
/// Bytes of a userid; departments and tags are shorter.
const MOST_MEMBER_ID: usize = 64;
const FORMS: &str = "write {\"chat\":\"…\"}, {\"chats\":[…]} or lists of users, parties and tags";

/// Reads a target.
pub(super) fn read(target: &Value) -> Result<Target, TaskFault> {
    let fields = target.as_object().ok_or_else(|| TaskFault::new("target", format!("must be an object: {FORMS}")))?;
    let known = ["chat", "chats", "users", "parties", "tags"];
    if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown("target.", name, &known));
    }
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    let members = MOST_OF.iter().any(|(name, _)| has(name));
    match (has("chat"), has("chats"), members) {
        (true, false, false) => Ok(Target::Chats(vec![chat(&fields["chat"], "target.chat")?])),
        (false, true, false) => chats(&fields["chats"]),
        (false, false, true) => self::members(fields),
        (false, false, false) => Err(TaskFault::new("target", format!("names nobody: {FORMS}"))),
        _ => Err(TaskFault::new("target", format!("mixes forms: {FORMS}, one of the three"))),
    }
}

fn chat(value: &Value, field: &str) -> Result<String, TaskFault> {
    let id = value.as_str().ok_or_else(|| TaskFault::new(field, "must be a chat's id, a text"))?;
    plain(id, MOST_CHAT_ID).map_err(|wrong| TaskFault::new(field, wrong))?;
    Ok(id.to_owned())
}

fn chats(value: &Value) -> Result<Target, TaskFault> {
    let ids = list(value, "target.chats", MOST_CHATS)?;
    let chats: Result<Vec<String>, TaskFault> =
        ids.iter().enumerate().map(|(n, id)| chat(id, &format!("target.chats[{n}]"))).collect();
    let chats = chats?;
    if chats.is_empty() {
        return Err(TaskFault::new("target.chats", "is empty: name a chat"));
    }
    once_each(&chats, "target.chats")?;
    Ok(Target::Chats(chats))
}

fn members(fields: &Map<String, Value>) -> Result<Target, TaskFault> {
    let [users, parties, tags] = MOST_OF.map(|(name, most)| ids(fields.get(name), &format!("target.{name}"), most));
    let set = MemberSet { users: users?, parties: parties?, tags: tags? };
    if set.users.iter().chain(&set.parties).chain(&set.tags).next().is_none() {
        return Err(TaskFault::new("target", "names nobody: users, parties and tags are all empty"));
    }
    // WeCom would pass over the rest without a word.
    let others = set.users.len() + set.parties.len() + set.tags.len() - 1;
    if set.users.iter().any(|user| user == EVERYBODY) && others > 0 {
        return Err(TaskFault::new("target.users", "\"@all\" is everybody: write it alone, without parties and tags"));
    }
    Ok(Target::Members(set))
}

/// Departments and tags are numbers to some, and texts in the request.
fn ids(value: Option<&Value>, field: &str, most: usize) -> Result<Vec<String>, TaskFault> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(Vec::new()) };
    let ids: Result<Vec<String>, TaskFault> = list(value, field, most)?
        .iter()
        .enumerate()
        .map(|(n, id)| member_id(id).map_err(|wrong| TaskFault::new(format!("{field}[{n}]"), wrong)))
        .collect();
    let ids = ids?;
    once_each(&ids, field)?;
    Ok(ids)
}

fn member_id(value: &Value) -> Result<String, String> {
    let id = match value {
        Value::String(id) => id.clone(),
        Value::Number(id) if id.is_u64() => id.to_string(),
        _ => return Err("must be an id, a text".into()),
    };
    plain(&id, MOST_MEMBER_ID)?;
    if id.contains('|') || (id.starts_with('@') && id != EVERYBODY) {
        return Err("is no id: it would name somebody else".into());
    }
    Ok(id)
}

fn list<'v>(value: &'v Value, field: &str, most: usize) -> Result<&'v [Value], TaskFault> {
    let list = value.as_array().ok_or_else(|| TaskFault::new(field, "must be a list"))?;
    match list.len() {
        n if n > most => {
            Err(TaskFault::new(field, format!("has {n} entries, at most {most} are taken: make several tasks of it")))
        }
        _ => Ok(list),
    }
}

fn once_each(ids: &[String], field: &str) -> Result<(), TaskFault> {
    let mut seen = HashSet::with_capacity(ids.len());
    match ids.iter().position(|id| !seen.insert(id)) {
        Some(n) => Err(TaskFault::new(format!("{field}[{n}]"), "is there twice: name each once")),
        None => Ok(()),
    }
}
