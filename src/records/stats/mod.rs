//! Statistics: what each day brought, by chat and by what messages set off there, with latencies.
//!
//! Three tables hold them, kept in step by the transactions that write trails (`write`): `tally` says what one message adds,
//! a pure function of its steps, and a flush adds the difference between before and after. So lines that are written twice, in
//! another order or by several gateways give the same sums, sums of days and chats can be added up, and pruning trails takes
//! nothing from them. What the journal gave up before it was written is not in them.

mod copies;
mod histogram;
mod read;
mod tally;
mod write;

pub use copies::{Copies, CopyBatch};
pub use read::{ChatStats, Figures, Latencies, Replies, RuleStats, Scope, Stats};
pub use tally::Hit;
pub(super) use write::{Changes, Known};
