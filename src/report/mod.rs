//! The daily summary (`[report]`): what yesterday brought, told to an operators' group by a robot.
//!
//! What always holds: a day is told once, over all processes and through any crash. Whoever holds the note's lock reads the
//! statistics, writes down that the day is told, and only then posts; what certainly was not sent is taken back and tried again, a
//! few times, and what may have been sent is not. A gateway that was down at its time tells it when it is up, on the same day.

#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Date;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::settings::Webhook;
use crate::model::{Secret, new_id, now_ms};
use crate::records::{Records, RecordsError, Scope, Stats};
use crate::sender::channel::GroupRobot;
use crate::setup::InForce;
use crate::store::{Note, NoteWrite, SharedStore, StoreError};
use crate::telemetry::Health;
use crate::wecom::message;
use crate::wecom::verdict::{ChannelKind, Verdict, verdict};

/// The loop's name in `/livez`.
const LOOP: &str = "report";
/// How often it looks at the clock.
const LOOK: Duration = Duration::from_secs(5);
/// How long whoever prepares a summary has for it.
const PREPARING: Duration = Duration::from_secs(60);
/// How long the statistics may take: a stuck database must not look like a stuck loop.
const READING: Duration = Duration::from_secs(20);
/// How long it stands written that a day is told; on the day after that it is not asked for any more.
const TOLD: Duration = Duration::from_secs(3 * 24 * 60 * 60);
/// Between two tries of what was not sent.
const AGAIN: Duration = Duration::from_secs(60);
/// What certainly was not sent is tried so often in all.
const MOST_TRIES: u32 = 5;
/// Chats a page.
const PAGE: u32 = 1000;

/// Why a day was not told now.
#[derive(Debug, thiserror::Error)]
enum ReportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Records(#[from] RecordsError),
    #[error("the statistics did not come in time")]
    Slow,
}

/// What became of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Somebody told it, or nobody can know.
    Done,
    /// Another process is at it.
    Theirs,
    /// It certainly was not sent.
    Refused,
}

/// How far a process is with a day.
#[derive(Debug, Default)]
struct Progress {
    /// The day that needs no further look.
    done: Option<Date>,
    tries: u32,
    /// Nothing is tried before.
    not_before: Option<Instant>,
    is_away: bool,
}

impl Progress {
    fn is_open(&self, day: Date) -> bool {
        self.done != Some(day) && self.not_before.is_none_or(|at| Instant::now() >= at)
    }

    fn after(&mut self, day: Date, told: Result<Told, ReportError>) {
        let was_away = std::mem::replace(&mut self.is_away, told.is_err());
        match told {
            Ok(Told::Done) => *self = Self { done: Some(day), ..Self::default() },
            Ok(Told::Theirs) => {}
            Ok(Told::Refused) if self.tries + 1 < MOST_TRIES => {
                self.tries += 1;
                self.not_before = Some(Instant::now() + AGAIN);
            }
            Ok(Told::Refused) => {
                error!("the daily summary could not be sent; it is left out today");
                *self = Self { done: Some(day), ..Self::default() };
            }
            Err(reason) if !was_away => warn!(%reason, "the daily summary waits"),
            Err(_) => {}
        }
    }
}

/// See the module.
pub struct Reporter {
    store: SharedStore,
    records: Records,
    in_force: Arc<InForce>,
    client: reqwest::Client,
    health: Arc<Health>,
    owner: String,
}

impl Reporter {
    /// With the client by which robots are sent to.
    pub fn new(
        store: SharedStore,
        records: Records,
        in_force: Arc<InForce>,
        client: reqwest::Client,
        health: Arc<Health>,
    ) -> Self {
        let owner = new_id();
        Self { store, records, in_force, client, health, owner }
    }

    /// Tells each day until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        stop.run_until_cancelled(self.watch_the_clock()).await;
        self.health.done(LOOP);
    }

    async fn watch_the_clock(&self) {
        let (mut looks, mut progress) = (interval(LOOK), Progress::default());
        loop {
            looks.tick().await;
            self.health.tick(LOOP);
            let report = self.in_force.settings().report.clone();
            let now = self.records.zone().at(now_ms());
            let is_due = now.time() >= report.at && progress.is_open(now.date());
            if let Some(webhook) = report.webhook.filter(|_| is_due) {
                let told = self.tell(&webhook, now.date()).await;
                progress.after(now.date(), told);
            }
        }
    }

    /// Tells of the day before `today`, unless that is told.
    async fn tell(&self, webhook: &Webhook, today: Date) -> Result<Told, ReportError> {
        let Ok(yesterday) = today.yesterday() else { return Ok(Told::Done) };
        let note = Note::report(&yesterday.to_string(), webhook.digest.as_str());
        if self.store.read_notes(vec![note.clone()]).await?.into_iter().flatten().next().is_some() {
            return Ok(Told::Done);
        }
        if !self.store.lock_note(&note, &self.owner, PREPARING).await? {
            return Ok(Told::Theirs);
        }
        // Each step may wait for long; all of them together for longer than a loop may be silent.
        self.health.tick(LOOP);
        let stats = match timeout(READING, self.stats(yesterday)).await {
            Ok(Ok(stats)) => stats,
            failed => {
                self.store.unlock_note(&note, &self.owner).await?;
                failed.map_err(|_| ReportError::Slow)??
            }
        };
        self.health.tick(LOOP);
        let owner = Some(self.owner.clone());
        let told = NoteWrite { note: note.clone(), value: Secret::new(&self.owner), ttl: TOLD, owner };
        if !self.store.write_note(told).await? {
            return Ok(Told::Theirs);
        }
        self.health.tick(LOOP);
        let told = self.post(webhook, &text::summary(&stats, &self.in_force.settings())).await;
        if told == Told::Refused {
            self.store.drop_note(&note, Some(&Secret::new(&self.owner))).await?;
        }
        Ok(told)
    }

    /// The day's statistics, with all of its chats.
    async fn stats(&self, day: Date) -> Result<Stats, RecordsError> {
        let scope = Scope { day, app: None, chat: None };
        let mut stats = self.records.stats(&scope, None, PAGE).await?;
        while let Some(next) = stats.chats.next.take() {
            let page = self.records.stats(&scope, Some(&next), PAGE).await?.chats;
            stats.chats.items.extend(page.items);
            stats.chats.next = page.next;
        }
        Ok(stats)
    }

    async fn post(&self, webhook: &Webhook, text: &str) -> Told {
        let reply = GroupRobot::new(webhook.url.clone()).post(&self.client, &message::text(text)).await;
        let verdict = verdict(ChannelKind::GroupRobot, &reply);
        match verdict {
            Verdict::Delivered | Verdict::Partial => {
                info!("the daily summary was sent");
                Told::Done
            }
            Verdict::Paced(_) | Verdict::Transient | Verdict::NotTried => {
                warn!(verdict = verdict.as_str(), ?reply, "the daily summary was not sent; it is tried again");
                Told::Refused
            }
            Verdict::Token | Verdict::ChatGone | Verdict::Rejected | Verdict::Configuration | Verdict::Unknown => {
                error!(
                    verdict = verdict.as_str(),
                    ?reply,
                    "the daily summary could not be told to the robot of [report]"
                );
                Told::Done
            }
        }
    }
}
