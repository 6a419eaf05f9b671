//! The compensator: looks after pushes that ended `unknown`, until something tells what became of them or a person is called.
//!
//! They are rows of the records, and each look is one process's ([`Records::hold_unknown`]). A look asks whoever may know from
//! outside ([`Witness`]), sends the same bytes again where the far side knows the repeat, and else waits, longer each time; in the end
//! it calls a person, and the delivery stays `unknown`. What always holds:
//!
//! - Whatever it does is done once for each delivery, in the store ([`Hands`]): a word from outside that comes at the same moment, another
//!   process, or a death in the middle make no second message.
//! - Without a witness nothing is sent again that the far side would not know for a repeat; the sender looks once more right before it writes.
//! - Looks are bounded in number, those at its repeats counted too, and each stands in the trail.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::alarms::{Alarm, Kind};
use crate::crash::{self, Point};
use crate::hands::{Hand, HandError, Hands};
use crate::model::{Delivery, Outcome, first_id, millis, now_ms};
use crate::records::{EndedDelivery, Held, Records, RecordsError};
use crate::setup::InForce;
use crate::store::{ByHand, Line, Stage};
use crate::telemetry::Telemetry;

/// Its name among the loops.
const NAME: &str = "compensator";
/// Between two rounds that found little.
const PAUSE: Duration = Duration::from_millis(500);
/// Rows held at once.
const AT_ONCE: u32 = 16;
/// How long they are: where their holder dies, somebody else looks after that.
const HOLD: Duration = Duration::from_secs(60);
/// How long a witness has.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest wait between two looks, unless the first is longer.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Somebody outside who may know whether a delivery arrived.
#[async_trait]
pub trait Witness: Send + Sync {
    /// What it knows of this one now. It is asked again at each look.
    async fn ask(&self, delivery: &Delivery) -> Heard;
}

/// What a [`Witness`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It arrived.
    Arrived,
    /// It certainly did not.
    Missed,
    /// Nothing, of this delivery or for now.
    Nothing,
}

/// What a look came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// It arrived.
    Confirm,
    /// It did not arrive: it is sent again.
    Resend,
    /// The same bytes are sent again.
    Repeat,
    /// Nothing can be done yet.
    Wait,
    /// A person is called.
    GiveUp,
}

/// What is known of a delivery at a look.
#[derive(Clone, Copy, Debug)]
struct Sight {
    /// The how manieth look it is.
    looks: u32,
    heard: Heard,
    /// Whether it was sent again before because it did not arrive.
    was_missed: bool,
    /// Whether the far side knows the same bytes now.
    may_repeat: bool,
}

/// What to do; `most` looks in all.
fn decide(sight: Sight, most: u32) -> Act {
    match sight.heard {
        Heard::Arrived => Act::Confirm,
        Heard::Missed if !sight.was_missed && sight.looks <= most => Act::Resend,
        Heard::Missed | Heard::Nothing if sight.may_repeat && sight.looks <= most => Act::Repeat,
        Heard::Missed | Heard::Nothing if sight.looks < most => Act::Wait,
        Heard::Missed | Heard::Nothing => Act::GiveUp,
    }
}

/// How long to wait after the `looks`-th look: twice the first wait, then twice as long each time, and up to a quarter more, so that what
/// ended together is not looked at together for ever.
fn back_off(looks: u32, first: Duration, jitter: f64) -> Duration {
    let plain = first.saturating_mul(2_u32.saturating_pow(looks)).min(LONGEST.max(first));
    plain.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 4.0)
}

/// Looks after pushes that ended `unknown`. One a gateway.
pub struct Compensator {
    records: Records,
    hands: Arc<Hands>,
    in_force: Arc<InForce>,
    witnesses: Vec<Arc<dyn Witness>>,
    telemetry: Telemetry,
}

impl Compensator {
    /// Over these records; `witnesses` are asked in their order, until one knows.
    pub fn new(
        records: Records,
        hands: Arc<Hands>,
        in_force: Arc<InForce>,
        witnesses: Vec<Arc<dyn Witness>>,
        telemetry: Telemetry,
    ) -> Self {
        Self { records, hands, in_force, witnesses, telemetry }
    }

    /// Looks until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            self.telemetry.health.tick(NAME);
            let pause = match self.round(&stop).await {
                Ok(looks) if looks == AT_ONCE as usize => Duration::ZERO,
                Ok(_) => PAUSE,
                Err(error) => {
                    // Whose outage it is, the flusher and the other loops tell.
                    debug!(%error, "unknown pushes could not be looked at");
                    PAUSE
                }
            };
            stop.run_until_cancelled(sleep(pause)).await;
        }
        self.telemetry.health.done(NAME);
    }

    /// Looks at what is due; how many that was.
    async fn round(&self, stop: &CancellationToken) -> Result<usize, RecordsError> {
        let unknowns = self.records.unknown_pushes().await?;
        self.telemetry.metrics.unknown_pushes(unknowns.looked_after, unknowns.for_a_person);
        let now = now_ms();
        if unknowns.due.is_none_or(|due| due > now) {
            return Ok(0);
        }
        let first = self.in_force.settings().push.compensate_after;
        self.telemetry.health.tick(NAME);
        let held = self.records.hold_unknown(now, first, HOLD, AT_ONCE).await?;
        for held in held.iter().take_while(|_| !stop.is_cancelled()) {
            crash::point(Point::Looking);
            // Too late, it is somebody else's.
            if now_ms() < held.until {
                self.look(held).await?;
            }
        }
        Ok(held.len())
    }

    /// Looks at one.
    async fn look(&self, held: &Held) -> Result<(), RecordsError> {
        self.telemetry.health.tick(NAME);
        let Some(known) = self.records.delivery(&held.delivery).await? else { return Ok(()) };
        if known.operated || known.item.state != Outcome::Unknown.as_str() {
            return Ok(());
        }
        let push = self.in_force.settings().push.clone();
        let (looks, now) = (held.looks.saturating_add(1), now_ms());
        let sight = Sight {
            looks,
            heard: self.ask(known.content.as_ref()).await,
            was_missed: first_id(&held.delivery) != held.delivery && held.repeat_until.is_none(),
            may_repeat: held.repeat_until.is_some_and(|until| now < until),
        };
        let wait = back_off(looks, push.compensate_after, rand::random());
        let next_at = now.saturating_add(millis(wait));
        let look = Look { held, known, looks, next_at };
        let mut act = decide(sight, push.compensate_looks);
        if let Some(by_hand) = act.by_hand() {
            if self.ends(&look, act, by_hand).await? {
                return Ok(());
            }
            act = decide(Sight { heard: Heard::Nothing, may_repeat: false, ..sight }, push.compensate_looks);
        }
        self.conclude(&look, act).await
    }

    /// Ends the delivery; `false` where it can't be sent again. Its row goes with the journal line of whoever ended it.
    async fn ends(&self, look: &Look<'_>, act: Act, by_hand: ByHand) -> Result<bool, RecordsError> {
        let delivery = &look.held.delivery;
        match self.hands.end_known(look.known.clone(), by_hand, Hand::Compensator, look.told()).await {
            Ok(_) => self.says(look, act),
            Err(HandError::SettledAlready) => {}
            // The same look again, once the row is free.
            Err(error @ (HandError::Store(_) | HandError::LaneFull)) => {
                warn!(delivery, %error, "an unknown push could not be settled; it is looked at again");
            }
            Err(HandError::Records(error)) => return Err(error),
            Err(
                error @ (HandError::UnknownDelivery
                | HandError::NotOpen(_)
                | HandError::NotKept(_)
                | HandError::UnknownApp
                | HandError::Expired),
            ) => {
                debug!(delivery, %error, "an unknown push can't be sent again");
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What the witnesses know.
    async fn ask(&self, delivery: Option<&Delivery>) -> Heard {
        let Some(delivery) = delivery else { return Heard::Nothing };
        for witness in &self.witnesses {
            match timeout(PATIENCE, witness.ask(delivery)).await {
                Ok(Heard::Nothing) | Err(_) => {}
                Ok(heard) => return heard,
            }
        }
        Heard::Nothing
    }

    /// Lets a row go that nothing could be done about.
    async fn conclude(&self, look: &Look<'_>, act: Act) -> Result<(), RecordsError> {
        if act == Act::GiveUp {
            let EndedDelivery { item, key, .. } = &look.known;
            let detail = format!("{} ({})", key.task_id().unwrap_or_default(), item.id);
            // Before it is written: a death in between calls twice, not never.
            self.telemetry.alarms.raise(Alarm::of_chat(Kind::PushUnknown, &item.app, &item.chat, &detail));
        }
        self.telemetry.health.tick(NAME);
        self.records.looked(look.held, now_ms(), &look.line(act)).await?;
        self.says(look, act);
        Ok(())
    }

    fn says(&self, look: &Look<'_>, act: Act) {
        let (what, item) = (act.as_str(), &look.known.item);
        self.telemetry.metrics.compensated(what);
        let (task_id, app, chat, id) = (look.known.key.task_id(), &item.app, &item.chat, &item.id);
        info!(task_id, app, chat, delivery = id, looks = look.looks, what, "an unknown push was looked at");
    }
}

/// One look at one delivery.
struct Look<'h> {
    held: &'h Held,
    known: EndedDelivery,
    looks: u32,
    /// When the next one is due, Unix ms.
    next_at: i64,
}

impl Look<'_> {
    /// What the trail says of it, whatever comes of it.
    fn told(&self) -> Map<String, Value> {
        json!({"looks": self.looks, "next_at": self.next_at}).as_object().cloned().unwrap_or_default()
    }

    /// Its line where nothing could be done.
    fn line(&self, act: Act) -> Line {
        let mut detail = self.told();
        if act == Act::GiveUp {
            detail.remove("next_at");
        }
        let whose = json!({"delivery": self.known.item.id, "action": act.as_str(), "by": Hand::Compensator.by()});
        detail.extend(whose.as_object().cloned().unwrap_or_default());
        let EndedDelivery { item, key, .. } = &self.known;
        Line { stage: Stage::Compensated, request_id: item.request_id.clone(), key: key.clone(), detail }
    }
}

impl Act {
    /// Its word in metrics, logs and trails.
    fn as_str(self) -> &'static str {
        match self {
            Self::Confirm => "confirmed",
            Self::Resend => "resent",
            Self::Repeat => "repeated",
            Self::Wait => "waits",
            Self::GiveUp => "gave_up",
        }
    }

    /// How it ends the delivery.
    fn by_hand(self) -> Option<ByHand> {
        match self {
            Self::Confirm => Some(ByHand::Delivered),
            Self::Resend => Some(ByHand::Resend),
            Self::Repeat => Some(ByHand::Repeat),
            Self::Wait | Self::GiveUp => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_does_what_is_safe_and_in_the_end_calls_a_person() {
        use Heard::{Arrived, Missed, Nothing};
        // looks, heard, was missed before, may repeat
        let rows = [
            (1, Arrived, false, true, Act::Confirm),
            (9, Arrived, true, false, Act::Confirm),
            (1, Missed, false, true, Act::Resend),
            (1, Missed, true, false, Act::Wait),
            (3, Missed, true, false, Act::GiveUp),
            (4, Missed, false, false, Act::GiveUp),
            (1, Nothing, false, true, Act::Repeat),
            (3, Nothing, false, true, Act::Repeat),
            // Its last repeat is unknown as well.
            (4, Nothing, false, true, Act::GiveUp),
            (1, Nothing, false, false, Act::Wait),
            (2, Nothing, false, false, Act::Wait),
            (3, Nothing, false, false, Act::GiveUp),
        ];
        for (looks, heard, was_missed, may_repeat, act) in rows {
            let sight = Sight { looks, heard, was_missed, may_repeat };
            assert_eq!(decide(sight, 3), act, "{sight:?}");
        }
    }

    #[test]
    fn looks_come_twice_as_late_each_time_up_to_an_hour() {
        let minutes = |looks| back_off(looks, Duration::from_secs(60), 0.0).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 60].map(minutes), [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(back_off(0, Duration::from_secs(7200), 1.0), Duration::from_secs(9000));
    }
}
