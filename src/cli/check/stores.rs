//! What lanes and records are kept in, looked at without changing any of it: the number of shards of an embedded store that is
//! there, Redis, and the records' database.

use std::fs::OpenOptions;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, Row};
use url::Url;

use super::super::{Failure, MISCONFIGURED};
use super::online::Finding;
use crate::config::Settings;
use crate::config::settings::Backend;
use crate::model::Secret;
use crate::store::StoreError;
use crate::store::embedded::shards_of;
use crate::store::redis::{laid_out_otherwise, shards_at};

/// How long a database server may take to let us in and to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// What a file of SQLite's begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What the flusher and its tables need of a server.
const RIGHTS: [&str; 7] = ["SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "INDEX"];

/// Whether an embedded store that is there was set up with as many shards.
pub(super) fn set_up_alike(settings: &Settings, config: &Path) -> Result<(), Failure> {
    let store = &settings.store;
    match (store.backend, shards_of(&store.path)) {
        (Backend::Embedded, Some(kept)) if kept != store.shards => Err(Failure {
            code: MISCONFIGURED,
            text: format!(
                "{}: store.shards: is {}, but {} was set up with {kept}, and the number is fixed at first start: set it back, or name \
                 another folder in store.path",
                config.display(),
                store.shards,
                store.path.join("store.db").display()
            ),
        }),
        (Backend::Embedded | Backend::Redis, _) => Ok(()),
    }
}

/// Redis, where lanes are kept there, as `serve` would connect to it.
pub(super) async fn redis(settings: &Settings, config: &Path) -> Option<Finding> {
    if settings.store.backend != Backend::Redis {
        return None;
    }
    let subject = format!("Redis{}", place(&settings.store.redis));
    let wanted = settings.store.shards;
    let answered = match shards_at(&settings.store.redis).await {
        Ok(Some(there)) if there != wanted => Err(laid_out_otherwise(wanted, there)),
        other => other,
    };
    let file = config.display();
    Some(match answered {
        Ok(Some(there)) => Finding::fine(subject, format!("answers, and what it holds is laid out for {there} shards")),
        Ok(None) => Finding::fine(subject, "answers, and holds nothing of a gateway yet"),
        Err(StoreError::Refused(why)) => {
            Finding::fault(subject, why, format!("{file}: store.redis or store.shards, as it says"))
        }
        Err(error) => {
            let mend = format!("{file}: start the server, or correct store.redis; see to firewall and routes");
            Finding::fault(subject, error.to_string(), mend)
        }
    })
}

/// Where a server is, without user and password; nothing where the address names several.
fn place(url: &Secret) -> String {
    let url = Url::parse(url.expose()).ok();
    let of = |url: &Url| {
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Some(format!(" at {}{port}", url.host_str()?))
    };
    url.as_ref().and_then(of).unwrap_or_default()
}

/// The records' database.
pub(super) async fn database(settings: &Settings, config: &Path) -> Finding {
    let url = &settings.database.url;
    match SqliteConnectOptions::from_str(url.expose()) {
        Ok(options) if url.expose().starts_with("sqlite:") => file(options.get_filename(), config),
        Ok(_) | Err(_) => {
            let subject = format!("database{}", place(url));
            let asked = tokio::time::timeout(PATIENCE, server(url)).await;
            let mend = |what: &str| format!("{}: database.url: {what}", config.display());
            match asked {
                Ok(Ok(Server { reads_only: true, .. })) => {
                    let says = "answers, but takes no writes (read_only)";
                    Finding::hint(subject, says, mend("name the server that writes, if this is a replica"))
                }
                Ok(Ok(Server { lacks, .. })) if !lacks.is_empty() => {
                    let says = format!("answers, but its user seems not to be granted {}", lacks.join(", "));
                    Finding::hint(subject, says, mend("grant all on its database to this user, or name another one"))
                }
                Ok(Ok(_)) => {
                    Finding::fine(subject, "answers and lets the user write; serve brings its tables up to date")
                }
                Ok(Err(error)) => Finding::fault(
                    subject,
                    format!("can't be used: {error}"),
                    mend("start the server and create the database, or correct user, password, host and database"),
                ),
                Err(_) => {
                    let says = format!("no answer within {} s", PATIENCE.as_secs());
                    Finding::fault(subject, says, mend("correct host and port; see to firewall and routes"))
                }
            }
        }
    }
}

/// A file of records: whether it is one, and may be written.
fn file(path: &Path, config: &Path) -> Finding {
    let subject = format!("database {}", path.display());
    let fault = |says: String| {
        let mend = format!("{}: database.url: name a file that this user may write, or another one", config.display());
        Finding::fault(subject.clone(), says, mend)
    };
    if !path.exists() {
        let above = path.ancestors().skip(1).find(|above| above.exists());
        return match above.filter(|above| !above.is_dir()) {
            Some(file) => fault(format!("can't be made: {} is no folder", file.display())),
            None => Finding::fine(subject, "is not there yet: serve makes it"),
        };
    }
    // For appending, so that nothing of it changes.
    let opened = OpenOptions::new().read(true).append(true).open(path);
    let mut begins = Vec::new();
    let read = opened.and_then(|file| file.take(SQLITE.len() as u64).read_to_end(&mut begins));
    match read {
        Err(error) => fault(format!("can't be read and written: {error}")),
        Ok(_) if !begins.is_empty() && begins != SQLITE => fault("is no SQLite database".to_owned()),
        Ok(_) => Finding::fine(subject, "can be written; serve brings its tables up to date"),
    }
}

/// What a server says of itself.
struct Server {
    reads_only: bool,
    /// Of [`RIGHTS`], those that no grant names.
    lacks: Vec<&'static str>,
}

async fn server(url: &Secret) -> sqlx::Result<Server> {
    let mut connection = MySqlConnection::connect_with(&MySqlConnectOptions::from_str(url.expose())?).await?;
    let reads_only = sqlx::query("SELECT @@global.read_only").fetch_one(&mut connection).await?.try_get(0)?;
    let grants = sqlx::query("SHOW GRANTS").fetch_all(&mut connection).await?;
    let grants = grants.iter().map(|row| row.try_get(0)).collect::<sqlx::Result<Vec<String>>>()?;
    connection.close().await?;
    Ok(Server { reads_only, lacks: lacking(&grants) })
}

/// Which of [`RIGHTS`] no grant names; none where a role may hold them. On which databases they hold is not looked at.
fn lacking(grants: &[String]) -> Vec<&'static str> {
    let named: Option<Vec<&str>> =
        grants.iter().map(|grant| Some(grant.strip_prefix("GRANT ")?.split_once(" ON ")?.0)).collect();
    let Some(named) = named else { return Vec::new() };
    let holds = |right: &str| named.iter().flat_map(|rights| rights.split(", ")).any(|named| named == right);
    if holds("ALL PRIVILEGES") { Vec::new() } else { RIGHTS.into_iter().filter(|right| !holds(right)).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_tell_what_is_lacking() {
        let lacking = |grants: &[&str]| lacking(&grants.iter().map(|grant| (*grant).to_owned()).collect::<Vec<_>>());
        let usage = "GRANT USAGE ON *.* TO `gw`@`%` IDENTIFIED BY PASSWORD '*1'";
        assert_eq!(lacking(&[usage]), RIGHTS);
        assert_eq!(lacking(&[usage, "GRANT ALL PRIVILEGES ON `gw`.* TO `gw`@`%`"]), [""; 0]);
        assert_eq!(
            lacking(&["GRANT SELECT, INSERT, UPDATE, DELETE ON `gw`.* TO `gw`@`%`"]),
            ["CREATE", "ALTER", "INDEX"]
        );
        assert_eq!(lacking(&[usage, "GRANT `writer`@`%` TO `gw`@`%`"]), [""; 0], "a role may hold them");
    }

    #[test]
    fn a_place_is_told_without_its_password() {
        let place = |url: &str| place(&Secret::new(url));
        assert_eq!(place("redis://:s%40cret@10.0.0.1:6379/2"), " at 10.0.0.1:6379");
        assert_eq!(place("mysql://gw:secret@db/records"), " at db");
        assert_eq!(place("redis+cluster://:secret@h1:1,h2:2"), "");
    }

    #[test]
    fn a_file_is_looked_at_and_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let config = Path::new("gateway.toml");
        let says = |name: &str| {
            let found = file(&folder.path().join(name), config);
            (found.mend.is_some(), found.says)
        };
        assert_eq!(says("new/records.db"), (false, "is not there yet: serve makes it".to_owned()));
        std::fs::write(folder.path().join("text"), "a text of somebody's").unwrap();
        assert_eq!(says("text"), (true, "is no SQLite database".to_owned()));
        let (at_fault, why) = says("text/records.db");
        assert!(at_fault && why.ends_with("text is no folder"), "{why}");
        std::fs::write(folder.path().join("empty"), "").unwrap();
        assert!(!says("empty").0);
        let (at_fault, why) = says("");
        assert!(at_fault && why.starts_with("can't be read and written: "), "{why}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
