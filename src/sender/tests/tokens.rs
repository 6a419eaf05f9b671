//! Access tokens of several processes on one store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tempfile::TempDir;

use super::robot::within_reason;
use crate::config::settings;
use crate::model::Secret;
use crate::sender::channel::http_client;
use crate::sender::token::{NoToken, Tokens};
use crate::sim::wecom::GETTOKEN;
use crate::sim::{Answer, FakeWeCom, Options};
use crate::store::embedded::EmbeddedStore;
use crate::store::{Note, SharedStore};

/// How long a send waits for a token.
const PATIENCE: Duration = Duration::from_secs(10);

struct Scene {
    fake: FakeWeCom,
    store: SharedStore,
    api: settings::Api,
    _folder: TempDir,
}

impl Scene {
    async fn new() -> Self {
        let fake = FakeWeCom::start(Options::default()).await.expect("a fake");
        fake.app("ww1", "s3cret", 7);
        let folder = TempDir::new().expect("a folder");
        let store = EmbeddedStore::open(folder.path(), 1).expect("a store");
        let api =
            settings::Api { corp_id: "ww1".into(), agent_id: 7, secret: Secret::new("s3cret"), ask_contacts: false };
        Self { fake, store, api, _folder: folder }
    }

    /// What one process knows.
    fn process(&self) -> Tokens {
        let sender =
            settings::Sender { max_chats: 1, timeout: PATIENCE, lease: PATIENCE * 3, head_start: Duration::ZERO };
        let client = http_client(&sender).expect("a client");
        Tokens::new(self.store.clone(), client, &self.fake.base(), PATIENCE)
    }

    async fn get(&self, tokens: &Tokens) -> String {
        within_reason(tokens.get(&self.api)).await.expect("a token").expose().to_owned()
    }
}

#[tokio::test]
async fn all_who_wait_get_the_one_token() {
    let scene = Scene::new().await;
    let (a, b) = (scene.process(), scene.process());
    let all = join_all((0..50).map(|n| scene.get(if n % 2 == 0 { &a } else { &b }))).await;
    assert!(all.iter().all(|token| token == "token-1"), "{all:?}");
    assert_eq!(scene.fake.posts(GETTOKEN), 1);
}

#[tokio::test]
async fn a_refresh_comes_early_and_nobody_waits_for_it() {
    let scene = Scene::new().await;
    let (a, b) = (scene.process(), scene.process());
    assert_eq!((scene.get(&a).await, scene.get(&b).await), ("token-1".into(), "token-1".into()));
    a.hurry();
    b.hurry();
    scene.fake.hold(GETTOKEN);
    let refresh = scene.get(&a);
    let others = async {
        scene.fake.until(|fake| fake.posts(GETTOKEN) == 2).await;
        let now = [scene.get(&a).await, scene.get(&b).await];
        scene.fake.release(GETTOKEN);
        now
    };
    let (refreshed, now) = tokio::join!(refresh, others);
    assert_eq!((refreshed.as_str(), now), ("token-2", ["token-1".into(), "token-1".into()]));
    b.hurry();
    assert_eq!(scene.get(&b).await, "token-2", "found, not asked for");
    assert_eq!(scene.fake.posts(GETTOKEN), 2);
}

#[tokio::test]
async fn an_early_refresh_that_fails_leaves_the_current_token() {
    let scene = Scene::new().await;
    let tokens = scene.process();
    scene.get(&tokens).await;
    scene.fake.always(GETTOKEN, Answer::Errcode(-1));
    tokens.hurry();
    for _ in 0..5 {
        assert_eq!(scene.get(&tokens).await, "token-1");
    }
    assert_eq!(scene.fake.posts(GETTOKEN), 2, "and is not tried again at once");
}

#[tokio::test]
async fn a_loser_gives_up_its_own_token_and_not_the_winners() {
    let scene = Scene::new().await;
    let (a, b) = (scene.process(), scene.process());
    let old = Secret::new(scene.get(&a).await);
    scene.get(&b).await;
    a.refused(&scene.api, &old).await;
    assert_eq!(scene.get(&a).await, "token-2");
    b.refused(&scene.api, &old).await;
    a.refused(&scene.api, &old).await;
    assert_eq!((scene.get(&a).await, scene.get(&b).await), ("token-2".into(), "token-2".into()));
    assert_eq!(scene.fake.posts(GETTOKEN), 2);
}

#[tokio::test]
async fn what_wecom_refused_is_not_asked_again_by_anybody() {
    let scene = Scene::new().await;
    let api = settings::Api { secret: Secret::new("wrong"), ..scene.api.clone() };
    for tokens in [scene.process(), scene.process()] {
        for _ in 0..5 {
            let none = within_reason(tokens.get(&api)).await.expect_err("no token");
            assert!(matches!(&none, NoToken::Refused { errcode: 40001, .. }), "{none:?}");
        }
    }
    assert_eq!(scene.fake.posts(GETTOKEN), 1);
    assert_eq!(scene.get(&scene.process()).await, "token-1", "another secret is another matter");
}

#[tokio::test]
async fn a_refresher_that_died_holds_nobody_up_for_long() {
    let scene = Scene::new().await;
    let digest = hex::encode(<sha2::Sha256 as sha2::Digest>::digest("s3cret"));
    let note = Note::token("ww1", &digest[..16]);
    assert!(scene.store.lock_note(&note, "the dead", Duration::from_millis(200)).await.expect("locked"));
    assert_eq!(scene.get(&scene.process()).await, "token-1");
}

#[tokio::test]
async fn no_token_is_waited_for_for_ever() {
    let scene = Scene::new().await;
    let client = http_client(&settings::Sender {
        max_chats: 1,
        timeout: PATIENCE,
        lease: PATIENCE * 3,
        head_start: Duration::ZERO,
    });
    let tokens =
        Tokens::new(scene.store.clone(), client.expect("a client"), &scene.fake.base(), Duration::from_millis(300));
    scene.fake.hold(GETTOKEN);
    let asking = Arc::new(tokens);
    let first = tokio::spawn({
        let (tokens, api) = (asking.clone(), scene.api.clone());
        async move { tokens.get(&api).await }
    });
    scene.fake.until(|fake| fake.posts(GETTOKEN) == 1).await;
    let none = within_reason(asking.get(&scene.api)).await.expect_err("none in time");
    assert!(matches!(none, NoToken::NotYet(_)), "{none:?}");
    scene.fake.release(GETTOKEN);
    assert!(within_reason(first).await.expect("no panic").is_ok());
}
