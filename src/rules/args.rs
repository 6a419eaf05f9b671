//! Arguments: a command's words to typed values.
//!
//! Words are data and nothing else: they are cut at blanks, checked against the configured kind and handed on as JSON.
//! Numbers, phones, dates and choices are read in folded form, so `１００１` is 1001; strings are kept as they stand.

use serde_json::{Map, Number, Value};

use super::fold::{blank, fold, fold_char, invisible};
use crate::config::settings::{Arg, ArgKind};

/// Digits of a Chinese mobile number.
const PHONE_DIGITS: usize = 11;

/// Why words are not the arguments of a command.
#[derive(Debug)]
pub(super) enum Fault<'a> {
    /// A required one is missing.
    Missing(&'a Arg),
    /// One is not what it must be.
    Wrong {
        /// Which.
        arg: &'a Arg,
        /// What was there instead.
        given: &'a str,
    },
    /// One is a number, but beyond what its kind can hold.
    Beyond {
        /// Which.
        arg: &'a Arg,
        /// What was there instead.
        given: &'a str,
        /// Too small, not too large.
        is_below: bool,
    },
    /// Words are left over.
    TooMany,
}

/// Reads `text` as the arguments of a command, in order. One that is optional and not there is null.
pub(super) fn read<'a>(args: &'a [Arg], text: &'a str) -> Result<Map<String, Value>, Fault<'a>> {
    let mut values = Map::new();
    let mut rest = text.trim_matches(blank);
    for arg in args {
        let value = if !rest.is_empty() {
            let (given, behind) = take(&arg.kind, rest);
            rest = behind.trim_start_matches(blank);
            value(&arg.kind, given).ok_or_else(|| fault(arg, given))?
        } else if arg.required {
            return Err(Fault::Missing(arg));
        } else {
            Value::Null
        };
        values.insert(arg.name.clone(), value);
    }
    if rest.is_empty() { Ok(values) } else { Err(Fault::TooMany) }
}

/// Takes as much off the text as an argument of this kind covers.
fn take<'t>(kind: &ArgKind, text: &'t str) -> (&'t str, &'t str) {
    match kind {
        ArgKind::Rest => (text, ""),
        ArgKind::String | ArgKind::Choice(_) => quoted(text).unwrap_or_else(|| word(text)),
        ArgKind::Phone => spaced_phone(text).unwrap_or_else(|| word(text)),
        ArgKind::Integer | ArgKind::Number | ArgKind::Date => word(text),
    }
}

/// Everything up to the next blank.
fn word(text: &str) -> (&str, &str) {
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// What stands between quotes, where the closing one ends a word. Input methods mix up `“` and `”`, so any quote closes.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = |c: char| matches!(c, '"' | '＂' | '“' | '”');
    let inner = text.strip_prefix(quote)?;
    let (close, mark) = inner.match_indices(quote).find(|(at, mark)| {
        let next = inner[at + mark.len()..].chars().next();
        next.is_none_or(char::is_whitespace)
    })?;
    (close > 0).then(|| (&inner[..close], &inner[close + mark.len()..]))
}

/// A phone number that was written in groups: `+86 138 0013 8000`.
fn spaced_phone(text: &str) -> Option<(&str, &str)> {
    let span = text.find(|c| !(invisible(c) || phone_char(fold_char(c)))).unwrap_or(text.len());
    let ends = text[..span].match_indices(char::is_whitespace).map(|(at, _)| at).chain([span]);
    // Groups of a number are few; anything longer is no phone.
    ends.take(PHONE_DIGITS)
        .map(|end| text.split_at(end))
        .find(|(given, behind)| behind.chars().next().is_none_or(char::is_whitespace) && phone(&fold(given)).is_some())
}

fn value(kind: &ArgKind, given: &str) -> Option<Value> {
    let folded = fold(given);
    match kind {
        ArgKind::String | ArgKind::Rest => Some(given.into()),
        ArgKind::Integer => folded.parse::<i64>().ok().map(Value::from),
        ArgKind::Number => number(&folded).map(Value::Number),
        ArgKind::Phone => phone(&folded).map(Value::from),
        ArgKind::Date => date(&folded).map(|date| date.to_string().into()),
        ArgKind::Choice(choices) => choices.iter().find(|choice| fold(choice) == folded).cloned().map(Value::from),
    }
}

/// Why `given` has no value of the argument's kind.
fn fault<'a>(arg: &'a Arg, given: &'a str) -> Fault<'a> {
    let folded = fold(given);
    let is_number = match arg.kind {
        ArgKind::Integer => is_whole(&folded),
        ArgKind::Number => is_decimal(&folded) && folded.parse().is_ok_and(f64::is_infinite),
        ArgKind::String | ArgKind::Phone | ArgKind::Date | ArgKind::Choice(_) | ArgKind::Rest => false,
    };
    if is_number {
        Fault::Beyond { arg, given, is_below: folded.starts_with('-') }
    } else {
        Fault::Wrong { arg, given }
    }
}

/// Whether it is an integer, of whatever size.
fn is_whole(folded: &str) -> bool {
    let digits = folded.strip_prefix(['+', '-']).unwrap_or(folded);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

fn is_decimal(folded: &str) -> bool {
    folded.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))
}

/// A decimal number: no `inf`, `nan` or exponent. A whole one stays whole.
fn number(folded: &str) -> Option<Number> {
    if !is_decimal(folded) {
        return None;
    }
    folded.parse::<i64>().ok().map(Number::from).or_else(|| Number::from_f64(folded.parse().ok()?))
}

fn phone_char(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '+' | '-' | ' ')
}

/// The eleven digits of a mobile number, without country code and separators.
fn phone(folded: &str) -> Option<String> {
    let plain: String = folded.chars().filter(|c| !matches!(c, ' ' | '-')).collect();
    let digits = plain.strip_prefix("+86").or_else(|| plain.strip_prefix("86")).unwrap_or(&plain);
    let mobile = digits.len() == PHONE_DIGITS
        && digits.chars().all(|c| c.is_ascii_digit())
        && digits.starts_with('1')
        && matches!(digits.as_bytes().get(1), Some(b'3'..=b'9'));
    mobile.then(|| digits.to_owned())
}

/// `2026-1-31`, `2026/01/31`, `2026.1.31`, `2026年1月31日` (or 号), where the calendar has such a day.
fn date(folded: &str) -> Option<jiff::civil::Date> {
    let forms = [("-", "-", ""), ("/", "/", ""), (".", ".", ""), ("年", "月", "日"), ("年", "月", "号")];
    forms.iter().find_map(|(behind_year, behind_month, behind_day)| {
        let (year, rest) = folded.split_once(behind_year)?;
        let (month, rest) = rest.split_once(behind_month)?;
        let day = rest.strip_suffix(behind_day)?;
        jiff::civil::Date::new(
            digits(year, 4..=4)?,
            i8::try_from(digits(month, 1..=2)?).ok()?,
            i8::try_from(digits(day, 1..=2)?).ok()?,
        )
        .ok()
    })
}

/// A number written with ASCII digits alone, as many as allowed.
fn digits(text: &str, allowed: std::ops::RangeInclusive<usize>) -> Option<i16> {
    let plain = allowed.contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arg(kind: ArgKind, required: bool) -> Arg {
        Arg { name: "x".into(), label: "值".into(), kind, required }
    }

    #[test]
    fn values_by_kind() {
        let choice = || ArgKind::Choice(vec!["北京".into(), "Shang Hai".into()]);
        for (kind, text, want) in [
            (ArgKind::String, "a;rm -rf", None), // two words
            (ArgKind::String, "$(x)", Some(json!("$(x)"))),
            (ArgKind::String, "ＡＢ", Some(json!("ＡＢ"))),
            (ArgKind::String, "\"a b\"", Some(json!("a b"))),
            (ArgKind::String, "“a b”", Some(json!("a b"))),
            (ArgKind::String, "”a b“", Some(json!("a b"))),
            (ArgKind::String, "\"a\"b c\"", Some(json!("a\"b c"))),
            (ArgKind::String, "\"a", Some(json!("\"a"))),
            (ArgKind::String, "\"\"", Some(json!("\"\""))),
            (ArgKind::Integer, "1001", Some(json!(1001))),
            (ArgKind::Integer, "１００１", Some(json!(1001))),
            (ArgKind::Integer, "-7", Some(json!(-7))),
            (ArgKind::Integer, "1\u{200B}2", Some(json!(12))),
            (ArgKind::Integer, "9223372036854775807", Some(json!(i64::MAX))),
            (ArgKind::Integer, "9223372036854775808", None),
            (ArgKind::Integer, "1.0", None),
            (ArgKind::Integer, "abc", None),
            (ArgKind::Integer, "1e3", None),
            (ArgKind::Number, "9.90", Some(json!(9.9))),
            (ArgKind::Number, "12", Some(json!(12))),
            (ArgKind::Number, "－１．５", Some(json!(-1.5))),
            (ArgKind::Number, "inf", None),
            (ArgKind::Number, "NaN", None),
            (ArgKind::Number, "1e400", None),
            (ArgKind::Number, "1.2.3", None),
            (ArgKind::Phone, "13800138000", Some(json!("13800138000"))),
            (ArgKind::Phone, "+8613800138000", Some(json!("13800138000"))),
            (ArgKind::Phone, "86-138-0013-8000", Some(json!("13800138000"))),
            (ArgKind::Phone, "+86 138 0013 8000", Some(json!("13800138000"))),
            (ArgKind::Phone, "１３８００１３８０００", Some(json!("13800138000"))),
            (ArgKind::Phone, "12800138000", None),
            (ArgKind::Phone, "1380013800", None),
            (ArgKind::Phone, "138001380001", None),
            (ArgKind::Phone, "电话13800138000", None),
            (ArgKind::Date, "2026-01-31", Some(json!("2026-01-31"))),
            (ArgKind::Date, "2026/1/31", Some(json!("2026-01-31"))),
            (ArgKind::Date, "2026.1.31", Some(json!("2026-01-31"))),
            (ArgKind::Date, "2024年2月29日", Some(json!("2024-02-29"))),
            (ArgKind::Date, "２０２４年２月２９号", Some(json!("2024-02-29"))),
            (ArgKind::Date, "2026-02-29", None),
            (ArgKind::Date, "2026-13-01", None),
            (ArgKind::Date, "26-1-31", None),
            (ArgKind::Date, "2026-1-+3", None),
            (ArgKind::Date, "今天", None),
            (choice(), "北京", Some(json!("北京"))),
            (choice(), "\"ｓｈａｎｇ hai\"", Some(json!("Shang Hai"))),
            (choice(), "深圳", None),
            (ArgKind::Rest, "  a   b\n c  ", Some(json!("a   b\n c"))),
            (ArgKind::Rest, "\"a b\"", Some(json!("\"a b\""))),
        ] {
            let args = [arg(kind.clone(), true)];
            let got = read(&args, text).ok().map(|values| values["x"].clone());
            assert_eq!(got, want, "{kind:?} {text:?}");
        }
    }

    #[test]
    fn missing_wrong_and_left_over() {
        let args = [arg(ArgKind::Integer, true), Arg { name: "y".into(), ..arg(ArgKind::String, false) }];
        assert!(matches!(read(&args, " \u{200B} "), Err(Fault::Missing(arg)) if arg.name == "x"));
        assert!(matches!(read(&args, "abc d"), Err(Fault::Wrong { arg, given: "abc" }) if arg.name == "x"));
        assert!(matches!(read(&args, "1 a b"), Err(Fault::TooMany)));
        let endless = "9".repeat(400);
        for (kind, text, below) in [
            (ArgKind::Integer, "9223372036854775808", false),
            (ArgKind::Integer, "+９２２３３７２０３６８５４７７５８０８", false),
            (ArgKind::Integer, "-9223372036854775809", true),
            (ArgKind::Number, &endless, false),
            (ArgKind::Number, &format!("-{endless}.5"), true),
        ] {
            let args = [arg(kind, true)];
            let fault = read(&args, text).expect_err(text);
            assert!(
                matches!(fault, Fault::Beyond { given, is_below, .. } if (given, is_below) == (text, below)),
                "{text}"
            );
        }
        for (kind, text) in [(ArgKind::Integer, "1e400"), (ArgKind::Number, "1e400"), (ArgKind::Number, "inf")] {
            let args = [arg(kind, true)];
            assert!(matches!(read(&args, text), Err(Fault::Wrong { given, .. }) if given == text), "{text}");
        }
        assert_eq!(Value::Object(read(&args, "1").expect("optional")), json!({"x": 1, "y": null}));
        assert_eq!(Value::Object(read(&args, "1\u{2005}a\u{3000}").expect("both")), json!({"x": 1, "y": "a"}));
    }

    #[test]
    fn a_phone_in_groups_leaves_what_follows() {
        let args = [arg(ArgKind::Phone, true), Arg { name: "y".into(), ..arg(ArgKind::Integer, true) }];
        for text in ["13800138000 5", "138 0013 8000 5", "+86 13800138000 5"] {
            assert_eq!(Value::Object(read(&args, text).expect(text)), json!({"x": "13800138000", "y": 5}), "{text}");
        }
        assert!(matches!(read(&args, "138 x"), Err(Fault::Wrong { given: "138", .. })));
    }
}
