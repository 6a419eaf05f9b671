//! Decides whether a callback is authentic and opens it: signature, freshness, decryption, receive id; or, for a
//! `json` app, its header. `at`, everywhere, is when it was received, Unix ms.

use std::borrow::Cow;
use std::time::Duration;

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::query::Query;
use super::refusal::Refusal;
use crate::config::MAX_AHEAD;
use crate::config::settings::{AppKind, JsonAuth};
use crate::wecom::crypto::CallbackCrypto;
use crate::wecom::envelope;

/// The plain `echostr`, to be answered as it is.
pub(super) fn url_verification(
    crypto: &CallbackCrypto,
    query: &Query<'_>,
    at: i64,
    max_skew: Option<Duration>,
) -> Result<Vec<u8>, Refusal> {
    let echostr = query.echostr.as_deref().ok_or(Refusal::MissingQuery("echostr"))?;
    open(crypto, query, echostr, at, max_skew)
}

/// The payload of a POST: decrypted, or for a `json` app the body itself.
pub(super) fn payload<'a>(
    kind: &AppKind,
    query: &str,
    headers: &HeaderMap,
    body: &'a [u8],
    at: i64,
    max_skew: Option<Duration>,
) -> Result<Cow<'a, [u8]>, Refusal> {
    match kind {
        AppKind::Json(auth) if authorised(auth, headers, body) => Ok(Cow::Borrowed(body)),
        AppKind::Json(_) => Err(Refusal::Auth),
        AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) => {
            let query = Query::parse(query)?;
            let ciphertext = envelope::ciphertext(body)?;
            Ok(Cow::Owned(open(crypto, &query, &ciphertext, at, max_skew)?))
        }
    }
}

fn open(
    crypto: &CallbackCrypto,
    query: &Query<'_>,
    ciphertext: &str,
    at: i64,
    max_skew: Option<Duration>,
) -> Result<Vec<u8>, Refusal> {
    let timestamp: i64 = query.timestamp.parse().map_err(|_| Refusal::BadTimestamp)?;
    if !crypto.verify(&query.msg_signature, &query.timestamp, &query.nonce, ciphertext) {
        return Err(Refusal::Signature);
    }
    fresh(timestamp, at / 1000, max_skew)?;
    Ok(crypto.decrypt(ciphertext)?)
}

/// Whether a callback of this time is young enough now; both in Unix seconds.
pub(crate) fn fresh(timestamp: i64, now: i64, max_skew: Option<Duration>) -> Result<(), Refusal> {
    let Some(max_skew) = max_skew else { return Ok(()) };
    let off = timestamp.abs_diff(now);
    let limit = if timestamp > now { MAX_AHEAD } else { max_skew };
    if off > limit.as_secs() { Err(Refusal::Skew(off)) } else { Ok(()) }
}

/// Whether a plain webhook may be believed.
pub(crate) fn authorised(auth: &JsonAuth, headers: &HeaderMap, body: &[u8]) -> bool {
    let given = |name: &str| headers.get(name).map(|v| v.as_bytes());
    match auth {
        JsonAuth::None => true,
        JsonAuth::Header { name, value } => {
            given(name).is_some_and(|given| bool::from(given.ct_eq(value.expose().as_bytes())))
        }
        JsonAuth::HmacSha256 { header, secret } => given(header).is_some_and(|given| {
            let hex_mac = given.strip_prefix(b"sha256=").unwrap_or(given);
            let Ok(mac) = hex::decode(hex_mac) else { return false };
            Hmac::<Sha256>::new_from_slice(secret.expose().as_bytes())
                .is_ok_and(|hmac| hmac.chain_update(body).verify_slice(&mac).is_ok())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;

    #[test]
    fn freshness_looks_both_ways() {
        let half_hour = Some(Duration::from_secs(1800));
        let ok = |timestamp| fresh(timestamp, 1_000_000, half_hour).is_ok();
        assert!(ok(1_000_000) && ok(1_000_000 - 1800) && ok(1_000_000 + 300));
        assert!(!ok(1_000_000 - 1801) && !ok(1_000_000 + 301) && !ok(-1) && !ok(i64::MAX) && !ok(i64::MIN));
        assert!(fresh(-1, 1_000_000, None).is_ok());
    }

    #[test]
    fn json_headers() {
        let headers = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(name.parse().expect("a name"), value.parse().expect("a value"))])
        };
        let header = JsonAuth::Header { name: "X-Webhook-Token".into(), value: Secret::new("tok") };
        assert!(authorised(&header, &headers("x-webhook-token", "tok"), b""));
        assert!(!authorised(&header, &headers("x-webhook-token", "toc"), b""));
        assert!(!authorised(&header, &HeaderMap::new(), b""));

        let hmac = JsonAuth::HmacSha256 { header: "X-Sig".into(), secret: Secret::new("key") };
        // RFC 2104 example values as published for HMAC-SHA256("key", "The quick brown fox…").
        let mac = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
        let body = b"The quick brown fox jumps over the lazy dog";
        assert!(authorised(&hmac, &headers("x-sig", mac), body));
        assert!(authorised(&hmac, &headers("x-sig", &format!("sha256={mac}")), body));
        assert!(!authorised(&hmac, &headers("x-sig", mac), b"another body"));
        assert!(!authorised(&hmac, &headers("x-sig", "zz"), body));
    }
}
