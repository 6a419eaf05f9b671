//! `[kafka]`, and librdkafka's own settings in it, which are passed through as they are, but for those that the promises stand on.

use std::collections::BTreeMap;

use super::reader::Table;
use super::settings::Kafka;
use super::units::Mend;
use crate::model::Secret;

/// What may not be set under `options`, and why.
const OURS: &[(&str, &str)] = &[
    ("bootstrap.servers", "write it as [kafka] brokers"),
    ("metadata.broker.list", "write it as [kafka] brokers"),
    ("group.id", "write it as [kafka] group"),
    (
        "group.instance.id",
        "remove it: two gateways with this file would be one member of the group, and each put the other out",
    ),
    ("enable.auto.commit", "remove it: an offset is committed once its task is owned"),
    ("enable.auto.offset.store", "remove it: an offset is committed once its task is owned"),
    ("auto.offset.reset", "remove it: a new group begins at the oldest task, so that none is passed over"),
    ("partition.assignment.strategy", "remove it: partitions change hands cooperatively"),
    ("group.protocol", "remove it: partitions change hands cooperatively, by the classic protocol"),
    ("isolation.level", "remove it: tasks of an aborted transaction are never read"),
    ("enable.idempotence", "remove it: what is written here is always written so"),
    ("acks", "remove it: what is written here waits for all replicas in sync"),
    ("request.required.acks", "remove it: what is written here waits for all replicas in sync"),
    ("statistics.interval.ms", "remove it: by what they tell, an outage is known to be over"),
    ("transactional.id", "remove it: each process has one of its own"),
];

/// The section.
pub(super) fn kafka(t: &mut Table) -> Kafka {
    let name = |t: &mut Table, key, default: &str| t.parsed(key, topic_name).unwrap_or_else(|| default.to_owned());
    let topic = name(t, "topic", "wecom.push");
    let results_topic = name(t, "results_topic", "wecom.push.results");
    let dead_letter_topic = name(t, "dead_letter_topic", &format!("{topic}.dead"));
    for (key, other, of) in [
        ("results_topic", &results_topic, [("topic", &topic), ("dead_letter_topic", &dead_letter_topic)].as_slice()),
        ("dead_letter_topic", &dead_letter_topic, &[("topic", &topic)]),
    ] {
        if let Some((same, _)) = of.iter().find(|(_, name)| *name == other) {
            t.fault(key, format!("{other:?} is {same} too: give each a topic of its own"));
        }
    }
    if cfg!(not(feature = "kafka")) {
        t.fault_here(
            "this program was built without Kafka: build it with the feature \"kafka\", or remove the section",
        );
    }
    Kafka {
        brokers: t.parsed("brokers", brokers).unwrap_or_else(|| "127.0.0.1:9092".into()),
        topic,
        results_topic,
        dead_letter_topic,
        group: t.filled("group").unwrap_or_else(|| "wecom-gateway".into()),
        in_flight: t.whole("in_flight", 1..=1_000_000).and_then(|n| usize::try_from(n).ok()).unwrap_or(1_000),
        options: options(t),
    }
}

fn topic_name(text: &str) -> Result<String, Mend> {
    let may_stand = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text {
        "." | ".." => Err("can't be a topic's name: write another".into()),
        _ if (1..=249).contains(&text.len()) && text.chars().all(may_stand) => Ok(text.to_owned()),
        _ => Err("can't be a topic's name: write 1 to 249 letters, digits, \".\", \"_\" and \"-\"".into()),
    }
}

fn brokers(text: &str) -> Result<String, Mend> {
    let is_one = |one: &str| {
        one.trim()
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok())
    };
    match text.split(',').all(is_one) {
        true => Ok(text.to_owned()),
        false => Err("names no brokers: write host:port without a scheme, several joined by commas".into()),
    }
}

/// librdkafka's settings by name. They may be written as one name in quotes or as tables, which a name with dots is to TOML.
fn options(t: &mut Table) -> BTreeMap<String, Secret> {
    let Some(written) = t.section_if("options", Table::texts) else { return BTreeMap::new() };
    let mut options = BTreeMap::new();
    for (name, value) in written {
        let key = format!("options.{name}");
        if let Some((_, mend)) = OURS.iter().find(|(ours, _)| *ours == name) {
            t.fault(&key, format!("is the gateway's to set: {mend}"));
        } else if let Err(mend) = known(&name, &value) {
            t.fault(&key, mend);
        }
        options.insert(name, value);
    }
    options
}

/// Whether librdkafka takes it; its own words may quote the value, which may be a secret.
#[cfg(feature = "kafka")]
fn known(name: &str, value: &Secret) -> Result<(), Mend> {
    use rdkafka::error::KafkaError;
    use rdkafka::types::RDKafkaConfRes;

    let page = "look at librdkafka's CONFIGURATION.md";
    match rdkafka::ClientConfig::new().set(name, value.expose()).create_native_config() {
        Ok(_) => Ok(()),
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => {
            Err(format!("is no setting of librdkafka: correct its name ({page})"))
        }
        Err(_) => Err(format!("has a value that librdkafka does not take: correct it ({page})")),
    }
}

#[cfg(not(feature = "kafka"))]
fn known(_: &str, _: &Secret) -> Result<(), Mend> {
    Ok(())
}
