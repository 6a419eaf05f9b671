//! Keeps the write-ahead log short.
//!
//! SQLite's own way, a checkpoint inside some commit, makes that commit's callers wait for the copying; and a checkpoint
//! from elsewhere alone never empties the log while writes go on. So it goes in two halves: a second connection on its
//! own thread copies the bulk while the writer goes on, then the writer copies the little that came in meanwhile, between two
//! groups, and starts the log anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::database::{connect, spawn};
use crate::store::Result;

/// From this size of the log on it is emptied, in bytes.
pub(super) const LOG_BOUND: u64 = 16 << 20;

/// The writer's half.
pub(super) struct Checkpoints {
    log: PathBuf,
    /// Asks the copier to start; gone with the writer, which ends the copier.
    start: Sender<()>,
    /// The copier was asked; it is not asked again before its copy was followed up.
    asked: bool,
    copied: Arc<AtomicBool>,
}

impl Checkpoints {
    /// Starts the copier for the database at `file`, in a thread that bears its `name`.
    pub fn start(file: &Path, name: &str) -> Result<(Self, JoinHandle<()>)> {
        let conn = connect(file, true)?;
        let (start, asked) = channel();
        let copied = Arc::new(AtomicBool::new(false));
        let done = copied.clone();
        let thread = spawn(format!("{name}-checkpoint"), move || copy(&conn, &asked, &done))?;
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        Ok((Self { log: log.into(), start, asked: false, copied }, thread))
    }

    /// Called between two groups.
    pub fn keep_up(&mut self, conn: &Connection) {
        if self.asked {
            if self.copied.swap(false, Ordering::Acquire) {
                checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)");
                self.asked = false;
            }
        } else if std::fs::metadata(&self.log).is_ok_and(|log| log.len() > LOG_BOUND) {
            self.asked = self.start.send(()).is_ok();
        }
    }
}

fn copy(conn: &Connection, asked: &Receiver<()>, copied: &AtomicBool) {
    while asked.recv().is_ok() {
        checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)");
        copied.store(true, Ordering::Release);
    }
}

fn checkpoint(conn: &Connection, pragma: &str) {
    // The row tells whether a reader was in the way; the next round gets further.
    if let Err(error) = conn.query_row(pragma, [], |_| Ok(())) {
        tracing::warn!(%error, "a write-ahead log could not be checkpointed");
    }
}
