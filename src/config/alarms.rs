//! `[alarms]`: a robot that no chat has, a hook, or both.

use std::time::Duration;

use super::gateway::web_url;
use super::reader::{Source, Table};
use super::route::{self, Use};
use super::settings::{AlarmHook, Alarms, WeCom};
use crate::model::Secret;

/// The section.
pub(super) fn alarms(t: &mut Table, wecom: &WeCom) -> Alarms {
    let webhook = t.parsed_unseen("webhook", |text| route::webhook(text, wecom)).map(|(webhook, _)| webhook);
    let url = t.parsed_unseen("url", web_url).map(Secret::new);
    let secret = t.secret("secret");
    if url.is_none() && secret.is_some() && t.sound(&["url"]) {
        t.fault("secret", "signs what is posted to url, which is not there: add it, or remove the secret");
    }
    let hook = url.map(|url| AlarmHook { url, secret });
    Alarms { webhook, hook, window: t.span("window", Duration::from_secs(10 * 60)) }
}

/// The robot of the section, where it has one: no chat may have it too.
pub(super) fn robot(gateway: &Source, alarms: &Alarms, wecom: &WeCom) -> Option<Use> {
    let (_, robot) = route::webhook(alarms.webhook.as_ref()?.url.expose(), wecom).ok()?;
    Some(Use { robot, file: gateway.file.clone(), key: "alarms.webhook".into(), whose: "[alarms]".into() })
}
