//! Log lines: text for people on a terminal, JSON for machines elsewhere, always on stderr, so that what a command
//! prints stays clean.
//!
//! Lines are written by a thread of their own, in the order they came and many at a time where many come: whoever has something
//! to say does not wait for the disk or the pipe until a hundred thousand lines do. The end of a process waits for the last; a
//! `kill -9` takes those with it that were said in its last moment.
//!
//! A JSON line is one flat object: `timestamp`, `level`, `target`, `message` and the event's own fields. No line holds a phone
//! number, wherever it came from: a member's id may be one.

use std::io::{self, BufWriter, IsTerminal, Write, stderr};

use tracing::level_filters::LevelFilter;
use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::settings::{Log, LogFormat};
use crate::mask;

/// So many bytes of lines are written at once at most.
const AT_ONCE: usize = 64 << 10;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be read.
    #[error(
        "[log] level: {0:?} is no log filter; write a level (error, warn, info, debug, trace) or module=level pairs"
    )]
    Filter(String),
}

/// Reads a filter: a level, or `tracing`'s `module=level` pairs separated by commas.
///
/// # Errors
/// [`LogError::Filter`]; also for a single word that is no level, which `tracing` would take as a module's name.
pub fn filter(level: &str) -> Result<EnvFilter, LogError> {
    let fault = || LogError::Filter(level.to_owned());
    let word = level.trim();
    let is_word = word.chars().all(|c| c.is_ascii_alphanumeric());
    if word.is_empty() || (is_word && word.parse::<LevelFilter>().is_err()) {
        return Err(fault());
    }
    EnvFilter::try_new(level).map_err(|_| fault())
}

/// Writes what is left when it is dropped.
#[must_use = "without it the last lines are lost"]
pub struct Written(#[allow(dead_code, reason = "held for its end")] WorkerGuard);

/// Sends the process's events to stderr, for as long as the answer is held. A second call in one process changes nothing and is
/// no error.
///
/// # Errors
/// [`LogError::Filter`].
pub fn init(log: &Log) -> Result<Written, LogError> {
    let filter = filter(&log.level)?;
    let on_terminal = stderr().is_terminal();
    let json = match log.format {
        LogFormat::Auto => !on_terminal,
        LogFormat::Json => true,
        LogFormat::Text => false,
    };
    let out = BufWriter::with_capacity(AT_ONCE, Masked(stderr()));
    let (writer, guard) = NonBlockingBuilder::default().lossy(false).thread_name("log").finish(out);
    let lines = fmt().with_env_filter(filter).with_writer(writer);
    // `try_init` fails only where a subscriber is set already: the first one stays.
    let _ = if json {
        lines.json().flatten_event(true).with_span_list(false).finish().try_init()
    } else {
        let coloured = on_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        lines.with_ansi(coloured).finish().try_init()
    };
    Ok(Written(guard))
}

/// Writes lines with their phone numbers masked; each call brings whole lines, as `tracing` writes them.
struct Masked<W>(W);

impl<W: Write> Write for Masked<W> {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(lines) {
            Ok(text) => self.0.write_all(mask::phones_in(text).as_bytes())?,
            Err(_) => self.0.write_all(mask::phones_in(&String::from_utf8_lossy(lines)).as_bytes())?,
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::LogContent;

    #[test]
    fn lines_hold_no_phone_number() {
        let mut out = Masked(Vec::new());
        let line = "{\"sender_key\":\"13800138000\",\"request_id\":\"019f8c13800138000abcdef012345678\"}\n";
        out.write_all(line.as_bytes()).expect("a vector");
        let want = line.replacen("13800138000", "138****8000", 1);
        assert_eq!(String::from_utf8(out.0).expect("text"), want);
    }

    #[test]
    fn a_filter_is_a_level_or_pairs_and_a_typo_is_found() {
        for good in ["info", "WARN", "off", "wecom_gateway=debug", "warn,wecom_gateway::sender=trace"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["inof", "", "wecom_gateway=loud"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn setting_up_twice_is_no_fault() {
        let log = Log { format: LogFormat::Json, level: "off".into(), content: LogContent::Digest };
        assert!(init(&log).is_ok() && init(&log).is_ok());
    }
}
