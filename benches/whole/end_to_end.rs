//! End to end: callbacks in, replies out at the fake WeCom's robots, until each message has its reply.
//!
//! A closed loop: so many messages are under way, from the post of their callback to the arrival of their reply. The load
//! and the fake share this process, on few cycles: requests are made before, and posted over plain connections. The
//! fake's ledger checks every reply (right chat, once, in order), so a rate counts only what was right.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use wecom_gateway::sim::{FakeWeCom, Ledger, Options, Progress, Summary};

use crate::gateway::{Backend, Cpu, Gateway};
use crate::process::own_cpu;
use crate::requests::{Callback, Spread};

/// Chats and members; a multiple of [`CONNECTIONS`], so that one member's messages go over one connection, in order.
pub const SPREAD: Spread = Spread { chats: 256, members: 4 };
pub const CONNECTIONS: usize = 64;
/// Messages under way at once.
pub const UNDER_WAY: usize = 256;
/// How long a robot takes to answer.
pub const ROBOT_LATENCY: Duration = Duration::from_millis(5);
/// How the answer to a callback begins that was taken.
const OK: &[u8] = b"HTTP/1.1 200 ";
/// How long replies may stay away.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a run brought; every message got its one reply.
#[derive(Clone, Debug)]
pub struct EndToEnd {
    pub summary: Summary,
    /// Of the gateway and of Redis.
    pub cpu: Cpu,
    /// Of the load and the fake together.
    pub load_cpu: Duration,
}

/// Posts for `seconds`, waits for what is under way, and checks everything.
pub async fn run(backend: Backend, seconds: u64, callbacks: &Arc<Vec<Callback>>) -> anyhow::Result<EndToEnd> {
    let fake = FakeWeCom::start(Options {
        latency: ROBOT_LATENCY,
        action_secret: Some("bench-action-secret".into()),
        forget: true,
        ..Options::default()
    })
    .await?;
    let gateway = Gateway::start(backend, &fake, &SPREAD.chat_ids()).await?;
    let (before, own_before) = (gateway.cpu().await?, own_cpu()?);
    let ledger = fake.ledger();
    post_all(&gateway, seconds, callbacks, ledger).await?;
    let answered = ledger.all_answered(PATIENCE).await;
    let (after, load_cpu) = (gateway.cpu().await?, own_cpu()? - own_before);
    let (summary, violations) = (ledger.summary(), ledger.violations());
    ensure!(answered && summary.kept(), "a promise broke: {summary:?}, first {:?}", violations.first());
    let Progress { acked, replies, .. } = summary.progress;
    ensure!(acked > 0 && acked == replies, "{acked} messages were acked, {replies} replies came");
    let counts = gateway.until_done(replies).await?;
    ensure!(
        (counts.stored, counts.handled, counts.delivered) == (acked, acked, replies)
            && counts.not_stored + counts.not_delivered + counts.store_errors == 0,
        "the gateway's own counts differ: {counts:?}, {summary:?}"
    );
    let cpu = Cpu { gateway: after.gateway - before.gateway, redis: after.redis - before.redis };
    Ok(EndToEnd { summary, cpu, load_cpu })
}

async fn post_all(
    gateway: &Gateway,
    seconds: u64,
    callbacks: &Arc<Vec<Callback>>,
    ledger: &Arc<Ledger>,
) -> anyhow::Result<()> {
    let permits = Arc::new(Semaphore::new(UNDER_WAY));
    let mut posters = JoinSet::new();
    let until = Instant::now() + Duration::from_secs(seconds);
    for first in 0..CONNECTIONS {
        let mut connection = Connection::open(gateway).await?;
        let (callbacks, ledger, permits) = (Arc::clone(callbacks), Arc::clone(ledger), Arc::clone(&permits));
        posters.spawn(async move {
            for callback in callbacks.iter().skip(first).step_by(CONNECTIONS) {
                let permit = Arc::clone(&permits).acquire_owned().await?;
                if Instant::now() > until {
                    return Ok(());
                }
                let serial = callback.tag.serial;
                ledger.expect(&callback.tag, true);
                ledger.posted(serial);
                connection.post(&callback.request).await?;
                ledger.acked(serial);
                ledger.until_replied(serial, permit);
            }
            bail!("the prepared requests were too few");
        });
    }
    while let Some(poster) = posters.join_next().await {
        poster??;
    }
    Ok(())
}

/// One connection, one request at a time.
struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(gateway: &Gateway) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(gateway.callbacks).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(1024) })
    }

    /// Writes a request and reads its answer, which must be `success`.
    async fn post(&mut self, request: &[u8]) -> anyhow::Result<()> {
        self.answer.clear();
        self.stream.write_all(request).await?;
        while !self.answer.ends_with(b"\r\n\r\nsuccess") {
            ensure!(self.stream.read_buf(&mut self.answer).await? > 0, "the gateway closed a connection");
            let taken = OK.starts_with(&self.answer) || self.answer.starts_with(OK);
            ensure!(taken, "not taken: {}", String::from_utf8_lossy(&self.answer));
        }
        Ok(())
    }
}
