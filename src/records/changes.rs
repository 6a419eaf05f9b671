//! What operators changed, and who: the trail beside those of messages.
//!
//! A change is known by its id. A step that was repeated left its line twice; the first to be written counts, so neither a repeat nor a
//! flush that is written again makes a second row.

use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, QueryBuilder, Row};
use utoipa::ToSchema;

use super::dialect::Dialect;
use super::page::{Cursor, Page};
use super::query::rfc3339;
use super::trail::Recorded;
use super::write::{fitting, pieces};
use super::{Records, RecordsError};
use crate::store::{ChangeKind, Stage, Via};

/// Characters that the columns of ids take.
const ID: usize = 512;

/// A change that somebody made.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChangeItem {
    /// Its own.
    pub id: String,
    /// When, RFC 3339 with milliseconds.
    pub at: String,
    /// Who: the name of a token, `loopback` where none is configured, the sender key of a chat's admin; `signal` and `watch` name nobody.
    pub by: String,
    /// By what way.
    #[schema(value_type = Via)]
    pub via: String,
    /// What was changed.
    #[schema(value_type = ChangeKind)]
    pub kind: String,
    /// The app that it is about, where it is about one alone.
    pub app: Option<String>,
    /// The chat.
    pub chat: Option<String>,
    /// The member, by sender key.
    pub sender: Option<String>,
    /// `chat`: `{what: {from, to}}`, `from` as it was when this was asked for, null for what the files say; `user`: the fields, never what they
    /// say; `delivery`: which one, the `action`, `resent_as`; `configuration`: the files, and of those that changed the keys; or `refused` and
    /// how many faults; in which process.
    #[schema(value_type = Object)]
    pub detail: Map<String, Value>,
}

/// Which changes are asked for; what is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// About this app.
    pub app: Option<String>,
    /// About chats of this id.
    pub chat: Option<String>,
    /// About members of this sender key.
    pub sender: Option<String>,
    /// By whom.
    pub by: Option<String>,
    /// Not older than this, Unix ms.
    pub from: Option<i64>,
}

impl Records {
    /// What was changed, newest first.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Cursor`].
    pub async fn changes(
        &self,
        of: &Changes,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<ChangeItem>, RecordsError> {
        let (at, id): (i64, String) = from.map_or(Ok((i64::MAX, String::new())), Cursor::place)?;
        let mut sql = QueryBuilder::new("SELECT * FROM operator_changes WHERE at <= ");
        sql.push_bind(at).push(" AND (at < ").push_bind(at).push(" OR id < ").push_bind(id).push(")");
        let Changes { app, chat, sender, by, from } = of;
        for (column, wanted) in [("app", app), ("chat", chat), ("sender", sender), ("by_whom", by)] {
            if let Some(wanted) = wanted {
                sql.push(format_args!(" AND {column} = ")).push_bind(wanted);
            }
        }
        if let Some(from) = *from {
            sql.push(" AND at >= ").push_bind(from);
        }
        sql.push(" ORDER BY at DESC, id DESC LIMIT ").push_bind(i64::from(limit) + 1);
        let rows = self.ask(sql.build()).await?;
        let found: Vec<(i64, ChangeItem)> = rows.iter().map(found).collect::<Result<_, _>>()?;
        Ok(Page::cut(found, limit as usize, |(at, item)| (*at, item.id.clone())).map(|(_, item)| item))
    }
}

fn found(row: &AnyRow) -> Result<(i64, ChangeItem), sqlx::Error> {
    let some = |column| row.try_get(column).map(|text: String| Some(text).filter(|text| !text.is_empty()));
    let at = row.try_get("at")?;
    let item = ChangeItem {
        id: row.try_get("id")?,
        at: rfc3339(at),
        by: row.try_get("by_whom")?,
        via: row.try_get("via")?,
        kind: row.try_get("kind")?,
        app: some("app")?,
        chat: some("chat")?,
        sender: some("sender")?,
        detail: serde_json::from_str(row.try_get("detail")?).unwrap_or_default(),
    };
    Ok((at, item))
}

/// Writes the lines that are of changes; the others are passed over.
pub(super) async fn write(db: &mut AnyConnection, dialect: Dialect, lines: &[Recorded]) -> Result<(), sqlx::Error> {
    let changed = lines.iter().filter(|line| line.step.stage == Stage::Changed);
    let details = changed.map(|line| (line, line.step.detail.get("detail").map_or("{}".to_owned(), Value::to_string)));
    let rows: Vec<_> = details.collect();
    for rows in pieces(&rows, |(_, detail)| detail.len()) {
        let mut sql =
            QueryBuilder::new("INSERT INTO operator_changes (id, at, kind, via, by_whom, app, chat, sender, detail) ");
        sql.push_values(rows, |mut values, (Recorded { key, step, .. }, detail)| {
            let cut = |text: String, most| fitting(&text, most).to_owned();
            let word = |field| step.text(field).unwrap_or_default();
            let [app, chat, sender, _] = key.parts();
            values.push_bind(fitting(&step.request_id, 128)).push_bind(step.at);
            values.push_bind(cut(word("kind"), 32)).push_bind(cut(word("via"), 32)).push_bind(cut(word("by"), ID));
            values.push_bind(cut(app, 64)).push_bind(cut(chat, ID)).push_bind(cut(sender, ID)).push_bind(detail);
        });
        sql.push(dialect.on_repeat(&["id"], &[]));
        sql.build().execute(&mut *db).await?;
    }
    Ok(())
}

/// Forgets those from before `before` (Unix ms), about `limit` of them; answers whether there may be more.
pub(super) async fn prune(db: &mut AnyConnection, before: i64, limit: u32) -> Result<bool, sqlx::Error> {
    let last = sqlx::query_scalar("SELECT at FROM operator_changes WHERE at < ? ORDER BY at LIMIT 1 OFFSET ?");
    let last: Option<i64> = last.bind(before).bind(i64::from(limit)).fetch_optional(&mut *db).await?;
    let until = last.map_or(before, |last| last + 1);
    sqlx::query("DELETE FROM operator_changes WHERE at < ?").bind(until).execute(db).await?;
    Ok(last.is_some())
}
