//! Sending: claims replies, begins, posts through a channel, settles.
//!
//! A reply leaves only by the route of the chat that its message came from ([`route`]), one at a time per chat
//! (`pool`, `lane`), several at once where pace holds them back (`coalesce`), and what its answer means decides what becomes of it (`fate`). What always holds:
//!
//! - A permit is taken before a claim, so nothing is leased that can't be worked at once.
//! - Nothing is written to a robot before `begin` said `Go`, and a request is written at most once for each `Go`:
//!   no layer below resends by itself ([`channel`]).
//! - A send that may have arrived is repeated only where the far side knows the repeat; else it ends as `unknown`.
//! - What is wrong with an app as a whole (`hold`) is asked of WeCom once a minute, not once a chat.
//! - No error, log line or journal line holds a webhook's URL.

pub mod channel;
mod coalesce;
mod fate;
mod hold;
mod lane;
mod pool;
pub mod route;
mod spans;
mod token;
mod trail;

pub(crate) use crate::http_client::causes;
pub(crate) use channel::{get, refuses_token};
pub use hold::Holds;
pub use pool::Sender;
pub use route::{Destination, NoRoute, Route, Routes, guard};
pub use token::token_state;
pub(crate) use token::{NoToken, Tokens, gettoken_url, read_token};

#[cfg(test)]
mod tests;
