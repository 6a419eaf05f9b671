//! `[kafka]`: from where push tasks come, and where what became of them goes.

use std::collections::BTreeMap;

use crate::model::Secret;

/// A Kafka cluster and what is read and written there.
#[derive(Clone, Debug, PartialEq)]
pub struct Kafka {
    /// `host:port`, several joined by commas.
    pub brokers: String,
    /// Where tasks are read, and where batches are handed over.
    pub topic: String,
    /// Where results are written.
    pub results_topic: String,
    /// Where tasks go that were refused for good.
    pub dead_letter_topic: String,
    /// The consumer group of all gateways that share the topic.
    pub group: String,
    /// Most tasks that this process has read and that no lane owns yet.
    pub in_flight: usize,
    /// librdkafka's own settings, by name: those of the connection.
    pub options: BTreeMap<String, Secret>,
}
