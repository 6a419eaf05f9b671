//! The fake under test: what it sees must be what happened, or the tests that lean on it prove nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};

use super::plan::{Copies, LanePlan, Planned};
use super::scenario::{json_app, robot_app, robot_key};
use super::*;
use crate::config::settings::AppKind;
use crate::model::{MessageKey, Secret};
use crate::wecom::crypto::{CallbackCrypto, ReceiveId};

async fn fake(options: Options) -> (FakeWeCom, reqwest::Client) {
    let fake = FakeWeCom::start(options).await.unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    (fake, reqwest::Client::builder().no_proxy().build().unwrap())
}

/// Sends a text to a robot; its errcode, or `None` where the answer holds none.
async fn say(http: &reqwest::Client, webhook: &str, text: &str) -> Result<Option<i64>, reqwest::Error> {
    let body = json!({"msgtype": "text", "text": {"content": text}});
    let answer = http.post(webhook).json(&body).send().await?;
    Ok(answer.json::<Value>().await.ok().and_then(|body| body["errcode"].as_i64()))
}

#[tokio::test]
async fn robots_follow_their_script_and_only_what_arrived_counts() {
    let (fake, http) = fake(Options::default()).await;
    let webhook = fake.webhook("k 1&", "c1");
    fake.script(
        "k 1&",
        [Answer::Errcode(93000).into(), Answer::Status(502).into(), Answer::Html.into(), Answer::Cut.into()],
    );
    assert_eq!(say(&http, &webhook, "refused").await.unwrap(), Some(93000));
    assert_eq!(say(&http, &webhook, "broken").await.unwrap(), None);
    assert_eq!(say(&http, &webhook, "a page").await.unwrap(), None);
    assert!(say(&http, &webhook, "cut").await.is_err(), "no answer at all");
    fake.hold("k 1&");
    tokio::select! {
        _ = say(&http, &webhook, "slow") => panic!("answered although held"),
        () = fake.until(|f| f.under_way("k 1&") == 1) => {}
    }
    fake.until(|f| f.under_way("k 1&") == 0).await;
    fake.release("k 1&");
    assert_eq!(say(&http, &webhook, "plain").await.unwrap(), Some(0));
    assert_eq!(fake.texts("k 1&"), ["cut", "slow", "plain"]);
    assert_eq!((fake.posts("k 1&"), fake.arrived()[0].chat.as_str()), (6, "c1"));
    assert_eq!(fake.ledger().violations(), []);
    fake.stop().await;
}

#[tokio::test]
async fn crossing_doubling_and_haste_are_seen() {
    let (fake, http) = fake(Options::default()).await;
    let (one, two) = (fake.webhook("k1", "c1"), fake.webhook("k2", "c2"));
    say(&http, &two, "[c1 u1 1]").await.unwrap();
    say(&http, &one, "[c1 u1 2]").await.unwrap();
    say(&http, &one, "[c1 u1 2]").await.unwrap();
    say(&http, &fake.webhook("k1", "c1").replace("k1", "k9"), "[c1 u1 3]").await.unwrap();
    say(&http, &one, &"长".repeat(683)).await.unwrap();
    fake.hold("k2");
    let slow = tokio::spawn({
        let (http, two) = (http.clone(), two.clone());
        async move { say(&http, &two, "[c2 u1 5]").await }
    });
    fake.until(|f| f.under_way("k2") == 1).await;
    let second = say(&http, &two, "[c2 u1 6]");
    let release = async {
        fake.until(|f| f.under_way("k2") == 2).await;
        fake.release("k2");
    };
    tokio::join!(second, release).0.unwrap();
    slow.await.unwrap().unwrap();
    assert_eq!(
        fake.ledger().violations(),
        [
            Violation::WrongChat { tag: Tag::new("c1", "u1", 1), chat: "c2".into() },
            Violation::Repeated(Tag::new("c1", "u1", 2)),
            Violation::ForeignWebhook,
            Violation::BadMessage { chat: "c1".into(), why: "a content over its byte limit" },
            Violation::SendsOverlap("c2".into()),
        ]
    );
}

#[tokio::test]
async fn the_rate_is_exact_per_robot() {
    let rate = Rate { limit: 20, window: Duration::from_secs(3600) };
    let (fake, http) = fake(Options { rate: Some(rate), ..Options::default() }).await;
    let (one, two) = (fake.webhook("k1", "c1"), fake.webhook("k2", "c2"));
    for n in 0..20 {
        assert_eq!(say(&http, &one, &n.to_string()).await.unwrap(), Some(0));
    }
    assert_eq!(say(&http, &one, "one too many").await.unwrap(), Some(45009));
    assert_eq!(say(&http, &two, "another robot").await.unwrap(), Some(0));
    assert_eq!(fake.ledger().violations(), [Violation::OverRate("c1".into())]);
    assert_eq!(fake.texts("k1").len(), 20);
}

#[tokio::test]
async fn one_seed_is_one_mix() {
    let mix = Mix { seed: 7, of: vec![(0.2, Answer::Errcode(-1).into()), (0.2, Answer::Status(503).into())] };
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (fake, http) = fake(Options { mix: Some(mix.clone()), ..Options::default() }).await;
        let webhook = fake.webhook("k1", "c1");
        for n in 0..40 {
            say(&http, &webhook, &n.to_string()).await.unwrap();
        }
        runs.push(fake.texts("k1"));
    }
    assert_eq!(runs[0], runs[1]);
    assert!((10..38).contains(&runs[0].len()), "{}", runs[0].len());
}

/// Asks the service as a gateway would, signed with `secret`.
async fn ask(http: &reqwest::Client, fake: &FakeWeCom, secret: &str, body: &Value) -> (u16, Value) {
    use hmac::{KeyInit, Mac};
    let text = body.to_string();
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(format!("17.{text}").as_bytes());
    let part = |object: &str, field: &str| body[object][field].as_str().unwrap().to_owned();
    let key = MessageKey::new("app", &part("chat", "id"), &part("sender", "key"), &part("message", "id"));
    let request = http
        .post(format!("{}/action/orders", fake.base()))
        .header("X-Gateway-Timestamp", "17")
        .header("X-Gateway-Signature", format!("sha256={}", hex::encode(mac.finalize().into_bytes())))
        .header("X-Request-Id", "r1")
        .header("Idempotency-Key", key.idempotency_key());
    let answer = request.body(text).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

fn request(sender: &str, msg_id: &str, session: &str) -> Value {
    json!({"request_id": "r1", "app": "app", "chat": {"id": "c1"}, "sender": {"key": sender},
           "message": {"id": msg_id, "text": "/query 5"}, "command": {"name": "query", "args": {"order_id": 5}},
           "session": {"turns": [{"role": "bot", "text": session}], "vars": {}}})
}

#[tokio::test]
async fn the_service_checks_what_it_is_asked() {
    let options = Options { action_secret: Some("s".into()), ..Options::default() };
    let (fake, http) = fake(options).await;
    let (status, answer) = ask(&http, &fake, "s", &request("u1", "m1", "orders [c1 u1 4]")).await;
    assert_eq!((status, answer["text"].as_str()), (200, Some("orders [c1 u1 5] {\"order_id\":5}")));
    assert_eq!(fake.ledger().violations(), []);
    assert_eq!(ask(&http, &fake, "wrong", &request("u1", "m2", "")).await.0, 403);
    ask(&http, &fake, "s", &request("u1", "m1", "")).await;
    ask(&http, &fake, "s", &request("u2", "m1", "orders [c1 u1 4]")).await;
    let (chat, sender, msg_id) = ("c1".to_owned(), "u1".to_owned(), "m1".to_owned());
    assert_eq!(
        fake.ledger().violations(),
        [
            Violation::BadActionRequest("the signature is wrong"),
            Violation::AskedTwice { chat: chat.clone(), sender, msg_id },
            Violation::MixedContext { chat, sender: "u2".into(), foreign: Tag::new("c1", "u1", 4) },
        ]
    );
    assert_eq!((fake.service().count(), fake.service().calls()[0].tag()), (3, Tag::new("c1", "u1", 5)));

    fake.service().script(
        "orders",
        [
            ServiceAnswer::Status(204).after(Duration::ZERO),
            ServiceAnswer::Json(json!({"text": "x"})).after(Duration::ZERO),
        ],
    );
    assert_eq!(ask(&http, &fake, "s", &request("u3", "m1", "")).await.0, 204);
    assert_eq!(ask(&http, &fake, "s", &request("u3", "m2", "")).await, (200, json!({"text": "x"})));
}

#[tokio::test]
async fn scenarios_are_configurations_that_a_gateway_takes() {
    let (fake, _) = fake(Options { action_secret: Some("s".into()), ..Options::default() }).await;
    let chats = ["c1".to_owned(), "c2".to_owned()];
    let scenario = Scenario::new(&fake)
        .unwrap()
        .set("sender", "timeout", "1s")
        .app("support", robot_app(&fake, "support", &chats))
        .app("hook", json_app(&fake, "hook", &chats, ("X-Token", "t")));
    let settings = crate::config::load(&scenario.write().unwrap()).unwrap();
    assert_eq!(settings.sender.timeout, Duration::from_secs(1));
    assert!(matches!(settings.apps["support"].kind, AppKind::GroupRobot(_)));
    let webhook = settings.apps["hook"].chats["c2"].webhook().unwrap();
    assert_eq!(webhook.url.expose(), fake.webhook(&robot_key("hook", "c2"), "c2"));
}

/// A callback endpoint that refuses every tenth post and keeps what it took.
async fn receiver(crypto: CallbackCrypto) -> (String, Arc<Mutex<Vec<String>>>) {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (posts, kept) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&taken));
    let take = move |Query(query): Query<HashMap<String, String>>, body: String| {
        let cipher = crate::wecom::envelope::ciphertext(body.as_bytes()).unwrap();
        assert!(crypto.verify(&query["msg_signature"], &query["timestamp"], &query["nonce"], &cipher));
        let refused = posts.fetch_add(1, Ordering::Relaxed) % 10 == 0;
        if !refused {
            kept.lock().unwrap().push(String::from_utf8(crypto.decrypt(&cipher).unwrap()).unwrap());
        }
        async move { if refused { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK } }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/callback/app", listener.local_addr().unwrap());
    let router = Router::new().route("/callback/app", post(take));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, taken)
}

#[tokio::test]
async fn a_load_is_posted_whole_in_order_and_again_where_it_was_refused() {
    let key = Secret::new("jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C");
    let crypto = CallbackCrypto::new(Secret::new("token"), &key, ReceiveId::Exactly(String::new())).unwrap();
    let (url, taken) = receiver(crypto.clone()).await;
    let caller = Caller::new(url, crypto).unwrap().patient_for(Duration::from_secs(1));
    // Nobody replies here: all of them may be under way.
    let load = Load { messages: 300, chats: 5, under_way: 1000, ..Load::default() };
    let ledger = Arc::default();
    load.run(&caller, &ledger).await;

    let taken = taken.lock().unwrap();
    let times = |payload: &String| taken.iter().filter(|t| *t == payload).count();
    let shared = Arc::new(load.clone());
    for (number, share) in load.shares(15).into_iter().enumerate() {
        let chat = &load.chat_ids()[number / 3];
        let mut plan = LanePlan::new(&shared, (number as u64, 15), chat, number % 3, "小助手");
        let mut last_seen = None;
        for place in 1..=share {
            let planned = if place < share { plan.message() } else { plan.fence() };
            let Planned { tag, msg_id, text, copies, .. } = &planned;
            let payload = robot_text(&tag.chat, &tag.sender, msg_id, text);
            let seen = taken.iter().position(|t| *t == payload);
            assert!(seen > last_seen, "first posts of a lane come in order: {tag}");
            assert_eq!(times(&payload), if *copies == Copies::None { 1 } else { 2 }, "{tag} {copies:?}");
            last_seen = seen;
        }
    }
    let progress = ledger.progress();
    assert_eq!((progress.posted, progress.acked), (300, 300));
    assert_eq!(progress.copies as usize, taken.len() - 300 + taken.len().div_ceil(9), "copies and retries");
}
