//! The desk: takes tasks and puts their deliveries into the lanes, each once, in order, as many at once as can be.
//!
//! A task is opened at the store's barrier, its deliveries are queued in pages from where it stopped before, and its
//! cursor follows. So whatever dies in between, the same tasks again go on from there. A page holds deliveries of several tasks where
//! they are small: a batch of single chats is one page.
//!
//! A full lane holds up what follows for its own chat alone: the rest of the batch goes on around it. What was refused for it is
//! tried again when its task comes again.

use std::sync::Arc;
use std::time::Duration;

use tracing::debug;

use super::delivery::{Maker, known_for, request_id};
use super::read::Reader;
use super::round::{Place, Round};
use super::task::{Task, TaskFault};
use crate::alarms::{Alarm, Kind};
use crate::crash::{self, Point};
use crate::model::{Lane, now_ms};
use crate::setup::{InForce, Setup};
use crate::store::{NewPush, Pushed, SharedStore, StoreError, TaskOpening};
use crate::task::EXPIRED;
use crate::telemetry::{Span, SpanOf, Telemetry};

/// Where a task came from, for its trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `POST /api/v1/push`.
    Http {
        /// Whose token it came with, by name.
        by: String,
    },
    /// A record of a topic.
    Kafka {
        /// Which topic.
        topic: String,
        /// Which of its partitions.
        partition: i32,
        /// Where in it.
        offset: i64,
    },
}

impl Source {
    /// As trails show it: `http`, `kafka:<topic>/<partition>/<offset>`.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Http { .. } => "http".to_owned(),
            Self::Kafka { topic, partition, offset } => format!("kafka:{topic}/{partition}/{offset}"),
        }
    }

    /// Who handed it over, where the way names anybody: who writes a topic its brokers know.
    pub(super) fn by(&self) -> Option<&str> {
        match self {
            Self::Http { by } => Some(by),
            Self::Kafka { .. } => None,
        }
    }

    /// Its word in metrics.
    fn word(&self) -> &'static str {
        match self {
            Self::Http { .. } => "http",
            Self::Kafka { .. } => "kafka",
        }
    }
}

/// What became of a task that was handed over.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// Every delivery stands in its lane, or has ended: an offset may be committed.
    Owned,
    /// As [`Taken::Owned`], and it was so before.
    Repeat,
    /// Another content is known under this id.
    Refused(TaskFault),
    /// A lane or the store is full, and some of it is not taken. The same task later goes on where it stopped.
    Full,
}

impl Taken {
    /// Its word in metrics and logs.
    fn word(&self) -> &'static str {
        match self {
            Self::Owned => "taken",
            Self::Repeat => "repeat",
            Self::Refused(_) => "refused",
            Self::Full => "full",
        }
    }
}

/// Reads tasks and takes them. One a gateway.
pub struct Desk {
    store: SharedStore,
    in_force: Arc<InForce>,
    telemetry: Telemetry,
}

impl Desk {
    /// A desk over this store.
    pub fn new(store: SharedStore, in_force: Arc<InForce>, telemetry: Telemetry) -> Self {
        Self { store, in_force, telemetry }
    }

    /// Reads one task, and holds it against its app and the channels of its targets as they are now. Nothing is asked of the store.
    ///
    /// # Errors
    /// [`TaskFault`]: the field and the mend. The same bytes are refused again, until the configuration changes.
    pub fn read(&self, json: &[u8]) -> Result<Task, TaskFault> {
        let setup = self.in_force.now();
        Reader { settings: &setup.settings, routes: &setup.routes, now: now_ms() }.read(json)
    }

    /// Hands tasks to their lanes, in their order: those of one chat keep it. An answer for each task.
    ///
    /// # Errors
    /// The store's. Some of it may be done by then; the same call again goes on.
    pub async fn take(&self, mut tasks: Vec<(Task, Source)>) -> Result<Vec<Taken>, StoreError> {
        let setup = self.in_force.now();
        let mut spans = self.spans(&mut tasks);
        let openings = tasks.iter().map(|(task, _)| opening(task, &setup)).collect();
        let opened = self.store.pushes().open_tasks(openings).await?;
        crash::point(Point::Opened);
        let mut round = Round::new(&tasks, &opened);
        while let Some(page) = round.page(&maker(&setup)) {
            let lanes: Vec<(Place, Lane)> = page.iter().map(|(place, push)| (*place, push.lane.clone())).collect();
            let pushes: Vec<NewPush> = page.into_iter().map(|(_, push)| push).collect();
            let dropped: Vec<Option<Alarm>> = pushes.iter().map(alarm).collect();
            let pushed = self.store.pushes().queue_pushes(pushes).await?;
            crash::point(Point::Paged);
            for (alarm, _) in dropped.into_iter().zip(&pushed).filter(|(_, pushed)| **pushed == Pushed::Queued) {
                alarm.into_iter().for_each(|alarm| self.telemetry.alarms.raise(alarm));
            }
            let progress = round.note(lanes, &pushed);
            if !progress.is_empty() {
                self.store.pushes().advance_tasks(progress).await?;
                crash::point(Point::Advanced);
            }
        }
        let taken = round.taken();
        spans.iter_mut().zip(&taken).for_each(|(span, taken)| span.tell("result", taken.word()));
        for ((task, source), taken) in tasks.iter().zip(&taken) {
            self.telemetry.metrics.task(source.word(), taken.word());
            debug!(
                task_id = task.id,
                app = task.app,
                source = source.told(),
                by = source.by(),
                taken = taken.word(),
                "a task came"
            );
        }
        Ok(taken)
    }

    /// A span for each task, which its deliveries come after; where nothing is traced, none, and nothing that they would carry.
    fn spans(&self, tasks: &mut [(Task, Source)]) -> Vec<Span> {
        if !self.telemetry.spans.is_on() {
            tasks.iter_mut().for_each(|(task, _)| task.trace = None);
            return Vec::new();
        }
        let begin = |(task, source): &mut (Task, Source)| {
            let mut span = self.telemetry.spans.root(SpanOf::Push, task.trace, Duration::ZERO);
            span.tell("task_id", &task.id);
            span.tell("request_id", &request_id(&task.id));
            span.tell("app", &task.app);
            span.tell("source", source.word());
            span.tell("deliveries", task.total());
            task.trace = span.context();
            span
        };
        tasks.iter_mut().map(begin).collect()
    }
}

fn maker(setup: &Setup) -> Maker<'_> {
    Maker { settings: &setup.settings, routes: &setup.routes, now: now_ms() }
}

fn opening(task: &Task, setup: &Setup) -> TaskOpening {
    TaskOpening {
        task_id: task.id.clone(),
        app: task.app.clone(),
        digest: task.digest.clone(),
        total: task.total() as u64,
        keep: known_for(&setup.settings),
    }
}

/// What somebody has to know of a delivery that ended before it began: that it has no way out.
fn alarm(push: &NewPush) -> Option<Alarm> {
    let reason = push.fate.as_ref().err()?.reason.as_deref().filter(|reason| *reason != EXPIRED)?;
    let (app, chat) = push.lane.app_and_chat();
    Some(Alarm::of_chat(Kind::NoRoute, &app, &chat, reason))
}
