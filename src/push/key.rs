//! The id of a task that brings none, which its producer can compute too, and the digest of what a task says.
//!
//! Both are hex SHA-256 of canonical JSON: UTF-8, keys sorted by their bytes, no blanks, nothing escaped but what JSON asks
//! for (`"`, `\` and control characters: `\b \f \n \r \t`, the others as `\u001f`), numbers as integers where they are. Python writes it by
//! `json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)`.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The derived id: of the object of these five, as the task has them. A `type` that is not there counts as `""`.
pub(super) fn derived_id(app: &str, kind: &str, target: &Value, created_at: &str, message: &Value) -> String {
    digest(json!({"app": app, "type": kind, "target": target, "created_at": created_at, "message": message}))
}

/// The digest by which a task is told from another one under the same id: of the object of these three.
pub(super) fn content_digest(app: &str, target: &Value, message: &Value) -> String {
    digest(json!({"app": app, "target": target, "message": message}))
}

fn digest(value: Value) -> String {
    hex::encode(Sha256::digest(canonical(value).to_string()))
}

/// The same value, with the keys of all its objects in order.
fn canonical(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.into_iter().map(|(name, value)| (name, canonical(value))).collect();
            entries.sort_by(|(a, _), (b, _)| a.cmp(b));
            Value::Object(Map::from_iter(entries))
        }
        Value::Array(list) => list.into_iter().map(canonical).collect(),
        plain => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_what_a_producer_computes() {
        // python3 -c 'import hashlib, json; print(hashlib.sha256(json.dumps({"app": "shop", "type": "notice", "target":
        // {"chat": "wrVip"}, "created_at": "2026-11-29T08:00:00Z", "message": {"msgtype": "text", "text": {"content":
        // "发货了\n\"1001\" \x7f\x1f", "mentioned_list": []}, "n": [1, -2, True, None]}}, sort_keys=True, separators=(",", ":"),
        // ensure_ascii=False).encode()).hexdigest())'
        let message = json!({
            "n": [1, -2, true, null],
            "text": {"mentioned_list": [], "content": "发货了\n\"1001\" \u{7f}\u{1f}"},
            "msgtype": "text",
        });
        let id = derived_id("shop", "notice", &json!({"chat": "wrVip"}), "2026-11-29T08:00:00Z", &message);
        assert_eq!(id, "bbd214324f6ca82d7935ae06a6f5ae305ef8552b1a839d6c1e2c1decced5aa69");
    }

    #[test]
    fn each_part_counts_and_the_order_of_keys_does_not() {
        let target = json!({"chat": "c"});
        let id = |app, kind, at| derived_id(app, kind, &target, at, &json!({"a": 1, "b": {"c": 2, "d": 3}}));
        let one = id("a", "t", "x");
        assert_eq!(one, derived_id("a", "t", &target, "x", &json!({"b": {"d": 3, "c": 2}, "a": 1})));
        for other in [id("b", "t", "x"), id("a", "u", "x"), id("a", "t", "y")] {
            assert_ne!(one, other);
        }
        assert_ne!(one, derived_id("a", "t", &json!({"chat": "d"}), "x", &json!({"a": 1, "b": {"c": 2, "d": 3}})));
        assert_ne!(content_digest("a", &target, &json!(1)), content_digest("a", &target, &json!(2)));
    }
}
