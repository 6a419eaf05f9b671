//! Steps that answer only once replicas have them (`store.replicas`).
//!
//! A script and `WAIT` travel in one pipeline, on a connection of their own and one at a time: a connection that waits holds
//! up whatever comes behind it. What too few replicas have was applied all the same, and its repeat, which may write nothing,
//! must not pass for safe: `WAIT` is said to speak of this connection's writes alone (servers up to 7.0 count whatever
//! came before). So each pipeline also publishes to nobody: that goes to the replicas too, behind all before it.
//!
//! Once replicas are missing, nothing more is applied until they are back: a begin that can't be confirmed would end as
//! `unknown`, and one such lane is enough.

use std::fmt;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, RedisResult, ServerErrorKind, Value};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::scripts::Verb;
use crate::store::StoreError;

/// How long replicas may take; less than a command may.
const WAIT_LIMIT: Duration = Duration::from_secs(1);
/// For so long after replicas were found missing nobody asks again.
const PAUSE: Duration = Duration::from_millis(100);
/// A channel without subscribers.
const FENCE: &str = "wg:fence";

/// How many replicas are asked for; and while too few have answered, when that was last looked at and how many did.
pub(super) struct Replicas {
    wanted: u32,
    missing: Mutex<Option<(Instant, u32)>>,
}

/// Fewer replicas than asked for have a write.
pub(super) struct TooFew {
    have: u32,
    wanted: u32,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} replicas have the last write (store.replicas)", self.have, self.wanted)
    }
}

impl From<TooFew> for StoreError {
    fn from(too_few: TooFew) -> Self {
        Self::Unavailable(too_few.to_string())
    }
}

/// The right to run the next step; see [`Replicas::turn`].
pub(super) struct Turn<'r> {
    wanted: u32,
    missing: MutexGuard<'r, Option<(Instant, u32)>>,
}

impl Replicas {
    pub fn new(wanted: u32) -> Self {
        Self { wanted, missing: Mutex::default() }
    }

    /// Whether a step that must be safe waits at all.
    pub fn are_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Waits for those before.
    pub async fn turn(&self) -> Turn<'_> {
        Turn { wanted: self.wanted, missing: self.missing.lock().await }
    }
}

impl Turn<'_> {
    /// Runs a step on the connection made for it, unless replicas are known to be missing.
    pub async fn run(
        &mut self,
        connection: &mut MultiplexedConnection,
        verb: &Verb,
        step: Cmd,
    ) -> RedisResult<Result<Value, TooFew>> {
        if self.missing.is_some()
            && let Err(too_few) = self.look(connection).await?
        {
            return Ok(Err(too_few));
        }
        let (mut answer, mut have) = confirmed(connection, Some(&step), self.wanted).await?;
        if answer.as_ref().is_err_and(|e| e.kind() == ErrorKind::Server(ServerErrorKind::NoScript)) {
            // Nothing was applied yet, and a second wait would be too long.
            if let Err(too_few) = self.enough(have) {
                return Ok(Err(too_few));
            }
            verb.script.load_async(connection).await?;
            (answer, have) = confirmed(connection, Some(&step), self.wanted).await?;
        }
        let answer = answer?;
        Ok(self.enough(have).map(|()| answer))
    }

    /// Whether enough replicas have the last write. Asks them, unless they were found missing a moment ago.
    pub async fn look(&mut self, connection: &mut MultiplexedConnection) -> RedisResult<Result<(), TooFew>> {
        let have = match *self.missing {
            Some((looked, had)) if looked.elapsed() < PAUSE => had,
            _ => confirmed(connection, None, self.wanted).await?.1,
        };
        Ok(self.enough(have))
    }

    fn enough(&mut self, have: u32) -> Result<(), TooFew> {
        if have >= self.wanted {
            if self.missing.take().is_some() {
                tracing::info!("enough replicas of redis are back");
            }
            return Ok(());
        }
        let too_few = TooFew { have, wanted: self.wanted };
        if self.missing.is_none() {
            tracing::warn!(%too_few, "redis has too few replicas; nothing is taken or begun until they are back");
        }
        // Those that were told by the pause alone don't lengthen it.
        if self.missing.is_none_or(|(looked, _)| looked.elapsed() >= PAUSE) {
            *self.missing = Some((Instant::now(), have));
        }
        Err(too_few)
    }
}

/// What a step answers, and how many replicas have it.
async fn confirmed(
    connection: &mut MultiplexedConnection,
    step: Option<&Cmd>,
    wanted: u32,
) -> RedisResult<(RedisResult<Value>, u32)> {
    let mut commands = redis::pipe();
    commands.ignore_errors();
    if let Some(step) = step {
        commands.add_command(step.clone());
    }
    commands.cmd("PUBLISH").arg(FENCE).arg("").ignore();
    commands.cmd("WAIT").arg(wanted).arg(WAIT_LIMIT.as_millis() as u64);
    let mut answers: Vec<RedisResult<Value>> = commands.query_async(connection).await?;
    let have = redis::from_redis_value(answers.pop().unwrap_or(Ok(Value::Int(0)))?)?;
    Ok((answers.pop().unwrap_or(Ok(Value::Nil)), have))
}
