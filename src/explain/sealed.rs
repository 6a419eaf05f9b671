//! An encrypted callback: its query, its envelope, its signature, its clock and what is inside.
//!
//! Token and key fail apart: the signature hangs on the token, the decryption on the key. So both are tried whatever the
//! other says, and where neither fits, the other apps' too.

use std::time::Duration;

use axum::http::Method;

use super::outside::{self, kind};
use super::rewritten::{self, Sealed};
use super::{Diagnosis, Fault, Scene, Steps};
use crate::config::MAX_AHEAD;
use crate::config::settings::{App, AppKind};
use crate::ingress::authentic::fresh;
use crate::ingress::query::Query;
use crate::wecom::crypto::{CallbackCrypto, CryptoError, Opened, ReceiveId};
use crate::wecom::envelope::{self, EnvelopeError};
use crate::wecom::payload::{self, Dialect, Fields};

/// Where token and key come from.
const SOURCE: &str = "from where the callback was set up in WeCom";

/// Walks through it; the payload, where it could be decrypted, whoever it was meant for.
pub(super) fn open(steps: &mut Steps, scene: &Scene<'_>, app: &App, crypto: &CallbackCrypto) -> Option<Vec<u8>> {
    let query = query(steps, scene);
    let ciphertext = match scene.method {
        Method::GET => echostr(steps, scene, query.as_ref()),
        _ => body(steps, scene, app),
    };
    match (&query, &ciphertext) {
        (Some(query), Some(ciphertext)) => {
            let sealed = Sealed::new(query, ciphertext.clone());
            timestamp(steps, &sealed);
            signature(steps, scene, app, crypto, &sealed);
            clock(steps, scene, &sealed);
        }
        (Some(_), None) => steps.skip("signature", "there is no ciphertext that it could be of"),
        (None, _) => steps.skip("signature", "the query is not whole"),
    }
    let Some(ciphertext) = ciphertext else {
        steps.skip("decryption", "there is no ciphertext");
        return None;
    };
    decryption(steps, scene, app, crypto, query.as_ref(), &ciphertext)
}

/// The app whose token fits, where this one's file is missing.
pub(super) fn fitting<'s>(scene: &Scene<'s>) -> Option<&'s App> {
    let query = Query::parse(scene.target.query).ok()?;
    let ciphertext = match scene.method {
        Method::GET => query.echostr.clone()?,
        _ => envelope::ciphertext(scene.body).ok()?,
    };
    let sealed = Sealed::new(&query, ciphertext);
    let apps = scene.settings.apps.values().map(|app| &**app);
    apps.into_iter().find(|app| outside::crypto(app).is_some_and(|crypto| sealed.fits(crypto)))
}

pub(super) fn query<'s>(steps: &mut Steps, scene: &Scene<'s>) -> Option<Query<'s>> {
    let raw = scene.target.query;
    match Query::parse(raw) {
        Ok(query) => {
            steps.holds("query", "msg_signature, timestamp and nonce are there");
            Some(query)
        }
        Err(_) if rewritten::is_encoded_whole(raw) => {
            let says = "its & and = are percent-encoded, so that it is one long name without a value: the query was encoded once more, as a whole";
            steps.fail("query", Diagnosis::new(Fault::EncodedTwice, says, rewritten::DECODED_ONCE));
            None
        }
        Err(refusal) => {
            let names: Vec<_> = url::form_urlencoded::parse(raw.as_bytes()).map(|(name, _)| name).collect();
            let (says, mend) = match names.iter().any(|name| name.starts_with("amp;")) {
                _ if raw.is_empty() => (
                    "the URL has no query".to_owned(),
                    "let the proxy pass the query on (nginx: proxy_pass without a URI, or $request_uri); quote --url in the shell",
                ),
                true => ("its & are written &amp;".to_owned(), "copy the URL from the access log, not from a page"),
                false => (
                    format!("{refusal}; it has {}", names.join(", ")),
                    "let the proxy pass the whole query on; quote --url in the shell, which ends it at & otherwise",
                ),
            };
            steps.fail("query", Diagnosis::new(Fault::MissingQuery, says, mend));
            None
        }
    }
}

/// What a URL verification brings; a blank in it was a `+`, which the gateway puts back.
fn echostr(steps: &mut Steps, scene: &Scene<'_>, query: Option<&Query<'_>>) -> Option<String> {
    let query = query?;
    let Some(echostr) = &query.echostr else {
        let says = "the query lacks `echostr`: WeCom's verification has one, and a message comes by POST";
        steps.fail("echostr", Diagnosis::new(Fault::MissingQuery, says, "give the body of a message with --body"));
        return None;
    };
    let mut pairs = url::form_urlencoded::parse(scene.target.query.as_bytes());
    let had_blanks = pairs.any(|(name, value)| name == "echostr" && value.contains(' '));
    match had_blanks {
        false => steps.holds("echostr", format!("{} characters of ciphertext", echostr.len())),
        true => steps.note(
            "echostr",
            "a + stands in it unencoded, which reads as a blank; the gateway puts it back (a proxy writes the query anew)",
        ),
    }
    Some(echostr.clone())
}

fn body(steps: &mut Steps, scene: &Scene<'_>, app: &App) -> Option<String> {
    let error = match envelope::ciphertext(scene.body) {
        Ok(ciphertext) => {
            let (dialect, is_aibot) = (payload::dialect(scene.body), matches!(app.kind, AppKind::Aibot(_)));
            let says = match dialect {
                Some(Dialect::Json) => "JSON with `encrypt`",
                Some(Dialect::Xml) | None => "XML with <Encrypt>",
            };
            match (dialect, is_aibot) {
                (Some(Dialect::Xml), true) => steps.note(
                    "envelope",
                    format!("{says}: it is read, but smart robots (kind \"aibot\") post JSON; this looks like an app or a group robot"),
                ),
                _ => steps.holds("envelope", format!("{says}, {} characters of ciphertext", ciphertext.len())),
            }
            return Some(ciphertext);
        }
        Err(error) => error,
    };
    let diagnosis = match error {
        EnvelopeError::Missing if payload::parse(scene.body, &Fields::default()).is_ok_and(|p| p.sender.is_some()) => {
            let says = format!(
                "the body is a message already, not encrypted; WeCom encrypts what it sends to kind {:?}",
                kind(app)
            );
            let mend = format!(
                "{}: write kind \"json\" and auth if this is a plain webhook; otherwise post what WeCom sent",
                scene.file(&app.id)
            );
            Diagnosis::new(Fault::WrongKind, says, mend)
        }
        EnvelopeError::Missing => {
            let says = format!("{error}; at its top there is: {}", listed(&payload::names(scene.body)));
            Diagnosis::new(
                Fault::NotEncrypted,
                says,
                "post what WeCom sent, byte by byte: nothing may unwrap or rename it",
            )
        }
        EnvelopeError::Unrecognised | EnvelopeError::Xml(_) | EnvelopeError::Json { .. } | EnvelopeError::Repeated => {
            rewritten::body(scene.body, &error)
        }
    };
    steps.fail("envelope", diagnosis);
    None
}

/// `a, b and 3 more`.
pub(super) fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let shown = names[..names.len().min(MOST)].join(", ");
    match names.len().checked_sub(MOST) {
        _ if names.is_empty() => "nothing".to_owned(),
        Some(more @ 1..) => format!("{shown} and {more} more"),
        Some(0) | None => shown,
    }
}

fn timestamp(steps: &mut Steps, sealed: &Sealed) {
    if sealed.timestamp.parse::<i64>().is_err() {
        let says = "the query's timestamp is not a number of seconds";
        let mend = "WeCom sends Unix seconds: something on the way wrote it anew";
        steps.fail("timestamp", Diagnosis::new(Fault::Rewritten, says, mend));
    }
}

fn signature(steps: &mut Steps, scene: &Scene<'_>, app: &App, crypto: &CallbackCrypto, sealed: &Sealed) {
    if sealed.fits(crypto) {
        return steps.holds(
            "signature",
            "msg_signature fits: the token is right, and query and ciphertext came as they were sent",
        );
    }
    let file = scene.file(&app.id);
    let fitting = |other: &&App| outside::crypto(other).is_some_and(|crypto| sealed.fits(crypto));
    let diagnosis = rewritten::undone(crypto, sealed).unwrap_or_else(|| {
        if let Some(other) = scene.others(&app.id).find(fitting) {
            let says = format!("msg_signature does not fit this app's token, but fits that of app {:?}", other.id);
            return Diagnosis::new(Fault::WrongApp, says, elsewhere(&other.id, &file));
        }
        match crypto.open(&sealed.ciphertext) {
            Ok(opened) if !is_readable(scene, &opened.message) => Diagnosis::new(
                Fault::Rewritten,
                "msg_signature does not fit, and what encoding_aes_key opens is no message: the ciphertext was changed on its way",
                "post query and body to the gateway as WeCom sent them, byte by byte",
            ),
            Ok(_) => Diagnosis::new(
                Fault::WrongToken,
                "msg_signature does not fit, while encoding_aes_key opens the ciphertext: token is wrong (or something changed the query's timestamp, nonce or msg_signature)",
                format!("{file}: copy token again {SOURCE}"),
            ),
            Err(CryptoError::Base64 | CryptoError::BlockLength { .. }) => Diagnosis::new(
                Fault::Rewritten,
                "msg_signature does not fit, and the ciphertext is not whole: it was cut or changed on its way",
                "post query and body to the gateway as WeCom sent them, byte by byte",
            ),
            Err(_) => Diagnosis::new(
                Fault::WrongToken,
                "msg_signature does not fit, nor does encoding_aes_key open the ciphertext: token and key are another callback's, or the ciphertext was changed on its way",
                format!("{file}: copy token and encoding_aes_key again {SOURCE}; see that WeCom posts this robot or app to /callback/{}; if others of its callbacks pass, see what changed this one's body", app.id),
            ),
        }
    });
    steps.fail("signature", diagnosis);
}

/// Whether it is what WeCom encrypts: a message, or the digits of a verification.
fn is_readable(scene: &Scene<'_>, plain: &[u8]) -> bool {
    match scene.method {
        Method::GET => plain.is_ascii(),
        _ => payload::parse(plain, &Fields::default()).is_ok(),
    }
}

/// Time zones are whole or half hours apart.
const HALF_HOUR: u64 = 1800;

fn clock(steps: &mut Steps, scene: &Scene<'_>, sealed: &Sealed) {
    let Ok(timestamp) = sealed.timestamp.parse::<i64>() else { return };
    let (max_skew, arrival) = (scene.settings.dedup.max_skew, scene.arrival);
    let (now, clock) = (arrival.at / 1000, arrival.clock);
    let off = timestamp.abs_diff(now);
    if fresh(timestamp, now, max_skew).is_ok() {
        let checked = if max_skew.is_some() { "" } else { "; dedup.max_skew is off" };
        return steps.holds("clock", format!("the timestamp is {} from the time of arrival{checked}", span(off)));
    }
    let is_zone = off > HALF_HOUR && (off + 60) % HALF_HOUR <= 120 && off < 15 * 3600;
    let zone = if is_zone { ", which is a time zone's worth: local time was set as UTC" } else { "" };
    let look = "compare `date -u` with `curl -sI https://qyapi.weixin.qq.com | grep -i ^date`, and let NTP set it";
    let (says, mend) = if timestamp > now.saturating_mul(100) {
        ("the timestamp is in milliseconds; WeCom's are in seconds".to_owned(), "correct what sends it".to_owned())
    } else if timestamp > now {
        let limit = span(MAX_AHEAD.as_secs());
        let says = format!(
            "the timestamp is {} ahead of {clock}, {limit} are taken; WeCom's clock is right, so this one is slow{zone}",
            span(off)
        );
        (says, look.to_owned())
    } else {
        let limit = span(max_skew.unwrap_or_default().as_secs());
        let says = format!(
            "the timestamp is {} behind {clock}, dedup.max_skew takes {limit}: the callback is that old, or this clock is fast{zone}",
            span(off)
        );
        let when = if arrival.is_now() { "say when it came with --received-at; if it came just now, " } else { "" };
        (says, format!("{when}{look}"))
    };
    steps.fail("clock", Diagnosis::new(Fault::Clock, says, mend));
}

/// `2h 5m 3s`
fn span(seconds: u64) -> String {
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest}s"),
        (0, _) => format!("{minutes}m {rest}s"),
        (1..=99, _) => format!("{hours}h {minutes}m"),
        _ => format!("{} days", Duration::from_secs(seconds).as_secs() / 86_400),
    }
}

fn decryption(
    steps: &mut Steps,
    scene: &Scene<'_>,
    app: &App,
    crypto: &CallbackCrypto,
    query: Option<&Query<'_>>,
    ciphertext: &str,
) -> Option<Vec<u8>> {
    match crypto.open(ciphertext) {
        Ok(Opened { message, receive_id }) => {
            steps.holds("base64", "the ciphertext is base64, in whole AES blocks");
            steps.holds("decryption", "encoding_aes_key opens it: padding and length fit");
            receiver(steps, scene, app, crypto, &receive_id);
            Some(message)
        }
        Err(error @ (CryptoError::Base64 | CryptoError::BlockLength { .. })) => {
            let mend = "post the ciphertext to the gateway as WeCom sent it: something cut or changed it";
            steps.fail("base64", Diagnosis::new(Fault::Rewritten, error.to_string(), mend));
            steps.skip("decryption", "there are no whole blocks");
            None
        }
        Err(error) => {
            steps.holds("base64", "the ciphertext is base64, in whole AES blocks");
            steps.fail("decryption", wrong_key(scene, app, query, ciphertext, &error));
            steps.skip("receive_id", "it is inside");
            None
        }
    }
}

/// Why the key does not open it: it is wrong, or the whole callback is another app's, token and key.
fn wrong_key(
    scene: &Scene<'_>,
    app: &App,
    query: Option<&Query<'_>>,
    ciphertext: &str,
    error: &CryptoError,
) -> Diagnosis {
    let file = scene.file(&app.id);
    let opens = |other: &&App| outside::crypto(other).is_some_and(|crypto| crypto.open(ciphertext).is_ok());
    let whose = scene.others(&app.id).find(opens);
    let sealed = query.map(|query| Sealed::new(query, ciphertext.to_owned()));
    let is_all_theirs = whose.and_then(outside::crypto).zip(sealed).is_some_and(|(crypto, sealed)| sealed.fits(crypto));
    let theirs = whose.map(|other| format!("; that of app {:?} does", other.id));
    let says = format!("encoding_aes_key does not open it ({error}){}", theirs.unwrap_or_default());
    match whose.filter(|_| is_all_theirs) {
        Some(other) => Diagnosis::new(Fault::WrongApp, says, elsewhere(&other.id, &file)),
        None => {
            let mend = "copy the 43 characters of encoding_aes_key again";
            let mend = format!("{file}: {mend} {SOURCE}; a newly made key holds once it is saved there");
            Diagnosis::new(Fault::WrongKey, says, mend)
        }
    }
}

/// The mend of a callback that is another app's.
fn elsewhere(other: &str, file: &str) -> String {
    format!("set the URL in WeCom to …/callback/{other}, or correct token and encoding_aes_key in {file}")
}

/// Whom it was meant for. Corp ids are no secrets.
fn receiver(steps: &mut Steps, scene: &Scene<'_>, app: &App, crypto: &CallbackCrypto, found: &[u8]) {
    let found_text = String::from_utf8_lossy(found);
    let expected = match crypto.receive_id() {
        ReceiveId::Any => {
            return steps.holds("receive_id", format!("{found_text:?}; receive_id = \"*\" takes any"));
        }
        ReceiveId::Exactly(expected) => expected,
    };
    if crypto.check_receive_id(found).is_ok() {
        let says =
            if found.is_empty() { "empty, as it must be".to_owned() } else { format!("{found_text:?}, as it must be") };
        return steps.holds("receive_id", says);
    }
    let file = scene.file(&app.id);
    let is_plain = found.iter().all(u8::is_ascii_graphic);
    let (why, mend) = match found {
        _ if !is_plain => (
            "; there are bytes behind the message that are no id",
            "nothing of WeCom's ends so: see what encrypts it".to_owned(),
        ),
        [] => (
            "; group robots, smart robots and some third-party apps have none",
            format!("{file}: write receive_id = \"\", if this is one of those"),
        ),
        _ if found_text.eq_ignore_ascii_case(expected.trim()) => {
            ("; ids are compared exactly", format!("{file}: write receive_id = {found_text:?}"))
        }
        _ => (
            "",
            format!(
                "{file}: write receive_id = {found_text:?}, if that is your corp's id (for a third-party app: the suite's id)"
            ),
        ),
    };
    let shown = if is_plain { format!("{found_text:?}") } else { format!("{} bytes", found.len()) };
    let says = format!("it was made for {shown}, and receive_id says {expected:?}{why}");
    steps.fail("receive_id", Diagnosis::new(Fault::ReceiveId, says, mend));
}
