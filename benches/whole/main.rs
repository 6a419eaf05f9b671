//! The whole gateway under load on one machine, in one run: `scripts/bench`, or `cargo bench --bench whole [-- --quick]`.
//!
//! Ratios are what counts: absolute figures belong to the machine and its mood, so everything is measured in rounds,
//! each cell once a round, and compared within its round. The gateway is the real binary with its default settings in a
//! process of its own, its log written to a file. Always: a figure is printed only if every request behind it was
//! answered with a 2xx and every acked message came to its end; whatever else happens ends the run with an error.
//!
//! wrk (one thread) posts; nothing is pinned to a core. Its CPU is part of what the machine does, for every row alike.

#![allow(clippy::expect_used, clippy::panic, reason = "shared with the tests' redis-server, which asserts")]

mod end_to_end;
mod gateway;
mod machine;
mod process;
#[path = "../../tests/it/redis_server.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the tests need more of it")]
mod redis_server;
mod report;
mod requests;
mod serve;
mod wrk;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use mimalloc::MiMalloc;
use tempfile::TempDir;
use wecom_gateway::sim::{FakeWeCom, Options};

use end_to_end::EndToEnd;
use gateway::{Backend, Cpu, Gateway};
use machine::{Machine, REDIS, RUSTC, WRK};
use requests::{Callback, RequestFile, Spread, Words};
use serve::Role;
use wrk::{Reuse, Shot, shoot};

/// The gateway's own: what it is measured against has it too.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Connections that callbacks come over.
const CONNECTIONS: [usize; 2] = [64, 512];
/// Chats and members that acked callbacks are spread over.
const SPREAD: Spread = Spread { chats: 1000, members: 10 };
/// Requests that servers get again and again which don't mind.
const SAMPLE: usize = 20_000;
/// Most messages a second that are prepared for a run end to end.
const END_TO_END_RATE: usize = 12_000;

/// The gateway under load: ratios first, then figures, as Markdown.
#[derive(Debug, Parser)]
struct Arguments {
    /// One short round instead of three.
    #[arg(long)]
    quick: bool,
    /// One part alone, a line a round: for a look at what a change does.
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Be one of the servers that the gateway is measured against.
    #[arg(long, hide = true, value_enum)]
    serve: Option<Role>,
    /// cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    rounds: usize,
    /// Of one run of wrk, and of one end to end.
    seconds: u64,
    end_to_end_seconds: u64,
}

impl Plan {
    fn of(quick: bool) -> Self {
        match quick {
            true => Self { rounds: 1, seconds: 2, end_to_end_seconds: 3 },
            false => Self { rounds: 3, seconds: 3, end_to_end_seconds: 4 },
        }
    }
}

/// What can be looked at alone.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Part {
    /// Callbacks over 64 connections: bare axum, the embedded store, Redis everysec.
    Acks,
    /// From callback to reply, on every store.
    EndToEnd,
}

/// One row of callbacks: who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answerer {
    Plain,
    Opened,
    Gateway(Backend),
}

/// What answering so many callbacks took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub shot: Shot,
    /// Until the last message was handled.
    pub cpu: Cpu,
    /// Messages stored but not yet handled, and journal lines not yet recorded, when the load ended.
    pub waiting: u64,
    pub journal: u64,
}

/// All that was measured, a value a round.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub callbacks: BTreeMap<(Answerer, usize), Vec<Answered>>,
    pub end_to_end: BTreeMap<(Words, Backend), Vec<EndToEnd>>,
    pub robots: Vec<Answered>,
}

/// The prepared requests.
struct Prepared {
    folder: TempDir,
    /// For servers that take a request twice.
    sample: RequestFile,
    /// For the gateway, each at most once a run; made when it is known how many can be needed at most.
    distinct: Option<RequestFile>,
    posts: RequestFile,
    end_to_end: BTreeMap<Words, Arc<Vec<Callback>>>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // An error says that the process has one already, which will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let plan = Plan::of(arguments.quick);
        match (arguments.serve, arguments.only) {
            (Some(role), _) => serve::serve(role).await,
            (None, Some(part)) => look(part, plan).await,
            (None, None) => measure(plan).await,
        }
    })
}

async fn look(part: Part, plan: Plan) -> anyhow::Result<()> {
    let (mut prepared, mut measured) = (Prepared::new(plan)?, Measured::default());
    for _ in 0..plan.rounds {
        match part {
            Part::Acks => acks_alone(plan, &mut prepared).await?,
            Part::EndToEnd => end_to_end_round(plan, &prepared, &mut measured).await?,
        }
    }
    Ok(())
}

async fn acks_alone(plan: Plan, prepared: &mut Prepared) -> anyhow::Result<()> {
    let plain = against(Role::Plain, CONNECTIONS[0], plan, &prepared.sample)?.shot.rate();
    eprint!("bare axum {plain:.0}");
    let distinct = prepared.distinct(plain, plan.seconds)?;
    for backend in [Backend::Embedded, Backend::RedisEverysec] {
        let Answered { shot, waiting, .. } = acked(backend, CONNECTIONS[0], plan.seconds, distinct).await?;
        let (name, rate) = (backend.as_str(), shot.rate());
        eprint!("; {name} {rate:.0}, {:.2} of it, {waiting} waiting", rate / plain);
    }
    eprintln!();
    Ok(())
}

async fn measure(plan: Plan) -> anyhow::Result<()> {
    let (machine, mut measured) = (Machine::look(&[RUSTC, REDIS, WRK])?, Measured::default());
    let mut prepared = Prepared::new(plan)?;
    for round in 1..=plan.rounds {
        eprintln!("round {round} of {}", plan.rounds);
        callbacks_round(plan, &mut prepared, &mut measured).await?;
        end_to_end_round(plan, &prepared, &mut measured).await?;
        measured.robots.push(against(Role::Robots, CONNECTIONS[0], plan, &prepared.posts)?);
    }
    print!("{}", report::markdown(plan, &machine, &measured));
    Ok(())
}

impl Prepared {
    fn new(plan: Plan) -> anyhow::Result<Self> {
        let (folder, crypto) = (tempfile::tempdir()?, requests::crypto()?);
        let bytes = |callback: Callback| callback.request;
        let sample = requests::callbacks(crypto.clone(), Words::Chatter, SPREAD, SAMPLE).map(bytes);
        let count = END_TO_END_RATE * plan.end_to_end_seconds as usize;
        let end_to_end = [Words::Echo, Words::Query].map(|words| {
            (words, requests::callbacks(crypto.clone(), words, end_to_end::SPREAD, count).collect::<Vec<_>>())
        });
        Ok(Self {
            sample: RequestFile::write(&folder.path().join("sample"), sample)?,
            distinct: None,
            posts: RequestFile::write(
                &folder.path().join("posts"),
                requests::webhook_posts(&serve::ROBOTS.chat_ids()),
            )?,
            end_to_end: end_to_end.into_iter().map(|(words, callbacks)| (words, Arc::new(callbacks))).collect(),
            folder,
        })
    }

    /// The file for the gateway, which can't answer more than a server that does nothing.
    fn distinct(&mut self, plain: f64, seconds: u64) -> anyhow::Result<&RequestFile> {
        if self.distinct.is_none() {
            let count = (plain * 1.2) as usize * seconds as usize;
            let callbacks = requests::callbacks(requests::crypto()?, Words::Chatter, SPREAD, count);
            let path = self.folder.path().join("distinct");
            self.distinct = Some(RequestFile::write(&path, callbacks.map(|callback| callback.request))?);
        }
        self.distinct.as_ref().context("it was just made")
    }
}

async fn callbacks_round(plan: Plan, prepared: &mut Prepared, measured: &mut Measured) -> anyhow::Result<()> {
    for connections in CONNECTIONS {
        let mut note = |answerer, answered: Answered| {
            eprintln!("  {answerer:?}, {connections} connections: {:.0} requests/s", answered.shot.rate());
            measured.callbacks.entry((answerer, connections)).or_default().push(answered);
        };
        let plain = against(Role::Plain, connections, plan, &prepared.sample)?;
        note(Answerer::Plain, plain);
        note(Answerer::Opened, against(Role::Opened, connections, plan, &prepared.sample)?);
        let distinct = prepared.distinct(plain.shot.rate(), plan.seconds)?;
        let careless: &[Backend] = if connections == CONNECTIONS[0] { &Backend::CARELESS } else { &[] };
        for backend in Backend::ALL.iter().chain(careless).copied() {
            let answered = acked(backend, connections, plan.seconds, distinct).await;
            note(Answerer::Gateway(backend), answered.with_context(|| format!("{backend:?}, {connections}"))?);
        }
    }
    Ok(())
}

/// One of the servers that do less.
fn against(role: Role, connections: usize, plan: Plan, file: &RequestFile) -> anyhow::Result<Answered> {
    let (server, address) = role.in_a_process()?;
    let before = server.cpu()?;
    let shot = shoot(address, connections, plan.seconds, file, Reuse::RoundAndRound)?;
    let cpu = Cpu { gateway: server.cpu()? - before, redis: Duration::ZERO };
    Ok(Answered { shot, cpu, waiting: 0, journal: 0 })
}

/// Durable acks of the whole gateway, whose workers handle what comes meanwhile.
async fn acked(backend: Backend, connections: usize, seconds: u64, file: &RequestFile) -> anyhow::Result<Answered> {
    // Nobody gets a reply here; the configuration wants a WeCom all the same.
    let fake = FakeWeCom::start(Options::default()).await?;
    let gateway = Gateway::start(backend, &fake, &[]).await?;
    let before = gateway.cpu().await?;
    let shot = shoot(gateway.callbacks, connections, seconds, file, Reuse::Never)?;
    let at_end = gateway.counts().await?;
    let handled = gateway.until_done(0).await?;
    let after = gateway.cpu().await?;
    // wrk goes without waiting for the answers under way: at most one more a connection was stored.
    let most = shot.requests + connections as u64;
    ensure!(at_end.stored >= shot.requests, "{} acks, but only {} stored", shot.requests, at_end.stored);
    ensure!(
        (shot.requests..=most).contains(&handled.handled) && handled.not_stored + handled.store_errors == 0,
        "{} acks do not fit {handled:?}",
        shot.requests
    );
    let cpu = Cpu { gateway: after.gateway - before.gateway, redis: after.redis - before.redis };
    Ok(Answered { shot, cpu, waiting: at_end.stored.saturating_sub(at_end.handled), journal: at_end.journal })
}

async fn end_to_end_round(plan: Plan, prepared: &Prepared, measured: &mut Measured) -> anyhow::Result<()> {
    for (words, callbacks) in &prepared.end_to_end {
        for backend in Backend::ALL {
            let run = end_to_end::run(backend, plan.end_to_end_seconds, callbacks).await;
            let run = run.with_context(|| format!("end to end, {words:?}, {backend:?}"))?;
            eprintln!("  end to end, {words:?}, {backend:?}: {:.0} messages/s", run.summary.throughput());
            measured.end_to_end.entry((*words, backend)).or_default().push(run);
        }
    }
    Ok(())
}
