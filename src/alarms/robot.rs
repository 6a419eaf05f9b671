//! The robot that tells alarms to a group.
//!
//! What always holds: it is sent to less than 20 times a minute, by all processes together while the store can say so; what
//! waits meanwhile leaves as one text; and a text that may have arrived is not sent again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::error;

use super::notifier::{MOST_WAITING, PATIENCE};
use super::{Due, text};
use crate::config::settings::Webhook;
use crate::sender::channel::GroupRobot;
use crate::store::{Note, SharedStore};
use crate::telemetry::Metrics;
use crate::wecom::message;
use crate::wecom::verdict::{ChannelKind, Verdict, verdict};

/// Between two texts: 20 a minute are allowed, and the way to WeCom is not always equally long.
const GAP: Duration = Duration::from_millis(3200);
/// How often another process may have the turn before this one; then the store is not heeded.
const MOST_TURNS: usize = 20;
/// What certainly was not sent is tried so often in all.
const MOST_TRIES: u32 = 3;
/// How long it waits before it tries again what could not be sent.
const AGAIN: Duration = Duration::from_secs(10);

/// What became of a text.
enum Posted {
    Told,
    /// It certainly was not sent; in so long it may be.
    Refused(Duration),
    /// It is refused for good, or may have been sent.
    Lost,
}

pub(super) struct Robot {
    robot: GroupRobot,
    client: reqwest::Client,
    store: SharedStore,
    turn: Note,
    host: String,
    metrics: Arc<Metrics>,
    queue: mpsc::Sender<Due>,
    queued: Mutex<mpsc::Receiver<Due>>,
}

impl Robot {
    pub fn new(
        webhook: &Webhook,
        client: reqwest::Client,
        store: SharedStore,
        host: &str,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (queue, queued) = mpsc::channel(MOST_WAITING);
        let robot = GroupRobot::new(webhook.url.clone());
        let turn = Note::alarm_robot(webhook.digest.as_str());
        Self { robot, client, store, turn, host: host.to_owned(), metrics, queue, queued: queued.into() }
    }

    /// Takes an alarm, if there is room for it.
    pub fn offer(&self, due: &Due) {
        if self.queue.try_send(due.clone()).is_err() {
            self.metrics.alarms_lost("robot", 1);
        }
    }

    /// How many nobody has taken up.
    pub fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Sends what is offered, for ever.
    pub async fn run(&self) {
        let mut queued = self.queued.lock().await;
        let (mut waiting, mut tries, mut free) = (VecDeque::new(), 0, Instant::now());
        loop {
            if waiting.is_empty() {
                waiting.extend(queued.recv().await);
            }
            sleep_until(free).await;
            self.take_turn().await;
            while waiting.len() < MOST_WAITING
                && let Ok(due) = queued.try_recv()
            {
                waiting.push_back(due);
            }
            let (text, taken) = text::merged(&waiting, &self.host);
            free = Instant::now() + GAP;
            match self.post(&text).await {
                Posted::Refused(pause) if tries + 1 < MOST_TRIES => {
                    tries += 1;
                    free = Instant::now() + pause;
                    continue;
                }
                Posted::Told => {}
                Posted::Refused(_) | Posted::Lost => self.metrics.alarms_lost("robot", taken),
            }
            waiting.drain(..taken);
            tries = 0;
        }
    }

    /// Waits until no other process has just sent by the same robot.
    async fn take_turn(&self) {
        for _ in 0..MOST_TURNS {
            match timeout(PATIENCE, self.store.lock_note(&self.turn, "turn", GAP)).await {
                Ok(Ok(false)) => sleep(GAP.mul_f64(rand::random_range(0.2..0.6))).await,
                Ok(Ok(true) | Err(_)) | Err(_) => return,
            }
        }
    }

    async fn post(&self, text: &str) -> Posted {
        let reply = self.robot.post(&self.client, &message::text(text)).await;
        let verdict = verdict(ChannelKind::GroupRobot, &reply);
        let posted = match verdict {
            Verdict::Delivered | Verdict::Partial => return Posted::Told,
            Verdict::Paced(window) => Posted::Refused(window),
            Verdict::Transient | Verdict::NotTried => Posted::Refused(AGAIN),
            Verdict::Token | Verdict::ChatGone | Verdict::Rejected | Verdict::Configuration | Verdict::Unknown => {
                Posted::Lost
            }
        };
        error!(verdict = verdict.as_str(), ?reply, "alarms could not be told to the robot of [alarms]");
        posted
    }
}
