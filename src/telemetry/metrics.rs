//! Every metric's name and help, in one place. One registry per gateway: two gateways fit in one process.
//!
//! No chat, sender or message id is ever a label.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::model::Outcome;
use crate::store::Depth;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AppResult {
    app: String,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ChannelVerdict {
    channel: &'static str,
    verdict: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SourceResult {
    source: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

/// The gateway's metrics; cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    callbacks: Family<AppResult, Counter>,
    messages: Family<AppResult, Counter>,
    tasks: Family<SourceResult, Counter>,
    sends: Family<ChannelVerdict, Counter>,
    store_errors: Family<Kind, Counter>,
    journal_lines: Family<Kind, Counter>,
    unknown_pushes: Family<Kind, Gauge>,
    compensations: Family<Kind, Counter>,
    alarms: Family<Kind, Counter>,
    alarms_lost: Family<Kind, Counter>,
    ack: Histogram,
    queue_wait: Histogram,
    action: Histogram,
    send: Histogram,
    end_to_end: Histogram,
    depth: Family<Kind, Gauge>,
    spool_depth: Gauge,
    spooled: Counter,
    replayed: Counter,
}

/// Upper bounds in seconds: an ack takes microseconds, a paced reply minutes.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0])
}

impl Default for Metrics {
    fn default() -> Self {
        let mut new = Self {
            registry: Registry::with_prefix("wecom_gateway"),
            callbacks: Family::default(),
            messages: Family::default(),
            tasks: Family::default(),
            sends: Family::default(),
            store_errors: Family::default(),
            journal_lines: Family::default(),
            unknown_pushes: Family::default(),
            compensations: Family::default(),
            alarms: Family::default(),
            alarms_lost: Family::default(),
            ack: seconds(),
            queue_wait: seconds(),
            action: seconds(),
            send: seconds(),
            end_to_end: seconds(),
            depth: Family::default(),
            spool_depth: Gauge::default(),
            spooled: Counter::default(),
            replayed: Counter::default(),
        };
        let r = &mut new.registry;
        r.register(
            "callbacks",
            "Callbacks by app and answer (stored, spooled, duplicate, or the error's code)",
            new.callbacks.clone(),
        );
        r.register("messages", "Messages handled by app and outcome", new.messages.clone());
        r.register(
            "push_tasks",
            "Push tasks handed over, by way in and result (taken, repeat, refused, full, faulty)",
            new.tasks.clone(),
        );
        r.register("sends", "Requests to WeCom by channel and verdict", new.sends.clone());
        r.register("store_errors", "Store calls that failed, by verb", new.store_errors.clone());
        r.register(
            "journal_lines",
            "Journal lines by what became of them (recorded, unreadable, given_up: the database was away)",
            new.journal_lines.clone(),
        );
        r.register(
            "unknown_pushes",
            "Deliveries of pushes in the records that nobody knows of whether they arrived (looked_after, for_a_person)",
            new.unknown_pushes.clone(),
        );
        r.register(
            "compensations",
            "Looks at unknown pushes, by what came of them (confirmed, resent, repeated, waits, gave_up)",
            new.compensations.clone(),
        );
        r.register("alarms", "Alarms raised, by kind, those held back too", new.alarms.clone());
        r.register(
            "alarms_lost",
            "Alarms that nobody was told of, by where they were lost (queue, windows, robot, hook)",
            new.alarms_lost.clone(),
        );
        r.register("ack_seconds", "From a callback's arrival to its answer", new.ack.clone());
        r.register(
            "queue_wait_seconds",
            "From a message's arrival to the start of its handling",
            new.queue_wait.clone(),
        );
        r.register("action_seconds", "Time of an action", new.action.clone());
        r.register("send_seconds", "Time of one request to WeCom", new.send.clone());
        r.register("end_to_end_seconds", "From a message's arrival to the delivery of a reply", new.end_to_end.clone());
        r.register("depth", "What waits in the store, its lanes and its journal lines, by kind", new.depth.clone());
        r.register("spool_depth", "Messages in the spool, acked and not yet in the store", new.spool_depth.clone());
        r.register("spooled", "Messages acked into the spool while the store did not take them", new.spooled.clone());
        r.register("replayed", "Spooled messages that the store took", new.replayed.clone());
        new
    }
}

impl Metrics {
    /// A callback was answered.
    pub fn callback(&self, app: &str, result: &'static str, took: Duration) {
        self.callbacks.get_or_create(&AppResult { app: app.to_owned(), result }).inc();
        self.ack.observe(took.as_secs_f64());
    }
    /// A message's handling began.
    pub fn started(&self, waited: Duration) {
        self.queue_wait.observe(waited.as_secs_f64());
    }
    /// An action ended.
    pub fn action(&self, took: Duration) {
        self.action.observe(took.as_secs_f64());
    }
    /// A message was committed.
    pub fn handled(&self, app: &str, outcome: Outcome) {
        self.messages.get_or_create(&AppResult { app: app.to_owned(), result: outcome.as_str() }).inc();
    }
    /// A push task was handed over.
    pub fn task(&self, source: &'static str, result: &'static str) {
        self.tasks.get_or_create(&SourceResult { source, result }).inc();
    }
    /// A request to WeCom ended.
    pub fn sent(&self, channel: &'static str, verdict: &'static str, took: Duration) {
        self.sends.get_or_create(&ChannelVerdict { channel, verdict }).inc();
        self.send.observe(took.as_secs_f64());
    }
    /// A reply arrived.
    pub fn delivered(&self, since_arrival: Duration) {
        self.end_to_end.observe(since_arrival.as_secs_f64());
    }
    /// A store call failed.
    pub fn store_error(&self, verb: &'static str) {
        self.store_errors.get_or_create(&Kind { kind: verb }).inc();
    }
    /// Journal lines were written to the records, or passed over because nothing could be made of them.
    pub fn journal(&self, recorded: usize, unreadable: usize) {
        for (kind, count) in [("recorded", recorded), ("unreadable", unreadable)] {
            self.journal_lines.get_or_create(&Kind { kind }).inc_by(count as u64);
        }
    }
    /// So many pushes are unknown now, by who looks after them.
    pub fn unknown_pushes(&self, looked_after: u64, for_a_person: u64) {
        for (kind, count) in [("looked_after", looked_after), ("for_a_person", for_a_person)] {
            self.unknown_pushes.get_or_create(&Kind { kind }).set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }
    /// An unknown push was looked at.
    pub fn compensated(&self, kind: &'static str) {
        self.compensations.get_or_create(&Kind { kind }).inc();
    }
    /// An alarm was raised.
    pub fn alarm(&self, kind: &'static str) {
        self.alarms.get_or_create(&Kind { kind }).inc();
    }
    /// So many alarms were lost at this place.
    pub fn alarms_lost(&self, kind: &'static str, alarms: usize) {
        self.alarms_lost.get_or_create(&Kind { kind }).inc_by(alarms as u64);
    }
    /// Journal lines were given up because too many waited for the records.
    pub fn given_up(&self, lines: usize) {
        self.journal_lines.get_or_create(&Kind { kind: "given_up" }).inc_by(lines as u64);
    }
    /// What the store holds now.
    pub fn depth(&self, depth: Depth) {
        let Depth { waiting, in_lanes, out_lanes, parked, journal } = depth;
        let kinds = [
            ("waiting", waiting),
            ("in_lanes", in_lanes),
            ("out_lanes", out_lanes),
            ("parked", parked),
            ("journal", journal),
        ];
        for (kind, value) in kinds {
            self.depth.get_or_create(&Kind { kind }).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
    /// A message went into the spool.
    pub fn spooled(&self) {
        self.spooled.inc();
    }
    /// The store took so many out of the spool.
    pub fn replayed(&self, messages: usize) {
        self.replayed.inc_by(messages as u64);
    }
    /// What the spool holds now.
    pub fn spool_depth(&self, messages: u64) {
        self.spool_depth.set(i64::try_from(messages).unwrap_or(i64::MAX));
    }
    /// The OpenMetrics text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_exported_with_its_help() {
        let metrics = Metrics::default();
        metrics.callback("support", "stored", Duration::from_millis(1));
        metrics.sent("group_robot", "delivered", Duration::from_millis(80));
        let text = metrics.render();
        assert!(text.contains("# TYPE wecom_gateway_callbacks counter"), "{text}");
        assert!(text.contains(r#"wecom_gateway_callbacks_total{app="support",result="stored"} 1"#), "{text}");
        assert!(text.contains("# HELP wecom_gateway_send_seconds"), "{text}");
    }
}
