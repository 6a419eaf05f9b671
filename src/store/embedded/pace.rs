//! The pace window: the times of a chat's sends, a row each, so that a send costs the same at any rate.
//!
//! Sends are numbered per chat. The time of the last one still moves (a send counts from its answer), so it stands in the
//! chat's own row, which is written anyway; the times of those before it stand in the table `sends`. With a limit of n a
//! place is free once the n-th last send has left the window: one row is read, none are counted.

use rusqlite::{OptionalExtension, params};

use super::chat::Chat;
use super::step::Step;
use crate::model::millis;
use crate::store::{Begun, Pace, Result};

/// After so many sends, twice as many rows that left the window are removed, if there are so many.
const TRIM_EVERY: i64 = 16;

/// Takes a place in the window, or says how long there is none.
pub(super) fn take_place(step: &Step<'_>, chat: &mut Chat, pace: Pace) -> Result<Begun> {
    let window = millis(pace.window);
    let first_inside = chat.sent - i64::from(pace.limit.max(1));
    if let Some(at) = sent_at(step, chat, first_inside)? {
        if at > step.now {
            count_from_now(step, chat)?;
        }
        let leaves = at.min(step.now).saturating_add(window);
        if leaves > step.now {
            return Ok(Begun::Paced(step.until(leaves)));
        }
    }
    if chat.sent > 0 {
        step.sql("INSERT INTO sends (chat, n, at) VALUES (?1, ?2, ?3)")?.execute([
            chat.id,
            chat.sent - 1,
            chat.last_send,
        ])?;
    }
    chat.sent += 1;
    chat.last_send = step.now;
    if chat.sent % TRIM_EVERY == 0 {
        trim(step, chat, step.now.saturating_sub(window))?;
    }
    Ok(Begun::Go)
}

/// The place that was taken last counts from now.
pub(super) fn move_place(step: &Step<'_>, chat: &mut Chat) {
    chat.last_send = step.now;
}

/// Sends that lie ahead were before the clock went back: they count from now.
fn count_from_now(step: &Step<'_>, chat: &mut Chat) -> Result<()> {
    step.sql("UPDATE sends SET at = ?2 WHERE chat = ?1 AND at > ?2")?.execute([chat.id, step.now])?;
    chat.last_send = chat.last_send.min(step.now);
    Ok(())
}

/// When the `n`-th send was, where there was one and it is still known.
fn sent_at(step: &Step<'_>, chat: &Chat, n: i64) -> Result<Option<i64>> {
    if n < 0 {
        return Ok(None);
    }
    if n == chat.sent - 1 {
        return Ok(Some(chat.last_send));
    }
    let mut select = step.sql("SELECT at FROM sends WHERE chat = ?1 AND n = ?2")?;
    Ok(select.query_row([chat.id, n], |row| row.get(0)).optional()?)
}

/// Removes the oldest rows, a few at once, where they are not later than `left`.
fn trim(step: &Step<'_>, chat: &Chat, left: i64) -> Result<()> {
    let mut delete = step.sql(
        "DELETE FROM sends WHERE chat = ?1 AND n < (SELECT min(n) FROM sends WHERE chat = ?1) + ?2 AND at <= ?3",
    )?;
    delete.execute(params![chat.id, 2 * TRIM_EVERY, left])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::Lane;
    use crate::store::embedded::{connect, set_up};

    #[test]
    fn the_window_is_exact_and_what_left_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let mut conn = connect(&file, true).unwrap();
        set_up(&mut conn, &file, 1).unwrap();
        let pace = |limit| Pace { limit, window: Duration::from_millis(100) };
        let at = |now| Step::new(&conn, now, 0);
        let mut chat = Chat::find_or_insert(&at(0), &Lane::of_chat("a", "c")).unwrap();
        let mut take = |now, limit| take_place(&at(now), &mut chat, pace(limit)).unwrap();
        // One each 10 ms is just within 10 in 100 ms; one more isn't.
        for now in (0..2000).step_by(10) {
            assert_eq!(take(now, 10), Begun::Go, "{now}");
            if now >= 90 {
                assert_eq!(take(now + 1, 10), Begun::Paced(Duration::from_millis(9)), "{now}");
            }
        }
        // The last was at 1990, the one before it at 1980: smaller and larger limits look at those.
        assert_eq!(take(1995, 1), Begun::Paced(Duration::from_millis(95)));
        assert_eq!(take(1995, 2), Begun::Paced(Duration::from_millis(85)));
        assert_eq!(take(1995, 11), Begun::Go);
        let count = "SELECT count(*) FROM sends";
        let rows: i64 = conn.query_row(count, [], |row| row.get(0)).unwrap();
        assert!((10..10 + 2 * TRIM_EVERY).contains(&rows), "{rows} rows");
        // The last send moves to its answer.
        move_place(&at(2050), &mut chat);
        assert_eq!(take_place(&at(2060), &mut chat, pace(1)).unwrap(), Begun::Paced(Duration::from_millis(90)));
        // The clock goes back: what lies ahead counts from now, all of it.
        assert_eq!(take_place(&at(50), &mut chat, pace(3)).unwrap(), Begun::Paced(Duration::from_millis(100)));
        for (now, sent) in [(149, false), (150, true), (151, true), (152, true), (153, false)] {
            let begun = take_place(&at(now), &mut chat, pace(3)).unwrap();
            assert_eq!(begun == Begun::Go, sent, "{now}: {begun:?}");
        }
    }
}
