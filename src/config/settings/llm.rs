//! A model and how it is asked, as configured.

use std::time::Duration;

use url::Url;

use crate::model::Secret;

/// An LLM action: an OpenAI-compatible API.
#[derive(Clone, Debug)]
pub struct LlmAction {
    /// `{base_url}/chat/completions`
    pub endpoint: Url,
    /// Its name there.
    pub model: String,
    /// Bearer text.
    pub api_key: Option<Secret>,
    /// What the model is told first; sent as it is.
    pub system: Option<String>,
    /// For one request.
    pub timeout: Duration,
    /// Requests and the waits between them end with this age of the message: the app's `max_reply_age`.
    pub max_age: Duration,
    /// Handed on.
    pub max_tokens: Option<u64>,
    /// Handed on.
    pub temperature: Option<f64>,
    /// Most tokens of earlier turns that are sent along, counted conservatively.
    pub context: usize,
    /// Bytes of an answer that are passed on.
    pub max_answer: usize,
    /// As what the answer is sent.
    pub format: AnswerFormat,
}

/// As what a model's answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerFormat {
    /// Plain text.
    Text,
    /// WeCom's markdown.
    Markdown,
}
