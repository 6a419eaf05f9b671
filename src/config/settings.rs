//! The checked settings: what the rest of the program sees. Nothing here is half set; every value has passed
//! every check of [`super::load`], so later code needs no "if configured wrongly".

mod alarms;
mod kafka;
mod kind;
mod llm;
mod log;
mod manners;
mod push;
mod records;
mod restart;
mod session;
mod telemetry;
mod ways;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use url::Url;

pub use manners::{Audience, Manners, Only, Terms};

pub use self::kafka::Kafka;
pub use self::kind::{AppKind, JsonAuth};
pub use self::llm::{AnswerFormat, LlmAction};
pub use self::log::{Log, LogFormat};
pub use self::records::{Database, Report};
pub use self::session::{Session, SessionScope};
pub use self::telemetry::Tracing;
use crate::model::{Message, Secret};
use crate::store::{Options, Pace};
pub use alarms::{AlarmHook, Alarms};
pub use push::Push;
pub use ways::{Api, Chat, ChatWay, Gateway, OnUnknown, Webhook};

/// One process and its apps.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `[server]`
    pub server: Server,
    /// `[admin]`
    pub admin: Admin,
    /// `[wecom]`
    pub wecom: WeCom,
    /// `[store]`
    pub store: Store,
    /// `[database]`
    pub database: Database,
    /// `[dedup]`
    pub dedup: Dedup,
    /// `[workers]`
    pub workers: Workers,
    /// `[sender]`
    pub sender: Sender,
    /// `[push]`
    pub push: Push,
    /// `[alarms]`
    pub alarms: Alarms,
    /// `[report]`
    pub report: Report,
    /// `[kafka]`, where it is there.
    pub kafka: Option<Kafka>,
    /// `[log]`
    pub log: Log,
    /// `[telemetry]`, where it names a collector.
    pub telemetry: Option<Tracing>,
    /// `apps/<id>.toml`, by id.
    pub apps: BTreeMap<String, Arc<App>>,
    /// What the files said.
    pub files: super::Files,
}

impl Settings {
    /// What the store is opened with.
    pub fn store_options(&self) -> Options {
        let Store { shards, replicas, max_waiting, fsync, .. } = self.store;
        Options { shards, replicas, max_waiting, poison_after: self.workers.poison_after, fsync }
    }
}

/// The public listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// Callbacks only.
    pub listen: SocketAddr,
    /// Bytes; a larger body is refused (413) before anything is computed.
    pub max_body: usize,
    /// An answer leaves within this.
    pub deadline: Duration,
    /// How long stopping waits for work under way; at least `deadline`.
    pub drain: Duration,
    /// How often the configuration's files are looked at; `None`: only when asked to.
    pub watch: Option<Duration>,
}

/// The operators' listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// Probes, API, metrics.
    pub listen: SocketAddr,
    /// None: loopback clients only.
    pub tokens: Vec<AdminToken>,
}

/// A bearer token and what it may do.
#[derive(Clone, Debug, PartialEq)]
pub struct AdminToken {
    /// Who, for logs.
    pub name: String,
    /// The bearer text.
    pub secret: Secret,
    /// What it may do.
    pub scope: Scope,
}

/// Each scope includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// See the metrics, and nothing of anybody.
    Metrics,
    /// Look.
    Read,
    /// Look and push.
    Push,
    /// Everything.
    Admin,
}

impl Scope {
    /// Its word in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Read => "read",
            Self::Push => "push",
            Self::Admin => "admin",
        }
    }
}

/// WeCom's side.
#[derive(Clone, Debug, PartialEq)]
pub struct WeCom {
    /// Where the API lives, without a trailing slash.
    pub api_base: Url,
    /// Hosts that a webhook or response_url may point at.
    pub webhook_hosts: Vec<String>,
}

/// Where lanes live.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    /// Which implementation.
    pub backend: Backend,
    /// The process's own folder (embedded store, spool, lock file).
    pub path: PathBuf,
    /// Redis address; may hold a password.
    pub redis: Secret,
    /// 1..=99, fixed at first start.
    pub shards: u16,
    /// So many replicas of Redis must have a write before an ack and before a send.
    pub replicas: u32,
    /// Most messages (or deliveries) that may wait in one lane.
    pub lane_depth: u64,
    /// Most bytes of messages that are kept while Redis is away; `None`: no spool (the embedded store needs none).
    pub spool_limit: Option<u64>,
    /// Most messages and deliveries that may wait in the whole store.
    pub max_waiting: u64,
    /// Embedded: whether the disk must have a message before its ack.
    pub fsync: bool,
}

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// SQLite under `path`.
    Embedded,
    /// Redis.
    Redis,
}

/// Deduplication.
#[derive(Clone, Debug)]
pub struct Dedup {
    /// How long a message is remembered.
    pub ttl: Duration,
    /// The in-process filter; zero is off.
    pub window: Duration,
    /// How old a callback's timestamp may be; `None` is off.
    pub max_skew: Option<Duration>,
}

/// Handling.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Actions under way at once; one app holds at most half.
    pub concurrency: usize,
    /// Lease of an inbound lane.
    pub lease: Duration,
    /// What keeps its order.
    pub order: Order,
    /// How many times a message may bring its worker down.
    pub poison_after: u32,
}

/// Messages are handled in arrival order per …
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// … member in a chat.
    Sender,
    /// … chat.
    Chat,
}

/// Sending.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    /// Chats being sent to at once by this process; already resolved (never 0).
    pub max_chats: usize,
    /// One request.
    pub timeout: Duration,
    /// Lease of an outbound lane.
    pub lease: Duration,
    /// See [`crate::store::Turn`].
    pub head_start: Duration,
}

/// One WeCom app.
#[derive(Clone, Debug)]
pub struct App {
    /// The file's name.
    pub id: String,
    /// What posts its callbacks, and how they are trusted.
    pub kind: AppKind,
    /// The API side of kind `app`, where its secret is known.
    pub api: Option<Arc<Api>>,
    /// Where replies of kind `json` are posted, where that is said.
    pub gateway: Option<Arc<Gateway>>,
    /// What happens to a reply whose outcome is unknown, where its channel knows a repeat.
    pub on_unknown: OnUnknown,
    /// What an @mention may call it.
    pub bot_names: Vec<String>,
    /// From arrival; see contract section 2.
    pub max_reply_age: Duration,
    /// How long a message of this app is remembered (`[dedup] ttl` unless the app says its own).
    pub dedup_ttl: Duration,
    /// Chats with a route, by chat id.
    pub chats: BTreeMap<String, Chat>,
    /// Rate for chats that say nothing else. An app's own limits hold besides.
    pub pace: Pace,
    /// Whether waiting replies leave as one message in chats that say nothing else.
    pub coalesce: bool,
    /// Extra spellings of callback fields.
    pub fields: crate::wecom::payload::Fields,
    /// What is remembered between two messages.
    pub session: Session,
    /// Triggers and what they do.
    pub rules: Rules,
}

/// How long an event without an id and without a time of its own is known by its digest (contract, section 3).
const TIMELESS_EVENT_TTL: Duration = Duration::from_secs(60);

impl App {
    /// How long `message` is remembered.
    pub fn mark_ttl(&self, message: &Message) -> Duration {
        if message.is_timeless() { TIMELESS_EVENT_TTL } else { self.dedup_ttl }
    }
}

/// `[rules]`, `[[commands]]`, `[[keywords]]`, `[mention]`, `[[bindings]]`.
#[derive(Clone, Debug)]
pub struct Rules {
    /// In front of a command.
    pub prefixes: Vec<String>,
    /// What an unknown command gets.
    pub unknown_command: UnknownCommand,
    /// Words that are never answered (list and file joined).
    pub sensitive: Vec<String>,
    /// `@bot /query 1` and `@bot query 1` are commands too.
    pub commands_on_mention: bool,
    /// A text that begins with a bot's name is a mention too.
    pub bare_name: bool,
    /// In the order of the file.
    pub commands: Vec<Command>,
    /// In the order of the file.
    pub keywords: Vec<Keyword>,
    /// @bot with anything that is no command.
    pub mention: Option<Action>,
    /// Sentences by which members say who they are.
    pub bindings: Vec<Binding>,
    /// How it behaves towards members.
    pub manners: Manners,
}

impl Rules {
    /// What its rules do.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        let commands = self.commands.iter().map(|command| &command.action);
        let keywords = self.keywords.iter().map(|keyword| &keyword.action);
        let bindings = self.bindings.iter().filter_map(|binding| binding.action.as_ref());
        commands.chain(keywords).chain(&self.mention).chain(bindings)
    }
}

/// What an unknown command gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownCommand {
    /// A hint at `help`.
    Hint,
    /// Nothing.
    Ignore,
}

/// A command.
#[derive(Clone, Debug)]
pub struct Command {
    /// Its name.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// One line for `help`.
    pub summary: String,
    /// In order.
    pub args: Vec<Arg>,
    /// Whom it is for; `None`: everybody.
    pub only: Option<Only>,
    /// What it does.
    pub action: Action,
}

/// An argument.
#[derive(Clone, Debug)]
pub struct Arg {
    /// Its key in `args`.
    pub name: String,
    /// What members read; the name where none is given.
    pub label: String,
    /// What it must be.
    pub kind: ArgKind,
    /// Whether it must be there.
    pub required: bool,
}

/// What an argument must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// One word.
    String,
    /// A whole number within i64.
    Integer,
    /// A decimal number.
    Number,
    /// A Chinese mobile number, `+86` and separators allowed.
    Phone,
    /// A calendar date.
    Date,
    /// One of these.
    Choice(Vec<String>),
    /// All that is left.
    Rest,
}

/// A keyword rule: matches where any of the words stands in the text.
#[derive(Clone, Debug)]
pub struct Keyword {
    /// The words.
    pub any: Vec<String>,
    /// What it does.
    pub action: Action,
}

/// A binding sentence.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Where the sentence says who; named groups are captures.
    pub pattern: regex::Regex,
    /// What it does; without one its captures are kept, and the member is told so.
    pub action: Option<Action>,
    /// What it does to its member.
    pub terms: Terms,
}

/// What a trigger does.
#[derive(Clone, Debug)]
pub enum Action {
    /// A template, checked: it compiles and holds plain values only.
    Reply {
        /// The template's text.
        text: String,
    },
    /// Lists the commands.
    Help,
    /// Asks a service (contract, section 5).
    Http(HttpAction),
    /// Asks a model.
    Llm(LlmAction),
}

/// An HTTP action.
#[derive(Clone, Debug)]
pub struct HttpAction {
    /// Where.
    pub url: Url,
    /// For the whole call; at most the app's `max_reply_age`.
    pub timeout: Duration,
    /// Signs the request.
    pub secret: Option<Secret>,
}

#[cfg(test)]
impl App {
    /// An app that does nothing, for tests to change.
    pub(crate) fn for_tests(id: &str, kind: AppKind) -> Self {
        Self {
            id: id.to_owned(),
            kind,
            api: None,
            gateway: None,
            on_unknown: OnUnknown::Hold,
            bot_names: Vec::new(),
            max_reply_age: Duration::from_secs(600),
            dedup_ttl: Duration::from_secs(3600),
            chats: BTreeMap::new(),
            coalesce: true,
            pace: Pace { limit: 20, window: Duration::from_secs(60) },
            fields: crate::wecom::payload::Fields::default(),
            session: Session::default(),
            rules: Rules {
                prefixes: Vec::new(),
                unknown_command: UnknownCommand::Ignore,
                sensitive: Vec::new(),
                commands_on_mention: false,
                bare_name: false,
                commands: Vec::new(),
                keywords: Vec::new(),
                mention: None,
                bindings: Vec::new(),
                manners: Manners::default(),
            },
        }
    }
}
