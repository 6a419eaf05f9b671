//! What the gateway says of itself: logs, metrics, and whether its loops are alive.

pub mod health;
pub mod logs;
pub mod metrics;

pub use health::Health;
pub use metrics::Metrics;
