//! What a simulation came to: a table or JSON on stdout, a picture in a file.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::{Failure, figures};
use super::Options;
use crate::cli::voice::say;
use crate::sim::{Ledger, Load, Plot, Summary, Target};

/// Broken promises that JSON tells word by word.
const TOLD: usize = 20;

/// A run and its figures.
pub(super) struct Report<'a> {
    pub options: &'a Options,
    pub load: &'a Load,
    pub targets: &'a [Target],
    pub ledger: &'a Arc<Ledger>,
}

impl Report<'_> {
    /// On stdout; what is missing is marked as broken only where the run came to its end.
    pub(super) fn print(&self, finished: bool) -> std::io::Result<()> {
        let summary = self.ledger.summary();
        if self.options.json {
            return say(format_args!("{:#}", self.json(&summary)));
        }
        let mut rows = figures::rows(&summary);
        if !finished {
            rows.iter_mut().for_each(|row| row.broken = None);
        }
        say(format_args!("{}\n\n{}", self.title(), figures::table(&rows)))
    }

    fn chats(&self) -> usize {
        self.targets.iter().map(|target| target.chats.len()).sum()
    }

    fn title(&self) -> String {
        let Load { under_way, seed, rate, .. } = self.load;
        let target = self.options.target.as_str().trim_end_matches('/');
        let pace = rate.map_or(format!("{under_way} messages under way"), |rate| format!("{rate} messages/s"));
        format!("{target}: {} chats, {pace}, seed {seed}", self.chats())
    }

    fn json(&self, summary: &Summary) -> Value {
        let p = &summary.progress;
        let ms = |latency: Duration| latency.as_micros() as f64 / 1000.0;
        let violations = self.ledger.violations();
        json!({
            "target": self.options.target.as_str(), "chats": self.chats(), "seed": self.load.seed,
            "rate": self.load.rate, "under_way": self.load.rate.is_none().then_some(self.load.under_way),
            "messages": p.posted, "taken": p.acked, "not_taken": p.posted - p.acked, "copies": p.copies,
            "wanted": p.wanted, "answered": p.answered, "replies": p.replies, "untagged": p.untagged,
            "misrouted": summary.misrouted, "repeated": summary.repeated, "out_of_order": summary.out_of_order,
            "lost": summary.lost, "refused": summary.refused, "other_faults": summary.other,
            "latency_ms": {
                "mean": ms(summary.mean), "p50": ms(summary.p50), "p95": ms(summary.p95), "p99": ms(summary.p99),
                "max": ms(summary.slowest),
            },
            "seconds": summary.took.as_secs_f64(), "throughput": summary.throughput(), "kept": summary.kept(),
            "broken": violations.iter().take(TOLD).map(ToString::to_string).collect::<Vec<_>>(),
        })
    }

    /// Into the file that was asked for, if one was.
    pub(super) fn plot(&self) -> Result<(), Failure> {
        let Some(file) = &self.options.plot else { return Ok(()) };
        let summary = self.ledger.summary();
        let subtitle = format!(
            "{} messages, {} replies, {:.0} messages/s; mean {}, P95 {}, P99 {}",
            summary.progress.posted,
            summary.progress.replies,
            summary.throughput(),
            figures::millis(summary.mean),
            figures::millis(summary.p95),
            figures::millis(summary.p99),
        );
        let svg = Plot { title: &self.title(), subtitle: &subtitle, samples: &self.ledger.samples() }.svg();
        std::fs::write(file, svg)
            .map_err(|e| Failure::running(format!("{}: can't be written ({e}): name another file", file.display())))
    }
}
