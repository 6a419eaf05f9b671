//! wecom-gateway stands between WeCom (企业微信) and a team's own services and makes three things true: **each message
//! once, each answer into its own chat only, each member's context their own**.
//!
//! The modules, in the order in which a message meets them:
//!
//! - [`config`]: TOML to checked settings.
//! - [`setup`]: what of it is in force, and how it changes.
//! - [`ingress`]: the callback endpoint: verify, decrypt, parse, enqueue, ack.
//! - [`wecom`]: the protocol: crypto, payloads, message kinds and limits, verdicts. Pure.
//! - [`model`]: message, reply, delivery, lane, ids.
//! - [`task`]: what goes out with no message before it.
//! - [`member`]: who a member is beyond one chat: the contact book; [`mask`]: phone numbers as others see them.
//! - [`externalcontact`]: what WeCom can be asked of customers.
//! - [`directory`]: what WeCom itself tells of contacts, in the background.
//! - [`store`]: lanes, marks, leases, pace, journal: one trait, two implementations.
//! - [`rush`]: when those who can wait let callbacks go first.
//! - [`worker`]: claims messages, applies [`rules`], runs an [`action`], commits the replies.
//! - [`push`]: takes push tasks, and puts their deliveries into the lanes that replies go by.
//! - [`sender`]: claims replies, begins, posts through a channel, settles.
//! - [`alarms`]: what somebody has to know, told outside the lanes.
//! - [`records`]: what outlives the queue, in SQL, filled from the journal; [`zone`]: which day a moment belongs to.
//! - [`report`]: the daily summary.
//! - [`explain`]: a callback as it was received, step by step, for who set it up.
//! - [`hands`]: the end of a delivery by hand.
//! - [`admin`]: probes, metrics, API for operators.
//! - [`api_error`]: the one shape of an error answer, on both listeners.
//! - [`listener`]: HTTP connections, bounded in number and time; `http_client`: those that go out.
//! - [`telemetry`]: logs, metrics and spans; [`trace_context`]: which trace something belongs to.
//! - [`app`]: everything above, put together; [`stop`]: how its loops end; [`cli`]: the commands.
//! - [`sim`]: a fake WeCom and a load generator, for `demo` and the tests.

// A reader that goes away must not be a panic: see `cli::voice`.
#![warn(clippy::print_stdout, clippy::print_stderr)]

pub mod action;
pub mod admin;
pub mod alarms;
pub mod api_error;
pub mod app;
pub mod cli;
pub mod config;
mod crash;
pub mod directory;
pub mod explain;
pub mod externalcontact;
pub mod hands;
mod http_client;
pub mod ingress;
pub mod listener;
pub mod mask;
pub mod member;
pub mod model;
pub mod push;
pub mod records;
pub mod report;
pub mod rules;
pub mod rush;
pub mod sender;
pub mod setup;
pub mod sim;
pub mod stop;
pub mod store;
pub mod task;
pub mod telemetry;
pub mod trace_context;
pub mod wecom;
pub mod worker;
pub mod zone;
