//! Keeps the write-ahead log short.
//!
//! SQLite's own way, a checkpoint inside some commit, makes that commit's callers wait for the copying; and a checkpoint
//! from elsewhere alone never reaches the log's end while writes go on. So it goes in two halves: a second connection on its
//! own thread copies the bulk while the writer goes on, then the writer copies the little that came in meanwhile, between two
//! groups. Its next commit starts the log anew, at the beginning of a file that keeps its length: writing over what is there
//! is synced sooner than making a file longer, which the file system has to write down, too.
//!
//! Nobody is waited for: while somebody reads the file (a backup, a shell), the log grows.

use std::cell::Cell;
use std::ffi::c_int;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::database::{connect, spawn};
use crate::store::Result;

/// From so many pages of the log on it is started anew (16 MiB of them).
pub(super) const LOG_BOUND: c_int = 4096;
/// A log that grew longer than this is cut back when it is started anew, in bytes: more than it mostly grows to while it is
/// being copied.
pub(super) const LOG_KEPT: i64 = 32 << 20;

thread_local! {
    /// Pages in the log, as this thread's last commit left it.
    static PAGES: Cell<c_int> = const { Cell::new(0) };
}

fn note_pages(_: &Wal, pages: c_int) -> rusqlite::Result<()> {
    PAGES.set(pages);
    Ok(())
}

/// Pages in the log of the database that this thread writes.
#[cfg(test)]
pub(super) fn pages() -> c_int {
    PAGES.get()
}

/// The writer's half.
pub(super) struct Checkpoints {
    /// Asks the copier to start; gone with the writer, which ends the copier.
    start: Sender<()>,
    /// The copier was asked; it is not asked again before its copy was followed up.
    asked: bool,
    /// Pages in the log when it was last copied to its end, if it was not started anew since.
    done: c_int,
    copied: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Starts the copier for the database at `file`, which `writer` writes, in a thread that bears its `name`.
    pub fn start(file: &Path, name: &str, writer: &Connection) -> Result<(Self, JoinHandle<()>)> {
        writer.wal_hook(Some(note_pages));
        let conn = connect(file, true)?;
        let (start, asked) = channel();
        let copied = Arc::new(AtomicBool::new(false));
        let done = copied.clone();
        let thread = spawn(format!("{name}-checkpoint"), move || copy(&conn, &asked, &done))?;
        Ok((Self { start, asked: false, done: 0, copied }, thread))
    }

    /// Called between two groups, by the thread that commits them.
    pub fn keep_up(&mut self, conn: &Connection) {
        let pages = PAGES.get();
        if pages < self.done {
            self.done = 0;
        }
        if self.asked {
            if self.copied.swap(false, Ordering::Acquire) {
                checkpoint(conn);
                (self.asked, self.done) = (false, pages);
            }
        } else if pages - self.done > LOG_BOUND {
            self.asked = self.start.send(()).is_ok();
        }
    }
}

fn copy(conn: &Connection, asked: &Receiver<()>, copied: &AtomicBool) {
    while asked.recv().is_ok() {
        checkpoint(conn);
        copied.store(true, Ordering::Release);
    }
}

/// Copies what can be copied now.
fn checkpoint(conn: &Connection) {
    // The row tells whether a reader was in the way; the next round gets further.
    if let Err(error) = conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
        tracing::warn!(%error, "a write-ahead log could not be checkpointed");
    }
}
