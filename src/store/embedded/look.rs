//! A look at the file from outside, beside a gateway that may be working with it: nothing is made or changed, and no writer waits.

use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rusqlite::{Connection, OpenFlags};

/// With how many shards the store in the folder `path` was set up; `None` where there is none, or where its file does not
/// say so (yet, or to this user).
pub fn shards_of(path: &Path) -> Option<u16> {
    let beside = |name: &str| path.join(name).exists();
    // What was set up a moment ago stands in the log alone. Where there is no log, a reader would make one.
    let logged = if beside("store.db-wal") && beside("store.db-shm") { read(path, "mode=ro") } else { None };
    // As the file lies there, without a lock: the number is never changed.
    logged.or_else(|| read(path, "immutable=1"))
}

fn read(path: &Path, how: &str) -> Option<u16> {
    let file = path.join("store.db");
    let parts: Vec<String> =
        file.to_str()?.split('/').map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()).collect();
    let url = format!("file:{}?{how}", parts.join("/"));
    let conn = Connection::open_with_flags(url, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI).ok()?;
    conn.query_row("SELECT value FROM meta WHERE name = 'shards'", [], |row| row.get(0)).ok()
}
