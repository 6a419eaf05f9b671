//! `[telemetry]`: off unless a collector is named.

use super::{Folder, each_gateway_fault};

#[test]
fn a_collector_turns_it_on() {
    assert_eq!(Folder::new().gateway("[telemetry]").settings().telemetry, None);
    let read = |text: &str| {
        let telemetry = Folder::new().gateway(text).settings().telemetry.unwrap();
        assert!(!format!("{telemetry:?}").contains("4318"), "an address may hold a password");
        (telemetry.otlp.expose().to_owned(), telemetry.sample)
    };
    let address = "http://127.0.0.1:4318".to_owned();
    assert_eq!(read("telemetry.otlp = \"http://127.0.0.1:4318\""), (address.clone(), 1.0));
    assert_eq!(read("telemetry = { otlp = \"http://127.0.0.1:4318/v1/traces\", sample = 0.25 }"), (address, 0.25));
    let below = "https://u:p@c.example:4318/otel".to_owned();
    assert_eq!(read("telemetry = { otlp = \"https://u:p@c.example:4318/otel/\", sample = 0 }"), (below, 0.0));
}

#[test]
fn faults_of_the_section_name_their_key() {
    each_gateway_fault(&[
        ("telemetry.otlp = \"127.0.0.1:4318\"", "telemetry.otlp", &["no URL", "in full"]),
        ("telemetry.otlp = \"http://c:4318?x=1\"", "telemetry.otlp", &["query", "http://127.0.0.1:4318"]),
        ("telemetry = { otlp = \"http://c:4318\", sample = 10 }", "telemetry.sample", &["from 0 to 1", "0.1"]),
        ("telemetry = { otlp = \"http://c:4318\", sample = \"all\" }", "telemetry.sample", &["from 0 to 1"]),
        ("telemetry.sample = 0.1", "telemetry.sample", &["otlp is not there"]),
        ("telemetry.otpl = \"http://c:4318\"", "telemetry.otpl", &["did you mean \"otlp\"?"]),
    ]);
    let told = Folder::new().gateway("telemetry.otlp = \"ftp://u:hush@c\"").faults().to_string();
    assert!(!told.contains("hush"), "{told}");
}
