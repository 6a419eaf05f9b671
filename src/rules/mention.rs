//! Mentions: whether a text speaks to the bot, and which of its words are left once that is said.
//!
//! A mention in a callback is nothing but text: `@` or `＠`, the name as the client shows it, and a blank (often U+2005).
//! Names hold blanks themselves (`Robot A`), so they can only be found by knowing them. What always holds:
//!
//! - The longest configured name wins, and a name that goes on is another one: `@RobotAX` is not `@RobotA`.
//! - Our mentions at the beginning and at the end are taken off, with other people's in front of ours; other people's
//!   mentions elsewhere are words like any other.
//! - `@` right behind a letter of a mail address is part of that address.

use super::fold::{blank, fold, fold_char, invisible};
use super::{RuleError, head};
use crate::model::{ChatKind, Message};

/// How many words a member's own name may have, when one is skipped in front of ours (`@Li Si @Robot A help`) or of a command.
const OTHER_NAME_WORDS: usize = 3;

/// What texts call the bot where no name of it is known: `@我 /query`.
const NAMELESS: &str = "我";

/// The bot's names.
#[derive(Debug)]
pub(super) struct Mentions {
    /// Longest first.
    names: Vec<Name>,
    /// The first that is configured.
    first: Option<String>,
    /// A text that begins with a name, without `@`, is a mention too.
    bare: bool,
    /// Of a group's texts none comes in that does not mention the bot.
    alone: bool,
}

/// One of them.
#[derive(Debug)]
struct Name {
    /// Folded, blanks collapsed.
    folded: Vec<char>,
    /// As it is configured.
    written: String,
}

/// What is left of a text once its mentions of the bot are taken off.
#[derive(Debug, PartialEq)]
pub(super) struct Address<'t> {
    /// The text without our mentions at its beginning and end.
    pub(super) words: &'t str,
    /// Whether it speaks to the bot.
    pub(super) to_us: bool,
    /// Whether `words` stood behind a mention.
    pub(super) behind: bool,
}

/// The first word of a text, as a command's name.
#[derive(Debug, PartialEq)]
pub(super) struct Named<'t> {
    /// The word itself.
    pub(super) name: &'t str,
    /// What follows, without a mention of ours right behind the name.
    pub(super) rest: &'t str,
    /// Whether our mention is glued to it: `help@Robot A`.
    pub(super) glued: bool,
}

impl Mentions {
    /// Prepares the names; one without a visible character is refused.
    pub(super) fn compile(names: &[String], bare: bool, alone: bool) -> Result<Self, RuleError> {
        let folded = |name: &String| fold(name).split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
        let name = |name: &String| Name { folded: folded(name), written: name.trim().to_owned() };
        let mut names: Vec<Name> = names.iter().map(name).collect();
        if names.iter().any(|name| name.folded.is_empty()) {
            return Err(RuleError::Empty("bot name"));
        }
        let first = names.first().map(|name| name.written.clone());
        names.sort_by_key(|name| std::cmp::Reverse(name.folded.len()));
        Ok(Self { names, first, bare, alone })
    }

    /// By which name a member has to mention the bot in the chat of this message: the one that the message used, because that
    /// works there, else the first. `None` where it hears all.
    pub(super) fn needed(&self, message: &Message) -> Option<&str> {
        match message.chat_kind {
            ChatKind::Group if self.alone => {
                Some(self.used(&message.text).or(self.first.as_deref()).unwrap_or(NAMELESS))
            }
            ChatKind::Group | ChatKind::Single => None,
        }
    }

    /// The name of our first mention.
    fn used(&self, text: &str) -> Option<&str> {
        let (name, _) = self.named(text[self.first_in(text)?..].trim_start_matches(at_sign))?;
        Some(&name.written)
    }

    /// Finds out whether a text speaks to the bot.
    pub(super) fn read<'t>(&self, text: &'t str) -> Address<'t> {
        let text = text.trim_matches(blank);
        let behind = self.skip_front(text);
        let words = behind.unwrap_or(text);
        let before = self.skip_end(words);
        let words = before.unwrap_or(words);
        let to_us = behind.is_some() || before.is_some() || self.first_in(words).is_some();
        Address { words, to_us, behind: behind.is_some() }
    }

    /// Takes the first word off. It ends at a blank, or where a mention of ours is glued to it (`/stop@Robot A 5`).
    pub(super) fn split_name<'t>(&self, words: &'t str) -> Named<'t> {
        let end = words.find(char::is_whitespace).unwrap_or(words.len());
        let glued = words[..end].find(at_sign).and_then(|at| {
            let rest = &words[at + self.mention(&words[at..])?..];
            rest.chars().next().is_none_or(blank).then_some((at, rest))
        });
        let (end, mut rest) = glued.unwrap_or((end, &words[end..]));
        rest = rest.trim_start_matches(blank);
        while let Some(len) = self.mention(rest) {
            rest = rest[len..].trim_start_matches(blank);
        }
        Named { name: &words[..end], rest, glued: glued.is_some() }
    }

    /// The text behind the mentions that it begins with; `None` where none of them is ours.
    fn skip_front<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut rest = self.skip_others(text);
        let mut behind = None;
        while let Some(len) = self.mention(rest) {
            rest = rest[len..].trim_start_matches(separates);
            behind = Some(rest);
        }
        if behind.is_none() && self.bare {
            return self.name(text).map(|len| text[len..].trim_start_matches(separates));
        }
        behind
    }

    /// Skips other people's mentions in front of ours. Where a name ends can't be known, so it is held for one as long
    /// as it has few words.
    fn skip_others<'t>(&self, text: &'t str) -> &'t str {
        if !text.starts_with(at_sign) {
            return text;
        }
        let ours = self.first_in(text).unwrap_or(0);
        if may_be_mentions(&text[..ours]) { &text[ours..] } else { text }
    }

    /// The text in front of our mentions that it ends with; `None` where it ends otherwise.
    fn skip_end<'t>(&self, text: &'t str) -> Option<&'t str> {
        let mut rest = text;
        let mut before = None;
        while let Some(at) = rest.rfind(at_sign) {
            let whole = self.mention(&rest[at..]) == Some(rest.len() - at);
            if !whole || in_address(&rest[..at]) {
                break;
            }
            rest = rest[..at].trim_end_matches(blank);
            before = Some(rest);
        }
        before
    }

    /// Where our first mention begins.
    fn first_in(&self, text: &str) -> Option<usize> {
        let text = head(text);
        text.match_indices(at_sign)
            .map(|(at, _)| at)
            .find(|at| !in_address(&text[..*at]) && self.mention(&text[*at..]).is_some())
    }

    /// The bytes of our mention that `text` begins with.
    fn mention(&self, text: &str) -> Option<usize> {
        let at = text.chars().next().filter(|c| at_sign(*c))?.len_utf8();
        self.name(&text[at..]).map(|len| at + len)
    }

    /// The bytes of the longest of our names that `text` begins with.
    fn name(&self, text: &str) -> Option<usize> {
        self.named(text).map(|(_, len)| len)
    }

    /// The same, and which name it is.
    fn named(&self, text: &str) -> Option<(&Name, usize)> {
        self.names.iter().find_map(|name| {
            let len = spelled(text, &name.folded).filter(|len| ends(&name.folded, &text[*len..]))?;
            Some((name, len))
        })
    }
}

/// Whether a text may be other people's mentions and nothing else.
pub(super) fn may_be_mentions(text: &str) -> bool {
    let begins = text.is_empty() || text.starts_with(at_sign);
    begins && text.split(at_sign).all(|name| name.split_whitespace().count() <= OTHER_NAME_WORDS)
}

/// `@`, full-width or not.
fn at_sign(c: char) -> bool {
    fold_char(c) == '@'
}

/// What may stand between a mention and the words meant for it: `@小助手，帮助`.
fn separates(c: char) -> bool {
    blank(c) || matches!(fold_char(c), ',' | ':' | '、')
}

/// Whether an `@` behind this text belongs to a mail address.
fn in_address(before: &str) -> bool {
    let last = before.chars().rev().find(|c| !invisible(*c));
    last.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '%' | '+' | '-'))
}

/// The bytes at the start of `text` that spell a folded name; a blank in the name stands for one or more of any kind.
fn spelled(text: &str, name: &[char]) -> Option<usize> {
    let mut chars = text.char_indices().filter(|(_, c)| !invisible(*c)).peekable();
    let mut end = 0;
    for want in name {
        let (at, c) = chars.next().filter(|(_, c)| fold_char(*c) == *want)?;
        end = at + c.len_utf8();
        while *want == ' ' && chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }
    Some(end)
}

/// Whether a name ends where `rest` begins. Scripts that write words apart need something between; CJK doesn't:
/// `@小助手介绍一下` speaks to 小助手.
fn ends(name: &[char], rest: &str) -> bool {
    let joins = |c: char| (c.is_alphanumeric() || c == '_') && c < '\u{2E80}';
    let next = rest.chars().find(|c| !invisible(*c)).map(fold_char);
    !(name.last().copied().is_some_and(joins) && next.is_some_and(joins))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentions() -> Mentions {
        Mentions::compile(&["RobotA".into(), "Robot A".into(), "小助手".into()], true, false).expect("names")
    }

    #[test]
    fn what_speaks_to_the_bot_and_what_is_left() {
        for (text, words, to_us) in [
            ("@Robot A help", "help", true),
            ("@robota help", "help", true),
            ("@Li Si @Robot A help", "help", true),
            ("@Li Si @王五 @Robot A help", "help", true),
            ("＠Robot A\u{2005}help", "help", true),
            ("@Robot\u{00A0} A\u{00A0}help", "help", true),
            ("@Ro\u{200B}botA help", "help", true),
            ("help @Robot A", "help", true),
            ("help @Robot A\u{2005}", "help", true),
            ("@Robot A @小助手 help", "help", true),
            ("@Robot A@小助手：help", "help", true),
            ("@Robot A @Li Si help", "@Li Si help", true),
            ("@Robot A help @Li Si", "help @Li Si", true),
            ("@小助手介绍一下", "介绍一下", true),
            ("@小助手help", "help", true),
            ("@RobotA帮助", "帮助", true),
            ("@RobotA, help", "help", true),
            ("介绍一下@小助手", "介绍一下", true),
            ("小助手，介绍一下", "介绍一下", true),
            ("robot a help", "help", true),
            ("@小助手", "", true),
            ("大家问 @小助手 就行", "大家问 @小助手 就行", true),
            ("@Li Si you should really not @Robot A help", "@Li Si you should really not @Robot A help", true),
            // None of these is ours.
            ("@RobotAX help", "@RobotAX help", false),
            ("@RobotAＸ help", "@RobotAＸ help", false),
            ("@Robot A1 help", "@Robot A1 help", false),
            ("@RobotA_x help", "@RobotA_x help", false),
            ("RobotAX help", "RobotAX help", false),
            ("@Li Si help", "@Li Si help", false),
            ("mail a@Robot A", "mail a@Robot A", false),
            ("mail a.b-@RobotA.com please", "mail a.b-@RobotA.com please", false),
            ("help@Robot A", "help@Robot A", false), // until it is known that `help` is a command
            ("问小助手", "问小助手", false),
            ("@", "@", false),
            ("", "", false),
        ] {
            let address = mentions().read(text);
            assert_eq!((address.words, address.to_us), (words, to_us), "{text:?}");
        }
    }

    #[test]
    fn the_longest_name_wins_whatever_the_files_order() {
        let mentions = Mentions::compile(&["Robot".into(), "Robot A".into()], true, false).expect("names");
        assert_eq!(mentions.read("@Robot A help").words, "help");
        assert_eq!(mentions.read("@Robot help").words, "help");
    }

    #[test]
    fn a_bare_name_counts_only_where_it_is_asked_for() {
        let strict = Mentions::compile(&["小助手".into()], false, false).expect("names");
        assert!(!strict.read("小助手 帮助").to_us);
        assert!(strict.read("@小助手 帮助").to_us);
    }

    #[test]
    fn a_commands_name_sheds_our_mention() {
        for (words, name, rest, glued) in [
            ("query 1 2", "query", "1 2", false),
            ("stop@Robot A 5", "stop", "5", true),
            ("stop＠小助手", "stop", "", true),
            ("stop @Robot A 5", "stop", "5", false),
            ("stop @Li Si", "stop", "@Li Si", false),
            ("stop@Li Si", "stop@Li", "Si", false),
            ("help@RobotA.com", "help@RobotA.com", "", false),
        ] {
            assert_eq!(mentions().split_name(words), Named { name, rest, glued }, "{words:?}");
        }
    }

    #[test]
    fn a_name_without_a_visible_character_is_refused() {
        assert!(matches!(Mentions::compile(&["\u{200B} ".into()], true, false), Err(RuleError::Empty(_))));
    }
}
