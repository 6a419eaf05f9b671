//! Rules: what a message makes the bot do, if anything. Pure: the same message gets the same decision.
//!
//! Order: sensitive words, bindings, commands, keywords, mentions, chatter. What always holds:
//!
//! - Only text is looked at (`text`, and the text parts of `mixed`); every other type is ignored by its name.
//! - A sensitive word ends it: nothing behind that rule sees the message, and no answer tells which word it was.
//! - In a one-to-one chat every text speaks to the bot.
//! - Members' words are data: none becomes a pattern, a template or code, and deciding takes time linear in the text.

mod args;
mod commands;
pub(crate) mod fold;
mod form;
mod mention;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod texts;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;

use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::template::{Template, TemplateError};
use crate::config::settings::{self, Terms};
use crate::model::{ChatKind, Message};
use commands::Commands;
use fold::fold;
use mention::{Address, Mentions};
use words::Words;

/// How much of a text is searched for mentions, keywords and bindings, in bytes; sensitive words are searched for in
/// all of it, and a command's arguments are never cut.
const SEARCHED: usize = 16 * 1024;

/// Why an app's rules can't be used. The loader of the configuration refuses most of these with a place and a mend.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// It would match every text.
    #[error("an empty {0} would match every text")]
    Empty(&'static str),
    /// A command's name with a blank in it can't be told from its arguments.
    #[error("a command's name is one word, `{0}` is not")]
    NotAWord(String),
    /// Names are compared without width and case.
    #[error("two commands answer to `{0}`")]
    NameTaken(String),
    /// A reply's template.
    #[error("{place}: {cause}")]
    Template {
        /// Which rule's.
        place: String,
        /// Why.
        cause: TemplateError,
    },
    /// A word list is too large to search for.
    #[error("too many words to search for: {0}")]
    Words(#[from] aho_corasick::BuildError),
}

/// What a message makes the bot do.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Nothing.
    Ignore {
        /// `chatter`, `no_mention_rule`, `unknown_command`, `type:<type>` or `event:<type>`.
        reason: String,
    },
    /// Nothing, and it is written down: a sensitive word.
    Block {
        /// `sensitive`.
        rule: String,
    },
    /// A fixed text for the member: usage, a wrong argument, a hint, a command that is for others.
    Say {
        /// `command:<name>` or `unknown_command`.
        rule: String,
        /// Plain text; what it shows of the member's words is defused.
        text: String,
        /// Why, where the command is for others: `not_internal`, `not_external` or `not_admin`.
        reason: Option<&'static str>,
    },
    /// An action.
    Run(Run),
}

/// An action and what set it off.
#[derive(Clone, Debug)]
pub struct Run {
    /// `binding:<index>`, `command:<name>`, `keyword:<word>` or `mention`.
    pub rule: String,
    /// Which kind of rule.
    pub trigger: Trigger,
    /// What to do.
    pub action: Arc<Action>,
    /// The command, where it was one.
    pub command: Option<CommandCall>,
    /// A binding's named groups; null for one that took no part in the match.
    pub captures: Option<Map<String, Value>>,
    /// What a binding does to its member.
    pub terms: Option<Arc<Terms>>,
    /// Set where it is for bound members only: what the others get instead.
    pub unless_bound: Option<Arc<str>>,
}

impl Run {
    /// Of a rule that brings nothing but its action.
    pub fn new(rule: String, trigger: Trigger, action: Arc<Action>) -> Self {
        Self { rule, trigger, action, command: None, captures: None, terms: None, unless_bound: None }
    }
}

/// The kind of rule that set an action off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// `[[bindings]]`
    Binding,
    /// `[[commands]]`
    Command,
    /// `[[keywords]]`
    Keyword,
    /// `[mention]`
    Mention,
}

impl Trigger {
    /// The word in action requests and trails.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Binding => "binding",
            Self::Command => "command",
            Self::Keyword => "keyword",
            Self::Mention => "mention",
        }
    }
}

/// A command as a member called it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandCall {
    /// Its configured name, also where an alias was used.
    pub name: String,
    /// Typed values by argument name; null for an optional one that was not given.
    pub args: Map<String, Value>,
}

/// What a rule does, ready to run.
#[derive(Clone, Debug)]
pub enum Action {
    /// Answers with a text.
    Reply(Template),
    /// Lists the commands.
    Help,
    /// Asks a service.
    Http(settings::HttpAction),
    /// Asks a model.
    Llm(settings::LlmAction),
    /// Mutes the chat, or lets it speak again.
    Mute(bool),
}

impl Action {
    fn compile(action: &settings::Action, place: &str) -> Result<Arc<Self>, RuleError> {
        Ok(Arc::new(match action {
            settings::Action::Reply { text } => Self::Reply(
                Template::compile(text).map_err(|cause| RuleError::Template { place: place.to_owned(), cause })?,
            ),
            settings::Action::Help => Self::Help,
            settings::Action::Http(http) => Self::Http(http.clone()),
            settings::Action::Llm(llm) => Self::Llm(llm.clone()),
        }))
    }

    /// Its type in the configuration, for trails.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Reply(_) => "reply",
            Self::Help => "help",
            Self::Http(_) => "http",
            Self::Llm(_) => "llm",
            Self::Mute(true) => "mute",
            Self::Mute(false) => "unmute",
        }
    }

    /// Whether it is shown what was said before, and what it says is remembered.
    pub fn sees_session(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Llm(_))
    }

    /// Whether it can say anything of who the member is beyond their chat.
    pub fn speaks_of_user(&self) -> bool {
        match self {
            Self::Reply(template) => template.speaks_of_user(),
            Self::Http(_) => true,
            Self::Help | Self::Llm(_) | Self::Mute(_) => false,
        }
    }

    /// Whether it is told what the member is called, and nothing else of them.
    pub fn calls_by_name(&self) -> bool {
        matches!(self, Self::Llm(_))
    }
}

/// A sentence by which members say who they are.
#[derive(Debug)]
struct Sentence {
    pattern: Regex,
    action: Arc<Action>,
    terms: Arc<Terms>,
}

impl Sentence {
    /// One without an action keeps its captures (or ends a binding) and says so.
    fn compile(at: usize, binding: &settings::Binding) -> Result<Self, RuleError> {
        let text = if binding.terms.unbind { texts::UNBOUND } else { texts::KEPT };
        let default = settings::Action::Reply { text: text.to_owned() };
        let action = Action::compile(binding.action.as_ref().unwrap_or(&default), &format!("binding {at}"))?;
        Ok(Self { pattern: binding.pattern.clone(), action, terms: Arc::new(binding.terms) })
    }

    /// What it captures for the contact book; a service keeps what it is told by itself.
    fn kept_fields(&self) -> impl Iterator<Item = &str> {
        let keeps = !matches!(*self.action, Action::Http(_)) && !self.terms.unbind;
        self.pattern.capture_names().flatten().filter(move |_| keeps)
    }
}

/// An app's rules, ready to decide.
#[derive(Debug)]
pub struct RuleSet {
    sensitive: Words,
    bindings: Vec<Sentence>,
    commands: Commands,
    keywords: Words,
    /// The word and the action of each word in `keywords`.
    keyword_actions: Vec<(String, Arc<Action>)>,
    mentions: Mentions,
    mention: Option<Arc<Action>>,
}

impl RuleSet {
    /// Prepares everything that deciding needs.
    pub fn compile(app: &settings::App) -> Result<Self, RuleError> {
        let rules = &app.rules;
        let bindings = rules.bindings.iter().enumerate().map(|(at, binding)| Sentence::compile(at, binding));
        let mut keyword_actions = Vec::new();
        for keyword in &rules.keywords {
            let action = Action::compile(&keyword.action, &format!("keyword `{}`", keyword.any.join("`, `")))?;
            keyword_actions.extend(keyword.any.iter().map(|word| (word.clone(), action.clone())));
        }
        Ok(Self {
            sensitive: Words::compile(&rules.sensitive)?,
            bindings: bindings.collect::<Result<_, RuleError>>()?,
            commands: Commands::compile(rules)?,
            keywords: Words::compile(keyword_actions.iter().map(|(word, _)| word))?,
            keyword_actions,
            mentions: Mentions::compile(&app.bot_names, rules.bare_name, app.kind.hears_mentions_alone())?,
            mention: rules.mention.as_ref().map(|action| Action::compile(action, "mention")).transpose()?,
        })
    }

    /// Decides what a message makes the bot do.
    pub fn decide(&self, message: &Message) -> Decision {
        match message.msg_type.as_str() {
            "text" | "mixed" => self.decide_text(message),
            // A recording is none, but words that WeCom heard in it are.
            "voice" if !message.text.is_empty() => self.decide_text(message),
            event if message.is_event() => Decision::Ignore { reason: event.to_owned() },
            other => Decision::Ignore { reason: format!("type:{other}") },
        }
    }

    /// What the `help` action answers this message.
    pub fn help_text(&self, message: &Message) -> String {
        self.commands.help_text(&self.mentions, message)
    }

    /// The contact fields that members fill by binding sentences.
    pub fn kept_fields(&self) -> BTreeSet<&str> {
        self.bindings.iter().flat_map(Sentence::kept_fields).collect()
    }

    fn decide_text(&self, message: &Message) -> Decision {
        let text = message.text.as_str();
        let folded = fold(text);
        if self.sensitive.stand_in(&folded) {
            return Decision::Block { rule: "sensitive".to_owned() };
        }
        let mut address = self.mentions.read(text);
        address.to_us |= message.chat_kind == ChatKind::Single && !address.words.is_empty();
        self.bound(&address)
            .or_else(|| self.commands.decide(&self.mentions, &address, message))
            .or_else(|| self.keyword(&folded))
            .unwrap_or_else(|| self.mentioned(&address))
    }

    fn bound(&self, address: &Address<'_>) -> Option<Decision> {
        let text = head(address.words);
        self.bindings.iter().enumerate().find_map(|(at, Sentence { pattern, action, terms })| {
            let found = pattern.captures(text)?;
            let named = pattern.capture_names().flatten();
            let captures = named.map(|name| (name.to_owned(), found.name(name).map(|group| group.as_str()).into()));
            Some(Decision::Run(Run {
                captures: Some(captures.collect()),
                terms: Some(terms.clone()),
                ..Run::new(format!("binding:{at}"), Trigger::Binding, action.clone())
            }))
        })
    }

    fn keyword(&self, folded: &str) -> Option<Decision> {
        let (word, action) = self.keyword_actions.get(self.keywords.first_listed(head(folded))?)?;
        Some(Decision::Run(Run::new(format!("keyword:{word}"), Trigger::Keyword, action.clone())))
    }

    fn mentioned(&self, address: &Address<'_>) -> Decision {
        match &self.mention {
            _ if !address.to_us => Decision::Ignore { reason: "chatter".to_owned() },
            Some(action) => Decision::Run(Run::new("mention".to_owned(), Trigger::Mention, action.clone())),
            None => Decision::Ignore { reason: "no_mention_rule".to_owned() },
        }
    }
}

/// The part of a text that is searched.
fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(SEARCHED)]
}
