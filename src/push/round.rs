//! One walk over a batch of tasks: which deliveries come next, and how far each task is then. Pure.
//!
//! What always holds: deliveries come in the order of their tasks and numbers; a task's cursor stands behind the first
//! delivery that is not owned; once a lane was full, nothing more of this walk goes into it, so nothing gets in front of what was refused.

use std::collections::HashSet;

use super::delivery::Maker;
use super::desk::{Source, Taken};
use super::task::{Task, TaskFault};
use crate::model::Lane;
use crate::store::{NewPush, Opened, Pushed, TaskProgress};

/// Deliveries that are queued by one call: others must get their turn at the store …
const PAGE: usize = 64;
/// … and about the most bytes of them.
const PAGE_BYTES: usize = 4 << 20;

/// The walk.
pub(super) struct Round<'t> {
    walks: Vec<Walk<'t>>,
    /// The task that is walked now.
    at: usize,
    /// Lanes that were full.
    full: HashSet<Lane>,
    /// The store was.
    is_over: bool,
}

/// How far one task is.
struct Walk<'t> {
    task: &'t Task,
    source: &'t Source,
    opened: Opened,
    /// Looked at up to here.
    next: usize,
    /// Owned without a gap up to here.
    cursor: usize,
    has_gap: bool,
}

/// Which delivery: the place of its task in the batch, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    task: usize,
    number: usize,
}

impl<'t> Round<'t> {
    /// A walk over what was opened, from where each task stands.
    pub fn new(tasks: &'t [(Task, Source)], opened: &[Opened]) -> Self {
        let walk = |((task, source), opened): (&'t (Task, Source), &Opened)| {
            let from = match opened {
                Opened::Open(cursor) => usize::try_from(*cursor).unwrap_or(usize::MAX),
                Opened::Done | Opened::Conflict => usize::MAX,
            };
            Walk { task, source, opened: *opened, next: from, cursor: from, has_gap: false }
        };
        let walks = tasks.iter().zip(opened).map(walk).collect();
        Self { walks, at: 0, full: HashSet::new(), is_over: false }
    }

    /// The next deliveries; `None` where there are none.
    pub fn page(&mut self, maker: &Maker<'_>) -> Option<Vec<(Place, NewPush)>> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        while let Some(walk) = self.walks.get_mut(self.at).filter(|_| !self.is_over) {
            if walk.next >= walk.task.total() {
                self.at += 1;
                continue;
            }
            if page.len() == PAGE || bytes >= PAGE_BYTES {
                break;
            }
            let place = Place { task: self.at, number: walk.next };
            let push = maker.push(walk.task, walk.source, walk.next);
            walk.next += 1;
            if self.full.contains(&push.lane) {
                walk.has_gap = true;
                continue;
            }
            bytes += walk.task.bytes;
            page.push((place, push));
        }
        (!page.is_empty()).then_some(page)
    }

    /// Notes what became of a page: how far its tasks came by it.
    pub fn note(&mut self, page: Vec<(Place, Lane)>, pushed: &[Pushed]) -> Vec<TaskProgress> {
        let mut moved: Vec<usize> = Vec::new();
        for ((place, lane), pushed) in page.into_iter().zip(pushed) {
            let Some(walk) = self.walks.get_mut(place.task) else { continue };
            match pushed {
                Pushed::Queued | Pushed::Known if !walk.has_gap => {
                    walk.cursor = place.number + 1;
                    if moved.last() != Some(&place.task) {
                        moved.push(place.task);
                    }
                }
                Pushed::Queued | Pushed::Known => {}
                Pushed::LaneFull => {
                    walk.has_gap = true;
                    self.full.insert(lane);
                }
                Pushed::StoreFull => {
                    walk.has_gap = true;
                    self.is_over = true;
                }
            }
        }
        moved.into_iter().filter_map(|task| Some(self.walks.get(task)?.progress())).collect()
    }

    /// What became of each task.
    pub fn taken(self) -> Vec<Taken> {
        self.walks.into_iter().map(Walk::taken).collect()
    }
}

impl Walk<'_> {
    fn progress(&self) -> TaskProgress {
        let done = self.cursor >= self.task.total();
        TaskProgress { task_id: self.task.id.clone(), cursor: self.cursor as u64, done }
    }

    fn taken(self) -> Taken {
        match self.opened {
            Opened::Conflict => Taken::Refused(TaskFault::conflict()),
            Opened::Done => Taken::Repeat,
            Opened::Open(_) if self.cursor >= self.task.total() => Taken::Owned,
            Opened::Open(_) => Taken::Full,
        }
    }
}
