//! `check --online`: what can only be known by trying, tried without sending a message.
//!
//! What always holds: each secret is asked for a token once and never again, because WeCom bans an address for an hour that
//! asks with a wrong one; hosts get a HEAD of `/` and no path, key or query of ours. It opens nothing
//! in the gateway's own folder, so that it can run beside one that serves, and changes nothing in Redis and the database that one has used.

use std::path::Path;

use futures_util::StreamExt;

use super::super::{Failure, MISCONFIGURED, runtime};
use super::{api, reach, stores};
use crate::action;
use crate::cli::voice::say;
use crate::config::Settings;
use crate::push::{Kafka, KafkaFault, Retention};
use crate::sender;

/// Hosts tried at once.
const AT_ONCE: usize = 8;

/// One thing that was tried.
pub(super) struct Finding {
    /// What.
    pub subject: String,
    /// How it stands.
    pub says: String,
    /// What mends it, where it is at fault.
    pub mend: Option<String>,
    /// Nothing is at fault, but what is so can hardly be meant; `mend` changes it.
    is_hint: bool,
}

impl Finding {
    pub fn fine(subject: impl Into<String>, says: impl Into<String>) -> Self {
        Self { subject: subject.into(), says: says.into(), mend: None, is_hint: false }
    }

    pub fn fault(subject: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { subject: subject.into(), says: says.into(), mend: Some(mend.into()), is_hint: false }
    }

    pub fn hint(subject: impl Into<String>, says: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { is_hint: true, ..Self::fault(subject, says, mend) }
    }

    fn is_fault(&self) -> bool {
        self.mend.is_some() && !self.is_hint
    }

    fn say(&self) -> std::io::Result<()> {
        let Self { subject, says, mend, is_hint } = self;
        match mend {
            None => say(format_args!("✓ {subject}: {says}")),
            Some(mend) if *is_hint => say(format_args!("! {subject}: {says}\n  mend: {mend}")),
            Some(mend) => say(format_args!("✗ {subject}: {says}\n  mend: {mend}")),
        }
    }
}

/// Tries everything, a line each; ends with 2 where something is at fault.
pub(super) fn run(settings: &Settings, config: &Path) -> Result<(), Failure> {
    let robots = sender::channel::http_client(&settings.sender).map_err(Failure::running)?;
    let actions = action::http_client().map_err(Failure::running)?;
    let faults = runtime()?.block_on(async {
        let mut faults = 0;
        let mut tell = |finding: Finding| {
            faults += usize::from(finding.is_fault());
            finding.say()
        };
        say("")?;
        for finding in api::ask_all(settings, config, &robots).await {
            tell(finding)?;
        }
        let hosts = reach::hosts(settings).into_iter().map(|host| {
            let client = if host.is_ours { &actions } else { &robots };
            reach::reach(client, host, settings.sender.timeout)
        });
        let mut found = futures_util::stream::iter(hosts).buffered(AT_ONCE);
        while let Some(finding) = found.next().await {
            tell(finding)?;
        }
        if let Some(redis) = stores::redis(settings, config).await {
            tell(redis)?;
        }
        tell(stores::database(settings, config).await)?;
        if let Some(retention) = Kafka::retention(settings).await {
            tell(topic(settings, retention))?;
        }
        Ok::<_, std::io::Error>(faults)
    })?;
    match faults {
        0 => Ok(()),
        1 => Err(Failure { code: MISCONFIGURED, text: "1 thing is at fault, see above".to_owned() }),
        _ => Err(Failure { code: MISCONFIGURED, text: format!("{faults} things are at fault, see above") }),
    }
}

/// Whether the topic of tasks is there, and keeps them no longer than they are remembered.
fn topic(settings: &Settings, retention: Result<Retention, KafkaFault>) -> Finding {
    let subject = settings.kafka.as_ref().map(|kafka| format!("topic {:?} of {}", kafka.topic, kafka.brokers));
    let subject = subject.unwrap_or_default();
    match retention {
        Ok(Retention { kept, remembered, is_longer: false }) => {
            Finding::fine(subject, format!("keeps tasks {kept}, and they are remembered {remembered}"))
        }
        Ok(Retention { kept, remembered, .. }) => {
            let says = format!("{} ({kept} and {remembered})", Retention::LONGER);
            Finding::hint(subject, says, Retention::MEND)
        }
        Err(KafkaFault(why)) => {
            let mend = "see that the brokers of [kafka] can be reached from here with its options, and that the topic is there";
            Finding::fault(subject, format!("the brokers don't say how long it keeps tasks: {why}"), mend)
        }
    }
}
