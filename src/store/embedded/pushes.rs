//! The barrier of pushes, see [`crate::store::Pushes`].

use async_trait::async_trait;

use super::EmbeddedStore;
use crate::store::{NewPush, Opened, Pushed, Pushes, Result, StoreError, TaskOpening, TaskProgress, TaskStatus};

#[async_trait]
impl Pushes for EmbeddedStore {
    async fn open_tasks(&self, _: Vec<TaskOpening>) -> Result<Vec<Opened>> {
        Err(StoreError::Refused("not built".into()))
    }
    async fn queue_pushes(&self, _: Vec<NewPush>) -> Result<Vec<Pushed>> {
        Err(StoreError::Refused("not built".into()))
    }
    async fn advance_tasks(&self, _: Vec<TaskProgress>) -> Result<()> {
        Err(StoreError::Refused("not built".into()))
    }
    async fn task(&self, _: &str) -> Result<Option<TaskStatus>> {
        Err(StoreError::Refused("not built".into()))
    }
}
