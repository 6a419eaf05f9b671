//! `demo`: a whole gateway in this process, a fake WeCom on loopback that sends it real encrypted callbacks, and a table of
//! what came of them.
//!
//! The gateway is the real one, configured by files in a temporary folder; the figures are counted from outside, by the
//! fake's [`Ledger`]. Nothing is left behind.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use super::{Failure, runtime};
use crate::app::App;
use crate::config::settings::{AppKind, Log, LogFormat, Settings};
use crate::sim::scenario::robot_app;
use crate::sim::{self, Caller, FakeWeCom, Ledger, Load, Scenario, Summary};
use crate::telemetry::logs;

/// How long the demo waits without any progress before what is missing counts as lost.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a robot of the fake takes to answer.
const ROBOT_LATENCY: Duration = Duration::from_millis(5);
/// Chats that the gateway sends to at once: a robot that takes its time must not set the pace of the demo.
const CHATS_AT_ONCE: usize = 64;
/// The one app of the demo.
const APP: &str = "demo";

/// What `demo` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Chats that the messages are spread over.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=9999))]
    chats: u32,
    /// Messages to send; doubles and late copies come on top.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..))]
    messages: u32,
    /// Same seed, same messages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the gateway up afterwards, until Ctrl-C.
    #[arg(long)]
    stay: bool,
    /// Keep lanes in this Redis instead of the embedded store; its database must be empty and is emptied again.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
}

/// Runs the demo; a promise that was not kept is a failure.
pub(super) fn run(options: Options) -> Result<(), Failure> {
    // Blocked words are among the load, each with a warning.
    let quiet = Log { format: LogFormat::Auto, level: "error".into() };
    logs::init(&quiet).map_err(Failure::running)?;
    let kept = runtime()?.block_on(async {
        let redis = match &options.redis {
            Some(url) => Some(EmptyRedis::take(url).await?),
            None => None,
        };
        let kept = on_store(&options).await;
        if let Some(redis) = redis {
            redis.give_back().await?;
        }
        kept
    });
    match kept {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::running("a promise was not kept, see above")),
        // The whole chain of causes, on one line.
        Err(error) => Err(Failure::running(format!("{error:#}"))),
    }
}

async fn on_store(options: &Options) -> anyhow::Result<bool> {
    let load = Load {
        messages: options.messages as usize,
        chats: options.chats as usize,
        seed: options.seed,
        ..Load::default()
    };
    let fake = FakeWeCom::start(sim::Options {
        latency: ROBOT_LATENCY,
        action_secret: Some("demo-action-secret".into()),
        forget: true,
        ..sim::Options::default()
    })
    .await
    .context("the fake WeCom can't listen on loopback")?;
    let (scenario, settings) = configure(options, &load, &fake)?;
    let crypto = match settings.apps.get(APP).map(|app| &app.kind) {
        Some(AppKind::GroupRobot(crypto)) => crypto.clone(),
        _ => bail!("the demo's own app is missing from its settings"),
    };
    let app = App::start(settings).await.context("the gateway of the demo can't start")?;
    let caller = Caller::new(format!("http://{}/callback/{APP}", app.callback_addr()), crypto)?;

    let ledger = Arc::clone(fake.ledger());
    let finished = tokio::select! {
        () = drive(&load, &caller, &ledger) => true,
        _ = tokio::signal::ctrl_c() => false,
    };
    if finished {
        print!("{}", table(options, &ledger.summary()));
        complain(&ledger);
    }
    if finished && options.stay {
        eprintln!("the gateway stays up: http://{} (Ctrl-C ends it)", app.admin_addr());
        tokio::signal::ctrl_c().await.context("can't wait for Ctrl-C")?;
    }
    app.stop().await;
    fake.stop().await;
    drop(scenario);
    if !finished {
        bail!("interrupted before the end");
    }
    let summary = ledger.summary();
    Ok(summary.kept() && summary.progress.acked == u64::from(options.messages))
}

/// The gateway's settings, read from files as a user's are, and the folder that holds them.
fn configure(options: &Options, load: &Load, fake: &FakeWeCom) -> anyhow::Result<(Scenario, Settings)> {
    let mut scenario = Scenario::new(fake)
        .context("no temporary folder")?
        .set("sender", "max_chats", CHATS_AT_ONCE)
        .app(APP, robot_app(fake, APP, &load.chat_ids()));
    if let Some(url) = &options.redis {
        scenario = scenario.on_redis(url);
    }
    let path = scenario.write().context("can't write the demo's configuration")?;
    let settings = crate::config::load(&path).context("the demo's own configuration")?;
    Ok((scenario, settings))
}

/// Posts the load and waits for the replies, showing how far it is.
async fn drive(load: &Load, caller: &Caller, ledger: &Arc<Ledger>) {
    let progress = ProgressLine::new(load.messages as u64);
    let run = async {
        tokio::select! {
            () = load.run(caller, ledger) => {}
            () = ledger.stalled(PATIENCE) => return,
        }
        ledger.all_answered(PATIENCE).await;
    };
    tokio::pin!(run);
    let mut tick = tokio::time::interval(progress.every());
    loop {
        tokio::select! {
            () = &mut run => break,
            _ = tick.tick() => progress.show(ledger),
        }
    }
    progress.show(ledger);
    progress.end();
}

/// How far the load is, on stderr: one line that moves on a terminal, a line now and then elsewhere.
struct ProgressLine {
    messages: u64,
    terminal: bool,
}

impl ProgressLine {
    fn new(messages: u64) -> Self {
        Self { messages, terminal: std::io::stderr().is_terminal() }
    }
    fn every(&self) -> Duration {
        Duration::from_millis(if self.terminal { 100 } else { 2000 })
    }
    fn show(&self, ledger: &Ledger) {
        let p = ledger.progress();
        let share = 100 * p.posted / self.messages.max(1);
        let line = format!(
            "{share:3} %  {} of {} messages posted, {} copies, {} replies, {} under way",
            p.posted, self.messages, p.copies, p.replies, p.missing
        );
        // A closed stderr is no reason to stop.
        let mut stderr = std::io::stderr().lock();
        let _ = match self.terminal {
            true => write!(stderr, "\r{line}\x1b[K"),
            false => writeln!(stderr, "{line}"),
        };
    }
    fn end(&self) {
        if self.terminal {
            eprintln!();
        }
    }
}

/// The figures, a line each.
fn table(options: &Options, summary: &Summary) -> String {
    let p = &summary.progress;
    let ms = |d: Duration| format!("{:.1} ms", d.as_secs_f64() * 1000.0);
    let must_be_0 = |n: u64| if n == 0 { "0".to_owned() } else { format!("{n}  (must be 0)") };
    let rows = [
        ("messages", options.messages.to_string()),
        ("messages taken", p.acked.to_string()),
        ("copies sent", p.copies.to_string()),
        ("duplicates stopped", p.copies.saturating_sub(summary.repeated).to_string()),
        ("replies", p.replies.to_string()),
        ("replies out of place", must_be_0(summary.misrouted)),
        ("replies repeated", must_be_0(summary.repeated)),
        ("replies out of order", must_be_0(summary.out_of_order)),
        ("replies lost", must_be_0(p.missing)),
        ("messages not taken", must_be_0(u64::from(options.messages) - p.acked)),
        ("other faults", must_be_0(summary.other)),
        ("latency, mean", ms(summary.mean)),
        ("latency, P95", ms(summary.p95)),
        ("latency, P99", ms(summary.p99)),
        ("time", format!("{:.1} s", summary.took.as_secs_f64())),
        ("throughput", format!("{:.0} messages/s", summary.throughput())),
    ];
    let store = if options.redis.is_some() { "redis" } else { "embedded" };
    let (chats, seed) = (options.chats, options.seed);
    let mut text =
        format!("{chats} chats, seed {seed}, {store} store; a robot takes {} to answer\n\n", ms(ROBOT_LATENCY));
    for (label, value) in rows {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{label:<22}{value:>10}");
    }
    text
}

/// The first few of what went wrong, on stderr.
fn complain(ledger: &Ledger) {
    const SHOWN: usize = 10;
    let violations = ledger.violations();
    violations.iter().take(SHOWN).for_each(|violation| eprintln!("broken: {violation}"));
    if violations.len() > SHOWN {
        eprintln!("broken: … and {} more", violations.len() - SHOWN);
    }
    ledger.lost(SHOWN).iter().for_each(|tag| eprintln!("lost: no reply to {tag}"));
}

/// A Redis database that held nothing when the demo began, so that all it holds at the end is the demo's.
struct EmptyRedis {
    connection: redis::aio::MultiplexedConnection,
}

impl EmptyRedis {
    /// Refuses a database that holds anything: it may be a real gateway's.
    async fn take(url: &str) -> anyhow::Result<Self> {
        // The address may hold a password and is not repeated.
        let client = redis::Client::open(url).map_err(|_| anyhow::anyhow!("--redis: not a redis:// address"))?;
        let mut connection =
            client.get_multiplexed_async_connection().await.context("--redis: the server can't be reached")?;
        let keys: u64 = redis::cmd("DBSIZE").query_async(&mut connection).await.context("--redis: DBSIZE failed")?;
        if keys > 0 {
            bail!("--redis: the database holds {keys} keys; name an empty one, such as redis://host:6379/9");
        }
        Ok(Self { connection })
    }

    /// Removes the gateway's keys.
    async fn give_back(mut self) -> anyhow::Result<()> {
        let mut cursor: u64 = 0;
        loop {
            let scan = redis::cmd("SCAN").arg(cursor).arg("MATCH").arg("wg:*").arg("COUNT").arg(1000).to_owned();
            let (next, keys): (u64, Vec<String>) =
                scan.query_async(&mut self.connection).await.context("SCAN failed")?;
            if !keys.is_empty() {
                let unlink = redis::cmd("UNLINK").arg(keys).to_owned();
                let _: u64 = unlink.query_async(&mut self.connection).await.context("UNLINK failed")?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_which_promise_broke() {
        let ledger = Ledger::default();
        let tag = crate::sim::Tag::new("c1", "u1", 1);
        ledger.expect(&tag, true);
        ledger.posted(1);
        ledger.acked(1);
        let options = Options { chats: 1, messages: 1, seed: 1, stay: false, redis: None };
        let lost = table(&options, &ledger.summary());
        assert!(lost.contains("replies lost          1  (must be 0)"), "{lost}");
        ledger.replied("c1", &tag.to_string());
        let kept = table(&options, &ledger.summary());
        assert!(!kept.contains("must be") && kept.contains("replies                        1\n"), "{kept}");
    }
}
