//! `apps/<id>.toml`: one WeCom app: what posts its callbacks, its chats and their routes, its rules.
//!
//! Keys that only another kind of app has are faults, not silently without effect.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::reader::{Source, Table, quoted};
use super::route::{self, Use};
use super::rules;
use super::settings::{App, AppKind, Chat, JsonAuth, Rules, Settings};
use super::units;
use crate::model::Secret;
use crate::store::Pace;
use crate::wecom::crypto::{CallbackCrypto, ReceiveId};
use crate::wecom::payload::Fields;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What a chat's robot may send unless it is said otherwise: WeCom's own limit.
const ROBOT_PACE: Pace = Pace { limit: 20, window: Duration::from_secs(60) };

/// An app file as read: what the checks across files need, and the app itself where nothing it can't do without is at fault.
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

/// `kind`, before the values that come with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    App,
    GroupRobot,
    Aibot,
    Json,
}

const KINDS: [(&str, Kind); 4] =
    [("app", Kind::App), ("group_robot", Kind::GroupRobot), ("aibot", Kind::Aibot), ("json", Kind::Json)];

fn app(t: &mut Table, id: &str, process: &Settings) -> AppFile {
    let kind = t.word("kind", &KINDS);
    let kind = t.require("kind", kind, &format!("write one of {}", quoted(&KINDS.map(|(name, _)| name))));
    let app_kind = match kind {
        Some(kind) => app_kind(t, kind, process),
        None => {
            KEYS_OF_KINDS.iter().flat_map(|(keys, _)| *keys).for_each(|key| drop(t.take(key)));
            None
        }
    };
    let max_reply_age = t.span("max_reply_age", Duration::from_secs(10 * 60));
    let own_ttl = t.parsed("dedup_ttl", units::some_duration);
    let default_ttl = if kind == Some(Kind::Json) { DAY } else { process.dedup.ttl };
    let dedup_ttl = own_ttl.unwrap_or(default_ttl);
    t.word("on_unknown", &[("hold", ()), ("retry", ())]); // taken for its form; no channel of this version repeats

    let bot_names = t.strings("bot_names").unwrap_or_default();
    let pace = t.section("chats_default", |t| {
        t.flag("coalesce", true); // taken for its form; no replies are joined yet
        t.parsed("pace", units::rate).unwrap_or(ROBOT_PACE)
    });
    let (chats, webhooks) = chats(t, pace, process);
    let fields = t.section("fields", |t| Fields {
        chat_id: t.strings("chat_id").unwrap_or_default(),
        msg_id: t.strings("msg_id").unwrap_or_default(),
        sender: t.strings("sender").unwrap_or_default(),
    });
    let rules = rules::rules(t, max_reply_age);
    AppFile {
        file: t.file().to_owned(),
        id: id.to_owned(),
        max_reply_age,
        dedup_ttl,
        shares_ttl: own_ttl.is_none() && kind != Some(Kind::Json),
        has_timestamps: kind != Some(Kind::Json),
        longest_action: longest_action(&rules),
        webhooks,
        app: app_kind.map(|kind| App {
            id: id.to_owned(),
            kind,
            bot_names,
            max_reply_age,
            dedup_ttl,
            chats,
            pace,
            fields,
            rules,
        }),
    }
}

fn longest_action(rules: &Rules) -> Duration {
    let commands = rules.commands.iter().map(|c| &c.action);
    let keywords = rules.keywords.iter().map(|k| &k.action);
    let bindings = rules.bindings.iter().map(|b| &b.action);
    commands.chain(keywords).chain(&rules.mention).chain(bindings).map(rules::longest).max().unwrap_or_default()
}

/// Keys that only some kinds have.
const KEYS_OF_KINDS: [(&[&str], &[Kind]); 3] = [
    (&["token", "encoding_aes_key", "receive_id"], &[Kind::App, Kind::GroupRobot, Kind::Aibot]),
    (&["corp_id", "agent_id", "secret"], &[Kind::App]),
    (&["auth", "gateway"], &[Kind::Json]),
];

fn app_kind(t: &mut Table, kind: Kind, process: &Settings) -> Option<AppKind> {
    refuse_foreign_keys(t, kind);
    match kind {
        Kind::App => {
            let corp_id = api_side(t);
            crypto(t, corp_id).map(AppKind::App)
        }
        Kind::GroupRobot => crypto(t, None).map(AppKind::GroupRobot),
        Kind::Aibot => crypto(t, None).map(AppKind::Aibot),
        Kind::Json => {
            send_side(t);
            json_auth(t, process).map(AppKind::Json)
        }
    }
}

fn refuse_foreign_keys(t: &mut Table, kind: Kind) {
    let name_of = |kind: Kind| KINDS.iter().find(|(_, k)| *k == kind).map_or("", |(name, _)| *name);
    for (keys, kinds) in KEYS_OF_KINDS.iter().filter(|(_, kinds)| !kinds.contains(&kind)) {
        let owners: Vec<_> = kinds.iter().map(|kind| name_of(*kind)).collect();
        for key in *keys {
            if t.take(key).is_some() {
                t.fault(
                    key,
                    format!(
                        "belongs to kind {}, and this app is {:?}: remove it, or correct kind",
                        quoted(&owners),
                        name_of(kind)
                    ),
                );
            }
        }
    }
}

/// Token, key and receive id of an encrypted kind; `receive_id` is the corp id where that is given and it is not.
fn crypto(t: &mut Table, corp_id: Option<String>) -> Option<CallbackCrypto> {
    let token = t.parsed_unseen("token", token);
    let token = t.require("token", token, "copy it from where the callback was set up in WeCom, best as \"${NAME}\"");
    let key = t.secret("encoding_aes_key");
    let key = t.require(
        "encoding_aes_key",
        key,
        "copy the 43 characters from where the callback was set up in WeCom, best as \"${NAME}\"",
    );
    let receive_id = match t.string("receive_id").or(corp_id).unwrap_or_default() {
        any if any == "*" => ReceiveId::Any,
        exactly => ReceiveId::Exactly(exactly),
    };
    // A faulty token must not hide a faulty key.
    let crypto = CallbackCrypto::new(token.clone().unwrap_or_default(), &key?, receive_id);
    let crypto = crypto.map_err(|e| {
        t.fault(
            "encoding_aes_key",
            format!("{e}: copy the 43 characters again from where the callback was set up in WeCom"),
        )
    });
    token.and(crypto.ok())
}

/// WeCom takes 1 to 32 letters or digits.
fn token(text: &str) -> Result<Secret, units::Mend> {
    let length = text.chars().count();
    if !(1..=32).contains(&length) {
        return Err(format!(
            "is {length} characters long, WeCom's tokens are 1 to 32: copy it again from where the callback was set up"
        ));
    }
    if !text.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err(
            "holds something that is no letter or digit (a blank?): copy it again from where the callback was set up"
                .into(),
        );
    }
    Ok(Secret::new(text))
}

/// The API side of kind `app`, checked for its form; answers the corp id.
fn api_side(t: &mut Table) -> Option<String> {
    let corp_id = t.filled("corp_id");
    let given = [
        ("corp_id", corp_id.is_some()),
        ("agent_id", t.whole("agent_id", 1..=u64::MAX).is_some()),
        ("secret", t.secret("secret").is_some()),
    ];
    if given.iter().any(|(_, given)| *given) {
        for (key, _) in given.iter().filter(|(_, given)| !given) {
            t.fault(key, "is missing: corp_id, agent_id and secret are needed together, to answer by the API");
        }
    }
    corp_id
}

/// `[gateway]` of kind `json`, checked for its form.
fn send_side(t: &mut Table) {
    t.section_if("gateway", |t| {
        let url = t.parsed_unseen("url", super::gateway::web_url);
        t.require("url", url, "write where replies are posted, such as \"http://127.0.0.1:9000/send\"");
        t.filled("instance_guid");
        t.span("client_msg_id_window", Duration::from_secs(10 * 60));
    });
}

fn json_auth(t: &mut Table, process: &Settings) -> Option<JsonAuth> {
    const TYPES: [&str; 3] = ["header", "hmac_sha256", "none"];
    let mend = "say who may post, such as { type = \"header\", name = \"X-Webhook-Token\", value = \"${NAME}\" }";
    let auth = t.section_if("auth", |t| {
        let kind = t.word("type", &TYPES.map(|name| (name, name)));
        let kind = t.require("type", kind, &format!("write one of {}", quoted(&TYPES)));
        match kind {
            Some("header") => {
                let (name, value) = (header_name(t, "name"), t.secret("value"));
                let value = t.require("value", value, "write what the header must hold, best as \"${NAME}\"");
                Some(JsonAuth::Header { name: name?, value: value? })
            }
            Some("hmac_sha256") => {
                let (header, secret) = (header_name(t, "header"), t.secret("secret"));
                let secret = t.require("secret", secret, "write the key of the HMAC, best as \"${NAME}\"");
                Some(JsonAuth::HmacSha256 { header: header?, secret: secret? })
            }
            Some(_) => {
                if !process.server.listen.ip().is_loopback() {
                    t.fault("type", format!("\"none\" lets anybody post who can reach {}: use \"header\" or \"hmac_sha256\", or let [server] listen on 127.0.0.1", process.server.listen));
                }
                Some(JsonAuth::None)
            }
            None => {
                t.drop_rest();
                None
            }
        }
    });
    t.require("auth", auth, mend).flatten()
}

fn header_name(t: &mut Table, key: &'static str) -> Option<String> {
    let name = t.parsed(key, |text| match axum::http::HeaderName::try_from(text) {
        Ok(name) => Ok(name.to_string()),
        Err(_) => Err("is no header's name: write one such as \"X-Webhook-Token\"".into()),
    });
    t.require(key, name, "name the header, such as \"X-Webhook-Token\"")
}

/// `[[chats]]`, and where each names which robot.
fn chats(t: &mut Table, pace: Pace, process: &Settings) -> (BTreeMap<String, Chat>, Vec<Use>) {
    let mut webhooks = Vec::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let chats = t.each("chats", |t| {
        let id = t.filled("id");
        let id = t.require("id", id, "write the chat's id as it stands in its callbacks");
        let route = t.parsed_unseen("webhook", |text| route::webhook(text, &process.wecom));
        if t.flag("appchat", false) {
            t.fault(
                "appchat",
                "answering by appchat is not available in this version: remove the key, give the chat a webhook",
            );
        }
        let (webhook, robot) = route.unzip();
        if let Some(robot) = robot {
            let chat = id.clone().unwrap_or_default();
            webhooks.push(Use { robot, file: t.file().to_owned(), key: t.path_of("webhook"), chat });
        }
        t.flag("coalesce", true); // as in [chats_default]
        let chat = Chat {
            id: id?,
            name: t.string("name"),
            weight: t.whole("weight", 1..=100).and_then(|n| u32::try_from(n).ok()).unwrap_or(1),
            pace: t.parsed("pace", units::rate).unwrap_or(pace),
            webhook,
        };
        if let Some(place) = places.insert(chat.id.clone(), t.path_of("id")) {
            t.fault("id", format!("{:?} has an entry already ({place}): make the two one", chat.id));
        }
        Some((chat.id.clone(), chat))
    });
    (chats.into_iter().collect(), webhooks)
}
