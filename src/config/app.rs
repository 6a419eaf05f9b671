//! `apps/<id>.toml`: one WeCom app: its kind and times, its chats and their routes, its rules.
//!
//! What is checked across files (webhooks, time to live) is read out of every app file, even of one with faults.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::gateway;
use super::kind::{self, Kind, OfKind};
use super::reader::{Source, Table, is_visible};
use super::route::{self, Use};
use super::rules;
use super::session;
use super::settings::{Api, App, Chat, ChatWay, OnUnknown, Rules, Settings};
use super::units;
use crate::store::Pace;
use crate::wecom::payload::Fields;

/// What only an app's file has, and `gateway.toml` might hold by mistake.
pub(super) const SECTIONS: [&str; 10] =
    ["kind", "chats", "chats_default", "fields", "session", "rules", "commands", "keywords", "mention", "bindings"];

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What a chat's robot may send unless it is said otherwise: WeCom's own limit.
pub(crate) const ROBOT_PACE: Pace = Pace { limit: 20, window: Duration::from_secs(60) };

/// An app file as read: what the checks across files need, and the app itself, unless it lacks what makes its kind.
pub(super) struct AppFile {
    pub(super) file: PathBuf,
    pub(super) id: String,
    pub(super) max_reply_age: Duration,
    pub(super) dedup_ttl: Duration,
    /// Whether `dedup_ttl` comes from `[dedup] ttl`.
    pub(super) shares_ttl: bool,
    /// Whether its callbacks carry a timestamp, so that `[dedup] max_skew` bounds how old they may be.
    pub(super) has_timestamps: bool,
    pub(super) longest_action: Duration,
    pub(super) webhooks: Vec<Use>,
    pub(super) app: Option<App>,
}

/// Reads one app file; the process's own settings are read before it.
pub(super) fn read<'a>(source: &'a Source<'a>, id: &str, process: &Settings) -> Option<AppFile> {
    source.read(|t| app(t, id, process))
}

fn app(t: &mut Table, id: &str, process: &Settings) -> AppFile {
    let of_kind = kind::kind(t, &process.server);
    let kind = of_kind.kind;
    let max_reply_age = t.span("max_reply_age", Duration::from_secs(10 * 60));
    let own_ttl = t.parsed("dedup_ttl", units::some_duration);
    let is_json = kind == Some(Kind::Json);
    let dedup_ttl = own_ttl.unwrap_or(if is_json { DAY } else { process.dedup.ttl });
    let on_unknown = on_unknown(t, kind);

    let bot_names = bot_names(t);
    let (pace, coalesce) =
        t.section("chats_default", |t| (t.parsed("pace", units::rate).unwrap_or(ROBOT_PACE), t.flag("coalesce", true)));
    let (chats, webhooks) = chats(t, (pace, coalesce), process, &of_kind);
    let fields = t.section("fields", |t| Fields {
        chat_id: t.strings("chat_id").unwrap_or_default(),
        msg_id: t.strings("msg_id").unwrap_or_default(),
        sender: t.strings("sender").unwrap_or_default(),
    });
    let session = t.section("session", |t| session::session(t, &process.workers));
    let rules = rules::rules(t, max_reply_age);
    t.belong_elsewhere(&gateway::SECTIONS, "is of the whole process, and belongs in gateway.toml");
    AppFile {
        file: t.file().to_owned(),
        id: id.to_owned(),
        max_reply_age,
        dedup_ttl,
        shares_ttl: own_ttl.is_none() && !is_json,
        has_timestamps: !is_json,
        longest_action: longest_action(&rules),
        webhooks,
        app: of_kind.inbound.map(|kind| App {
            id: id.to_owned(),
            kind,
            api: of_kind.api,
            gateway: of_kind.gateway,
            on_unknown: on_unknown.unwrap_or(OnUnknown::Hold),
            bot_names,
            max_reply_age,
            dedup_ttl,
            chats,
            pace,
            coalesce,
            fields,
            session,
            rules,
        }),
    }
}

/// `on_unknown`; where no channel of the kind can know a repeat, asking for one is a fault.
fn on_unknown(t: &mut Table, kind: Option<Kind>) -> Option<OnUnknown> {
    let policy = t.word("on_unknown", &[("hold", OnUnknown::Hold), ("retry", OnUnknown::Retry)]);
    if let (Some(OnUnknown::Retry), Some(Kind::GroupRobot | Kind::Aibot)) = (policy, kind) {
        let why = "\"retry\" can't be done here: neither a robot's webhook nor a response_url knows a repeat";
        t.fault("on_unknown", format!("{why}; write \"hold\", or remove it"));
    }
    policy
}

fn longest_action(rules: &Rules) -> Duration {
    rules.actions().map(rules::longest).max().unwrap_or_default()
}

/// `bot_names`; an `@` that was copied with a name is no part of it.
fn bot_names(t: &mut Table) -> Vec<String> {
    let names = t.strings("bot_names").unwrap_or_default();
    let bare = |(i, name): (usize, String)| {
        let bare = name.trim_start().trim_start_matches(['@', '＠']);
        if !is_visible(bare) {
            t.fault(&format!("bot_names[{i}]"), format!("{name:?} holds no name: write it, without \"@\""));
        }
        bare.to_owned()
    };
    names.into_iter().enumerate().map(bare).collect()
}

/// `[[chats]]`, and where each names which robot.
fn chats(
    t: &mut Table,
    (pace, coalesce): (Pace, bool),
    process: &Settings,
    of_kind: &OfKind,
) -> (BTreeMap<String, Chat>, Vec<Use>) {
    let mut webhooks = Vec::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let chats = t.each("chats", |t| {
        let id = t.filled("id");
        let id = t.require("id", id, "write the chat's id as it stands in its callbacks");
        let route = t.parsed_unseen("webhook", |text| route::webhook(text, &process.wecom));
        let app_chat = app_chat(t, of_kind, route.is_some());
        let (webhook, robot) = route.unzip();
        if let Some(robot) = robot {
            let whose = format!("chat {:?}", id.as_deref().unwrap_or_default());
            webhooks.push(Use { robot, file: t.file().to_owned(), key: t.path_of("webhook"), whose });
        }
        let coalesce = t.flag("coalesce", coalesce);
        let name = t.string("name");
        let weight = t.whole("weight", 1..=100).and_then(|n| u32::try_from(n).ok()).unwrap_or(1);
        let pace = t.parsed("pace", units::rate).unwrap_or(pace);
        let way = webhook.map(ChatWay::Webhook).or(app_chat.map(ChatWay::AppChat));
        let chat = Chat { id: id?, name, weight, pace, coalesce, way }; // left only when every key is read
        if let Some(place) = places.insert(chat.id.clone(), t.path_of("id")) {
            t.fault("id", format!("{:?} has an entry already ({place}): make the two one", chat.id));
        }
        Some((chat.id.clone(), chat))
    });
    (chats.into_iter().collect(), webhooks)
}

/// `appchat = true`: the API side by which the app reaches a group that it made.
fn app_chat(t: &mut Table, of_kind: &OfKind, has_webhook: bool) -> Option<Arc<Api>> {
    if !t.flag("appchat", false) {
        return None;
    }
    if has_webhook {
        t.fault("appchat", "stands beside a webhook: a chat is answered by one of them, remove the other");
    }
    match of_kind.kind {
        Some(Kind::App) if of_kind.api.is_none() && t.sound_above(&["corp_id", "agent_id", "secret"]) => {
            t.fault("appchat", "needs the app's API side: write corp_id, agent_id and secret");
        }
        Some(Kind::GroupRobot | Kind::Aibot | Kind::Json) => {
            t.fault("appchat", "is only for kind \"app\": remove it, or give the chat a webhook");
        }
        Some(Kind::App) | None => {}
    }
    of_kind.api.clone()
}
