//! The operators' hands on a whole gateway: what they say holds at once, for every process, and once.

use serde_json::{Value, json};
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::{Answer, FakeWeCom, Options, Scenario, Tag};

use crate::on_both_stores;
use crate::world::{APP, On, World, key};

on_both_stores!(
    a_paused_chat_waits_until_it_is_resumed,
    an_unknown_delivery_is_sent_again_and_again_by_hand,
    what_is_listed_says_whether_it_would_be_sent_again,
    a_delivery_is_settled_by_word,
    a_dead_chat_comes_back_by_operator_event_or_route,
);

fn tag(n: u64) -> String {
    Tag::new("c1", "u1", n).to_string()
}

async fn say(world: &World, n: u64) {
    world.say("c1", "u1", &format!("m{n}"), &format!("/echo {}", tag(n))).await;
}

/// The id of the one delivery in `state`.
async fn ended(world: &World, state: &str) -> String {
    let list = world.api(&format!("deliveries?state={state}"), |list| list["items"][0]["id"].is_string()).await;
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{list}");
    list["items"][0]["id"].as_str().unwrap().to_owned()
}

/// The code of an answer's error.
fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or_default())
}

async fn act(world: &World, id: &str, action: &str) -> (u16, Value) {
    world.post(&format!("deliveries/{id}"), &json!({"action": action})).await
}

async fn a_paused_chat_waits_until_it_is_resumed(on: On) {
    let world = World::new(on, &["c1", "c2"]).await;
    let (status, chat) = world.patch("c1", &json!({"paused": true, "weight": 7})).await;
    assert_eq!((status, &chat["state"], &chat["weight"]), (200, &json!("paused"), &json!(7)), "{chat}");
    for n in 1..=3 {
        say(&world, n).await;
    }
    world.until_waiting("c1", 3).await;
    // Only an operator ends it.
    let waits = |chat: &Value| chat["waits_for"] == "pause" && chat["wake_in_ms"].is_null();
    world.api(&format!("chats/{APP}/c1"), waits).await;
    world.fence("c2", "u1").await;
    assert_eq!(world.fake.posts(&key("c1")), 0);
    // What was set is there after a restart too.
    let world = world.restart_while(|_| {}).await;
    world.fence("c2", "u1").await;
    assert_eq!(world.fake.posts(&key("c1")), 0);
    let (status, chat) = world.patch("c1", &json!({"paused": false, "weight": null})).await;
    assert_eq!((status, &chat["state"], &chat["weight"]), (200, &json!("active"), &json!(1)), "{chat}");
    world.fence("c1", "u1").await;
    assert_eq!(world.texts("c1"), [1, 2, 3].map(tag));
    world.end().await;
}

async fn an_unknown_delivery_is_sent_again_and_again_by_hand(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
    say(&world, 1).await;
    world.ends("m1", "dead").await;
    let first = ended(&world, "dead").await;
    // The second try ends badly too, and only that one can be sent again.
    world.fake.script(&key("c1"), [Answer::Status(504).into()]);
    let (status, answer) = act(&world, &first, "resend").await;
    let again = format!("{first}.r1");
    let done = json!({"id": first, "action": "resend", "state": "queued", "resent_as": again});
    assert_eq!((status, &answer), (200, &done));
    for action in ["resend", "discard"] {
        assert_eq!(code(&act(&world, &first, action).await), (409, "settled_already"));
    }
    assert_eq!(ended(&world, "unknown").await, again);
    world.ends("m1", "unknown").await;
    assert_eq!(act(&world, &again, "resend").await.1["resent_as"], format!("{first}.r2"));
    world.ends("m1", "delivered").await;
    assert_eq!(world.texts("c1"), [tag(1)]);
    let lists = world.api("deliveries", |_| true).await;
    assert_eq!(lists["items"], json!([]), "nothing is left to be settled");
    let trail = world.api(&format!("messages/{first}.r2"), |_| true).await;
    let stages = trail["items"][0]["stages"].as_array().unwrap();
    let hands: Vec<_> = stages.iter().filter(|stage| stage["stage"] == "operated").collect();
    assert_eq!((hands.len(), &hands[0]["by"], &hands[0]["action"]), (2, &json!("loopback"), &json!("resend")));
    assert!(!trail.to_string().contains("content"), "what is kept to be sent again is not shown: {trail}");
    assert_eq!(code(&act(&world, &format!("{first}.r2"), "resend").await), (409, "not_open"));
    world.end().await;
}

/// The list says of each what `resend` would answer.
async fn what_is_listed_says_whether_it_would_be_sent_again(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
    say(&world, 1).await;
    world.ends("m1", "dead").await;
    world.say("nowhere", "u1", "m2", "/echo 2").await;
    world.ends("m2", "dropped").await;
    let said = async |world: &World, state: &str| {
        let list = world.api(&format!("deliveries?state={state}"), |list| list["items"][0]["id"].is_string()).await;
        list["items"][0]["resendable"].clone()
    };
    assert_eq!((said(&world, "dead").await, said(&world, "dropped").await), (json!(true), json!(false)));
    assert_eq!(code(&act(&world, &ended(&world, "dropped").await, "resend").await), (409, "not_kept"));
    let more = |fake: &FakeWeCom, scenario: Scenario| scenario.app("more", robot_app(fake, "more", &["c3".to_owned()]));
    let (world, ..) = world.reload_as(more).await;
    std::fs::remove_file(world.folder().join(format!("apps/{APP}.toml"))).unwrap();
    let (status, answer) = world.post("reload", &Value::Null).await;
    assert_eq!((status, &answer["removed"]), (200, &json!(["apps/support.toml"])));
    assert_eq!(said(&world, "dead").await, json!(false), "its app has gone");
    assert_eq!(code(&act(&world, &ended(&world, "dead").await, "resend").await), (409, "unknown_app"));
    world.end().await;
}

async fn a_delivery_is_settled_by_word(on: On) {
    let world = World::new(on, &["c1"]).await;
    world.fake.script(&key("c1"), [Answer::Errcode(40008).into(), Answer::Errcode(40008).into()]);
    for (n, action, outcome, reason) in
        [(1, "delivered", "delivered", "confirmed"), (2, "discard", "dropped", "discarded")]
    {
        say(&world, n).await;
        world.ends(&format!("m{n}"), "dead").await;
        let id = ended(&world, "dead").await;
        assert_eq!(act(&world, &id, action).await.1["state"], outcome);
        world.ends(&format!("m{n}"), outcome).await;
        assert_eq!(world.outcome(&format!("m{n}")).await.1.as_deref(), Some(reason));
        assert_eq!(code(&act(&world, &id, action).await), (409, "settled_already"));
        // A person settled it: it waits for nobody any more.
        for list in ["deliveries", "deliveries?state=dropped"] {
            assert_eq!(world.api(list, |_| true).await["items"], json!([]), "{list}");
        }
    }
    assert_eq!((world.fake.posts(&key("c1")), world.texts("c1").len()), (2, 0));
    world.end().await;
}

async fn a_dead_chat_comes_back_by_operator_event_or_route(on: On) {
    let world = World::new(on, &["c1"]).await;
    let die = async |world: &World, n: u64| {
        world.fake.script(&key("c1"), [Answer::Errcode(93000).into()]);
        say(world, n).await;
        world.ends(&format!("m{n}"), "dead").await;
        world.api(&format!("chats/{APP}/c1"), |chat| chat["state"] == "dead").await;
    };
    die(&world, 1).await;
    assert_eq!(world.patch("c1", &json!({"dead": false})).await.1["state"], "active");
    world.fence("c1", "u1").await;

    die(&world, 2).await;
    let added = "<xml><ChatId><![CDATA[c1]]></ChatId><ChatType>group</ChatType><From><UserId>u1</UserId></From>\
                 <CreateTime>1700000000</CreateTime><MsgType>event</MsgType>\
                 <Event><EventType><![CDATA[add_to_chat]]></EventType></Event></xml>";
    assert_eq!(world.caller.post(added).await, Some(200));
    // Of the same member, so that it is handled behind the event.
    world.fence("c1", "u1").await;

    die(&world, 3).await;
    let moved = |fake: &FakeWeCom, scenario: Scenario| {
        let mut app = robot_app(fake, APP, &["c1".to_owned()]);
        app["chats"][0]["webhook"] = fake.webhook("another", "c1").into();
        scenario.app(APP, app)
    };
    let world = world.restart_as(moved).await;
    let text = Tag::new("c1", "u2", 4).to_string();
    world.say("c1", "u2", "m4", &format!("/echo {text}")).await;
    world.fake.until(|fake| fake.texts("another") == [text.clone()]).await;
    world.api(&format!("chats/{APP}/c1"), |chat| chat["state"] == "active").await;
    world.end().await;
}

/// Hands on two gateways at the same time: one of them does it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_hands_on_two_gateways_one_is_first() {
    let test = async {
        let one_chat =
            |fake: &FakeWeCom, scenario: Scenario| scenario.app(APP, robot_app(fake, APP, &["c1".to_owned()]));
        let mut world = World::with(On::Redis, &["c1"], Options::default(), one_chat).await;
        world.fake.script(&key("c1"), [Answer::Errcode(40008).into()]);
        say(&world, 1).await;
        let id = ended(&world, "dead").await;
        // As with one database for both: each knows the delivery as ended until it hears of the other's hand.
        let records = world.records();
        let (other, _files) =
            world.beside(|fake, scenario| one_chat(fake, scenario).set("database", "url", records)).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let hands = (0..20).map(|n: usize| {
            let address = if n.is_multiple_of(2) { world.app.admin_addr() } else { other.admin_addr() };
            let url = format!("http://{address}/api/v1/deliveries/{id}");
            http.post(url).json(&json!({"action": "resend"})).send()
        });
        let answers = futures_util::future::try_join_all(hands).await.unwrap();
        let mut seen: Vec<u16> = answers.iter().map(|answer| answer.status().as_u16()).collect();
        seen.sort_unstable();
        assert_eq!(seen, [vec![200], vec![409; 19]].concat());
        world.ends("m1", "delivered").await;
        world.fence("c1", "u1").await;
        assert_eq!(world.texts("c1"), [tag(1)]);
        other.stop().await;
        world.end().await;
    };
    tokio::time::timeout(crate::world::TEST, test).await.expect("within its time");
}
