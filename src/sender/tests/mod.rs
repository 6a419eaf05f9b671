//! The sender against a robot of its own on 127.0.0.1 and, for the pool, the embedded store. The robot hands every request
//! to the test and waits for what the test says, so nothing here sleeps to be in time.

mod pool;
mod robot;
mod scene;
mod tokens;
mod watched;
mod wire;
