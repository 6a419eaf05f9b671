//! Speaks to a running gateway's admin listener, for `trace`, `report` and `push`: where it is, with which token, and what an answer
//! that is none means. Never opens a gateway's files but its configuration, of which it reads `[admin]` alone.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, RequestBuilder, StatusCode};
use serde_json::Value;
use url::Url;

use super::{Failure, MISCONFIGURED};
use crate::action;
use crate::config::settings::{Admin, Scope};
use crate::config::{self, Faults};
use crate::model::Secret;

/// Where a token is looked for that the command line does not name: others may read a command line.
const TOKEN: &str = "WECOM_GATEWAY_TOKEN";
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which gateway is asked.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Running {
    /// The gateway's configuration, whose admin section says where it listens and which tokens it takes.
    #[arg(long, default_value = "config/gateway.toml", conflicts_with = "admin")]
    config: PathBuf,
    /// Its admin listener, such as http://10.0.0.5:8081, instead of --config.
    #[arg(long, value_name = "URL", value_parser = base)]
    admin: Option<Url>,
    /// A token that it takes; else that of WECOM_GATEWAY_TOKEN in the environment, else one of --config.
    #[arg(long, value_parser = |text: &str| Ok::<_, Infallible>(Secret::new(text)))]
    token: Option<Secret>,
}

fn base(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| "is no address of a gateway: write one such as http://127.0.0.1:8081".to_owned())
}

/// A way to ask.
pub(super) struct Operator {
    base: Url,
    token: Option<Secret>,
    client: Client,
}

impl Running {
    /// A way to ask with a token of `scope`.
    pub fn operator(&self, scope: Scope) -> Result<Operator, Failure> {
        let told = self.token.clone().or_else(|| std::env::var(TOKEN).ok().map(Secret::new));
        let (base, configured) = match &self.admin {
            Some(url) => (url.clone(), None),
            None => {
                let misconfigured = |text: String| Failure { code: MISCONFIGURED, text };
                let faulty = |faults: Faults| {
                    misconfigured(format!("{faults}\nOr say where the gateway is with --admin (and --token)."))
                };
                let (listen, configured) = if told.is_some() {
                    (config::admin_address(&self.config).map_err(faulty)?, None)
                } else {
                    let admin = config::admin(&self.config).map_err(faulty)?;
                    (admin.listen, token_of(&admin, scope))
                };
                (listening(listen).map_err(misconfigured)?, configured)
            }
        };
        let client = action::http_client().map_err(Failure::running)?;
        Ok(Operator { base, token: told.or(configured), client })
    }
}

/// The listener's address as one to connect to.
fn listening(listen: SocketAddr) -> Result<Url, String> {
    let ip = match listen.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let port = listen.port();
    if port == 0 {
        return Err(
            "[admin] listen has port 0, so that only the gateway's log knows where it is: say so with --admin".into()
        );
    }
    Url::parse(&format!("http://{}", SocketAddr::new(ip, port))).map_err(|error| error.to_string())
}

/// The token that may just what is needed.
fn token_of(admin: &Admin, scope: Scope) -> Option<Secret> {
    let may = admin.tokens.iter().filter(|token| token.scope >= scope);
    may.min_by_key(|token| token.scope).map(|token| token.secret.clone())
}

impl Operator {
    /// `GET /api/v1/<path>?<query>`; each part of the path is encoded.
    pub async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, Failure> {
        let mut url = self.url(path);
        url.query_pairs_mut().extend_pairs(query);
        self.ask(self.client.get(url)).await
    }

    /// As [`Operator::get`], page by page: the first page, with the items of all of them.
    pub async fn get_all(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, Failure> {
        let mut whole = self.get(path, query).await?;
        while let Some(cursor) = whole["next"].as_str().map(str::to_owned) {
            let next = self.get(path, &[query, &[("cursor", &cursor)]].concat()).await?;
            if let (Some(items), Some(more)) = (whole["items"].as_array_mut(), next["items"].as_array()) {
                items.extend_from_slice(more);
            }
            whole["next"] = next["next"].clone();
        }
        Ok(whole)
    }

    /// `POST /api/v1/<path>` with this JSON: status and answer, whatever the gateway says but that it may not be asked.
    pub async fn post(&self, path: &[&str], json: String) -> Result<(u16, Value), Failure> {
        let request = self.client.post(self.url(path)).header(CONTENT_TYPE, "application/json").body(json);
        match self.answer(request).await? {
            (status, Some(body)) if !matches!(status.as_u16(), 401 | 403) => Ok((status.as_u16(), body)),
            (status, body) => Err(self.refusal(status, body)),
        }
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        url
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Value, Failure> {
        match self.answer(request).await? {
            (status, Some(body)) if status.is_success() => Ok(body),
            (status, body) => Err(self.refusal(status, body)),
        }
    }

    /// Status, and the body where it is JSON.
    async fn answer(&self, request: RequestBuilder) -> Result<(StatusCode, Option<Value>), Failure> {
        let base = &self.base;
        let request = match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        };
        let answer = request.timeout(PATIENCE).send().await.map_err(|error| {
            let why = error.without_url();
            let why = std::error::Error::source(&why).map_or_else(|| why.to_string(), innermost);
            Failure::running(format!("no gateway answers at {base} ({why}): start it, or say where it is with --admin"))
        })?;
        Ok((answer.status(), answer.json().await.ok()))
    }

    fn refusal(&self, status: StatusCode, body: Option<Value>) -> Failure {
        let base = &self.base;
        match body {
            Some(body) if body["error"]["message"].is_string() => {
                let message = body["error"]["message"].as_str().unwrap_or_default();
                let mend = match status.as_u16() {
                    401 | 403 => "; give a token with --token",
                    404 => "; say where its admin listener is with --admin",
                    _ => "",
                };
                Failure::running(format!("the gateway at {base} refuses ({}): {message}{mend}", status.as_u16()))
            }
            _ => {
                let status = status.as_u16();
                Failure::running(format!(
                    "what answers at {base} is no gateway's admin listener (HTTP {status}): say where that is with --admin"
                ))
            }
        }
    }
}

/// The system's own word.
fn innermost(mut error: &(dyn std::error::Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::AdminToken;

    fn admin(listen: &str, scopes: &[Scope]) -> Admin {
        let token = |scope: &Scope| AdminToken {
            name: scope.as_str().into(),
            secret: Secret::new(scope.as_str()),
            scope: *scope,
        };
        Admin { listen: listen.parse().unwrap(), tokens: scopes.iter().map(token).collect() }
    }

    #[test]
    fn a_listener_is_asked_where_it_can_be_reached() {
        let at = |listen: &str| listening(listen.parse().unwrap()).map(String::from);
        assert_eq!(at("127.0.0.1:8081").unwrap(), "http://127.0.0.1:8081/");
        assert_eq!(at("0.0.0.0:8081").unwrap(), "http://127.0.0.1:8081/");
        assert_eq!(at("[::]:8081").unwrap(), "http://[::1]:8081/");
        assert!(at("127.0.0.1:0").unwrap_err().contains("--admin"));
    }

    #[test]
    fn the_least_token_that_will_do_is_taken() {
        let taken = |scopes: &[Scope], scope| {
            token_of(&admin("127.0.0.1:1", scopes), scope).map(|token| token.expose().to_owned())
        };
        let all = [Scope::Admin, Scope::Read, Scope::Push];
        assert_eq!(taken(&all, Scope::Read).as_deref(), Some("read"));
        assert_eq!(taken(&all, Scope::Push).as_deref(), Some("push"));
        assert_eq!((taken(&[Scope::Read], Scope::Push), taken(&[], Scope::Read)), (None, None));
    }
}
