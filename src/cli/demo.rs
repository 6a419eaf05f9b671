//! `demo`: a whole gateway in this process, a fake WeCom on loopback that sends it real encrypted callbacks, and a table of
//! what came of them.
//!
//! The gateway is the real one, configured by files in a temporary folder; the figures are counted from outside, by the
//! fake's ledger. Nothing is left behind.

use std::time::Duration;

use anyhow::{Context, bail};

use super::empty_redis::EmptyRedis;
use super::progress::{PATIENCE, drive};
use super::stage::{Setup, Stage};
use super::values::{self, Span};
use super::voice::{say, warn};
use super::{Failure, compare, figures, runtime};
use crate::app::App;
use crate::config::settings::{Log, LogFormat};
use crate::telemetry::{LogContent, logs};

/// What `demo` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Chats that the messages are spread over [default: 50, with --compare 100].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9999))]
    pub chats: Option<u32>,
    /// Messages to send; doubles and late copies come on top [default: 5000, with --compare what --duration makes].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub messages: Option<u32>,
    /// Send for so long instead, such as 30s [default with --compare: 20s].
    #[arg(long, value_parser = values::duration, conflicts_with = "messages")]
    pub duration: Option<Duration>,
    /// Messages a second, whatever is under way [default: 64 under way, with --compare 20 a second].
    #[arg(long, value_parser = values::rate)]
    pub rate: Option<f64>,
    /// How long an action takes, drawn for each message [default: 0, with --compare 200..800].
    #[arg(long, value_name = "FROM..TO", value_parser = values::span_ms)]
    pub action_ms: Option<Span>,
    /// How long a robot takes to answer [default: 5, with --compare 80].
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(..=4000))]
    pub robot_ms: Option<u64>,
    /// Same seed, same messages.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The same load on the synchronous design too: work inside the callback, one queue, no memory. Both side by side.
    #[arg(long)]
    pub compare: bool,
    /// Keep the gateway up afterwards, until Ctrl-C.
    #[arg(long, conflicts_with = "compare")]
    pub stay: bool,
    /// Keep lanes in this Redis instead of the embedded store; its database must be empty and is emptied again.
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
}

/// Runs the demo; a promise that was not kept is a failure.
pub(super) fn run(options: Options) -> Result<(), Failure> {
    // Blocked words are among the load, each with a warning.
    let quiet = Log { format: LogFormat::Auto, level: "error".into(), content: LogContent::None };
    let _written = logs::init(&quiet).map_err(Failure::running)?;
    let kept = runtime()?.block_on(async {
        let redis = match &options.redis {
            Some(url) => Some(EmptyRedis::take(url).await?),
            None => None,
        };
        let kept = interruptible(&options).await;
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

/// Whether every promise was kept.
async fn interruptible(options: &Options) -> anyhow::Result<bool> {
    let setup = Setup::new(options);
    if options.compare {
        return compare::run(&setup).await;
    }
    let stage = Stage::set(&setup).await?;
    let app = App::start(stage.settings.clone()).await.context("the gateway of the demo can't start")?;
    let targets = [stage.target(&format!("http://{}", app.callback_addr()), &setup.load)?];
    let finished = tokio::select! {
        () = drive("", &setup.load, &targets, stage.ledger(), PATIENCE) => true,
        _ = tokio::signal::ctrl_c() => false,
    };
    let summary = stage.ledger().summary();
    if finished {
        say(format_args!("{}\n\n{}", setup.title(), figures::table(&figures::rows(&summary))))?;
        figures::complain(stage.ledger());
    }
    if finished && options.stay {
        warn(format_args!("the gateway stays up: http://{} (Ctrl-C ends it)", app.admin_addr()));
        tokio::signal::ctrl_c().await.context("can't wait for Ctrl-C")?;
    }
    app.stop().await;
    stage.fake.stop().await;
    if !finished {
        bail!("interrupted before the end");
    }
    Ok(summary.kept())
}
