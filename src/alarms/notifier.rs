//! The loop behind [`Alarms`]: which alarms go out, and to whom.
//!
//! What all processes mean alike is told by the one that finds no mark of its window in the store; with the store away each
//! tells it: better twice than not at all. What is still on its way at a stop is left to the log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::hook::Hook;
use super::robot::Robot;
use super::windows::{Raised, Windows};
use super::{Alarm, Alarms, Due};
use crate::config::settings;
use crate::store::{Note, SharedStore};
use crate::telemetry::{Health, Metrics};

/// The loop's name in `/livez`.
const LOOP: &str = "alarms";
/// Alarms looked at together.
const BATCH: usize = 64;
/// How often windows are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the store has to say whether another process told of it.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);
/// Alarms that wait for one way out, at most.
pub(super) const MOST_WAITING: usize = 256;

/// What alarms go out by.
#[derive(Clone)]
pub struct Clients {
    /// For the robot: as robots of chats are sent to.
    pub robots: reqwest::Client,
    /// For the hook: as `http` actions are asked.
    pub actions: reqwest::Client,
}

/// See the module.
pub struct Notifier {
    store: SharedStore,
    window: Duration,
    raised: tokio::sync::Mutex<mpsc::Receiver<Alarm>>,
    windows: Mutex<Windows>,
    robot: Option<Robot>,
    hook: Option<Hook>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

impl Notifier {
    /// With the end at which alarms are raised; `None` where the configuration names nobody to be told.
    pub fn new(
        settings: &settings::Alarms,
        store: SharedStore,
        clients: Clients,
        metrics: Arc<Metrics>,
        health: Arc<Health>,
    ) -> (Alarms, Option<Self>) {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let robot = settings.webhook.as_ref();
        let robot = robot.map(|webhook| Robot::new(webhook, clients.robots, store.clone(), &host, metrics.clone()));
        let hook = settings.hook.clone().map(|hook| Hook::new(hook, clients.actions, &host, metrics.clone()));
        if robot.is_none() && hook.is_none() {
            return (Alarms::unheard(metrics), None);
        }
        let (alarms, raised) = Alarms::heard(metrics.clone());
        let (raised, windows) = (raised.into(), Windows::new(settings.window).into());
        (alarms, Some(Self { store, window: settings.window, raised, windows, robot, hook, metrics, health }))
    }

    /// Tells until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let robot = async {
            if let Some(robot) = &self.robot {
                robot.run().await;
            }
        };
        let hook = async {
            if let Some(hook) = &self.hook {
                hook.run().await;
            }
        };
        let all = async { tokio::join!(self.sort(), robot, hook) };
        stop.run_until_cancelled(all).await;
        let left = self.robot.as_ref().map_or(0, Robot::waiting) + self.hook.as_ref().map_or(0, Hook::waiting);
        if left > 0 {
            info!(left, "alarms that were not told before the stop; the log has them");
        }
        self.health.done(LOOP);
    }

    async fn sort(&self) {
        let mut raised = self.raised.lock().await;
        let mut looks = interval(LOOK.min(self.window));
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let due = tokio::select! {
                _ = raised.recv_many(&mut batch, BATCH), if !raised.is_closed() || !raised.is_empty() => {
                    batch.drain(..).filter_map(|alarm| self.sift(alarm)).collect()
                }
                _ = looks.tick() => {
                    self.health.tick(LOOP);
                    self.windows().over(Instant::now())
                }
            };
            self.tell(due).await;
        }
    }

    /// What goes now of an alarm that was raised.
    fn sift(&self, alarm: Alarm) -> Option<Due> {
        match self.windows().raise(alarm, Instant::now()) {
            Raised::Goes(due) => Some(due),
            Raised::Held => None,
            Raised::NoRoom => {
                self.metrics.alarms_lost("windows", 1);
                None
            }
        }
    }

    async fn tell(&self, due: Vec<Due>) {
        let ours = join_all(due.iter().map(|due| self.is_ours(due))).await;
        for (due, is_ours) in due.into_iter().zip(ours) {
            if is_ours {
                let Due { alarm, count } = &due;
                warn!(kind = alarm.kind.as_str(), subject = alarm.subject(), detail = alarm.detail, count, "alarm");
                self.robot.iter().for_each(|robot| robot.offer(&due));
                self.hook.iter().for_each(|hook| hook.offer(&due));
            } else {
                self.windows().hold_back(&due);
            }
        }
    }

    /// Whether no other process tells of it in this window.
    async fn is_ours(&self, Due { alarm, .. }: &Due) -> bool {
        if !alarm.kind.is_shared() {
            return true;
        }
        let note = Note::alarm(alarm.kind.as_str(), &alarm.subject());
        match timeout(PATIENCE, self.store.lock_note(&note, LOOP, self.window)).await {
            Ok(Ok(is_ours)) => is_ours,
            Ok(Err(_)) | Err(_) => true,
        }
    }

    fn windows(&self) -> MutexGuard<'_, Windows> {
        // At worst a count is off.
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
