//! Webhooks: from a full URL or a bare key to a route, and the rule that a webhook belongs to one chat of one app.
//!
//! Which robot a webhook speaks through is told by its host and its key: two spellings of one robot are the same route,
//! with the same digest. No fault quotes a webhook.

use std::collections::HashMap;
use std::path::PathBuf;

use url::{Host, Url};

use super::faults::Ledger;
use super::gateway::web_url;
use super::settings::{WeCom, Webhook};
use super::units::Mend;
use crate::model::{RouteDigest, Secret};

const COPY: &str = "copy the whole URL, \"https://…/cgi-bin/webhook/send?key=…\", from the robot's page";

/// WeCom's own host; others, listed in `webhook_hosts`, may have paths of their own.
pub(crate) const OFFICIAL_HOST: &str = "qyapi.weixin.qq.com";
/// Where its robots take messages (documentation of group robots).
const SEND_PATH: &str = "/cgi-bin/webhook/send";

/// The robot behind a webhook.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Robot {
    host: String,
    key: String,
}

/// Where a robot is named.
pub(super) struct Use {
    pub(super) robot: Robot,
    pub(super) file: PathBuf,
    pub(super) key: String,
    /// `chat "…"`, or whose it is otherwise.
    pub(super) whose: String,
}

/// Reads a webhook: blanks around it are taken, a bare key is completed by `api_base`.
pub(super) fn webhook(text: &str, wecom: &WeCom) -> Result<(Webhook, Robot), Mend> {
    let text = text.trim();
    let mut url = if text.contains("://") { web_url(text)? } else { url_of_key(text, &wecom.api_base)? };
    url.set_fragment(None);
    let host = url.host_str().unwrap_or_default().to_owned();
    // No hosts are known where their own key has a fault: nothing to compare with then.
    if !wecom.webhook_hosts.is_empty() && !wecom.webhook_hosts.contains(&host) {
        return Err(format!(
            "points the webhook at {host}, which is not in [wecom] webhook_hosts: correct it, or list the host there"
        ));
    }
    if url.scheme() != "https" && !is_loopback(&url) {
        return Err("is a webhook without encryption: write https:// (http is for loopback hosts alone)".into());
    }
    if host == OFFICIAL_HOST && url.path() != SEND_PATH {
        return Err(format!("is no webhook, only some other address of {host}: {COPY}"));
    }
    let key = url
        .query_pairs()
        .find(|(name, _)| name == "key")
        .map(|(_, key)| key.into_owned())
        .filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| format!("is a webhook without its key: {COPY}"))?;
    let digest = RouteDigest::of("group_robot", &format!("{host}\0{key}"));
    Ok((Webhook { url: Secret::new(url), digest }, Robot { host, key }))
}

fn url_of_key(key: &str, api_base: &Url) -> Result<Url, Mend> {
    let mend = || format!("is neither a webhook URL nor its bare key: {COPY}");
    if key.is_empty() || !key.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(mend());
    }
    let base = api_base.as_str().trim_end_matches('/');
    Url::parse(&format!("{base}{SEND_PATH}?key={key}")).map_err(|_| mend())
}

/// Whether a URL stays on this machine, so that it needs no encryption.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Blames every use of a robot after its first.
pub(super) fn once_each<'u>(uses: impl Iterator<Item = &'u Use>, ledger: &Ledger) {
    let mut first: HashMap<&Robot, &Use> = HashMap::new();
    for this in uses {
        let owner = *first.entry(&this.robot).or_insert(this);
        if std::ptr::eq(owner, this) {
            continue;
        }
        let name = |used: &Use| format!("{} ({})", used.whose, used.file.display());
        let why = format!("{} has the webhook of {}", name(this), name(owner));
        let message = format!("{why}, so that what is for one would appear in the other: give each its own robot");
        ledger.note(&this.file, &this.key, message);
    }
}
