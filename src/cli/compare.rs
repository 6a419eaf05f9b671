//! `demo --compare`: the same load, from the same seed, on the gateway and on the [synchronous design](crate::sim::synchronous),
//! one after the other in this process, and both results side by side.
//!
//! Only the gateway is judged: it alone has promised anything.

use anyhow::{Context, bail};

use super::figures::{self, Row};
use super::progress::{PATIENCE, drive};
use super::stage::{Setup, Stage};
use super::voice::say;
use crate::app::App;
use crate::sim::synchronous::SynchronousBot;
use crate::sim::{Ledger, Summary, Violation};

/// Whether the gateway kept every promise.
pub(super) async fn run(setup: &Setup) -> anyhow::Result<bool> {
    let ours = Stage::set(setup).await?;
    let app = App::start(ours.settings.clone()).await.context("the gateway of the demo can't start")?;
    let base = format!("http://{}", app.callback_addr());
    let posted = post("gateway      ", &ours, &base, setup).await;
    app.stop().await;
    posted?;

    let theirs = Stage::set(setup).await?;
    let bot = SynchronousBot::start(&theirs.app, &theirs.settings.sender).await?;
    let posted = post("synchronous  ", &theirs, &bot.base(), setup).await;
    bot.stop().await;
    posted?;

    let (our_ledger, their_ledger) = (ours.ledger(), theirs.ledger());
    let (our_summary, their_summary) = (our_ledger.summary(), their_ledger.summary());
    let rows = [rows(setup, our_ledger, &our_summary), rows(setup, their_ledger, &their_summary)];
    say(format_args!("{}\n\n", setup.title()))?;
    say(figures::side_by_side(["gateway", "synchronous"], &rows[0], &rows[1]))?;
    say("handled: answered, in whatever chat the answer arrived; or taken, where none was wanted")?;
    say(format_args!("P95 of the synchronous design: {:.1} times the gateway's", times(&our_summary, &their_summary)))?;
    figures::complain(our_ledger);
    ours.fake.stop().await;
    theirs.fake.stop().await;
    Ok(our_summary.kept())
}

async fn post(title: &str, stage: &Stage, base: &str, setup: &Setup) -> anyhow::Result<()> {
    let targets = [stage.target(base, &setup.load)?];
    tokio::select! {
        () = drive(title, &setup.load, &targets, stage.ledger(), PATIENCE) => Ok(()),
        _ = tokio::signal::ctrl_c() => bail!("interrupted before the end"),
    }
}

fn rows(setup: &Setup, ledger: &Ledger, summary: &Summary) -> Vec<Row> {
    let p = &summary.progress;
    let handled = p.answered + p.acked - p.wanted;
    let asked_twice = |violation: &&Violation| matches!(violation, Violation::AskedTwice { .. });
    let mut rows = vec![
        Row::new("chats", setup.load.chats),
        Row::new("messages", p.posted),
        Row::new("copies sent, retries too", p.copies),
        Row::new("handled", handled),
    ];
    rows.extend(figures::latencies(summary));
    rows.extend([
        Row::new("duplicate replies", summary.repeated),
        Row::new("actions run again", ledger.violations().iter().filter(asked_twice).count()),
        Row::new("misrouted replies", summary.misrouted),
        Row::new("lost", p.posted.saturating_sub(handled)),
        Row::new("time", figures::seconds(summary.took)),
        Row::new("throughput", format!("{:.1}/s", summary.throughput())),
    ]);
    rows
}

fn times(ours: &Summary, theirs: &Summary) -> f64 {
    theirs.p95.as_secs_f64() / ours.p95.as_secs_f64().max(f64::EPSILON)
}
