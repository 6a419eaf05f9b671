//! The integration tests: one binary, one module a subject.

// A test fails by panicking, also where it is built from functions of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admin;
mod alarms;
mod callback;
mod certificates;
mod channels;
mod check;
mod collector;
mod commands;
mod compare;
mod console;
mod crash;
mod deployed;
mod documents;
mod doors;
mod examples;
mod explain;
mod fronted;
mod full_disk;
mod gateway;
mod hands;
mod kafka;
mod kafka_broker;
mod logs;
mod manual;
mod mariadb_server;
mod members;
mod memory;
mod metrics;
mod model_server;
mod notices;
mod openapi;
mod pace;
mod plain_loop;
mod proxy;
mod pushes;
mod records;
mod redis_cluster;
mod redis_server;
mod redis_tls;
mod reload;
mod sessions;
mod simulate;
mod spans;
mod spool;
mod stats;
mod stopping;
mod store;
mod trouble;
mod worker;
mod world;
