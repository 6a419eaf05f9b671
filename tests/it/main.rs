//! The integration tests: one binary, one module a subject.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod redis_server;
mod store;
