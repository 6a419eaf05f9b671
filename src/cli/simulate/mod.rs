//! `simulate`: the load generator and the fake WeCom against a gateway that already runs.
//!
//! It takes token, key, chats and rules from the gateway's own app files, and refuses to begin where it could not see or judge
//! what comes back: webhooks that lead elsewhere, texts whose answers name no message, a gateway with another key.
//! Figures go to stdout, everything else to stderr.

mod apps;
mod report;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

use super::progress::drive;
use super::values::{self, ErrcodeShare, Span};
use super::{Failure, MISCONFIGURED, figures, runtime};
use crate::cli::voice::warn;
use crate::config::settings::{Log, LogFormat};
use crate::model::now_ms;
use crate::sim::caller::VerifyError;
use crate::sim::{self, Answer, Caller, FakeWeCom, Format, Load, Mix, Target, TextMix, WorkTime};
use crate::telemetry::{LogContent, logs};
use apps::LoadedApp;
use report::Report;

/// Where refusals are mixed in, a lane may be parked for a minute; nothing moving for so long is no loss yet.
const PATIENCE_WITH_REFUSALS: Duration = Duration::from_secs(90);

/// What `simulate` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// The gateway, such as http://127.0.0.1:8080.
    #[arg(long, value_name = "URL", value_parser = target)]
    target: Url,
    /// The app's file, as the gateway has it; its webhooks lead to --listen. config/load/apps/load.toml is one.
    #[arg(long = "app", value_name = "FILE", required = true, num_args = 1..)]
    apps: Vec<PathBuf>,
    /// Where the fake WeCom listens.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9800")]
    listen: SocketAddr,
    /// Messages a second, whatever is under way (open loop).
    #[arg(long, value_parser = values::rate, conflicts_with = "under_way")]
    rate: Option<f64>,
    /// Messages under way at once, each until its reply has come (closed loop).
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    under_way: u32,
    /// For so long.
    #[arg(long, default_value = "60s", value_parser = values::duration, conflicts_with = "messages")]
    duration: Duration,
    /// So many messages instead.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    messages: Option<u32>,
    /// Rise to the whole rate, or number under way, within this.
    #[arg(long, default_value = "0s", value_parser = values::duration_or_none)]
    ramp: Duration,
    /// What members write, in shares; there is forbidden= too.
    #[arg(long, default_value = "commands=60,keywords=10,mentions=10,chatter=20")]
    mix: TextMix,
    /// Percentage of messages that come again: half of them twice at once, half later.
    #[arg(long, value_name = "PERCENT", default_value = "15", value_parser = values::percent)]
    copies: f64,
    /// Percentage of messages that come ten times at once.
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = values::percent)]
    storm: f64,
    /// Percentages of sends that the fake refuses, such as 45009=1,-1=0.5.
    #[arg(long, value_name = "CODE=PERCENT", value_delimiter = ',', value_parser = values::errcode, allow_hyphen_values = true)]
    errcodes: Vec<ErrcodeShare>,
    /// How long a robot takes to answer.
    #[arg(long, default_value = "5ms", value_parser = values::duration_or_none)]
    latency: Duration,
    /// How long an action takes, drawn for each message.
    #[arg(long, value_name = "FROM..TO", value_parser = values::span_ms)]
    action_ms: Option<Span>,
    /// Members who write in each chat.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    members: u32,
    /// Same seed, same messages; their ids are new in each run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Callbacks as JSON instead of XML.
    #[arg(long)]
    json_format: bool,
    /// Nothing moving for so long means that what is missing is lost.
    #[arg(long, default_value = "30s", value_parser = values::duration)]
    patience: Duration,
    /// The figures as JSON.
    #[arg(long)]
    json: bool,
    /// Draw latencies over time and their distribution into this file.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
}

/// The gateway's address; its path is of no use here.
fn target(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.path() == "/");
    url.ok_or_else(|| "is no address of a gateway: write scheme, host and port, such as http://127.0.0.1:8080".into())
}

/// Runs the load; a promise that was not kept is a failure.
pub(super) fn run(options: Options) -> Result<(), Failure> {
    let quiet = Log { format: LogFormat::Auto, level: "error".into(), content: LogContent::None };
    let _written = logs::init(&quiet).map_err(Failure::running)?;
    runtime()?.block_on(simulate(&options))
}

async fn simulate(options: &Options) -> Result<(), Failure> {
    let apps = apps::read(&options.apps, options.listen, &options.mix).await.map_err(Failure::usage)?;
    let fake = start_fake(options, &apps).await?;
    let targets = targets(options, &apps).await?;
    let load = load(options);
    let patience = patience(options, &apps);
    let ledger = Arc::clone(fake.ledger());
    let finished = tokio::select! {
        () = drive("", &load, &targets, &ledger, patience) => true,
        _ = tokio::signal::ctrl_c() => false,
    };
    let report = Report { options, load: &load, targets: &targets, ledger: &ledger };
    if !finished {
        warn("");
    }
    report.print(finished)?;
    report.plot()?;
    let summary = ledger.summary();
    fake.stop().await;
    if !finished {
        return Err(Failure::running("interrupted before the end; the figures are of what came until then"));
    }
    figures::complain(&ledger);
    if summary.kept() { Ok(()) } else { Err(Failure::running("a promise was not kept, see above")) }
}

/// How long nothing may move. A lane that waits for its pace, or for the window after a refusal, is not stuck.
fn patience(options: &Options, apps: &[LoadedApp]) -> Duration {
    let mut patience = options.patience;
    if !options.errcodes.is_empty() {
        patience = patience.max(PATIENCE_WITH_REFUSALS);
    }
    for (app, pace) in apps.iter().filter_map(|app| Some((app, app.slow_pace?))) {
        let (id, limit, window) = (&app.id, pace.limit, pace.window);
        warn(format_args!("app {id} sends a chat {limit} replies in {window:?} (its pace): more than that will wait"));
        patience = patience.max(options.patience + window);
    }
    patience
}

fn load(options: &Options) -> Load {
    Load {
        messages: options.messages.unwrap_or_default() as usize,
        duration: options.messages.is_none().then_some(options.duration),
        members: options.members as usize,
        seed: options.seed,
        under_way: options.under_way as usize,
        rate: options.rate,
        ramp: options.ramp,
        texts: options.mix.clone(),
        twins: options.copies / 2.0,
        late: options.copies / 2.0,
        storms: options.storm,
        // Above that of every earlier run, unless that one sent a million messages a second.
        after_serial: u64::try_from(now_ms()).unwrap_or_default() * 1000,
        ..Load::default()
    }
}

/// A fake with the robots of all chats.
async fn start_fake(options: &Options, apps: &[LoadedApp]) -> Result<FakeWeCom, Failure> {
    let of: Vec<_> =
        options.errcodes.iter().map(|ErrcodeShare(code, share)| (*share, Answer::Errcode(*code).into())).collect();
    let behaviour = sim::Options {
        latency: options.latency,
        mix: (!of.is_empty()).then_some(Mix { seed: options.seed, of }),
        work: options.action_ms.map(|Span(from, to)| WorkTime { seed: options.seed, from, to }),
        forget: true,
        ..sim::Options::default()
    };
    let listen = options.listen;
    let fake = FakeWeCom::start_at(listen, behaviour)
        .await
        .map_err(|e| Failure::running(format!("can't listen at {listen} ({e}): name another address with --listen")))?;
    for app in apps {
        app.robots.iter().for_each(|(chat, key)| drop(fake.webhook(key, chat)));
    }
    Ok(fake)
}

/// A caller for each app whose gateway answers and has the same key.
async fn targets(options: &Options, apps: &[LoadedApp]) -> Result<Vec<Target>, Failure> {
    let format = if options.json_format { Format::Json } else { Format::Xml };
    let mut targets = Vec::new();
    for app in apps {
        let url = format!("{}callback/{}", options.target, app.id);
        let caller = Caller::new(url, app.crypto.clone()).map_err(Failure::running)?.in_format(format);
        caller.verify().await.map_err(|error| match error {
            VerifyError::NoAnswer(_) => Failure::running(format!("{}: {error}", options.target)),
            VerifyError::Refused(_) => Failure::usage(format!("app {} at {}: {error}", app.id, options.target)),
        })?;
        let chats = app.robots.iter().map(|(chat, _)| chat.clone()).collect();
        targets.push(Target { caller, bot: app.bot.clone(), chats });
    }
    Ok(targets)
}

impl Failure {
    fn usage(text: impl ToString) -> Self {
        Self { code: MISCONFIGURED, text: text.to_string() }
    }
}
