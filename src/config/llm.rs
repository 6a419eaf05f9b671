//! `action = { type = "llm", … }`: a model behind any OpenAI-compatible API.

use std::time::Duration;

use toml::Value;
use url::Url;

use super::action::Place;
use super::gateway::web_url;
use super::reader::Table;
use super::settings::{AnswerFormat, LlmAction};
use super::units::{self, Mend, show};

/// Reads the keys of the table `t` beside its `type`.
pub(super) fn llm(t: &mut Table, place: &Place) -> Option<LlmAction> {
    let base_url = t.parsed_unseen("base_url", endpoint);
    let base_url = t.require("base_url", base_url, "write where the API begins, such as \"http://llm:8000/v1\"");
    let model = t.filled("model");
    let model = t.require("model", model, "write the model's name as the API knows it");
    let timeout = t.span("timeout", Duration::from_secs(30).min(place.max_reply_age));
    if timeout > place.max_reply_age {
        let (timeout, age) = (show(timeout), show(place.max_reply_age));
        let why = format!("{timeout} is longer than max_reply_age ({age}), after which nothing is sent");
        t.fault("timeout", format!("{why}: shorten it, or lengthen max_reply_age"));
    }
    let formats = [("text", AnswerFormat::Text), ("markdown", AnswerFormat::Markdown)];
    Some(LlmAction {
        api_key: t.secret("api_key"),
        system: t.filled("system"),
        timeout,
        max_tokens: t.whole("max_tokens", 1..=1_000_000),
        temperature: temperature(t),
        context: t.whole("context", 0..=1_000_000).and_then(|n| usize::try_from(n).ok()).unwrap_or(4000),
        max_answer: t.parsed("max_answer", max_answer).unwrap_or(8 * 1024),
        format: t.word("format", &formats).unwrap_or(AnswerFormat::Text),
        max_age: place.max_reply_age,
        endpoint: base_url?,
        model: model?,
    })
}

/// `{base_url}/chat/completions`
fn endpoint(text: &str) -> Result<Url, Mend> {
    let mut url = web_url(text)?;
    let base = url.path().trim_end_matches('/');
    if base.ends_with("/chat/completions") {
        return Err("ends with /chat/completions, which is added to it: write where the API begins, such as \
                    \"http://llm:8000/v1\""
            .into());
    }
    let path = format!("{base}/chat/completions");
    url.set_path(&path);
    Ok(url)
}

fn max_answer(text: &str) -> Result<usize, Mend> {
    match units::size(text) {
        Ok(0) => Err("leaves nothing of an answer: write a larger size, such as \"8KiB\"".into()),
        other => other,
    }
}

fn temperature(t: &mut Table) -> Option<f64> {
    let value = match t.take("temperature")? {
        Value::Float(value) => value,
        Value::Integer(value) => value as f64,
        _ => f64::NAN,
    };
    if !(0.0..=2.0).contains(&value) {
        t.fault("temperature", "is not from 0 to 2: write a number such as 0.7");
        return None;
    }
    Some(value)
}
