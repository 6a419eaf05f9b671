//! `externalcontact/…`, WeCom's interface about customers and their groups, as far as it answers questions: one request each, with
//! the app's access token, and once more where that was refused.
//!
//! WeCom grants it only where the app is listed under 客户联系 → 可调用应用. No error text holds the token: it is in the URL.

use std::sync::Arc;

use reqwest::RequestBuilder;
use serde_json::Value;

use crate::config::settings::{Api, Settings};
use crate::model::Secret;
use crate::sender::{Tokens, refuses_token};
use crate::store::{SharedStore, StoreError};
use crate::wecom::verdict::shown;

/// Most bytes of an answer: a group of 500 has some 100,000.
const MAX_ANSWER: usize = 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// WeCom knows no such contact or group of this corp.
    Unknown,
    /// Not now: WeCom says so, or this side could not ask.
    Busy(String),
    /// No answer that could be read. It may be about this question alone.
    Odd(String),
    /// Not to this app.
    Forbidden(String),
    /// Not with this secret: the access token was refused, and the one after it too.
    BadToken(String),
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Self::Busy(error.to_string())
    }
}

/// Asks WeCom.
pub struct ExternalContact {
    client: reqwest::Client,
    /// Without a trailing slash.
    base: String,
    tokens: Tokens,
}

impl ExternalContact {
    /// Asks with `client`, which should give up soon.
    pub fn new(store: SharedStore, settings: &Settings, client: reqwest::Client) -> Self {
        let base = settings.wecom.api_base.as_str().trim_end_matches('/').to_owned();
        let tokens = Tokens::new(store, client.clone(), &base, settings.sender.timeout);
        Self { client, base, tokens }
    }

    /// A question by GET: the answer, with `errcode` 0.
    pub(crate) async fn get(&self, api: &Arc<Api>, path: &str, query: &[(&str, &str)]) -> Result<Value, Refusal> {
        self.call(api, |token| self.client.get(self.url(path, token, query))).await
    }

    /// A question by POST: the answer, with `errcode` 0.
    pub(crate) async fn post(&self, api: &Arc<Api>, path: &str, body: &Value) -> Result<Value, Refusal> {
        self.call(api, |token| self.client.post(self.url(path, token, &[])).json(body)).await
    }

    fn url(&self, path: &str, token: &Secret, query: &[(&str, &str)]) -> String {
        let mut all = url::form_urlencoded::Serializer::new(String::new());
        let query = all.append_pair("access_token", token.expose()).extend_pairs(query).finish();
        format!("{}/cgi-bin/externalcontact/{path}?{query}", self.base)
    }

    /// The answer with errcode 0.
    async fn call(&self, api: &Arc<Api>, request: impl Fn(&Secret) -> RequestBuilder) -> Result<Value, Refusal> {
        let token = self.token(api).await?;
        let answer = read(request(&token)).await?;
        if !answer["errcode"].as_i64().is_some_and(refuses_token) {
            return judge(answer);
        }
        self.tokens.refused(api, &token).await;
        let fresh = self.token(api).await?;
        judge(if fresh == token { answer } else { read(request(&fresh)).await? })
    }

    async fn token(&self, api: &Arc<Api>) -> Result<Secret, Refusal> {
        // Sending asks for tokens too, and says loudly why there is none.
        self.tokens.get(api).await.map_err(|_| Refusal::Busy("no access token".to_owned()))
    }
}

/// The JSON that a request was answered with.
async fn read(request: RequestBuilder) -> Result<Value, Refusal> {
    let odd = |error: reqwest::Error| Refusal::Odd(error.without_url().to_string());
    let mut answer = request.send().await.map_err(odd)?;
    let status = answer.status();
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(odd)? {
        if body.len() + chunk.len() > MAX_ANSWER {
            return Err(Refusal::Odd(format!("an answer of more than {MAX_ANSWER} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    // The parser's words may quote the body, which tells who somebody is.
    serde_json::from_slice(&body).map_err(|_| Refusal::Odd(format!("HTTP {status} without JSON")))
}

/// By errcode (document/path/90313): nobody there, not now, or not by this app.
fn judge(answer: Value) -> Result<Value, Refusal> {
    let errmsg = || shown(answer["errmsg"].as_str().unwrap_or_default());
    match answer["errcode"].as_i64() {
        Some(0) => Ok(answer),
        // Bad or foreign id, no friend relation, no such group of this corp.
        Some(40050 | 40058 | 40096 | 40165 | 40166 | 49008 | 84061 | 86001 | 86003) => Err(Refusal::Unknown),
        Some(code @ (-1 | 45009 | 45033)) => Err(Refusal::Busy(format!("errcode {code}"))),
        Some(code) => {
            let why = format!("errcode {code}: {}", errmsg());
            Err(if refuses_token(code) { Refusal::BadToken(why) } else { Refusal::Forbidden(why) })
        }
        None => Err(Refusal::Odd("an answer without an errcode".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_answers_mean() {
        let of = |errcode: Value| judge(json!({"errcode": errcode, "errmsg": "no privilege, from ip: 203.0.113.7"}));
        assert!(of(json!(0)).is_ok());
        for unknown in [84061, 40096, 40050, 49008] {
            assert_eq!(of(json!(unknown)), Err(Refusal::Unknown));
        }
        for busy in [-1, 45009, 45033] {
            assert!(matches!(of(json!(busy)), Err(Refusal::Busy(_))), "{busy}");
        }
        for odd in [json!(null), json!("0")] {
            assert!(matches!(of(odd.clone()), Err(Refusal::Odd(_))), "{odd}");
        }
        for token in [40001, 40014, 42001] {
            assert!(
                matches!(of(json!(token)), Err(Refusal::BadToken(why)) if why.ends_with("no privilege")),
                "{token}"
            );
        }
        for forbidden in [48002, 60020, 84074, 301002] {
            assert!(matches!(of(json!(forbidden)), Err(Refusal::Forbidden(why)) if why.ends_with("no privilege")));
        }
    }
}
