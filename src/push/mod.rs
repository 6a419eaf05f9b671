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
//! there. `status` says how a task stands, `confirm` takes a word from outside on what nobody knows.

mod confirm;
mod delivery;
mod desk;
mod key;
mod message;
mod read;
mod round;
pub mod status;
mod target;
mod task;
#[cfg(test)]
mod tests;

pub use confirm::{ConfirmError, Confirmation, Settled, confirm};
pub use desk::{Desk, Source, Taken};
pub use task::{FaultKind, Target, Task, TaskFault};
