//! Every metric's name and help, in one place. One registry per gateway: two gateways fit in one process.
//!
//! No chat, sender or message id is ever a label. Dashboards and alert rules of `deploy/` use these names and no others.

use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::KafkaStand;
use crate::model::Outcome;
use crate::store::Depth;
use crate::wecom::verdict::{ChannelKind, Verdict};

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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Code {
    code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReloadResult {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

/// What waits in a queue.
const MESSAGE: Kind = Kind { kind: "message" };
const REPLY: Kind = Kind { kind: "reply" };

/// The gauges of the store are no older than this where they are scraped, however many scrape.
const FRESH: Duration = Duration::from_secs(1);

/// The gateway's metrics; cheap to share behind an `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    callbacks: Family<AppResult, Counter>,
    messages: Family<AppResult, Counter>,
    tasks: Family<SourceResult, Counter>,
    pushes: Family<AppResult, Counter>,
    sends: Family<ChannelVerdict, Counter>,
    store_errors: Family<Kind, Counter>,
    journal_lines: Family<Kind, Counter>,
    unknown_pushes: Family<Kind, Gauge>,
    compensations: Family<Kind, Counter>,
    alarms: Family<Kind, Counter>,
    alarms_lost: Family<Kind, Counter>,
    ack: Histogram,
    queue_wait: Family<Kind, Histogram>,
    action: Histogram,
    send: Histogram,
    end_to_end: Histogram,
    depth: Family<Kind, Gauge>,
    parked: Family<Reason, Gauge>,
    leases: Family<Kind, Gauge>,
    oldest_wait: Family<Kind, Gauge<f64, AtomicU64>>,
    /// When the gauges of the store were asked for last.
    asked: Mutex<Option<Instant>>,
    spool_depth: Gauge,
    spool_fill: Gauge<f64, AtomicU64>,
    spooled: Counter,
    replayed: Counter,
    kafka: Family<Kind, Gauge>,
    results_told: Counter,
    spans: Family<Kind, Counter>,
    api_refused: Family<Code, Counter>,
    reloads: Family<ReloadResult, Counter>,
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
            pushes: Family::default(),
            sends: Family::default(),
            store_errors: Family::default(),
            journal_lines: Family::default(),
            unknown_pushes: Family::default(),
            compensations: Family::default(),
            alarms: Family::default(),
            alarms_lost: Family::default(),
            ack: seconds(),
            queue_wait: Family::new_with_constructor(seconds),
            action: seconds(),
            send: seconds(),
            end_to_end: seconds(),
            depth: Family::default(),
            parked: Family::default(),
            leases: Family::default(),
            oldest_wait: Family::default(),
            asked: Mutex::default(),
            spool_depth: Gauge::default(),
            spool_fill: Gauge::default(),
            spooled: Counter::default(),
            replayed: Counter::default(),
            kafka: Family::default(),
            results_told: Counter::default(),
            spans: Family::default(),
            api_refused: Family::default(),
            reloads: Family::default(),
        };
        new.name_counters();
        new.name_histograms();
        new.name_gauges();
        new.begin_at_zero();
        new
    }
}

impl Metrics {
    fn name_counters(&mut self) {
        let r = &mut self.registry;
        r.register(
            "callbacks",
            "Callbacks by app and answer (stored, spooled, duplicate, or the error's code)",
            self.callbacks.clone(),
        );
        r.register("messages", "Messages handled by app and outcome", self.messages.clone());
        r.register(
            "push_tasks",
            "Push tasks handed over, by way in and result (taken, repeat, refused, full, faulty, dead_letter)",
            self.tasks.clone(),
        );
        r.register("pushes", "Deliveries of push tasks that ended, by app and state", self.pushes.clone());
        r.register("sends", "Requests to WeCom by channel and verdict", self.sends.clone());
        r.register("store_errors", "Store calls that failed, by verb", self.store_errors.clone());
        r.register(
            "journal_lines",
            "Journal lines by what became of them (recorded, unreadable, given_up: the database was away)",
            self.journal_lines.clone(),
        );
        r.register("alarms", "Alarms raised, by kind, those held back too", self.alarms.clone());
        r.register(
            "compensations",
            "Looks at unknown pushes, by what came of them (confirmed, resent, repeated, waits, gave_up)",
            self.compensations.clone(),
        );
        r.register(
            "alarms_lost",
            "Alarms that nobody was told of, by where they were lost (queue, windows, robot, hook)",
            self.alarms_lost.clone(),
        );
        r.register("results_told", "Ends of pushed deliveries written to the results topic", self.results_told.clone());
        r.register("spooled", "Messages acked into the spool while the store did not take them", self.spooled.clone());
        r.register(
            "spans",
            "Spans by what became of them (exported; dropped: the collector was away or too slow)",
            self.spans.clone(),
        );
        r.register(
            "api_refused",
            "Requests to the admin listener that were turned away, by code",
            self.api_refused.clone(),
        );
        r.register(
            "reloads",
            "Times that the configuration was read again, by what came of it (taken, unchanged, refused)",
            self.reloads.clone(),
        );
        r.register("replayed", "Spooled messages that the store took", self.replayed.clone());
    }

    fn name_histograms(&mut self) {
        let r = &mut self.registry;
        r.register("ack_seconds", "From a callback's arrival to its answer", self.ack.clone());
        r.register(
            "queue_wait_seconds",
            "How long what is worked had waited: a message from its arrival to its claim, a reply from its commit to its first begin",
            self.queue_wait.clone(),
        );
        r.register("action_seconds", "Time of an action", self.action.clone());
        r.register("send_seconds", "Time of one request to WeCom", self.send.clone());
        r.register(
            "end_to_end_seconds",
            "From a message's arrival to the delivery of a reply",
            self.end_to_end.clone(),
        );
    }

    fn name_gauges(&mut self) {
        let r = &mut self.registry;
        r.register(
            "kafka",
            "How Kafka is read, by what is counted (partitions of ours, their lag, tasks in flight, up: 1 or 0)",
            self.kafka.clone(),
        );
        r.register("depth", "What waits in the store, its lanes and its journal lines, by kind", self.depth.clone());
        r.register("parked_lanes", "Chats that are set aside, by reason", self.parked.clone());
        r.register("leases", "Lanes in work, by what they hold, over all processes of the store", self.leases.clone());
        r.register(
            "oldest_wait_seconds",
            "Age of the oldest message that waits for a worker (message), and of the oldest whose delivery, a push's too, waits or is being sent (reply); 0: none",
            self.oldest_wait.clone(),
        );
        r.register(
            "unknown_pushes",
            "Deliveries of pushes in the records that nobody knows of whether they arrived (looked_after, for_a_person)",
            self.unknown_pushes.clone(),
        );
        r.register("spool_fill_ratio", "How full the spool is, 0 to 1", self.spool_fill.clone());
        r.register("spool_depth", "Messages in the spool, acked and not yet in the store", self.spool_depth.clone());
    }

    /// What is rare and watched is there before it happens: a rate sees no rise where a counter begins at 1.
    fn begin_at_zero(&self) {
        let watched =
            [Verdict::Delivered, Verdict::Unknown, Verdict::ChatGone, Verdict::Configuration, Verdict::Rejected];
        for channel in ChannelKind::ALL.map(ChannelKind::as_str) {
            for verdict in watched.map(Verdict::as_str) {
                self.sends.get_or_create(&ChannelVerdict { channel, verdict }).inc_by(0);
            }
        }
        let kinds: [(_, &[_]); 5] = [
            (&self.store_errors, &["enqueue", "claim_messages", "commit", "claim_replies", "begin", "settle"]),
            (&self.journal_lines, &["recorded", "unreadable", "given_up"]),
            (&self.compensations, &["confirmed", "resent", "repeated", "waits", "gave_up"]),
            (&self.alarms_lost, &["queue", "windows", "robot", "hook"]),
            (&self.spans, &["exported", "dropped"]),
        ];
        for (family, kinds) in kinds {
            for kind in kinds {
                family.get_or_create(&Kind { kind }).inc_by(0);
            }
        }
        for code in ["loopback_only", "foreign_host", "foreign_origin", "token_unknown", "scope_too_small"] {
            self.api_refused.get_or_create(&Code { code }).inc_by(0);
        }
        for result in ["taken", "unchanged", "refused"] {
            self.reloads.get_or_create(&ReloadResult { result }).inc_by(0);
        }
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
        self.queue_wait.get_or_create(&MESSAGE).observe(waited.as_secs_f64());
    }
    /// A reply's first attempt began.
    pub fn begun(&self, waited: Duration) {
        self.queue_wait.get_or_create(&REPLY).observe(waited.as_secs_f64());
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
    /// A delivery of a push task ended.
    pub fn push_ended(&self, app: &str, state: Outcome) {
        self.pushes.get_or_create(&AppResult { app: app.to_owned(), result: state.as_str() }).inc();
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
    /// Whether it is time to ask the store for its gauges; the one that is told so asks.
    pub fn is_due(&self, now: Instant) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = asked.is_none_or(|at| now.saturating_duration_since(at) >= FRESH);
        if is_due {
            *asked = Some(now);
        }
        is_due
    }
    /// What the store holds at `now`, Unix ms.
    pub fn depth(&self, depth: Depth, now: i64) {
        let Depth { waiting, in_lanes, out_lanes, parked, journal, .. } = depth;
        let Depth { parked_for, in_leases, out_leases, oldest_message, oldest_reply, .. } = depth;
        let kinds = [
            ("waiting", waiting),
            ("in_lanes", in_lanes),
            ("out_lanes", out_lanes),
            ("parked", parked),
            ("journal", journal),
        ];
        for (kind, value) in kinds {
            self.depth.get_or_create(&Kind { kind }).set(whole(value));
        }
        for (reason, lanes) in parked_for.iter() {
            self.parked.get_or_create(&Reason { reason }).set(whole(lanes));
        }
        for (kind, leases, oldest) in [(MESSAGE, in_leases, oldest_message), (REPLY, out_leases, oldest_reply)] {
            let age = oldest.map_or(0, |at| now.saturating_sub(at).max(0));
            self.oldest_wait.get_or_create(&kind).set(age as f64 / 1000.0);
            self.leases.get_or_create(&kind).set(whole(leases));
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
    /// What the spool holds now, and how full it is, in percent.
    pub fn spool(&self, messages: u64, percent: u64) {
        self.spool_depth.set(whole(messages));
        self.spool_fill.set(percent as f64 / 100.0);
    }
    /// How Kafka is read now.
    pub fn kafka(&self, stand: KafkaStand) {
        let KafkaStand { up, partitions, lag, in_flight } = stand;
        let kinds =
            [("up", up.into()), ("partitions", partitions as u64), ("lag", lag), ("in_flight", in_flight as u64)];
        for (kind, value) in kinds {
            self.kafka.get_or_create(&Kind { kind }).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
    /// A result was written to its topic.
    pub fn result_told(&self) {
        self.results_told.inc();
    }
    /// So many spans left, or did not.
    pub fn spans(&self, kind: &'static str, spans: usize) {
        self.spans.get_or_create(&Kind { kind }).inc_by(spans as u64);
    }
    /// A request to the admin listener was turned away.
    pub fn api_refused(&self, code: &'static str) {
        self.api_refused.get_or_create(&Code { code }).inc();
    }
    /// The configuration was read again.
    pub fn reloaded(&self, result: &'static str) {
        self.reloads.get_or_create(&ReloadResult { result }).inc();
    }
    /// The OpenMetrics text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        // Writing into a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_asked_once_a_second_however_many_scrape() {
        let (metrics, now) = (Metrics::default(), Instant::now());
        assert!(metrics.is_due(now) && !metrics.is_due(now) && !metrics.is_due(now + FRESH / 2));
        assert!(metrics.is_due(now + FRESH) && !metrics.is_due(now + FRESH));
    }

    #[test]
    fn what_waits_is_told_by_its_age_and_what_is_parked_by_its_reason() {
        let metrics = Metrics::default();
        let mut depth = Depth { oldest_reply: Some(1_000), out_leases: 3, ..Depth::default() };
        depth.parked_for.add("paced", 2);
        metrics.depth(depth, 3_500);
        let text = metrics.render();
        for line in [
            "wecom_gateway_oldest_wait_seconds{kind=\"reply\"} 2.5",
            "wecom_gateway_oldest_wait_seconds{kind=\"message\"} 0.0",
            "wecom_gateway_leases{kind=\"reply\"} 3",
            "wecom_gateway_parked_lanes{reason=\"paced\"} 2",
            "wecom_gateway_parked_lanes{reason=\"held\"} 0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn every_metric_is_exported_with_its_help() {
        let metrics = Metrics::default();
        metrics.callback("support", "stored", Duration::from_millis(1));
        metrics.sent("group_robot", "delivered", Duration::from_millis(80));
        let text = metrics.render();
        assert!(text.contains("# TYPE wecom_gateway_callbacks counter"), "{text}");
        assert!(text.contains(r#"wecom_gateway_callbacks_total{app="support",result="stored"} 1"#), "{text}");
        assert!(text.contains("# HELP wecom_gateway_send_seconds"), "{text}");
        assert!(text.contains(r#"wecom_gateway_compensations_total{kind="gave_up"} 0"#), "{text}");
    }
}
