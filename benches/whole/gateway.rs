//! The gateway under load: the real binary on a store of its own, and what it says of itself.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use wecom_gateway::sim::{FakeWeCom, Scenario};

use crate::process::{Process, free_port};
use crate::redis_server::RedisServer;
use crate::requests::{APP, app};

/// How long it may take to start, and to handle what waits once a load has ended.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at its metrics, which cost it something.
const LOOK: Duration = Duration::from_millis(100);
/// As `demo`: robots that take their time must not set the pace.
const CHATS_AT_ONCE: usize = 64;

/// Where lanes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    Embedded,
    RedisEverysec,
    RedisAlways,
    /// Without durability, to see what it costs: nothing waits for the disk.
    EmbeddedUnsynced,
    RedisUnsaved,
}

impl Backend {
    pub const ALL: [Self; 3] = [Self::Embedded, Self::RedisEverysec, Self::RedisAlways];
    pub const CARELESS: [Self; 2] = [Self::EmbeddedUnsynced, Self::RedisUnsaved];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::RedisEverysec => "Redis everysec",
            Self::RedisAlways => "Redis always",
            Self::EmbeddedUnsynced => "embedded, fsync = false",
            Self::RedisUnsaved => "Redis without AOF",
        }
    }

    fn redis(self) -> Option<RedisServer> {
        let fsync = match self {
            Self::Embedded | Self::EmbeddedUnsynced => return None,
            Self::RedisUnsaved => return Some(RedisServer::spawn(&["--appendonly", "no"])),
            Self::RedisEverysec => "everysec",
            Self::RedisAlways => "always",
        };
        Some(RedisServer::spawn(&["--appendonly", "yes", "--appendfsync", fsync]))
    }
}

/// A running gateway, its Redis if it has one, and the folder of both.
pub struct Gateway {
    process: Process,
    redis: Option<RedisServer>,
    http: reqwest::Client,
    pub callbacks: std::net::SocketAddr,
    admin: std::net::SocketAddr,
    _scenario: Scenario,
}

/// What it counted since it started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Callbacks answered after they were stored.
    pub stored: u64,
    /// Callbacks answered otherwise: duplicates, refusals.
    pub not_stored: u64,
    /// Messages that came to their end at the workers.
    pub handled: u64,
    /// Replies that WeCom took.
    pub delivered: u64,
    /// Requests to WeCom that ended otherwise.
    pub not_delivered: u64,
    /// Store calls that failed.
    pub store_errors: u64,
    /// Inbound lanes that hold something.
    pub in_lanes: u64,
    /// Outbound lanes that hold something.
    pub out_lanes: u64,
    /// Journal lines that wait for the records.
    pub journal: u64,
}

/// CPU time so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    pub gateway: Duration,
    pub redis: Duration,
}

impl Gateway {
    /// Starts on an empty store, with a robot of `fake` in each chat, and waits until it takes callbacks.
    pub async fn start(backend: Backend, fake: &FakeWeCom, chats: &[String]) -> anyhow::Result<Self> {
        let redis = backend.redis();
        let (callbacks, admin) = (free_port()?, free_port()?);
        let mut scenario = Scenario::new(fake)?
            .set("server", "listen", callbacks.to_string())
            .set("admin", "listen", admin.to_string())
            .set("sender", "max_chats", CHATS_AT_ONCE)
            .app(APP, app(fake, chats));
        if backend == Backend::EmbeddedUnsynced {
            scenario = scenario.set("store", "fsync", false);
        }
        if let Some(redis) = &redis {
            scenario = scenario.on_redis(redis.url().expose());
        }
        let config = scenario.write()?;
        let process = Process::gateway(&config, &config.with_file_name("gateway.log"))?;
        let http = reqwest::Client::builder().no_proxy().build()?;
        let mut gateway = Self { process, redis, http, callbacks, admin, _scenario: scenario };
        let began = Instant::now();
        while !gateway.is_ready().await {
            if gateway.process.has_ended() || began.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(config.with_file_name("gateway.log")).unwrap_or_default();
                bail!("the gateway does not start: {log}");
            }
            tokio::time::sleep(LOOK / 10).await;
        }
        Ok(gateway)
    }

    async fn is_ready(&self) -> bool {
        let answer = self.http.get(format!("http://{}/readyz", self.admin)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    pub async fn counts(&self) -> anyhow::Result<Counts> {
        let answer = self.http.get(format!("http://{}/metrics", self.admin)).send().await?;
        let text = answer.error_for_status()?.text().await.context("/metrics")?;
        Ok(Counts::read(&text))
    }

    pub async fn cpu(&self) -> anyhow::Result<Cpu> {
        let redis = match &self.redis {
            Some(redis) => redis_cpu(&redis.command::<String>(&["INFO", "cpu"]).await),
            None => Duration::ZERO,
        };
        Ok(Cpu { gateway: self.process.cpu()?, redis })
    }

    /// Waits until every message is handled, so many replies are delivered, and nothing waits any more.
    pub async fn until_done(&self, replies: u64) -> anyhow::Result<Counts> {
        let began = Instant::now();
        loop {
            let counts = self.counts().await?;
            let handled = counts.in_lanes == 0 && counts.handled >= counts.stored;
            if handled && counts.out_lanes == 0 && counts.delivered >= replies {
                return Ok(counts);
            }
            if began.elapsed() > PATIENCE {
                bail!("not done {} s after the load: {counts:?}, {replies} replies", PATIENCE.as_secs());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Counts {
    fn read(metrics: &str) -> Self {
        let mut counts = Self::default();
        for line in metrics.lines().filter_map(|line| line.strip_prefix("wecom_gateway_")) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let is = |label: &str| labels.contains(label);
            let sum = match name {
                "callbacks_total" if is("result=\"stored\"") => &mut counts.stored,
                "callbacks_total" => &mut counts.not_stored,
                "messages_total" => &mut counts.handled,
                "sends_total" if is("verdict=\"delivered\"") => &mut counts.delivered,
                "sends_total" => &mut counts.not_delivered,
                "store_errors_total" => &mut counts.store_errors,
                "depth" if is("kind=\"in_lanes\"") => &mut counts.in_lanes,
                "depth" if is("kind=\"out_lanes\"") => &mut counts.out_lanes,
                "depth" if is("kind=\"journal\"") => &mut counts.journal,
                _ => continue,
            };
            *sum += value;
        }
        counts
    }
}

/// `used_cpu_sys` and `used_cpu_user` of `INFO cpu`: the server with all its threads.
fn redis_cpu(info: &str) -> Duration {
    let seconds = info.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        matches!(name, "used_cpu_sys" | "used_cpu_user").then(|| value.trim().parse::<f64>().ok())?
    });
    Duration::from_secs_f64(seconds.sum())
}
