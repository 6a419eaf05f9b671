//! Promises P1 to P5 against real processes that are killed, stopped and replaced, on the embedded store and on Redis,
//! with one gateway and with several.
//!
//! - [`points`]: death at each step of a message's way; [`pushes`]: in the middle of a task's fan-out; [`changes`]: around an operator's change;
//!   [`stopped`]: a process asleep past its leases.
//! - [`soak`]: `kill -9` of gateways and of Redis under load, as long as wanted; [`rolling`]: SIGTERM in turn under load.
//! - [`copies`]: one callback at every gateway at once; [`counting`]: quick messages of many members over two gateways;
//!   [`model`]: death while a model is asked; [`owner`]: one process a folder.
//!
//! Always: gateways are spawned binaries ([`process`]), WeCom and the team's service live here and see everything; the
//! verdict is by what those two saw and by what the operators' API says of every message ([`verdict`]).

mod changes;
mod copies;
mod counting;
pub mod fleet;
mod front;
mod merged;
mod model;
mod owner;
mod points;
pub mod process;
mod pushes;
mod rolling;
mod soak;
mod stopped;
pub mod traffic;
pub mod verdict;
