//! Latencies as counts in buckets: few numbers, which can be added up over chats, days and processes.
//!
//! Below 16 ms each millisecond is a bucket; above, each doubling has 16 of equal width. A percentile is told as the middle of its
//! bucket, so it is off by 1/32 at most, and never more than 3.2 %.

use std::collections::BTreeMap;

/// Buckets a doubling, as a power of two.
const FINE: u32 = 4;
/// What is longer counts as this: 24 days.
const LONGEST: u64 = (1 << 31) - 1;

/// How many of which bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram(pub BTreeMap<i64, i64>);

/// The bucket of a latency in ms.
pub(super) fn bucket(ms: u64) -> i64 {
    let ms = ms.min(LONGEST);
    let shift = ms.checked_ilog2().unwrap_or(0).saturating_sub(FINE);
    // 16 to 31 above the first 16: each doubling goes on where the one before ended.
    (u64::from(shift) << FINE).saturating_add(ms >> shift).cast_signed()
}

/// The middle of a bucket, in ms.
fn middle(bucket: i64) -> u64 {
    let bucket = bucket.max(0).unsigned_abs();
    let shift = (bucket >> FINE).saturating_sub(1).min(32);
    let low = (bucket - (shift << FINE)) << shift;
    low + ((1 << shift) - 1) / 2
}

impl Histogram {
    /// Counts `n` more in a bucket.
    pub fn add(&mut self, bucket: i64, n: i64) {
        *self.0.entry(bucket).or_default() += n;
    }

    /// The latency (ms) that `share` of them do not exceed; `None` where there are none.
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let all: i64 = self.0.values().sum();
        let rank = ((all as f64 * share).ceil() as i64).max(1);
        let mut seen = 0;
        let reached = |(_, n): &(&i64, &i64)| {
            seen += **n;
            seen >= rank
        };
        self.0.iter().find(reached).map(|(bucket, _)| middle(*bucket))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_latency_is_told_wrong_by_more_than_a_thirty_second() {
        let mut before = -1;
        for ms in (0..5_000).chain((5_000..50_000_000).step_by(997)) {
            let bucket = bucket(ms);
            assert!(bucket >= before, "{ms}");
            before = bucket;
            let off = middle(bucket).abs_diff(ms);
            assert!(off * 32 <= ms, "{ms} as {}", middle(bucket));
        }
        assert_eq!(bucket(u64::MAX), bucket(LONGEST));
        // What a database says is believed within reason.
        assert_eq!(middle(-5), 0);
        let _ = middle(i64::MAX);
    }

    #[test]
    fn percentiles_are_the_nearest_ranks_also_of_what_is_added_up() {
        let mut one = Histogram::default();
        assert_eq!(one.percentile(0.5), None);
        (1..=10).for_each(|ms| one.add(bucket(ms), 1));
        assert_eq!([0.0, 0.5, 0.95, 0.99, 1.0].map(|share| one.percentile(share)), [1, 5, 10, 10, 10].map(Some));
        let mut both = one.clone();
        both.add(bucket(1_000), 90);
        let told = both.percentile(0.5).expect("some");
        assert!(told.abs_diff(1_000) * 32 <= 1_000, "{told}");
        assert_eq!(both.percentile(0.1), Some(10));
    }
}
