//! The figures as Markdown: ratios first, then what they are made of.

use std::fmt::Write as _;
use std::time::Duration;

use crate::Measured;
use crate::consumers::{Backend, Way};
use crate::course::{AWAY, LATENCY, PARTITIONS, PROCESSES, Run};
use crate::machine::Machine;
use crate::tasks::chats;

fn name(way: Way) -> String {
    match way {
        Way::Plain { commit_every: 1 } => "plain loop, a commit for each record".to_owned(),
        Way::Plain { commit_every } => format!("plain loop, a commit for {commit_every} records"),
        Way::Gateway { backend: Backend::Embedded, .. } => "gateway, embedded".to_owned(),
        Way::Gateway { backend: Backend::Redis, .. } => "gateway, Redis everysec".to_owned(),
    }
}

/// The whole report.
pub fn markdown(tasks: usize, machine: &Machine, measured: &Measured) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_all(&mut text, tasks, machine, measured);
    text
}

fn write_all(out: &mut String, tasks: usize, machine: &Machine, measured: &Measured) -> std::fmt::Result {
    calm(out, tasks, measured)?;
    rough(out, tasks, measured)?;
    let Machine { cores, model, kernel, filesystem, sync, load, date, programs } = machine;
    let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
    writeln!(
        out,
        "\n{date}, {cores} × {model}, Linux {kernel}; stores on {filesystem}, where writing and syncing 4 KiB takes {:.0} µs; \
         {programs}, librdkafka {librdkafka}, Kafka's own broker on this machine. Load average before: {load}. \
         One run of {tasks} tasks a row, written before; {} groups, each with a robot that answers after {} ms, {PARTITIONS} partitions. \
         Consumers, Redis, broker and the fake WeCom share the cores.",
        micros(*sync),
        chats(tasks).len(),
        LATENCY.as_millis(),
    )
}

fn calm(out: &mut String, tasks: usize, measured: &Measured) -> std::fmt::Result {
    writeln!(
        out,
        "| {tasks} tasks, calm | rate, × the plain loop's | tasks/s | requests at once | consumer CPU µs a task | Redis | broker | fake WeCom |"
    )?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    let plain = measured.calm.first().map_or(f64::NAN, |(_, run)| run.rate());
    for (way, run) in &measured.calm {
        let each = |time: Duration| micros(time) / run.tasks as f64;
        writeln!(
            out,
            "| {} | {:.2} | {:.0} | {} | {:.0} | {} | {:.0} | {:.0} |",
            name(*way),
            run.rate() / plain,
            run.rate(),
            way.at_once(1),
            each(run.cpu.consumers),
            or_dash(each(run.cpu.redis)),
            each(run.cpu.broker),
            each(run.cpu.fake),
        )?;
    }
    Ok(())
}

fn rough(out: &mut String, tasks: usize, measured: &Measured) -> std::fmt::Result {
    writeln!(
        out,
        "\n| {tasks} tasks, {PROCESSES} processes, each killed once (`kill -9`), the broker killed and away for {} s | sent twice | lost | unknown: arrived | unknown: did not | told wrong |",
        AWAY.as_secs()
    )?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: |")?;
    for (way, Run { tally, .. }) in &measured.rough {
        write!(out, "| {}, {} requests at once each | ", name(*way), way.at_once(PROCESSES))?;
        write!(out, "{} | {} | ", tally.duplicates, tally.lost)?;
        match way {
            Way::Plain { .. } => writeln!(out, "nobody is told | | |")?,
            Way::Gateway { .. } => {
                writeln!(out, "{} | {} | {} |", tally.unknown_arrived, tally.unknown_missing, tally.told_wrong)?
            }
        }
    }
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn or_dash(value: f64) -> String {
    if value > 0.0 { format!("{value:.0}") } else { "–".to_owned() }
}
