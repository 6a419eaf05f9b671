//! Reading the records: what operators ask for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use sqlx::any::AnyRow;
use sqlx::{QueryBuilder, Row};
use utoipa::ToSchema;
use utoipa::openapi::schema::{AdditionalProperties, Array, ArrayBuilder, ObjectBuilder, Type};

use super::connection::in_time;
use super::page::{Cursor, Page};
use super::trail::{DECISIVE, PASSING};
use super::write::{ROWS, push_in};
use super::{Records, RecordsError};
use crate::model::{Delivery, MessageKey, Outcome, millis, task_msg_id};
use crate::store::{CONTENT, DISCARDED, Stage};
use crate::task::AWAITING_MEMBER;

/// Most stages of one kind that are shown of a message. Only stopped copies and repeated tries can be more.
const STAGES_SHOWN: i64 = 500;

/// A message and its way; or a push and its own.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct MessageItem {
    /// App id.
    pub app: String,
    /// Chat id.
    pub chat: String,
    /// Sender key.
    pub sender: String,
    /// Message id; a push has none.
    pub msg_id: Option<String>,
    /// The task of a push.
    pub task_id: Option<String>,
    /// The request that owns it.
    pub request_id: String,
    /// How it ended, or `queued`.
    #[schema(value_type = Outcome)]
    pub outcome: String,
    /// Why it ended so.
    pub reason: Option<String>,
    /// `{at, stage, request_id, …}`, oldest first; the rest is the stage's own.
    #[schema(schema_with = stages)]
    pub stages: Vec<Map<String, Value>>,
}

/// A delivery.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct DeliveryItem {
    /// `<request_id>.<n>`
    pub id: String,
    /// App id.
    pub app: String,
    /// Chat id.
    pub chat: String,
    /// The message it answers; a push answers none.
    pub msg_id: Option<String>,
    /// The request it answers.
    pub request_id: String,
    /// The push task it belongs to; replies have none.
    pub task_id: Option<String>,
    /// What became of it.
    #[schema(value_type = Outcome)]
    pub state: String,
    /// Why.
    pub reason: Option<String>,
    /// What WeCom answered.
    pub errcode: Option<i64>,
    /// Since when, RFC 3339 with milliseconds.
    pub at: String,
    /// How often the compensator looked at it, where it is an unknown push.
    pub looks: Option<i64>,
    /// When it looks again; nothing where a person was called.
    // Of the first look the records alone don't know: nothing until whoever knows the configuration says it.
    pub next_look: Option<String>,
    /// Whether it would be sent again, were that asked for now.
    // The records alone don't know: false until whoever knows the configuration says otherwise.
    pub resendable: bool,
}

/// The schema of a message's stages.
fn stages() -> Array {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let words = DECISIVE.into_iter().chain(PASSING).map(Stage::as_str);
    let stage = ObjectBuilder::new()
        .property("at", text().description(Some("RFC 3339 with milliseconds.")))
        .property("stage", text().enum_values(Some(words)))
        .property("request_id", text())
        .required("at")
        .required("stage")
        .required("request_id")
        .additional_properties(Some(AdditionalProperties::FreeForm(true)));
    ArrayBuilder::new().items(stage).build()
}

/// A delivery as an operator ends it by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedDelivery {
    /// As it is listed.
    pub item: DeliveryItem,
    /// The message it answers.
    pub key: MessageKey,
    /// Itself, where it may be sent again.
    pub content: Option<Delivery>,
    /// Why it can't be, where that is known.
    pub not_kept: Option<String>,
    /// Whether an operator ended it already.
    pub operated: bool,
    /// When it ended, Unix ms, where it is an unknown push that nobody looked at yet.
    pub unlooked_since: Option<i64>,
}

/// A push that WeCom took, and that a member has to confirm.
#[derive(Clone, Debug, PartialEq)]
pub struct AwaitedPush {
    /// Its delivery.
    pub id: String,
    /// Its request.
    pub request_id: String,
    /// What stands for its message.
    pub key: MessageKey,
    /// When its task was taken, Unix ms.
    pub taken_at: i64,
    /// When WeCom took it, Unix ms.
    pub since: i64,
}

/// Unix ms as RFC 3339 with milliseconds; a number that is no time stays a number.
pub fn rfc3339(ms: i64) -> String {
    crate::model::rfc3339(ms).unwrap_or_else(|| ms.to_string())
}

impl Records {
    /// The messages that `id` names as a msg_id, a request id (of a stopped copy too) or a delivery id, and the pushes that it
    /// names as a task; newest first.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Cursor`].
    pub async fn messages_by_id(
        &self,
        id: &str,
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<MessageItem>, RecordsError> {
        let before: i64 = from.map_or(Ok(i64::MAX), Cursor::place)?;
        // A server's collations leave blanks at the end out of a comparison: lengths are compared beside it.
        let rows = sqlx::query(
            "SELECT m.id, app, chat, sender, msg_id, request_id, outcome, reason \
            FROM (SELECT id FROM messages WHERE msg_id = ? AND octet_length(msg_id) = ? \
                UNION SELECT id FROM messages WHERE msg_id = ? AND octet_length(msg_id) = ? AND sender = '' \
                UNION SELECT message FROM stages WHERE request_id = ? AND octet_length(request_id) = ? \
                UNION SELECT message FROM deliveries WHERE id = ? AND octet_length(id) = ?) AS named \
            JOIN messages AS m ON m.id = named.id WHERE m.id < ? ORDER BY m.id DESC LIMIT ?",
        );
        let names = [id, &task_msg_id(id), id, id];
        let rows = names.into_iter().fold(rows, |rows, name| rows.bind(name.to_owned()).bind(name.len() as i64));
        let rows = self.ask(rows.bind(before).bind(i64::from(limit) + 1)).await?;
        let found = rows.iter().map(found).collect::<Result<Vec<_>, _>>()?;
        let page = Page::cut(found, limit as usize, |(number, _)| *number);
        let mut items = Vec::with_capacity(page.items.len());
        for (number, mut item) in page.items {
            item.stages = self.stages(number).await?;
            items.push(item);
        }
        Ok(Page { items, next: page.next })
    }

    /// A message's stages, oldest first.
    async fn stages(&self, message: i64) -> Result<Vec<Map<String, Value>>, RecordsError> {
        let mut known = BTreeMap::new();
        for stage in DECISIVE.into_iter().chain(PASSING) {
            let rows = sqlx::query(
                "SELECT at, request_id, detail, line FROM stages WHERE message = ? AND stage = ? ORDER BY at, line LIMIT ?",
            );
            for row in self.ask(rows.bind(message).bind(stage.as_str()).bind(STAGES_SHOWN)).await? {
                let at: i64 = row.try_get("at")?;
                let line: Vec<u8> = row.try_get("line")?;
                known.insert((at, stage as u8, line), shown(stage, at, &row)?);
            }
        }
        Ok(known.into_values().collect())
    }

    /// The delivery of that id, with what is needed to end it by hand.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`].
    pub async fn delivery(&self, id: &str) -> Result<Option<EndedDelivery>, RecordsError> {
        let row = sqlx::query(
            "SELECT d.id, d.app, d.chat, m.sender, d.msg_id, d.request_id, d.state, d.reason, d.errcode, d.at, \
                u.looks, u.due, d.message \
            FROM deliveries d JOIN messages m ON m.id = d.message LEFT JOIN unknown_pushes u ON u.delivery = d.id \
            WHERE d.id = ?",
        );
        in_time(async {
            let Some(row) = self.ask(row.bind(id)).await?.pop() else { return Ok(None) };
            let mut found = [(row.try_get("message")?, EndedDelivery::of(&row)?)];
            self.learn(&mut found).await?;
            let [(_, ended)] = found;
            Ok(Some(ended))
        })
        .await
    }

    /// Pushes that await a member, in the order of their ids, from behind `after` on.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`].
    pub async fn awaited(&self, after: &str, limit: u32) -> Result<Vec<AwaitedPush>, RecordsError> {
        let rows = sqlx::query(
            "SELECT d.id, d.request_id, d.app, d.chat, m.sender, d.msg_id, d.at, m.received_at \
            FROM deliveries d JOIN messages m ON m.id = d.message \
            WHERE d.state = ? AND d.reason = ? AND d.id > ? ORDER BY d.id LIMIT ?",
        );
        let rows = rows.bind(Outcome::Queued.as_str()).bind(AWAITING_MEMBER).bind(after).bind(i64::from(limit));
        let awaited = |row: &AnyRow| {
            Ok(AwaitedPush {
                id: row.try_get("id")?,
                request_id: row.try_get("request_id")?,
                key: key(row)?,
                taken_at: row.try_get("received_at")?,
                since: row.try_get("at")?,
            })
        };
        self.ask(rows).await?.iter().map(awaited).collect()
    }

    /// Deliveries in one of `states`, newest first, with what is needed to end them by hand; not those that an operator discarded: they wait
    /// for nobody.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Cursor`].
    pub async fn deliveries(
        &self,
        states: &[Outcome],
        from: Option<&Cursor>,
        limit: u32,
    ) -> Result<Page<EndedDelivery>, RecordsError> {
        let (at, id): (i64, String) = from.map_or(Ok((i64::MAX, String::new())), Cursor::place)?;
        let mut found: Vec<(i64, i64, EndedDelivery)> = Vec::new();
        // One state a query: each is a short walk along the index, whatever the number of rows.
        for state in states {
            let rows = sqlx::query(
                "SELECT d.id, d.app, d.chat, m.sender, d.msg_id, d.request_id, d.state, d.reason, d.errcode, d.at, \
                    u.looks, u.due, d.message \
                FROM deliveries d JOIN messages m ON m.id = d.message LEFT JOIN unknown_pushes u ON u.delivery = d.id \
                WHERE d.state = ? AND (d.reason IS NULL OR d.reason <> ?) AND d.at <= ? AND (d.at < ? OR d.id < ?) \
                ORDER BY d.at DESC, d.id DESC LIMIT ?",
            );
            let rows = rows.bind(state.as_str()).bind(DISCARDED).bind(at).bind(at).bind(&id).bind(i64::from(limit) + 1);
            for row in self.ask(rows).await? {
                found.push((row.try_get("at")?, row.try_get("message")?, EndedDelivery::of(&row)?));
            }
        }
        found.sort_by(|(at, _, a), (other, _, b)| (other, &b.item.id).cmp(&(at, &a.item.id)));
        let page = Page::cut(found, limit as usize, |(at, _, ended)| (*at, ended.item.id.clone()));
        let mut page = page.map(|(_, message, ended)| (message, ended));
        self.learn(&mut page.items).await?;
        Ok(page.map(|(_, ended)| ended))
    }

    /// Tells deliveries, each with its message's number, what the stages of their messages say of them.
    async fn learn(&self, found: &mut [(i64, EndedDelivery)]) -> Result<(), RecordsError> {
        for some in found.chunks_mut(ROWS) {
            let mut sql = QueryBuilder::new("SELECT message, stage, detail FROM stages WHERE message");
            push_in(&mut sql, some.iter().map(|(message, _)| *message));
            sql.push(" AND stage");
            push_in(&mut sql, [Stage::Settled, Stage::Operated].into_iter().map(Stage::as_str));
            for row in self.ask(sql.build()).await? {
                let message: i64 = row.try_get("message")?;
                let Some(stage) = Stage::parse(row.try_get("stage")?) else { continue };
                let detail: &str = row.try_get("detail")?;
                let of_it = some.iter_mut().filter(|(of, _)| *of == message);
                of_it.for_each(|(_, ended)| ended.learn(stage, detail));
            }
        }
        Ok(())
    }
}

impl EndedDelivery {
    /// As its row has it, without what stages say.
    fn of(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let (key, mut item) = (key(row)?, delivery(row)?);
        let due: Option<i64> = row.try_get("due")?;
        let is_first = item.looks == Some(0);
        item.next_look = due.filter(|_| !is_first).map(rfc3339);
        let unlooked_since = due.filter(|_| is_first);
        Ok(Self { item, key, content: None, not_kept: None, operated: false, unlooked_since })
    }

    /// As it is listed, where pushes that ended unknown are first looked at so long after that.
    pub fn listed(self, first: Duration) -> DeliveryItem {
        let first = self.unlooked_since.map(|ended| ended.saturating_add(millis(first)));
        DeliveryItem { next_look: first.map(rfc3339).or(self.item.next_look), ..self.item }
    }

    /// Takes what a stage of its message says of it.
    fn learn(&mut self, stage: Stage, detail: &str) {
        let mut detail: Map<String, Value> = serde_json::from_str(detail).unwrap_or_default();
        if detail.get("delivery").and_then(Value::as_str) != Some(&self.item.id) {
            return;
        }
        self.operated |= stage == Stage::Operated;
        if let Some(content) = detail.remove(CONTENT) {
            self.content = serde_json::from_value(content).ok();
        }
        if let Some(why) = detail.get("not_kept").and_then(Value::as_str) {
            self.not_kept = Some(why.to_owned());
        }
    }
}

/// A message's number, and the message without its stages.
fn found(row: &AnyRow) -> Result<(i64, MessageItem), sqlx::Error> {
    let [app, chat, sender, msg_id] = parts(row)?;
    let task_id = key(row)?.task_id();
    let item = MessageItem {
        app,
        chat,
        sender,
        msg_id: task_id.is_none().then_some(msg_id),
        task_id,
        request_id: row.try_get("request_id")?,
        outcome: row.try_get("outcome")?,
        reason: row.try_get("reason")?,
        stages: Vec::new(),
    };
    Ok((row.try_get("id")?, item))
}

fn shown(stage: Stage, at: i64, row: &AnyRow) -> Result<Map<String, Value>, sqlx::Error> {
    let request_id: String = row.try_get("request_id")?;
    let detail: Map<String, Value> = serde_json::from_str(row.try_get("detail")?).unwrap_or_default();
    let mut shown = Map::new();
    shown.insert("at".into(), rfc3339(at).into());
    shown.insert("stage".into(), stage.as_str().into());
    shown.insert("request_id".into(), request_id.into());
    for (field, value) in detail.into_iter().filter(|(field, _)| field != CONTENT) {
        shown.entry(field).or_insert(value);
    }
    Ok(shown)
}

/// App, chat, sender and msg_id, as they are in the message's key.
fn parts(row: &AnyRow) -> Result<[String; 4], sqlx::Error> {
    Ok([row.try_get("app")?, row.try_get("chat")?, row.try_get("sender")?, row.try_get("msg_id")?])
}

fn key(row: &AnyRow) -> Result<MessageKey, sqlx::Error> {
    let [app, chat, sender, msg_id] = parts(row)?;
    Ok(MessageKey::new(&app, &chat, &sender, &msg_id))
}

fn delivery(row: &AnyRow) -> Result<DeliveryItem, sqlx::Error> {
    let ([app, chat, _, msg_id], task_id) = (parts(row)?, key(row)?.task_id());
    Ok(DeliveryItem {
        id: row.try_get("id")?,
        app,
        chat,
        msg_id: task_id.is_none().then_some(msg_id),
        request_id: row.try_get("request_id")?,
        task_id,
        state: row.try_get("state")?,
        reason: row.try_get("reason")?,
        errcode: row.try_get("errcode")?,
        at: rfc3339(row.try_get("at")?),
        looks: row.try_get("looks")?,
        next_look: None,
        resendable: false,
    })
}
