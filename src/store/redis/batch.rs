//! Greedy batching: concurrent calls of one verb in one shard travel as one script call.
//!
//! A batch is what waits at the moment, never what may come: no timer, so a lone call is as fast as without. One batch
//! travels at a time while the next one fills: on a busy server few large ones cost less than many small ones, and two calls of
//! one lane keep their order.
//!
//! They keep it through an outage too. What waits while a batch is lost fails with it, unsent: a message that was given up is kept
//! in the spool, and the next of its lane must not be in the store in front of it.

use std::sync::Arc;
use std::time::Instant;

use redis::Value;
use tokio::sync::{mpsc, oneshot};

use super::connection::Link;
use super::decode;
use super::scripts::Verb;
use crate::store::{Result, StoreError};

/// Most items in one script call: other calls must get their turn on the server.
const CAP: usize = 64;
/// Items that may wait for a batch before callers wait to get in.
const QUEUE: usize = 4096;

/// The arguments of one item, as its script's header names them.
pub(super) type Args = Vec<String>;

struct Item {
    args: Args,
    asked: Instant,
    answer: oneshot::Sender<Result<Value>>,
}

/// Batches the calls of one verb in one shard.
pub(super) struct Batcher {
    queue: mpsc::Sender<Item>,
}

impl Batcher {
    /// Starts the task that sends batches; it ends with the batcher.
    pub fn start(link: Arc<Link>, verb: &'static Verb, prefix: String) -> Self {
        let (queue, items) = mpsc::channel(QUEUE);
        tokio::spawn(send_batches(link, verb, prefix, items));
        Self { queue }
    }

    /// Puts one item into the next batch. What it answers is to be awaited outside, so that items of one caller share one.
    pub async fn submit(&self, args: Args) -> Answer {
        let (answer, waiting) = oneshot::channel();
        // A failure to send drops `answer`, which the waiting end tells.
        let _ = self.queue.send(Item { args, asked: Instant::now(), answer }).await;
        Answer(waiting)
    }
}

/// The answer to an item, once its batch is back.
pub(super) struct Answer(oneshot::Receiver<Result<Value>>);

impl Answer {
    /// Waits for it.
    pub async fn get(self) -> Result<Value> {
        self.0.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the store is closing".into())))
    }
}

async fn send_batches(link: Arc<Link>, verb: &'static Verb, prefix: String, mut queue: mpsc::Receiver<Item>) {
    let mut items = Vec::with_capacity(CAP);
    // When the last batch that was lost was given up, and why.
    let mut lost: Option<(Instant, StoreError)> = None;
    while queue.recv_many(&mut items, CAP).await > 0 {
        if let Some((at, error)) = &lost {
            fail(items.extract_if(.., |item| item.asked <= *at).map(|item| item.answer), error);
        }
        if items.is_empty() {
            continue;
        }
        if let Err(error) = send(&link, verb, &prefix, items.drain(..)).await
            && error.is_transient()
        {
            lost = Some((Instant::now(), error));
        }
    }
}

/// Sends a batch and hands the answers out; where there are none, each item is told why.
async fn send(link: &Link, verb: &'static Verb, prefix: &str, items: impl Iterator<Item = Item>) -> Result<()> {
    let (args, answers): (Vec<_>, Vec<_>) = items.map(|item| (item.args, item.answer)).unzip();
    match call(link, verb, prefix, args).await {
        Ok(values) => {
            answers.into_iter().zip(values).for_each(|(answer, value)| drop(answer.send(Ok(value))));
            Ok(())
        }
        Err(error) => {
            fail(answers.into_iter(), &error);
            Err(error)
        }
    }
}

fn fail(answers: impl Iterator<Item = oneshot::Sender<Result<Value>>>, error: &StoreError) {
    answers.for_each(|answer| drop(answer.send(Err(copy(error)))));
}

/// Runs a batch script: one answer per item, in order.
pub(super) async fn call(link: &Link, verb: &'static Verb, prefix: &str, items: Vec<Args>) -> Result<Vec<Value>> {
    let expected = items.len();
    let mut args = Vec::with_capacity(expected + items.iter().map(Vec::len).sum::<usize>());
    for item in items {
        args.push(item.len().to_string());
        args.extend(item);
    }
    let answers = decode::list(link.run(verb, prefix, &args).await?)?;
    if answers.len() != expected {
        return Err(StoreError::Corrupt(format!("{}: {} answers to {expected} items", verb.name, answers.len())));
    }
    Ok(answers)
}

/// The same error for each caller of a batch.
fn copy(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unavailable(text) => StoreError::Unavailable(text.clone()),
        StoreError::Corrupt(text) => StoreError::Corrupt(text.clone()),
        StoreError::Refused(text) => StoreError::Refused(text.clone()),
    }
}
