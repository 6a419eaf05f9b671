//! Who may ask: the bearer of a token or, where none is configured, a client on this machine.
//!
//! Each scope includes those before it: `read` looks, `push` sends, `admin` changes. Tokens are compared as digests, in
//! constant time, all of them each time: an answer tells nothing of how near a guess came. What being on this machine takes:
//! [`is_local`].

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

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
    let operator = admit(&state.settings().admin.tokens, &request);
    match operator.and_then(|who| if who.scope >= scope { Ok(who) } else { Err(Denied::Scope(scope)) }) {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(denied) => denied.into_response(),
    }
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

/// Lets a scraper in: on this machine it needs no token, even where some are configured.
pub(super) fn admit_scraper(tokens: &[AdminToken], request: &Request) -> Result<(), Denied> {
    is_local(request).or_else(|_| admit(tokens, request).map(drop))
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let failure = match self {
            Self::Remote => Failure::new(
                StatusCode::FORBIDDEN,
                "loopback_only",
                "no [admin] tokens are configured, so only this machine may ask; configure one",
            ),
            Self::ForeignHost => Failure::new(
                StatusCode::FORBIDDEN,
                "foreign_host",
                "no [admin] tokens are configured, so only this machine may ask, by localhost or a loopback address; \
                 ask by one of them, or configure a token",
            ),
            Self::ForeignOrigin => Failure::new(
                StatusCode::FORBIDDEN,
                "foreign_origin",
                "no [admin] tokens are configured, so no web page but the console may ask; configure one",
            ),
            Self::Token => Failure::new(
                StatusCode::UNAUTHORIZED,
                "token_required",
                "send `Authorization: Bearer <token>` with a token of [admin] tokens",
            ),
            Self::UnknownToken => Failure::new(
                StatusCode::UNAUTHORIZED,
                "token_unknown",
                "this token is none of [admin] tokens: look for a typing error, or for a reload that is due",
            ),
            Self::Scope(scope) => Failure::new(
                StatusCode::FORBIDDEN,
                "scope_too_small",
                format!("this needs a token of scope {}", scope.as_str()),
            ),
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
        let tokens = tokens(&[("one", Scope::Read)]);
        let (here, elsewhere, token) = (("host", "127.0.0.1"), ("host", "gw:8081"), ("authorization", "Bearer one"));
        assert_eq!(admit_scraper(&tokens, &request(&[here])), Ok(()));
        assert_eq!(admit_scraper(&tokens, &request(&[elsewhere, token])), Ok(()));
        assert_eq!(admit_scraper(&tokens, &request(&[elsewhere])), Err(Denied::Token));
        assert_eq!(admit_scraper(&[], &request(&[elsewhere, token])), Err(Denied::ForeignHost));
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
