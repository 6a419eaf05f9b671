//! The synchronous design that the demo compares with: its faults come of themselves, and the gateway has none of them under
//! the same load.

use std::time::Duration;

use wecom_gateway::config::settings::AppKind;
use wecom_gateway::sim::scenario::robot_app;
use wecom_gateway::sim::synchronous::SynchronousBot;
use wecom_gateway::sim::{Caller, FakeWeCom, Load, Options, Scenario, WorkTime, robot_text};

use crate::world::{APP, On, TEST, World, key};

/// A synchronous bot between a caller and a fake.
struct Stage {
    fake: FakeWeCom,
    bot: SynchronousBot,
    caller: Caller,
}

async fn stage(chats: &[String], options: Options) -> Stage {
    let fake = FakeWeCom::start(options).await.unwrap();
    let scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, chats));
    let settings = wecom_gateway::config::load(&scenario.write().unwrap()).unwrap();
    let app = &settings.apps[APP];
    let AppKind::GroupRobot(crypto) = &app.kind else { panic!("a group robot") };
    let bot = SynchronousBot::start(app, &settings.sender).await.unwrap();
    let caller = Caller::new(format!("{}/callback/{APP}", bot.base()), crypto.clone()).unwrap();
    Stage { fake, bot, caller }
}

async fn two_chats() -> Stage {
    stage(&["a".to_owned(), "b".to_owned()], Options::default()).await
}

fn echo(chat: &str, serial: u64) -> String {
    robot_text(chat, "u1", &format!("m{serial}"), &format!("/echo [{chat} u1 {serial}]"))
}

async fn timely(test: impl Future<Output = ()>) {
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test]
async fn a_quiet_day_hides_its_faults() {
    timely(async {
        let Stage { fake, bot, caller } = two_chats().await;
        caller.verify().await.unwrap();
        for (serial, chat) in [(1, "a"), (2, "b")] {
            assert_eq!(caller.post(&echo(chat, serial)).await, Some(200));
            fake.until(|fake| fake.texts(&key(chat)).len() == 1).await;
        }
        assert_eq!(fake.ledger().violations(), []);
        bot.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_reply_that_waits_goes_to_whoever_wrote_last() {
    timely(async {
        let Stage { fake, bot, caller } = two_chats().await;
        fake.hold(&key("a"));
        assert_eq!(caller.post(&echo("a", 1)).await, Some(200));
        fake.until(|fake| fake.under_way(&key("a")) == 1).await;
        for (serial, chat) in [(2, "a"), (3, "b")] {
            assert_eq!(caller.post(&echo(chat, serial)).await, Some(200));
        }
        fake.release(&key("a"));
        fake.until(|fake| fake.texts(&key("b")).len() == 2).await;
        assert_eq!(fake.texts(&key("b")), ["[a u1 2]", "[b u1 3]"]);
        assert_eq!(fake.ledger().summary().misrouted, 1);
        bot.stop().await;
    })
    .await;
}

#[tokio::test]
async fn what_takes_longer_than_wecom_waits_is_done_again() {
    timely(async {
        let Stage { fake, bot, caller } = two_chats().await;
        fake.service().hold();
        let impatient = caller.patient_for(Duration::from_millis(100));
        let message = robot_text("a", "u1", "m1", "/query 1");
        let mut posts = 0;
        assert!(!impatient.deliver(&message, || posts += 1).await, "no answer in time");
        assert_eq!((posts, fake.service().count()), (4, 4));
        fake.service().release();
        fake.until(|fake| fake.texts(&key("a")).len() == 4).await;
        assert_eq!(fake.ledger().summary().repeated, 3);
        bot.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_one_load_only_the_gateway_keeps_its_promises() {
    timely(async {
        let work = WorkTime { seed: 5, from: Duration::from_millis(20), to: Duration::from_millis(80) };
        let options = || Options { latency: Duration::from_millis(5), work: Some(work), ..Options::default() };
        let load = Load { messages: 200, chats: 10, seed: 5, rate: Some(200.0), ..Load::default() };
        let (chats, patience) = (load.chat_ids(), Duration::from_millis(50));

        let Stage { fake, bot, caller } = stage(&chats, options()).await;
        load.run(&caller.patient_for(patience), fake.ledger()).await;
        assert!(fake.ledger().all_answered(Duration::from_secs(10)).await);
        let theirs = fake.ledger().summary();
        assert!(theirs.repeated > 0 && theirs.misrouted > 0 && !theirs.kept(), "{theirs:?}");
        bot.stop().await;

        let names: Vec<&str> = chats.iter().map(String::as_str).collect();
        let world = World::with(On::Embedded, &names, options(), |_, scenario| scenario).await;
        load.run(&world.caller.clone().patient_for(patience), world.fake.ledger()).await;
        assert!(world.fake.ledger().all_answered(Duration::from_secs(10)).await);
        let ours = world.fake.ledger().summary();
        assert!(ours.progress.posted == 200 && ours.repeated + ours.misrouted == 0, "{ours:?}");
        world.end().await;
    })
    .await;
}
