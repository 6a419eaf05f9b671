//! Posts a load, waits for what is to come of it, and shows meanwhile how far it is: one line that moves on a terminal, a
//! line a second elsewhere. Always on stderr.

use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::voice::warn;
use crate::sim::{Ledger, Load, Target};

/// How long nothing may move before what is missing counts as lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Where nothing is awaited any more, a reply too many may still be on its way for so long.
const QUIET: Duration = Duration::from_secs(2);

/// Posts `load` and waits for its replies until nothing moved for `patience`. `title` stands before each line.
pub(super) async fn drive(title: &str, load: &Load, targets: &[Target], ledger: &Arc<Ledger>, patience: Duration) {
    let progress = ProgressLine { title, load, began: Instant::now(), terminal: std::io::stderr().is_terminal() };
    let run = async {
        tokio::select! {
            () = load.run_on(targets, ledger) => {}
            () = stuck(load, ledger, patience) => return,
        }
        // In a closed loop each member's last reply comes after all that could be too many.
        if ledger.all_answered(patience).await && load.rate.is_some() {
            ledger.stalled(QUIET).await;
        }
    };
    tokio::pin!(run);
    let mut tick = tokio::time::interval(progress.every());
    // The first tick comes at once, before there is anything to show.
    tick.tick().await;
    loop {
        tokio::select! {
            () = &mut run => break,
            _ = tick.tick() => progress.show(ledger),
        }
    }
    progress.show(ledger);
    progress.end();
}

/// Ends when nothing moves although something is awaited; between the messages of a low rate nothing is.
async fn stuck(load: &Load, ledger: &Ledger, patience: Duration) {
    loop {
        ledger.stalled(patience).await;
        let progress = ledger.progress();
        if load.rate.is_none() || progress.missing > 0 || progress.acked < progress.posted {
            return;
        }
    }
}

struct ProgressLine<'a> {
    title: &'a str,
    load: &'a Load,
    began: Instant,
    terminal: bool,
}

impl ProgressLine<'_> {
    fn every(&self) -> Duration {
        Duration::from_millis(if self.terminal { 100 } else { 1000 })
    }

    /// How much of the load was posted.
    fn percent(&self, posted: u64) -> u64 {
        let share = match self.load.duration {
            Some(duration) => self.began.elapsed().as_secs_f64() / duration.as_secs_f64(),
            None => posted as f64 / self.load.messages.max(1) as f64,
        };
        (share * 100.0).min(100.0) as u64
    }

    fn show(&self, ledger: &Ledger) {
        let p = ledger.progress();
        let line = format!(
            "{}{:3} %  {} messages posted, {} copies, {} replies, {} under way",
            self.title,
            self.percent(p.posted),
            p.posted,
            p.copies,
            p.replies,
            p.missing
        );
        // A closed stderr is no reason to stop.
        let mut stderr = std::io::stderr().lock();
        let _ = match self.terminal {
            true => write!(stderr, "\r{line}\x1b[K"),
            false => writeln!(stderr, "{line}"),
        };
    }

    fn end(&self) {
        if self.terminal {
            warn("");
        }
    }
}
