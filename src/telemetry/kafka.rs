//! How this gateway's reading of Kafka stands: what `/readyz` and `/metrics` show of it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use serde::Serialize;
use utoipa::ToSchema;

/// Written by the consumer, read by probes.
#[derive(Debug, Default)]
pub struct KafkaView {
    partitions: AtomicUsize,
    in_flight: AtomicUsize,
    lag: AtomicU64,
    up: AtomicBool,
}

/// One look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct KafkaStand {
    /// Whether it does what it is asked.
    pub up: bool,
    /// Partitions that this process reads.
    pub partitions: usize,
    /// Tasks of those that are written and not done.
    pub lag: u64,
    /// Tasks that were read and are not done.
    pub in_flight: usize,
}

impl KafkaView {
    /// So it stands with what was read.
    pub fn read(&self, partitions: usize, in_flight: usize, up: bool) {
        self.partitions.store(partitions, Ordering::Relaxed);
        self.in_flight.store(in_flight, Ordering::Relaxed);
        self.up.store(up, Ordering::Relaxed);
    }

    /// So much is not done.
    pub fn lags(&self, lag: u64) {
        self.lag.store(lag, Ordering::Relaxed);
    }

    /// As it stands now.
    pub fn stand(&self) -> KafkaStand {
        KafkaStand {
            up: self.up.load(Ordering::Relaxed),
            partitions: self.partitions.load(Ordering::Relaxed),
            lag: self.lag.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
        }
    }
}
