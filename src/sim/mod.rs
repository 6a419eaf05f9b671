//! A fake WeCom and a load generator, for `demo` and for the tests that look at the whole gateway from outside.
//!
//! - [`caller`]: WeCom's side of a callback: payloads, encryption, signature, retries.
//! - [`load`]: thousands of messages over many chats, with doubles and late copies, all from one seed.
//! - [`wecom`]: every way by which a gateway sends and, under `/action/`, the team's [`service`], which check what reaches them.
//! - [`ledger`]: every message and every reply, the [`violation`]s of what a gateway promises, and a [`summary`].
//! - [`scenario`]: configuration files for a gateway between the two, in a temporary folder.
//!
//! Always: nothing here looks inside the gateway; it meets it over HTTP alone.

mod arrivals;
pub mod behaviour;
pub mod caller;
pub mod ledger;
pub mod load;
pub mod plan;
pub mod plot;
pub mod scenario;
pub mod service;
pub mod summary;
pub mod synchronous;
#[cfg(test)]
mod tests;
pub mod texts;
pub mod violation;
pub mod wecom;
mod wire;

pub use behaviour::{Answer, Behaviour, Mix, Options, Rate, Refusal, WorkTime};
pub use caller::{Caller, Format, aibot_text, app_text, robot_text};
pub use ledger::Ledger;
pub use load::{Load, Target};
pub use plot::Plot;
pub use scenario::Scenario;
pub use service::{Reaction, Service, ServiceAnswer};
pub use summary::{Progress, Sample, Summary};
pub use texts::TextMix;
pub use violation::{Tag, Violation};
pub use wecom::FakeWeCom;
