//! What figures belong to: the machine, its mood, and the versions of what was measured.

use std::fs::{File, read_to_string};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context;

/// Syncs of which the median is told.
const SYNCS: usize = 100;

/// One machine at one time.
#[derive(Clone, Debug)]
pub struct Machine {
    pub cores: usize,
    pub model: String,
    pub kernel: String,
    /// Of the folder that the stores live in.
    pub filesystem: String,
    /// What writing 4 KiB and syncing them takes there.
    pub sync: Duration,
    /// Before anything was measured: one minute's average.
    pub load: String,
    pub date: String,
    /// Programs and their versions.
    pub programs: String,
}

/// A program, the argument that it tells its version for, and the word of its first line that is it.
pub type Program = (&'static str, &'static str, usize);

pub const RUSTC: Program = ("rustc", "--version", 1);
pub const REDIS: Program = ("redis-server", "--version", 2);
pub const WRK: Program = ("wrk", "--version", 1);

impl Machine {
    /// With the versions of these.
    pub fn look(programs: &[Program]) -> anyhow::Result<Self> {
        let load = first_word(&read_to_string("/proc/loadavg")?);
        let folder = tempfile::tempdir()?;
        let info = read_to_string("/proc/cpuinfo")?;
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Ok(Self {
            cores: std::thread::available_parallelism()?.get(),
            model: model.map_or_else(|| "unknown".to_owned(), |(_, model)| model.trim().to_owned()),
            kernel: read_to_string("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            filesystem: said("findmnt", &["-n", "-o", "FSTYPE", "-T", &folder.path().to_string_lossy()])?,
            sync: sync_time(folder.path())?,
            load,
            date: said("date", &["+%F"])?,
            programs: programs.iter().map(version).collect::<anyhow::Result<Vec<_>>>()?.join(", "),
        })
    }
}

fn version((program, argument, n): &Program) -> anyhow::Result<String> {
    Ok(format!("{program} {}", word(&said(program, &[argument])?, *n).trim_start_matches("v=")))
}

/// The first line that a program writes.
fn said(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output =
        output.with_context(|| format!("{program} can't be run (the script of this bench installs what it needs)"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn first_word(text: &str) -> String {
    word(text, 0)
}

fn word(text: &str, n: usize) -> String {
    text.split_whitespace().nth(n).unwrap_or("?").to_owned()
}

/// The median of [`SYNCS`]: what one durable write costs at least.
fn sync_time(folder: &Path) -> anyhow::Result<Duration> {
    let mut file = File::create(folder.join("sync"))?;
    let mut times = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[7; 4096])?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    times.sort();
    Ok(times[SYNCS / 2])
}
