//! What a message adds to the statistics of its day: a function of the set of its steps, as its rows are.
//!
//! So the roll-up needs no events and no recounting: whoever writes lines subtracts what the message's steps said before and
//! adds what they say now, in the transaction that writes them. Everything about a message counts for the day on which it
//! came, also what arrives after midnight.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::histogram::{Histogram, bucket};
use crate::model::Outcome;
use crate::records::trail::{DECISIVE, DeliveryRow, Digest, Step, digest};
use crate::store::Stage;
use crate::zone::Zone;

/// What a message set off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hit {
    /// A command, also one that was called wrongly.
    Command,
    /// A keyword.
    Keyword,
    /// A mention without a command.
    Mention,
    /// A binding sentence.
    Binding,
    /// Nothing, for a sensitive word.
    Sensitive,
    /// Nothing: members talked among themselves.
    Chatter,
    /// An event of WeCom's, which is no message.
    Event,
    /// Nothing, for any other reason.
    Other,
}

impl Hit {
    /// Each of them.
    pub const ALL: [Self; 8] = [
        Self::Command,
        Self::Keyword,
        Self::Mention,
        Self::Binding,
        Self::Sensitive,
        Self::Chatter,
        Self::Event,
        Self::Other,
    ];

    /// Its word in SQL and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Keyword => "keyword",
            Self::Mention => "mention",
            Self::Binding => "binding",
            Self::Sensitive => "sensitive",
            Self::Chatter => "chatter",
            Self::Event => "event",
            Self::Other => "other",
        }
    }

    /// What a handling (or a dropping) set off, and by which rule or for which reason.
    fn of(step: &Step) -> (Self, String) {
        let rule = step.text("rule").unwrap_or_default();
        let reason = step.text("reason").unwrap_or_default();
        let named = |prefix: &str| rule.strip_prefix(prefix).unwrap_or(&rule).to_owned();
        match step.text("trigger").as_deref() {
            Some("command") => (Self::Command, named("command:")),
            Some("keyword") => (Self::Keyword, named("keyword:")),
            Some("mention") => (Self::Mention, rule),
            Some("binding") => (Self::Binding, named("binding:")),
            _ if rule.starts_with("command:") => (Self::Command, named("command:")),
            _ if rule == "sensitive" => (Self::Sensitive, rule),
            _ if reason == "chatter" => (Self::Chatter, reason),
            _ if reason.starts_with("event") => (Self::Event, reason),
            _ => (Self::Other, if rule.is_empty() { reason } else { rule }),
        }
    }
}

/// Where something is counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    /// 20261129
    pub day: i64,
    /// App id.
    pub app: String,
    /// Chat id.
    pub chat: String,
    /// What messages set off; empty for what is counted of the chat as a whole, and of messages that nobody has handled.
    pub hit: &'static str,
    /// By which rule: a command's name, a keyword, a reason.
    pub rule: String,
}

impl Cell {
    /// A chat as a whole.
    pub fn of_chat(day: i64, app: &str, chat: &str) -> Self {
        Self { day, app: app.to_owned(), chat: chat.to_owned(), hit: "", rule: String::new() }
    }

    /// Names it within its day.
    pub fn digest(&self) -> Digest {
        digest(&[&self.app, &self.chat, self.hit, &self.rule].join("\0"))
    }
}

/// The columns of [`Counts`], in the order of its numbers.
pub(super) const COLUMNS: [&str; 10] =
    ["messages", "hits", "replies", "delivered", "unknown", "dead", "dropped", "duplicates", "timed", "took_ms"];

/// What is counted. Differences are counts too, so numbers may be negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// What members wrote.
    pub messages: i64,
    /// Those that set this off.
    pub hits: i64,
    /// Deliveries for them, without those that were sent again under another id.
    pub replies: i64,
    /// Of these, how many ended so.
    pub delivered: i64,
    pub unknown: i64,
    pub dead: i64,
    pub dropped: i64,
    /// Copies that were stopped.
    pub duplicates: i64,
    /// How many latencies there are, and their sum.
    pub timed: i64,
    pub took_ms: i64,
    /// The latencies.
    pub latencies: Histogram,
}

impl Counts {
    pub fn numbers(&self) -> [i64; COLUMNS.len()] {
        let Self { messages, hits, replies, delivered, unknown, dead, dropped, duplicates, timed, took_ms, .. } = *self;
        [messages, hits, replies, delivered, unknown, dead, dropped, duplicates, timed, took_ms]
    }

    pub fn of(numbers: [i64; COLUMNS.len()]) -> Self {
        let [messages, hits, replies, delivered, unknown, dead, dropped, duplicates, timed, took_ms] = numbers;
        let latencies = Histogram::default();
        Self { messages, hits, replies, delivered, unknown, dead, dropped, duplicates, timed, took_ms, latencies }
    }

    /// Adds `other`, `times` times.
    pub fn add(&mut self, other: &Self, times: i64) {
        let (mut numbers, mut latencies) = (self.numbers(), std::mem::take(&mut self.latencies));
        for (number, more) in numbers.iter_mut().zip(other.numbers()) {
            *number += times * more;
        }
        other.latencies.0.iter().for_each(|(bucket, n)| latencies.add(*bucket, times * n));
        *self = Self { latencies, ..Self::of(numbers) };
    }
}

/// What a message (one of these app and chat, with these deliveries) adds to its day.
pub(super) fn tally<'s>(
    zone: &Zone,
    app: &str,
    chat: &str,
    steps: impl IntoIterator<Item = &'s Step>,
    deliveries: &[DeliveryRow],
) -> Vec<(Cell, Counts)> {
    let steps: Vec<&Step> = steps.into_iter().filter(|step| DECISIVE.contains(&step.stage)).collect();
    let at = |stage: Stage| steps.iter().filter(move |step| step.stage == stage);
    // Nobody waited for a push: it is no reply, and has no latency.
    if at(Stage::Pushed).next().is_some() {
        return Vec::new();
    }
    let first = steps.iter().map(|step| step.at).min();
    let Some(came) = at(Stage::Accepted).map(|step| step.at).min().or(first) else { return Vec::new() };
    let chat_cell = Cell::of_chat(day_number(zone, came), app, chat);
    let decided = at(Stage::Handled).max_by_key(|step| step.at).or(at(Stage::Expired).max_by_key(|step| step.at));
    let hit = decided.map(|step| Hit::of(step));
    let is_message = hit.is_some() || at(Stage::Accepted).next().is_some();
    let is_event = matches!(hit, Some((Hit::Event, _)));
    let mut counts = replies(&steps, deliveries);
    let messages = i64::from(is_message && !is_event);
    let Some((hit, rule)) = hit else { return vec![(chat_cell, Counts { messages, ..counts })] };
    counts.hits = 1;
    let hit_cell = Cell { hit: hit.as_str(), rule, ..chat_cell.clone() };
    vec![(chat_cell, Counts { messages, ..Counts::default() }), (hit_cell, counts)]
}

/// The day of a moment as a number, 20261129.
pub(super) fn day_number(zone: &Zone, ms: i64) -> i64 {
    number_of(zone.day(ms))
}

/// A day as a number, 20261129.
pub(super) fn number_of(day: jiff::civil::Date) -> i64 {
    i64::from(day.year()) * 10_000 + i64::from(day.month()) * 100 + i64::from(day.day())
}

/// What became of the replies. Their latencies are from the message's arrival to WeCom's answer; what an operator sent again or
/// settled by word has none.
fn replies(steps: &[&Step], deliveries: &[DeliveryRow]) -> Counts {
    let mut counts = Counts::default();
    for delivery in deliveries {
        counts.replies += i64::from(delivery.state != Outcome::Resent);
        let ended = match delivery.state {
            Outcome::Delivered => &mut counts.delivered,
            Outcome::Unknown => &mut counts.unknown,
            Outcome::Dead => &mut counts.dead,
            Outcome::Dropped => &mut counts.dropped,
            _ => continue,
        };
        *ended += 1;
    }
    for ms in latencies(steps, deliveries) {
        counts.timed += 1;
        counts.took_ms += ms.cast_signed();
        counts.latencies.add(bucket(ms), 1);
    }
    counts
}

fn latencies(steps: &[&Step], deliveries: &[DeliveryRow]) -> Vec<u64> {
    let delivered = deliveries.iter().filter(|delivery| delivery.state == Outcome::Delivered);
    let delivered: BTreeSet<&str> = delivered.map(|delivery| delivery.id.as_str()).collect();
    let again: BTreeSet<String> = steps.iter().filter_map(|step| step.text("resent_as")).collect();
    let ended = |step: &&Step| {
        let is_end = step.stage == Stage::Settled && step.text("state").as_deref() == Some(Outcome::Delivered.as_str());
        let id = step.text("delivery").filter(|id| is_end && delivered.contains(id.as_str()) && !again.contains(id))?;
        Some((id, step.detail.get("latency_ms").and_then(Value::as_u64)?.min(u64::from(u32::MAX))))
    };
    // By delivery: a step may be here twice.
    steps.iter().filter_map(ended).collect::<BTreeMap<_, _>>().into_values().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::records::trail::fold;

    fn step(at: i64, stage: Stage, detail: Value) -> Step {
        Step { at, stage, request_id: "r".into(), detail: detail.as_object().cloned().unwrap_or_default() }
    }

    fn told(steps: &[Step]) -> Vec<(String, Counts)> {
        let deliveries = fold(steps).1;
        let cells = tally(&Zone::default(), "app", "chat", steps, &deliveries).into_iter();
        cells.map(|(cell, counts)| (format!("{} {} {}", cell.day, cell.hit, cell.rule), counts)).collect()
    }

    fn life(state: &str) -> Vec<Step> {
        let handled = json!({"trigger": "command", "rule": "command:query", "replies": [{"id": "r.0"}]});
        let settled = json!({"delivery": "r.0", "state": state, "latency_ms": 40});
        vec![
            step(86_399_999, Stage::Accepted, json!({})),
            step(86_400_005, Stage::Handled, handled),
            step(86_400_039, Stage::Settled, settled),
        ]
    }

    #[test]
    fn pushes_are_no_replies() {
        let pushed = step(1, Stage::Pushed, json!({"task": "t1", "replies": [{"id": "t.0"}]}));
        let settled = step(2, Stage::Settled, json!({"delivery": "t.0", "state": "delivered", "latency_ms": 7}));
        let steps = [pushed, settled];
        assert_eq!(tally(&Zone::named("UTC").unwrap(), "a", "c", &steps, &fold(&steps).1), []);
    }

    #[test]
    fn a_message_counts_where_it_came_and_for_what_it_set_off() {
        let message = Counts { messages: 1, ..Counts::default() };
        let mut hit = Counts { hits: 1, replies: 1, delivered: 1, timed: 1, took_ms: 40, ..Counts::default() };
        hit.latencies.add(bucket(40), 1);
        let mut steps = life("delivered");
        let want = [("19700101  ".to_owned(), message.clone()), ("19700101 command query".to_owned(), hit)];
        assert_eq!(told(&steps), want);
        // Neither order nor repeats change it, nor copies.
        steps.extend(steps.clone());
        steps.push(step(1, Stage::Duplicate, json!({})));
        steps.reverse();
        assert_eq!(told(&steps), want);
        assert_eq!(told(&life("delivered")[..1]), [("19700101  ".to_owned(), message.clone())]);
        let unknown = Counts { hits: 1, replies: 1, unknown: 1, ..Counts::default() };
        assert_eq!(told(&life("unknown"))[1].1, unknown);
        assert_eq!(told(&[step(1, Stage::Duplicate, json!({}))]), []);
    }

    #[test]
    fn what_an_operator_sent_again_is_one_reply_without_a_latency() {
        let mut steps = life("unknown");
        steps.push(step(
            86_400_100,
            Stage::Operated,
            json!({"delivery": "r.0", "action": "resend", "resent_as": "r.0.r1"}),
        ));
        let open = Counts { hits: 1, replies: 1, ..Counts::default() };
        assert_eq!(told(&steps)[1].1, open);
        let settled = json!({"delivery": "r.0.r1", "state": "delivered", "latency_ms": 1});
        steps.push(step(86_400_200, Stage::Settled, settled));
        assert_eq!(told(&steps)[1].1, Counts { delivered: 1, ..open });
    }

    #[test]
    fn what_set_nothing_off_is_counted_by_its_reason() {
        for (detail, hit, messages) in [
            (json!({"reason": "chatter"}), "chatter chatter", 1),
            (json!({"reason": "event:add_to_chat"}), "event event:add_to_chat", 0),
            (json!({"rule": "sensitive"}), "sensitive sensitive", 1),
            (json!({"rule": "command:query"}), "command query", 1),
            (json!({"rule": "unknown_command"}), "other unknown_command", 1),
            (json!({"reason": "type:image"}), "other type:image", 1),
            (json!({"trigger": "keyword", "rule": "keyword:价格"}), "keyword 价格", 1),
            (json!({"trigger": "mention", "rule": "mention", "reason": "action_failed"}), "mention mention", 1),
        ] {
            let told = told(&[step(1, Stage::Accepted, json!({})), step(2, Stage::Handled, detail)]);
            assert_eq!((told[0].1.messages, &told[1].0), (messages, &format!("19700101 {hit}")));
        }
        let dropped =
            told(&[step(1, Stage::Accepted, json!({})), step(9, Stage::Expired, json!({"reason": "too_old"}))]);
        assert_eq!((dropped[0].1.messages, dropped[1].0.as_str()), (1, "19700101 other too_old"));
    }
}
