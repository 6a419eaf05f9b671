//! Where cuts fall, and what no cut may do.

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::*;

fn plain(content: &str, limit: usize) -> Vec<String> {
    split(content, limit, Markup::None)
}

fn markdown(content: &str, limit: usize) -> Vec<String> {
    split(content, limit, Markup::Markdown)
}

#[test]
fn what_fits_stays_as_it_is() {
    for content in ["a", " a \n", &"x".repeat(64), "```\nopen"] {
        assert_eq!(plain(content, 64), [content]);
        assert_eq!(markdown(content, 64), [content]);
    }
}

#[test]
fn cuts_fall_where_a_reader_would_cut() {
    let rows: [(&str, usize, &[&str]); 14] = [
        ("one two.\n\nthree\nfour. five", 20, &["one two.", "three\nfour. five"]),
        ("one two. more\nthree four", 20, &["one two. more", "three four"]),
        ("one two. three four five", 20, &["one two.", "three four five"]),
        ("version 3.5 is out there", 20, &["version 3.5 is out", "there"]),
        ("one two three four five", 20, &["one two three four", "five"]),
        ("你好。我是机器人，请说", 24, &["你好。", "我是机器人，请说"]),
        ("他说：“你好。”然后走了。", 24, &["他说：“你好。”", "然后走了。"]),
        ("真的吗？！是的；对", 18, &["真的吗？！", "是的；对"]),
        ("abcdefghijklmnopqrstuvwxyz", 20, &["abcdefghijklmnopqrst", "uvwxyz"]),
        // An early break only when there is no later one: the long word stays whole.
        ("a abcdefghijklmnopqrst", 20, &["a", "abcdefghijklmnopqrst"]),
        ("a b abcdefghij klmnopqrst", 20, &["a b abcdefghij", "klmnopqrst"]),
        // Blanks at a cut go, a line's indentation stays.
        ("one two three:\n\n   \n    indented", 20, &["one two three:", "    indented"]),
        ("exactly twenty chars\n\n", 20, &["exactly twenty chars"]),
        ("\r\none two three\r\nfour five", 20, &["\r\none two three", "four five"]),
    ];
    for (content, limit, parts) in rows {
        assert_eq!(plain(content, limit), parts, "{content:?}");
    }
}

#[test]
fn graphemes_stay_whole() {
    let family = "👨‍👩‍👧‍👦"; // 25 bytes
    assert_eq!(plain(&family.repeat(3), 60), [family.repeat(2), family.to_owned()]);
    assert_eq!(plain("e\u{301}e\u{301}e\u{301}", 5), ["e\u{301}"; 3]);
    assert_eq!(plain("🇨🇳🇺🇸", 12), ["🇨🇳", "🇺🇸"]);
    // A mark on the full stop, or on the blank, keeps the cut away from it.
    assert_eq!(plain("你好。\u{301}我是机器人", 20), ["你好。\u{301}我是机", "器人"]);
    assert_eq!(plain("one two three \u{301}four", 19), ["one two three", " \u{301}four"]);
}

#[test]
fn a_grapheme_longer_than_the_limit_is_cut_between_characters() {
    let zalgo = format!("e{}", "\u{301}".repeat(30));
    let parts = plain(&zalgo, 20);
    assert_eq!(parts.concat(), zalgo);
    assert!(parts.iter().all(|part| part.len() <= 20), "{parts:?}");
}

#[test]
fn mentions_and_tags_stay_whole() {
    assert_eq!(plain("abcdefghijkl<@zhangsan>", 20), ["abcdefghijkl", "<@zhangsan>"]);
    assert_eq!(
        markdown("one two three <font color=\"info\">green</font>", 40),
        ["one two three", "<font color=\"info\">green</font>"]
    );
    // Not a tag: a reader's blanks count.
    assert_eq!(plain("if a < b and c > d then", 20), ["if a < b and c > d", "then"]);
}

#[test]
fn white_space_alone_makes_no_part() {
    let content = format!("a{}b", "\n".repeat(100));
    assert_eq!(plain(&content, 20), ["a", "b"]);
    assert_eq!(plain(&format!("{}b", " ".repeat(50)), 20).len(), 1);
    assert!(plain(&" ".repeat(50), 20).is_empty());
}

#[test]
fn fences_are_closed_and_opened_again() {
    let code: Vec<String> = (0..12).map(|n| format!("    let line_{n} = {n};")).collect();
    let content = format!("Look:\n\n```rust\n{}\n```\n\nDone.", code.join("\n"));
    let parts = markdown(&content, 120);
    assert!(parts.len() > 2, "{parts:#?}");
    for (n, part) in parts.iter().enumerate() {
        assert!(part.len() <= 120, "{part}");
        assert_eq!(part.matches("```").count(), 2, "{part}");
        assert!(n == 0 || part.starts_with("```rust\n    let line_"), "{part}");
    }
    assert!(parts[0].starts_with("Look:\n\n```rust\n"), "{}", parts[0]);
    assert!(parts.last().unwrap().ends_with("\n```\n\nDone."), "{parts:#?}");
    let lines: Vec<_> = parts.iter().flat_map(|part| part.lines()).filter(|line| line.contains("let")).collect();
    assert_eq!(lines, code);
}

#[test]
fn a_cut_at_a_fences_end_leaves_no_empty_block() {
    let code = "x".repeat(50);
    let content = format!("```\n{code}\n```\n{}", "y".repeat(30));
    assert_eq!(markdown(&content, 64), [format!("```\n{code}\n```"), "y".repeat(30)]);
    // Nor does one at its beginning.
    let content = format!("{}\n```rust\n{code}\n```", "y".repeat(30));
    assert_eq!(markdown(&content, 70), ["y".repeat(30), format!("```rust\n{code}\n```")]);
}

#[test]
fn fences_mean_nothing_in_plain_text() {
    let content = format!("```\n{}\n{}\n```", "x".repeat(50), "y".repeat(50));
    assert_eq!(plain(&content, 64), [format!("```\n{}", "x".repeat(50)), format!("{}\n```", "y".repeat(50))]);
}

#[test]
fn marks_inside_a_fence_are_code() {
    let content = format!("~~~~md\n```\n{}\n~~~\n{}\n~~~~", "x".repeat(40), "y".repeat(40));
    assert_eq!(
        markdown(&content, 80),
        [format!("~~~~md\n```\n{}\n~~~\n~~~~", "x".repeat(40)), format!("~~~~md\n{}\n~~~~", "y".repeat(40))]
    );
    let inline = format!("```not a fence``` {}", "word ".repeat(20));
    assert!(markdown(&inline, 64).iter().skip(1).all(|part| !part.contains('`')));
}

fn squeeze(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Whether a text ends outside of any code fence.
fn is_closed(text: &str) -> bool {
    let mut open: Option<&str> = None;
    for line in text.lines() {
        let mark = ["````", "```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        open = match (open, mark) {
            (None, mark) => mark,
            (Some(opened), _) if line.trim_end() == opened => None,
            (Some("```"), Some("````")) if line.trim_end() == "````" => None,
            (open, _) => open,
        };
    }
    open.is_none()
}

fn content() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,12}",
        "[你好。！？；：“”]{1,6}",
        Just(" ".to_owned()),
        Just("\n".to_owned()),
        Just("\n\n".to_owned()),
        Just("\r\n".to_owned()),
        Just(". ".to_owned()),
        Just("👨‍👩‍👧‍👦".to_owned()),
        Just("e\u{301}".to_owned()),
        Just(" \u{301}".to_owned()),
        Just("🇨🇳🇺🇸".to_owned()),
        Just("<@user1>".to_owned()),
        Just("<font color=\"info\">".to_owned()),
        any::<char>().prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..80).prop_map(|pieces| pieces.concat())
}

fn fenced() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        "[a-z]{1,30}( [a-z]{1,30}){0,6}",
        Just(String::new()),
        Just("```".to_owned()),
        Just("```rust".to_owned()),
        Just("````".to_owned()),
        Just("~~~".to_owned()),
        "[你好。]{1,40}",
    ];
    prop::collection::vec(line, 0..40).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn plain_parts_are_the_content(content in content(), limit in 32..200usize) {
        let parts = plain(&content, limit);
        prop_assert_eq!(squeeze(&parts.concat()), squeeze(&content));
        let boundaries: Vec<usize> = content.grapheme_indices(true).map(|(at, _)| at).chain([content.len()]).collect();
        let mut at = 0;
        for part in &parts {
            prop_assert!(part.len() <= limit && !part.trim().is_empty());
            at += content[at..].find(part.as_str()).unwrap();
            prop_assert!(boundaries.binary_search(&at).is_ok(), "begins inside a grapheme: {:?}", parts);
            at += part.len();
            prop_assert!(boundaries.binary_search(&at).is_ok(), "ends inside a grapheme: {:?}", parts);
        }
    }

    #[test]
    fn every_limit_that_holds_a_character_works(content in content(), limit in 4..32usize) {
        for parts in [plain(&content, limit), markdown(&content, limit)] {
            prop_assert_eq!(squeeze(&parts.concat()), squeeze(&content));
            prop_assert!(parts.iter().all(|part| part.len() <= limit));
        }
    }

    #[test]
    fn fenced_parts_are_closed_and_the_content(content in fenced(), limit in 64..300usize) {
        let parts = markdown(&content, limit);
        let words = |text: &str| text.lines().filter(|line| !line.starts_with("```") && !line.starts_with("~~~")).map(squeeze).collect::<String>();
        prop_assert_eq!(parts.iter().map(|part| words(part)).collect::<String>(), words(&content));
        for (n, part) in parts.iter().enumerate() {
            prop_assert!(part.len() <= limit, "{} bytes: {}", part.len(), part);
            prop_assert!(is_closed(part) || (n + 1 == parts.len() && !is_closed(&content)), "{}", part);
        }
    }
}
