//! Who consumes the tasks: processes of the plain loop, or gateways. They are killed with `kill -9`, and gone with their handle.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use tempfile::TempDir;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{FakeWeCom, Scenario};

use crate::course::PARTITIONS;
use crate::plain_loop::PlainLoop;
use crate::process::{Process, cpu_of};
use crate::redis_server::RedisServer;
use crate::tasks::APP;
use crate::topics::Topics;

/// As `demo`: robots that take their time must not set the pace.
pub const MANY: usize = 64;
/// Who dies is noticed soon.
const OPTIONS: [(&str, &str); 2] = [("session.timeout.ms", "3000"), ("heartbeat.interval.ms", "500")];

/// Where a gateway keeps its lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// SQLite, each write synced.
    Embedded,
    /// Redis with an append-only file, synced every second.
    Redis,
}

/// How tasks are consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the plain loop, a commit after so many records.
    Plain { commit_every: usize },
    /// By gateways that each send to so many chats at once.
    Gateway { backend: Backend, at_once: usize },
}

impl Way {
    /// How many requests each process may have under way.
    pub fn at_once(self, processes: usize) -> usize {
        match self {
            Self::Plain { .. } => PARTITIONS.div_ceil(processes),
            Self::Gateway { at_once, .. } => at_once,
        }
    }
}

/// The processes of one run.
pub struct Consumers {
    places: Vec<(Place, Process)>,
    redis: Option<RedisServer>,
    _records: TempDir,
}

/// What a process is started with, now and after its death.
enum Place {
    Plain(String),
    Gateway { config: PathBuf, _folder: Scenario },
}

impl Place {
    fn start(&self) -> anyhow::Result<Process> {
        match self {
            Self::Plain(settings) => Ok(Process::of_this_program(&["--consume", settings])?.0),
            Self::Gateway { config, .. } => Process::gateway(config, &config.with_file_name("gateway.log")),
        }
    }
}

impl Consumers {
    /// Starts so many processes of this way.
    pub fn start(
        way: Way,
        processes: usize,
        fake: &FakeWeCom,
        chats: &[String],
        topics: &Topics,
    ) -> anyhow::Result<Self> {
        let records = tempfile::tempdir()?;
        let redis = matches!(way, Way::Gateway { backend: Backend::Redis, .. })
            .then(|| RedisServer::spawn(&["--appendonly", "yes", "--appendfsync", "everysec"]));
        let app = app(fake, chats);
        let mut places = Vec::new();
        for _ in 0..processes {
            let place = match way {
                Way::Plain { commit_every } => {
                    let settings = plain(fake, topics, commit_every, way.at_once(processes));
                    Place::Plain(serde_json::to_string(&settings)?)
                }
                Way::Gateway { at_once, .. } => {
                    let url = format!("sqlite://{}", records.path().join("records.db").display());
                    let scenario = gateway(fake, topics, app.clone(), at_once)?.set("database", "url", url);
                    let scenario = match &redis {
                        Some(redis) => scenario.on_redis(redis.url().expose()),
                        None => scenario,
                    };
                    let config = scenario.write()?;
                    Place::Gateway { config, _folder: scenario }
                }
            };
            let process = place.start()?;
            places.push((place, process));
        }
        Ok(Self { places, redis, _records: records })
    }

    /// `kill -9`, and whoever looks after the process starts it again.
    pub fn kill(&mut self, place: usize) -> anyhow::Result<()> {
        if let Some((place, process)) = self.places.get_mut(place) {
            process.kill();
            *process = place.start()?;
        }
        Ok(())
    }

    /// An error where a process ended by itself.
    pub fn run_on(&mut self) -> anyhow::Result<()> {
        ensure!(!self.places.iter_mut().any(|(_, process)| process.has_ended()), "a consumer ended by itself");
        Ok(())
    }

    /// CPU time used so far, by those that run.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        self.places.iter().map(|(_, process)| process.cpu()).sum()
    }

    /// … and by their Redis.
    pub fn redis_cpu(&self) -> anyhow::Result<Duration> {
        let pid = self.redis.as_ref().and_then(RedisServer::pid);
        pid.map_or(Ok(Duration::ZERO), |pid| cpu_of(&pid.to_string()))
    }
}

fn plain(fake: &FakeWeCom, topics: &Topics, commit_every: usize, consumers: usize) -> PlainLoop {
    PlainLoop {
        brokers: topics.brokers.clone(),
        topic: topics.tasks.clone(),
        group: topics.tasks.clone(),
        options: OPTIONS.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        wecom: fake.base(),
        consumers,
        commit_every,
    }
}

/// With a robot of `fake` in each chat, at the pace that WeCom allows.
fn app(fake: &FakeWeCom, chats: &[String]) -> Value {
    let mut app = robot_app(fake, APP, chats);
    app["chats_default"] = json!({});
    app
}

fn gateway(fake: &FakeWeCom, topics: &Topics, app: Value, at_once: usize) -> anyhow::Result<Scenario> {
    let scenario = Scenario::new(fake)?.app(APP, app).set("sender", "max_chats", at_once);
    let scenario = topics.read_by(scenario);
    Ok(scenario.set("kafka", "options", Value::from_iter(OPTIONS)))
}
