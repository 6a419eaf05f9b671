//! `[report]`: a robot that no chat has, and a time of the day.

use jiff::civil::{Time, time};

use super::reader::{Source, Table};
use super::route::{self, Use};
use super::settings::{Alarms, Report, WeCom};
use super::units::Mend;

/// The section.
pub(super) fn report(t: &mut Table, wecom: &WeCom) -> Report {
    let webhook = t.parsed_unseen("webhook", |text| route::webhook(text, wecom)).map(|(webhook, _)| webhook);
    Report { webhook, at: t.parsed("at", clock).unwrap_or(time(9, 0, 0, 0)) }
}

fn clock(text: &str) -> Result<Time, Mend> {
    let of = |digits: &str| digits.parse().ok().filter(|_| digits.len() == 2);
    let read = text.split_once(':').and_then(|(hour, minute)| Time::new(of(hour)?, of(minute)?, 0, 0).ok());
    read.ok_or_else(|| "is no time of the day: write hours and minutes, such as \"09:00\"".into())
}

/// The robot of the section, where it has one of its own: no chat may have it too.
pub(super) fn robot(gateway: &Source, report: &Report, alarms: &Alarms, wecom: &WeCom) -> Option<Use> {
    let webhook = report.webhook.as_ref()?;
    if alarms.webhook.as_ref().is_some_and(|other| other.digest == webhook.digest) {
        return None;
    }
    let (_, robot) = route::webhook(webhook.url.expose(), wecom).ok()?;
    Some(Use { robot, file: gateway.file.clone(), key: "report.webhook".into(), whose: "[report]".into() })
}
