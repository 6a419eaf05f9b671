//! Who may ask: the bearer of a token or, where none is configured, a client on this machine.
//!
//! Every scope may look, and all that is here is looking, so any token will do. Tokens are compared as digests, in
//! constant time, all of them each time: an answer tells nothing of how near a guess came.

use std::net::{IpAddr, SocketAddr};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use super::{AdminState, Failure};
use crate::config::settings::AdminToken;

/// Why somebody was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// No token is configured, and the client is not on this machine.
    Remote,
    /// No token was sent, or none of ours.
    Token,
}

/// Lets those in who may look.
pub(super) async fn require(State(state): State<AdminState>, request: Request, next: Next) -> Response {
    match admit(&state.settings.admin.tokens, request.headers(), peer(request.extensions())) {
        Ok(()) => next.run(request).await,
        Err(denied) => denied.into_response(),
    }
}

/// Whether a client with these headers and from this address may look.
pub(super) fn admit(tokens: &[AdminToken], headers: &HeaderMap, peer: Option<IpAddr>) -> Result<(), Denied> {
    if tokens.is_empty() {
        return if is_loopback(peer) { Ok(()) } else { Err(Denied::Remote) };
    }
    let sent = bearer(headers).ok_or(Denied::Token)?;
    let sent = Sha256::digest(sent);
    let known = tokens
        .iter()
        .fold(Choice::from(0), |known, token| known | Sha256::digest(token.secret.expose())[..].ct_eq(&sent[..]));
    if known.into() { Ok(()) } else { Err(Denied::Token) }
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
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
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
        };
        ([(header::WWW_AUTHENTICATE, r#"Bearer realm="wecom-gateway""#)], failure).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::settings::Scope;
    use crate::model::Secret;

    fn tokens(secrets: &[&str]) -> Vec<AdminToken> {
        let token = |secret: &&str| AdminToken { name: "ops".into(), secret: Secret::new(*secret), scope: Scope::Read };
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
            (Some("127.0.0.1"), Ok(())),
            (Some("127.8.9.1"), Ok(())),
            (Some("::1"), Ok(())),
            (Some("::ffff:127.0.0.1"), Ok(())),
            (Some("10.0.0.1"), Err(Denied::Remote)),
            (Some("::ffff:10.0.0.1"), Err(Denied::Remote)),
            (None, Err(Denied::Remote)),
        ] {
            let address = peer.map(|text| text.parse().expect("an address"));
            assert_eq!(admit(&[], &headers("Bearer x"), address), expected, "{peer:?}");
        }
    }

    #[test]
    fn with_tokens_everybody_needs_one() {
        let tokens = tokens(&["one", "two"]);
        let here = Some(IpAddr::from([127, 0, 0, 1]));
        for (sent, expected) in [
            ("Bearer one", Ok(())),
            ("bearer  two", Ok(())),
            ("Bearer three", Err(Denied::Token)),
            ("Bearer on", Err(Denied::Token)),
            ("Bearer", Err(Denied::Token)),
            ("Basic one", Err(Denied::Token)),
            ("one", Err(Denied::Token)),
        ] {
            assert_eq!(admit(&tokens, &headers(sent), here), expected, "{sent}");
        }
        assert_eq!(admit(&tokens, &HeaderMap::new(), here), Err(Denied::Token));
    }
}
