//! Text from members inside our own messages: it may say anything and call nobody.
//!
//! A reply that quotes a member would otherwise lend them the robot's voice: `<@all>` in an order number would wake
//! a whole group.

use std::borrow::Cow;

/// ZERO WIDTH SPACE: breaks a mention and shows nothing.
const BREAK: &str = "\u{200b}";

/// Makes member text harmless for `msgtype` text: `<@id>`, `<@all>` and `@all` (any case) no longer mention anybody,
/// because a zero width space follows their `@`. Doing it twice changes nothing more.
pub fn defuse(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices('@') {
        let (before, after) = (&text[..at], &text[at + 1..]);
        let calls_all = after.get(..3).is_some_and(|word| word.eq_ignore_ascii_case("all"));
        if (before.ends_with('<') || calls_all) && !after.starts_with(BREAK) {
            out.push_str(&text[copied..=at]);
            out.push_str(BREAK);
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// What has to stand behind a text, so that nothing that follows makes a mention of its end (`<`, `@`, `@al`); empty for most.
pub fn severed(text: &str) -> &'static str {
    let joins = |end: &&str| {
        let at = text.len().checked_sub(end.len());
        at.and_then(|at| text.get(at..)).is_some_and(|own| own.eq_ignore_ascii_case(end))
    };
    if ["<", "@", "@a", "@al"].iter().any(joins) { BREAK } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_called() {
        let rows = [
            ("<@all>", "<@\u{200b}all>"),
            ("x <@zhangsan> y <@lisi>", "x <@\u{200b}zhangsan> y <@\u{200b}lisi>"),
            ("@all", "@\u{200b}all"),
            ("hi @ALL!", "hi @\u{200b}ALL!"),
            ("<@<@all>", "<@\u{200b}<@\u{200b}all>"),
            ("<@", "<@\u{200b}"),
            ("a@b.cn @zhangsan @al 订单", "a@b.cn @zhangsan @al 订单"),
            ("@a你", "@a你"),
            ("", ""),
        ];
        for (text, expected) in rows {
            assert_eq!(defuse(text), expected);
            assert_eq!(defuse(expected), expected, "twice");
        }
        assert!(matches!(defuse("plain"), Cow::Borrowed(_)));
    }
}
