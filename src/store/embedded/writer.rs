//! The one writer: a thread that runs verbs in groups, one transaction a group.
//!
//! Callers hand in their work and wait. The writer takes whatever has come together while it was busy, so that one sync
//! to disk serves many callers, and answers only after that sync. Where one piece of work fails, the group is rolled back
//! and each piece runs alone: nobody fails for another's fault. So work may run twice and must have no effect but on
//! the transaction.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::checkpoint::Checkpoints;
use super::step::Step;
use super::sweep::Sweeper;
use crate::model::now_ms;
use crate::store::{Result, StoreError, Wakeups};

/// Most pieces of work in one transaction: bounds how long its first caller waits.
const GROUP: usize = 512;
/// How long the writer waits for work before it cleans up a little.
const IDLE: Duration = Duration::from_secs(1);

/// A piece of work with somebody waiting for it.
pub(super) trait Work: Send {
    /// Does it within a step, and keeps what it brought.
    fn run(&mut self, step: &Step<'_>) -> Result<()>;
    /// Hands over what the last run brought; it is committed.
    fn succeed(self: Box<Self>);
    /// Says that nothing was applied, or maybe.
    fn fail(self: Box<Self>, why: StoreError);
}

/// [`Work`] of a closure.
pub(super) struct Call<F, T> {
    work: F,
    brought: Option<T>,
    caller: oneshot::Sender<Result<T>>,
}

impl<F, T> Call<F, T>
where
    F: FnMut(&Step<'_>) -> Result<T> + Send + 'static,
    T: Send + 'static,
{
    /// The work, and where its answer will come out.
    pub fn prepare(work: F) -> (Box<dyn Work>, oneshot::Receiver<Result<T>>) {
        let (caller, answer) = oneshot::channel();
        (Box::new(Self { work, brought: None, caller }), answer)
    }
}

impl<F, T> Work for Call<F, T>
where
    F: FnMut(&Step<'_>) -> Result<T> + Send,
    T: Send,
{
    fn run(&mut self, step: &Step<'_>) -> Result<()> {
        self.brought = Some((self.work)(step)?);
        Ok(())
    }
    // A caller that went away is no concern of ours: its work is applied, as with any lost answer.
    fn succeed(self: Box<Self>) {
        if let Some(brought) = self.brought {
            let _ = self.caller.send(Ok(brought));
        }
    }
    fn fail(self: Box<Self>, why: StoreError) {
        let _ = self.caller.send(Err(why));
    }
}

/// Why a transaction was not committed.
enum Failed {
    /// One piece of work failed.
    Work(StoreError),
    /// It could not be opened or committed at all.
    Whole(StoreError),
}

/// The writer's side of the channel and all it holds.
pub(super) struct Writer {
    pub conn: Connection,
    pub work: Receiver<Box<dyn Work>>,
    pub wakeups: Arc<Wakeups>,
    /// Where the callers wait, if that is one runtime.
    pub runtime: Option<Handle>,
    pub checkpoints: Checkpoints,
    pub sweeper: Sweeper,
    /// Messages and deliveries that wait: counted at the start, then changed by what is committed and nothing else.
    pub waiting: u64,
}

impl Writer {
    /// Works until every sender is gone.
    pub fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP);
        loop {
            match self.work.recv_timeout(IDLE) {
                Ok(first) => {
                    group.push(first);
                    // On a busy machine those who are about to hand in more get the processor first: larger groups, fewer
                    // syncs. On an idle one this is nothing.
                    std::thread::yield_now();
                    group.extend(self.work.try_iter().take(GROUP - 1));
                    self.sweeper.owe(group.len());
                    self.run_group(&mut group);
                }
                Err(RecvTimeoutError::Timeout) => self.sweeper.owe_a_step(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.sweep();
            self.checkpoints.keep_up(&self.conn);
        }
    }

    fn run_group(&mut self, group: &mut Vec<Box<dyn Work>>) {
        match self.transaction(group) {
            Ok(()) => self.hand_over(group),
            Err(Failed::Work(_)) if group.len() > 1 => {
                for work in group.drain(..) {
                    self.run_group(&mut vec![work]);
                }
            }
            Err(Failed::Work(why) | Failed::Whole(why)) => {
                let text = why.to_string();
                let mut whole = group.drain(..);
                if let Some(first) = whole.next() {
                    first.fail(why);
                }
                whole.for_each(|work| work.fail(StoreError::Unavailable(text.clone())));
            }
        }
    }

    /// Tells those who wait. Many are told by one task of their runtime: this thread would have to wake it anew for each, and
    /// would be put aside for it each time.
    fn hand_over(&self, group: &mut Vec<Box<dyn Work>>) {
        match &self.runtime {
            Some(runtime) if group.len() > 1 => {
                let done = std::mem::take(group);
                runtime.spawn(async move { done.into_iter().for_each(|work| work.succeed()) });
            }
            Some(_) | None => group.drain(..).for_each(|work| work.succeed()),
        }
    }

    fn transaction(&mut self, group: &mut [Box<dyn Work>]) -> std::result::Result<(), Failed> {
        let whole = |e: rusqlite::Error| Failed::Whole(e.into());
        let transaction = self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(whole)?;
        let step = Step::new(&transaction, now_ms(), self.waiting);
        for work in group {
            work.run(&step).map_err(Failed::Work)?;
        }
        let (woken, waiting) = (step.woken().collect::<Vec<_>>(), step.waiting());
        transaction.commit().map_err(whole)?;
        self.waiting = waiting;
        woken.into_iter().for_each(|side| self.wakeups.wake(side));
        Ok(())
    }

    /// Forgets a little of what is over, in a transaction of its own.
    fn sweep(&mut self) {
        if !self.sweeper.is_due() {
            return;
        }
        let swept =
            self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from).and_then(
                |transaction| {
                    self.sweeper.step(&Step::new(&transaction, now_ms(), self.waiting))?;
                    Ok(transaction.commit()?)
                },
            );
        if let Err(error) = swept {
            tracing::warn!(%error, "expired entries could not be removed from the store");
        }
    }
}
