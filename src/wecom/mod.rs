//! WeCom's protocol, pure: nothing here does I/O.

pub mod crypto;
pub mod envelope;
pub mod message;
pub mod payload;
pub mod verdict;
