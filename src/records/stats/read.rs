//! Reading the statistics of a day: all of it, by rule, and by chat.

use std::collections::BTreeMap;

use jiff::civil::Date;
use serde::Serialize;
use sqlx::any::AnyRow;
use sqlx::{Any, QueryBuilder, Row as _};
use utoipa::ToSchema;

use super::tally::{COLUMNS, Counts, Hit, number_of};
use crate::records::page::{Cursor, Page};
use crate::records::{Records, RecordsError};

/// Which statistics.
#[derive(Clone, Debug)]
pub struct Scope {
    /// The day, in the records' zone.
    pub day: Date,
    /// Of this app alone.
    pub app: Option<String>,
    /// Of this chat alone.
    pub chat: Option<String>,
}

/// A day's statistics.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Stats {
    /// `2026-11-29`
    pub date: String,
    /// The zone whose day it is.
    pub zone: String,
    /// All of the scope.
    pub total: Figures,
    /// By rule: commands, keywords, mentions, binding sentences; most hits first.
    pub rules: Vec<RuleStats>,
    /// By chat, by app and chat id.
    #[serde(flatten)]
    pub chats: Page<ChatStats>,
}

/// A chat's.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct ChatStats {
    /// App id.
    pub app: String,
    /// Chat id.
    pub chat: String,
    /// What it is called, where that is known.
    pub name: Option<String>,
    /// What happened there.
    #[serde(flatten)]
    pub figures: Figures,
}

/// A rule's.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct RuleStats {
    /// App id.
    pub app: String,
    /// `command`, `keyword`, `mention` or `binding`
    pub trigger: String,
    /// The command's name, the keyword, the binding's number.
    pub rule: String,
    /// Messages that set it off.
    pub hits: i64,
    /// Their share of all messages of the scope.
    pub hit_rate: Option<f64>,
    /// What became of the replies.
    #[serde(flatten)]
    pub replies: Replies,
}

/// What messages came, and what became of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Figures {
    /// What members wrote.
    pub messages: i64,
    /// By what it set off; every word is there.
    pub hits: BTreeMap<&'static str, i64>,
    /// Copies that were stopped.
    pub duplicates: i64,
    /// What became of the replies.
    #[serde(flatten)]
    pub replies: Replies,
}

/// Replies, how they ended, and how long that took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct Replies {
    /// Replies; those that ended in no way yet are waiting.
    pub replies: i64,
    /// WeCom took them.
    pub delivered: i64,
    /// Nobody knows.
    pub unknown: i64,
    /// Refused for good.
    pub dead: i64,
    /// Not sent, by our choice.
    pub dropped: i64,
    /// Delivered of those that ended, 0 to 1; null where none did.
    pub success_rate: Option<f64>,
    /// From a message's arrival to the delivery of its reply; null where none was delivered.
    pub latency_ms: Option<Latencies>,
}

/// Latencies in ms. The mean is exact, the others are off by 3.2 % at most.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub struct Latencies {
    /// Mean.
    pub mean: u64,
    /// Median.
    pub p50: u64,
    /// 95 % took no longer.
    pub p95: u64,
    /// 99 % took no longer.
    pub p99: u64,
}

/// By what sums are told apart: columns of `stats`, what messages set off last.
#[derive(Clone, Copy)]
enum By {
    Rule,
    Chat,
}

impl By {
    fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Rule => &["app", "rule", "hit"],
            Self::Chat => &["app", "chat", "hit"],
        }
    }
}

/// Some of a scope's chats: behind the first, up to the last.
#[derive(Clone, Default)]
struct Span {
    after: Option<(String, String)>,
    to: Option<(String, String)>,
}

type Sums = BTreeMap<Vec<String>, Counts>;

impl Records {
    /// The statistics of a day. The list of chats goes on `from` a cursor; the rest is the same on each page.
    ///
    /// # Errors
    /// [`RecordsError::Sql`], [`RecordsError::Slow`], [`RecordsError::Cursor`].
    pub async fn stats(&self, scope: &Scope, from: Option<&Cursor>, limit: u32) -> Result<Stats, RecordsError> {
        let rules = self.sums(scope, &Span::default(), By::Rule).await?;
        // Every cell is of some rule, or of none: together they are all there is.
        let total = figures(&rules);
        let mut rules: Vec<RuleStats> =
            rules.into_iter().filter_map(|(of, counts)| rule(of, &counts, total.messages)).collect();
        rules.sort_by(|a, b| (b.hits, &a.app, &a.rule).cmp(&(a.hits, &b.app, &b.rule)));
        let span = Span { after: from.map(Cursor::place).transpose()?, to: None };
        let chats = self.chats(scope, span, limit).await?;
        Ok(Stats { date: scope.day.to_string(), zone: self.zone.name(), total, rules, chats })
    }

    async fn chats(&self, scope: &Scope, mut span: Span, limit: u32) -> Result<Page<ChatStats>, RecordsError> {
        let mut sql = QueryBuilder::new("SELECT DISTINCT app, chat FROM stats AS s");
        within(&mut sql, scope, &span);
        sql.push(" ORDER BY app, chat LIMIT ").push_bind(i64::from(limit) + 1);
        let rows = self.ask(sql.build()).await?;
        let named = rows.iter().map(|row| Ok((row.try_get("app")?, row.try_get("chat")?)));
        let named: Vec<(String, String)> = named.collect::<Result<_, sqlx::Error>>()?;
        let Page { items: named, next } = Page::cut(named, limit as usize, Clone::clone);
        let Some(last) = named.last() else { return Ok(Page { items: Vec::new(), next }) };
        span.to = Some(last.clone());
        let mut sums: BTreeMap<(String, String), Sums> = BTreeMap::new();
        for (of, counts) in self.sums(scope, &span, By::Chat).await? {
            if let [app, chat, _] = &of[..] {
                sums.entry((app.clone(), chat.clone())).or_default().insert(of, counts);
            }
        }
        let item = |(app, chat): (String, String)| {
            let figures = figures(&sums.remove(&(app.clone(), chat.clone())).unwrap_or_default());
            ChatStats { app, chat, name: None, figures }
        };
        Ok(Page { items: named.into_iter().map(item).collect(), next })
    }

    /// Counts and latencies of a scope, summed up.
    async fn sums(&self, scope: &Scope, span: &Span, by: By) -> Result<Sums, RecordsError> {
        let columns = by.columns().join(", ");
        let read = |row: &AnyRow| by.columns().iter().map(|column| row.try_get(*column)).collect::<Result<_, _>>();
        let mut sums = Sums::new();

        let mut sql = QueryBuilder::new(format!("SELECT {columns}"));
        // MySQL's sums are decimals otherwise.
        for column in COLUMNS {
            sql.push(format!(", CAST(SUM({column}) AS SIGNED) AS {column}_sum"));
        }
        sql.push(" FROM stats AS s");
        within(&mut sql, scope, span);
        sql.push(format!(" GROUP BY {columns}"));
        for row in self.ask(sql.build()).await? {
            let mut numbers = [0; COLUMNS.len()];
            for (number, column) in numbers.iter_mut().zip(COLUMNS) {
                *number = row.try_get(format!("{column}_sum").as_str())?;
            }
            sums.insert(read(&row)?, Counts::of(numbers));
        }

        let mut sql = QueryBuilder::new(format!("SELECT {columns}, bucket, CAST(SUM(n) AS SIGNED) AS n_sum"));
        sql.push(" FROM stats AS s JOIN latencies AS l ON l.day = s.day AND l.cell = s.cell");
        within(&mut sql, scope, span);
        sql.push(format!(" GROUP BY {columns}, bucket"));
        for row in self.ask(sql.build()).await? {
            let counts: &mut Counts = sums.entry(read(&row)?).or_default();
            counts.latencies.add(row.try_get("bucket")?, row.try_get("n_sum")?);
        }
        Ok(sums)
    }
}

/// ` WHERE …`
fn within(sql: &mut QueryBuilder<Any>, scope: &Scope, span: &Span) {
    sql.push(" WHERE s.day = ").push_bind(number_of(scope.day));
    for (column, value) in [("app", &scope.app), ("chat", &scope.chat)] {
        if let Some(value) = value {
            sql.push(format!(" AND s.{column} = ")).push_bind(value.clone());
        }
    }
    for (order, place) in [(">", &span.after), ("<=", &span.to)] {
        if let Some((app, chat)) = place {
            sql.push(format!(" AND (s.app, s.chat) {order} (")).push_bind(app.clone());
            sql.push(", ").push_bind(chat.clone()).push(")");
        }
    }
}

/// What sums that are told apart by their last column, what messages set off, say together.
fn figures(sums: &Sums) -> Figures {
    let mut all = Counts::default();
    let mut hits: BTreeMap<&'static str, i64> = Hit::ALL.map(|hit| (hit.as_str(), 0)).into();
    for (of, counts) in sums {
        all.add(counts, 1);
        if let Some(n) = of.last().and_then(|hit| hits.get_mut(hit.as_str())) {
            *n += counts.hits;
        }
    }
    Figures { messages: all.messages, hits, duplicates: all.duplicates, replies: replies(&all) }
}

/// A rule's statistics; `None` for what is no rule.
fn rule(of: Vec<String>, counts: &Counts, messages: i64) -> Option<RuleStats> {
    let [app, rule, trigger] = of.try_into().ok()?;
    let is_rule = [Hit::Command, Hit::Keyword, Hit::Mention, Hit::Binding].iter().any(|hit| hit.as_str() == trigger);
    let (hits, replies) = (counts.hits, replies(counts));
    (is_rule && hits > 0).then(|| RuleStats { app, trigger, rule, hits, hit_rate: share(hits, messages), replies })
}

fn replies(counts: &Counts) -> Replies {
    let &Counts { replies, delivered, unknown, dead, dropped, timed, took_ms, ref latencies, .. } = counts;
    let percentile = |share| latencies.percentile(share).unwrap_or_default();
    let latency_ms = (timed > 0).then(|| Latencies {
        mean: u64::try_from(took_ms / timed).unwrap_or_default(),
        p50: percentile(0.5),
        p95: percentile(0.95),
        p99: percentile(0.99),
    });
    let success_rate = share(delivered, delivered + unknown + dead + dropped);
    Replies { replies, delivered, unknown, dead, dropped, success_rate, latency_ms }
}

/// To four digits; `None` of nothing.
fn share(part: i64, of: i64) -> Option<f64> {
    (of > 0).then(|| (part as f64 / of as f64 * 10_000.0).round() / 10_000.0)
}
