//! Actions
pub mod template;
