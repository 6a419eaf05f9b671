//! What the contract suite does not see: the file, its log, the disk.

use std::sync::mpsc::channel;

use super::step::Step;
use super::*;
use crate::store::Stage;

const HOUR: i64 = 3_600_000;

fn open() -> (tempfile::TempDir, Arc<EmbeddedStore>) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), 4).unwrap();
    (folder, store)
}

#[test]
fn a_store_of_other_shards_is_refused() {
    let (folder, store) = open();
    drop(store);
    let refused = EmbeddedStore::open(folder.path(), 5).err().unwrap();
    assert!(matches!(&refused, StoreError::Refused(text) if text.contains("shards = 4") && text.contains("says 5")));
    EmbeddedStore::open(folder.path(), 4).unwrap();
}

#[test]
fn a_foreign_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("store.db"), "no database at all, but long enough to be looked at").unwrap();
    let refused = EmbeddedStore::open(folder.path(), 4).err().unwrap();
    assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
}

/// Work that comes together in one group: the writer is held until all of it was handed in.
#[tokio::test]
async fn a_failure_in_a_group_is_nobody_elses() {
    let (_folder, store) = open();
    let (release, held) = channel::<()>();
    let hold = store.db.step(move |_| {
        let _ = held.recv();
        Ok(())
    });
    let write = |id: &'static str, fails: bool| {
        store.db.step(move |step| {
            step.set_mark(id, "r", false, HOUR)?;
            if fails { Err(StoreError::Refused(id.into())) } else { Ok(id) }
        })
    };
    let let_go = async { drop(release) };
    let (_, a, b, c, ()) = tokio::join!(hold, write("a", false), write("b", true), write("c", false), let_go);
    assert_eq!((a.unwrap(), c.unwrap()), ("a", "c"));
    assert!(matches!(b.unwrap_err(), StoreError::Refused(id) if id == "b"));
    let marked = async |id| store.db.step(move |step| Ok(step.mark(id)?.is_some())).await.unwrap();
    assert_eq!((marked("a").await, marked("b").await, marked("c").await), (true, false, true));
}

#[tokio::test]
async fn a_full_disk_is_a_refusal_for_now() {
    let (_folder, store) = open();
    let fill = || store.db.step(|step| step.note(Stage::Accepted, "r", "k", &"x".repeat(1 << 20)));
    let limit = async |pages: &'static str| {
        let pragma = format!("PRAGMA max_page_count = {pages}");
        store.db.step(move |step| Ok(step.sql(&pragma)?.query_row([], |_| Ok(()))?)).await.unwrap();
    };
    limit("64").await;
    let error = fill().await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    store.ping().await.unwrap();
    limit("100000").await;
    fill().await.unwrap();
}

/// No test can cut the power, so this one looks at what SQLite was told.
#[tokio::test]
async fn the_writer_syncs_before_it_answers() {
    let (_folder, store) = open();
    let told = async |pragma: &'static str| {
        let read = move |step: &Step<'_>| {
            Ok(step.sql(pragma)?.query_row([], |row| row.get::<_, rusqlite::types::Value>(0))?)
        };
        store.db.step(read).await.unwrap()
    };
    assert_eq!(told("PRAGMA synchronous").await, 2.into());
    assert_eq!(told("PRAGMA journal_mode").await, "wal".to_owned().into());
}

#[tokio::test]
async fn without_fsync_the_writer_does_not_wait_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), Options { fsync: false, ..Options::default() }).unwrap();
    let told = store.db.step(|step| Ok(step.sql("PRAGMA synchronous")?.query_row([], |row| row.get::<_, i64>(0))?));
    assert_eq!(told.await.unwrap(), 0);
}

/// Writes until the log is started anew.
async fn log_starts_anew(store: &EmbeddedStore) {
    let anew = async {
        while store.db.step(|_| Ok(checkpoint::pages())).await.unwrap() > checkpoint::LOG_BOUND / 2 {
            store.ping().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(30), anew).await.expect("the log goes on and on");
}

#[tokio::test]
async fn the_log_starts_anew_in_a_file_that_keeps_its_length() {
    let (folder, store) = open();
    let log = || std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len();
    write_mebibytes(&store, 1, 18).await;
    let long = log();
    log_starts_anew(&store).await;
    assert!(long > 18 << 20 && log() >= long, "{long} bytes became {}", log());
    assert_eq!(store.depth().await.unwrap().journal, 18);
}

#[tokio::test]
async fn who_reads_the_file_is_waited_for_by_nobody() {
    let (folder, store) = open();
    let reader = Connection::open(folder.path().join("store.db")).unwrap();
    reader.execute_batch("BEGIN; SELECT * FROM meta").unwrap();
    let patient = |step: &Step<'_>| Ok(step.sql("PRAGMA busy_timeout = 3600000")?.query_row([], |_| Ok(()))?);
    store.db.step(patient).await.unwrap();
    let written = tokio::time::timeout(Duration::from_secs(60), write_mebibytes(&store, 1, 40));
    written.await.expect("the reader is waited for");
    let pages = store.db.step(|_| Ok(checkpoint::pages())).await.unwrap();
    assert!(pages > 2 * checkpoint::LOG_BOUND, "{pages} pages: the log went on");
    reader.execute_batch("COMMIT").unwrap();
    write_mebibytes(&store, 1, 18).await;
    log_starts_anew(&store).await;
    assert_eq!(store.depth().await.unwrap().journal, 58);
}

#[tokio::test]
async fn a_log_that_grew_too_long_is_cut_back() {
    let (folder, store) = open();
    let log = || std::fs::metadata(folder.path().join("store.db-wal")).unwrap().len();
    write_mebibytes(&store, 40, 1).await;
    assert!(log() > checkpoint::LOG_KEPT as u64);
    log_starts_anew(&store).await;
    assert!(log() <= checkpoint::LOG_KEPT as u64);
    assert_eq!(store.depth().await.unwrap().journal, 40);
}

/// So many lines of 1 MiB a step, in so many steps.
async fn write_mebibytes(store: &EmbeddedStore, lines: usize, steps: usize) {
    for _ in 0..steps {
        let write = |step: &Step<'_>| step.note(Stage::Accepted, "r", "k", &"x".repeat(1 << 20));
        store.db.step(move |step| (0..lines).try_for_each(|_| write(step))).await.unwrap();
    }
}
