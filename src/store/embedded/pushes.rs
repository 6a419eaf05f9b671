//! The barrier of pushes: a row for a task, one for each of its deliveries.

use async_trait::async_trait;
use rusqlite::{OptionalExtension, Row, params};

use super::EmbeddedStore;
use super::chat::Chat;
use super::outbound::{self, Outgoing};
use super::step::Step;
use crate::model::Lane;
use crate::store::pushes::order;
use crate::store::{
    Child, ChildChange, NewPush, Opened, Pushed, Pushes, Result, Revision, TaskOpening, TaskProgress, TaskStatus,
};

#[async_trait]
impl Pushes for EmbeddedStore {
    async fn open_tasks(&self, batch: Vec<TaskOpening>) -> Result<Vec<Opened>> {
        self.db.each(batch, open).await
    }

    async fn queue_pushes(&self, batch: Vec<NewPush>) -> Result<Vec<Pushed>> {
        let batch = batch.into_iter().map(NewChild::of).collect::<Result<Vec<_>>>()?;
        let max_waiting = self.options.max_waiting;
        self.db.each(batch, move |step, child| queue(step, child, max_waiting)).await
    }

    async fn advance_tasks(&self, batch: Vec<TaskProgress>) -> Result<()> {
        self.db.each(batch, advance).await.map(drop)
    }

    async fn revise(&self, revision: Revision) -> Result<bool> {
        self.db.step(move |step| revise(step, &revision)).await
    }

    async fn task(&self, task_id: &str) -> Result<Option<TaskStatus>> {
        let task_id = task_id.to_owned();
        let Some((task, children)) = self.db.step(move |step| read(step, &task_id)).await? else { return Ok(None) };
        let mut children: Vec<Child> = children.into_iter().map(StoredChild::read).collect::<Result<_>>()?;
        order(&mut children);
        Ok(Some(TaskStatus { children, ..task }))
    }
}

fn open(step: &Step<'_>, task: &TaskOpening) -> Result<Opened> {
    let mut select = step.sql("SELECT digest, cursor, done FROM tasks WHERE key = ?1 AND expires_at > ?2")?;
    let known = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?, row.get(2)?));
    let known = select.query_row(params![task.task_id, step.now], known).optional()?;
    Ok(match known {
        Some((digest, ..)) if digest != task.digest => Opened::Conflict,
        Some((_, _, true)) => Opened::Done,
        Some((_, cursor, false)) => Opened::Open(count(cursor)),
        None => {
            let mut replace = step.sql(
                "INSERT OR REPLACE INTO tasks (key, app, digest, total, cursor, done, expires_at)
                 VALUES (?1, ?2, ?3, ?4, 0, 0, ?5)",
            )?;
            let until = step.after(task.keep);
            replace.execute(params![task.task_id, task.app, task.digest, number(task.total), until])?;
            Opened::Open(0)
        }
    })
}

fn advance(step: &Step<'_>, progress: &TaskProgress) -> Result<()> {
    let mut update =
        step.sql("UPDATE tasks SET cursor = max(cursor, ?2), done = max(done, ?3) WHERE key = ?1 AND expires_at > ?4")?;
    update.execute(params![progress.task_id, number(progress.cursor), progress.done, step.now])?;
    Ok(())
}

/// A [`NewPush`] whose delivery is written out before the writer is asked.
struct NewChild {
    push: NewPush,
    /// How far it is once it is taken, JSON.
    state: String,
    /// Empty where it ended before it began.
    outgoing: Outgoing,
}

impl NewChild {
    fn of(push: NewPush) -> Result<Self> {
        let (state, delivery) = push.taken();
        let outgoing = Outgoing::of(push.lane.clone(), delivery, push.turn, push.depth_limit)?;
        Ok(Self { state: super::to_json(&state)?, outgoing, push })
    }
}

fn queue(step: &Step<'_>, new: &NewChild, max_waiting: u64) -> Result<Pushed> {
    let NewChild { push, state, outgoing } = new;
    let (task, delivery, lane) = (push.task_id.as_str(), push.delivery_id.as_str(), push.lane.as_str());
    let mut exists =
        step.sql("SELECT EXISTS (SELECT 1 FROM pushes WHERE key = ?1 AND delivery = ?2 AND expires_at > ?3)")?;
    if exists.query_row(params![task, delivery, step.now], |row| row.get(0))? {
        return Ok(Pushed::Known);
    }
    if push.fate.is_ok() && step.waiting() >= max_waiting {
        // As with any message, a full lane says so first.
        let depth = Chat::find(step, &push.lane)?.map_or(0, |chat| chat.depth());
        return Ok(if depth >= push.depth_limit { Pushed::LaneFull } else { Pushed::StoreFull });
    }
    if !outbound::push(step, outgoing)? {
        return Ok(Pushed::LaneFull);
    }
    let mut replace = step.sql(
        "INSERT OR REPLACE INTO pushes (key, delivery, lane, state, at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    replace.execute(params![task, delivery, lane, state, step.now, step.after(push.keep)])?;
    step.journal(&push.lines)?;
    Ok(Pushed::Queued)
}

/// Says what is said of a delivery now, where it is one of a task that is still known.
pub(super) fn change(step: &Step<'_>, change: Option<&ChildChange>) -> Result<()> {
    let Some(ChildChange { task_id, delivery_id, state }) = change else { return Ok(()) };
    let mut update =
        step.sql("UPDATE pushes SET state = ?3, at = ?4 WHERE key = ?1 AND delivery = ?2 AND expires_at > ?4")?;
    update.execute(params![task_id, delivery_id, super::to_json(state)?, step.now])?;
    Ok(())
}

fn revise(step: &Step<'_>, revision: &Revision) -> Result<bool> {
    let ChildChange { task_id, delivery_id, .. } = &revision.change;
    let mut select = step.sql("SELECT at FROM pushes WHERE key = ?1 AND delivery = ?2 AND expires_at > ?3")?;
    let at: Option<i64> = select.query_row(params![task_id, delivery_id, step.now], |row| row.get(0)).optional()?;
    if at.is_some_and(|at| at != revision.seen) {
        return Ok(false);
    }
    change(step, Some(&revision.change))?;
    step.journal(&revision.lines)?;
    Ok(true)
}

/// A [`Child`] whose state is not read yet.
struct StoredChild {
    delivery_id: String,
    lane: String,
    state: String,
    at: i64,
}

impl StoredChild {
    fn read(self) -> Result<Child> {
        let Self { delivery_id, lane, state, at } = self;
        Ok(Child { delivery_id, lane: Lane::from_encoded(lane), state: super::from_json(&state)?, at })
    }
}

fn read(step: &Step<'_>, task_id: &str) -> Result<Option<(TaskStatus, Vec<StoredChild>)>> {
    let mut select = step.sql("SELECT app, total, cursor, done FROM tasks WHERE key = ?1 AND expires_at > ?2")?;
    let task = |row: &Row<'_>| {
        let (total, cursor) = (count(row.get(1)?), count(row.get(2)?));
        Ok(TaskStatus { app: row.get(0)?, total, cursor, done: row.get(3)?, children: Vec::new() })
    };
    let Some(task) = select.query_row(params![task_id, step.now], task).optional()? else { return Ok(None) };
    let mut select = step.sql("SELECT delivery, lane, state, at FROM pushes WHERE key = ?1 AND expires_at > ?2")?;
    let child = |row: &Row<'_>| {
        Ok(StoredChild { delivery_id: row.get(0)?, lane: row.get(1)?, state: row.get(2)?, at: row.get(3)? })
    };
    let children = select.query_map(params![task_id, step.now], child)?.collect::<rusqlite::Result<_>>()?;
    Ok(Some((task, children)))
}

/// As SQLite keeps it.
fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
