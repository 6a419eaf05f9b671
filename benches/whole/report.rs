//! The figures as Markdown, ready for a README: ratios first, then what they are made of.
//!
//! A ratio is that of two rates of one round; of several rounds the median is shown, of ratios as of everything else.

use std::fmt::Write as _;
use std::time::Duration;

use crate::end_to_end::{self, EndToEnd, UNDER_WAY};
use crate::gateway::Backend;
use crate::machine::Machine;
use crate::requests::Words;
use crate::{Answered, Answerer, CONNECTIONS, Measured, Plan, SPREAD};

/// The rows of callbacks, in their order.
fn answerers() -> impl Iterator<Item = Answerer> {
    [Answerer::Plain, Answerer::Opened].into_iter().chain(Backend::ALL.map(Answerer::Gateway))
}

fn name(answerer: Answerer) -> String {
    match answerer {
        Answerer::Plain => "bare axum, answers `success`".into(),
        Answerer::Opened => "verify, decrypt, parse; no store".into(),
        Answerer::Gateway(backend) if Backend::CARELESS.contains(&backend) => {
            format!("gateway, ack, {}", backend.as_str())
        }
        Answerer::Gateway(backend) => format!("gateway, durable ack, {}", backend.as_str()),
    }
}

fn words(words: Words) -> &'static str {
    match words {
        Words::Chatter => "no reply",
        Words::Echo => "fixed reply",
        Words::Query => "asks a service",
    }
}

/// The whole report.
pub fn markdown(plan: Plan, machine: &Machine, measured: &Measured) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    let _ = write_all(&mut text, plan, machine, measured);
    text
}

fn write_all(out: &mut String, plan: Plan, machine: &Machine, measured: &Measured) -> std::fmt::Result {
    let [few, many] = CONNECTIONS;
    writeln!(out, "| callbacks a second, as a share of bare axum's | {few} connections | {many} connections |")?;
    writeln!(out, "| --- | ---: | ---: |")?;
    for answerer in answerers() {
        let [few, many] = CONNECTIONS.map(|connections| share(measured, answerer, connections));
        writeln!(out, "| {} | {few:.2} | {many:.2} |", name(answerer))?;
    }
    durability(out, measured)?;
    let rate = median(rates(measured, Answerer::Plain, CONNECTIONS[0]));
    writeln!(out, "\n| end to end, as a share of bare axum's {rate:.0} callbacks/s | fixed reply | asks a service |")?;
    writeln!(out, "| --- | ---: | ---: |")?;
    for backend in Backend::ALL {
        let [echo, query] = [Words::Echo, Words::Query].map(|words| end_to_end_share(measured, words, backend));
        writeln!(out, "| {} | {echo:.2} | {query:.2} |", backend.as_str())?;
    }
    callbacks(out, measured)?;
    end_to_end(out, measured)?;
    ground(out, plan, machine)
}

/// Acks with durability as a share of those of the same store without.
fn durability(out: &mut String, measured: &Measured) -> std::fmt::Result {
    writeln!(out, "\n| durable acks, {} connections | without durability | share |", CONNECTIONS[0])?;
    writeln!(out, "| --- | --- | ---: |")?;
    let [unsynced, unsaved] = Backend::CARELESS;
    let pairs = [(Backend::Embedded, unsynced), (Backend::RedisEverysec, unsaved), (Backend::RedisAlways, unsaved)];
    for (durable, careless) in pairs {
        let of = |backend| rates(measured, Answerer::Gateway(backend), CONNECTIONS[0]);
        let share = median(of(durable).zip(of(careless)).map(|(durable, careless)| durable / careless));
        writeln!(out, "| {} | {} | {share:.2} |", durable.as_str(), careless.as_str())?;
    }
    Ok(())
}

fn callbacks(out: &mut String, measured: &Measured) -> std::fmt::Result {
    writeln!(
        out,
        "\n| callbacks | connections | per second | P50 ms | P99 ms | server CPU µs | Redis CPU µs | waiting | unrecorded |"
    )?;
    writeln!(out, "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for connections in CONNECTIONS {
        for answerer in answerers().chain(Backend::CARELESS.map(Answerer::Gateway)) {
            if let Some(rounds) = measured.callbacks.get(&(answerer, connections)) {
                callbacks_row(out, &name(answerer), connections, rounds)?;
            }
        }
    }
    callbacks_row(out, "the fake WeCom's own ceiling, webhook posts", CONNECTIONS[0], &measured.robots)
}

fn callbacks_row(out: &mut String, name: &str, connections: usize, rounds: &[Answered]) -> std::fmt::Result {
    let of = |value: fn(&Answered) -> f64| median(rounds.iter().map(value));
    writeln!(
        out,
        "| {name} | {connections} | {:.0} | {:.1} | {:.1} | {:.0} | {} | {} | {} |",
        of(|a| a.shot.rate()),
        of(|a| micros(a.shot.p50) / 1e3),
        of(|a| micros(a.shot.p99) / 1e3),
        of(|a| micros(a.cpu.gateway) / a.shot.requests as f64),
        or_dash(of(|a| micros(a.cpu.redis) / a.shot.requests as f64)),
        or_dash(of(|a| a.waiting as f64)),
        or_dash(of(|a| a.journal as f64)),
    )
}

fn end_to_end(out: &mut String, measured: &Measured) -> std::fmt::Result {
    writeln!(
        out,
        "\n| end to end | store | messages/s | mean ms | P99 ms | gateway CPU µs | Redis CPU µs | load and fake CPU µs |"
    )?;
    writeln!(out, "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")?;
    for ((kind, backend), rounds) in &measured.end_to_end {
        let of = |value: fn(&EndToEnd) -> f64| median(rounds.iter().map(value));
        let each = |run: &EndToEnd, time: Duration| micros(time) / run.summary.progress.acked as f64;
        let of_each = |time: fn(&EndToEnd) -> Duration| median(rounds.iter().map(|run| each(run, time(run))));
        writeln!(
            out,
            "| {} | {} | {:.0} | {:.0} | {:.0} | {:.0} | {} | {:.0} |",
            words(*kind),
            backend.as_str(),
            of(|run| run.summary.throughput()),
            of(|run| micros(run.summary.mean) / 1e3),
            of(|run| micros(run.summary.p99) / 1e3),
            of_each(|run| run.cpu.gateway),
            or_dash(of_each(|run| run.cpu.redis)),
            of_each(|run| run.load_cpu),
        )?;
    }
    Ok(())
}

/// How it was measured, and on what.
fn ground(out: &mut String, plan: Plan, machine: &Machine) -> std::fmt::Result {
    let Plan { rounds, seconds, end_to_end_seconds } = plan;
    let Machine { cores, model, kernel, filesystem, sync, load, date, programs } = machine;
    writeln!(
        out,
        "\n{date}, {cores} × {model}, Linux {kernel}; stores on {filesystem}, where writing and syncing 4 KiB takes {:.0} µs; \
         {programs}. Load average before: {load}. {}, {seconds} s of callbacks a row \
         ({} chats × {} members, distinct messages that want no reply), {end_to_end_seconds} s end to end ({} chats × {} \
         members, {} connections, {UNDER_WAY} messages under way, robots that answer after {} ms). wrk: one thread; nothing pinned; \
         load, server and Redis share the cores. CPU is a message's, until it was handled. Non-2xx answers: 0; acked \
         messages that did not come to their end: 0. “Waiting”: acked and not yet handled when the load ended; “unrecorded”: journal lines not yet in the records then.",
        micros(*sync),
        match rounds {
            1 => "One round".to_owned(),
            n => format!("Medians of {n} rounds"),
        },
        SPREAD.chats,
        SPREAD.members,
        end_to_end::SPREAD.chats,
        end_to_end::SPREAD.members,
        end_to_end::CONNECTIONS,
        end_to_end::ROBOT_LATENCY.as_millis(),
    )
}

fn rates(measured: &Measured, answerer: Answerer, connections: usize) -> impl Iterator<Item = f64> {
    measured.callbacks.get(&(answerer, connections)).into_iter().flatten().map(|answered| answered.shot.rate())
}

fn share(measured: &Measured, answerer: Answerer, connections: usize) -> f64 {
    let plain = rates(measured, Answerer::Plain, connections);
    median(rates(measured, answerer, connections).zip(plain).map(|(rate, plain)| rate / plain))
}

fn end_to_end_share(measured: &Measured, words: Words, backend: Backend) -> f64 {
    let runs = measured.end_to_end.get(&(words, backend)).into_iter().flatten();
    let plain = rates(measured, Answerer::Plain, CONNECTIONS[0]);
    median(runs.zip(plain).map(|(run, plain)| run.summary.throughput() / plain))
}

/// NaN where there is none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn or_dash(value: f64) -> String {
    if value > 0.0 { format!("{value:.0}") } else { "–".to_owned() }
}
