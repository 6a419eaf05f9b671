//! Forgets marks, sessions, tickets, notes, operations, bindings, rates, that members were forgotten, tasks and pushes whose time is over.
//!
//! Readers never see them (every query asks for `expires_at`), so this only keeps the file small. There is no index by
//! expiry, which each message would pay for three times: instead the tables are walked by key, round and round, and twice
//! as many rows are looked at as pieces of work were done, so that the walk outruns any growth.

use rusqlite::{OptionalExtension, params};

use super::step::Step;
use crate::store::Result;

/// Rows looked at in one step.
const ROWS: usize = 1000;
/// Rows looked at for each piece of work.
const PACE: usize = 2;

/// A table's queries: the last key of the next stretch, and the deletion of what is over within it.
struct Walk {
    last_of_stretch: &'static str,
    delete: &'static str,
}

macro_rules! walk {
    ($table:literal) => {
        Walk {
            last_of_stretch: concat!(
                "SELECT max(key) FROM (SELECT key FROM ",
                $table,
                " WHERE key > ?1 ORDER BY key LIMIT ?2)"
            ),
            delete: concat!("DELETE FROM ", $table, " WHERE key > ?1 AND key <= ?2 AND expires_at <= ?3"),
        }
    };
}

const TABLES: &[Walk] = &[
    walk!("marks"),
    walk!("sessions"),
    walk!("late"),
    walk!("notes"),
    walk!("operations"),
    walk!("users"),
    walk!("rates"),
    walk!("forgotten_members"),
    walk!("tasks"),
    walk!("pushes"),
];

/// Where the walk stands.
pub(in crate::store) struct Sweeper {
    tables: &'static [Walk],
    owed: usize,
    table: usize,
    /// The last key that was looked at.
    after: String,
}

impl Sweeper {
    /// For the tables of the store.
    pub fn of_the_store() -> Self {
        Self { tables: TABLES, owed: 0, table: 0, after: String::new() }
    }

    /// For a file in which nothing expires.
    pub fn idle() -> Self {
        Self { tables: &[], ..Self::of_the_store() }
    }

    /// Notes that so much work was done.
    pub fn owe(&mut self, work: usize) {
        self.owed += work * PACE;
    }

    /// Makes a step due: there is nothing else to do.
    pub fn owe_a_step(&mut self) {
        self.owed = ROWS;
    }

    /// Whether a step is worth its transaction.
    pub fn is_due(&self) -> bool {
        self.owed >= ROWS && !self.tables.is_empty()
    }

    /// Looks at the next rows; at the end of a table the next one begins.
    pub fn step(&mut self, step: &Step<'_>) -> Result<()> {
        self.owed = self.owed.saturating_sub(ROWS);
        let walk = &self.tables[self.table];
        let last: Option<String> = step
            .sql(walk.last_of_stretch)?
            .query_row(params![self.after, ROWS as i64], |row| row.get(0))
            .optional()?
            .flatten();
        match last {
            Some(last) => {
                step.sql(walk.delete)?.execute(params![self.after, last, step.now])?;
                self.after = last;
            }
            None => {
                self.table = (self.table + 1) % self.tables.len();
                self.after.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::embedded::{connect, set_up};

    #[test]
    fn what_is_over_goes_and_the_rest_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("store.db");
        let mut conn = connect(&file, true).unwrap();
        set_up(&mut conn, &file, 1).unwrap();
        let step = Step::new(&conn, 1_000_000, 0);
        for i in 0..2_500 {
            step.set_mark(&format!("key{i}"), "r", true, if i % 2 == 0 { 0 } else { 1 }).unwrap();
        }
        let mut sweeper = Sweeper::of_the_store();
        // Three stretches of marks, and the end of each table.
        for _ in 0..3 + TABLES.len() {
            sweeper.step(&step).unwrap();
        }
        let left = |even: i64| -> i64 {
            let mut count = step.sql("SELECT count(*) FROM marks WHERE substr(key, 4) % 2 = ?1").unwrap();
            count.query_row([even], |row| row.get(0)).unwrap()
        };
        assert_eq!((left(0), left(1)), (0, 1_250));
        // It begins anew.
        sweeper.step(&Step::new(&conn, 2_000_000, 0)).unwrap();
        assert_eq!(left(1), 250);
    }

    #[test]
    fn work_makes_steps_due() {
        let mut sweeper = Sweeper::of_the_store();
        sweeper.owe(ROWS / PACE - 1);
        assert!(!sweeper.is_due());
        sweeper.owe(1);
        assert!(sweeper.is_due());
    }
}
