//! What the store tells of itself: chats, depth, journal.

use rusqlite::{OptionalExtension, Row};

use super::chat::{Chat, State};
use super::members::is_muted;
use super::step::Step;
use crate::model::{Lane, RouteDigest};
use crate::store::{ChatStatus, Depth, JournalBatch, LOOKED_AT, ParkedFor, Result, StoreError};

/// One journal: all shards live in one file.
const SHARD: u16 = 0;

/// Writes something that changes nothing: says whether the disk takes writes.
pub(super) fn ping(step: &Step<'_>) -> Result<()> {
    // Another value than the last time: a row that says what it said before is not written at all.
    step.sql(
        "INSERT INTO meta (name, value) VALUES ('pinged', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )?
    .execute([step.now])?;
    Ok(())
}

pub(super) fn chat(step: &Step<'_>, lane: &Lane) -> Result<ChatStatus> {
    let muted = is_muted(step, lane)?;
    let Some(chat) = Chat::find(step, lane)? else { return Ok(idle(lane, muted)) };
    let waits = chat.due > step.now;
    Ok(ChatStatus {
        lane: lane.clone(),
        depth: chat.depth(),
        oldest: chat.head(step)?.map(|head| head.received_at),
        leased: chat.state == State::Leased && waits,
        parked: chat.parked_for.filter(|_| chat.state == State::Parked && waits).map(|why| (why, step.until(chat.due))),
        paused: chat.paused,
        muted,
        dead: chat.dead.map(RouteDigest::from_encoded),
        weight: chat.weight,
        last_error: chat.last_error,
    })
}

fn idle(lane: &Lane, muted: bool) -> ChatStatus {
    ChatStatus {
        lane: lane.clone(),
        depth: 0,
        oldest: None,
        leased: false,
        parked: None,
        paused: false,
        muted,
        dead: None,
        weight: None,
        last_error: None,
    }
}

pub(super) fn busy_chats(step: &Step<'_>, limit: usize) -> Result<Vec<Lane>> {
    let mut select = step.sql(
        "SELECT lane FROM chats WHERE state = 'ready' AND last_reply >= head UNION
         SELECT lane FROM chats WHERE state = 'ready' AND last_reply < head UNION
         SELECT lane FROM chats WHERE state IN ('leased', 'parked') AND tail > head UNION
         SELECT lane FROM chats WHERE paused OR dead IS NOT NULL OR weight IS NOT NULL UNION
         SELECT lane FROM mutes LIMIT ?1",
    )?;
    let lane = |row: &Row<'_>| Ok(Lane::from_encoded(row.get::<_, String>(0)?));
    let lanes = select.query_map([i64::try_from(limit).unwrap_or(i64::MAX)], lane)?;
    Ok(lanes.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn depth(step: &Step<'_>) -> Result<Depth> {
    let mut select = step.sql(
        "SELECT (SELECT count(*) FROM in_lanes WHERE leased = 0) + (SELECT count(*) FROM in_lanes WHERE leased = 1),
                (SELECT count(*) FROM chats WHERE state = 'ready' AND last_reply >= head)
                    + (SELECT count(*) FROM chats WHERE state = 'ready' AND last_reply < head),
                count(*), count(*) FILTER (WHERE state = 'parked'),
                (SELECT coalesce(max(seq) - min(seq) + 1, 0) FROM journal)
         FROM chats WHERE state IN ('leased', 'parked')",
    )?;
    let depth = select.query_row([], |row| {
        Ok(Depth {
            waiting: step.waiting(),
            in_lanes: number(row, 0)?,
            out_lanes: number(row, 1)? + number(row, 2)?,
            parked: number(row, 3)?,
            journal: number(row, 4)?,
            ..Depth::default()
        })
    })?;
    let parked_for = parked_for(step)?;
    let leases = |sql| Ok::<_, StoreError>(step.sql(sql)?.query_row([], |row| number(row, 0))?);
    Ok(Depth {
        parked_for,
        in_leases: leases("SELECT count(*) FROM in_lanes WHERE leased = 1")?,
        out_leases: leases(
            "SELECT count(*) FILTER (WHERE state = 'leased') FROM chats WHERE state IN ('leased', 'parked')",
        )?,
        oldest_message: oldest_message(step)?,
        oldest_reply: oldest_reply(step)?,
        ..depth
    })
}

fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|n| u64::try_from(n).unwrap_or(0))
}

fn parked_for(step: &Step<'_>) -> Result<ParkedFor> {
    let mut select = step.sql(
        "SELECT coalesce(parked_for, 'other'), count(*) FROM chats
         WHERE state IN ('leased', 'parked') AND state = 'parked' GROUP BY parked_for",
    )?;
    let mut parked_for = ParkedFor::default();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        parked_for.add(&row.get::<_, String>(0)?, number(row, 1)?);
    }
    Ok(parked_for)
}

fn oldest_message(step: &Step<'_>) -> Result<Option<i64>> {
    let mut select = step.sql(
        "SELECT json_extract(body, '$.received_at') FROM messages
         JOIN (SELECT id, head FROM in_lanes WHERE leased = 0 ORDER BY due LIMIT 1) AS next ON lane = next.id AND pos = next.head",
    )?;
    Ok(select.query_row([], |row| row.get(0)).optional()?.flatten())
}

fn oldest_reply(step: &Step<'_>) -> Result<Option<i64>> {
    let mut select = step.sql(
        "SELECT min(received_at) FROM deliveries JOIN (
             SELECT * FROM (SELECT id, head FROM chats WHERE state = 'ready' AND last_reply >= head ORDER BY turn LIMIT ?1)
             UNION ALL
             SELECT * FROM (SELECT id, head FROM chats WHERE state = 'ready' AND last_reply < head ORDER BY turn LIMIT ?1)
             UNION ALL
             SELECT * FROM (SELECT id, head FROM chats WHERE state IN ('leased', 'parked') ORDER BY due LIMIT ?1)
         ) AS heads ON chat = heads.id AND pos = heads.head",
    )?;
    let most = i64::try_from(LOOKED_AT).unwrap_or(i64::MAX);
    Ok(select.query_row([most], |row| row.get(0))?)
}

pub(super) fn read_journal(step: &Step<'_>, max: usize) -> Result<Vec<JournalBatch>> {
    let mut select = step.sql("SELECT seq, line FROM journal ORDER BY seq LIMIT ?1")?;
    let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?));
    let rows = select.query_map([i64::try_from(max).unwrap_or(i64::MAX)], row)?;
    let rows: Vec<_> = rows.collect::<rusqlite::Result<_>>()?;
    let Some(&(from, _)) = rows.first() else { return Ok(Vec::new()) };
    let lines: Vec<_> = rows.into_iter().map(|(_, line)| line).collect();
    Ok(vec![JournalBatch { shard: SHARD, from, count: lines.len(), lines }])
}

/// Numbers are never used again: what another reader trimmed before is not there any more, and nothing else is hit.
pub(super) fn rotate_journal(step: &Step<'_>, from: i64, count: usize, keep: &[String]) -> Result<bool> {
    let end = from.saturating_add(i64::try_from(count).unwrap_or(i64::MAX));
    let there = step.sql("DELETE FROM journal WHERE seq >= ?1 AND seq < ?2")?.execute([from, end])? > 0;
    if there {
        step.sql(
            "INSERT INTO meta (name, value) VALUES ('trimmed', ?1) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )?
        .execute([end - 1])?;
    }
    for line in keep.iter().filter(|_| there) {
        step.append(line)?;
    }
    Ok(there)
}
