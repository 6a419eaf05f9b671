//! To whom a task goes: a chat, a list of chats, members by their ids, departments and tags, customers, or groups of them.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::read::{plain, unknown};
use super::task::{Target, TaskFault};
use crate::task::{CustomerKind, CustomerSet, EVERYBODY, MemberSet};

/// Chats of one task.
pub(super) const MOST_CHATS: usize = 10_000;
/// Bytes of a chat's id, as in callbacks.
pub(super) const MOST_CHAT_ID: usize = 512;
/// WeCom's bounds of `touser`, `toparty` and `totag` (document/path/90236).
pub(super) const MOST_OF: [(&str, usize); 3] = [("users", 1000), ("parties", 100), ("tags", 100)];
/// Bytes of a userid; departments and tags are shorter.
pub(super) const MOST_MEMBER_ID: usize = 64;
/// WeCom's bounds of `external_userid` and `chat_id_list` (document/path/92135).
pub(super) const MOST_CUSTOMERS: [(&str, CustomerKind, usize); 2] =
    [("customers", CustomerKind::Customer, 10_000), ("customer_chats", CustomerKind::Chat, 2000)];
/// Who is asked to send it to those.
pub(super) const SENDER: &str = "sender";
const FORMS: &str = "write {\"chat\":\"…\"}, {\"chats\":[…]}, lists of users, parties and tags, {\"customers\":[…]}, or {\"customer_chats\":[…],\"sender\":\"…\"}";

/// Reads a target.
pub(super) fn read(target: &Value) -> Result<Target, TaskFault> {
    let fields = target.as_object().ok_or_else(|| TaskFault::new("target", format!("must be an object: {FORMS}")))?;
    let known = ["chat", "chats", "users", "parties", "tags", "customers", "customer_chats", SENDER];
    if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown("target.", name, &known));
    }
    let has = |name: &str| fields.get(name).is_some_and(|value| !value.is_null());
    let members = MOST_OF.iter().any(|(name, _)| has(name));
    let mut customers = MOST_CUSTOMERS.into_iter().filter(|(name, ..)| has(name));
    if let Some((name, kind, most)) = customers.next() {
        let others = has("chat") || has("chats") || members || customers.next().is_some();
        return if others { Err(mixed()) } else { self::customers(fields, name, kind, most) };
    }
    if has(SENDER) {
        return Err(TaskFault::new("target.sender", "is for customers and customer_chats alone"));
    }
    match (has("chat"), has("chats"), members) {
        (true, false, false) => Ok(Target::Chats(vec![chat(&fields["chat"], "target.chat")?])),
        (false, true, false) => chats(&fields["chats"]),
        (false, false, true) => self::members(fields),
        (false, false, false) => Err(TaskFault::new("target", format!("names nobody: {FORMS}"))),
        _ => Err(mixed()),
    }
}

fn mixed() -> TaskFault {
    TaskFault::new("target", format!("mixes forms: {FORMS}, one of these"))
}

fn customers(fields: &Map<String, Value>, name: &str, kind: CustomerKind, most: usize) -> Result<Target, TaskFault> {
    let field = format!("target.{name}");
    let ids = named(list(&fields[name], &field, most)?, &field)?;
    let sender = match (fields.get(SENDER).filter(|sender| !sender.is_null()), kind) {
        (Some(sender), _) => {
            let sender = member_id(sender).map_err(|wrong| TaskFault::new("target.sender", wrong))?;
            if sender == EVERYBODY {
                return Err(TaskFault::new("target.sender", "is one member, who is asked to send it"));
            }
            Some(sender)
        }
        (None, CustomerKind::Customer) => None,
        (None, CustomerKind::Chat) => {
            return Err(TaskFault::new("target.sender", "is missing: name the member who owns these groups"));
        }
    };
    Ok(Target::Customers(CustomerSet { kind, ids, sender }))
}

fn chat(value: &Value, field: &str) -> Result<String, TaskFault> {
    let id = value.as_str().ok_or_else(|| TaskFault::new(field, "must be an id, a text"))?;
    plain(id, MOST_CHAT_ID).map_err(|wrong| TaskFault::new(field, wrong))?;
    Ok(id.to_owned())
}

fn chats(value: &Value) -> Result<Target, TaskFault> {
    Ok(Target::Chats(named(list(value, "target.chats", MOST_CHATS)?, "target.chats")?))
}

/// Ids of chats or customers: at least one, none twice.
fn named(ids: &[Value], field: &str) -> Result<Vec<String>, TaskFault> {
    let ids: Result<Vec<String>, TaskFault> =
        ids.iter().enumerate().map(|(n, id)| chat(id, &format!("{field}[{n}]"))).collect();
    let ids = ids?;
    if ids.is_empty() {
        return Err(TaskFault::new(field, "is empty: name one"));
    }
    once_each(&ids, field)?;
    Ok(ids)
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
