//! How much log lines tell of what members and bots say (`[log] content`). Pure. Phone numbers are masked in any case, also under
//! a digest: who has a number could find it by its digest otherwise. Digests are salted for each process: a short text could be found by
//! trying texts otherwise, and two installations would be seen to say the same.

use std::sync::LazyLock;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::mask;
use crate::model::{Delivery, content_digest};

/// A longer content is cut, in characters.
const MOST: usize = 1_000;

/// What log lines tell of contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogContent {
    /// Nothing.
    None,
    /// A digest, so that equal contents are seen to be equal in the lines of one process.
    #[default]
    Digest,
    /// The content, its phone numbers masked.
    Full,
}

impl LogContent {
    /// What is told of a text.
    pub fn of_text(self, text: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::Digest => Some(salted(&content_digest(&mask::phones_in(text).into()))),
            Self::Full => Some(cut(mask::phones_in(text).into_owned())),
        }
    }

    /// What is told of a message as it is sent, WeCom's own JSON.
    pub fn of_body(self, body: &Value) -> Option<String> {
        match self {
            Self::None => None,
            Self::Digest => Some(salted(&content_digest(body))),
            Self::Full => Some(cut(mask::phones_in(&body.to_string()).into_owned())),
        }
    }

    /// What is told of replies: `[{id, digest}]` with the digests salted, without them, or with the contents in their place.
    pub fn of_replies(self, summary: &Value, deliveries: &[Delivery]) -> Value {
        let replies = || summary.as_array().into_iter().flatten();
        let ids = || replies().map(|reply| &reply["id"]);
        match self {
            Self::None => ids().map(|id| json!({"id": id})).collect(),
            Self::Digest => replies()
                .map(|reply| json!({"id": reply["id"], "digest": reply["digest"].as_str().map(salted)}))
                .collect(),
            Self::Full => {
                let content = |id: &Value| deliveries.iter().find(|delivery| *id == delivery.id.as_str());
                ids()
                    .map(|id| json!({"id": id, "content": content(id).and_then(|it| self.of_body(&it.message))}))
                    .collect()
            }
        }
    }
}

/// Of no use outside this process's lines.
fn salted(digest: &str) -> String {
    static SALT: LazyLock<[u8; 32]> = LazyLock::new(rand::random);
    let mut salted = hex::encode(Sha256::new().chain_update(*SALT).chain_update(digest).finalize());
    salted.truncate(16);
    salted
}

fn cut(text: String) -> String {
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wecom::message;

    #[test]
    fn contents_are_told_as_asked_and_never_with_a_phone_number() {
        let words = "我的手机号是13800138000";
        let body = message::text(words);
        for how in [LogContent::None, LogContent::Digest, LogContent::Full] {
            let told = format!("{:?} {:?}", how.of_text(words), how.of_body(&body));
            assert!(!told.contains("13800138000"), "{told}");
            assert_eq!(told.contains("手机号是138****8000"), how == LogContent::Full, "{told}");
        }
        assert_eq!((LogContent::None.of_text(words), LogContent::None.of_body(&body)), (None, None));
        let digest = |text: &str| LogContent::Digest.of_text(text).unwrap();
        assert!(digest("a") == digest("a") && digest("a") != digest("b") && digest(words).len() == 16);
        assert_eq!(digest("13800138000"), digest("13899998000"), "no number can be found by trying them all");
        assert_ne!(digest("a"), content_digest(&json!("a")), "nor a short text by its digest alone");
        let long = LogContent::Full.of_text(&"长".repeat(MOST + 1)).unwrap();
        assert_eq!(long, format!("{}… (1001 characters)", "长".repeat(MOST)));
    }

    #[test]
    fn replies_are_told_by_id_in_any_case() {
        let summary = json!([{"id": "r.0", "digest": "d0"}]);
        let told = |how: LogContent| how.of_replies(&summary, &[]).to_string();
        assert_eq!(told(LogContent::None), r#"[{"id":"r.0"}]"#);
        assert_eq!(told(LogContent::Digest), format!(r#"[{{"id":"r.0","digest":"{}"}}]"#, salted("d0")));
        // One without a route is in no lane.
        assert_eq!(told(LogContent::Full), r#"[{"id":"r.0","content":null}]"#);
    }
}
