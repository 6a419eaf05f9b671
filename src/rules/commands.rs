//! Commands: a prefix and a name (`/query 1001`), or a name alone where the text speaks to the bot.
//!
//! What always holds:
//!
//! - A name is a whole word: `/queryabc` is not `/query`, and a name inside prose is prose.
//! - What follows a prefix but can't be a command's name (`/etc/passwd`, `//`, `/stop@OtherBot`, `/` alone) is no
//!   command of ours and gets no hint.
//! - A command that is not for a member says so before it looks at what they wrote behind its name.
//! - Without a prefix, words beyond what a command takes make it prose, which is for `[mention]`, where there is one.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::args::{self, Fault};
use super::fold::{blank, fold, fold_char};
use super::form::Form;
use super::mention::{Address, Mentions, may_be_mentions};
use super::{Action, CommandCall, Decision, RuleError, Run, Trigger, texts};
use crate::config::settings::{self, Arg, Audience, Only, UnknownCommand};
use crate::model::{Message, SenderKind};

/// A command, ready to run.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) summary: String,
    pub(super) args: Vec<Arg>,
    pub(super) only: Option<Only>,
    pub(super) action: Arc<Action>,
}

/// An app's commands.
#[derive(Debug)]
pub(super) struct Commands {
    /// Folded, longest first.
    prefixes: Vec<String>,
    /// What texts show in front of a name.
    shown_prefix: String,
    unknown: UnknownCommand,
    admins: BTreeSet<String>,
    on_mention: bool,
    /// Whether prose that speaks to the bot has another rule to go to.
    prose_is_answered: bool,
    /// In the order of the file, the built-in `help` last.
    list: Vec<Command>,
    /// Folded names and aliases to places in `list`.
    by_name: HashMap<String, usize>,
    /// The name of the first command that lists the others.
    help: Option<String>,
}

impl Commands {
    /// Prepares the commands and adds `help` (帮助) where none of them lists the others and its name is free.
    pub(super) fn compile(rules: &settings::Rules) -> Result<Self, RuleError> {
        let mut prefixes: Vec<String> = rules.prefixes.iter().map(|prefix| fold(prefix)).collect();
        if prefixes.iter().any(|prefix| prefix.trim().is_empty()) {
            return Err(RuleError::Empty("prefix"));
        }
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        let mut commands = Self {
            prefixes,
            shown_prefix: rules.prefixes.first().cloned().unwrap_or_default(),
            unknown: rules.unknown_command,
            admins: rules.manners.admins.clone(),
            on_mention: rules.commands_on_mention,
            prose_is_answered: rules.mention.is_some(),
            list: Vec::with_capacity(rules.commands.len() + 1),
            by_name: HashMap::new(),
            help: None,
        };
        for command in &rules.commands {
            let place = format!("command `{}`", command.name);
            commands.add(Command {
                name: command.name.clone(),
                aliases: command.aliases.clone(),
                summary: command.summary.clone(),
                args: command.args.clone(),
                only: command.only.clone(),
                action: Action::compile(&command.action, &place)?,
            })?;
        }
        if !commands.admins.is_empty() {
            let manners = &rules.manners;
            commands.add_mute(true, texts::MUTE_SUMMARY, &manners.mute)?;
            commands.add_mute(false, texts::UNMUTE_SUMMARY, &manners.unmute)?;
        }
        if commands.help.is_none() && !commands.by_name.contains_key("help") {
            commands.add_help()?;
        }
        Ok(commands)
    }

    fn add_help(&mut self) -> Result<(), RuleError> {
        let aliases = ["帮助"].iter().filter(|alias| !self.by_name.contains_key(**alias));
        self.add(Command {
            name: "help".to_owned(),
            aliases: aliases.map(|alias| (*alias).to_owned()).collect(),
            summary: texts::HELP_SUMMARY.to_owned(),
            args: Vec::new(),
            only: None,
            action: Arc::new(Action::Help),
        })
    }

    fn add_mute(&mut self, mute: bool, summary: &str, names: &[String]) -> Result<(), RuleError> {
        let [name, aliases @ ..] = names else { return Ok(()) };
        self.add(Command {
            name: name.clone(),
            aliases: aliases.to_vec(),
            summary: summary.to_owned(),
            args: Vec::new(),
            only: Some(Only { audience: Audience::Admin, text: None }),
            action: Arc::new(Action::Mute(mute)),
        })
    }

    fn add(&mut self, command: Command) -> Result<(), RuleError> {
        for name in std::iter::once(&command.name).chain(&command.aliases) {
            let folded = fold(name);
            if folded.is_empty() || folded.contains(char::is_whitespace) {
                return Err(RuleError::NotAWord(name.clone()));
            }
            if self.by_name.insert(folded, self.list.len()).is_some() {
                return Err(RuleError::NameTaken(name.clone()));
            }
        }
        if self.help.is_none() && matches!(*command.action, Action::Help) {
            self.help = Some(command.name.clone());
        }
        self.list.push(command);
        Ok(())
    }

    /// The list that `help` answers this message with.
    pub(super) fn help_text(&self, mentions: &Mentions, message: &Message) -> String {
        texts::help(self.form(mentions, message), self.list.iter())
    }

    /// How commands are written in the chat of a message.
    fn form<'a>(&'a self, mentions: &'a Mentions, message: &Message) -> Form<'a> {
        Form { prefix: &self.shown_prefix, mention: mentions.needed(message), mention_leads: self.on_mention }
    }

    /// What a text does as a command; `None` where it is none.
    pub(super) fn decide(&self, mentions: &Mentions, address: &Address<'_>, message: &Message) -> Option<Decision> {
        if address.behind && !self.on_mention {
            return None;
        }
        match self.behind_prefix(address.words).or_else(|| self.behind_others(mentions, address)) {
            Some(words) => self.prefixed(mentions, words, message),
            None if self.on_mention => self.bare(mentions, address, message),
            None => None,
        }
    }

    /// The words behind a prefix.
    fn behind_prefix<'t>(&self, words: &'t str) -> Option<&'t str> {
        let behind = self.prefixes.iter().find_map(|prefix| {
            let mut chars = words.chars();
            prefix.chars().all(|want| chars.next().is_some_and(|c| fold_char(c) == want)).then_some(chars.as_str())
        })?;
        Some(behind.trim_start_matches(blank))
    }

    /// The words behind the prefix of a command that stands behind ours and other people's mentions: `@bot @Li Si /query 1`.
    fn behind_others<'t>(&self, mentions: &Mentions, address: &Address<'t>) -> Option<&'t str> {
        let words = address.words;
        let mut ends = words.match_indices(blank).filter(|_| address.behind);
        let (at, behind) =
            ends.find_map(|(at, _)| Some((at, self.behind_prefix(words[at..].trim_start_matches(blank))?)))?;
        let is_command = self.find(mentions.split_name(behind).name).is_some();
        (is_command && may_be_mentions(&words[..at])).then_some(behind)
    }

    fn prefixed(&self, mentions: &Mentions, words: &str, message: &Message) -> Option<Decision> {
        let named = mentions.split_name(words);
        if let Some(command) = self.find(named.name) {
            let called = self.call(command, named.rest, message);
            return Some(called.unwrap_or_else(|fault| refuse(self.form(mentions, message), command, &fault)));
        }
        can_be_a_name(named.name).then(|| match self.unknown {
            UnknownCommand::Ignore => Decision::Ignore { reason: "unknown_command".to_owned() },
            UnknownCommand::Hint => Decision::Say {
                rule: "unknown_command".to_owned(),
                text: texts::unknown(self.form(mentions, message), named.name, self.help.as_deref()),
                reason: None,
            },
        })
    }

    fn bare(&self, mentions: &Mentions, address: &Address<'_>, message: &Message) -> Option<Decision> {
        let named = mentions.split_name(address.words);
        let command = self.find(named.name).filter(|_| address.to_us || named.glued)?;
        match self.call(command, named.rest, message) {
            Ok(decision) => Some(decision),
            Err(Fault::TooMany) if self.prose_is_answered => None,
            Err(fault) => Some(refuse(self.form(mentions, message), command, &fault)),
        }
    }

    fn find(&self, name: &str) -> Option<&Command> {
        self.by_name.get(&fold(name)).and_then(|at| self.list.get(*at))
    }

    fn call<'a>(&self, command: &'a Command, rest: &'a str, message: &Message) -> Result<Decision, Fault<'a>> {
        let not_for = |only: &Only| only.text.clone().unwrap_or_else(|| texts::not_for(only.audience).to_owned());
        if let Some(only) = command.only.as_ref().filter(|only| !self.may_be_for(only.audience, message)) {
            return Ok(Decision::Say {
                rule: rule(command),
                text: not_for(only),
                reason: Some(only.audience.refusal()),
            });
        }
        let args = args::read(&command.args, rest)?;
        Ok(Decision::Run(Run {
            command: Some(CommandCall { name: command.name.clone(), args }),
            unless_bound: command
                .only
                .as_ref()
                .filter(|only| only.audience == Audience::Bound)
                .map(not_for)
                .map(Arc::from),
            ..Run::new(rule(command), Trigger::Command, command.action.clone())
        }))
    }

    /// As far as the message tells: who is bound is not known here.
    fn may_be_for(&self, audience: Audience, message: &Message) -> bool {
        match audience {
            Audience::Bound => true,
            Audience::Internal => message.sender_kind == SenderKind::Internal,
            Audience::External => message.sender_kind == SenderKind::External,
            Audience::Admin => self.admins.contains(&message.sender_key),
        }
    }
}

fn refuse(form: Form<'_>, command: &Command, fault: &Fault<'_>) -> Decision {
    let text = match fault {
        Fault::Missing(arg) => texts::missing(form, command, arg),
        Fault::Wrong { arg, given } => texts::wrong(form, command, arg, given),
        Fault::Beyond { arg, given, is_below } => texts::beyond(form, command, arg, given, *is_below),
        Fault::TooMany => texts::too_many(form, command),
    };
    Decision::Say { rule: rule(command), text, reason: None }
}

fn rule(command: &Command) -> String {
    format!("command:{}", command.name)
}

/// Whether a word behind a prefix looks like a try at a command, rather than a path, an emoticon or another bot's.
fn can_be_a_name(word: &str) -> bool {
    let folded = fold(word);
    folded.starts_with(char::is_alphabetic) && folded.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}
