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

/// A text as markdown that shows it, for where nothing but markdown is taken: what would be a link, a tag, code or emphasis, a heading or a
/// quote is shown by its full-width twin (`［`, `＜`, `＊`, …). Backslashes would be cleaner, but WeCom documents no escape character and
/// clients of its family are known to show them. What is markup in its place alone stays elsewhere (`order_1`, `#1001`), and a web address
/// can still be copied. Mentions (`<@id>`) stay: those in members' words were [defused](defuse) before.
pub fn escape_markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Where the address, or the mention, ends that is being written.
    let (mut address, mut mention, mut begins_line) = (0, 0, true);
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        if at >= address {
            address = at + address_in_front(rest);
        }
        if at >= mention {
            mention = at + mention_in_front(rest);
        }
        let is_markup = match c {
            _ if at < mention => false,
            '\\' | '`' | '[' | ']' | '<' | '>' => true,
            '*' | '~' => at >= address,
            '_' => at >= address && !is_within_word(&text[..at], &rest[1..]),
            '#' => begins_line,
            _ => false,
        };
        begins_line = c == '\n' || begins_line && matches!(c, ' ' | '#');
        out.push(if is_markup { full_width(c) } else { c });
    }
    out
}

/// Every printable ASCII character has its twin at this distance.
fn full_width(c: char) -> char {
    char::from_u32(u32::from(c) + 0xfee0).unwrap_or(c)
}

/// The length of the web address that a text begins with.
fn address_in_front(text: &str) -> usize {
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return 0;
    }
    let ends = |c: char| !c.is_ascii_graphic() || matches!(c, '\\' | '`' | '[' | ']' | '<' | '>' | '"');
    text.find(ends).unwrap_or(text.len())
}

/// The length of the mention that a text begins with.
fn mention_in_front(text: &str) -> usize {
    let Some(rest) = text.strip_prefix("<@") else { return 0 };
    let end = rest.find(|c: char| !c.is_ascii_graphic() || matches!(c, '<' | '>')).unwrap_or(0);
    if end > 0 && rest[end..].starts_with('>') { "<@>".len() + end } else { 0 }
}

/// Whether what stands between these is no border of a word.
fn is_within_word(before: &str, behind: &str) -> bool {
    let borders = [before.chars().next_back(), behind.chars().next()];
    borders.into_iter().all(|c| c.is_some_and(|c| c.is_ascii_alphanumeric()))
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
        let hostile = "**b** _i_ `c` [l](http://x) <font color=\"info\"> ~~s~~ \\* <@all [x](y)>";
        let shown = escape_markdown(hostile);
        assert!(!shown.contains(['*', '_', '`', '[', ']', '<', '>', '~', '\\']), "{shown}");
        assert_eq!(escape_markdown("订单 1001-A (ok) & 50%\n下一行"), "订单 1001-A (ok) & 50%\n下一行");
        assert_eq!(escape_markdown("<@zhangsan> hi"), "<@zhangsan> hi");
        assert_eq!(escape_markdown("a_b* _"), "a_b＊ ＿");
    }
}
