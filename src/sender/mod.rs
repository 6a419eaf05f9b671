//! Sending: claims replies, begins, posts through a channel, settles.
//!
//! A reply leaves only by the route of the chat that its message came from ([`route`]), one at a time per chat
//! (`pool`, `lane`), several at once where pace holds them back (`coalesce`), and what its answer means decides what becomes of it (`fate`). What always holds:
//!
//! - A permit is taken before a claim, so nothing is leased that can't be worked at once.
//! - Nothing is written to a robot before `begin` said `Go`, and a request is written at most once for each `Go`:
//!   no layer below resends by itself ([`channel`]).
//! - A send that may have arrived is never repeated here; it ends as `unknown`.
//! - No error, log line or journal line holds a webhook's URL.

pub mod channel;
mod coalesce;
mod fate;
mod lane;
mod pool;
pub mod route;
mod trail;

pub use pool::Sender;
pub use route::{NoRoute, Route, Routes, guard};

#[cfg(test)]
mod tests;
