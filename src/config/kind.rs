//! The kind of an app, and the keys that come with it: what posts its callbacks and how they are trusted.
//!
//! Keys that only another kind of app has are faults, not silently without effect. No fault quotes a token or a key.

use std::sync::Arc;
use std::time::Duration;

use super::gateway::web_url;
use super::reader::{Table, quoted};
use super::settings::{Api, AppKind, Gateway, JsonAuth, Server};
use crate::model::Secret;
use crate::wecom::crypto::{CallbackCrypto, ReceiveId};

/// `kind`, before the values that come with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    App,
    GroupRobot,
    Aibot,
    Json,
}

const KINDS: [(&str, Kind); 4] =
    [("app", Kind::App), ("group_robot", Kind::GroupRobot), ("aibot", Kind::Aibot), ("json", Kind::Json)];

/// Keys that only some kinds have.
const KEYS_OF_KINDS: [(&[&str], &[Kind]); 3] = [
    (&["token", "encoding_aes_key", "receive_id"], &[Kind::App, Kind::GroupRobot, Kind::Aibot]),
    (&["corp_id", "agent_id", "secret"], &[Kind::App]),
    (&["auth", "gateway"], &[Kind::Json]),
];

/// What comes with a kind.
#[derive(Default)]
pub(super) struct OfKind {
    /// `kind`, where it is known.
    pub(super) kind: Option<Kind>,
    /// How its callbacks are trusted, unless that has a fault.
    pub(super) inbound: Option<AppKind>,
    /// The API side, where the app has one.
    pub(super) api: Option<Arc<Api>>,
    /// The send side, where the gateway has one.
    pub(super) gateway: Option<Arc<Gateway>>,
}

/// Reads `kind` and its keys; where the kind itself isn't known, its keys are left unjudged.
pub(super) fn kind(t: &mut Table, public: &Server) -> OfKind {
    let Some(kind) = t.required_word("kind", &KINDS) else {
        KEYS_OF_KINDS.iter().flat_map(|(keys, _)| *keys).for_each(|key| drop(t.take(key)));
        return OfKind::default();
    };
    refuse_foreign_keys(t, kind);
    let mut of = OfKind { kind: Some(kind), ..OfKind::default() };
    match kind {
        Kind::App => {
            let (corp_id, api) = api_side(t);
            of.api = api.map(Arc::new);
            let receiver = receiver_of_app(t, corp_id);
            of.inbound = crypto(t, receiver).map(AppKind::App);
        }
        Kind::GroupRobot | Kind::Aibot => {
            let receiver = Some(t.string("receive_id").unwrap_or_default());
            let of_robot = if kind == Kind::Aibot { AppKind::Aibot } else { AppKind::GroupRobot };
            of.inbound = crypto(t, receiver).map(of_robot);
        }
        Kind::Json => {
            of.gateway = send_side(t).map(Arc::new);
            of.inbound = json_auth(t, public).map(AppKind::Json);
        }
    }
    of
}

fn refuse_foreign_keys(t: &mut Table, kind: Kind) {
    let name_of = |kind: Kind| KINDS.iter().find(|(_, k)| *k == kind).map_or("", |(name, _)| *name);
    for (keys, kinds) in KEYS_OF_KINDS.iter().filter(|(_, kinds)| !kinds.contains(&kind)) {
        let (owners, this) = (quoted(&kinds.iter().map(|kind| name_of(*kind)).collect::<Vec<_>>()), name_of(kind));
        for key in *keys {
            if t.take(key).is_some() {
                t.fault(key, format!("belongs to kind {owners}, and this app is {this:?}: remove it, or correct kind"));
            }
        }
    }
}

/// For whom an app's callbacks are sealed: the corp, whose id says it where `receive_id` does not. A callback for nobody is a rare
/// product's (an app of a third party without a corp), so that whoever means it says so.
fn receiver_of_app(t: &mut Table, corp_id: Option<String>) -> Option<String> {
    let receiver = t.string("receive_id").or(corp_id);
    if receiver.is_none() && t.sound(&["receive_id", "corp_id"]) {
        let why = "is missing, and so is corp_id: WeCom seals an app's callbacks for its corp, and every one would be refused";
        t.fault("receive_id", format!("{why}: copy the corp's id, from 我的企业 → 企业 ID"));
    }
    receiver
}

/// Token, key and receive id of an encrypted kind.
fn crypto(t: &mut Table, receiver: Option<String>) -> Option<CallbackCrypto> {
    const SOURCE: &str = "from where the callback was set up in WeCom";
    let token =
        t.parsed_unseen("token", |text| token(text).map_err(|wrong| format!("{wrong}: copy it again {SOURCE}")));
    let token = t.require("token", token, &format!("copy it {SOURCE}, best as \"${{NAME}}\""));
    let key = t.secret("encoding_aes_key");
    let mend = format!("copy the 43 characters {SOURCE}, best as \"${{NAME}}\"");
    let key = t.require("encoding_aes_key", key, &mend);
    let is_whole = token.is_some() && receiver.is_some();
    let receive_id = match receiver.unwrap_or_default() {
        any if any == "*" => ReceiveId::Any,
        exactly => ReceiveId::Exactly(exactly),
    };
    // A faulty token must not hide a faulty key.
    match CallbackCrypto::new(token.unwrap_or_default(), &key?, receive_id) {
        Ok(crypto) => is_whole.then_some(crypto),
        Err(wrong) => {
            t.fault("encoding_aes_key", format!("{wrong}: copy the 43 characters again {SOURCE}"));
            None
        }
    }
}

/// WeCom takes 1 to 32 letters or digits.
fn token(text: &str) -> Result<Secret, String> {
    let length = text.chars().count();
    if !(1..=32).contains(&length) {
        return Err(format!("is {length} characters long, WeCom's tokens are 1 to 32"));
    }
    if !text.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Err("holds something that is no letter or digit (a blank?)".into());
    }
    Ok(Secret::new(text))
}

/// The corp id, which names the receiver of callbacks too, and the API side of kind `app`: all three keys or none. Without them
/// the app takes callbacks and answers by webhooks alone.
fn api_side(t: &mut Table) -> (Option<String>, Option<Api>) {
    let corp_id = t.filled("corp_id");
    let agent_id = t.whole("agent_id", 1..=u64::MAX);
    let secret = t.secret("secret");
    let given = [("corp_id", corp_id.is_some()), ("agent_id", agent_id.is_some()), ("secret", secret.is_some())];
    if given.iter().any(|(_, given)| *given) {
        for (key, _) in given.iter().filter(|(key, given)| !given && t.sound(&[*key])) {
            t.fault(key, "is missing: corp_id, agent_id and secret are needed together, to answer by the API");
        }
    }
    let ask_contacts = t.flag("ask_contacts", true);
    let api = corp_id.clone().zip(agent_id).zip(secret);
    (corp_id, api.map(|((corp_id, agent_id), secret)| Api { corp_id, agent_id, secret, ask_contacts }))
}

/// `[gateway]` of kind `json`.
fn send_side(t: &mut Table) -> Option<Gateway> {
    t.section_if("gateway", |t| {
        let url = t.parsed_unseen("url", web_url);
        let url = t.require("url", url, "write where replies are posted, such as \"http://127.0.0.1:9000/send\"");
        let instance_guid = t.filled("instance_guid");
        let client_msg_id_window = t.span("client_msg_id_window", Duration::from_secs(10 * 60));
        Some(Gateway { url: Secret::new(url?), instance_guid, client_msg_id_window })
    })
    .flatten()
}

fn json_auth(t: &mut Table, public: &Server) -> Option<JsonAuth> {
    let mend = "say who may post, such as { type = \"header\", name = \"X-Webhook-Token\", value = \"${NAME}\" }";
    let auth = t.section_if("auth", |t| one_auth(t, public));
    t.require("auth", auth, mend).flatten()
}

fn one_auth(t: &mut Table, public: &Server) -> Option<JsonAuth> {
    match t.required_word("type", &[("header", Auth::Header), ("hmac_sha256", Auth::HmacSha256), ("none", Auth::None)])
    {
        Some(Auth::Header) => {
            let (name, value) = (header_name(t, "name"), t.secret("value"));
            let value = t.require("value", value, "write what the header must hold, best as \"${NAME}\"");
            Some(JsonAuth::Header { name: name?, value: value? })
        }
        Some(Auth::HmacSha256) => {
            let (header, secret) = (header_name(t, "header"), t.secret("secret"));
            let secret = t.require("secret", secret, "write the key of the HMAC, best as \"${NAME}\"");
            Some(JsonAuth::HmacSha256 { header: header?, secret: secret? })
        }
        Some(Auth::None) => {
            let listen = public.listen;
            if !listen.ip().is_loopback() {
                let mend = "use \"header\" or \"hmac_sha256\", or let [server] listen on 127.0.0.1";
                t.fault("type", format!("\"none\" lets anybody post who can reach {listen}: {mend}"));
            }
            Some(JsonAuth::None)
        }
        None => {
            t.drop_rest();
            None
        }
    }
}

/// `auth.type`, before the values that come with it.
#[derive(Clone, Copy)]
enum Auth {
    Header,
    HmacSha256,
    None,
}

fn header_name(t: &mut Table, key: &'static str) -> Option<String> {
    let name = t.parsed(key, |text| match axum::http::HeaderName::try_from(text) {
        Ok(name) => Ok(name.to_string()),
        Err(_) => Err("is no header's name: write one such as \"X-Webhook-Token\"".into()),
    });
    t.require(key, name, "name the header, such as \"X-Webhook-Token\"")
}
