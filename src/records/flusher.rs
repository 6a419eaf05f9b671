//! The flusher: carries journal lines into the records, then trims them, and forgets what is too old.
//!
//! A crash between the write and the trim makes it write the same lines again, which changes nothing. Several may run
//! on one store. When the journal or SQL cannot be reached it says so once, waits, and tries again for ever.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::trail::Recorded;
use super::{Copies, Records, RecordsError, thinning};
use crate::alarms::{Alarm, Alarms, Kind};
use crate::config::settings::Database;
use crate::crash::{self, Point};
use crate::model::{millis, now_ms, since};
use crate::rush::Rush;
use crate::store::{SharedStore, StoreError};
use crate::telemetry::{Health, Metrics, Telemetry};

/// Its name among the loops.
const NAME: &str = "flusher";
/// Lines read at once, of each shard.
const BATCH: usize = 2_000;
/// Between two looks while lines come.
const BUSY: Duration = Duration::from_millis(100);
/// Between two looks while none come: what happened is visible within half a second.
const IDLE: Duration = Duration::from_millis(250);
/// Between two rounds in a rush: what happened is visible a little later then.
const IN_RUSH: Duration = Duration::from_secs(1);
/// The longest wait after failures.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(5);
/// Somebody has to know of an outage that lasts so long.
const ALARMING: Duration = Duration::from_secs(10);
/// How long it goes on after it was told to stop: what is left stays in the journal.
const LAST_FLUSH: Duration = Duration::from_millis(1500);
/// Between two looks for old messages.
const PRUNE_EVERY: Duration = Duration::from_secs(60);
/// Messages (and exchanges) forgotten in one transaction: few, so that flushes wait little for it.
const PRUNE_STEP: u32 = 500;

/// Why a round came to nothing.
#[derive(Debug, thiserror::Error)]
enum FlushError {
    #[error(transparent)]
    Journal(#[from] StoreError),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// What a round found in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Some,
    /// As much as was asked for: there is more. The oldest of it waited so long.
    More(Duration),
}

/// Carries the journal into the records. One per gateway process.
pub struct Flusher {
    store: SharedStore,
    records: Records,
    copies: Arc<Copies>,
    rush: Arc<Rush>,
    retain: Duration,
    stats_retain: Duration,
    journal_limit: u64,
    alarms: Alarms,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
}

/// How long to wait between rounds.
#[derive(Debug, Default)]
struct Rhythm {
    /// Since when rounds fail, and how long the next wait is.
    outage: Option<(Instant, Duration)>,
}

impl Flusher {
    /// From `store` to `records`, together with what this process counts in `copies`; what was received longer than `retain`
    /// ago is forgotten, and while the records are away no more than `journal_limit` lines wait.
    pub fn new(
        store: SharedStore,
        records: Records,
        copies: Arc<Copies>,
        rush: Arc<Rush>,
        database: &Database,
        telemetry: Telemetry,
    ) -> Self {
        let Database { retain, stats_retain, journal_limit, .. } = *database;
        let Telemetry { alarms, metrics, health, .. } = telemetry;
        Self { store, records, copies, rush, retain, stats_retain, journal_limit, alarms, metrics, health }
    }

    /// Runs until `stop`, then writes what is still there, for a moment at most.
    pub async fn run(&self, stop: CancellationToken) {
        let (mut rhythm, mut next_prune) = (Rhythm::default(), Instant::now());
        while !stop.is_cancelled() {
            self.health.tick(NAME);
            let round = self.round(&mut next_prune).await;
            let waited = if let Ok(Found::More(waited)) = round { waited } else { Duration::ZERO };
            let records_away = matches!(round, Err(FlushError::Records(_)));
            let mut pause = rhythm.after(round);
            if self.rush.goes_before(waited) {
                pause = pause.max(IN_RUSH);
            }
            if records_away {
                self.thin().await;
                if rhythm.is_long() {
                    self.alarms.raise(Alarm::of_process(Kind::RecordsAway, ""));
                }
            }
            stop.run_until_cancelled(sleep(pause)).await;
        }
        match timeout(LAST_FLUSH, self.drain()).await {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => warn!(%reason, "the journal keeps its last lines for the next start"),
            Err(_) => warn!(reason = "no time left", "the journal keeps its last lines for the next start"),
        }
        self.health.done(NAME);
    }

    async fn round(&self, next_prune: &mut Instant) -> Result<Found, FlushError> {
        let found = self.flush().await?;
        self.health.tick(NAME);
        if Instant::now() >= *next_prune && self.prune().await? {
            *next_prune = Instant::now() + PRUNE_EVERY;
        }
        Ok(found)
    }

    /// Reads, writes, trims: once.
    async fn flush(&self) -> Result<Found, FlushError> {
        let batches = self.store.read_journal(BATCH).await.inspect_err(|_| self.metrics.store_error("read_journal"))?;
        let read: usize = batches.iter().map(|batch| batch.lines.len()).sum();
        let copies = self.copies.batch();
        if read == 0 && copies.is_none() {
            return Ok(Found::Nothing);
        }
        let raw = batches.iter().flat_map(|batch| &batch.lines);
        let lines: Vec<Recorded> = raw.filter_map(|line| Recorded::parse(line)).collect();
        let (recorded, unreadable) = (lines.len(), read - lines.len());
        let waited = lines.iter().map(|line| line.step.at).min().map_or(Duration::ZERO, since);
        if unreadable > 0 {
            warn!(unreadable, "passed over journal lines that can't be read");
        }
        self.records.write_with(lines, copies.as_deref()).await?;
        crash::point(Point::Recorded);
        self.copies.written();
        for batch in &batches {
            self.store.trim_journal(batch).await.inspect_err(|_| self.metrics.store_error("trim_journal"))?;
        }
        self.metrics.journal(recorded, unreadable);
        Ok(if batches.iter().any(|batch| batch.count >= BATCH) { Found::More(waited) } else { Found::Some })
    }

    async fn drain(&self) -> Result<(), FlushError> {
        while self.flush().await? != Found::Nothing {}
        Ok(())
    }

    /// Gives up what is too much to wait for the records.
    async fn thin(&self) {
        match thinning::thin(&self.store, self.journal_limit, || self.health.tick(NAME)).await {
            Ok(0) => {}
            Ok(lines) => {
                self.metrics.given_up(lines);
                warn!(lines, "journal lines given up: too many wait for the records (database.journal_limit)");
            }
            Err(error) => {
                self.metrics.store_error("rotate_journal");
                debug!(%error, "the journal could not be shortened");
            }
        }
    }

    /// Forgets a few messages, and a day's statistics; answers whether no old one is left.
    async fn prune(&self) -> Result<bool, FlushError> {
        let before = |retain: Duration| now_ms().saturating_sub(millis(retain));
        let more_messages = self.records.prune(before(self.retain), PRUNE_STEP).await?;
        self.health.tick(NAME);
        let more_days = self.records.prune_stats(before(self.stats_retain)).await?;
        Ok(!more_messages && !more_days)
    }
}

impl Rhythm {
    /// How long to wait after a round. An outage is logged once when it begins and once when it is over.
    fn after(&mut self, round: Result<Found, FlushError>) -> Duration {
        let found = match round {
            Ok(found) => found,
            Err(reason) => return self.failed(&reason),
        };
        if let Some((since, _)) = self.outage.take() {
            info!(seconds = since.elapsed().as_secs(), "the journal flows into the records again");
        }
        match found {
            Found::Nothing => IDLE,
            Found::Some => BUSY,
            Found::More(_) => Duration::ZERO,
        }
    }

    /// Whether rounds have failed for so long that somebody has to know.
    fn is_long(&self) -> bool {
        self.outage.is_some_and(|(since, _)| since.elapsed() >= ALARMING)
    }

    fn failed(&mut self, reason: &FlushError) -> Duration {
        let (since, pause) = self.outage.unwrap_or_else(|| {
            warn!(%reason, "the journal waits for the records");
            (Instant::now(), IDLE)
        });
        self.outage = Some((since, (pause * 2).min(LONGEST_BACK_OFF)));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_more_often_while_lines_come_and_less_and_less_while_rounds_fail() {
        let mut rhythm = Rhythm::default();
        assert_eq!(rhythm.after(Ok(Found::More(Duration::ZERO))), Duration::ZERO);
        assert_eq!(rhythm.after(Ok(Found::Some)), BUSY);
        assert_eq!(rhythm.after(Ok(Found::Nothing)), IDLE);
        let failed = || Err(FlushError::Records(RecordsError::Cursor));
        let pauses: Vec<_> = (0..7).map(|_| rhythm.after(failed()).as_millis()).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 5000, 5000]);
        assert!(!rhythm.is_long());
        rhythm.outage = Instant::now().checked_sub(ALARMING).map(|since| (since, IDLE));
        assert!(rhythm.is_long());
        assert_eq!(rhythm.after(Ok(Found::Some)), BUSY);
        assert_eq!(rhythm.after(failed()), IDLE, "a new outage begins anew");
    }
}
