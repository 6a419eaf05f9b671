//! What members write: commands, mentions, a keyword, chatter, a forbidden word, in given shares.
//!
//! Always: a text that wants an answer holds its message's serial or its tag, so that the answer can be traced to it.

use std::str::FromStr;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::violation::Tag;

/// How much of which text; only the proportions count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextMix {
    /// `/query 17`, `/echo [chat sender 17]`, `／查询订单 17`.
    pub commands: u32,
    /// A sentence with 优惠券 in it.
    pub keywords: u32,
    /// `@bot …`: half of them a command, half a question.
    pub mentions: u32,
    /// Talk between members.
    pub chatter: u32,
    /// A command with a word in it that is never answered.
    pub forbidden: u32,
}

impl Default for TextMix {
    fn default() -> Self {
        Self { commands: 58, keywords: 7, mentions: 15, chatter: 17, forbidden: 3 }
    }
}

/// Why a mix can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TextMixError {
    /// Not `name=number`.
    #[error("{0:?} is no share: write name=number, such as commands=60")]
    Share(String),
    /// A name that no text has.
    #[error("{0:?} is no kind of text: there are commands, keywords, mentions, chatter, forbidden")]
    Kind(String),
    /// Nothing would be written.
    #[error("all shares are 0: give at least one kind of text a share")]
    Nothing,
}

/// `commands=60,keywords=10,mentions=10,chatter=20`; what is not named has no share.
impl FromStr for TextMix {
    type Err = TextMixError;

    fn from_str(text: &str) -> Result<Self, TextMixError> {
        let mut mix = Self { commands: 0, keywords: 0, mentions: 0, chatter: 0, forbidden: 0 };
        for part in text.split(',') {
            let fault = || TextMixError::Share(part.to_owned());
            let (name, share) = part.split_once('=').ok_or_else(fault)?;
            let place = match name.trim() {
                "commands" => &mut mix.commands,
                "keywords" => &mut mix.keywords,
                "mentions" => &mut mix.mentions,
                "chatter" => &mut mix.chatter,
                "forbidden" => &mut mix.forbidden,
                other => return Err(TextMixError::Kind(other.to_owned())),
            };
            // Nobody needs finer shares, and no sum of these overflows.
            *place = share.trim().parse().ok().filter(|share| *share <= 1_000_000).ok_or_else(fault)?;
        }
        if mix.kinds().next().is_none() { Err(TextMixError::Nothing) } else { Ok(mix) }
    }
}

/// One kind of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextKind {
    /// A command that a service answers.
    Query,
    /// A command that is answered with its own argument.
    Echo,
    /// The query by another name, behind a full-width slash.
    Alias,
    /// A sentence with the keyword.
    Keyword,
    /// A command behind the bot's name.
    MentionedQuery,
    /// A question behind the bot's name.
    Mention,
    /// Talk between members.
    Chatter,
    /// A command with a forbidden word.
    Forbidden,
}

/// What members say when they want nothing.
const CHATTER: [&str; 5] = [
    "今天天气不错啊",
    "收到，谢谢大家",
    "中午一起吃饭吗？",
    "周报已经发了",
    "[强] 辛苦了 https://example.com/a?b=1&c=2",
];

impl TextKind {
    /// Whether it wants exactly one answer, or none.
    pub fn is_answered(self) -> bool {
        !matches!(self, Self::Chatter | Self::Forbidden)
    }

    /// Its name in a mix.
    pub fn share(self) -> &'static str {
        match self {
            Self::Query | Self::Echo | Self::Alias => "commands",
            Self::Keyword => "keywords",
            Self::MentionedQuery | Self::Mention => "mentions",
            Self::Chatter => "chatter",
            Self::Forbidden => "forbidden",
        }
    }

    /// The text of the message that `tag` names; `bot` is what an @mention calls.
    pub fn write(self, tag: &Tag, bot: &str, rng: &mut impl Rng) -> String {
        let n = tag.serial;
        match self {
            Self::Query => format!("/query {n}"),
            Self::Echo => format!("/echo {tag}"),
            Self::Alias => format!("／查询订单 {n}"),
            Self::Keyword => format!("有优惠券吗 #{n}"),
            Self::MentionedQuery => format!("@{bot} /query {n}"),
            Self::Mention => format!("@{bot} 介绍一下产品 #{n}"),
            Self::Chatter => CHATTER.choose(rng).copied().unwrap_or_default().to_owned(),
            Self::Forbidden => format!("/echo 违禁词 {n}"),
        }
    }
}

impl TextMix {
    /// The kinds that have a share, with it; shares of all kinds are in the same unit.
    pub fn kinds(&self) -> impl Iterator<Item = (TextKind, u32)> + use<> {
        let Self { commands, keywords, mentions, chatter, forbidden } = *self;
        let shares = [
            (TextKind::Query, commands * 60),
            (TextKind::Echo, commands * 35),
            (TextKind::Alias, commands * 5),
            (TextKind::Keyword, keywords * 100),
            (TextKind::MentionedQuery, mentions * 50),
            (TextKind::Mention, mentions * 50),
            (TextKind::Chatter, chatter * 100),
            (TextKind::Forbidden, forbidden * 100),
        ];
        shares.into_iter().filter(|(_, share)| *share > 0)
    }

    /// A kind, drawn by the shares; chatter where nothing has one.
    pub fn draw(&self, rng: &mut StdRng) -> TextKind {
        let sum: u32 = self.kinds().map(|(_, share)| share).sum();
        let mut point = rng.random_range(0..sum.max(1));
        for (kind, share) in self.kinds() {
            match point.checked_sub(share) {
                Some(rest) => point = rest,
                None => return kind,
            }
        }
        TextKind::Chatter
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn mixes_are_read() {
        let mix: TextMix = "commands=60, keywords=10,mentions=10,chatter=20".parse().unwrap();
        assert_eq!(mix, TextMix { commands: 60, keywords: 10, mentions: 10, chatter: 20, forbidden: 0 });
        let one: TextMix = "chatter=1".parse().unwrap();
        assert_eq!(one.kinds().collect::<Vec<_>>(), [(TextKind::Chatter, 100)]);
        for (text, word) in [
            ("", "no share"),
            ("commands", "no share"),
            ("commands=x", "no share"),
            ("commands=-1", "no share"),
            ("commands=99999999", "no share"),
            ("orders=1", "no kind of text"),
            ("commands=0,chatter=0", "all shares are 0"),
        ] {
            let wrong = text.parse::<TextMix>().unwrap_err().to_string();
            assert!(wrong.contains(word), "{text}: {wrong}");
        }
    }

    #[test]
    fn kinds_are_drawn_by_their_shares() {
        let mix: TextMix = "commands=50,chatter=50".parse().unwrap();
        let mut rng = StdRng::seed_from_u64(1);
        let drawn: Vec<TextKind> = (0..10_000).map(|_| mix.draw(&mut rng)).collect();
        let share = |kind| drawn.iter().filter(|k| **k == kind).count();
        assert!((4700..5300).contains(&share(TextKind::Chatter)) && (2700..3300).contains(&share(TextKind::Query)));
        assert_eq!(share(TextKind::Keyword) + share(TextKind::Forbidden) + share(TextKind::Mention), 0);
    }

    #[test]
    fn what_is_answered_names_its_message() {
        let (tag, mut rng) = (Tag::new("c1", "u1", 4711), StdRng::seed_from_u64(1));
        for (kind, _) in TextMix::default().kinds() {
            let text = kind.write(&tag, "小助手", &mut rng);
            assert!(!kind.is_answered() || text.contains("4711"), "{text}");
        }
    }
}
