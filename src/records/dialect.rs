//! What differs between databases. Everything else is plain SQL, sent through a pool that knows both.
//!
//! A further database is one more variant here and one more folder of migrations (PostgreSQL also wants `$1` for `?`).

use std::path::{Path, PathBuf, absolute};
use std::str::FromStr;
use std::time::Duration;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sqlx::ConnectOptions;
use sqlx::any::AnyConnectOptions;
use sqlx::migrate::Migrator;
use sqlx::sqlite::SqliteConnectOptions;

use super::RecordsError;
use crate::model::Secret;
use crate::store::lock::create_file;

/// Applied in order at each start; one that was applied is never edited.
static SQLITE: Migrator = sqlx::migrate!("src/records/migrations/sqlite");
static MYSQL: Migrator = sqlx::migrate!("src/records/migrations/mysql");

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// A file of this process's own.
    Sqlite,
    /// MySQL or MariaDB: a server, maybe shared, maybe away.
    MySql,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The flusher's.
    Write,
    /// Questions.
    Read,
    /// What changes the tables.
    Shape,
}

impl Dialect {
    /// Which database an address is of, and how to connect to it; the folder of a file is made.
    pub(super) fn of(url: &Secret) -> Result<(Self, AnyConnectOptions), RecordsError> {
        let (dialect, url) = match url.expose().split_once("://") {
            Some(("sqlite", _)) => (Self::Sqlite, file(url.expose())?),
            Some(("mysql" | "mariadb", _)) => (Self::MySql, url.expose().to_owned()),
            _ => return Err(RecordsError::Url),
        };
        let options = AnyConnectOptions::from_str(&url).map_err(|_| RecordsError::Url)?;
        Ok((dialect, options.disable_statement_logging()))
    }

    /// The tables.
    pub(super) fn migrations(self) -> &'static Migrator {
        match self {
            Self::Sqlite => &SQLITE,
            Self::MySql => &MYSQL,
        }
    }

    /// What is said first on each connection.
    pub(super) fn greeting(self, purpose: Use) -> &'static [&'static str] {
        match (self, purpose) {
            // FULL, not NORMAL: in WAL mode NORMAL may lose the last transactions when the machine dies, and by then their
            // lines are trimmed from the journal. One sync a flush is cheap. The page cache (negative: KiB) is the
            // writer's because two indices are by digest and msg_id: hit at random.
            (Self::Sqlite, Use::Write | Use::Shape) => {
                &["PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA cache_size = -32768"]
            }
            (Self::Sqlite, Use::Read) => &["PRAGMA query_only = ON"],
            // No gap locks: whoever writes holds the lock of `lock` anyway.
            //
            // A gateway whose machine or network dies in a transaction would keep that lock for `wait_timeout`, which is hours by
            // default; one that lives is never silent in a transaction for longer than a call may take. The others end a wait for a
            // lock before its call is given up: a server does not notice that, so such statements would gather there.
            (Self::MySql, Use::Write | Use::Read) => &[
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
                "SET SESSION wait_timeout = 30, lock_wait_timeout = 10, innodb_lock_wait_timeout = 20",
            ],
            // It may take its time.
            (Self::MySql, Use::Shape) => &[],
        }
    }

    /// How long a connection that nobody uses is kept: a server that has to close it notes that as a fault.
    pub(super) fn idle_for(self) -> Option<Duration> {
        match self {
            Self::Sqlite => None,
            // Looked at that often, so it is twice that in the end, and still within `wait_timeout`.
            Self::MySql => Some(Duration::from_secs(10)),
        }
    }

    /// Begins a transaction that writes. SQLite's takes the write lock at once: reading first and locking later would
    /// fail where another connection wrote in between.
    pub(super) fn begin(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::MySql => "START TRANSACTION",
        }
    }

    /// Waits until no other gateway writes, until the end of the transaction.
    pub(super) fn lock(self) -> Option<&'static str> {
        match self {
            Self::Sqlite => None,
            Self::MySql => Some("SELECT id FROM writing WHERE id = 1 FOR UPDATE"),
        }
    }

    /// The end of a `SELECT` in a transaction: its rows are locked, those that another has locked are passed over. SQLite has one
    /// writer at a time.
    pub(super) fn skip_locked(self) -> &'static str {
        match self {
            Self::Sqlite => "",
            Self::MySql => " FOR UPDATE SKIP LOCKED",
        }
    }

    /// The end of an `INSERT` whose row may be there already: these columns are renewed, none leaves it as it is.
    /// `key` is what makes it the same row.
    pub(super) fn on_repeat(self, key: &[&str], renew: &[&str]) -> String {
        let list = |one: fn(&&str) -> String| renew.iter().map(one).collect::<Vec<_>>().join(", ");
        match (self, key) {
            (Self::Sqlite, _) if renew.is_empty() => format!(" ON CONFLICT ({}) DO NOTHING", key.join(", ")),
            (Self::Sqlite, _) => {
                let set = list(|column| format!("{column} = excluded.{column}"));
                format!(" ON CONFLICT ({}) DO UPDATE SET {set}", key.join(", "))
            }
            (Self::MySql, [first, ..]) if renew.is_empty() => format!(" ON DUPLICATE KEY UPDATE {first} = {first}"),
            (Self::MySql, _) => {
                format!(" ON DUPLICATE KEY UPDATE {}", list(|column| format!("{column} = VALUES({column})")))
            }
        }
    }

    /// As [`Dialect::on_repeat`], but these columns are added to what is there.
    pub(super) fn on_repeat_add(self, key: &[&str], add: &[&str]) -> String {
        let sums = |new: fn(&str) -> String| {
            add.iter().map(|column| format!("{column} = {column} + {}", new(column))).collect::<Vec<_>>().join(", ")
        };
        match self {
            Self::Sqlite => {
                let set = sums(|column| format!("excluded.{column}"));
                format!(" ON CONFLICT ({}) DO UPDATE SET {set}", key.join(", "))
            }
            Self::MySql => format!(" ON DUPLICATE KEY UPDATE {}", sums(|column| format!("VALUES({column})"))),
        }
    }
}

/// A file's address in the one spelling in which any path is a URL; makes its folder.
fn file(url: &str) -> Result<String, RecordsError> {
    let options = SqliteConnectOptions::from_str(url).map_err(|_| RecordsError::Url)?;
    let path = options.get_filename();
    let fault = |path: &Path| {
        let path = path.to_path_buf();
        move |source| RecordsError::Folder { path, source }
    };
    let whole: PathBuf = absolute(path).map_err(fault(path))?;
    if let Some(folder) = whole.parent() {
        std::fs::create_dir_all(folder).map_err(fault(folder))?;
    }
    create_file(&whole).map_err(fault(&whole))?;
    let parts = whole.to_str().ok_or(RecordsError::Url)?.split('/');
    let parts: Vec<String> = parts.map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC).to_string()).collect();
    Ok(format!("sqlite://{}?mode=rwc", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repeat_is_said_in_each_database_its_own_way() {
        assert_eq!(Dialect::Sqlite.on_repeat(&["a", "b"], &[]), " ON CONFLICT (a, b) DO NOTHING");
        assert_eq!(Dialect::MySql.on_repeat(&["a", "b"], &[]), " ON DUPLICATE KEY UPDATE a = a");
        assert_eq!(
            Dialect::MySql.on_repeat(&["a"], &["x", "y"]),
            " ON DUPLICATE KEY UPDATE x = VALUES(x), y = VALUES(y)"
        );
        let sqlite = Dialect::Sqlite.on_repeat(&["a"], &["x"]);
        assert_eq!(sqlite, " ON CONFLICT (a) DO UPDATE SET x = excluded.x");
        let sqlite = Dialect::Sqlite.on_repeat_add(&["a", "b"], &["x", "y"]);
        assert_eq!(sqlite, " ON CONFLICT (a, b) DO UPDATE SET x = x + excluded.x, y = y + excluded.y");
        assert_eq!(Dialect::MySql.on_repeat_add(&["a"], &["x"]), " ON DUPLICATE KEY UPDATE x = x + VALUES(x)");
    }

    #[test]
    fn a_file_may_have_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let name = folder.path().join("群 1/records#1.db");
        let (dialect, options) =
            Dialect::of(&Secret::new(format!("sqlite://{}", name.display().to_string().replace('#', "%23")))).unwrap();
        assert_eq!(dialect, Dialect::Sqlite);
        let back = SqliteConnectOptions::from_url(&options.database_url).unwrap();
        assert_eq!(back.get_filename(), name);
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&name).unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600, "what members write is for nobody else's eyes");
        }
        assert!(name.parent().unwrap().is_dir());
        assert!(matches!(Dialect::of(&Secret::new("postgres://u:p@h/db")), Err(RecordsError::Url)));
    }
}
