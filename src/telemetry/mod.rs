//! What the gateway says of itself: logs, metrics, spans, and whether its loops are alive, how Kafka stands.

pub mod content;
pub mod health;
mod kafka;
pub mod logs;
pub mod metrics;
mod recent;
pub mod spans;

use std::sync::Arc;

use crate::alarms::Alarms;
pub use content::LogContent;
pub use health::Health;
pub use kafka::{KafkaStand, KafkaView};
pub use metrics::Metrics;
pub use recent::{Callback, Recent};
pub use spans::{Exporter, Span, SpanOf, Spans, trace_of};

/// Where a loop tells how it fares. Clones are the same.
#[derive(Clone)]
pub struct Telemetry {
    /// What somebody has to know.
    pub alarms: Alarms,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// That it goes round.
    pub health: Arc<Health>,
    /// Where its time went.
    pub spans: Spans,
}

impl Telemetry {
    /// Nobody is told of anything.
    pub fn unheard() -> Self {
        let metrics = Arc::<Metrics>::default();
        Self { alarms: Alarms::unheard(metrics.clone()), metrics, health: Arc::default(), spans: Spans::default() }
    }
}
