//! Which day a moment belongs to: days begin at midnight in one zone, `[database] zone`, summer time included.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

use crate::model::now_ms;

/// The zone in which days are counted. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    /// UTC.
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// The system's: `TZ`, else `/etc/localtime`, else UTC.
    pub fn system() -> Self {
        Self(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// By its name in the table of zones, such as `Asia/Shanghai` or `UTC`; `None` for any other text.
    pub fn named(name: &str) -> Option<Self> {
        TimeZone::get(name).ok().map(Self)
    }

    /// Its name, else how far it is from UTC now, such as `+08`.
    pub fn name(&self) -> String {
        let offset = || self.0.to_offset(Timestamp::now()).to_string();
        self.0.iana_name().map_or_else(offset, str::to_owned)
    }

    /// A moment on its clocks, from Unix ms; a number that is no time counts as the nearest that is.
    pub fn at(&self, ms: i64) -> ZonedDateTime {
        let nearest = if ms < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Timestamp::from_millisecond(ms).unwrap_or(nearest).to_zoned_datetime(self.0.clone())
    }

    /// The day of a moment.
    pub fn day(&self, ms: i64) -> Date {
        self.at(ms).date()
    }

    /// The day it is now.
    pub fn today(&self) -> Date {
        self.day(now_ms())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().expect("a time").as_millisecond()
    }

    #[test]
    fn days_begin_at_midnight_in_their_zone() {
        let day = |zone: &str, at: &str| Zone::named(zone).expect("a zone").day(ms(at)).to_string();
        assert_eq!(day("Asia/Shanghai", "2026-11-29T15:59:59.999Z"), "2026-11-29");
        assert_eq!(day("Asia/Shanghai", "2026-11-29T16:00:00Z"), "2026-11-30");
        assert_eq!(day("UTC", "2026-11-29T23:59:59.999Z"), "2026-11-29");
        // Summer time ended there three weeks before.
        assert_eq!(day("America/New_York", "2026-10-31T03:59:59Z"), "2026-10-30");
        assert_eq!(day("America/New_York", "2026-11-29T04:30:00Z"), "2026-11-28");
    }

    #[test]
    fn a_zone_says_its_name_and_no_number_is_too_large() {
        assert_eq!(Zone::named("Asia/Shanghai").map(|zone| zone.name()), Some("Asia/Shanghai".to_owned()));
        assert_eq!((Zone::default().name(), Zone::named("Asia/Atlantis")), ("UTC".to_owned(), None));
        assert_eq!(Zone::default().day(i64::MAX).year(), 9999);
    }
}
