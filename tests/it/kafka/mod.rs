//! Pushes from Kafka, against a real broker: what is read twice goes out once, and what is refused leaves a letter.
//!
//! [`tasks`]: what comes of a task; [`pressure`]: who can't go on holds up only itself; [`away`]: the broker goes and comes back;
//! [`secured`]: by TLS and a password; [`out`]: what the gateway writes; [`members`]: processes that come, go and die while they share a topic.

mod away;
mod members;
mod out;
mod pressure;
mod secured;
mod tasks;
mod topics;
