//! Whether each host that is sent to, or asked, answers from here. Any HTTP answer will do, except a front's that it reaches nobody.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::time::Duration;

use url::Url;

use super::online::Finding;
use crate::config::settings::{Action, App, AppKind, ChatWay, HttpAction, Tracing};
use crate::config::{Settings, is_loopback};
use crate::model::Secret;
use crate::sender::causes;

/// A host, and who needs it.
pub(super) struct Host {
    /// Scheme, host and port.
    origin: String,
    /// Whether the team's own services are meant: they are asked without the environment's proxies.
    pub is_ours: bool,
    uses: BTreeMap<String, usize>,
}

/// Every host that routes, actions, alarms and spans lead to; the API's is asked by itself.
pub(super) fn hosts(settings: &Settings) -> Vec<Host> {
    let mut hosts: BTreeMap<(bool, String), BTreeMap<String, usize>> = BTreeMap::new();
    let mut add = |is_ours: bool, url: &str, by: String| {
        // What can't be parsed was refused when it was loaded.
        let Some(origin) = Url::parse(url).ok().map(|url| url.origin().ascii_serialization()) else { return };
        *hosts.entry((is_ours, origin)).or_default().entry(by).or_default() += 1;
    };
    for (id, app) in &settings.apps {
        for chat in app.chats.values() {
            if let Some(ChatWay::Webhook(webhook)) = &chat.way {
                add(false, webhook.url.expose(), format!("webhooks of {id:?}"));
            }
        }
        if let Some(gateway) = &app.gateway {
            add(false, gateway.url.expose(), format!("the gateway of {id:?}"));
        }
        if let AppKind::Aibot(_) = app.kind {
            for host in settings.wecom.webhook_hosts.iter().filter(|host| !is_local(host)) {
                add(false, &format!("https://{host}"), format!("response_urls of {id:?}"));
            }
        }
        for url in actions(app) {
            add(true, url.as_str(), format!("actions of {id:?}"));
        }
    }
    let alarms = &settings.alarms;
    let mut alarm = |is_ours: bool, url: Option<&Secret>| {
        if let Some(url) = url {
            add(is_ours, url.expose(), "alarms".to_owned());
        }
    };
    alarm(false, alarms.webhook.as_ref().map(|webhook| &webhook.url));
    alarm(true, alarms.hook.as_ref().map(|hook| &hook.url));
    if let Some(Tracing { otlp, .. }) = &settings.telemetry {
        add(true, otlp.expose(), "spans".to_owned());
    }
    hosts.into_iter().map(|((is_ours, origin), uses)| Host { origin, is_ours, uses }).collect()
}

/// Whether it is this machine: a `response_url` there brings its own port and scheme, so that nothing can be tried before.
fn is_local(host: &str) -> bool {
    Url::parse(&format!("http://{host}")).is_ok_and(|url| is_loopback(&url))
}

fn actions(app: &App) -> impl Iterator<Item = &Url> {
    app.rules.actions().filter_map(|action| match action {
        Action::Http(HttpAction { url, .. }) => Some(url),
        Action::Llm(llm) => Some(&llm.endpoint),
        Action::Reply { .. } | Action::Help => None,
    })
}

/// Asks a host for nothing.
pub(super) async fn reach(client: &reqwest::Client, host: Host, timeout: Duration) -> Finding {
    let uses = host.uses.iter().map(|(by, n)| if *n == 1 { by.clone() } else { format!("{by} ({n})") });
    let subject = format!("{} for {}", host.origin, uses.collect::<Vec<_>>().join(", "));
    match client.head(format!("{}/", host.origin)).timeout(timeout).send().await {
        Ok(answer) => match answer.status().as_u16() {
            status @ (502..=504) => {
                let says = format!("a front answers (HTTP {status}) and reaches nobody behind it");
                Finding::fault(subject, says, "start the service behind it")
            }
            status => Finding::fine(subject, format!("answers (HTTP {status})")),
        },
        Err(error) => {
            let error = error.without_url();
            Finding::fault(subject, format!("can't be reached: {}", causes(&error)), mend(&error))
        }
    }
}

fn mend(error: &reqwest::Error) -> &'static str {
    let system = |cause: &(dyn Error + 'static)| cause.downcast_ref::<io::Error>().map(io::Error::kind);
    let is_refused = sources(error).any(|cause| system(cause) == Some(io::ErrorKind::ConnectionRefused));
    let is_unknown = causes(error).contains("dns error");
    if is_refused {
        "nothing listens there: start the service, or correct host and port"
    } else if is_unknown {
        "the name is not known here: correct it, or see to the name server"
    } else if sources(error).any(is_tls) {
        "see to its certificate, to this machine's clock and to its CA certificates; or is it plain http?"
    } else if error.is_timeout() {
        "it does not answer in time: see to firewall, routes and proxy variables"
    } else {
        "see that the service speaks HTTP at this address"
    }
}

/// Whether TLS failed; its error comes inside of others, which don't name it as their source.
fn is_tls(cause: &(dyn Error + 'static)) -> bool {
    let inside = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    cause.is::<rustls::Error>() || inside.is_some_and(|inside| is_tls(inside))
}

fn sources<'a>(error: &'a reqwest::Error) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'a (dyn Error + 'static)| (*cause).source())
}
