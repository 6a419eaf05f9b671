//! The query of a callback: `msg_signature`, `timestamp`, `nonce` and, for the URL verification, `echostr`.

use std::borrow::Cow;

use super::refusal::Refusal;

/// What a callback's query says, percent-decoded.
#[derive(Debug, PartialEq)]
pub(crate) struct Query<'a> {
    pub(crate) msg_signature: Cow<'a, str>,
    pub(crate) timestamp: Cow<'a, str>,
    pub(crate) nonce: Cow<'a, str>,
    /// Base64: a `+` that was turned into a blank on the way is put back.
    pub(crate) echostr: Option<String>,
}

impl<'a> Query<'a> {
    /// Reads a raw query. Naming differs between WeCom's products, so three spellings of the signature are taken;
    /// foreign parameters are passed over.
    pub(crate) fn parse(raw: &'a str) -> Result<Self, Refusal> {
        let (mut msg_signature, mut timestamp, mut nonce, mut echostr) = (None, None, None, None);
        for (name, value) in url::form_urlencoded::parse(raw.as_bytes()) {
            match name.as_ref() {
                "msg_signature" | "msgsignature" | "signature" => msg_signature.get_or_insert(value),
                "timestamp" => timestamp.get_or_insert(value),
                "nonce" => nonce.get_or_insert(value),
                "echostr" => echostr.get_or_insert(value),
                _ => continue,
            };
        }
        Ok(Self {
            msg_signature: msg_signature.ok_or(Refusal::MissingQuery("msg_signature"))?,
            timestamp: timestamp.ok_or(Refusal::MissingQuery("timestamp"))?,
            nonce: nonce.ok_or(Refusal::MissingQuery("nonce"))?,
            echostr: echostr.map(|e| e.replace(' ', "+")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_and_a_plus_that_became_a_blank() {
        for name in ["msg_signature", "msgsignature", "signature"] {
            for echo in ["a%2Bb%2Fc%3D%3D", "a+b/c==", "a%20b/c=="] {
                let raw = format!("x=1&{name}=AB&timestamp=12&nonce=n&echostr={echo}");
                let query = Query::parse(&raw).expect("a query");
                assert_eq!((query.msg_signature.as_ref(), query.echostr.as_deref()), ("AB", Some("a+b/c==")));
            }
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        let missing = |raw| Query::parse(raw).expect_err("refused").to_string();
        assert!(missing("timestamp=1&nonce=2").contains("msg_signature"));
        assert!(missing("msg_signature=1&nonce=2").contains("timestamp"));
        assert!(missing("msg_signature=1&timestamp=2").contains("nonce"));
    }
}
