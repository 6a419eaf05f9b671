//! The barrier of pushes: a task's parent is a key on a slot of its own, its children are a hash in each shard that has some.

use super::*;
use crate::model::encode as encoded;
use crate::store::pushes::order;

impl RedisStore {
    /// Runs a script on a task's parent.
    async fn on_task(&self, verb: &'static Verb, task_id: &str, args: &[String]) -> Result<Value> {
        self.link.run(verb, &keys::task(&encoded(task_id)), args).await
    }

    async fn open_task(&self, task: &TaskOpening) -> Result<Opened> {
        let args = [task.app.clone(), task.digest.clone(), task.total.to_string(), encode::ttl(task.keep)];
        decode::opened(self.on_task(&scripts::OPEN_TASK, &task.task_id, &args).await?)
    }

    async fn advance_task(&self, progress: &TaskProgress) -> Result<()> {
        let args = [progress.cursor.to_string(), u8::from(progress.done).to_string()];
        decode::yes_or_no(self.on_task(&scripts::ADVANCE_TASK, &progress.task_id, &args).await?).map(drop)
    }
}

#[async_trait]
impl Pushes for RedisStore {
    // No script may touch two slots: these travel side by side.
    async fn open_tasks(&self, batch: Vec<TaskOpening>) -> Result<Vec<Opened>> {
        try_join_all(batch.iter().map(|task| self.open_task(task))).await
    }

    async fn queue_pushes(&self, batch: Vec<NewPush>) -> Result<Vec<Pushed>> {
        let args = batch.iter().map(|push| encode::new_push(push, self.shard_limit)).collect::<Result<Vec<_>>>()?;
        let items = batch.iter().map(|push| &push.lane).zip(args).collect();
        // One call a shard: a head that is settled between two would make room for what comes behind a refused one.
        let answers = self.grouped(&scripts::QUEUE_PUSHES, items).await?;
        self.wakeups.wake(Side::Out);
        answers.into_iter().map(decode::pushed).collect()
    }

    async fn advance_tasks(&self, batch: Vec<TaskProgress>) -> Result<()> {
        try_join_all(batch.iter().map(|progress| self.advance_task(progress))).await.map(drop)
    }

    async fn revise(&self, revision: Revision) -> Result<bool> {
        decode::yes_or_no(self.single(&scripts::REVISE, &revision.lane, encode::revision(&revision)?).await?)
    }

    async fn task(&self, task_id: &str) -> Result<Option<TaskStatus>> {
        let task = decode::task(self.on_task(&scripts::READ_TASK, task_id, &[]).await?)?;
        let Some(mut task) = task else { return Ok(None) };
        for value in self.everywhere(&scripts::READ_PUSHES, &[encoded(task_id)]).await? {
            task.children.extend(decode::children(value)?);
        }
        order(&mut task.children);
        Ok(Some(task))
    }
}
