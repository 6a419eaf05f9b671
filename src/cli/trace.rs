//! `trace ID`: the whole way of a message, as a time line.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::operator::{Operator, Running};
use super::table::{Align, table};
use super::voice::say;
use super::{Failure, MISCONFIGURED, runtime};
use crate::config::settings::Scope;
use crate::zone::Zone;

/// A moment on the clocks of a zone, and how far that is from UTC.
const MOMENT: &str = "%F %T%.3f %:z";

/// What `trace` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// A msg_id, request_id, delivery id or task id.
    id: String,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    #[command(flatten)]
    gateway: Running,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// A time line, in the zone of the gateway's days.
    Text,
    /// As the API answers it.
    Json,
}

/// Prints every message that the id names; that there is none is a failure.
pub(super) fn run(options: Options) -> Result<(), Failure> {
    let Options { id, format, gateway } = options;
    if id.trim().is_empty() {
        let text = "the id is empty: give a msg_id, request_id, delivery id or task id, in single quotes".to_owned();
        return Err(Failure { code: MISCONFIGURED, text });
    }
    let (operator, runtime) = (gateway.operator(Scope::Read)?, runtime()?);
    let found = runtime.block_on(operator.get_all(&["messages", &id], &[]))?;
    let messages = found["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if messages.is_empty() && found["refused"].is_object() {
        return Err(Failure::running(refused(&id, &found["refused"])));
    }
    if messages.is_empty() {
        let why = "write it whole, as WeCom or the log has it; what is older than [database] retain is forgotten";
        return Err(Failure::running(format!("nothing is known under the id {id:?}: {why}")));
    }
    match format {
        Format::Json => say(format_args!("{found:#}"))?,
        Format::Text => {
            let zone = runtime.block_on(zone(&operator));
            let mut told = Vec::with_capacity(messages.len());
            for message in messages {
                let lane = runtime.block_on(lane(&operator, message));
                told.push(format!("{}{}", in_words(message, &zone), lane.unwrap_or_default()));
            }
            say(told.join("\n"))?;
        }
    }
    Ok(())
}

/// Of a callback that was refused, which is no message.
fn refused(id: &str, refused: &Value) -> String {
    let word = |field: &str| refused[field].as_str().unwrap_or("-");
    let (at, result, why) = (word("at"), word("result"), word("refusal"));
    format!(
        "{id:?} is a callback that was refused at {at} ({result}: {why}): it was no message and left no trail; `explain` takes it apart"
    )
}

/// What a message that is queued waits for: its chat's lane.
async fn lane(operator: &Operator, message: &Value) -> Option<String> {
    if message["outcome"] != "queued" {
        return None;
    }
    let (app, chat) = (message["app"].as_str()?, message["chat"].as_str()?);
    let chat = operator.get(&["chats", app, chat], &[]).await.ok()?;
    let wakes =
        chat["wake_in_ms"].as_i64().map(|ms| format!(", for another {}", spent(SignedDuration::from_millis(ms))));
    let hold = chat["hold"].as_str().map(|hold| format!(": {hold}"));
    let word = chat["waits_for"].as_str()?;
    let (wakes, hold) = (wakes.unwrap_or_default(), hold.unwrap_or_default());
    Some(format!("its chat waits for {word}{wakes}{hold}\n"))
}

/// In which the gateway counts days, as its statistics say; this machine's where they don't.
async fn zone(operator: &Operator) -> Zone {
    let stats = operator.get(&["stats"], &[("limit", "1")]).await;
    let named = stats.ok().and_then(|stats| Zone::named(stats["zone"].as_str()?));
    named.unwrap_or_else(Zone::system)
}

/// A message: what it is, and its stages.
fn in_words(message: &Value, zone: &Zone) -> String {
    let word = |field: &str| message[field].as_str().unwrap_or("-");
    let named = match message["task_id"].as_str() {
        Some(task) => ("task", task.to_owned()),
        None => ("message", word("msg_id").to_owned()),
    };
    let heads = [
        named,
        ("chat", format!("{} of app {}", word("chat"), word("app"))),
        ("sender", word("sender").to_owned()),
        ("request", word("request_id").to_owned()),
        ("outcome", word("outcome").to_owned()),
        ("reason", word("reason").to_owned()),
    ];
    // A push has no sender.
    let heads = heads.into_iter().filter(|(_, value)| !value.is_empty());
    let heads = heads.map(|(title, value)| format!("{title:<8}  {}\n", value.replace(char::is_control, " ")));
    let stages: Vec<&Map<String, Value>> =
        message["stages"].as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let times: Vec<Option<Timestamp>> = stages.iter().map(|stage| time(stage)).collect();
    let before = std::iter::once(None).chain(times.iter().copied());
    let rows = stages.iter().zip(&times).zip(before).map(|((stage, at), before)| {
        let clock = at.map(|at| zone.at(at.as_millisecond()).strftime(MOMENT).to_string());
        let after = at.zip(before).map(|(at, before)| spent(at.duration_since(before)));
        let stage_name = stage.get("stage").and_then(Value::as_str).unwrap_or("-");
        vec![
            clock.unwrap_or_default(),
            after.unwrap_or_default(),
            stage_name.to_owned(),
            told(stage, word("request_id"), zone),
        ]
    });
    let columns = [("time", Align::Left), ("after", Align::Right), ("stage", Align::Left), ("what", Align::Left)];
    let span = times.first().copied().flatten().zip(times.last().copied().flatten());
    let whole = span.map(|(first, last)| spent(last.duration_since(first))).unwrap_or_default();
    let (heads, lines) = (heads.collect::<String>(), table(&columns, &rows.collect::<Vec<_>>()));
    format!("{heads}\n{lines}\n{whole} from the first to the last, times in {}\n", zone.name())
}

fn time(stage: &Map<String, Value>) -> Option<Timestamp> {
    stage.get("at")?.as_str()?.parse().ok()
}

/// `350 ms`, `1.2 s`, `12 s`, `3 min 5 s`, `2 h 7 min`, as the console has them; the store's clock may go back.
fn spent(time: SignedDuration) -> String {
    let ms = time.as_millis();
    let (sign, seconds) = (if ms < 0 { "-" } else { "" }, ms.abs() / 1_000);
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{sign}{seconds}.{} s", ms.abs() % 1_000 / 100),
        10..60 => format!("{sign}{seconds} s"),
        60..3_600 => format!("{sign}{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{sign}{} h {} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Everything that a stage says besides its time and name, in its order; what is null, false or empty says nothing.
fn told(stage: &Map<String, Value>, owner: &str, zone: &Zone) -> String {
    let said = stage.iter().filter_map(|(field, value)| {
        let is_owner = field == "request_id" && value == owner;
        if is_owner || matches!(field.as_str(), "at" | "stage") {
            return None;
        }
        let field = field.as_str();
        Some(match value {
            Value::Null | Value::Bool(false) => return None,
            Value::Bool(true) => field.to_owned(),
            Value::String(text) if text.is_empty() => return None,
            Value::String(text) => format!("{field} {text}"),
            Value::Number(ms) if field.ends_with("_ms") && ms.as_i64().is_some() => {
                let time = SignedDuration::from_millis(ms.as_i64().unwrap_or_default());
                format!("{} {}", field.trim_end_matches("_ms"), spent(time))
            }
            // A moment in Unix ms, such as `next_at`.
            Value::Number(at) if field.ends_with("_at") && at.as_i64().is_some() => {
                let at = zone.at(at.as_i64().unwrap_or_default());
                format!("{} {}", field.trim_end_matches("_at"), at.strftime(MOMENT))
            }
            Value::Number(number) => format!("{field} {number}"),
            Value::Array(items) if items.is_empty() => return None,
            Value::Array(items) => format!("{field} {}", items.iter().map(named).collect::<Vec<_>>().join(" ")),
            Value::Object(_) => format!("{field} {value}"),
        })
    });
    said.collect::<Vec<_>>().join(", ")
}

/// One of a list: `{id, digest}` is a reply, without its digest below scope `admin`.
fn named(item: &Value) -> String {
    match (item["id"].as_str(), item["digest"].as_str(), item.as_str()) {
        (Some(id), Some(digest), _) => format!("{id} ({digest})"),
        (Some(id), None, _) => id.to_owned(),
        (_, _, Some(text)) => text.to_owned(),
        _ => item.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_told_as_a_time_line() {
        let message = json!({
            "app": "support", "chat": "wr甲", "sender": "wmA", "msg_id": "m1", "request_id": "r1",
            "outcome": "dead", "reason": "rejected",
            "stages": [
                {"at": "2026-11-29T15:59:59.990Z", "stage": "accepted", "request_id": "r1"},
                {"at": "2026-11-29T16:00:00.002Z", "stage": "duplicate", "request_id": "r2"},
                {"at": "2026-11-29T16:00:00.002Z", "stage": "handled", "request_id": "r1", "rule": "command:query",
                    "reason": null, "redelivered": false, "elapsed_ms": 7, "replies": [{"id": "r1.0", "digest": "d0"}, {"id": "r1.1"}]},
                {"at": "2026-11-29T16:00:01.502Z", "stage": "settled", "request_id": "r1", "delivery": "r1.0",
                    "state": "dead", "errcode": 40008, "latency_ms": 1512, "next_at": 1_796_000_000_000_i64},
            ],
        });
        let told = in_words(&message, &Zone::named("Asia/Shanghai").unwrap());
        let want = "\
message   m1
chat      wr甲 of app support
sender    wmA
request   r1
outcome   dead
reason    rejected

time                            after  stage      what
2026-11-29 23:59:59.990 +08:00         accepted
2026-11-30 00:00:00.002 +08:00  12 ms  duplicate  request_id r2
2026-11-30 00:00:00.002 +08:00   0 ms  handled    rule command:query, elapsed 7 ms, replies r1.0 (d0) r1.1
2026-11-30 00:00:01.502 +08:00  1.5 s  settled    delivery r1.0, state dead, errcode 40008, latency 1.5 s, next 2026-11-30 08:53:20.000 +08:00

1.5 s from the first to the last, times in Asia/Shanghai
";
        assert_eq!(told, want);
    }

    #[test]
    fn a_push_has_no_sender_to_tell() {
        let push = json!({
            "app": "support", "chat": "wr甲", "sender": "", "msg_id": "push:t1", "task_id": "t1", "request_id": "t9",
            "outcome": "unknown", "reason": "no_answer",
            "stages": [{"at": "2026-11-29T15:59:59.990Z", "stage": "settled", "error": "sending request: operation timed out"}],
        });
        let told = in_words(&push, &Zone::named("Asia/Shanghai").unwrap());
        assert!(told.starts_with("task      t1\nchat      wr甲 of app support\nrequest   t9\n"), "{told}");
        assert!(told.contains("settled  error sending request: operation timed out\n"), "{told}");
    }

    #[test]
    fn times_are_told_as_people_read_them() {
        for (ms, told) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (-7, "-7 ms"),
            (1_234, "1.2 s"),
            (-1_234, "-1.2 s"),
            (59_999, "59 s"),
            (185_000, "3 min 5 s"),
            (7_620_000, "2 h 7 min"),
        ] {
            assert_eq!(spent(SignedDuration::from_millis(ms)), told, "{ms}");
        }
    }
}
