//! `[kafka]`: its defaults, and which of librdkafka's settings it lets through.

use super::{Folder, each_gateway_fault};
use crate::config::difference;

#[test]
fn the_section_alone_turns_it_on() {
    assert!(Folder::new().settings().kafka.is_none());
    let kafka = Folder::new().gateway("[kafka]").settings().kafka.unwrap();
    assert_eq!((kafka.brokers.as_str(), kafka.group.as_str()), ("127.0.0.1:9092", "wecom-gateway"));
    assert_eq!(
        (kafka.topic.as_str(), kafka.results_topic.as_str(), kafka.dead_letter_topic.as_str()),
        ("wecom.push", "wecom.push.results", "wecom.push.dead")
    );
    assert_eq!((kafka.in_flight, kafka.options.len()), (1_000, 0));
    let named =
        Folder::new().gateway("kafka = { topic = \"t\", brokers = \"a:1, [::1]:2\" }").settings().kafka.unwrap();
    assert_eq!((named.dead_letter_topic.as_str(), named.brokers.as_str()), ("t.dead", "a:1, [::1]:2"));
}

#[test]
fn settings_of_librdkafka_pass_through_as_they_are() {
    let text = r#"
        [kafka.options]
        "sasl.mechanism" = "SCRAM-SHA-512"
        sasl.username = "gateway"
        sasl.password = "${OPS_TOKEN}"
        security.protocol = "sasl_ssl"
        session.timeout.ms = 10000
        socket.keepalive.enable = true
    "#;
    let kafka = Folder::new().gateway(text).settings().kafka.unwrap();
    let options: Vec<_> = kafka.options.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    let expected = [
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.password", "ops-secret"),
        ("sasl.username", "gateway"),
        ("security.protocol", "sasl_ssl"),
        ("session.timeout.ms", "10000"),
        ("socket.keepalive.enable", "true"),
    ];
    assert_eq!(options, expected);
    assert!(!format!("{kafka:?}").contains("ops-secret"));
}

#[test]
fn no_setting_of_librdkafka_is_shown_however_it_is_written() {
    let with = |password: &str| {
        let text = format!(
            "[kafka]\nbrokers = \"kafka:9092\"\n[kafka.options]\nsasl.password = {password}\n\
             \"ssl.key.password\" = \"hunter2\"\nsasl.username = \"${{OPS_TOKEN}}\"\n"
        );
        Folder::new().gateway(&text).settings().files["gateway.toml"].clone()
    };
    let (word, number) = (with("\"hunter2\""), with("4711"));
    for read in [&word, &number] {
        assert!(read.shown.contains("kafka:9092") && read.shown.contains("${OPS_TOKEN}"), "{}", read.shown);
        assert!(!read.shown.contains("hunter2") && !read.shown.contains("4711"), "{}", read.shown);
    }
    assert!(difference(&number, &with("4712")).is_empty());
    assert_ne!(number.digest, word.digest);
}

#[test]
fn faults_of_the_section_name_their_key() {
    each_gateway_fault(&[
        ("kafka.brokers = \"kafka\"", "kafka.brokers", &["host:port"]),
        ("kafka.brokers = \"http://kafka:9092\"", "kafka.brokers", &["without a scheme"]),
        ("kafka.options.group.instance.id = \"g1\"", "kafka.options.group.instance.id", &["two gateways"]),
        ("kafka.topic = \"a b\"", "kafka.topic", &["letters, digits"]),
        ("kafka.results_topic = \"wecom.push\"", "kafka.results_topic", &["is topic too", "of its own"]),
        ("kafka.dead_letter_topic = \"wecom.push\"", "kafka.dead_letter_topic", &["is topic too"]),
        ("kafka.in_flight = 0", "kafka.in_flight", &["from 1"]),
        ("kafka.options.\"enable.auto.commit\" = true", "kafka.options.enable.auto.commit", &["the gateway's to set"]),
        ("kafka.options.statistics.interval.ms = 0", "kafka.options.statistics.interval.ms", &["the gateway's to set"]),
        ("kafka.options.group.id = \"g\"", "kafka.options.group.id", &["[kafka] group"]),
        (
            "kafka.options.sasl.pasword = \"${OPS_TOKEN}\"",
            "kafka.options.sasl.pasword",
            &["no setting", "CONFIGURATION.md"],
        ),
        ("kafka.options.security.protocol = \"${OPS_TOKEN}\"", "kafka.options.security.protocol", &["does not take"]),
        ("kafka.options.ssl.ca = [1]", "kafka.options.ssl.ca", &["an array", "a string"]),
        ("kafka.options.ssl.ca = \"${NOT_SET}\"", "kafka.options.ssl.ca", &["NOT_SET"]),
    ]);
    let told = Folder::new().gateway("kafka.options.security.protocol = \"${OPS_TOKEN}\"").faults().to_string();
    assert!(!told.contains("ops-secret"), "{told}");
}
