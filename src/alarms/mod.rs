//! Alarms: what somebody has to know, told to a group by a robot of its own, to a hook, or both (`[alarms]`).
//!
//! Whoever decides that something went wrong for good says so once, by [`Alarms::raise`]; the rest is done here, outside the
//! lanes that messages go by. What always holds:
//!
//! - Raising never waits and never fails: a queue that is full loses the alarm, counted, and the log has it all the same.
//! - One alarm goes out for each kind and subject in a window (`windows`), over all processes where the store can say so;
//!   those held back are counted in the next one.
//! - The robot's own rate is kept, several alarms to a text (`robot`). What may have arrived there is not sent again; the hook, which
//!   can know a repeat, is tried a few times (`hook`).
//! - No alarm holds a secret or what a member wrote: ids, codes and WeCom's own words alone.

mod hook;
mod kind;
mod notifier;
mod robot;
mod text;
mod windows;

use std::sync::Arc;

use tokio::sync::mpsc;

pub use kind::Kind;
pub use notifier::{Clients, Notifier};

use crate::mask;
use crate::model::now_ms;
use crate::telemetry::Metrics;

/// Alarms that wait to be looked at, at most.
const MOST_RAISED: usize = 1024;
/// Bytes of a detail that are kept.
const MOST_DETAIL: usize = 512;

/// Something that somebody has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    kind: Kind,
    app: Option<String>,
    chat: Option<String>,
    /// A reason, an errcode with its words, an id: may be empty.
    detail: String,
    /// Unix ms.
    at: i64,
}

impl Alarm {
    /// About one chat.
    pub fn of_chat(kind: Kind, app: &str, chat: &str, detail: &str) -> Self {
        Self { chat: Some(chat.to_owned()), ..Self::of_app(kind, app, detail) }
    }

    /// About an app as a whole.
    pub fn of_app(kind: Kind, app: &str, detail: &str) -> Self {
        Self { app: Some(app.to_owned()), ..Self::of_process(kind, detail) }
    }

    /// About this process, its machine or what it needs.
    pub fn of_process(kind: Kind, detail: &str) -> Self {
        let detail = mask::cut(detail, MOST_DETAIL).to_owned();
        Self { kind, app: None, chat: None, detail, at: now_ms() }
    }

    /// Whom it is about: `app/chat`, the app, or a part of the process.
    fn subject(&self) -> String {
        match (&self.app, &self.chat) {
            (Some(app), Some(chat)) => format!("{app}/{chat}"),
            (Some(app), None) => app.clone(),
            (None, _) => self.kind.part().to_owned(),
        }
    }
}

/// An alarm that is to go out, and how many of its kind and subject it speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Due {
    alarm: Alarm,
    count: u64,
}

/// Where alarms are raised. Clones are the same.
#[derive(Clone)]
pub struct Alarms {
    /// `None`: nobody listens.
    queue: Option<mpsc::Sender<Alarm>>,
    metrics: Arc<Metrics>,
}

impl Alarms {
    /// Counted, and told to nobody.
    pub fn unheard(metrics: Arc<Metrics>) -> Self {
        Self { queue: None, metrics }
    }

    /// Told to whoever holds the other end.
    fn heard(metrics: Arc<Metrics>) -> (Self, mpsc::Receiver<Alarm>) {
        let (queue, raised) = mpsc::channel(MOST_RAISED);
        (Self { queue: Some(queue), metrics }, raised)
    }

    /// Says that somebody has to know. Returns at once, whatever becomes of it.
    pub fn raise(&self, alarm: Alarm) {
        self.metrics.alarm(alarm.kind.as_str());
        if self.queue.as_ref().is_some_and(|queue| queue.try_send(alarm).is_err()) {
            self.metrics.alarms_lost("queue", 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_never_waits_and_counts_what_it_loses() {
        let metrics = Arc::new(Metrics::default());
        let (alarms, raised) = Alarms::heard(metrics.clone());
        for _ in 0..MOST_RAISED + 3 {
            alarms.raise(Alarm::of_chat(Kind::Unknown, "support", "c1", ""));
        }
        drop(raised);
        alarms.raise(Alarm::of_process(Kind::StoreAway, "claim_messages"));
        let text = metrics.render();
        assert!(text.contains("wecom_gateway_alarms_total{kind=\"unknown\"} 1027"), "{text}");
        assert!(text.contains("wecom_gateway_alarms_lost_total{kind=\"queue\"} 4"), "{text}");
    }

    #[test]
    fn a_subject_says_whom_it_is_about() {
        let subject = |alarm: Alarm| alarm.subject();
        assert_eq!(subject(Alarm::of_chat(Kind::ChatDead, "support", "c1", "")), "support/c1");
        assert_eq!(subject(Alarm::of_app(Kind::Held, "support", "")), "support");
        assert_eq!(subject(Alarm::of_process(Kind::SpoolFilling, "")), "spool");
    }

    #[test]
    fn a_long_detail_is_cut_between_characters() {
        let alarm = Alarm::of_process(Kind::NotTried, &"长".repeat(MOST_DETAIL));
        assert_eq!(alarm.detail, "长".repeat(MOST_DETAIL / 3));
        let alarm = Alarm::of_process(Kind::NotTried, &format!("{}13800138000", "长".repeat(MOST_DETAIL / 3 - 2)));
        assert_eq!(alarm.detail, "长".repeat(MOST_DETAIL / 3 - 2));
    }
}
