//! Processes of a measurement: started, asked for their CPU time, gone with their handle.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, anyhow};

/// `/proc` counts CPU time in hundredths of a second, on every Linux.
const TICKS_A_SECOND: u64 = 100;

/// A running process, killed when it is dropped.
pub struct Process(Child);

impl Process {
    /// The gateway, its log in a file: formatting and writing it is part of the work.
    pub fn gateway(config: &Path, log: &Path) -> anyhow::Result<Self> {
        let binary = env!("CARGO_BIN_EXE_wecom-gateway");
        let mut command = Command::new(binary);
        command.arg("serve").arg("--config").arg(config).stdin(Stdio::null()).stderr(File::create(log)?);
        Ok(Self(command.spawn().context("the gateway can't be started")?))
    }

    /// This program in another role, and the first line that it says.
    pub fn of_this_program(arguments: &[&str]) -> anyhow::Result<(Self, String)> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = Self(command.spawn()?);
        let stdout = child.0.stdout.take().ok_or_else(|| anyhow!("no stdout"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        Ok((child, line.trim().to_owned()))
    }

    /// CPU time used so far, all threads.
    pub fn cpu(&self) -> anyhow::Result<Duration> {
        cpu_of(&self.0.id().to_string())
    }

    /// `kill -9`
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(Some(_)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// This process's own CPU time.
pub fn own_cpu() -> anyhow::Result<Duration> {
    cpu_of("self")
}

/// CPU time that a process used so far, all its threads: `self`, or its number.
pub fn cpu_of(pid: &str) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // proc(5): the name in brackets may hold anything; utime and stime are fields 14 and 15, counted from 1.
    let behind_name = stat.rsplit_once(") ").ok_or_else(|| anyhow!("no stat"))?.1;
    let ticks: Vec<u64> = behind_name.split(' ').skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 1000 / TICKS_A_SECOND))
}

/// A port that is free now.
pub fn free_port() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
