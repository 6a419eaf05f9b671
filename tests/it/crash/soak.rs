//! The soak: gateways and Redis are killed under load, over and over, and in the end every message is accounted for.
//!
//! An ordinary test that takes about half a minute a store; `scripts/soak` makes it as long as wanted by the variables that
//! [`Soak::asked_for`] reads. What happens when is counted in events and drawn from a seed, which is printed: the same seed
//! kills at the same counts (the machine still decides what stands where at that instant).
//!
//! WeCom pushes again what has no 200 within its patience, three times, on another connection. What was never acknowledged
//! may be lost, and is counted; what was may not.

use std::fmt;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use wecom_gateway::model::now_ms;
use wecom_gateway::sim::{Options, WorkTime, caller};

use super::fleet::{Fleet, Setup, chats};
use super::traffic::Traffic;
use super::verdict::{Verdict, judge};
use crate::world::On;

/// How long a member waits for an answer at most: longer than what a death leaves lies still.
const MEMBERS_WAIT: Duration = Duration::from_secs(15);
/// How long nothing may move before the verdict falls.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long Redis is away, in ms.
const OUTAGE: std::ops::Range<u64> = 20..1200;

/// How much of what.
#[derive(Clone, Copy, Debug)]
struct Soak {
    on: On,
    gateways: usize,
    messages: u64,
    kills: usize,
    redis_kills: usize,
    seed: u64,
    chats: usize,
}

/// What it came to.
struct Report {
    soak: Soak,
    took: Duration,
    verdict: Verdict,
}

#[derive(Clone, Copy)]
enum Victim {
    Gateway,
    Redis,
}

/// `SOAK_…`, where it is set.
fn asked<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(format!("SOAK_{name}")).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("SOAK_{name}={text:?} is no number")))
}

/// The seed of this run: the one that was asked for, else a new one.
pub fn seed() -> u64 {
    let seed = asked("SEED").unwrap_or_else(|| rand::rng().random_range(0..1_000_000));
    println!("SOAK_SEED={seed}");
    seed
}

impl Soak {
    /// What the environment says, over what CI has time for.
    fn asked_for(self) -> Self {
        Self {
            gateways: asked("GATEWAYS").unwrap_or(self.gateways),
            messages: asked("MESSAGES").unwrap_or(self.messages),
            kills: asked("KILLS").unwrap_or(self.kills),
            redis_kills: asked("REDIS_KILLS").unwrap_or(self.redis_kills),
            chats: asked("CHATS").unwrap_or(self.chats),
            ..self
        }
    }

    async fn run(self) -> Report {
        let began = Instant::now();
        let work = WorkTime { seed: self.seed, from: Duration::from_millis(1), to: Duration::from_millis(40) };
        let latency = Duration::from_millis(8);
        let fake = Options { latency, work: Some(work), forget: true, ..Options::default() };
        let (chats, default) = (chats(self.chats), Setup::new(self.on));
        // Redis is away for a while, too: a settle must outlast that.
        let (lease, push_again) = (default.lease.max(Duration::from_secs(5)), caller::RETRY_AFTER);
        let setup = Setup { gateways: self.gateways, chats: chats.clone(), fake, lease, push_again, ..default };
        let mut fleet = Fleet::started(setup).await;
        let Self { messages, seed, .. } = self;
        let traffic = Traffic { messages, chats, members: 3, seed, patience: MEMBERS_WAIT, after: 0 }.begin(&fleet);
        let traffic = tokio::spawn(traffic);
        let deaths = self.kill_all(&mut fleet).await;
        let posted = traffic.await.expect("members don't panic");
        let verdict = judge(&fleet, &posted, &deaths, PATIENCE).await;
        fleet.end().await;
        Report { soak: self, took: began.elapsed(), verdict }
    }

    /// Kills one after the other, spread over the messages; when gateways died.
    async fn kill_all(&self, fleet: &mut Fleet) -> Vec<i64> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut victims = [vec![Victim::Gateway; self.kills], vec![Victim::Redis; self.redis_kills]].concat();
        victims.shuffle(&mut rng);
        let mut deaths = Vec::new();
        let share = self.messages / (victims.len() as u64 + 1);
        for (n, victim) in (0..).zip(victims) {
            self.until_its_time(fleet, n * share + share / 2 + rng.random_range(0..=share / 2), &mut rng).await;
            match victim {
                Victim::Redis => fleet.kill_redis(Duration::from_millis(rng.random_range(OUTAGE))).await,
                Victim::Gateway => {
                    let place = rng.random_range(0..fleet.size());
                    fleet.kill(place);
                    // After its end, so that all it did was before.
                    deaths.push(now_ms());
                    if fleet.size() > 1 && rng.random() {
                        // The others carry on alone for a while.
                        let acked = fleet.fake.ledger().progress().acked + rng.random_range(1..=share / 4 + 1);
                        fleet.fake.until(|fake| fake.ledger().progress().acked >= acked).await;
                    }
                    fleet.start(place, None).await;
                }
            }
        }
        deaths
    }

    /// So many messages were posted, and then so many steps of one kind were seen.
    async fn until_its_time(&self, fleet: &Fleet, posted: u64, rng: &mut StdRng) {
        fleet.fake.until(|fake| fake.ledger().progress().posted >= posted).await;
        let (kind, steps) = (rng.random_range(0..3), rng.random_range(1..=8));
        let seen = || {
            let progress = fleet.fake.ledger().progress();
            [progress.acked, progress.replies, fleet.fake.service().count() as u64][kind]
        };
        let from = seen();
        fleet.fake.until(|_| seen() >= from + steps).await;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Soak { on, gateways, kills, redis_kills, seed, chats, .. } = self.soak;
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        let (on, took) = (format!("{on:?}").to_lowercase(), self.took.as_secs());
        writeln!(f, "soak: {on}, {gateways} gateway(s), {chats} chats, seed {seed}, {build} build, {took} s\n")?;
        writeln!(f, "{:<28}{kills:>9}", "gateways killed (kill -9)")?;
        if let On::Redis = self.soak.on {
            writeln!(f, "{:<28}{redis_kills:>9}   appendfsync always", "Redis killed (kill -9)")?;
        }
        write!(f, "{}", self.verdict)
    }
}

/// Runs what is asked for, shows its table, and fails where a promise was broken.
async fn soak(default: Soak) {
    let soak = default.asked_for();
    let bound = Duration::from_secs(120) + Duration::from_millis(20) * u32::try_from(soak.messages).unwrap();
    let bound = bound + Duration::from_secs(10) * (soak.kills + soak.redis_kills) as u32;
    let report = tokio::time::timeout(bound, soak.run()).await.expect("within its time");
    println!("{report}");
    report.verdict.assert_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded() {
    let (on, gateways, kills, redis_kills) = (On::Embedded, 1, 12, 0);
    soak(Soak { on, gateways, messages: 3000, kills, redis_kills, seed: seed(), chats: 30 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis() {
    let (on, gateways, kills, redis_kills) = (On::Redis, 2, 8, 4);
    soak(Soak { on, gateways, messages: 3000, kills, redis_kills, seed: seed(), chats: 30 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_gateway_on_redis() {
    let (on, gateways, kills, redis_kills) = (On::Redis, 1, 4, 1);
    let soak = Soak { on, gateways, messages: 600, kills, redis_kills, seed: seed(), chats: 20 };
    let report = tokio::time::timeout(crate::world::TEST, soak.run()).await.expect("within its time");
    println!("{report}");
    report.verdict.assert_clean();
}
