//! Scales: where a value stands between 0 and 1, where the ticks are and what is written on them.

use std::time::Duration;

/// Below this latencies are not told apart.
const SHORTEST: f64 = 1e-4;

/// Latencies, logarithmic.
#[derive(Clone, Copy, Debug)]
pub(super) struct LatencyAxis {
    /// Seconds; one of 1, 2, 5 times a power of ten.
    low: f64,
    high: f64,
}

impl LatencyAxis {
    /// The smallest that holds both, between two of 1, 2, 5 times a power of ten.
    pub(super) fn over(shortest: Duration, longest: Duration) -> Self {
        let low = round_down(shortest.as_secs_f64().max(SHORTEST));
        let high = round_up(longest.as_secs_f64().max(SHORTEST));
        // Both may be the same value.
        Self { low, high: high.max(low * 2.0) }
    }

    pub(super) fn place(&self, latency: Duration) -> f64 {
        let above = (latency.as_secs_f64().max(self.low) / self.low).ln();
        (above / (self.high / self.low).ln()).clamp(0.0, 1.0)
    }

    pub(super) fn decades(&self) -> f64 {
        (self.high / self.low).log10()
    }

    /// At 1, 2, 5 times each power of ten; labels where they have room.
    pub(super) fn ticks(&self) -> Vec<(f64, Option<String>)> {
        let crowded = self.decades() > 3.0;
        let mut ticks = Vec::new();
        let mut tick = self.low;
        while tick <= self.high * 1.001 {
            let latency = Duration::from_secs_f64(tick);
            let label = (!crowded || is_power_of_ten(tick)).then(|| self::latency(latency));
            ticks.push((self.place(latency), label));
            tick = round_up(tick * 1.5);
        }
        ticks
    }
}

/// The greatest power of ten that is not above a value.
fn power_below(value: f64) -> f64 {
    10_f64.powf(value.log10().floor())
}

/// To 1, 2 or 5 times a power of ten; what is one already stays.
fn round_up(value: f64) -> f64 {
    let power = power_below(value);
    [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= value * 0.999_999).unwrap_or(10.0) * power
}

/// As [`round_up`], the other way.
fn round_down(value: f64) -> f64 {
    let power = power_below(value);
    [5.0, 2.0].into_iter().find(|step| step * power <= value * 1.000_001).unwrap_or(1.0) * power
}

fn is_power_of_ten(value: f64) -> bool {
    let power = value.log10();
    (power - power.round()).abs() < 1e-6
}

/// Time from the start, linear.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    end: f64,
}

/// Steps between ticks that a reader counts easily, in seconds.
const NICE: [f64; 16] =
    [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 7200.0];
/// More steps make a line that nobody can follow.
const MOST_STEPS: f64 = 120.0;
/// Percentiles of fewer replies tell little.
const REPLIES_PER_STEP: f64 = 30.0;

impl TimeAxis {
    pub(super) fn until(end: Duration) -> Self {
        Self { end: end.as_secs_f64().max(NICE[0]) }
    }

    pub(super) fn place(&self, at: Duration) -> f64 {
        (at.as_secs_f64() / self.end).min(1.0)
    }

    /// The span whose replies make one point: not too fine for the picture, nor for so many replies in all.
    pub(super) fn step(&self, replies: usize) -> Duration {
        let points = (replies as f64 / REPLIES_PER_STEP).clamp(1.0, MOST_STEPS);
        Duration::from_secs_f64(nice(self.end / points))
    }

    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let step = nice(self.end / 12.0);
        let count = (self.end / step * 1.001).floor() as u32;
        (0..=count)
            .map(|n| {
                let at = Duration::from_secs_f64(step * f64::from(n));
                (self.place(at), time(at))
            })
            .collect()
    }
}

fn nice(step: f64) -> f64 {
    NICE.into_iter().find(|nice| *nice >= step).unwrap_or(step)
}

/// `250 µs`, `1.5 ms`, `80 ms`, `1.25 s`.
pub(super) fn latency(latency: Duration) -> String {
    let seconds = latency.as_secs_f64();
    match seconds {
        s if s < 0.001 => format!("{} µs", (s * 1e6).round()),
        s if s < 0.01 => format!("{} ms", trimmed(s * 1e3, 1)),
        s if s < 1.0 => format!("{} ms", (s * 1e3).round()),
        s if s < 10.0 => format!("{} s", trimmed(s, 2)),
        s => format!("{} s", trimmed(s, 1)),
    }
}

/// `0`, `0.5 s`, `30 s`, `2 min`, `1 h`.
pub(super) fn time(at: Duration) -> String {
    match at.as_secs_f64() {
        0.0 => "0".to_owned(),
        s if s < 120.0 => format!("{} s", trimmed(s, 1)),
        s if s < 7200.0 => format!("{} min", trimmed(s / 60.0, 1)),
        s => format!("{} h", trimmed(s / 3600.0, 1)),
    }
}

/// Without zeros at its end.
fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The share at the top of an axis that holds `highest`.
pub(super) fn percent_top(highest: f64) -> f64 {
    round_up(highest.max(0.01)).min(1.0)
}

/// Five ticks up to [`percent_top`].
pub(super) fn percent_ticks(highest: f64) -> Vec<(f64, String)> {
    let top = percent_top(highest);
    (0..=4).map(|n| f64::from(n) / 4.0).map(|at| (at, format!("{} %", trimmed(at * top * 100.0, 2)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_round_and_hold_the_values() {
        let ms = Duration::from_millis;
        let axis = LatencyAxis::over(ms(13), ms(780));
        assert!((axis.low - 0.01).abs() < 1e-9 && (axis.high - 1.0).abs() < 1e-9, "{axis:?}");
        let labels: Vec<String> = axis.ticks().into_iter().filter_map(|(_, label)| label).collect();
        assert_eq!(labels, ["10 ms", "20 ms", "50 ms", "100 ms", "200 ms", "500 ms", "1 s"]);
        assert!(axis.place(ms(10)).abs() < 1e-6 && (axis.place(ms(100)) - 0.5).abs() < 1e-6);
        let wide = LatencyAxis::over(ms(1), ms(50_000)).ticks();
        let labels: Vec<String> = wide.into_iter().filter_map(|(_, label)| label).collect();
        assert_eq!(labels, ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]);
    }

    #[test]
    fn times_have_a_dozen_ticks_at_most() {
        for seconds in [1, 20, 59, 60, 61, 600, 3600, 86_400] {
            let ticks = TimeAxis::until(Duration::from_secs(seconds)).ticks();
            assert!((2..=13).contains(&ticks.len()), "{seconds} s: {ticks:?}");
        }
        let step = |replies| TimeAxis::until(Duration::from_secs(60)).step(replies);
        assert_eq!([100_000, 1800, 300].map(step), [0.5, 1.0, 10.0].map(Duration::from_secs_f64));
    }

    #[test]
    fn values_are_short() {
        let us = Duration::from_micros;
        let shown = [0, 250, 1500, 80_400, 1_250_000, 31_000_000].map(us).map(latency);
        assert_eq!(shown, ["0 µs", "250 µs", "1.5 ms", "80 ms", "1.25 s", "31 s"]);
        assert_eq!([0, 500_000, 90_000_000, 600_000_000].map(us).map(time), ["0", "0.5 s", "90 s", "10 min"]);
    }
}
