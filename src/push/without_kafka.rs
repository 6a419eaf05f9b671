//! What stands in for `kafka/` where the feature `kafka` is off: there is never one. The configuration refuses `[kafka]` there.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Desk, KafkaFault};
use crate::config::Settings;
use crate::stop::Stop;
use crate::telemetry::{KafkaView, Telemetry};

/// None is ever made.
pub struct Kafka(Infallible);

impl Kafka {
    /// Nothing.
    ///
    /// # Errors
    /// Never.
    pub fn open(_: &Settings, _: Arc<Desk>, _: &Telemetry) -> Result<Option<Self>, KafkaFault> {
        Ok(None)
    }

    /// See the type.
    pub fn view(&self) -> Arc<KafkaView> {
        match self.0 {}
    }

    /// See the type.
    pub async fn run(&self, _: Stop) {
        match self.0 {}
    }
}
