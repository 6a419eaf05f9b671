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
mod mention;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod texts;
mod words;

use std::sync::Arc;

use regex::Regex;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::action::template::{Template, TemplateError};
use crate::config::settings;
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
    /// A fixed text for the member: usage, a wrong argument, a hint.
    Say {
        /// `command:<name>` or `unknown_command`.
        rule: String,
        /// Plain text; what it shows of the member's words is defused.
        text: String,
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
        }
    }

    /// Whether it is shown what was said before, and what it says is remembered.
    pub fn sees_session(&self) -> bool {
        matches!(self, Self::Http(_) | Self::Llm(_))
    }
}

/// An app's rules, ready to decide.
#[derive(Debug)]
pub struct RuleSet {
    sensitive: Words,
    bindings: Vec<(Regex, Arc<Action>)>,
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
        let bindings = rules.bindings.iter().enumerate().map(|(at, binding)| {
            Ok((binding.pattern.clone(), Action::compile(&binding.action, &format!("binding {at}"))?))
        });
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
            mentions: Mentions::compile(&app.bot_names, rules.bare_name)?,
            mention: rules.mention.as_ref().map(|action| Action::compile(action, "mention")).transpose()?,
        })
    }

    /// Decides what a message makes the bot do.
    pub fn decide(&self, message: &Message) -> Decision {
        match message.msg_type.as_str() {
            "text" | "mixed" => self.decide_text(&message.text, message.chat_kind),
            event if message.is_event() => Decision::Ignore { reason: event.to_owned() },
            other => Decision::Ignore { reason: format!("type:{other}") },
        }
    }

    /// What the `help` action answers.
    pub fn help_text(&self) -> String {
        self.commands.help_text()
    }

    fn decide_text(&self, text: &str, chat: ChatKind) -> Decision {
        let folded = fold(text);
        if self.sensitive.stand_in(&folded) {
            return Decision::Block { rule: "sensitive".to_owned() };
        }
        let mut address = self.mentions.read(text);
        address.to_us |= chat == ChatKind::Single && !address.words.is_empty();
        self.bound(&address)
            .or_else(|| self.commands.decide(&self.mentions, &address))
            .or_else(|| self.keyword(&folded))
            .unwrap_or_else(|| self.mentioned(&address))
    }

    fn bound(&self, address: &Address<'_>) -> Option<Decision> {
        let text = head(address.words);
        self.bindings.iter().enumerate().find_map(|(at, (pattern, action))| {
            let found = pattern.captures(text)?;
            let named = pattern.capture_names().flatten();
            let captures = named.map(|name| (name.to_owned(), found.name(name).map(|group| group.as_str()).into()));
            Some(Decision::Run(Run {
                rule: format!("binding:{at}"),
                trigger: Trigger::Binding,
                action: action.clone(),
                command: None,
                captures: Some(captures.collect()),
            }))
        })
    }

    fn keyword(&self, folded: &str) -> Option<Decision> {
        let (word, action) = self.keyword_actions.get(self.keywords.first_listed(head(folded))?)?;
        Some(plain_run(format!("keyword:{word}"), Trigger::Keyword, action))
    }

    fn mentioned(&self, address: &Address<'_>) -> Decision {
        match &self.mention {
            _ if !address.to_us => Decision::Ignore { reason: "chatter".to_owned() },
            Some(action) => plain_run("mention".to_owned(), Trigger::Mention, action),
            None => Decision::Ignore { reason: "no_mention_rule".to_owned() },
        }
    }
}

fn plain_run(rule: String, trigger: Trigger, action: &Arc<Action>) -> Decision {
    Decision::Run(Run { rule, trigger, action: action.clone(), command: None, captures: None })
}

/// The part of a text that is searched.
fn head(text: &str) -> &str {
    &text[..text.floor_char_boundary(SEARCHED)]
}
