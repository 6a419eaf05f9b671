//! The examples of `deploy/nginx` and `deploy/caddy` before real gateways: what is signed arrives as it was signed, and no
//! callback is lost when a gateway dies under it.

mod servers;

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::json;
use sha2::Sha256;
use wecom_gateway::model::now_ms;
use wecom_gateway::sim::{Options, WorkTime, caller};

use crate::callback::client::{Client, HMAC_SECRET};
use crate::callback::endpoint::{AIBOT, CHAT, Endpoint, HOOK, HOOK_HEADER, SIGNED_HOOK, text};
use crate::callback::seal::{Callback, percent_encoded};
use crate::crash::fleet::{Fleet, Setup, chats};
use crate::crash::traffic::{Posted, WeCom, query};
use crate::crash::verdict::judge;
use crate::world::{On, TEST};
use servers::{Kind, ReverseProxy};

/// What the gateway takes by default.
const MAX_BODY: usize = 1 << 20;
const PLAIN: &str = "1616140317555161061";

/// A gateway, and the proxy before it.
async fn fronted(kind: Kind) -> (Endpoint, Client, ReverseProxy) {
    let endpoint = Endpoint::new().await;
    let gateway = endpoint.world.app.callback_addr();
    let proxy = ReverseProxy::start(kind, [gateway, gateway]).await;
    (endpoint, Client::new(proxy.address), proxy)
}

async fn signatures_pass(kind: Kind) {
    let (endpoint, client, _proxy) = fronted(kind).await;
    let with_a_plus = || std::iter::repeat_with(|| Callback::of(PLAIN)).find(|c| c.ciphertext.contains('+')).unwrap();
    let callback = with_a_plus();
    let encoded = percent_encoded(&callback.ciphertext);
    let lower = encoded.replace("%2B", "%2b").replace("%2F", "%2f").replace("%3D", "%3d");
    for echostr in [&encoded, &lower, &callback.ciphertext] {
        for target in [callback.target(), callback.target().replacen('?', "/?", 1)] {
            let answer = client.get(&format!("{target}&echostr={echostr}")).await;
            assert_eq!((answer.status, answer.body.as_slice()), (200, PLAIN.as_bytes()), "{echostr}: {answer:?}");
        }
    }
    client.post(&Callback::of(text("m/1+=", "hi"))).await.taken();
    endpoint.trail("m/1+=").await;
    client.post(&Callback::of(text("forged", "hi")).forged()).await.refused(403, "signature_mismatch");

    // JSON, and a plain webhook whose signature covers every byte of the body.
    let aibot = json!({"msgid": "b1", "aibotid": "AIBOT", "chatid": CHAT, "chattype": "group", "from": {"userid": "u1"},
        "msgtype": "text", "text": {"content": "hi"}});
    let bot = Callback::of(aibot.to_string()).to(AIBOT);
    let headers = [("Content-Type", "application/json")];
    assert_eq!(client.ask(Method::POST, &bot.target(), &headers, bot.json()).await.status, 200);
    let body = format!(
        "{{\r\n \"MsgType\":\"text\", \"roomType\":2,\t\"ChatId\":\"{CHAT}\",\"FromUserName\":\"u1\",\"Content\":\"é 好\",\"MsgId\":\"j1\"}}\n"
    );
    let mac = Hmac::<Sha256>::new_from_slice(HMAC_SECRET.as_bytes()).unwrap().chain_update(&body);
    let signature = hex::encode(mac.finalize().into_bytes());
    client.post_json(SIGNED_HOOK, &[("X-Signature", &signature)], body.as_str()).await.taken();
    client.post_json(HOOK, &[HOOK_HEADER], body.replace("j1", "j2")).await.taken();
    endpoint.world.end().await;
}

async fn a_body_is_bounded_by_the_gateway_alone(kind: Kind) {
    let (endpoint, client, _proxy) = fronted(kind).await;
    let of_size = |id: &str, bytes: usize| {
        let callback = Callback::of(text(id, "hi"));
        let body = callback.xml() + &" ".repeat(bytes - callback.xml().len());
        (callback, body)
    };
    let (fits, body) = of_size("fits", MAX_BODY);
    client.post_as(&fits, body).await.taken();
    let (large, body) = of_size("large", MAX_BODY + 1);
    client.post_as(&large, body).await.refused(413, "body_too_large");
    endpoint.nothing_of(&["large"]).await;
    endpoint.world.end().await;
}

async fn nothing_but_callbacks_passes(kind: Kind) {
    let (endpoint, client, _proxy) = fronted(kind).await;
    client.get("/callback/nobody").await.refused(404, "unknown_app");
    for path in ["/", "/livez", "/metrics", "/api/v1/chats", "/callbacks"] {
        let answer = reqwest::get(format!("http://{}{path}", client.address())).await.unwrap();
        // Every answer of a gateway has a request id.
        assert_eq!((answer.status().as_u16(), answer.headers().get("x-request-id")), (404, None), "{path}");
    }
    endpoint.world.end().await;
}

/// Members that write at once, and how much each of them does.
const MEMBERS: u64 = 24;
const EACH: u64 = 20;
/// Callbacks that hang on the gateway when it is killed.
const HANGING: u64 = 6;
const PATIENCE: Duration = Duration::from_secs(20);

/// One member's messages, each after the answer to the one before.
async fn writes(wecom: WeCom, member: u64) -> Vec<Posted> {
    let mut posted = Vec::new();
    for n in 0..EACH {
        let message = query(&format!("c{}", member % 12), &format!("u{member}"), 1 + n * MEMBERS + member);
        posted.push(wecom.push(&message).await);
        wecom.answer(&message, PATIENCE).await;
    }
    posted
}

async fn a_gateway_that_dies_loses_no_callback(kind: Kind) {
    let work = WorkTime { seed: 1, from: Duration::from_millis(1), to: Duration::from_millis(20) };
    let fake = Options { latency: Duration::from_millis(4), work: Some(work), ..Options::default() };
    let (chats, push_again) = (chats(12), caller::RETRY_AFTER);
    let mut fleet = Fleet::started(Setup { gateways: 2, chats, fake, push_again, ..Setup::new(On::Redis) }).await;
    let gateways: [SocketAddr; 2] = [0, 1].map(|place| fleet.gateway(place).callbacks);
    let proxy = ReverseProxy::start(kind, gateways).await;
    fleet.call_at(proxy.address);
    let ledger = fleet.fake.ledger().clone();
    let members = (0..MEMBERS).map(|member| writes(WeCom::of(&fleet), member));
    let writing = tokio::spawn(join_all(members));
    fleet.fake.until(|_| ledger.progress().acked >= MEMBERS * EACH / 3).await;
    // Asleep it still takes callbacks, so that some are in its hands when it dies.
    fleet.gateway(0).sleep();
    let mut again = tokio::time::interval(Duration::from_millis(5));
    while ledger.progress().posted < ledger.progress().acked + HANGING {
        again.tick().await;
    }
    fleet.kill(0);
    let deaths = [now_ms()];
    let posted = writing.await.unwrap().into_iter().flatten().collect::<Vec<_>>();
    let progress = ledger.progress();
    // WeCom never had to push again.
    assert_eq!((progress.posted, progress.acked, progress.copies), (MEMBERS * EACH, MEMBERS * EACH, 0));
    let verdict = judge(&fleet, &posted, &deaths, PATIENCE).await;
    verdict.assert_clean();
    fleet.end().await;
}

macro_rules! before_each_proxy {
    ($($name:ident),* $(,)?) => {
        before_each_proxy!(@ nginx, Nginx, $($name)*);
        before_each_proxy!(@ caddy, Caddy, $($name)*);
    };
    (@ $module:ident, $kind:ident, $($name:ident)*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let test = super::$name(super::Kind::$kind);
                tokio::time::timeout(super::TEST, test).await.expect("within its time");
            })*
        }
    };
}

before_each_proxy!(
    signatures_pass,
    a_body_is_bounded_by_the_gateway_alone,
    nothing_but_callbacks_passes,
    a_gateway_that_dies_loses_no_callback,
);
