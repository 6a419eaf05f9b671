//! The figures of a load as a table, a line each, and what broke.

use std::fmt::Write as _;
use std::time::Duration;

use super::voice::warn;
use crate::sim::{Ledger, Summary};

/// One line.
pub(super) struct Row {
    pub label: &'static str,
    pub value: String,
    /// Above 0, a promise broke.
    pub broken: Option<u64>,
}

impl Row {
    pub(super) fn new(label: &'static str, value: impl ToString) -> Self {
        Self { label, value: value.to_string(), broken: None }
    }
    fn must_be_0(label: &'static str, n: u64) -> Self {
        Self { label, value: n.to_string(), broken: Some(n) }
    }
}

/// Everything, for one column.
pub(super) fn rows(summary: &Summary) -> Vec<Row> {
    let p = &summary.progress;
    let mut rows = vec![
        Row::new("messages", p.posted),
        Row::new("messages taken", p.acked),
        Row::new("copies sent", p.copies),
        Row::new("duplicates stopped", p.copies.saturating_sub(summary.repeated)),
        Row::new("replies", p.replies),
        Row::must_be_0("replies out of place", summary.misrouted),
        Row::must_be_0("replies repeated", summary.repeated),
        Row::must_be_0("replies out of order", summary.out_of_order),
        Row::must_be_0("replies lost", summary.lost),
        Row::must_be_0("messages not taken", p.posted - p.acked),
        Row::must_be_0("other faults", summary.other),
    ];
    // Only where the fake was told to refuse, or the app says something of its own.
    let rare = [("replies refused by WeCom", summary.refused), ("replies without a tag", p.untagged)];
    rows.extend(rare.into_iter().filter(|(_, n)| *n > 0).map(|(label, n)| Row::new(label, n)));
    rows.extend(latencies(summary));
    rows.push(Row::new("time", seconds(summary.took)));
    rows.push(Row::new("throughput", format!("{:.0} messages/s", summary.throughput())));
    rows
}

/// Mean, P95 and P99.
pub(super) fn latencies(summary: &Summary) -> [Row; 3] {
    [
        Row::new("latency, mean", millis(summary.mean)),
        Row::new("latency, P95", millis(summary.p95)),
        Row::new("latency, P99", millis(summary.p99)),
    ]
}

pub(super) fn millis(duration: Duration) -> String {
    let millis = duration.as_secs_f64() * 1000.0;
    if millis < 100.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
}

pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// One column.
pub(super) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for Row { label, value, broken } in rows {
        let mark = if broken.is_some_and(|n| n > 0) { "  (must be 0)" } else { "" };
        // Writing to a String can't fail.
        let _ = writeln!(text, "{label:<26}{value:>14}{mark}");
    }
    text
}

/// Two columns of the same rows, with their titles.
pub(super) fn side_by_side(titles: [&str; 2], left: &[Row], right: &[Row]) -> String {
    let mut text = format!("{:<26}{:>14}{:>14}\n", "", titles[0], titles[1]);
    for (left, right) in left.iter().zip(right) {
        // Writing to a String can't fail.
        let _ = writeln!(text, "{:<26}{:>14}{:>14}", left.label, left.value, right.value);
    }
    text
}

/// The first few of what went wrong, on stderr.
pub(super) fn complain(ledger: &Ledger) {
    const SHOWN: usize = 10;
    let violations = ledger.violations();
    violations.iter().take(SHOWN).for_each(|violation| warn(format_args!("broken: {violation}")));
    if violations.len() > SHOWN {
        warn(format_args!("broken: … and {} more", violations.len() - SHOWN));
    }
    ledger.lost(SHOWN).iter().for_each(|tag| warn(format_args!("lost: no reply to {tag}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Tag;

    #[test]
    fn the_table_says_which_promise_broke() {
        let ledger = Ledger::default();
        let tag = Tag::new("c1", "u1", 1);
        ledger.expect(&tag, true);
        ledger.posted(1);
        let line = |label: &str, n: u64, mark: &str| format!("{label:<26}{n:>14}{mark}\n");
        let untaken = table(&rows(&ledger.summary()));
        assert!(untaken.contains(&line("messages not taken", 1, "  (must be 0)")), "{untaken}");
        ledger.acked(1);
        let lost = table(&rows(&ledger.summary()));
        assert!(lost.contains(&line("replies lost", 1, "  (must be 0)")), "{lost}");
        ledger.replied("c1", &tag.to_string());
        let kept = table(&rows(&ledger.summary()));
        assert!(!kept.contains("must be") && kept.contains(&line("replies", 1, "")), "{kept}");
        assert!(!kept.contains("without a tag"), "{kept}");
    }
}
