//! The outer body of an encrypted callback, around the ciphertext that the signature covers.
//!
//! Self-built apps and group robots post `<xml>…<Encrypt/>…</xml>`, smart robots `{"encrypt":"…"}`; which one is
//! seen from the first byte, not from a header. This is read before the signature can be checked, so it takes
//! nothing but what it needs: `<Encrypt>` directly below the root, or a text `encrypt` (or `Encrypt`) at the top.

use std::borrow::Cow;

use serde::Deserialize;

pub use super::xml::XmlError;
use super::xml::{Document, Node};

/// Why an outer body can't be read. None of them shows any of it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// Neither `<` nor `{` at its beginning, or not UTF-8.
    #[error("the body is neither XML nor JSON")]
    Unrecognised,
    /// XML that can't be read.
    #[error(transparent)]
    Xml(#[from] XmlError),
    /// JSON that can't be read, or whose `encrypt` is given twice or is no text.
    #[error("the body is no JSON object with one text `encrypt` (line {line}, column {column})")]
    Json {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// Two `<Encrypt>` elements: one of them is not what was signed.
    #[error("the body has more than one <Encrypt>")]
    Repeated,
    /// Readable, but without ciphertext: a callback that was not encrypted.
    #[error("the body has no <Encrypt> or `encrypt`: it was not encrypted")]
    Missing,
}

/// The ciphertext inside an XML (`<Encrypt>`) or JSON (`encrypt`, `Encrypt`) body, ASCII blanks around it trimmed.
///
/// # Errors
/// [`EnvelopeError::Missing`] when there is none, another variant when the body can't be read.
pub fn ciphertext(body: &[u8]) -> Result<String, EnvelopeError> {
    let text = readable(body).ok_or(EnvelopeError::Unrecognised)?;
    let encrypt = match text.as_bytes().first() {
        Some(b'<') => from_xml(text)?,
        Some(b'{') => from_json(text)?,
        _ => return Err(EnvelopeError::Unrecognised),
    };
    match encrypt.trim_ascii() {
        "" => Err(EnvelopeError::Missing),
        trimmed if trimmed.len() == encrypt.len() => Ok(encrypt.into_owned()),
        trimmed => Ok(trimmed.to_owned()),
    }
}

/// UTF-8 text without a byte order mark and blanks in front.
pub(super) fn readable(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    Some(text.strip_prefix('\u{feff}').unwrap_or(text).trim_ascii_start())
}

fn from_xml(text: &str) -> Result<Cow<'_, str>, EnvelopeError> {
    let mut document = Document::new(text)?;
    let mut found: Option<Cow<'_, str>> = None;
    let (mut depth, mut in_root, mut inside) = (0, false, false);
    while let Some(node) = document.next()? {
        match node {
            Node::Open(start) => {
                depth += 1;
                in_root |= depth == 1 && start.name().0 == "xml";
                inside = in_root && depth == 2 && start.name().0 == "Encrypt";
                if inside && found.replace(Cow::Borrowed("")).is_some() {
                    return Err(EnvelopeError::Repeated);
                }
            }
            Node::Text(text) if inside => found = found.map(|before| before + text),
            Node::Text(_) => {}
            Node::Close => {
                depth -= 1;
                inside = false;
            }
        }
    }
    found.ok_or(EnvelopeError::Missing)
}

/// Everything else in the object is passed over.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default, alias = "Encrypt")]
    encrypt: Cow<'a, str>,
}

fn from_json(text: &str) -> Result<Cow<'_, str>, EnvelopeError> {
    serde_json::from_str(text)
        .map(|body: Body<'_>| body.encrypt)
        .map_err(|error| EnvelopeError::Json { line: error.line(), column: error.column() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ciphertext_is_found_in_every_dialect() {
        let rows = [
            "<xml><ToUserName><![CDATA[ww1]]></ToUserName><Encrypt><![CDATA[ab+/==]]></Encrypt></xml>",
            "<xml><Encrypt><![CDATA[ab+/==]]></Encrypt><AgentID>1</AgentID></xml>",
            "<xml><Encrypt>ab+/==</Encrypt></xml>",
            "<xml>\n  <Encrypt>\n ab+/== \n</Encrypt>\r\n</xml>",
            "<xml><Encrypt><![CDATA[\nab+/==\n]]></Encrypt></xml>",
            "<xml><Encrypt>a<![CDATA[b+]]>&#47;<!-- -->==</Encrypt></xml>",
            "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<xml><Encrypt>ab+/==</Encrypt></xml>\n\n",
            "<xml><Other><Encrypt>no</Encrypt></Other><Encrypt>ab+/==</Encrypt></xml>",
            "{\"encrypt\":\"ab+/==\"}",
            "\n {\"tousername\":\"ww1\",\"Encrypt\":\"ab+\\/==\",\"agentid\":218}",
            "\u{feff}{\"encrypt\":\" ab+/==\\n\",\"more\":[{\"encrypt\":1}]}",
        ];
        for body in rows {
            assert_eq!(ciphertext(body.as_bytes()).as_deref(), Ok("ab+/=="), "{body}");
        }
    }

    #[test]
    fn blanks_inside_stay_to_be_refused_later() {
        assert_eq!(ciphertext(b"<xml><Encrypt>ab cd</Encrypt></xml>").as_deref(), Ok("ab cd"));
    }

    #[test]
    fn only_the_direct_child_counts() {
        for body in [
            "<xml><Msg><Encrypt>ab</Encrypt></Msg></xml>",
            "<root><Encrypt>ab</Encrypt></root>",
            "<Encrypt>ab</Encrypt>",
            "<xml><encrypt>ab</encrypt></xml>",
            "<xml><Encrypt></Encrypt></xml>",
            "<xml><Encrypt><a>ab</a></Encrypt></xml>",
            "<xml><MsgType>text</MsgType></xml>",
            "{}",
            "{\"encrypt\":\" \"}",
            "{\"data\":{\"encrypt\":\"ab\"}}",
        ] {
            assert_eq!(ciphertext(body.as_bytes()), Err(EnvelopeError::Missing), "{body}");
        }
    }

    #[test]
    fn what_cannot_be_read_says_so() {
        for body in [&b""[..], b"  ", b"encrypt=ab", b"[1]", b"\"x\"", b"<xml>\xff</xml>", b"\xff\xfe<\0x\0"] {
            assert_eq!(ciphertext(body), Err(EnvelopeError::Unrecognised), "{body:?}");
        }
        for body in ["<xml><Encrypt>ab", "<xml>"] {
            assert_eq!(ciphertext(body.as_bytes()), Err(EnvelopeError::Xml(XmlError::Truncated)), "{body}");
        }
        for body in
            ["<!DOCTYPE x [<!ENTITY a \"b\">]><xml><Encrypt>&a;</Encrypt></xml>", "<xml><Encrypt>&a;</Encrypt></xml>"]
        {
            assert!(matches!(ciphertext(body.as_bytes()), Err(EnvelopeError::Xml(_))), "{body}");
        }
        let twice = "<xml><Encrypt>ab</Encrypt><Encrypt>cd</Encrypt></xml>";
        assert_eq!(ciphertext(twice.as_bytes()), Err(EnvelopeError::Repeated));
        for body in [
            "{",
            "{\"encrypt\":1}",
            "{\"encrypt\":null}",
            "{\"encrypt\":\"a\"} x",
            "{\"encrypt\":\"a\",\"Encrypt\":\"b\"}",
        ] {
            assert!(matches!(ciphertext(body.as_bytes()), Err(EnvelopeError::Json { line: 1, .. })), "{body}");
        }
    }

    #[test]
    fn errors_show_nothing_of_the_body() {
        for body in ["{\"encrypt\":12345}", "<xml><Encrypt>12345&secret;</Encrypt></xml>", "<xml><Secret12345"] {
            let shown = ciphertext(body.as_bytes()).unwrap_err().to_string();
            assert!(!shown.contains("12345") && !shown.contains("ecret"), "{shown}");
        }
    }
}
