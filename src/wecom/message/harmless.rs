//! Text from members inside our own messages: it may say anything and call nobody.
//!
//! A reply that quotes a member would otherwise lend them the robot's voice: `<@all>` in an order number would wake
//! a whole group.

use std::borrow::Cow;

/// ZERO WIDTH SPACE: breaks a mention and shows nothing.
const BREAK: char = '\u{200b}';

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
            out.push(BREAK);
            copied = at + 1;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(&text[copied..]);
    Cow::Owned(out)
}

/// Makes member text harmless for markdown and markdown_v2: what would be markup is replaced by its full-width twin
/// (`＊`, `＿`, `［`, …), mentions as in [`defuse`]. Backslashes would be cleaner, but WeCom documents no escape
/// character and clients of its family are known to show them.
pub fn escape_markdown(text: &str) -> String {
    // Every printable ASCII character has its twin at this distance.
    let full_width = |c: char| char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c);
    let is_markup = |c: char| matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~');
    defuse(text).chars().map(|c| if is_markup(c) { full_width(c) } else { c }).collect()
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

    #[test]
    fn markup_is_shown_and_does_nothing() {
        let hostile = "**b** _i_ `c` [l](http://x) <font color=\"info\"> # > | ~~s~~ \\* <@all> @all";
        let shown = escape_markdown(hostile);
        assert!(!shown.contains(['*', '_', '`', '[', ']', '<', '>', '#', '|', '~', '\\']), "{shown}");
        assert!(!shown.contains("@all"), "{shown}");
        assert_eq!(escape_markdown("订单 1001-A (ok) & 50%\n下一行"), "订单 1001-A (ok) & 50%\n下一行");
        assert_eq!(escape_markdown("a_b*"), "a＿b＊");
    }
}
