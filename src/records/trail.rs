//! From journal lines to rows: the pure part of the records.
//!
//! A message's row and its deliveries are a function of the set of its lines. Lines seen twice, or in another order,
//! give the same rows; so the flusher may repeat whatever it is not sure of.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::care::Care;
use crate::model::{MessageKey, Outcome};
use crate::store::{ByHand, Entry, Stage};

/// The first 16 bytes of a SHA-256.
pub type Digest = [u8; 16];

/// Names a text in 16 bytes.
pub fn digest(text: &str) -> Digest {
    let mut short = [0; 16];
    short.copy_from_slice(&Sha256::digest(text)[..16]);
    short
}

/// One step of a message's way.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The store's time of it, Unix ms.
    pub at: i64,
    /// Which step.
    pub stage: Stage,
    /// Whose request.
    pub request_id: String,
    /// The rest; see [`Stage`].
    pub detail: Map<String, Value>,
}

impl Step {
    /// A text of its detail.
    pub(super) fn text(&self, field: &str) -> Option<String> {
        self.detail.get(field).and_then(Value::as_str).map(str::to_owned)
    }

    fn outcome(&self) -> Option<Outcome> {
        Outcome::parse(&self.text("outcome")?)
    }
}

/// A journal line, read: a step, and which message and which line it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Digest of the message key.
    pub message: Digest,
    /// Digest of the line's text.
    pub line: Digest,
    /// The message.
    pub key: MessageKey,
    /// The step.
    pub step: Step,
}

impl Recorded {
    /// Reads a raw line; `None` where it is not one of ours.
    pub fn parse(raw: &str) -> Option<Self> {
        let Entry { at, line } = Entry::parse(raw)?;
        Some(Self {
            message: digest(line.key.as_str()),
            line: digest(raw),
            key: line.key,
            step: Step { at, stage: line.stage, request_id: line.request_id, detail: line.detail },
        })
    }
}

/// A message as the records show it.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageRow {
    /// The request that owns the message: the one that was handled, else the first that was accepted.
    pub request_id: String,
    /// How it ended, or `queued`.
    pub outcome: Outcome,
    /// Why it ended so.
    pub reason: Option<String>,
    /// The rule that matched.
    pub rule: Option<String>,
    /// The action that ran.
    pub action: Option<String>,
    /// Its first step, Unix ms.
    pub received_at: i64,
}

/// A delivery as the records show it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeliveryRow {
    /// `<request_id>.<n>`
    pub id: String,
    /// The request it answers.
    pub request_id: String,
    /// `queued`, `delivered`, `dropped`, `dead`, `unknown`, `resent`.
    pub state: Outcome,
    /// Why it ended so.
    pub reason: Option<String>,
    /// What WeCom answered.
    pub errcode: Option<i64>,
    /// When it came into this state, Unix ms.
    pub at: i64,
    /// Where it ever ended `unknown`: how it is looked after since.
    pub care: Option<Care>,
    /// WeCom's id of what was sent, where it gave one.
    pub msgid: Option<String>,
    /// Whom WeCom left out.
    pub left_out: Option<String>,
}

/// The steps that decide rows.
pub const DECISIVE: [Stage; 8] = [
    Stage::Accepted,
    Stage::Pushed,
    Stage::Expired,
    Stage::Handled,
    Stage::Answered,
    Stage::Settled,
    Stage::Compensated,
    Stage::Operated,
];
/// The steps that only show in the trail. There may be any number of them, so nothing that runs for each message reads
/// them back.
pub const PASSING: [Stage; 2] = [Stage::Duplicate, Stage::Retried];

/// The rows that follow from a message's steps (at least one).
pub fn fold<'s>(steps: impl IntoIterator<Item = &'s Step>) -> (MessageRow, Vec<DeliveryRow>) {
    let mut steps: Vec<&Step> = steps.into_iter().collect();
    // Equal times: in the order of a message's life.
    steps.sort_by_key(|step| (step.at, step.stage as u8));
    let deliveries = deliveries(&steps);
    let first = |stage| steps.iter().copied().find(|step| step.stage == stage);
    let last = |stage| steps.iter().copied().rfind(|step| step.stage == stage);
    let handled = last(Stage::Handled);
    let expired = last(Stage::Expired);
    let owner = handled
        .or(expired)
        .or_else(|| first(Stage::Accepted))
        .or_else(|| steps.iter().copied().find(|step| step.stage != Stage::Duplicate))
        .or(steps.first().copied());
    let (outcome, reason) = conclude(handled, expired, owner, &deliveries);
    let row = MessageRow {
        request_id: owner.map(|step| step.request_id.clone()).unwrap_or_default(),
        outcome,
        reason,
        rule: handled.and_then(|step| step.text("rule")),
        action: handled.and_then(|step| step.text("action")),
        received_at: steps.first().map_or(0, |step| step.at),
    };
    (row, deliveries)
}

/// How a message ended, and why: its deliveries say it, else its handling, else its dropping. What went wrong in its
/// handling stays the reason where its deliveries give none (an apology that arrived).
fn conclude(
    handled: Option<&Step>,
    expired: Option<&Step>,
    owner: Option<&Step>,
    deliveries: &[DeliveryRow],
) -> (Outcome, Option<String>) {
    let handling = handled.and_then(|step| step.text("reason"));
    if let Some(queued) = deliveries.iter().find(|delivery| delivery.state == Outcome::Queued) {
        return (Outcome::Queued, queued.reason.clone().or(handling));
    }
    // The order of `Outcome` is from good to bad; what was sent again speaks by its resend.
    if let Some(worst) = deliveries.iter().max_by_key(|delivery| delivery.state) {
        return (worst.state, worst.reason.clone().or(handling));
    }
    if let Some(step) = handled {
        return (step.outcome().unwrap_or(Outcome::Queued), handling);
    }
    if let Some(step) = expired {
        return (step.outcome().unwrap_or(Outcome::Dropped), step.text("reason"));
    }
    let only_copies = owner.is_none_or(|step| step.stage == Stage::Duplicate);
    (if only_copies { Outcome::Duplicate } else { Outcome::Queued }, None)
}

/// The deliveries that steps speak of. What was settled never goes back to `queued`, and an operator has the last word.
fn deliveries(steps: &[&Step]) -> Vec<DeliveryRow> {
    let mut rows = BTreeMap::new();
    for step in steps {
        match step.stage {
            Stage::Handled | Stage::Answered | Stage::Pushed => {
                for id in queued(step) {
                    rows.entry(id.clone()).or_insert_with(|| DeliveryRow::queued(id, step));
                }
            }
            Stage::Settled => {
                let Some((id, state)) = left_its_lane(step) else { continue };
                let row = rows.entry(id.clone()).or_insert_with(|| DeliveryRow::queued(id, step));
                // Also where the store's clock went back in between.
                if state == Outcome::Queued && row.state != state {
                    continue;
                }
                row.state = state;
                row.reason = step.text("reason");
                row.errcode = step.detail.get("errcode").and_then(Value::as_i64);
                row.at = step.at;
                row.care = Care::of(step, state);
                (row.msgid, row.left_out) = (step.text("msgid"), step.text("left_out"));
            }
            Stage::Accepted
            | Stage::Duplicate
            | Stage::Expired
            | Stage::Retried
            | Stage::Compensated
            | Stage::Operated
            | Stage::Exchanged
            | Stage::Forgotten
            | Stage::Changed => {}
        }
    }
    for step in steps.iter().filter(|step| step.stage == Stage::Operated) {
        operate(&mut rows, step);
    }
    let mut rows: Vec<DeliveryRow> = rows.into_values().collect();
    rows.iter_mut().for_each(|row| row.look_back(steps));
    rows
}

/// What an operator did to a delivery.
fn operate(rows: &mut BTreeMap<String, DeliveryRow>, step: &Step) {
    let Some((id, action)) = step.text("delivery").zip(step.text("action")) else { return };
    let Some(action) = ByHand::parse(&action) else { return };
    let state = match action {
        ByHand::Resend | ByHand::Repeat => Outcome::Resent,
        ByHand::Delivered | ByHand::Discard | ByHand::Expire => action.state(),
    };
    let reason = action.reason();
    if let Some(again) = step.text("resent_as") {
        rows.entry(again.clone()).or_insert_with(|| DeliveryRow::queued(again, step));
    }
    let row = rows.entry(id.clone()).or_insert_with(|| DeliveryRow::queued(id, step));
    (row.state, row.reason, row.errcode, row.at) = (state, reason.map(str::to_owned), None, step.at);
}

impl DeliveryRow {
    fn queued(id: String, step: &Step) -> Self {
        let request_id = step.request_id.clone();
        let (state, at) = (Outcome::Queued, step.at);
        Self { id, request_id, state, reason: None, errcode: None, at, care: None, msgid: None, left_out: None }
    }
}

/// Ids of the replies that a step queued.
fn queued(step: &Step) -> impl Iterator<Item = String> {
    let replies = step.detail.get("replies").and_then(Value::as_array);
    replies.into_iter().flatten().filter_map(|reply| Some(reply.get("id")?.as_str()?.to_owned()))
}

/// Which delivery left its lane by a step, and how: it ended, or is `queued` until WeCom tells who got it.
fn left_its_lane(step: &Step) -> Option<(String, Outcome)> {
    use Outcome::{Dead, Delivered, Dropped, Queued, Unknown};
    let state = Outcome::parse(&step.text("state")?)?;
    matches!(state, Queued | Delivered | Dropped | Dead | Unknown).then_some((step.text("delivery")?, state))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn step(at: i64, stage: Stage, request_id: &str, detail: Value) -> Step {
        Step { at, stage, request_id: request_id.into(), detail: detail.as_object().cloned().unwrap_or_default() }
    }

    fn handled(at: i64, replies: &[&str]) -> Step {
        let replies: Vec<_> = replies.iter().map(|id| json!({"id": id, "digest": "d"})).collect();
        let detail =
            json!({"rule": "query", "action": "http", "outcome": "queued", "reason": null, "replies": replies});
        step(at, Stage::Handled, "r1", detail)
    }

    fn settled(at: i64, id: &str, state: &str) -> Step {
        let detail = json!({"delivery": id, "state": state, "reason": format!("why {state}"), "errcode": 7});
        step(at, Stage::Settled, "r1", detail)
    }

    fn outcome(steps: &[Step]) -> (Outcome, Option<String>) {
        let (row, _) = fold(steps);
        (row.outcome, row.reason)
    }

    #[test]
    fn a_message_is_queued_until_its_last_delivery_ended_and_then_what_the_worst_became() {
        let accepted = step(1, Stage::Accepted, "r1", json!({}));
        let mut steps = vec![accepted, handled(2, &["r1.0", "r1.1", "r1.2", "r1.3"])];
        assert_eq!(outcome(&steps), (Outcome::Queued, None));
        let ends = [("r1.0", "dropped"), ("r1.1", "delivered"), ("r1.2", "dead")];
        steps.extend(ends.map(|(id, state)| settled(3, id, state)));
        assert_eq!(outcome(&steps), (Outcome::Queued, None));
        steps.push(settled(4, "r1.3", "delivered"));
        assert_eq!(outcome(&steps), (Outcome::Dead, Some("why dead".into())));
        steps.retain(|step| step.detail.get("state") != Some(&json!("dead")));
        steps.push(settled(5, "r1.2", "unknown"));
        assert_eq!(outcome(&steps), (Outcome::Unknown, Some("why unknown".into())));
    }

    #[test]
    fn neither_order_nor_repeats_change_the_rows() {
        let steps = vec![
            step(1, Stage::Accepted, "r1", json!({})),
            step(2, Stage::Accepted, "r2", json!({})),
            handled(3, &["r1.0", "r1.1"]),
            step(3, Stage::Duplicate, "r2", json!({})),
            step(4, Stage::Retried, "r1", json!({"delivery": "r1.0"})),
            settled(5, "r1.0", "delivered"),
            settled(6, "r1.1", "dropped"),
        ];
        let expected = fold(&steps);
        assert_eq!((expected.0.request_id.as_str(), expected.0.outcome), ("r1", Outcome::Dropped));
        for turn in 0..steps.len() {
            let mut other = steps.clone();
            other.rotate_left(turn);
            other.extend_from_slice(&steps[..turn]);
            assert_eq!(fold(&other), expected);
            other.reverse();
            assert_eq!(fold(&other), expected);
        }
    }

    #[test]
    fn copies_name_an_outcome_only_where_nothing_else_is_known() {
        let copy = step(9, Stage::Duplicate, "r9", json!({}));
        let accepted = step(1, Stage::Accepted, "r1", json!({}));
        assert_eq!(outcome(std::slice::from_ref(&copy)), (Outcome::Duplicate, None));
        assert_eq!(outcome(&[copy.clone(), accepted.clone()]), (Outcome::Queued, None));
        let expired = step(5, Stage::Expired, "r1", json!({"reason": "too_old"}));
        assert_eq!(outcome(&[copy, accepted.clone(), expired]), (Outcome::Dropped, Some("too_old".into())));
        let poison = step(5, Stage::Expired, "r1", json!({"outcome": "dead", "reason": "poison"}));
        assert_eq!(outcome(&[accepted, poison]), (Outcome::Dead, Some("poison".into())));
    }

    #[test]
    fn a_handling_without_replies_speaks_for_itself_until_a_late_answer() {
        let waiting = step(2, Stage::Handled, "r1", json!({"outcome": "waiting", "replies": []}));
        assert_eq!(outcome(std::slice::from_ref(&waiting)), (Outcome::Waiting, None));
        let answered = step(3, Stage::Answered, "r1", json!({"replies": [{"id": "r1.0"}]}));
        assert_eq!(outcome(&[waiting.clone(), answered.clone()]), (Outcome::Queued, None));
        assert_eq!(outcome(&[waiting, answered, settled(4, "r1.0", "delivered")]).0, Outcome::Delivered);
        let blocked = step(2, Stage::Handled, "r1", json!({"outcome": "blocked", "reason": "sensitive"}));
        assert_eq!(outcome(&[blocked]), (Outcome::Blocked, Some("sensitive".into())));
    }

    #[test]
    fn a_failed_action_stays_the_reason_of_its_delivered_apology() {
        let detail = json!({"outcome": "queued", "reason": "action_failed", "replies": [{"id": "r1.0"}]});
        let arrived = json!({"delivery": "r1.0", "state": "delivered"});
        let steps = [step(1, Stage::Handled, "r1", detail), step(2, Stage::Settled, "r1", arrived)];
        assert_eq!(outcome(&steps[..1]), (Outcome::Queued, Some("action_failed".into())));
        assert_eq!(outcome(&steps), (Outcome::Delivered, Some("action_failed".into())));
    }

    #[test]
    fn what_awaits_a_member_is_queued_and_says_why_until_it_ends() {
        let pushed = step(1, Stage::Pushed, "r1", json!({"replies": [{"id": "r1.0"}]}));
        let awaiting = |at| {
            step(at, Stage::Settled, "r1", json!({"delivery": "r1.0", "state": "queued", "reason": "awaiting_member"}))
        };
        let mut steps = vec![pushed, awaiting(2)];
        assert_eq!(outcome(&steps), (Outcome::Queued, Some("awaiting_member".into())));
        steps.push(settled(9, "r1.0", "delivered"));
        assert_eq!(outcome(&steps), (Outcome::Delivered, Some("why delivered".into())));
        // A clock that went back makes it wait no more.
        steps[1] = awaiting(20);
        assert_eq!(outcome(&steps).0, Outcome::Delivered);
    }

    #[test]
    fn an_operator_has_the_last_word() {
        let operated = |at, id: &str, action: &str, again: Option<&str>| {
            step(at, Stage::Operated, "r1", json!({"delivery": id, "action": action, "by": "ops", "resent_as": again}))
        };
        let life = [handled(2, &["r1.0"]), settled(3, "r1.0", "unknown")];
        let with = |more: Step| fold(life.iter().chain([&more]));
        assert_eq!(with(operated(9, "r1.0", "delivered", None)).0.outcome, Outcome::Delivered);
        // Also where the store's clock went back in between.
        let (row, deliveries) = with(operated(1, "r1.0", "discard", None));
        assert_eq!((row.outcome, row.reason.as_deref()), (Outcome::Dropped, Some("discarded")));
        assert_eq!((deliveries[0].state, deliveries[0].errcode), (Outcome::Dropped, None));

        let mut steps = [life.to_vec(), vec![operated(4, "r1.0", "resend", Some("r1.0.r1"))]].concat();
        let states = |steps: &[Step]| {
            let (row, deliveries) = fold(steps);
            (row.outcome, deliveries.iter().map(|delivery| delivery.state).collect::<Vec<_>>())
        };
        assert_eq!(states(&steps), (Outcome::Queued, vec![Outcome::Resent, Outcome::Queued]));
        steps.push(settled(5, "r1.0.r1", "unknown"));
        assert_eq!(states(&steps), (Outcome::Unknown, vec![Outcome::Resent, Outcome::Unknown]));
        steps.push(operated(6, "r1.0.r1", "resend", Some("r1.0.r2")));
        steps.push(settled(7, "r1.0.r2", "delivered"));
        assert_eq!(states(&steps), (Outcome::Delivered, vec![Outcome::Resent, Outcome::Resent, Outcome::Delivered]));
    }

    #[test]
    fn an_ended_delivery_carries_what_ended_it() {
        let (_, rows) = fold(&[settled(8, "r1.0", "dead"), handled(8, &["r1.0"])]);
        let expected = DeliveryRow {
            id: "r1.0".into(),
            request_id: "r1".into(),
            state: Outcome::Dead,
            reason: Some("why dead".into()),
            errcode: Some(7),
            at: 8,
            care: None,
            msgid: None,
            left_out: None,
        };
        assert_eq!(rows, [expected]);
        // The store's clock went back in between.
        assert_eq!(fold(&[settled(8, "r1.0", "dead"), handled(9, &["r1.0"])]).1, rows);
        let nonsense = step(9, Stage::Settled, "r1", json!({"delivery": 3, "state": "silent"}));
        assert_eq!(fold(&[nonsense]).1, []);
    }
}
