//! A task's JSON (contract, section 5), field by field. Pure but for the clock, which is handed in.
//!
//! Times are RFC 3339 texts, no numbers: a number does not say whether it counts seconds or milliseconds. A field that is null
//! counts as not there; one that no task has is a fault, because it was meant to do something.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::key;
use super::message;
use super::target;
use super::task::{Task, TaskFault};
use crate::config::Settings;
use crate::config::settings::OnUnknown;
use crate::model::millis;
use crate::sender::route::Routes;

/// Every field that a task may have.
pub(super) const FIELDS: [&str; 8] =
    ["task_id", "type", "created_at", "app", "target", "message", "expires_at", "on_unknown"];
/// Bytes of a task's id, and of its type.
pub(super) const MOST_ID: usize = 128;
/// How far a producer's clock may be ahead of ours.
pub(super) const AHEAD: Duration = Duration::from_secs(5 * 60);

/// What a task is held against.
pub(super) struct Reader<'a> {
    /// Its app, and how long tasks are known.
    pub settings: &'a Settings,
    /// How its recipients are reached now.
    pub routes: &'a Routes,
    /// Unix ms.
    pub now: i64,
}

impl Reader<'_> {
    /// Reads one task.
    ///
    /// # Errors
    /// The first fault.
    pub fn read(&self, json: &[u8]) -> Result<Task, TaskFault> {
        let mut fields = Fields::of(json)?;
        let app = fields.text("app")?.ok_or_else(|| missing("app", "name the app that sends it"))?;
        if !self.settings.apps.contains_key(&app) {
            return Err(TaskFault::new("app", "no app of this id is configured here"));
        }
        let kind = fields.label("type")?;
        let created = fields.time("created_at")?;
        let told = fields.value("target").ok_or_else(|| missing("target", "say to whom it goes"))?;
        let target = target::read(&told)?;
        let said = fields.value("message").ok_or_else(|| missing("message", "say what is sent"))?;
        let message = message::check(&said, &target, &self.routes_of(&app))?;
        let id = match fields.label("task_id")? {
            Some(id) => id,
            None => {
                let (at, _) =
                    created.as_ref().ok_or_else(|| missing("created_at", "without a task_id it makes the key"))?;
                key::derived_id(&app, kind.as_deref().unwrap_or_default(), &told, at, &said)
            }
        };
        let on_unknown = fields.on_unknown()?;
        let expires_at = self.expires_at(fields.time("expires_at")?, created.map(|(_, at)| at))?;
        let digest = key::content_digest(&app, &told, &said);
        let bytes = message.to_string().len() + target.bytes();
        Ok(Task { id, app, kind, target, message, bytes, digest, expires_at, on_unknown, trace: None })
    }

    fn routes_of<'a>(&'a self, app: &'a str) -> message::RoutesOf<'a> {
        message::RoutesOf { routes: self.routes, app }
    }

    /// A task is not sent once it is known no more: a late repeat would be another task then. So what says no end of its own ends
    /// as long after it was made as tasks are known.
    fn expires_at(&self, told: Option<(String, i64)>, created: Option<i64>) -> Result<i64, TaskFault> {
        let keep = millis(self.settings.push.keep);
        if created.is_some_and(|at| at > self.now.saturating_add(millis(AHEAD))) {
            return Err(TaskFault::new("created_at", "is in the future: set that machine's clock"));
        }
        let last = self.now.saturating_add(keep);
        match told {
            Some((_, at)) if at > last => {
                let why = "is later than tasks are known ([push] keep), so that a repeat could be sent again: write an earlier time";
                Err(TaskFault::new("expires_at", why))
            }
            Some((_, at)) => Ok(at),
            None => Ok(created.unwrap_or(self.now).saturating_add(keep).min(last)),
        }
    }
}

fn missing(field: &str, mend: &str) -> TaskFault {
    TaskFault::new(field, format!("is missing: {mend}"))
}

/// The fields of a task that were not looked at yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn of(json: &[u8]) -> Result<Self, TaskFault> {
        let fields = match serde_json::from_slice(json) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(TaskFault::new("", "a task is a JSON object")),
            Err(error) => {
                return Err(TaskFault::new(
                    "",
                    format!("is no JSON (line {}, column {})", error.line(), error.column()),
                ));
            }
        };
        match fields.keys().find(|name| !FIELDS.contains(&name.as_str())) {
            Some(name) => Err(unknown("", name, &FIELDS)),
            None => Ok(Self(fields)),
        }
    }

    fn value(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Result<Option<String>, TaskFault> {
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(TaskFault::new(name, "must be a text")),
        }
    }

    /// A text that names something: 1 to 128 bytes.
    fn label(&mut self, name: &str) -> Result<Option<String>, TaskFault> {
        let label = self.text(name)?;
        match label.as_deref().map(|text| plain(text, MOST_ID)) {
            Some(Err(wrong)) => Err(TaskFault::new(name, wrong)),
            None | Some(Ok(())) => Ok(label),
        }
    }

    /// An RFC 3339 time, as it stands and in Unix ms.
    fn time(&mut self, name: &str) -> Result<Option<(String, i64)>, TaskFault> {
        const MEND: &str =
            "must be an RFC 3339 time, such as \"2026-11-29T08:00:00Z\" or \"2026-11-29T16:00:00+08:00\"";
        match self.value(name) {
            None => Ok(None),
            Some(Value::String(text)) => {
                let at: Timestamp = text.parse().map_err(|_| TaskFault::new(name, MEND))?;
                Ok(Some((text, at.as_millisecond())))
            }
            Some(_) => Err(TaskFault::new(name, MEND)),
        }
    }

    /// Pushes are repeated where that is safe, unless they say otherwise.
    fn on_unknown(&mut self) -> Result<OnUnknown, TaskFault> {
        match self.text("on_unknown")?.as_deref() {
            None | Some("retry") => Ok(OnUnknown::Retry),
            Some("hold") => Ok(OnUnknown::Hold),
            Some(_) => Err(TaskFault::new("on_unknown", "must be \"retry\" or \"hold\"")),
        }
    }
}

/// What is wrong with a text that names something.
pub(super) fn plain(text: &str, most: usize) -> Result<(), String> {
    match text.len() {
        0 => Err("is empty".into()),
        n if n > most => Err(format!("has {n} bytes, at most {most} are taken")),
        _ if text.chars().any(char::is_control) => Err("holds a control character".into()),
        _ => Ok(()),
    }
}

/// A field that nobody knows; `within` ends with a dot where it is not empty.
pub(super) fn unknown(within: &str, name: &str, known: &[&str]) -> TaskFault {
    let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
    TaskFault::new(format!("{within}{name}"), format!("is no field here: write {}, or remove it", known.join(", ")))
}
