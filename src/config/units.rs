//! Durations, sizes and rates as they are written in TOML: always a string, always with its unit.
//!
//! Each parser answers what it wants instead of what it got; the caller says which key and which text.

use std::time::Duration;

use crate::store::Pace;

/// What a parser answers in place of a value: how to write it.
pub(crate) type Mend = String;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Units of a duration, in milliseconds, longest first.
const DURATIONS: [(&str, u64); 5] = [("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND), ("ms", 1)];

/// `"500ms"`, `"30s"`, `"10m"`, `"1h"`, `"7d"`.
pub(crate) fn duration(text: &str) -> Result<Duration, Mend> {
    let mend = || {
        Mend::from(
            "is no duration: write a whole number and a unit, such as \"500ms\", \"30s\", \"10m\", \"1h\", \"7d\"",
        )
    };
    let (count, unit) = split(text).ok_or_else(mend)?;
    let (_, millis) = DURATIONS.iter().find(|(name, _)| *name == unit).ok_or_else(mend)?;
    count.checked_mul(*millis).map(Duration::from_millis).ok_or_else(|| "is too long a duration".into())
}

/// A duration longer than nothing.
pub(crate) fn some_duration(text: &str) -> Result<Duration, Mend> {
    match duration(text) {
        Ok(Duration::ZERO) => Err("is no time at all: write a longer duration".into()),
        other => other,
    }
}

/// A duration as one would write it in TOML.
pub(crate) fn show(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    match DURATIONS.iter().find(|(_, unit)| millis > 0 && millis % unit == 0) {
        Some((name, unit)) => format!("{}{name}", millis / unit),
        None => "0s".into(),
    }
}

/// `"1MiB"`, `"64KiB"`, `"1000000"`: bytes.
pub(super) fn size(text: &str) -> Result<usize, Mend> {
    let mend =
        || Mend::from("is no size: write bytes or a binary unit, such as \"1000000\", \"64KiB\", \"1MiB\", \"1GiB\"");
    let (count, unit) = split(text).ok_or_else(mend)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(mend()),
    };
    let bytes = count.checked_mul(1 << shift).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| "is too large a size".into())
}

/// `"20/min"`, `"5/s"`, `"100/h"`.
pub(super) fn rate(text: &str) -> Result<Pace, Mend> {
    let mend = || Mend::from("is no rate: write sends and a span, such as \"20/min\", \"5/s\", \"100/h\"");
    let (count, unit) = text.split_once('/').ok_or_else(mend)?;
    let window = match unit.trim() {
        "s" => SECOND,
        "min" => MINUTE,
        "h" => HOUR,
        _ => return Err(mend()),
    };
    let limit = count.trim().parse().map_err(|_| mend())?;
    if limit == 0 {
        return Err("would never send: write at least \"1/h\"".into());
    }
    Ok(Pace { limit, window: Duration::from_millis(window) })
}

/// A whole number and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..digits].parse().ok()?, text[digits..].trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in
            [("500ms", 500), ("30s", 30_000), ("10m", 600_000), (" 1 h ", 3_600_000), ("7d", 604_800_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in
            ["", "s", "5", "1.5h", "-1s", "5 min", "1h30m", "30S", "99999999999999999999s", "999999999999999999d"]
        {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_shown_as_they_are_written() {
        for text in ["500ms", "90s", "45m", "36h", "7d", "0s"] {
            assert_eq!(duration(text).map(show), Ok(text.to_owned()));
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("1MiB", 1 << 20), ("64KiB", 65_536), ("1000000", 1_000_000), ("10 B", 10), ("2GiB", 2 << 30)]
        {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "1MB", "1mib", "1.5MiB", "-1", "99999999999GiB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates() {
        for (text, limit, seconds) in
            [("20/min", 20, 60), ("100000/min", 100_000, 60), ("5/s", 5, 1), ("100 / h", 100, 3600)]
        {
            assert_eq!(rate(text), Ok(Pace { limit, window: Duration::from_secs(seconds) }), "{text}");
        }
        for text in ["", "20", "/min", "0/min", "-1/s", "20/minute", "20/d", "1.5/s", "5000000000/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
