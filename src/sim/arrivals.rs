//! When messages come in an open loop, and to which lane: a seeded Poisson process whose rate may rise from nothing. Pure.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// The process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrivals {
    /// Same seed, same arrivals.
    pub seed: u64,
    /// Messages a second, above 0.
    pub rate: f64,
    /// Within this it rises evenly from 0.
    pub ramp: Duration,
    /// Lanes that they are spread over evenly; at least 1.
    pub lanes: usize,
}

/// When it ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Until {
    /// After so many.
    Count(usize),
    /// After so long.
    Time(Duration),
}

impl Arrivals {
    /// When each message comes, from the start, and its lane.
    pub(super) fn until(self, end: Until) -> impl Iterator<Item = (Duration, usize)> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let (mut expected, mut count) = (0.0, 0);
        std::iter::from_fn(move || {
            // Gaps of a Poisson process, on the axis of messages expected by then.
            expected -= (1.0 - rng.random::<f64>()).ln();
            let at = self.time_of(expected);
            let over = match end {
                Until::Count(limit) => count >= limit,
                Until::Time(time) => at >= time,
            };
            count += 1;
            (!over).then(|| (at, rng.random_range(0..self.lanes)))
        })
    }

    /// When so many messages are to be expected: they grow with the square of the time on the ramp, evenly after it.
    fn time_of(&self, expected: f64) -> Duration {
        let ramp = self.ramp.as_secs_f64();
        let on_ramp = self.rate * ramp / 2.0;
        let seconds = match expected < on_ramp {
            true => (2.0 * expected * ramp / self.rate).sqrt(),
            false => expected / self.rate + ramp / 2.0,
        };
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEADY: Arrivals = Arrivals { seed: 7, rate: 100.0, ramp: Duration::ZERO, lanes: 10 };

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn the_rate_is_kept_and_every_lane_has_its_share() {
        let steady = || STEADY.until(Until::Time(seconds(60)));
        let arrivals: Vec<_> = steady().collect();
        assert!((5700..6300).contains(&arrivals.len()), "{}", arrivals.len());
        assert!(arrivals.is_sorted_by_key(|(at, _)| *at) && arrivals.iter().all(|(at, _)| *at < seconds(60)));
        for lane in 0..10 {
            let share = arrivals.iter().filter(|(_, of)| *of == lane).count();
            assert!((480..720).contains(&share), "lane {lane}: {share}");
        }
        assert!(steady().eq(arrivals));
        assert!(steady().ne(Arrivals { seed: 8, ..STEADY }.until(Until::Time(seconds(60)))));
    }

    #[test]
    fn a_count_ends_it_too() {
        assert!(STEADY.until(Until::Count(50)).eq(STEADY.until(Until::Time(seconds(60))).take(50)));
    }

    #[test]
    fn on_a_ramp_the_rate_rises_evenly() {
        let arrivals: Vec<_> = Arrivals { ramp: seconds(40), ..STEADY }.until(Until::Time(seconds(60))).collect();
        let within = |from, to| arrivals.iter().filter(|(at, _)| (seconds(from)..seconds(to)).contains(at)).count();
        // 100/s after 40 s: a quarter of the ramp's 2000 messages comes in its first half.
        let counts = [within(0, 20), within(20, 40), within(40, 60)];
        for (count, want) in counts.into_iter().zip([500, 1500, 2000]) {
            assert!(count.abs_diff(want) < want / 5, "{counts:?}");
        }
    }
}
