//! What stands in for `kafka/` where the feature `kafka` is off: there is never one. The configuration refuses `[kafka]` there.

use std::convert::Infallible;
use std::sync::Arc;

use super::{Desk, HandOverError, KafkaFault, Retention, Task};
use crate::config::Settings;
use crate::records::Records;
use crate::stop::Stop;
use crate::store::SharedStore;
use crate::telemetry::{KafkaView, Telemetry};

/// None is ever made.
pub struct Kafka(Infallible);

impl Kafka {
    /// Nothing.
    ///
    /// # Errors
    /// Never.
    pub fn open(
        _: &Settings,
        _: Arc<Desk>,
        _: (SharedStore, Records),
        _: &Telemetry,
    ) -> Result<Option<Self>, KafkaFault> {
        Ok(None)
    }

    /// Nothing.
    ///
    /// # Errors
    /// Never.
    pub fn check(_: &Settings) -> Result<(), KafkaFault> {
        Ok(())
    }

    /// Nothing.
    ///
    /// # Errors
    /// Never.
    pub async fn retention(_: &Settings) -> Option<Result<Retention, KafkaFault>> {
        None
    }

    /// See the type.
    pub fn view(&self) -> Arc<KafkaView> {
        match self.0 {}
    }

    /// See the type.
    ///
    /// # Errors
    /// Never.
    pub async fn hand_over(&self, _: Vec<(Task, Vec<u8>)>) -> Result<(), HandOverError> {
        match self.0 {}
    }

    /// See the type.
    pub async fn run(&self, _: Stop) {
        match self.0 {}
    }
}
