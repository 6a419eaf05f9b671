//! The hook that alarms are posted to, one by one, as JSON.
//!
//! It is tried a few times: each post of an alarm has the same `Idempotency-Key`. Signed as `http` actions are.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use serde::Serialize;
use tokio::sync::{Mutex, mpsc};
use tokio::time::sleep;
use tracing::error;

use super::notifier::MOST_WAITING;
use super::{Due, text};
use crate::action::signature;
use crate::config::settings::AlarmHook;
use crate::model::{now_ms, rfc3339};
use crate::telemetry::Metrics;

/// How long one post may take.
const TIMEOUT: Duration = Duration::from_secs(5);
/// After each post that failed; after the last of them the alarm is given up.
const PAUSES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(4), Duration::ZERO];

/// Why a post did not arrive, as far as is known. Tells no URL: it may hold a key.
#[derive(Debug, thiserror::Error)]
enum PostError {
    #[error("HTTP {0}")]
    Status(u16),
    #[error(transparent)]
    Http(reqwest::Error),
}

pub(super) struct Hook {
    hook: AlarmHook,
    client: reqwest::Client,
    host: String,
    metrics: Arc<Metrics>,
    queue: mpsc::Sender<Due>,
    queued: Mutex<mpsc::Receiver<Due>>,
}

#[derive(Serialize)]
struct Body<'a> {
    kind: &'static str,
    subject: String,
    app: Option<&'a str>,
    chat: Option<&'a str>,
    /// One line, in Chinese.
    text: String,
    /// What to do, one sentence.
    mend: &'static str,
    /// How many of this kind and subject it speaks of.
    count: u64,
    /// When the newest of them was raised, RFC 3339.
    at: Option<String>,
    /// Which machine says so.
    host: &'a str,
}

impl Hook {
    pub fn new(hook: AlarmHook, client: reqwest::Client, host: &str, metrics: Arc<Metrics>) -> Self {
        let (queue, queued) = mpsc::channel(MOST_WAITING);
        Self { hook, client, host: host.to_owned(), metrics, queue, queued: queued.into() }
    }

    /// Takes an alarm, if there is room for it.
    pub fn offer(&self, due: &Due) {
        if self.queue.try_send(due.clone()).is_err() {
            self.metrics.alarms_lost("hook", 1);
        }
    }

    /// How many nobody has taken up.
    pub fn waiting(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Posts what is offered, for ever.
    pub async fn run(&self) {
        let mut queued = self.queued.lock().await;
        while let Some(due) = queued.recv().await {
            self.tell(&due).await;
        }
    }

    async fn tell(&self, due: &Due) {
        let body = match serde_json::to_string(&self.body(due)) {
            Ok(body) => body,
            Err(error) => return error!(%error, "an alarm could not be written"),
        };
        let key = format!("{:032x}", rand::random::<u128>());
        let mut last = None;
        for pause in PAUSES {
            match self.post(&body, &key).await {
                Ok(()) => return,
                Err(error) => last = Some(error),
            }
            sleep(pause).await;
        }
        self.metrics.alarms_lost("hook", 1);
        let why = last.map(|error| error.to_string());
        error!(kind = due.alarm.kind.as_str(), why, "an alarm could not be told to the hook of [alarms]");
    }

    async fn post(&self, body: &str, key: &str) -> Result<(), PostError> {
        let timestamp = (now_ms() / 1000).to_string();
        let mut call = self
            .client
            .post(self.hook.url.expose())
            .timeout(TIMEOUT)
            .header(CONTENT_TYPE, "application/json")
            .header("Idempotency-Key", key)
            .header("X-Gateway-Timestamp", &timestamp);
        if let Some(secret) = &self.hook.secret {
            call = call.header("X-Gateway-Signature", signature(secret, &timestamp, body));
        }
        let answer = call.body(body.to_owned()).send().await.map_err(|error| PostError::Http(error.without_url()))?;
        let status = answer.status();
        if status.is_success() { Ok(()) } else { Err(PostError::Status(status.as_u16())) }
    }

    fn body<'a>(&'a self, due: &'a Due) -> Body<'a> {
        let Due { alarm, count } = due;
        Body {
            kind: alarm.kind.as_str(),
            subject: alarm.subject(),
            app: alarm.app.as_deref(),
            chat: alarm.chat.as_deref(),
            text: text::line(due),
            mend: alarm.kind.mend(),
            count: *count,
            at: rfc3339(alarm.at),
            host: &self.host,
        }
    }
}
