//! Trouble with Kafka that lasts: when somebody has to know of it, and that it is over. Pure: time is told.

use std::time::{Duration, Instant};

/// Somebody has to know of one that lasts so long; a broker that is started anew is back by then.
const ALARMING: Duration = Duration::from_secs(10);
/// … and once more whenever so much more has gone by.
const STILL: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Outage(Option<Lasting>);

#[derive(Debug)]
struct Lasting {
    since: Instant,
    /// When it is next to be told of.
    next: Instant,
    is_told: bool,
}

/// What has to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// It has lasted so long.
    Lasts(Duration),
    /// One that was told of is over, after so long.
    Over(Duration),
}

impl Outage {
    /// Whether there is trouble `now`: what has to be told of it.
    pub(super) fn look(&mut self, is_down: bool, now: Instant) -> Option<News> {
        if !is_down {
            let lasted = self.0.take()?;
            return lasted.is_told.then_some(News::Over(now - lasted.since));
        }
        let lasting = self.0.get_or_insert(Lasting { since: now, next: now + ALARMING, is_told: false });
        if now < lasting.next {
            return None;
        }
        (lasting.next, lasting.is_told) = (now + STILL, true);
        Some(News::Lasts(now - lasting.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_lasts_is_told_each_minute_and_its_end_once() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let second = Duration::from_secs(1);
        let mut look = |is_down, after: u32| outage.look(is_down, start + second * after);
        assert_eq!((look(false, 0), look(true, 1), look(true, 10)), (None, None, None));
        assert_eq!(look(true, 11), Some(News::Lasts(ALARMING)));
        assert_eq!((look(true, 12), look(true, 70)), (None, None));
        assert_eq!(look(true, 71), Some(News::Lasts(ALARMING + STILL)));
        assert_eq!(look(false, 80), Some(News::Over(second * 79)));
        assert_eq!(look(false, 81), None);
    }

    #[test]
    fn a_short_one_is_nobodys_affair() {
        let (mut outage, start) = (Outage::default(), Instant::now());
        let mut look = |is_down, after| outage.look(is_down, start + Duration::from_secs(after));
        assert_eq!((look(true, 0), look(true, 9), look(false, 10)), (None, None, None));
        assert_eq!((look(true, 11), look(true, 20)), (None, None), "each begins anew");
    }
}
