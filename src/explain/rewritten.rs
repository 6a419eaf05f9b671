//! The marks that proxies, frameworks and copying leave on a callback: what it was before fits, or its form tells.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{Diagnosis, Fault};
use crate::ingress::query::Query;
use crate::wecom::crypto::CallbackCrypto;
use crate::wecom::envelope::{EnvelopeError, XmlError};

/// Everything that a signature covers, and the signature.
#[derive(Clone)]
pub(super) struct Sealed {
    pub signature: String,
    pub timestamp: String,
    pub nonce: String,
    pub ciphertext: String,
}

impl Sealed {
    pub fn new(query: &Query<'_>, ciphertext: String) -> Self {
        let [signature, timestamp, nonce] =
            [&query.msg_signature, &query.timestamp, &query.nonce].map(|value| value.to_string());
        Self { signature, timestamp, nonce, ciphertext }
    }

    pub fn fits(&self, crypto: &CallbackCrypto) -> bool {
        crypto.verify(&self.signature, &self.timestamp, &self.nonce, &self.ciphertext)
    }

    fn with_query(&self, change: fn(&str) -> String) -> Self {
        let [signature, timestamp, nonce] = [&self.signature, &self.timestamp, &self.nonce].map(|value| change(value));
        Self { signature, timestamp, nonce, ciphertext: self.ciphertext.clone() }
    }

    fn with_ciphertext(&self, change: fn(&str) -> String) -> Self {
        Self { ciphertext: change(&self.ciphertext), ..self.clone() }
    }
}

const UNTOUCHED: &str =
    "let the proxy pass query and body on as they are: no parsing, no re-encoding, no re-serialising";
pub(super) const DECODED_ONCE: &str = "let each hop percent-encode and percent-decode nothing (the gateway does it once); give --url as the access log has it";

/// A change that undoes one of theirs.
struct Undo {
    change: fn(&str) -> String,
    fault: Fault,
    was: &'static str,
    mend: &'static str,
}

const fn undo(change: fn(&str) -> String, fault: Fault, was: &'static str, mend: &'static str) -> Undo {
    Undo { change, fault, was, mend }
}

const IN_QUERY: [Undo; 2] = [
    undo(decode, Fault::EncodedTwice, "is percent-encoded still after it was decoded once", DECODED_ONCE),
    undo(trim, Fault::Rewritten, "has blanks or quotes around its values", UNTOUCHED),
];

const IN_CIPHERTEXT: [Undo; 6] = [
    undo(decode, Fault::EncodedTwice, "is percent-encoded still after it was decoded once", DECODED_ONCE),
    undo(
        |text| text.replace(' ', "+"),
        Fault::PlusBecameBlank,
        "has blanks where base64 has +, so something read it as a form and wrote it anew",
        UNTOUCHED,
    ),
    undo(
        |text| text.split_ascii_whitespace().collect(),
        Fault::Rewritten,
        "was broken into lines, or blanks were put into it",
        UNTOUCHED,
    ),
    undo(
        |text| text.replace('-', "+").replace('_', "/"),
        Fault::Rewritten,
        "is written in base64's other alphabet, with - and _",
        UNTOUCHED,
    ),
    undo(
        |text| text.replace('\\', ""),
        Fault::Rewritten,
        "holds backslashes, so it was quoted as JSON once too often",
        UNTOUCHED,
    ),
    undo(
        |text| format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4)),
        Fault::Rewritten,
        "lost the = at its end",
        UNTOUCHED,
    ),
];

/// Percent-decodes; what is no UTF-8 then stays as it is.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8().map_or_else(|_| text.to_owned(), Into::into)
}

/// Whether a query that says nothing says all once it is decoded: it was encoded as a whole.
pub(super) fn is_encoded_whole(raw: &str) -> bool {
    Query::parse(raw).is_err() && Query::parse(&decode(raw)).is_ok()
}

/// As it was before it was encoded as a whole.
pub(super) fn decoded_whole(raw: &str) -> Cow<'_, str> {
    if is_encoded_whole(raw) { decode(raw).into() } else { raw.into() }
}

fn trim(text: &str) -> String {
    text.trim_matches(|c: char| c.is_whitespace() || c == '"' || c == '\'').to_owned()
}

/// What was done to a callback whose signature does not fit as it stands, where undoing it makes it fit.
pub(super) fn undone(crypto: &CallbackCrypto, sealed: &Sealed) -> Option<Diagnosis> {
    let told = |what: &str, undo: &Undo| {
        let says =
            format!("msg_signature does not fit as it stands, but does once this is undone: {what} {}", undo.was);
        Diagnosis::new(undo.fault, says, undo.mend)
    };
    if let Some(undo) = IN_QUERY.iter().find(|undo| sealed.with_query(undo.change).fits(crypto)) {
        return Some(told("the query", undo));
    }
    let fits_without = |undo: &&Undo| {
        let sealed = sealed.with_ciphertext(undo.change);
        sealed.fits(crypto) || sealed.with_query(decode).fits(crypto)
    };
    IN_CIPHERTEXT.iter().find(fits_without).map(|undo| told("the ciphertext", undo))
}

const BODY: &str = "post the body to the gateway as WeCom sent it, byte by byte";

/// Why a body can't be read, by its form.
pub(super) fn body(body: &[u8], error: &EnvelopeError) -> Diagnosis {
    let rewritten = |says: &str| Diagnosis::new(Fault::Rewritten, says, BODY);
    let start = String::from_utf8_lossy(&body[..body.len().min(64)]).trim_start().to_ascii_lowercase();
    match error {
        _ if body.trim_ascii().is_empty() => {
            let mend = "let the proxy pass the body on; see that --body names the right file";
            Diagnosis::new(Fault::Truncated, "the body is empty", mend)
        }
        _ if body.starts_with(&[0x1f, 0x8b]) => rewritten("the body is compressed (gzip), which WeCom does not do"),
        _ if body.contains(&0) => rewritten("the body was turned into another charset (UTF-16): WeCom sends UTF-8"),
        _ if std::str::from_utf8(body).is_err() => {
            rewritten("the body is no UTF-8: it was turned into another charset")
        }
        _ if start.starts_with("<!doctype html") || start.starts_with("<html") => {
            rewritten("the body is a web page, not a callback: some proxy's own answer")
        }
        _ if start.starts_with("%3c") || start.starts_with("%7b") => {
            rewritten("the body is percent-encoded, like a form")
        }
        _ if start.contains("=%3c") || start.contains("=<") || start.contains("=%7b") => {
            rewritten("the body is a form's field: something parsed it and wrote it anew")
        }
        _ if start.starts_with('"') => rewritten("the body is one JSON string: it was serialised once too often"),
        EnvelopeError::Xml(XmlError::Truncated) => truncated("the XML ends early"),
        EnvelopeError::Xml(_) if !body.trim_ascii_end().ends_with(b">") => truncated("the XML ends early"),
        EnvelopeError::Json { .. } if !body.trim_ascii_end().ends_with(b"}") => truncated("the JSON ends early"),
        EnvelopeError::Xml(error) => rewritten(&format!("{error}: no WeCom callback is written like that")),
        EnvelopeError::Repeated | EnvelopeError::Json { .. } => rewritten(&error.to_string()),
        EnvelopeError::Unrecognised | EnvelopeError::Missing => {
            Diagnosis::new(Fault::Unreadable, error.to_string(), BODY)
        }
    }
}

fn truncated(says: &str) -> Diagnosis {
    let mend = "find the hop that cuts it (a limit on bodies, a short Content-Length); see that --body holds all of it";
    Diagnosis::new(Fault::Truncated, format!("{says}: the body was cut on its way"), mend)
}
