//! A whole gateway with one app of each kind, and what its trails say.

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::{json_app, robot_app};
use wecom_gateway::sim::{FakeWeCom, Options, Scenario, robot_text};

use super::client::{Client, HEADER_VALUE, HMAC_SECRET};
use super::seal::{CORP, Callback, KEY, TOKEN, percent_encoded};
use crate::world::{APP, On, TEST, World};

/// Self-built, with the receive id [`CORP`].
pub const CORP_APP: &str = "corp";
/// A robot whose receive id is not checked.
pub const ANY_APP: &str = "any";
/// A smart robot.
pub const AIBOT: &str = "bot";
/// A plain webhook, opened by a header.
pub const HOOK: &str = "hook";
pub const HOOK_HEADER: (&str, &str) = ("X-Webhook-Token", HEADER_VALUE);
/// A plain webhook, opened by the HMAC of its body in `X-Signature`.
pub const SIGNED_HOOK: &str = "signed";

/// The chat that every app has a robot in.
pub const CHAT: &str = "c1";

/// A gateway in this process and who asks it.
pub struct Endpoint {
    pub world: World,
    pub client: Client,
}

impl Endpoint {
    pub async fn new() -> Self {
        Self::with(|scenario| scenario).await
    }

    /// With a configuration of its own.
    pub async fn with(shape: impl FnOnce(Scenario) -> Scenario) -> Self {
        let apps = |fake: &FakeWeCom, scenario| shape(every_kind(fake, scenario));
        let world = World::with(On::Embedded, &[CHAT], Options::default(), apps).await;
        let client = Client::new(world.app.callback_addr());
        Self { world, client }
    }

    /// The trails that an id names, each at its end; waits for at least one.
    pub async fn trails(&self, id: &str) -> Vec<Value> {
        let ended = |answer: &Value| {
            let items = answer["items"].as_array().map_or(&[][..], Vec::as_slice);
            !items.is_empty() && items.iter().all(|item| item["outcome"] != "queued")
        };
        let path = format!("messages/{}", percent_encoded(id));
        let answer = tokio::time::timeout(TEST, self.world.api(&path, ended)).await;
        answer.unwrap_or_else(|_| panic!("no trail of {id}"))["items"].as_array().unwrap().clone()
    }

    /// The one trail that an id names.
    pub async fn trail(&self, id: &str) -> Value {
        let trails = self.trails(id).await;
        assert_eq!(trails.len(), 1, "{trails:?}");
        trails[0].clone()
    }

    /// Waits until everything is answered that `u1` said in [`CHAT`].
    pub async fn fence(&self) {
        tokio::time::timeout(TEST, self.world.fence(CHAT, "u1")).await.expect("a reply");
    }

    /// Makes sure that nothing of these ids was stored: the journal is written in order, so what is not there when a
    /// later message is will never be.
    pub async fn nothing_of(&self, ids: &[&str]) {
        let fence = format!("fence-{}", uuid::Uuid::now_v7());
        self.client.post(&Callback::of(text(&fence, "fence"))).await.taken();
        self.trails(&fence).await;
        for id in ids {
            let answer = self.world.api(&format!("messages/{}", percent_encoded(id)), |_| true).await;
            assert_eq!(answer["items"], json!([]), "{id}");
        }
    }

    /// How many callbacks of an app ended like this.
    pub async fn counted(&self, app: &str, result: &str) -> u64 {
        let url = format!("http://{}/metrics", self.world.app.admin_addr());
        let metrics = reqwest::get(url).await.unwrap().text().await.unwrap();
        let name = format!("wecom_gateway_callbacks_total{{app=\"{app}\",result=\"{result}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| count.parse().unwrap())
    }
}

/// The XML of a text in [`CHAT`].
pub fn text(msg_id: &str, content: &str) -> String {
    robot_text(CHAT, "u1", msg_id, content)
}

/// Adds one app of each kind. The deadline is the longest there is, so that a slow disk of a test machine meets it.
pub fn every_kind(fake: &FakeWeCom, scenario: Scenario) -> Scenario {
    let mut scenario = scenario.set("server", "deadline", "4500ms");
    for (id, kind, receive_id) in
        [(APP, "group_robot", ""), (CORP_APP, "app", CORP), (ANY_APP, "group_robot", "*"), (AIBOT, "aibot", "")]
    {
        scenario = scenario.app(id, sealed_app(robot_app(fake, id, &[CHAT.into()]), kind, receive_id));
    }
    let mut signed = json_app(fake, SIGNED_HOOK, &[CHAT.into()], HOOK_HEADER);
    signed["auth"] = json!({"type": "hmac_sha256", "header": "X-Signature", "secret": HMAC_SECRET});
    scenario.app(SIGNED_HOOK, signed).app(HOOK, json_app(fake, HOOK, &[CHAT.into()], HOOK_HEADER))
}

fn sealed_app(mut app: Value, kind: &str, receive_id: &str) -> Value {
    app["kind"] = kind.into();
    app["token"] = TOKEN.into();
    app["encoding_aes_key"] = KEY.into();
    app["receive_id"] = receive_id.into();
    app
}
