//! What a store is opened with.

/// What holds for a whole store while it is open. A bare number of shards stands for one with everything else by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// 1..=99, fixed at first start.
    pub shards: u16,
    /// Most messages and deliveries that may wait in all of it before an enqueue or a push is refused as `StoreFull`. What was
    /// taken once is never refused by it: replies and late answers are bounded by their lane alone. Redis counts by
    /// shard, an equal part each.
    pub max_waiting: u64,
    /// A message whose lease ended so many times without a commit or a release is dead as `poison`; at least 1.
    pub poison_after: u32,
    /// Redis: so many replicas must have a write before `enqueue`, `queue_pushes`, `begin` and a fused begin answer.
    pub replicas: u32,
    /// Embedded: whether the disk must have a write before it is answered. Without it an answer survives the end of the
    /// process, but not that of the machine.
    pub fsync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { shards: 1, max_waiting: 1_000_000, poison_after: 5, replicas: 0, fsync: true }
    }
}

impl From<u16> for Options {
    fn from(shards: u16) -> Self {
        Self { shards, ..Self::default() }
    }
}
