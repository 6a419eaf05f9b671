//! The plain way to push from Kafka, to compare with: a consumer reads a record, calls WeCom, and commits the offset afterwards.
//!
//! It is what the documentation of every client shows under "at least once": `enable.auto.commit = false`, poll, work, `commitSync`.
//! Nothing is scripted to go wrong. It has the gateway's own librdkafka and HTTP client, a consumer (a thread) for each partition that
//! it can have, and never gives a record up: what got no answer is posted again, what was read and not committed is read again.
//! What goes wrong follows from one thing that it does not do: nobody remembers what was posted.

use std::thread;
use std::time::Duration;

use anyhow::Context;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Message};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wecom_gateway::sim::scenario::robot_key;

/// The gateway's own patience with WeCom.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Before a post that got no answer is made again.
const AGAIN: Duration = Duration::from_millis(200);
/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// What one process does; goes to it as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlainLoop {
    pub brokers: String,
    pub topic: String,
    pub group: String,
    /// Of librdkafka, beside these.
    pub options: Vec<(String, String)>,
    /// Where the robots are.
    pub wecom: String,
    /// How many consumers it runs.
    pub consumers: usize,
    /// After how many records each of them commits.
    pub commit_every: usize,
}

impl PlainLoop {
    /// Consumes for ever; ends only where a consumer can't go on.
    pub fn run(&self) -> anyhow::Result<()> {
        // Fails only where it is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        thread::scope(|scope| {
            let consumers: Vec<_> = (0..self.consumers).map(|_| scope.spawn(|| self.consume())).collect();
            consumers.into_iter().try_for_each(|consumer| consumer.join().expect("no panic"))
        })
    }

    fn consume(&self) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let client = reqwest::Client::builder().no_proxy().timeout(TIMEOUT).build()?;
        let consumer = self.consumer()?;
        let mut uncommitted = 0;
        loop {
            match consumer.poll(POLL) {
                Some(Ok(record)) => {
                    let task = serde_json::from_slice(record.payload().unwrap_or_default()).context("a task")?;
                    runtime.block_on(self.push(&client, &task));
                    uncommitted += 1;
                    if uncommitted < self.commit_every {
                        continue;
                    }
                }
                // Brokers are away, or partitions change hands: librdkafka goes on by itself.
                Some(Err(_)) => continue,
                None => {}
            }
            if uncommitted > 0 {
                commit(&consumer);
                uncommitted = 0;
            }
        }
    }

    fn consumer(&self) -> anyhow::Result<BaseConsumer> {
        let mut config = ClientConfig::new();
        for (name, value) in &self.options {
            config.set(name, value);
        }
        let ours = [
            ("bootstrap.servers", self.brokers.as_str()),
            ("group.id", &self.group),
            ("auto.offset.reset", "earliest"),
            ("enable.auto.commit", "false"),
        ];
        for (name, value) in ours {
            config.set(name, value);
        }
        let consumer: BaseConsumer = config.create()?;
        consumer.subscribe(&[&self.topic])?;
        Ok(consumer)
    }

    /// Calls WeCom until it answers.
    async fn push(&self, client: &reqwest::Client, task: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = robot_key(&text(&task["app"]), &text(&task["target"]["chat"]));
        let url = format!("{}/cgi-bin/webhook/send?key={key}", self.wecom);
        loop {
            let answer = client.post(&url).json(&task["message"]).send().await;
            let answer = match answer.and_then(reqwest::Response::error_for_status) {
                Ok(answer) => answer.json::<Value>().await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) if answer["errcode"] == 0 => return,
                // A person reads the log.
                Ok(answer) => return eprintln!("WeCom refuses {}: {answer}", task["task_id"]),
                Err(_) => tokio::time::sleep(AGAIN).await,
            }
        }
    }
}

/// Waits until the brokers have what was read so far.
fn commit(consumer: &BaseConsumer) {
    match consumer.commit_consumer_state(CommitMode::Sync) {
        // The last: its partition is another consumer's by now.
        Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
        // As usual: the next commit covers it, and what it does not cover is read again.
        Err(error) => eprintln!("not committed: {error}"),
    }
}
