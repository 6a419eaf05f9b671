//! What stores keep as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Result, StoreError};

pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| StoreError::Corrupt(e.to_string()))
}

pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    // The error's text may quote what a member wrote; its place is enough.
    serde_json::from_str(text)
        .map_err(|e| StoreError::Corrupt(format!("JSON, {:?} at column {}", e.classify(), e.column())))
}
