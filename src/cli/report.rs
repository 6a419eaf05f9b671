//! `report`: a day's statistics as a table, as JSON, or as CSV for a spreadsheet.

use jiff::civil::Date;
use serde_json::Value;

use super::operator::Running;
use super::table::{Align, Column, table};
use super::voice::say;
use super::{Failure, runtime};
use crate::config::settings::Scope;

/// What `report` is asked for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// The day, such as 2026-11-29 [default: today].
    #[arg(long, value_parser = date)]
    date: Option<String>,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    #[command(flatten)]
    gateway: Running,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// As the API answers it, all chats in one list.
    Json,
    /// One line in all, for each chat and for each rule.
    Csv,
}

fn date(text: &str) -> Result<String, String> {
    let day: Option<Date> = text.parse().ok().filter(|day: &Date| day.to_string() == text);
    day.map(|day| day.to_string()).ok_or_else(|| "is no day: write one such as 2026-11-29".to_owned())
}

/// Prints the statistics of a day.
pub(super) fn run(options: Options) -> Result<(), Failure> {
    let Options { date, format, gateway } = options;
    let operator = gateway.operator(Scope::Read)?;
    let mut query = vec![("limit", "1000")];
    query.extend(date.as_deref().map(|date| ("date", date)));
    let stats = runtime()?.block_on(operator.get_all(&["stats"], &query))?;
    match format {
        Format::Table => say(as_table(&stats))?,
        Format::Json => say(format_args!("{stats:#}"))?,
        Format::Csv => say(as_csv(&stats))?,
    }
    Ok(())
}

/// What every table has of replies.
const REPLIES: [Column; 10] = [
    ("replies", Align::Right),
    ("delivered", Align::Right),
    ("unknown", Align::Right),
    ("dead", Align::Right),
    ("dropped", Align::Right),
    ("success", Align::Right),
    ("mean", Align::Right),
    ("P50", Align::Right),
    ("P95", Align::Right),
    ("P99", Align::Right),
];

fn as_table(stats: &Value) -> String {
    let (total, mut text) = (&stats["total"], format!("{}, {}\n\n", cell(&stats["date"]), cell(&stats["zone"])));
    let of_chats = [("app", Align::Left), ("chat", Align::Left), ("messages", Align::Right), ("copies", Align::Right)];
    let row = |app: String, chat: String, of: &Value| {
        [vec![app, chat, cell(&of["messages"]), cell(&of["duplicates"])], replies(of)].concat()
    };
    let chats = list(stats, "items").iter().map(|chat| {
        let name = chat["name"].as_str().or(chat["chat"].as_str()).unwrap_or_default();
        row(cell(&chat["app"]), name.to_owned(), chat)
    });
    let rows: Vec<_> = std::iter::once(row("all".to_owned(), String::new(), total)).chain(chats).collect();
    text.push_str(&table(&[&of_chats[..], &REPLIES].concat(), &rows));
    let hits = total["hits"].as_object().into_iter().flatten().filter(|(_, n)| **n != 0);
    let hits: Vec<String> = hits.map(|(word, n)| format!("{word} {n}")).collect();
    text.push_str(&format!(
        "\nby what set it off: {}\n",
        if hits.is_empty() { "nothing".into() } else { hits.join(", ") }
    ));
    let of_rules = [
        ("app", Align::Left),
        ("trigger", Align::Left),
        ("rule", Align::Left),
        ("hits", Align::Right),
        ("share", Align::Right),
    ];
    let rules = list(stats, "rules").iter().map(|rule| {
        let named = ["app", "trigger", "rule", "hits"].map(|field| cell(&rule[field])).to_vec();
        [named, vec![percent(&rule["hit_rate"])], replies(rule)].concat()
    });
    let rules: Vec<_> = rules.collect();
    if !rules.is_empty() {
        text.push_str(&format!("\n{}", table(&[&of_rules[..], &REPLIES].concat(), &rules)));
    }
    text
}

/// The cells of [`REPLIES`].
fn replies(of: &Value) -> Vec<String> {
    let counts = ["replies", "delivered", "unknown", "dead", "dropped"].map(|field| cell(&of[field]));
    let latencies = ["mean", "p50", "p95", "p99"].map(|field| match &of["latency_ms"][field] {
        Value::Null => "-".to_owned(),
        ms => format!("{ms} ms"),
    });
    [&counts[..], &[percent(&of["success_rate"])], &latencies].concat()
}

fn percent(share: &Value) -> String {
    share.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", share * 100.0))
}

/// What a line of CSV says first, and what of its day's part.
const OF: [&str; 8] = ["date", "zone", "of", "app", "chat", "name", "trigger", "rule"];
const FIGURES: [&str; 10] = [
    "messages",
    "hits",
    "hit_rate",
    "duplicates",
    "replies",
    "delivered",
    "unknown",
    "dead",
    "dropped",
    "success_rate",
];
const LATENCIES: [&str; 4] = ["mean", "p50", "p95", "p99"];

fn as_csv(stats: &Value) -> String {
    let words: Vec<&str> =
        stats["total"]["hits"].as_object().into_iter().flat_map(|hits| hits.keys()).map(String::as_str).collect();
    let hits = words.iter().map(|word| format!("hits_{word}"));
    let titles = OF.iter().chain(&FIGURES).map(|title| (*title).to_owned()).chain(hits);
    let titles = titles.chain(LATENCIES.iter().map(|title| format!("latency_{title}_ms")));
    let line = |of: &str, part: &Value| {
        let named = OF[3..].iter().map(|field| cell(&part[*field]));
        let first = [cell(&stats["date"]), cell(&stats["zone"]), of.to_owned()].into_iter().chain(named);
        let figures =
            FIGURES.iter().map(|field| if part[*field].is_object() { String::new() } else { cell(&part[*field]) });
        let hits = words.iter().map(|word| cell(part["hits"].get(word).unwrap_or(&Value::Null)));
        let latencies = LATENCIES.iter().map(|field| cell(&part["latency_ms"][*field]));
        first.chain(figures).chain(hits).chain(latencies).collect::<Vec<_>>()
    };
    let chats = list(stats, "items").iter().map(|chat| line("chat", chat));
    let rules = list(stats, "rules").iter().map(|rule| line("rule", rule));
    let lines = [titles.collect(), line("all", &stats["total"])].into_iter().chain(chats).chain(rules);
    lines
        .map(|cells: Vec<String>| cells.iter().map(|cell| quoted(cell)).collect::<Vec<_>>().join(",") + "\r\n")
        .collect()
}

/// RFC 4180; what a spreadsheet would take for a formula is kept from it.
fn quoted(cell: &str) -> String {
    let begins = ['=', '+', '-', '@', '＝', '＋', '－', '＠', '\t', '\r', '\n'];
    let is_formula = cell.starts_with(begins) && cell.parse::<f64>().is_err();
    let cell = if is_formula { format!("'{cell}") } else { cell.to_owned() };
    let plain = !cell.contains([',', '"', '\r', '\n']);
    if plain { cell } else { format!("\"{}\"", cell.replace('"', "\"\"")) }
}

fn list<'v>(of: &'v Value, field: &str) -> &'v [Value] {
    of[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats() -> Value {
        let figures = |messages: u64, latency: Value| {
            json!({"messages": messages, "hits": {"chatter": 0, "command": messages}, "duplicates": 2, "replies": messages,
                "delivered": messages, "unknown": 0, "dead": 0, "dropped": 0, "success_rate": 1.0, "latency_ms": latency})
        };
        let latency = json!({"mean": 120, "p50": 100, "p95": 240, "p99": 900});
        let (mut busy, mut calm) = (figures(1234, latency.clone()), figures(0, Value::Null));
        for (chat, id, name) in [(&mut busy, "wrVip", json!("VIP 群，\"A\",b")), (&mut calm, "wrB", Value::Null)] {
            (chat["app"], chat["chat"], chat["name"]) = ("support".into(), id.into(), name);
        }
        calm["success_rate"] = Value::Null;
        let mut rule = figures(1234, latency.clone());
        (rule["app"], rule["trigger"], rule["rule"]) = ("support".into(), "command".into(), "查询".into());
        (rule["hits"], rule["hit_rate"]) = (1234.into(), json!(0.9876));
        json!({"date": "2026-11-29", "zone": "Asia/Shanghai", "total": figures(1234, latency), "rules": [rule],
            "items": [calm, busy], "next": null})
    }

    #[test]
    fn a_table_stands_and_says_nothing_where_there_is_nothing() {
        let want = "\
2026-11-29, Asia/Shanghai

app      chat           messages  copies  replies  delivered  unknown  dead  dropped  success    mean     P50     P95     P99
all                         1234       2     1234       1234        0     0        0  100.00%  120 ms  100 ms  240 ms  900 ms
support  wrB                   0       2        0          0        0     0        0        -       -       -       -       -
support  VIP 群，\"A\",b      1234       2     1234       1234        0     0        0  100.00%  120 ms  100 ms  240 ms  900 ms

by what set it off: command 1234

app      trigger  rule  hits   share  replies  delivered  unknown  dead  dropped  success    mean     P50     P95     P99
support  command  查询  1234  98.76%     1234       1234        0     0        0  100.00%  120 ms  100 ms  240 ms  900 ms
";
        assert_eq!(as_table(&stats()), want);
    }

    #[test]
    fn every_line_of_csv_has_every_column() {
        let text = as_csv(&stats());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert!(lines[0].starts_with("date,zone,of,app,chat,name,trigger,rule,messages,hits,"), "{}", lines[0]);
        assert!(
            lines[0]
                .ends_with("hits_chatter,hits_command,latency_mean_ms,latency_p50_ms,latency_p95_ms,latency_p99_ms")
        );
        assert_eq!(lines[1], "2026-11-29,Asia/Shanghai,all,,,,,,1234,,,2,1234,1234,0,0,0,1.0,0,1234,120,100,240,900");
        assert!(lines[3].contains(",chat,support,wrVip,\"VIP 群，\"\"A\"\",b\",,,1234,"), "{}", lines[3]);
        assert_eq!(
            lines[4],
            "2026-11-29,Asia/Shanghai,rule,support,,,command,查询,1234,1234,0.9876,2,1234,1234,0,0,0,1.0,,,120,100,240,900"
        );
        let commas = |line: &str| line.matches(',').count();
        assert!([1, 2, 4].iter().all(|n| commas(lines[*n]) == commas(lines[0])), "{text}");
    }

    #[test]
    fn a_spreadsheet_meets_no_formula() {
        let cells = ["=1+1", "@sum(a)", "-5", "+x,y", "价格", "", "\n=1", "＝1+1", "＋x", "－x", "＠x"].map(quoted);
        let kept = ["'=1+1", "'@sum(a)", "-5", "\"'+x,y\"", "价格", "", "\"'\n=1\"", "'＝1+1", "'＋x", "'－x", "'＠x"];
        assert_eq!(cells, kept);
    }

    #[test]
    fn a_day_is_read_or_told_how_to_write() {
        assert_eq!(date("2026-11-29").as_deref(), Ok("2026-11-29"));
        for wrong in ["2026-11-31", "29.11.2026", "2026-11-29T00:00:00Z", "", "heute"] {
            assert!(date(wrong).is_err(), "{wrong}");
        }
    }
}
