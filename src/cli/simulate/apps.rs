//! The apps of a simulation, read from the gateway's own files, and whether a load on them can be judged: every webhook leads
//! to the fake, and every text of the mix is answered in a way that names its message, or not at all.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use rand::SeedableRng;
use rand::rngs::StdRng;
use url::{Host, Url};

use crate::action::{self, Actions, Answer, Request};
use crate::config::settings::{App, AppKind};
use crate::config::{self, Faults};
use crate::member::Profile;
use crate::model::{ChatKind, Message, SenderKind, Session};
use crate::rules::{Action, Decision, RuleError, RuleSet, Run};
use crate::sim::Tag;
use crate::sim::texts::{TextKind, TextMix};
use crate::store::Pace;
use crate::wecom::crypto::CallbackCrypto;

/// An app that a load can be posted to.
#[derive(Debug)]
pub(super) struct LoadedApp {
    pub id: String,
    pub crypto: CallbackCrypto,
    /// What an @mention calls.
    pub bot: String,
    /// Each chat and the key of its robot.
    pub robots: Vec<(String, String)>,
    /// The pace of its chats where a load would run into it.
    pub slow_pace: Option<Pace>,
}

/// More replies a second than this a load has for no chat.
const FAST_PACE: f64 = 50.0;

/// Why no load can be posted to an app.
#[derive(Debug, thiserror::Error)]
pub(super) enum AppFault {
    #[error("{}: there is no such file: name the app's file, as the gateway has it", .0.display())]
    NoFile(PathBuf),
    #[error(transparent)]
    File(#[from] Faults),
    #[error(transparent)]
    Rules(#[from] RuleError),
    #[error("app {0}: only kind \"group_robot\" can be simulated")]
    Kind(String),
    #[error("app {0} has no [[chats]]: give it some, each with a webhook at http://{1}/cgi-bin/webhook/send?key=…")]
    NoChats(String, SocketAddr),
    #[error(
        "app {app}, chat {chat}: its webhook leads {lead}, so its replies would not be seen here: write \
         http://{listen}/cgi-bin/webhook/send?key=…, or name that address with --listen"
    )]
    Webhook { app: String, chat: String, lead: String, listen: SocketAddr },
    #[error("app {0}, chat {1:?}: an id with a blank or a bracket can't be traced: give the chat another id")]
    ChatId(String, String),
    #[error("chat {0} is in two of the apps: the load tells chats apart by their ids, so give it one app")]
    ChatTwice(String),
    #[error("app {0} has no bot_names: add one, or leave mentions out of --mix")]
    NoBotName(String),
    #[error(
        "app {app}: {text:?} {why}: give the app the rules of config/load/apps/load.toml, or leave {share} out of --mix"
    )]
    Untraceable { app: String, text: String, why: &'static str, share: &'static str },
    #[error("no HTTP client: {0}")]
    Http(#[from] reqwest::Error),
}

/// Reads the files and checks that a load of `mix` can be judged by a fake at `listen`.
pub(super) async fn read(files: &[PathBuf], listen: SocketAddr, mix: &TextMix) -> Result<Vec<LoadedApp>, AppFault> {
    if let Some(file) = files.iter().find(|file| !file.is_file()) {
        return Err(AppFault::NoFile(file.clone()));
    }
    let mut apps = Vec::new();
    let mut chats = HashSet::new();
    for app in config::load_apps(files)? {
        let loaded = loaded(&app, listen, mix)?;
        if let Some((twice, _)) = loaded.robots.iter().find(|(chat, _)| !chats.insert(chat.clone())) {
            return Err(AppFault::ChatTwice(twice.clone()));
        }
        Rehearsal::new(&app, &loaded, listen)?.of(mix).await?;
        apps.push(loaded);
    }
    Ok(apps)
}

fn loaded(app: &App, listen: SocketAddr, mix: &TextMix) -> Result<LoadedApp, AppFault> {
    let id = app.id.clone();
    let AppKind::GroupRobot(crypto) = &app.kind else { return Err(AppFault::Kind(id)) };
    let mut robots = Vec::new();
    for chat in app.chats.values() {
        if chat.id.contains([' ', '[', ']']) {
            return Err(AppFault::ChatId(id, chat.id.clone()));
        }
        let webhook = chat.webhook().and_then(|webhook| Url::parse(webhook.url.expose()).ok());
        let key = webhook.as_ref().filter(|url| leads_to(url, listen)).and_then(key);
        let key = key.ok_or_else(|| {
            // Not the rest: it holds the robot's key.
            let origin = webhook.as_ref().map(|url| url.origin().ascii_serialization());
            let lead = origin.map_or("nowhere".to_owned(), |origin| format!("to {origin}"));
            AppFault::Webhook { app: app.id.clone(), chat: chat.id.clone(), lead, listen }
        })?;
        robots.push((chat.id.clone(), key));
    }
    if robots.is_empty() {
        return Err(AppFault::NoChats(id, listen));
    }
    let bot = app.bot_names.first().cloned();
    if bot.is_none() && mix.mentions > 0 {
        return Err(AppFault::NoBotName(id));
    }
    let per_second = |pace: Pace| f64::from(pace.limit) / pace.window.as_secs_f64();
    let paces = app.chats.values().map(|chat| chat.pace).filter(|pace| per_second(*pace) < FAST_PACE);
    let slow_pace = paces.min_by(|a, b| per_second(*a).total_cmp(&per_second(*b)));
    Ok(LoadedApp { id, crypto: crypto.clone(), bot: bot.unwrap_or_default(), robots, slow_pace })
}

/// Whether a URL is of the fake at `listen`; where that is every address of the machine, the port tells.
fn leads_to(url: &Url, listen: SocketAddr) -> bool {
    let is_host = match url.host() {
        Some(Host::Ipv4(ip)) => listen.ip() == ip,
        Some(Host::Ipv6(ip)) => listen.ip() == ip,
        Some(Host::Domain(name)) => name == "localhost" && listen.ip().is_loopback(),
        None => false,
    };
    url.port_or_known_default() == Some(listen.port()) && (is_host || listen.ip().is_unspecified())
}

fn key(url: &Url) -> Option<String> {
    let key = || url.query_pairs().find(|(name, _)| name == "key").map(|(_, key)| key.into_owned());
    (url.path() == "/cgi-bin/webhook/send").then(key).flatten()
}

/// The rules of an app on one text of each kind, before any is posted.
struct Rehearsal<'a> {
    app: &'a App,
    loaded: &'a LoadedApp,
    listen: SocketAddr,
    rules: RuleSet,
    actions: Actions,
}

impl<'a> Rehearsal<'a> {
    fn new(app: &'a App, loaded: &'a LoadedApp, listen: SocketAddr) -> Result<Self, AppFault> {
        // No call is made by it.
        let actions = Actions::new(action::http_client()?);
        Ok(Self { app, loaded, listen, rules: RuleSet::compile(app)?, actions })
    }

    async fn of(&self, mix: &TextMix) -> Result<(), AppFault> {
        let chat = self.loaded.robots.first().map(|(chat, _)| chat.as_str()).unwrap_or_default();
        let tag = Tag::new(chat, "zhang000", 17);
        for (kind, _) in mix.kinds() {
            let text = kind.write(&tag, &self.loaded.bot, &mut StdRng::seed_from_u64(0));
            if let Some(why) = self.fault(kind, &tag, &text).await {
                let (app, share) = (self.loaded.id.clone(), kind.share());
                return Err(AppFault::Untraceable { app, text, why, share });
            }
        }
        Ok(())
    }

    /// What keeps the answer to `text` from being judged.
    async fn fault(&self, kind: TextKind, tag: &Tag, text: &str) -> Option<&'static str> {
        let message = message(&self.app.id, tag, text);
        match (self.rules.decide(&message), kind.is_answered()) {
            (Decision::Ignore { .. } | Decision::Block { .. }, false) => None,
            (_, false) => Some("would be answered, and should not be"),
            (Decision::Ignore { .. } | Decision::Block { .. }, true) => Some("would not be answered"),
            (Decision::Say { .. }, true) => Some("is no command of this app"),
            (Decision::Run(run), true) => self.fault_of_run(&run, tag, &message).await,
        }
    }

    async fn fault_of_run(&self, run: &Run, tag: &Tag, message: &Message) -> Option<&'static str> {
        if let Action::Http(action) = &*run.action {
            let ours = leads_to(&action.url, self.listen) && action.url.path().starts_with("/action/");
            return (!ours).then_some("would be answered by a service that names no message (not by /action/… here)");
        }
        let (session, profile) = (Session::default(), Profile::default());
        let request = Request {
            message,
            chat_name: None,
            run,
            session: &session,
            profile: &profile,
            rules: &self.rules,
            trace: None,
        };
        let said = match self.actions.run(request).await {
            Ok(Answer::Say { messages, .. }) => messages.first().map(ToString::to_string).unwrap_or_default(),
            Ok(Answer::Silent | Answer::Later) | Err(_) => String::new(),
        };
        (Tag::of(&said).as_ref() != Some(tag)).then_some("would be answered without naming its message")
    }
}

fn message(app: &str, tag: &Tag, text: &str) -> Message {
    Message {
        request_id: String::new(),
        app: app.to_owned(),
        chat_id: tag.chat.clone(),
        chat_kind: ChatKind::Group,
        msg_id: "rehearsal".to_owned(),
        sender_key: tag.sender.clone(),
        sender_kind: SenderKind::Internal,
        sender_name: None,
        msg_type: "text".to_owned(),
        text: text.to_owned(),
        sent_at: None,
        received_at: 0,
        response_url: None,
        trace: None,
    }
}
