//! What becomes of a delivery: from a verdict (or from the reason why nothing was sent) to its fate. Pure.
//!
//! What always holds:
//!
//! - Only [`Verdict::Transient`] and [`Verdict::Paced`], which certainly did not send, and a held lane lead to another try; an
//!   attempt without an answer does only while its channel knows a repeat, and what comes after it is `delivered` or unknown.
//! - Tries and refusals are bounded; a held lane is bounded by the delivery's age.
//! - A lane whose robot fails parks longer each time, so that a hanging robot can't hold the pool.

use std::time::Duration;

use crate::alarms::Kind;
use crate::model::{Delivery, Outcome, RouteDigest};
use crate::sender::hold::ASIDE;
use crate::sender::route::NoRoute;
use crate::store::{ClaimedReply, Fate, ParkReason};
use crate::task::{AWAITING_MEMBER, EXPIRED, PARTIAL, Recipient};
use crate::wecom::verdict::{ChannelKind, RATE_WINDOW, Verdict};

/// A delivery that certainly was not sent is tried so often in all.
const MAX_TRIES: u32 = 3;
/// A delivery is refused for pace so often, then dropped.
const MAX_REFUSALS: u32 = 3;
/// How long a lane waits before a fault of configuration is probed again.
const HELD: Duration = Duration::from_secs(60);
/// How long a lane waits, up to twice, where this machine could not even try.
const NOT_TRIED: Duration = Duration::from_secs(2);
/// First and longest wait of a failing lane.
const BACK_OFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// What was counted before this attempt.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Attempts of this delivery that failed without sending.
    pub attempts: u32,
    /// Refusals of this delivery for pace.
    pub refusals: u32,
    /// Failures of the lane in a row.
    pub failures: u32,
    /// Whether the far side would know the same bytes for a repeat now.
    pub may_repeat: bool,
    /// Whether it is for several, of whom some may get what others don't.
    pub for_several: bool,
    /// Whether a member has to confirm what WeCom took.
    pub awaits_member: bool,
}

impl Tally {
    /// Of a head, at this time.
    pub fn of(head: &ClaimedReply, now: i64) -> Self {
        let ClaimedReply { attempts, refusals, failures, .. } = *head;
        let may_repeat = head.delivery.repeat_until.is_some_and(|until| now < until);
        let to = head.delivery.push.as_ref().map(|push| &push.to);
        let for_several = to.is_some_and(Recipient::is_several);
        let awaits_member = to.is_some_and(Recipient::awaits_member);
        Self { attempts, refusals, failures, may_repeat, for_several, awaits_member }
    }
}

/// What becomes of a delivery and what is said of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// What the store does.
    pub fate: Fate,
    /// How the delivery ended; `None`: it is tried again.
    pub state: Option<Outcome>,
    /// Why, in one word; `None` where it was simply delivered.
    pub reason: Option<&'static str>,
    /// What somebody has to know of it.
    pub alarm: Option<Kind>,
}

impl Decision {
    /// An earlier attempt has no answer, and it can't be repeated (any more): it may have been sent (P7). Where nothing was
    /// to be repeated, it was a process that never settled it.
    pub fn left_open(delivery: &Delivery) -> Self {
        let reason = if delivery.repeat_until.is_some() { "no_answer" } else { "interrupted" };
        Self::ended(Outcome::Unknown, reason, None).alarming(Kind::Unknown)
    }

    /// An attempt before this one has no answer: only a delivery tells what became of it (P7). So the head stays begun while
    /// it is tried again, and any other end is `unknown`.
    pub fn after_unanswered(mut self) -> Self {
        if let Fate::Again { why, .. } = &mut self.fate {
            *why = ParkReason::Unanswered;
        }
        self.state = self.state.map(|state| if state == Outcome::Delivered { state } else { Outcome::Unknown });
        if self.state == Some(Outcome::Unknown) {
            self.alarm.get_or_insert(Kind::Unknown);
        }
        self
    }

    /// Its app is held as a whole, and the hold says when that is tried: the lane looks again as the app's others do.
    pub fn held_with_its_app(mut self) -> Self {
        if let Fate::Again { park, why: ParkReason::Held } = &mut self.fate {
            *park = ASIDE;
        }
        self
    }

    /// It stood in its lane for too long.
    pub fn too_old() -> Self {
        Self::ended(Outcome::Dropped, "too_old", None)
    }

    /// Its task says that it is too late.
    pub fn expired() -> Self {
        Self::ended(Outcome::Dropped, EXPIRED, None)
    }

    /// Its chat is dead by the route that it has now.
    pub fn chat_dead() -> Self {
        Self::ended(Outcome::Dropped, "chat_dead", None)
    }

    /// It has no way out (P2).
    pub fn no_route(why: NoRoute) -> Self {
        Self::ended(Outcome::Dropped, why.as_str(), None).alarming(Kind::NoRoute)
    }

    /// Whether the lane may go on with its next head at once.
    pub fn lane_goes_on(&self) -> bool {
        match self.fate {
            Fate::Delivered | Fate::Ended { back_off: None, .. } => true,
            Fate::Ended { back_off: Some(_), .. } | Fate::Again { .. } => false,
        }
    }

    fn ended(state: Outcome, reason: &'static str, back_off: Option<Duration>) -> Self {
        Self { fate: Fate::Ended { back_off, chat_dead: None }, state: Some(state), reason: Some(reason), alarm: None }
    }

    fn again(park: Duration, why: ParkReason, reason: &'static str) -> Self {
        Self { fate: Fate::Again { park, why }, state: None, reason: Some(reason), alarm: None }
    }

    fn alarming(self, kind: Kind) -> Self {
        Self { alarm: Some(kind), ..self }
    }
}

/// What becomes of a delivery that was sent by `route`. `jitter` is 0.0..1.0, so that lanes that failed together don't come
/// back together.
pub(super) fn decide(verdict: Verdict, tally: Tally, route: &RouteDigest, jitter: f64) -> Decision {
    match verdict {
        // It has left its lane, and who gets it WeCom tells later.
        Verdict::Delivered | Verdict::Partial if tally.awaits_member => {
            let (state, reason) = (Some(Outcome::Queued), Some(AWAITING_MEMBER));
            Decision { fate: Fate::Delivered, state, reason, alarm: None }
        }
        Verdict::Delivered => {
            Decision { fate: Fate::Delivered, state: Some(Outcome::Delivered), reason: None, alarm: None }
        }
        Verdict::Paced(window) if tally.refusals + 1 < MAX_REFUSALS => {
            Decision::again(window, ParkReason::Paced, "paced")
        }
        // The window is still closed: the next head must not run into it.
        Verdict::Paced(window) => Decision::ended(Outcome::Dropped, "paced", Some(window)).alarming(Kind::RateLimited),
        // The others have it, so it is never sent again.
        Verdict::Partial if tally.for_several => {
            Decision { fate: Fate::Delivered, state: Some(Outcome::Delivered), reason: Some(PARTIAL), alarm: None }
        }
        // The one that it was for has not.
        Verdict::Partial => Decision::ended(Outcome::Dead, PARTIAL, None),
        Verdict::Transient if tally.attempts + 1 < MAX_TRIES || tally.may_repeat => {
            let park = back_off(tally.attempts.max(tally.failures), jitter);
            Decision::again(park, ParkReason::Transient, "transient")
        }
        Verdict::Transient => {
            let park = back_off(tally.attempts.max(tally.failures), jitter);
            Decision::ended(Outcome::Dead, "transient", Some(park))
        }
        Verdict::Token => Decision::again(HELD, ParkReason::Held, "token").alarming(Kind::Held),
        Verdict::Configuration => Decision::again(HELD, ParkReason::Held, "configuration").alarming(Kind::Held),
        Verdict::NotTried => {
            let pause = NOT_TRIED.mul_f64(1.0 + jitter);
            Decision::again(pause, ParkReason::Held, "not_tried").alarming(Kind::NotTried)
        }
        Verdict::ChatGone => Decision {
            fate: Fate::Ended { back_off: None, chat_dead: Some(route.clone()) },
            ..Decision::ended(Outcome::Dead, "chat_gone", None).alarming(Kind::ChatDead)
        },
        Verdict::Rejected => Decision::ended(Outcome::Dead, "rejected", None),
        Verdict::Unknown if tally.may_repeat => {
            let park = back_off(tally.attempts.max(tally.failures), jitter);
            Decision::again(park, ParkReason::Unanswered, "no_answer")
        }
        Verdict::Unknown => {
            let park = back_off(tally.failures, jitter);
            Decision::ended(Outcome::Unknown, "no_answer", Some(park)).alarming(Kind::Unknown)
        }
    }
}

/// As [`decide`], for a request that carried so many deliveries; and how many of them, from the head on, the decision speaks of.
pub(super) fn decide_together(
    verdict: Verdict,
    tally: Tally,
    route: &RouteDigest,
    jitter: f64,
    carried: usize,
) -> (Decision, usize) {
    // Which of them was refused nobody knows.
    if verdict == Verdict::Rejected && carried > 1 {
        return (Decision::again(Duration::ZERO, ParkReason::Apart, "rejected_together"), carried);
    }
    let decision = decide(verdict, tally, route, jitter);
    // What certainly was not sent is given up for the head's own tries; those behind it have theirs before them.
    let is_heads_own = matches!(verdict, Verdict::Paced(_) | Verdict::Transient) && decision.state.is_some();
    (decision, if is_heads_own { 1 } else { carried })
}

/// What a verdict of the API says of the whole app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AppState {
    /// Nothing would get through: hold it.
    Held,
    /// WeCom takes its requests.
    Works,
    /// Nothing.
    Unsaid,
}

/// See [`AppState`]. A robot speaks for its own lane alone, and so do the others without a token. Customers have permissions and
/// limits of their own, which must not hold up what goes to members.
pub(super) fn app_state(channel: ChannelKind, verdict: Verdict) -> AppState {
    match verdict {
        _ if !channel.is_api() => AppState::Unsaid,
        Verdict::Configuration | Verdict::Paced(_) if channel == ChannelKind::CustomerTask => AppState::Unsaid,
        Verdict::Configuration | Verdict::Token => AppState::Held,
        // 45009: of the API. 45033, which passes at once, is the lane's own affair.
        Verdict::Paced(window) if window >= RATE_WINDOW => AppState::Held,
        Verdict::Delivered | Verdict::Partial | Verdict::Rejected | Verdict::ChatGone => AppState::Works,
        Verdict::Paced(_) | Verdict::Transient | Verdict::NotTried | Verdict::Unknown => AppState::Unsaid,
    }
}

/// 1, 2, 4 … 60 s after so many failures before, and up to a quarter more.
fn back_off(failures: u32, jitter: f64) -> Duration {
    let (first, longest) = BACK_OFF;
    let plain = first.saturating_mul(2_u32.saturating_pow(failures)).min(longest);
    plain.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn route() -> RouteDigest {
        RouteDigest::of("group_robot", "A")
    }

    fn tally(attempts: u32, refusals: u32, failures: u32) -> Tally {
        Tally { attempts, refusals, failures, ..Tally::default() }
    }

    fn ended(back_off: Option<u64>) -> Fate {
        Fate::Ended { back_off: back_off.map(Duration::from_secs), chat_dead: None }
    }

    fn again(park: u64, why: ParkReason) -> Fate {
        Fate::Again { park: Duration::from_secs(park), why }
    }

    #[test]
    fn every_verdict_has_its_fate() {
        use Outcome::{Dead, Delivered, Dropped, Unknown};
        use ParkReason::{Held, Paced, Transient};
        let gone = Fate::Ended { back_off: None, chat_dead: Some(route()) };
        type Row = (Verdict, Tally, Fate, Option<Outcome>, Option<&'static str>, Option<Kind>);
        let rows: Vec<Row> = vec![
            (Verdict::Delivered, tally(2, 2, 9), Fate::Delivered, Some(Delivered), None, None),
            (Verdict::Paced(MINUTE), tally(0, 0, 0), again(60, Paced), None, Some("paced"), None),
            (Verdict::Paced(MINUTE), tally(0, 1, 0), again(60, Paced), None, Some("paced"), None),
            (
                Verdict::Paced(MINUTE),
                tally(0, 2, 0),
                ended(Some(60)),
                Some(Dropped),
                Some("paced"),
                Some(Kind::RateLimited),
            ),
            (Verdict::Transient, tally(0, 0, 0), again(1, Transient), None, Some("transient"), None),
            (Verdict::Transient, tally(1, 0, 0), again(2, Transient), None, Some("transient"), None),
            (Verdict::Transient, tally(2, 0, 0), ended(Some(4)), Some(Dead), Some("transient"), None),
            // A lane that failed before starts where it stood, not at one second.
            (Verdict::Transient, tally(0, 0, 3), again(8, Transient), None, Some("transient"), None),
            (Verdict::Token, tally(2, 2, 0), again(60, Held), None, Some("token"), Some(Kind::Held)),
            (Verdict::Configuration, tally(2, 2, 0), again(60, Held), None, Some("configuration"), Some(Kind::Held)),
            (Verdict::NotTried, tally(2, 2, 0), again(2, Held), None, Some("not_tried"), Some(Kind::NotTried)),
            (Verdict::ChatGone, tally(0, 0, 0), gone, Some(Dead), Some("chat_gone"), Some(Kind::ChatDead)),
            (Verdict::Rejected, tally(0, 0, 5), ended(None), Some(Dead), Some("rejected"), None),
            (Verdict::Partial, tally(0, 0, 0), ended(None), Some(Dead), Some("partial"), None),
            (Verdict::Unknown, tally(0, 0, 0), ended(Some(1)), Some(Unknown), Some("no_answer"), Some(Kind::Unknown)),
            (Verdict::Unknown, tally(2, 0, 2), ended(Some(4)), Some(Unknown), Some("no_answer"), Some(Kind::Unknown)),
            (Verdict::Unknown, tally(0, 0, 6), ended(Some(60)), Some(Unknown), Some("no_answer"), Some(Kind::Unknown)),
            (
                Verdict::Unknown,
                tally(0, 0, u32::MAX),
                ended(Some(60)),
                Some(Unknown),
                Some("no_answer"),
                Some(Kind::Unknown),
            ),
        ];
        for (verdict, tally, fate, state, reason, alarm) in rows {
            let got = decide(verdict, tally, &route(), 0.0);
            assert_eq!(got, Decision { fate, state, reason, alarm }, "{verdict:?} after {tally:?}");
        }
    }

    #[test]
    fn one_verdict_is_for_all_that_a_request_carried_unless_they_may_still_be_sent() {
        let rows = [
            (Verdict::Delivered, 0, 3),
            (Verdict::Unknown, 0, 3),
            (Verdict::ChatGone, 0, 3),
            (Verdict::Paced(MINUTE), 0, 3),
            (Verdict::Paced(MINUTE), 2, 1),
            (Verdict::Transient, 0, 3),
            (Verdict::Transient, 2, 1),
        ];
        for (verdict, before, spoken_of) in rows {
            let tally = tally(before, before, 0);
            let together = decide_together(verdict, tally, &route(), 0.0, 3);
            assert_eq!(together, (decide(verdict, tally, &route(), 0.0), spoken_of), "{verdict:?}");
        }
        let (decision, spoken_of) = decide_together(Verdict::Rejected, Tally::default(), &route(), 0.0, 3);
        assert_eq!((decision.fate, decision.state, spoken_of), (again(0, ParkReason::Apart), None, 3));
        let (decision, _) = decide_together(Verdict::Rejected, Tally::default(), &route(), 0.0, 1);
        assert_eq!(decision.state, Some(Outcome::Dead));
    }

    #[test]
    fn what_the_far_side_knows_is_repeated_and_nothing_else() {
        let after = |verdict, attempts, may_repeat| {
            decide(verdict, Tally { may_repeat, ..tally(attempts, 0, attempts) }, &route(), 0.0)
        };
        for (attempts, wait) in [(0, 1), (1, 2), (2, 4), (3, 8), (9, 60)] {
            let decision = after(Verdict::Unknown, attempts, true);
            assert_eq!(decision.fate, again(wait, ParkReason::Unanswered));
            assert_eq!((decision.state, decision.reason), (None, Some("no_answer")));
            // It is not given up for having failed three times either.
            assert_eq!(after(Verdict::Transient, attempts, true).state, None);
        }
        assert_eq!(after(Verdict::Unknown, 0, false).state, Some(Outcome::Unknown));
    }

    #[test]
    fn what_a_member_has_to_confirm_leaves_its_lane_and_is_not_delivered_yet() {
        let decided = |verdict| decide(verdict, Tally { awaits_member: true, ..Tally::default() }, &route(), 0.0);
        for taken in [Verdict::Delivered, Verdict::Partial] {
            let decision = decided(taken);
            assert_eq!((decision.state, decision.reason), (Some(Outcome::Queued), Some(AWAITING_MEMBER)));
            assert_eq!((decision.fate, decision.alarm), (Fate::Delivered, None));
        }
        assert_eq!(decided(Verdict::Unknown).state, Some(Outcome::Unknown), "a repeat would be a second message");
    }

    #[test]
    fn after_an_attempt_without_an_answer_only_a_delivery_tells() {
        let after = |verdict, tally| decide(verdict, tally, &route(), 0.0).after_unanswered();
        assert_eq!(after(Verdict::Delivered, tally(1, 0, 1)).state, Some(Outcome::Delivered));
        let ends = [
            (Verdict::Rejected, Kind::Unknown),
            (Verdict::Partial, Kind::Unknown),
            (Verdict::ChatGone, Kind::ChatDead),
            (Verdict::Unknown, Kind::Unknown),
        ];
        for (verdict, alarm) in ends {
            let decision = after(verdict, tally(1, 0, 1));
            assert_eq!((decision.state, decision.alarm), (Some(Outcome::Unknown), Some(alarm)), "{verdict:?}");
        }
        for (verdict, tally) in [(Verdict::Transient, tally(2, 0, 2)), (Verdict::Paced(MINUTE), tally(0, 2, 0))] {
            assert_eq!(after(verdict, tally).state, Some(Outcome::Unknown), "{verdict:?}");
        }
        for verdict in [Verdict::Configuration, Verdict::NotTried, Verdict::Token, Verdict::Paced(MINUTE)] {
            let decision = after(verdict, tally(1, 0, 1));
            assert!(matches!(decision.fate, Fate::Again { why: ParkReason::Unanswered, .. }), "{decision:?}");
        }
        for decision in [Decision::too_old(), Decision::chat_dead(), Decision::no_route(NoRoute::Missing)] {
            assert_eq!(decision.after_unanswered().state, Some(Outcome::Unknown));
        }
    }

    #[test]
    fn whom_a_set_leaves_out_does_not_undo_what_the_others_got() {
        let one = decide(Verdict::Partial, Tally::default(), &route(), 0.0);
        assert_eq!((one.state, one.reason), (Some(Outcome::Dead), Some("partial")));
        let several = Tally { for_several: true, ..Tally::default() };
        let set = decide(Verdict::Partial, several, &route(), 0.0);
        assert_eq!((&set.fate, set.state, set.reason), (&Fate::Delivered, Some(Outcome::Delivered), Some("partial")));
        assert_eq!(set.after_unanswered().state, Some(Outcome::Delivered));
    }

    #[test]
    fn only_the_api_speaks_for_the_whole_app() {
        use AppState::{Held, Unsaid, Works};
        let rows = [
            (Verdict::Configuration, Held),
            (Verdict::Token, Held),
            (Verdict::Paced(MINUTE), Held),
            (Verdict::Paced(Duration::from_secs(3)), Unsaid),
            (Verdict::Delivered, Works),
            (Verdict::Partial, Works),
            (Verdict::Rejected, Works),
            (Verdict::ChatGone, Works),
            (Verdict::Transient, Unsaid),
            (Verdict::NotTried, Unsaid),
            (Verdict::Unknown, Unsaid),
        ];
        for (verdict, expected) in rows {
            for channel in [ChannelKind::AppMessage, ChannelKind::AppChat] {
                assert_eq!(app_state(channel, verdict), expected, "{channel:?} {verdict:?}");
            }
            // Customers have permissions and limits of their own.
            let is_theirs = matches!(verdict, Verdict::Configuration | Verdict::Paced(_));
            let of_customers = if is_theirs { Unsaid } else { expected };
            assert_eq!(app_state(ChannelKind::CustomerTask, verdict), of_customers, "{verdict:?}");
            for channel in [ChannelKind::GroupRobot, ChannelKind::ResponseUrl, ChannelKind::JsonGateway] {
                assert_eq!(app_state(channel, verdict), Unsaid, "{channel:?} {verdict:?}");
            }
        }
    }

    #[test]
    fn a_lane_of_a_held_app_looks_again_as_the_others_do() {
        let decided = |verdict| decide(verdict, Tally::default(), &route(), 0.0);
        for verdict in [Verdict::Configuration, Verdict::Token] {
            let expected = Fate::Again { park: ASIDE, why: ParkReason::Held };
            assert_eq!(decided(verdict).held_with_its_app().fate, expected, "{verdict:?}");
        }
        for verdict in [Verdict::Paced(MINUTE), Verdict::Delivered, Verdict::Rejected] {
            assert_eq!(decided(verdict).held_with_its_app(), decided(verdict), "{verdict:?}");
        }
    }

    #[test]
    fn jitter_adds_a_quarter_at_most() {
        assert_eq!(back_off(2, 0.0), Duration::from_secs(4));
        assert_eq!(back_off(2, 1.0), Duration::from_secs(5));
        assert_eq!(back_off(2, 0.5), Duration::from_millis(4500));
    }

    #[test]
    fn a_lane_goes_on_unless_it_must_wait() {
        for decision in [Decision::too_old(), Decision::chat_dead(), Decision::no_route(NoRoute::Missing)] {
            assert!(decision.lane_goes_on(), "{decision:?}");
        }
        let goes_on = |verdict| decide(verdict, Tally::default(), &route(), 0.0).lane_goes_on();
        for verdict in [Verdict::Delivered, Verdict::Rejected, Verdict::ChatGone] {
            assert!(goes_on(verdict), "{verdict:?}");
        }
        for verdict in [
            Verdict::Unknown,
            Verdict::Transient,
            Verdict::Paced(MINUTE),
            Verdict::Token,
            Verdict::Configuration,
            Verdict::NotTried,
        ] {
            assert!(!goes_on(verdict), "{verdict:?}");
        }
    }
}
