//! The archive: what was said in sessions, for members who come back after the store forgot.
//!
//! Each exchange leaves one journal line (`exchanged`), each deletion one (`forgotten`). What is kept of a session
//! follows from the set of its lines alone: its exchanges that are younger than its last deletion. So lines may be
//! written twice, late, or by several gateways, and nothing that was deleted comes back.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use sqlx::{AnyConnection, QueryBuilder, Row as _};

use super::dialect::Dialect;
use super::trail::{Digest, Recorded, digest};
use super::write::{pieces, push_in};
use super::{Records, RecordsError};
use crate::model::{Session, SessionKey, SessionTurn};
use crate::store::Stage;

/// Sessions a question.
const ROWS: usize = 500;

/// What a flush says of one session.
#[derive(Default)]
struct News<'l> {
    exchanges: Vec<&'l Recorded>,
    forgotten: Option<i64>,
}

impl Records {
    /// What the archive has of a session from after `after` (Unix ms): its last turns, `most` at most, and its vars. `None` where
    /// it has nothing.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Migrate`].
    pub async fn archived(
        &self,
        session: &SessionKey,
        after: i64,
        most: usize,
    ) -> Result<Option<Session>, RecordsError> {
        // Every exchange has a turn of the member's, so that so many of them are enough.
        let rows = sqlx::query(
            "SELECT turns, vars FROM exchanges WHERE session = ? AND at > ? ORDER BY at DESC, line DESC LIMIT ?",
        );
        let name = digest(session.as_str());
        let rows = rows.bind(&name[..]).bind(after).bind(i64::try_from(most.max(1)).unwrap_or(i64::MAX));
        let rows = self.ask(rows).await?;
        let (mut newest_first, mut vars) = (Vec::new(), None);
        for row in &rows {
            let turns: Vec<SessionTurn> = serde_json::from_str(row.try_get("turns")?).unwrap_or_default();
            newest_first.extend(turns.into_iter().rev());
            if vars.is_none() {
                vars = row.try_get::<Option<&str>, _>("vars")?.and_then(|text| serde_json::from_str(text).ok());
            }
        }
        newest_first.truncate(most);
        newest_first.reverse();
        Ok((!rows.is_empty()).then(|| Session { turns: newest_first, vars: vars.unwrap_or_default() }))
    }
}

/// Writes the lines that are of sessions; the others are passed over.
pub(super) async fn write(db: &mut AnyConnection, dialect: Dialect, lines: &[Recorded]) -> Result<(), sqlx::Error> {
    let mut news: BTreeMap<Digest, News> = BTreeMap::new();
    for line in lines {
        match line.step.stage {
            Stage::Exchanged => news.entry(of(line)).or_default().exchanges.push(line),
            Stage::Forgotten => {
                let forgotten = &mut news.entry(of(line)).or_default().forgotten;
                *forgotten = (*forgotten).max(Some(line.step.at));
            }
            _ => {}
        }
    }
    if news.is_empty() {
        return Ok(());
    }
    let known = known(db, news.keys()).await?;
    let mut young = Vec::new();
    for (session, News { exchanges, forgotten }) in news {
        let before = known.get(&session).copied();
        if forgotten > before {
            forget(db, dialect, session, forgotten.unwrap_or_default()).await?;
        }
        let forgotten = forgotten.max(before);
        let younger = exchanges.into_iter().filter(|line| Some(line.step.at) > forgotten);
        young.extend(younger.map(|line| Row::of(session, line)));
    }
    for rows in pieces(&young, Row::size) {
        insert(db, dialect, rows).await?;
    }
    Ok(())
}

/// An exchange as its row.
struct Row<'l> {
    session: Digest,
    line: &'l Recorded,
    turns: String,
    vars: Option<String>,
}

impl<'l> Row<'l> {
    fn of(session: Digest, line: &'l Recorded) -> Self {
        let json = |field: &str| line.step.detail.get(field).map(Value::to_string);
        Self { session, line, turns: json("turns").unwrap_or_else(|| "[]".to_owned()), vars: json("vars") }
    }

    fn size(&self) -> usize {
        self.turns.len() + self.vars.as_ref().map_or(0, String::len)
    }
}

/// Which session a line is of.
fn of(line: &Recorded) -> Digest {
    digest(line.key.session())
}

/// When these sessions were last forgotten, as far as the records know.
async fn known(
    db: &mut AnyConnection,
    sessions: impl Iterator<Item = &Digest>,
) -> Result<HashMap<Digest, i64>, sqlx::Error> {
    let sessions: Vec<&Digest> = sessions.collect();
    let mut known = HashMap::new();
    for some in sessions.chunks(ROWS) {
        let mut sql = QueryBuilder::new("SELECT session, at FROM forgotten WHERE session");
        push_in(&mut sql, some.iter().map(|session| session.as_slice()));
        for row in sql.build().fetch_all(&mut *db).await? {
            if let Ok(session) = row.try_get::<&[u8], _>("session")?.try_into() {
                known.insert(session, row.try_get("at")?);
            }
        }
    }
    Ok(known)
}

async fn forget(db: &mut AnyConnection, dialect: Dialect, session: Digest, at: i64) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("INSERT INTO forgotten (session, at) VALUES (");
    sql.push_bind(&session[..]).push(", ").push_bind(at).push(")").push(dialect.on_repeat(&["session"], &["at"]));
    sql.build().execute(&mut *db).await?;
    let delete = sqlx::query("DELETE FROM exchanges WHERE session = ? AND at <= ?");
    delete.bind(&session[..]).bind(at).execute(db).await.map(drop)
}

async fn insert(db: &mut AnyConnection, dialect: Dialect, rows: &[Row<'_>]) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::new("INSERT INTO exchanges (session, line, at, turns, vars) ");
    sql.push_values(rows, |mut values, Row { session, line, turns, vars }| {
        values.push_bind(&session[..]).push_bind(&line.line[..]).push_bind(line.step.at);
        values.push_bind(turns.as_str()).push_bind(vars.as_deref());
    });
    sql.push(dialect.on_repeat(&["session", "line"], &[]));
    sql.build().execute(db).await.map(drop)
}

/// What an exchange's line says: its turns, and the vars after it where it knows them.
pub fn exchange(turns: &[SessionTurn], vars: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut detail = Map::new();
    // Texts and JSON alone: writing it can't fail.
    detail.insert("turns".to_owned(), serde_json::to_value(turns).unwrap_or_default());
    detail.extend(vars.map(|vars| ("vars".to_owned(), Value::Object(vars.clone()))));
    detail
}

/// Forgets exchanges from before `before` (Unix ms), about `limit` of them; answers whether there may be more.
pub(super) async fn prune(db: &mut AnyConnection, before: i64, limit: u32) -> Result<bool, sqlx::Error> {
    let last = sqlx::query_scalar("SELECT at FROM exchanges WHERE at < ? ORDER BY at LIMIT 1 OFFSET ?");
    let last: Option<i64> = last.bind(before).bind(i64::from(limit)).fetch_optional(&mut *db).await?;
    let until = last.map_or(before, |last| last + 1);
    sqlx::query("DELETE FROM exchanges WHERE at < ?").bind(until).execute(&mut *db).await?;
    // What it kept out is older still, and would be pruned again.
    sqlx::query("DELETE FROM forgotten WHERE at < ?").bind(until).execute(db).await?;
    Ok(last.is_some())
}
