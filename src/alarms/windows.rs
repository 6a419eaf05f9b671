//! Which alarm goes now and which is held back. Pure: time is told.
//!
//! The first of a kind and subject goes at once and opens a window; those that follow in it are counted. When it is over
//! and something was held back, the last of them goes with the count, and opens the next window.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Alarm, Due, Kind};

/// Windows that are open at once, at most: chats come and go, memory does not.
const MOST_OPEN: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Windows {
    length: Duration,
    open: HashMap<(Kind, String), Window>,
}

#[derive(Debug)]
struct Window {
    until: Instant,
    held: u64,
    /// The newest that was held back; before that, the one that opened it.
    last: Alarm,
}

/// What becomes of an alarm.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Raised {
    /// It goes now.
    Goes(Due),
    /// It is counted.
    Held,
    /// Too many windows are open to keep another.
    NoRoom,
}

impl Windows {
    /// Each is so long.
    pub fn new(length: Duration) -> Self {
        Self { length, open: HashMap::new() }
    }

    /// An alarm was raised.
    pub fn raise(&mut self, alarm: Alarm, now: Instant) -> Raised {
        let key = (alarm.kind, alarm.subject());
        if let Some(window) = self.open.get_mut(&key) {
            window.held += 1;
            window.last = alarm;
            return match window.close(now, self.length) {
                Some(due) => Raised::Goes(due),
                None => Raised::Held,
            };
        }
        if self.open.len() >= MOST_OPEN {
            return Raised::NoRoom;
        }
        self.open.insert(key, Window { until: now + self.length, held: 0, last: alarm.clone() });
        Raised::Goes(Due { alarm, count: 1 })
    }

    /// What goes because its window is over. Those that held nothing back are forgotten.
    pub fn over(&mut self, now: Instant) -> Vec<Due> {
        self.open.retain(|_, window| now < window.until || window.held > 0);
        self.open.values_mut().filter_map(|window| window.close(now, self.length)).collect()
    }

    /// Another process told of it in this window: it is held back after all.
    pub fn hold_back(&mut self, due: &Due) {
        if let Some(window) = self.open.get_mut(&(due.alarm.kind, due.alarm.subject())) {
            window.held += due.count;
        }
    }
}

impl Window {
    /// What it held back, if it is over; the next one begins then.
    fn close(&mut self, now: Instant, length: Duration) -> Option<Due> {
        if now < self.until || self.held == 0 {
            return None;
        }
        self.until = now + length;
        Some(Due { alarm: self.last.clone(), count: std::mem::take(&mut self.held) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(600);

    fn alarm(kind: Kind, chat: &str, detail: &str) -> Alarm {
        Alarm { at: 0, ..Alarm::of_chat(kind, "support", chat, detail) }
    }

    fn went(raised: Raised) -> (String, u64) {
        match raised {
            Raised::Goes(due) => (due.alarm.detail, due.count),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_first_goes_and_those_that_follow_are_counted_in_the_next() {
        let (mut windows, start) = (Windows::new(WINDOW), Instant::now());
        let dead = |detail| alarm(Kind::ChatDead, "c1", detail);
        assert_eq!(went(windows.raise(dead("1"), start)), ("1".into(), 1));
        for detail in ["2", "3"] {
            assert_eq!(windows.raise(dead(detail), start + WINDOW / 2), Raised::Held);
        }
        assert_eq!(windows.over(start + WINDOW - Duration::from_millis(1)), []);
        assert_eq!(windows.over(start + WINDOW), [Due { alarm: dead("3"), count: 2 }]);
        // That one has a window of its own, and after it nothing is left.
        assert_eq!(windows.raise(dead("4"), start + WINDOW * 3 / 2), Raised::Held);
        assert_eq!(windows.over(start + WINDOW * 2), [Due { alarm: dead("4"), count: 1 }]);
        assert_eq!(windows.over(start + WINDOW * 3), []);
        assert!(windows.open.is_empty());
        assert_eq!(went(windows.raise(dead("5"), start + WINDOW * 3)), ("5".into(), 1));
    }

    #[test]
    fn one_that_comes_after_its_window_takes_along_what_was_held_back() {
        let (mut windows, start) = (Windows::new(WINDOW), Instant::now());
        let dead = |detail| alarm(Kind::ChatDead, "c1", detail);
        windows.raise(dead("1"), start);
        windows.raise(dead("2"), start);
        assert_eq!(went(windows.raise(dead("3"), start + WINDOW)), ("3".into(), 2));
        assert_eq!(windows.over(start + WINDOW), []);
    }

    #[test]
    fn kinds_and_subjects_have_windows_of_their_own() {
        let (mut windows, now) = (Windows::new(WINDOW), Instant::now());
        for (kind, chat) in [(Kind::ChatDead, "c1"), (Kind::ChatDead, "c2"), (Kind::Unknown, "c1")] {
            assert_eq!(went(windows.raise(alarm(kind, chat, chat), now)), (chat.into(), 1));
            assert_eq!(windows.raise(alarm(kind, chat, chat), now), Raised::Held);
        }
    }

    #[test]
    fn what_another_process_told_is_kept_for_the_next_window() {
        let (mut windows, start) = (Windows::new(WINDOW), Instant::now());
        let dead = alarm(Kind::ChatDead, "c1", "1");
        let Raised::Goes(due) = windows.raise(dead.clone(), start) else { panic!("it goes") };
        windows.hold_back(&due);
        windows.raise(dead.clone(), start);
        assert_eq!(windows.over(start + WINDOW), [Due { alarm: dead, count: 2 }]);
    }

    #[test]
    fn windows_are_bounded() {
        let (mut windows, now) = (Windows::new(WINDOW), Instant::now());
        for n in 0..MOST_OPEN {
            windows.raise(alarm(Kind::NoRoute, &n.to_string(), ""), now);
        }
        assert_eq!(windows.raise(alarm(Kind::NoRoute, "more", ""), now), Raised::NoRoom);
        windows.over(now + WINDOW);
        assert_eq!(went(windows.raise(alarm(Kind::NoRoute, "more", "d"), now + WINDOW)), ("d".into(), 1));
    }
}
