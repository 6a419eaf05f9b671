//! What the fake WeCom does with a send: taken, refused, slow, broken or cut.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

/// How the fake is set up.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How long a webhook takes to answer, where no behaviour says otherwise.
    pub latency: Duration,
    /// Refuse (45009) and record what is above this rate, per robot; exact, over any window.
    pub rate: Option<Rate>,
    /// What robots without a script of their own do now and then.
    pub mix: Option<Mix>,
    /// How long action calls take that no script names; `None`: no time.
    pub work: Option<WorkTime>,
    /// Checks the signature of action requests.
    pub action_secret: Option<String>,
    /// Don't keep replies and action calls: a long load needs only the ledger.
    pub forget: bool,
}

/// At most `limit` sends within any `window`.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Sends.
    pub limit: usize,
    /// Span.
    pub window: Duration,
}

/// Behaviours drawn from a seeded generator.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Same seed, same draws.
    pub seed: u64,
    /// Chance and behaviour; what is left over is the ordinary answer.
    pub of: Vec<(f64, Behaviour)>,
}

/// What a robot does with one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// Waits so long before it answers; `None`: the fake's latency.
    pub delay: Option<Duration>,
    /// The answer.
    pub answer: Answer,
}

/// The answer to one send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Taken, errcode 0.
    Taken,
    /// Taken, errcode 0, with these in one of the lists of those who don't get it, such as `invaliduser`.
    LeavesOut(&'static str, String),
    /// Refused with an errcode.
    Errcode(i64),
    /// An HTTP status without a body that means anything.
    Status(u16),
    /// A proxy's page, status 200.
    Html,
    /// Taken, and the connection dropped without an answer.
    Cut,
}

impl From<Answer> for Behaviour {
    fn from(answer: Answer) -> Self {
        Self { delay: None, answer }
    }
}

impl Answer {
    /// This answer after `delay`.
    pub fn after(self, delay: Duration) -> Behaviour {
        Behaviour { delay: Some(delay), answer: self }
    }
    /// Why the send does not arrive; `None` where it does.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Taken | Self::LeavesOut(..) | Self::Cut => None,
            Self::Errcode(code) => Some(Refusal::of(*code)),
            // Whether a gateway tries again after these is its own affair.
            Self::Status(_) | Self::Html => Some(Refusal::ForNow),
        }
    }
}

/// How final it is that a send was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// The same send may be taken later: too fast, system busy.
    ForNow,
    /// The content is refused.
    ForGood,
    /// The robot is gone, and with it every send to its chat.
    ChatGone,
}

impl Refusal {
    /// Source: developer.work.weixin.qq.com/document/path/90313.
    pub fn of(errcode: i64) -> Self {
        match errcode {
            -1 | 6000 | 45009 | 45033 => Self::ForNow,
            93000 | 93008 | 40050 | 86001 | 86003 | 86008 | 49008 | 90501 | 90509 => Self::ChatGone,
            _ => Self::ForGood,
        }
    }
}

/// How long the team's service works on a call: drawn for each message from a seeded generator, so that one message takes
/// equally long however often and by whomever it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkTime {
    /// Same seed, same times.
    pub seed: u64,
    /// The shortest.
    pub from: Duration,
    /// The longest.
    pub to: Duration,
}

impl WorkTime {
    /// For the message of this serial.
    pub fn of(&self, serial: u64) -> Duration {
        let mut rng = StdRng::seed_from_u64(self.seed.rotate_left(32) ^ serial);
        self.from + self.to.saturating_sub(self.from).mul_f64(rng.random())
    }
}

/// A barrier that can be held shut, so that a test decides when what waits behind it goes on. Clones are one barrier.
#[derive(Clone, Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Gate {
    /// Shuts it.
    pub fn hold(&self) {
        self.0.send_replace(true);
    }
    /// Opens it.
    pub fn release(&self) {
        self.0.send_replace(false);
    }
    /// Waits while it is shut.
    pub async fn pass(&self) {
        // Fails only without a sender, and this is one.
        let _ = self.0.subscribe().wait_for(|held| !held).await;
    }
}
