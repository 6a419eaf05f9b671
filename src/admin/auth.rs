//! Who may ask: the bearer of a token or, where none is configured, a client on this machine.
//!
//! Each scope includes those before it: `metrics` sees figures alone, `read` looks, `push` sends, `admin` changes. Whoever is turned away is
//! counted, and told in the log once in a while ([`Refusals`]). Tokens are compared as digests, in
//! constant time, all of them each time: an answer tells nothing of how near a guess came. What being on this machine takes:
//! [`is_local`].

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tracing::warn;

use super::local::is_local;
use super::{AdminState, Failure};
use crate::config::settings::{AdminToken, Scope};
use crate::store::Who;

/// Why somebody was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// No token is configured, and the client is not on this machine.
    Remote,
    /// No token is configured, and the client asks for a host that need not be this machine.
    ForeignHost,
    /// No token is configured, and a web page from elsewhere makes the client's browser ask.
    ForeignOrigin,
    /// No token was sent.
    Token,
    /// One was sent that is none of ours.
    UnknownToken,
    /// The token may less than this needs.
    Scope(Scope),
}

/// Who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operator {
    /// The token's name; `loopback` where none is configured.
    pub name: String,
    /// What it may do.
    pub scope: Scope,
}

impl Operator {
    /// As the trail of changes names them.
    pub fn who(&self) -> Who<'_> {
        Who::operator(&self.name)
    }
}

/// Lets those in who have a scope, and tells handlers who it is.
pub(super) async fn require(
    State((state, scope)): State<(AdminState, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let who = match admit(&state.settings().admin.tokens, &request) {
        Ok(who) => who,
        Err(denied) => return turn_away(&state, denied, &request, None),
    };
    if who.scope < scope {
        return turn_away(&state, Denied::Scope(scope), &request, Some(&who.name));
    }
    request.extensions_mut().insert(who);
    next.run(request).await
}

/// Who asks.
pub(super) fn admit(tokens: &[AdminToken], request: &Request) -> Result<Operator, Denied> {
    if tokens.is_empty() {
        return is_local(request).map(|()| Operator { name: "loopback".to_owned(), scope: Scope::Admin });
    }
    let sent = bearer(request.headers()).ok_or(Denied::Token)?;
    let sent = Sha256::digest(sent);
    let is_sent = |token: &&AdminToken| Sha256::digest(token.secret.expose())[..].ct_eq(&sent[..]).into();
    let most = tokens.iter().filter(is_sent).max_by_key(|token| token.scope).ok_or(Denied::UnknownToken)?;
    Ok(Operator { name: most.name.clone(), scope: most.scope })
}

/// Answers who is not let in, counts it, and tells of it now and then; `by` is whose token it was, where it is one of ours.
pub(super) fn turn_away(state: &AdminState, denied: Denied, request: &Request, by: Option<&str>) -> Response {
    let code = denied.code();
    state.metrics.api_refused(code);
    // Without any token asks whoever opens the console, before the login.
    if denied != Denied::Token
        && let Some(held_back) = state.refusals.tells(code, Instant::now())
    {
        let peer: Option<IpAddr> =
            request.extensions().get().map(|ConnectInfo(peer): &ConnectInfo<SocketAddr>| peer.ip());
        warn!(code, ?peer, by, held_back, "a request to the API was refused");
    }
    denied.into_response()
}

/// What of refused requests is told: of each code the first at once, and then one in five minutes, with how many there were between.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<&'static str, (Instant, u64)>>);

/// How long a code is only counted once it was told.
const WINDOW: Duration = Duration::from_secs(300);

impl Refusals {
    /// Whether this one is told, and with how many that were not.
    fn tells(&self, code: &'static str, now: Instant) -> Option<u64> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match told.get_mut(code) {
            Some((at, held_back)) if now.saturating_duration_since(*at) < WINDOW => {
                *held_back += 1;
                None
            }
            other => {
                let held_back = other.map_or(0, |(_, held_back)| *held_back);
                told.insert(code, (now, 0));
                Some(held_back)
            }
        }
    }
}

/// Lets a scraper in: on this machine it needs no token, even where some are configured.
pub(super) fn admit_scraper(tokens: &[AdminToken], request: &Request) -> Result<(), Denied> {
    is_local(request).or_else(|_| admit(tokens, request).map(drop))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

impl Denied {
    /// Its word in answers, metrics and logs.
    fn code(self) -> &'static str {
        match self {
            Self::Remote => "loopback_only",
            Self::ForeignHost => "foreign_host",
            Self::ForeignOrigin => "foreign_origin",
            Self::Token => "token_required",
            Self::UnknownToken => "token_unknown",
            Self::Scope(_) => "scope_too_small",
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let code = self.code();
        let failure = match self {
            Self::Remote => Failure::new(
                StatusCode::FORBIDDEN,
                code,
                "no [admin] tokens are configured, so only this machine may ask; configure one",
            ),
            Self::ForeignHost => Failure::new(
                StatusCode::FORBIDDEN,
                code,
                "no [admin] tokens are configured, so only this machine may ask, by localhost or a loopback address; \
                 ask by one of them, or configure a token",
            ),
            Self::ForeignOrigin => Failure::new(
                StatusCode::FORBIDDEN,
                code,
                "no [admin] tokens are configured, so no web page but the console may ask; configure one",
            ),
            Self::Token => Failure::new(
                StatusCode::UNAUTHORIZED,
                code,
                "send `Authorization: Bearer <token>` with a token of [admin] tokens",
            ),
            Self::UnknownToken => Failure::new(
                StatusCode::UNAUTHORIZED,
                code,
                "this token is none of [admin] tokens: look for a typing error, or for a reload that is due",
            ),
            Self::Scope(scope) => {
                Failure::new(StatusCode::FORBIDDEN, code, format!("this needs a token of scope {}", scope.as_str()))
            }
        };
        ([(header::WWW_AUTHENTICATE, r#"Bearer realm="wecom-gateway""#)], failure).into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use axum::body::Body;
    use axum::extract::ConnectInfo;

    use super::*;
    use crate::model::Secret;

    fn tokens(secrets: &[(&str, Scope)]) -> Vec<AdminToken> {
        let token = |(secret, scope): &(&str, Scope)| AdminToken {
            name: "ops".into(),
            secret: Secret::new(*secret),
            scope: *scope,
        };
        secrets.iter().map(token).collect()
    }

    /// From this machine.
    fn request(headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::empty()).expect("a request");
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 4711))));
        request
    }

    #[test]
    fn without_tokens_being_here_is_enough_and_a_token_is_no_excuse() {
        let held = |host| admit(&[], &request(&[("host", host), ("authorization", "Bearer x")])).map(|who| who.scope);
        assert_eq!(held("localhost:8081"), Ok(Scope::Admin));
        // A page behind a name that leads here could send one.
        assert_eq!(held("evil.example.com"), Err(Denied::ForeignHost));
    }

    #[test]
    fn a_scraper_needs_to_be_here_or_to_have_a_token() {
        let tokens = tokens(&[("one", Scope::Metrics)]);
        let (here, elsewhere, token) = (("host", "127.0.0.1"), ("host", "gw:8081"), ("authorization", "Bearer one"));
        assert_eq!(admit_scraper(&tokens, &request(&[here])), Ok(()));
        assert_eq!(admit_scraper(&tokens, &request(&[elsewhere, token])), Ok(()));
        assert_eq!(admit_scraper(&tokens, &request(&[elsewhere])), Err(Denied::Token));
        assert_eq!(admit_scraper(&[], &request(&[elsewhere, token])), Err(Denied::ForeignHost));
    }

    #[test]
    fn of_what_is_refused_one_in_a_window_is_told_with_the_count_of_the_others() {
        let (refusals, now) = (Refusals::default(), Instant::now());
        let tells = |code, after| refusals.tells(code, now + after);
        assert_eq!(tells("token_unknown", Duration::ZERO), Some(0));
        assert_eq!(tells("token_unknown", WINDOW / 2), None);
        assert_eq!(tells("scope_too_small", WINDOW / 2), Some(0), "each code by itself");
        assert_eq!(tells("token_unknown", WINDOW - Duration::from_millis(1)), None);
        assert_eq!(tells("token_unknown", WINDOW), Some(2));
        assert_eq!(tells("token_unknown", WINDOW * 2), Some(0));
    }

    #[test]
    fn with_tokens_everybody_needs_one() {
        let tokens = tokens(&[("one", Scope::Read), ("two", Scope::Push)]);
        let held = |headers: &[_]| admit(&tokens, &request(headers)).map(|who| who.scope);
        for (sent, expected) in [
            ("Bearer one", Ok(Scope::Read)),
            ("bearer  two", Ok(Scope::Push)),
            ("Bearer three", Err(Denied::UnknownToken)),
            ("Bearer on", Err(Denied::UnknownToken)),
            ("Bearer", Err(Denied::Token)),
            ("Bearer ", Err(Denied::Token)),
            ("Basic one", Err(Denied::Token)),
            ("one", Err(Denied::Token)),
        ] {
            // By whatever name, from whatever page: no browser sends a token by itself.
            let sent = [("authorization", sent), ("host", "gw.example.com"), ("origin", "http://example.com")];
            assert_eq!(held(&sent), expected, "{sent:?}");
        }
        assert_eq!(held(&[("host", "localhost")]), Err(Denied::Token));
    }
}
