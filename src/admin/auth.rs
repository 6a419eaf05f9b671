//! Who may ask: the bearer of a token or, where none is configured, a client on this machine.
//!
//! Each scope includes those before it: `read` looks, `push` sends, `admin` changes. Tokens are compared as digests, in
//! constant time, all of them each time: an answer tells nothing of how near a guess came.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{AdminState, Failure};
use crate::config::settings::{AdminToken, Scope};

/// Why somebody was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// No token is configured, and the client is not on this machine.
    Remote,
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

/// Lets those in who have a scope, and tells handlers who it is.
pub(super) async fn require(
    State((state, scope)): State<(AdminState, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    let operator = admit(&state.settings().admin.tokens, request.headers(), peer(request.extensions()));
    match operator.and_then(|who| if who.scope >= scope { Ok(who) } else { Err(Denied::Scope(scope)) }) {
        Ok(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        Err(denied) => denied.into_response(),
    }
}

/// Who a client with these headers and from this address is.
pub(super) fn admit(tokens: &[AdminToken], headers: &HeaderMap, peer: Option<IpAddr>) -> Result<Operator, Denied> {
    if tokens.is_empty() {
        let local = Operator { name: "loopback".to_owned(), scope: Scope::Admin };
        return if is_loopback(peer) { Ok(local) } else { Err(Denied::Remote) };
    }
    let sent = bearer(headers).ok_or(Denied::Token)?;
    let sent = Sha256::digest(sent);
    let is_sent = |token: &&AdminToken| Sha256::digest(token.secret.expose())[..].ct_eq(&sent[..]).into();
    let most = tokens.iter().filter(is_sent).max_by_key(|token| token.scope).ok_or(Denied::UnknownToken)?;
    Ok(Operator { name: most.name.clone(), scope: most.scope })
}

/// Where a request came from, as far as that is known.
pub(super) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

/// Whether it came from this machine (`::ffff:127.0.0.1` is how a dual-stack listener sees 127.0.0.1).
pub(super) fn is_loopback(peer: Option<IpAddr>) -> bool {
    peer.is_some_and(|address| address.to_canonical().is_loopback())
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

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, authorization.parse().expect("a header"));
        headers
    }

    #[test]
    fn without_tokens_only_this_machine_may_ask() {
        for (peer, expected) in [
            (Some("127.0.0.1"), Ok(Scope::Admin)),
            (Some("127.8.9.1"), Ok(Scope::Admin)),
            (Some("::1"), Ok(Scope::Admin)),
            (Some("::ffff:127.0.0.1"), Ok(Scope::Admin)),
            (Some("10.0.0.1"), Err(Denied::Remote)),
            (Some("::ffff:10.0.0.1"), Err(Denied::Remote)),
            (None, Err(Denied::Remote)),
        ] {
            let address = peer.map(|text| text.parse().expect("an address"));
            let held = admit(&[], &headers("Bearer x"), address).map(|who| who.scope);
            assert_eq!(held, expected, "{peer:?}");
        }
    }

    #[test]
    fn with_tokens_everybody_needs_one() {
        let tokens = tokens(&[("one", Scope::Read), ("two", Scope::Push)]);
        let here = Some(IpAddr::from([127, 0, 0, 1]));
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
            assert_eq!(admit(&tokens, &headers(sent), here).map(|who| who.scope), expected, "{sent}");
        }
        assert_eq!(admit(&tokens, &HeaderMap::new(), here), Err(Denied::Token));
    }
}
