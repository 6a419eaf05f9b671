//! The callback endpoint as WeCom meets it: real HTTP into a whole gateway on the embedded store, sealed by a hand
//! that shares no line with the gateway's own crypto ([`seal`]).
//!
//! What every answer must be, whatever was asked, is checked where answers are received ([`client`]).

mod arbitrary;
pub mod client;
mod crypto;
mod duplicates;
pub mod endpoint;
mod envelope;
mod events;
pub mod gated;
mod handshake;
mod http;
mod payload;
mod refusals;
pub mod seal;

pub use seal::percent_encoded;
mod webhook;
