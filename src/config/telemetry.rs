//! `[telemetry]`: where spans go, and how many of them.

use toml::Value;

use super::gateway::web_url;
use super::reader::Table;
use super::settings::Tracing;
use super::units::Mend;
use crate::model::Secret;

/// The section; nothing is traced where it names no collector.
pub(super) fn telemetry(t: &mut Table) -> Option<Tracing> {
    let otlp = t.parsed_unseen("otlp", collector);
    let sample = sample(t);
    if otlp.is_none() && sample.is_some() && t.sound(&["otlp"]) {
        t.fault("sample", "is a share of nothing, as otlp is not there: add it, or remove sample");
    }
    Some(Tracing { otlp: otlp?, sample: sample.unwrap_or(1.0) })
}

/// The address of a collector, without what every collector has below it. Not quoted: it may hold a password.
fn collector(text: &str) -> Result<Secret, Mend> {
    let url = web_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(
            "holds a query or a fragment: write scheme, host and port, such as \"http://127.0.0.1:4318\"".into()
        );
    }
    let base = url.as_str().trim_end_matches('/');
    Ok(Secret::new(base.strip_suffix("/v1/traces").unwrap_or(base)))
}

/// The share of traces that are kept.
fn sample(t: &mut Table) -> Option<f64> {
    let share = match t.take("sample")? {
        Value::Float(share) => share,
        Value::Integer(share) => share as f64,
        _ => f64::NAN,
    };
    if !(0.0..=1.0).contains(&share) {
        t.fault("sample", "is not from 0 to 1: write the share of traces to keep, such as 0.1");
        return None;
    }
    Some(share)
}
