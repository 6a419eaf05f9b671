//! A full disk: what can't be written down is not acked, who asks is told so, and with room again all goes on by itself.

use serde_json::Value;
use wecom_gateway::sim::{Caller, FakeWeCom, Options, Scenario, robot_text, scenario::robot_app};

use crate::crash::process::Gateway;
use crate::redis_server::RedisServer;
use crate::world::{APP, TEST, caller_at, key};

/// A gateway on a disk of its own, so to say.
struct Scene {
    fake: FakeWeCom,
    gateway: Gateway,
    caller: Caller,
    _scenario: Scenario,
}

impl Scene {
    /// On Redis where there is one, and with a message answered already.
    async fn new(redis: Option<&RedisServer>) -> Self {
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let mut scenario = Scenario::new(&fake).unwrap().app(APP, robot_app(&fake, APP, &["c1".into()]));
        if let Some(redis) = redis {
            scenario = scenario.on_redis(redis.url().expose());
        }
        let gateway = Gateway::start_on_a_small_disk(&scenario.write().unwrap()).await.unwrap();
        let caller = caller_at(gateway.callbacks, &scenario, APP);
        let scene = Self { fake, gateway, caller, _scenario: scenario };
        assert_eq!((scene.say("m1").await, scene.ready().await), (Some(200), (200, "up".into())));
        scene.posts(1).await;
        scene
    }

    /// How the callback of a message was answered.
    async fn say(&self, msg_id: &str) -> Option<u16> {
        self.caller.post(&robot_text("c1", "u1", msg_id, "/echo hello")).await
    }

    /// The status of `/readyz`, and what it says of the store.
    async fn ready(&self) -> (u16, Value) {
        let answer = reqwest::get(format!("http://{}/readyz", self.gateway.admin)).await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap()["store"].take())
    }

    async fn posts(&self, n: usize) {
        self.fake.until(|fake| fake.posts(&key("c1")) == n).await;
    }

    async fn end(self) {
        let ended = self.gateway.terminate().await;
        assert!(ended.status.success(), "{}", ended.said);
        assert_eq!(self.fake.ledger().violations(), []);
        self.fake.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acked_and_readyz_says_so_until_there_is_room() {
    let test = async {
        let scene = Scene::new(None).await;
        scene.gateway.fill_disk(true);
        assert_eq!((scene.say("m2").await, scene.ready().await), (Some(503), (503, "unreachable".into())));
        scene.gateway.fill_disk(false);
        assert_eq!((scene.say("m2").await, scene.ready().await), (Some(200), (200, "up".into())));
        scene.posts(2).await;
        scene.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_redis_is_away_the_disk_of_the_spool_decides() {
    let test = async {
        let mut redis = RedisServer::spawn(&["--appendonly", "yes", "--appendfsync", "always"]);
        let scene = Scene::new(Some(&redis)).await;
        scene.gateway.fill_disk(true);
        assert_eq!((scene.say("m2").await, scene.ready().await), (Some(200), (200, "up".into())), "nothing is spooled");
        redis.kill();
        assert_eq!((scene.say("m3").await, scene.ready().await), (Some(503), (503, "unreachable".into())));
        scene.gateway.fill_disk(false);
        assert_eq!((scene.say("m3").await, scene.ready().await), (Some(200), (200, "unreachable".into())));
        redis.restart();
        scene.posts(3).await;
        scene.end().await;
    };
    tokio::time::timeout(TEST, test).await.expect("within its time");
}
