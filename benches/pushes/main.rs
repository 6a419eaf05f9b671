//! Pushes from Kafka beside the plain consumer loop, in one run on one machine: `scripts/push-bench`, or
//! `cargo bench --bench pushes [-- --quick]`.
//!
//! The same tasks lie in a real broker's topic and go out by the same fake WeCom; only who consumes them differs: the plain loop
//! (`tests/it/plain_loop.rs`), or gateways with what they are by default but for how many chats they send to at once. Each is processes of
//! its own. Calm: how fast, and at what cost. Rough: consumers are killed and the broker is restarted meanwhile; what came twice or not at
//! all is counted at the fake WeCom. Always: a gateway that sends twice, loses a task, or tells it wrong, ends the run with an error.

#![allow(clippy::expect_used, clippy::panic, reason = "shared with the tests' servers, which assert")]

mod consumers;
mod course;
#[path = "../../tests/it/kafka_broker.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod kafka_broker;
#[path = "../whole/machine.rs"]
#[allow(dead_code, reason = "the other bench needs more of it")]
mod machine;
#[path = "../../tests/it/plain_loop.rs"]
mod plain_loop;
#[path = "../whole/process.rs"]
#[allow(dead_code, reason = "the other bench needs more of it")]
mod process;
#[path = "../../tests/it/redis_server.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the tests need more of it")]
mod redis_server;
mod report;
#[path = "../../tests/it/kafka/tally.rs"]
mod tally;
mod tasks;
#[path = "../../tests/it/kafka/topics.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "the tests need more of it")]
mod topics;

use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Parser;
use mimalloc::MiMalloc;

use consumers::{Backend, Way};
use course::{Course, Run};
use kafka_broker::KafkaBroker;
use machine::{Machine, REDIS, RUSTC};
use plain_loop::PlainLoop;

/// The gateway's own: what it is compared with has it too.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Tasks of one run, and of a quick one.
const TASKS: usize = 20_000;
const FEW: usize = 2_000;

/// Pushes from Kafka beside the plain consumer loop: ratios first, then figures, as Markdown.
#[derive(Debug, Parser)]
struct Arguments {
    /// 2,000 tasks instead of 20,000.
    #[arg(long)]
    quick: bool,
    /// Be a process of the plain loop; JSON.
    #[arg(long, hide = true)]
    consume: Option<String>,
    /// cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// All that was measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub calm: Vec<(Way, Run)>,
    pub rough: Vec<(Way, Run)>,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    if let Some(settings) = arguments.consume {
        println!("consumes");
        return serde_json::from_str::<PlainLoop>(&settings).context("--consume")?.run();
    }
    // An error says that the process has one already, which will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(if arguments.quick { FEW } else { TASKS }))
}

async fn measure(tasks: usize) -> anyhow::Result<()> {
    let (machine, mut measured) = (Machine::look(&[RUSTC, REDIS])?, Measured::default());
    let mut broker = KafkaBroker::alone().await;
    let [plain, in_batches] = [1, 10].map(|commit_every| Way::Plain { commit_every });
    let gateway = |backend, at_once| Way::Gateway { backend, at_once };
    let calm = [
        plain,
        in_batches,
        gateway(Backend::Embedded, course::PARTITIONS),
        gateway(Backend::Embedded, consumers::MANY),
        gateway(Backend::Redis, consumers::MANY),
    ];
    for way in calm {
        let run = course::run(&mut broker, Course { way, processes: 1, tasks, is_rough: false }).await;
        let run = run.with_context(|| format!("{way:?}, calm"))?;
        eprintln!("  calm, {way:?}: {:.0} tasks/s", run.rate());
        measured.calm.push((way, run));
    }
    for way in [plain, in_batches, gateway(Backend::Redis, course::PROCESSES)] {
        let run = course::run(&mut broker, Course { way, processes: course::PROCESSES, tasks, is_rough: true }).await;
        let run = run.with_context(|| format!("{way:?}, rough"))?;
        eprintln!("  rough, {way:?}: {:?}", run.tally);
        measured.rough.push((way, run));
    }
    print!("{}", report::markdown(tasks, &machine, &measured));
    let all = measured.calm.iter().chain(&measured.rough);
    let kept = all.filter(|(way, _)| matches!(way, Way::Gateway { .. })).all(|(_, run)| run.tally.is_kept());
    ensure!(kept, "a gateway broke a promise, see above");
    Ok(())
}
