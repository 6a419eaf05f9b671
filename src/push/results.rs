//! What WeCom tells of a task for customers, and what follows from it (`get_groupmsg_task`, `get_groupmsg_send_result`;
//! developer.work.weixin.qq.com/document/path/93338). Pure.
//!
//! What always holds: who got it stays so, whatever is told later; a delivery ends once each of its recipients has.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

use crate::model::Outcome;
use crate::task::{PARTIAL, PushState, RecipientState, Who};

/// Why a recipient of what nobody confirmed in time is unknown, and so the whole.
pub(super) const NOT_CONFIRMED: &str = "not_confirmed";
/// Why a delivery is dead that reached nobody, for one reason here and another there.
const NOBODY: &str = "reached_nobody";

/// The members who have sent something of a task, by a page of `task_list`. `status`: 0 not sent, 1 confirmed, 2 sent.
pub(super) fn senders(page: &Value) -> Vec<String> {
    let list = page["task_list"].as_array().into_iter().flatten();
    let sent = list.filter(|one| one["status"].as_i64() != Some(0));
    sent.filter_map(|one| Some(one["userid"].as_str()?.to_owned())).collect()
}

/// What a page of `send_list` tells.
pub(super) fn told(page: &Value) -> Vec<RecipientState> {
    page["send_list"].as_array().into_iter().flatten().filter_map(one_told).collect()
}

/// `status`: 0 not sent (nothing to tell), 1 sent, 2 no friend any more, 3 had a message of others'.
fn one_told(one: &Value) -> Option<RecipientState> {
    let text = |name: &str| one[name].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
    let who = text("external_userid").map(Who::Customer).or_else(|| text("chat_id").map(Who::Chat))?;
    let (state, reason) = match one["status"].as_i64()? {
        1 => (Outcome::Delivered, None),
        2 => (Outcome::Dead, Some("no_friend")),
        3 => (Outcome::Dead, Some("over_limit")),
        _ => return None,
    };
    let at = one["send_time"].as_i64().filter(|_| state == Outcome::Delivered);
    let at = at.map(|seconds| seconds.saturating_mul(1000));
    Some(RecipientState { who, state, reason: reason.map(str::to_owned), at })
}

/// The state once this is told too. `late` says that nothing more will be.
pub(super) fn advance(state: &PushState, told: Vec<RecipientState>, late: bool) -> PushState {
    let mut next = state.clone();
    let mut news: HashMap<Who, RecipientState> = HashMap::new();
    for one in told {
        // A customer of several members gets it of one.
        let known = news.get(&one.who).is_some_and(|known| known.state == Outcome::Delivered);
        if !known {
            news.insert(one.who.clone(), one);
        }
    }
    for recipient in next.recipients.iter_mut().filter(|one| one.state != Outcome::Delivered) {
        if let Some(news) = news.remove(&recipient.who) {
            *recipient = news;
        } else if late && recipient.state == Outcome::Queued {
            (recipient.state, recipient.reason) = (Outcome::Unknown, Some(NOT_CONFIRMED.to_owned()));
        }
    }
    if let Some((state, reason)) = conclude(&next.recipients) {
        (next.state, next.reason) = (state, reason.map(str::to_owned));
    } else if late {
        (next.state, next.reason) = (Outcome::Unknown, Some(NOT_CONFIRMED.to_owned()));
    }
    next
}

/// How a delivery ended, once each of its recipients has; why, where not all got it.
fn conclude(recipients: &[RecipientState]) -> Option<(Outcome, Option<&str>)> {
    let first = recipients.first()?;
    let has = |state| recipients.iter().any(|one| one.state == state);
    match () {
        () if has(Outcome::Queued) => None,
        () if has(Outcome::Unknown) => Some((Outcome::Unknown, Some(NOT_CONFIRMED))),
        () if has(Outcome::Delivered) => Some((Outcome::Delivered, has(Outcome::Dead).then_some(PARTIAL))),
        () => {
            let same = recipients.iter().all(|one| one.reason == first.reason);
            Some((Outcome::Dead, first.reason.as_deref().filter(|_| same).or(Some(NOBODY))))
        }
    }
}

/// How many recipients are in which state, for trails.
pub(super) fn counts(recipients: &[RecipientState]) -> Map<String, Value> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    recipients.iter().for_each(|one| *counts.entry(one.state.as_str()).or_default() += 1);
    counts.into_iter().map(|(state, count)| (state.to_owned(), count.into())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::task::AWAITING_MEMBER;

    fn awaiting(ids: &[&str]) -> PushState {
        let recipients = ids.iter().map(|id| RecipientState::queued(Who::Customer((*id).to_owned()))).collect();
        PushState { recipients, ..PushState::because(Outcome::Queued, AWAITING_MEMBER) }
    }

    fn page(rows: &[(&str, i64)]) -> Vec<RecipientState> {
        let rows: Vec<Value> = rows
            .iter()
            .map(|(id, status)| json!({"external_userid": id, "userid": "z", "status": status, "send_time": 7}))
            .collect();
        told(&json!({"send_list": rows}))
    }

    fn word(state: &PushState) -> (Outcome, Option<&str>) {
        (state.state, state.reason.as_deref())
    }

    #[test]
    fn a_delivery_ends_once_each_recipient_has() {
        use Outcome::{Dead, Delivered, Queued};
        type Row<'a> = (&'a [(&'a str, i64)], Outcome, Option<&'a str>);
        let rows: [Row; 6] = [
            (&[("a", 1)], Queued, Some(AWAITING_MEMBER)),
            (&[("a", 1), ("b", 0)], Queued, Some(AWAITING_MEMBER)),
            (&[("a", 1), ("b", 1)], Delivered, None),
            (&[("a", 1), ("b", 3)], Delivered, Some("partial")),
            (&[("a", 2), ("b", 2)], Dead, Some("no_friend")),
            (&[("a", 2), ("b", 3)], Dead, Some("reached_nobody")),
        ];
        for (rows, state, reason) in rows {
            let next = advance(&awaiting(&["a", "b"]), page(rows), false);
            assert_eq!(word(&next), (state, reason), "{rows:?}");
        }
        let next = advance(&awaiting(&["a", "b"]), page(&[("a", 1), ("x", 1)]), false);
        assert_eq!((next.recipients[0].at, next.recipients[1].at), (Some(7000), None));
        assert_eq!(next.recipients.len(), 2, "whom it was not for is no recipient");
    }

    #[test]
    fn who_got_it_stays_so() {
        let once = advance(&awaiting(&["a", "b"]), page(&[("a", 1)]), false);
        let again = advance(&once, page(&[("a", 2), ("b", 1)]), false);
        assert_eq!(word(&again), (Outcome::Delivered, None));
        // Two members have the customer, and one of them could not.
        for rows in [[("a", 1), ("a", 2)], [("a", 2), ("a", 1)]] {
            assert_eq!(word(&advance(&awaiting(&["a"]), page(&rows), false)), (Outcome::Delivered, None));
        }
    }

    #[test]
    fn what_nobody_confirmed_in_time_is_unknown() {
        let late = advance(&awaiting(&["a", "b"]), page(&[("a", 1)]), true);
        assert_eq!(word(&late), (Outcome::Unknown, Some(NOT_CONFIRMED)));
        let states: Vec<Outcome> = late.recipients.iter().map(|one| one.state).collect();
        assert_eq!(states, [Outcome::Delivered, Outcome::Unknown]);
        assert_eq!(word(&advance(&awaiting(&["a"]), page(&[("a", 1)]), true)), (Outcome::Delivered, None));
        assert_eq!(word(&advance(&awaiting(&[]), vec![], true)), (Outcome::Unknown, Some(NOT_CONFIRMED)));
    }

    #[test]
    fn groups_are_told_by_their_chat_and_only_senders_who_sent_are_asked_about() {
        let rows = told(&json!({"send_list": [{"chat_id": "wr1", "userid": "z", "status": 1}, {"status": 1}]}));
        assert_eq!(rows.iter().map(|one| &one.who).collect::<Vec<_>>(), [&Who::Chat("wr1".into())]);
        let tasks = json!({"task_list": [{"userid": "a", "status": 0}, {"userid": "b", "status": 2}, {"status": 2}]});
        assert_eq!(senders(&tasks), ["b"]);
    }
}
