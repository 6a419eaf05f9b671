//! Pushes: what goes out with no message before it, handed over by HTTP or Kafka.
//!
//! A task comes as JSON, is read and checked against its app and the channel of each of its targets ([`Desk::read`]), and is
//! then handed to the lanes that replies go by ([`Desk::take`]): one delivery for each chat, or one for a set of members. What always holds:
//!
//! - A faulty task is refused whole, with the field and the mend, before anything of it is in a lane.
//! - A task that comes again, by whatever way, from whatever process, however far it had come: each recipient gets it
//!   once. That is the store's barrier (`store/pushes.rs`); the desk only walks it in order.
//! - The tasks of one chat keep their order.
//! - Whoever hands a task over is told `Owned` only once every delivery stands in its lane (or has ended).
//!
//! `read` and `target` know the shape of a task, `key` the id of one that brings none; `message` holds what it says against the
//! channels; `delivery` makes what goes into the lanes, `round` says what comes next, and `desk` puts it
//! there. `status` says how a task stands, `confirm` takes a word from outside on what nobody knows, and `compensator` looks after
//! that until it is known, or a person's. `customer_message` is what customers take; `awaiting` asks WeCom who got it, and `results`
//! reads the answers.

mod awaiting;
mod compensator;
mod confirm;
mod customer_message;
mod delivery;
mod described;
mod desk;
#[cfg_attr(not(feature = "kafka"), path = "without_kafka.rs")]
mod kafka;
mod key;
mod message;
mod read;
mod results;
mod round;
pub mod status;
mod target;
mod task;
#[cfg(test)]
mod tests;

pub use awaiting::Awaiting;
pub use compensator::{Compensator, Heard, Witness};
pub use confirm::{ConfirmError, Confirmation, Settled, confirm};
pub(crate) use delivery::is_set;
pub use desk::{Desk, Source, Taken};
pub use kafka::Kafka;
pub use task::{FaultKind, Target, Task, TaskFault};

/// Why Kafka can't be had with the configuration as it is.
#[derive(Debug, thiserror::Error)]
#[error("[kafka] can't be used as it stands: {0}")]
pub struct KafkaFault(pub String);

/// How long the topic of tasks keeps them, beside how long they are remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// As one would write it in TOML, or `for ever`.
    pub kept: String,
    /// `[push] keep`
    pub remembered: String,
    /// Whether a replay of the topic could send its oldest tasks again.
    pub is_longer: bool,
}

impl Retention {
    /// What it means that it is longer.
    pub const LONGER: &str =
        "the topic keeps tasks longer than [push] keep: read again from its beginning, the oldest would be sent again";
    /// What ends that.
    pub const MEND: &str = "lengthen [push] keep, or shorten the topic's retention.ms";
}

/// Why a batch of tasks did not get into the topic, or may not have.
#[derive(Debug, thiserror::Error)]
pub enum HandOverError {
    /// None of it did.
    #[error("Kafka took none of the tasks ({0}); the same call again later is safe")]
    NotTaken(String),
    /// None of it did: the topic takes none so large as these of it, by their place.
    #[error("is larger than the topic takes (its max.message.bytes): shorten it, or have the topic take more")]
    TooLarge(Vec<usize>),
    /// All of it or none did.
    #[error("Kafka did not say whether it took the tasks ({0}); the same call again is no second send")]
    Unknown(String),
}
