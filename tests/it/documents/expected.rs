//! What a page says that comes back, held against what did: `…` stands for anything.

use serde_json::Value;

/// Whether `got` is what is `shown`; else where not. In a text `…` stands for any characters, `"…"` alone for any value, and as
/// the name of a field for further ones.
pub fn differs(shown: &Value, got: &Value) -> Option<String> {
    let here = || Some(format!("{got} is no {shown}"));
    match (shown, got) {
        (Value::String(text), _) if text == "…" => None,
        (Value::String(text), Value::String(got)) if text.contains('…') => match text.split_once('…') {
            Some((begins, ends)) if got.starts_with(begins) && got.ends_with(ends) => None,
            _ => here(),
        },
        (Value::Object(shown), Value::Object(fields)) => {
            let has_more = shown.contains_key("…");
            if let Some(name) = fields.keys().find(|name| !has_more && !shown.contains_key(*name)) {
                return Some(format!("{name} is not shown: {got}"));
            }
            shown.iter().filter(|(name, _)| *name != "…").find_map(|(name, shown)| match fields.get(name) {
                Some(got) => differs(shown, got).map(|why| format!("{name}: {why}")),
                None => Some(format!("no {name} in {got}")),
            })
        }
        (Value::Array(shown), Value::Array(items)) if shown.len() == items.len() => {
            shown.iter().zip(items).find_map(|(shown, got)| differs(shown, got))
        }
        _ if shown == got => None,
        _ => here(),
    }
}

#[test]
fn dots_stand_for_anything_and_nothing_else_does() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let rows = [
        (r#"{"a": 1}"#, r#"{"a": 1}"#, true),
        (r#"{"a": 1}"#, r#"{"a": 2}"#, false),
        (r#"{"a": 1}"#, r#"{"a": 1, "b": 2}"#, false),
        (r#"{"a": 1, "…": "…"}"#, r#"{"a": 1, "b": 2}"#, true),
        (r#"{"a": 1}"#, "{}", false),
        (r#""t….0""#, r#""t17.0""#, true),
        (r#""t….0""#, r#""t17.1""#, false),
        (r#"["…"]"#, "[[1]]", true),
        ("[1]", "[1, 2]", false),
    ];
    for (shown, got, same) in rows {
        assert_eq!(differs(&value(shown), &value(got)).is_none(), same, "{shown} and {got}");
    }
}
