//! Values of options: durations, rates, shares, spans. A wrong one is told with what it should have been.

use std::time::Duration;

use crate::config::units;

/// `500ms`, `30s`, `10m`; longer than nothing.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    units::some_duration(text)
}

/// `500ms`, `30s`, `0s`.
pub(super) fn duration_or_none(text: &str) -> Result<Duration, String> {
    units::duration(text)
}

/// Messages a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    let rate: Option<f64> = text.trim().parse().ok();
    let mend = || "is no rate: write messages a second, between 0.01 and 100000, such as 20".to_owned();
    rate.filter(|rate| (0.01..=100_000.0).contains(rate)).ok_or_else(mend)
}

/// Percent, as a share of 1.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim().trim_end_matches('%').parse().ok();
    let mend = || "is no percentage: write a number from 0 to 100, such as 15".to_owned();
    percent.filter(|percent| (0.0..=100.0).contains(percent)).map(|percent| percent / 100.0).ok_or_else(mend)
}

/// Shortest and longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span(pub Duration, pub Duration);

impl Span {
    /// As it is written.
    pub(super) fn show(self) -> String {
        format!("{} to {} ms", self.0.as_millis(), self.1.as_millis())
    }
}

/// `200..800`, or one number for both, in milliseconds.
pub(super) fn span_ms(text: &str) -> Result<Span, String> {
    let mend = || "is no span: write milliseconds, such as 200..800 or 500".to_owned();
    let ms = |text: &str| text.trim().parse().map(Duration::from_millis).map_err(|_| mend());
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let span = Span(ms(from)?, ms(to)?);
    if span.0 <= span.1 { Ok(span) } else { Err(mend()) }
}

/// An errcode and its share of all sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ErrcodeShare(pub i64, pub f64);

/// `45009=1`: an errcode and its percentage.
pub(super) fn errcode(text: &str) -> Result<ErrcodeShare, String> {
    let mend = || "is no share of an errcode: write errcode=percent, such as 45009=1".to_owned();
    let (code, share) = text.split_once('=').ok_or_else(mend)?;
    let code: i64 = code.trim().parse().ok().filter(|code| *code != 0).ok_or_else(mend)?;
    Ok(ErrcodeShare(code, percent(share)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_or_told_how_to_write() {
        let ms = Duration::from_millis;
        assert_eq!(span_ms("200..800"), Ok(Span(ms(200), ms(800))));
        assert_eq!(span_ms("500"), Ok(Span(ms(500), ms(500))));
        assert_eq!((rate("20"), rate("0.5"), percent("15"), percent("0.5%")), (Ok(20.0), Ok(0.5), Ok(0.15), Ok(0.005)));
        assert_eq!(errcode("45009=1"), Ok(ErrcodeShare(45009, 0.01)));
        assert_eq!(errcode("-1=50"), Ok(ErrcodeShare(-1, 0.5)));
        assert_eq!((duration("60s"), duration_or_none("0s")), (Ok(ms(60_000)), Ok(ms(0))));
        for wrong in ["800..200", "x", "1..", "-5", ""] {
            assert!(span_ms(wrong).unwrap_err().contains("200..800"), "{wrong}");
        }
        for wrong in ["0", "-1", "inf", "NaN", "x", ""] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["101", "-1", "NaN", ""] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
        for wrong in ["45009", "0=1", "x=1", "45009=x"] {
            assert!(errcode(wrong).is_err(), "{wrong}");
        }
        assert!(duration("0s").is_err() && duration("60").is_err());
    }
}
