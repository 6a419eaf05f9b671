//! One run of wrk: one thread of its own, every request from a prepared file, closed loop over so many connections.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;

use crate::requests::RequestFile;

const SCRIPT: &str = include_str!("callbacks.lua");

/// Whether requests may be posted again when the file is at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reuse {
    Never,
    RoundAndRound,
}

/// What wrk counted; every answer was a 2xx.
#[derive(Clone, Copy, Debug)]
pub struct Shot {
    pub requests: u64,
    pub took: Duration,
    pub p50: Duration,
    pub p99: Duration,
}

impl Shot {
    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64()
    }
}

#[derive(Deserialize)]
struct Said {
    requests: u64,
    micros: u64,
    non_2xx: u64,
    broken: u64,
    timeouts: u64,
    p50: u64,
    p99: u64,
    exhausted: bool,
}

/// Posts for `seconds`; anything but a 2xx, and a file that is too short, is an error.
pub fn shoot(
    target: SocketAddr,
    connections: usize,
    seconds: u64,
    file: &RequestFile,
    reuse: Reuse,
) -> anyhow::Result<Shot> {
    let mut script = tempfile::Builder::new().suffix(".lua").tempfile()?;
    script.write_all(SCRIPT.as_bytes())?;
    let output = Command::new("wrk")
        .args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--timeout", "10s", "-s"])
        .arg(script.path())
        .arg(format!("http://{target}"))
        .arg(&file.path)
        .arg(file.count.to_string())
        .args((reuse == Reuse::Never).then_some("once"))
        .output()
        .context("wrk can't be run (scripts/bench installs it)")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let line = stdout.lines().find(|line| line.starts_with('{'));
    let Some(line) = line else {
        bail!("wrk said nothing of use: {stdout}{}", String::from_utf8_lossy(&output.stderr));
    };
    let said: Said = serde_json::from_str(line).with_context(|| format!("wrk said {line}"))?;
    if said.non_2xx + said.broken + said.timeouts > 0 {
        bail!("{} answers were no 2xx, {} connections broke, {} timed out", said.non_2xx, said.broken, said.timeouts);
    }
    if said.exhausted {
        bail!("{} prepared requests were too few: some went out twice", file.count);
    }
    if said.requests == 0 {
        bail!("nothing was answered");
    }
    let micros = Duration::from_micros;
    Ok(Shot { requests: said.requests, took: micros(said.micros), p50: micros(said.p50), p99: micros(said.p99) })
}
