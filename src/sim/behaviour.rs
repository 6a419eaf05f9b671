//! What the fake WeCom does with a send: taken, refused, slow, broken or cut.

use std::time::Duration;

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
    /// Whether the send counts as arrived.
    pub fn is_arrival(&self) -> bool {
        matches!(self, Self::Taken | Self::Cut)
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
