//! WeCom's protocol, pure: nothing here does I/O.
//!
//! A callback meets [`envelope`] (find the ciphertext), [`crypto`] (verify, decrypt) and [`payload`] (read ids, type
//! and text), a reply meets [`message`] (check, split, make harmless) and [`verdict`] (what the answer to it means).

pub mod crypto;
pub mod envelope;
pub mod message;
pub mod payload;
pub mod verdict;

mod xml;
