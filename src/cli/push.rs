//! `push --file tasks.jsonl`: hands a file of tasks, one a line, to a running gateway. The file again is no second send.
//!
//! Lines go in their order, some hundred in a call. A faulty line is told and left out, the others of its call go without it; a
//! gateway that is full is asked again for what it did not take. A task that is dropped at once, such as one to a mistyped chat, is a
//! failure with its reason: nobody would look for it later.
//!
//! By Kafka, what goes in one call is one transaction, as long as it may be, and a faulty line hands nothing of its call over: such a batch
//! belongs together.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;

use super::operator::{Operator, Running};
use super::table::{Align, table};
use super::voice::{say, warn};
use super::{Failure, runtime};
use crate::config::settings::Scope;

/// Tasks of one call …
const LINES: usize = 200;
/// … and about the most bytes of them.
const BYTES: usize = 4 << 20;
/// Both of one transaction: what the gateway takes in one call.
const BATCH: (usize, usize) = (1000, 15 << 20);
/// Of how many deliveries of a dropped task the reason is told.
const NAMED: &str = "3";
/// Between two tries while the gateway is full, and how long it may take nothing at all.
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(120);
/// After how long without an answer by Kafka somebody is told what is waited for.
const SILENCE: Duration = Duration::from_secs(3);

/// What `push` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Tasks, one JSON object a line; `-` reads them from stdin.
    #[arg(long)]
    file: PathBuf,
    /// By another way than straight to the gateway's lanes: each 1000 tasks in one transaction, all or none of them.
    #[arg(long)]
    via: Option<Via>,
    #[command(flatten)]
    gateway: Running,
}

/// Another way for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    /// The topic of `[kafka]`.
    Kafka,
}

/// A line with something on it.
#[derive(Clone, Debug, PartialEq)]
struct Task {
    line: usize,
    json: String,
}

/// What became of the lines so far.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    taken: usize,
    known: usize,
    /// By line, in words.
    refused: Vec<(usize, String)>,
    /// Known to the gateway, but dropped, at least in part: line and task id.
    dropped: Vec<(usize, String)>,
}

impl Outcome {
    /// What the gateway has.
    fn there(&self) -> usize {
        self.taken + self.known + self.dropped.len()
    }
}

/// Hands everything over and shows what came of it; a line that is refused or dropped is a failure.
pub(super) fn run(options: Options) -> Result<(), Failure> {
    let Options { file, via, gateway } = options;
    let operator = gateway.operator(Scope::Push)?;
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(&file)
    };
    let text = text
        .map_err(|error| Failure::running(format!("can't read {} ({error}): name a file of tasks", file.display())))?;
    let (tasks, mut outcome) = read(&text);
    let all = tasks.len() + outcome.refused.len();
    let (handed, dropped) = runtime()?.block_on(async {
        let handed = hand_over(&operator, tasks, via, all, &mut outcome).await;
        (handed, why_dropped(&operator, &outcome.dropped).await)
    });
    say(shown(&outcome, all))?;
    let mut told = [outcome.refused.clone(), dropped].concat();
    told.sort();
    told.iter().for_each(|(line, fault)| warn(format_args!("{}:{line}: {fault}", file.display())));
    handed?;
    let refused = Some(outcome.refused.len())
        .filter(|n| *n > 0)
        .map(|n| format!("{n} of {all} tasks were refused: mend those lines, and hand the file over again"));
    let dropped = Some(outcome.dropped.len()).filter(|n| *n > 0).map(|n| {
        format!(
            "{n} of {all} tasks were dropped, at least in part: hand over what is mended there under another task_id"
        )
    });
    let failed: Vec<String> = refused.into_iter().chain(dropped).collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::running(failed.join("; "))) }
}

/// Of each dropped task its line, and what was dropped of it and why.
async fn why_dropped(operator: &Operator, dropped: &[(usize, String)]) -> Vec<(usize, String)> {
    let mut told = Vec::with_capacity(dropped.len());
    for (line, id) in dropped {
        let some = [("state", "dropped"), ("limit", NAMED)];
        let why = match operator.get(&["push", id], &some).await {
            Ok(task) => in_chats(&task),
            Err(Failure { text, .. }) => format!("dropped, and why can't be asked ({text})"),
        };
        told.push((*line, why));
    }
    told
}

/// What was dropped of a task, of which the gateway showed some deliveries.
fn in_chats(task: &Value) -> String {
    let chat = |item: &Value| format!("{} ({})", item["chat"], item["reason"].as_str().unwrap_or("no reason given"));
    let chats: Vec<String> = task["items"].as_array().into_iter().flatten().map(chat).collect();
    let more = if task["next"].is_null() { "" } else { " and more" };
    format!("dropped in chat {}{more}", chats.join(", "))
}

/// The tasks of a file; what is no JSON is refused here.
fn read(text: &str) -> (Vec<Task>, Outcome) {
    let (mut tasks, mut outcome) = (Vec::new(), Outcome::default());
    // Windows' editors put a mark of the encoding in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (n, json) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line = n + 1;
        match serde_json::from_str::<&RawValue>(json) {
            Ok(_) => tasks.push(Task { line, json: json.to_owned() }),
            Err(error) => outcome.refused.push((line, format!("is no JSON ({error})"))),
        }
    }
    (tasks, outcome)
}

async fn hand_over(
    operator: &Operator,
    tasks: Vec<Task>,
    via: Option<Via>,
    all: usize,
    outcome: &mut Outcome,
) -> Result<(), Failure> {
    let mut waiting = std::collections::VecDeque::from(tasks);
    let mut moved = Instant::now();
    let mut waits = Waits { by: via, is_told: false };
    while !waiting.is_empty() {
        let bounds = via.map_or((LINES, BYTES), |Via::Kafka| BATCH);
        let length = call_length(bounds, waiting.iter().map(|task| task.json.len()));
        let call: Vec<Task> = waiting.drain(..length).collect();
        let posted = waits.watch(operator.post(&["push"], body(via, &call))).await;
        let (status, answer) = posted.map_err(|failure| unfinished(failure, outcome))?;
        let before = waiting.len() + call.len();
        let left = sort(call, status, &answer, outcome).map_err(|failure| unfinished(failure, outcome))?;
        let is_full = status == 503;
        if via.is_some() && status == 400 && !left.is_empty() {
            let text = format!("{} tasks of the same batch were not handed over", left.len());
            return Err(unfinished(Failure::running(text), outcome));
        }
        left.into_iter().rev().for_each(|task| waiting.push_front(task));
        if waiting.len() < before {
            moved = Instant::now();
        }
        progress(outcome, all);
        if is_full && moved.elapsed() > PATIENCE {
            let text = format!("{}; nothing was taken for {} s", in_words(&answer["error"]), PATIENCE.as_secs());
            return Err(unfinished(Failure::running(text), outcome));
        }
        if is_full {
            waits.tell(&in_words(&answer["error"]));
            tokio::time::sleep(AGAIN).await;
        }
    }
    Ok(())
}

/// Says once what a file by Kafka waits for: brokers that are away cost a call its whole time, and many calls are tried.
struct Waits {
    by: Option<Via>,
    is_told: bool,
}

impl Waits {
    /// The answer to a call; says so where it is long in coming.
    async fn watch<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let mut answer = pin!(answer);
        match tokio::time::timeout(SILENCE, &mut answer).await {
            Ok(answer) => answer,
            Err(_) => {
                self.tell("the brokers of [kafka] have not answered the gateway yet");
                answer.await
            }
        }
    }

    fn tell(&mut self, what: &str) {
        if self.by.is_some() && !std::mem::replace(&mut self.is_told, true) {
            // Over the progress that a terminal shows.
            let clear = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
            warn(format_args!(
                "{clear}waiting: {what}; it is given up after {} s without progress",
                PATIENCE.as_secs()
            ));
        }
    }
}

/// A call with these tasks.
fn body(via: Option<Via>, call: &[Task]) -> String {
    let tasks = format!("[{}]", call.iter().map(|task| task.json.as_str()).collect::<Vec<_>>().join(","));
    match via {
        None => tasks,
        Some(Via::Kafka) => format!("{{\"via\":\"kafka\",\"tasks\":{tasks}}}"),
    }
}

/// How many of the next lines make a call of so many lines and bytes, at least one.
fn call_length((lines, most): (usize, usize), sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    let fit = sizes.take(lines).take_while(|size| {
        let fits = bytes == 0 || bytes + size <= most;
        bytes += size;
        fits
    });
    fit.count()
}

/// Sorts the tasks of a call by its answer; those that are to be handed over again come back, in their order.
fn sort(call: Vec<Task>, status: u16, answer: &Value, outcome: &mut Outcome) -> Result<Vec<Task>, Failure> {
    let error = &answer["error"];
    let mut again = Vec::new();
    match status {
        202 | 409 | 503 => {
            let items = if status == 202 { answer } else { &error["items"] };
            // A gateway whose store is away tells of none: all of them again.
            for (n, task) in call.into_iter().enumerate() {
                match &items[n] {
                    item if item["state"] == "refused" => outcome.refused.push((task.line, in_words(item))),
                    item if item["counts"]["dropped"].as_u64().is_some_and(|n| n > 0) => {
                        let id = item["task_id"].as_str().unwrap_or_default();
                        outcome.dropped.push((task.line, id.to_owned()));
                    }
                    item if item["repeat"] == true => outcome.known += 1,
                    item if item["state"].is_string() && item["state"] != "not_taken" => outcome.taken += 1,
                    _ => again.push(task),
                }
            }
        }
        400 if error["faults"].is_array() => {
            let faults: Vec<&Value> = error["faults"].as_array().into_iter().flatten().collect();
            for (n, task) in call.into_iter().enumerate() {
                match faults.iter().find(|fault| fault["index"] == n) {
                    Some(fault) => outcome.refused.push((task.line, in_words(fault))),
                    None => again.push(task),
                }
            }
        }
        _ => return Err(Failure::running(format!("the gateway refuses ({status}): {}", in_words(error)))),
    }
    Ok(again)
}

/// Field and message of a fault.
fn in_words(fault: &Value) -> String {
    let message = fault["message"].as_str().unwrap_or("no reason given");
    match fault["field"].as_str() {
        Some(field) if !field.is_empty() => format!("{field}: {message}"),
        _ => message.to_owned(),
    }
}

/// A failure in the middle says what is done.
fn unfinished(failure: Failure, outcome: &Outcome) -> Failure {
    let done = outcome.there();
    let more = format!("{done} tasks are taken by now; hand the file over again, nothing is sent twice");
    Failure { text: format!("{}; {more}", failure.text), ..failure }
}

fn progress(outcome: &Outcome, all: usize) {
    if std::io::stderr().is_terminal() {
        let done = outcome.there() + outcome.refused.len();
        let end = if done == all { "\n" } else { "" };
        // A closed stderr is no reason to stop.
        let _ = write!(std::io::stderr(), "\r{done} of {all} tasks\x1b[K{end}");
    }
}

fn shown(outcome: &Outcome, all: usize) -> String {
    let Outcome { taken, known, refused, dropped } = outcome;
    let left = all - outcome.there() - refused.len();
    let rows = [
        ("taken", *taken),
        ("known before", *known),
        ("refused", refused.len()),
        ("dropped", dropped.len()),
        ("not handed over", left),
    ];
    let rows = rows.iter().filter(|(word, n)| *n > 0 || *word == "taken");
    let rows: Vec<Vec<String>> = rows.map(|(word, n)| vec![(*word).to_owned(), n.to_string()]).collect();
    table(&[("outcome", Align::Left), ("tasks", Align::Right)], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(n: usize) -> Vec<Task> {
        (1..=n).map(|line| Task { line, json: format!("{{\"task_id\":\"t{line}\"}}") }).collect()
    }

    #[test]
    fn lines_that_are_no_json_are_refused_by_their_number() {
        let (tasks, outcome) = read("\u{feff}{\"task_id\":\"a\"}\n\n  \n{\"task_id\":\n{\"task_id\":\"b\"}\r\n");
        assert_eq!(tasks.iter().map(|task| task.line).collect::<Vec<_>>(), [1, 5]);
        assert!(outcome.refused[0].0 == 4 && outcome.refused[0].1.contains("no JSON"), "{outcome:?}");
    }

    #[test]
    fn a_call_is_bounded_in_lines_and_bytes() {
        let call_length = |sizes: &[usize]| call_length((LINES, BYTES), sizes.iter().copied());
        assert_eq!(call_length(&[1; 1000]), LINES);
        assert_eq!(call_length(&[BYTES * 2, 1]), 1);
        assert_eq!(call_length(&[BYTES / 2, BYTES / 2, 1]), 2);
    }

    #[test]
    fn each_answer_sorts_its_lines() {
        let sorted = |status, answer: Value| {
            let mut outcome = Outcome::default();
            let again = sort(lines(3), status, &answer, &mut outcome).map_err(|failure| failure.text);
            (again.map(|again| again.iter().map(|task| task.line).collect::<Vec<_>>()), outcome)
        };
        let taken = json!([{"state": "queued", "repeat": false}, {"state": "delivered", "repeat": true}, {"state": "queued", "repeat": false}]);
        assert_eq!(sorted(202, taken), (Ok(vec![]), Outcome { taken: 2, known: 1, ..Outcome::default() }));
        let astray = json!([{"task_id": "t1", "state": "dropped", "repeat": false, "counts": {"dropped": 1}},
            {"task_id": "t2", "state": "queued", "repeat": true, "counts": {"queued": 1, "dropped": 1}},
            {"task_id": "t3", "state": "queued", "repeat": false, "counts": {"queued": 1}}]);
        let dropped = vec![(1, "t1".to_owned()), (2, "t2".to_owned())];
        assert_eq!(sorted(202, astray), (Ok(vec![]), Outcome { taken: 1, dropped, ..Outcome::default() }));
        let full = json!({"error": {"items": [{"state": "queued", "repeat": false}, {"state": "not_taken"}, {"state": "not_taken"}]}});
        assert_eq!(sorted(503, full), (Ok(vec![2, 3]), Outcome { taken: 1, ..Outcome::default() }));
        assert_eq!(sorted(503, json!({"error": {"code": "store_unavailable"}})).0, Ok(vec![1, 2, 3]));
        let conflict = json!({"error": {"items": [{"state": "queued", "repeat": false},
            {"state": "refused", "field": "task_id", "message": "another"}, {"state": "queued", "repeat": false}]}});
        let refused = vec![(2, "task_id: another".to_owned())];
        assert_eq!(sorted(409, conflict), (Ok(vec![]), Outcome { taken: 2, refused, ..Outcome::default() }));
        let faults = json!({"error": {"faults": [{"index": 0, "field": "app", "message": "is missing"}, {"index": 2, "field": "", "message": "bad"}]}});
        let refused = vec![(1, "app: is missing".to_owned()), (3, "bad".to_owned())];
        assert_eq!(sorted(400, faults), (Ok(vec![2]), Outcome { refused, ..Outcome::default() }));
        assert!(sorted(403, json!({"error": {"message": "no"}})).0.unwrap_err().contains("403"));
    }

    #[test]
    fn the_table_says_what_became_of_the_file() {
        let outcome = Outcome { taken: 198, refused: vec![(3, "x".into()), (4, "y".into())], ..Outcome::default() };
        assert_eq!(shown(&outcome, 200), "outcome  tasks\ntaken      198\nrefused      2\n");
    }
}
