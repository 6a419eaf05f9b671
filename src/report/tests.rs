//! A day is told once, whoever tells it, and what was not sent is told again.

use tempfile::TempDir;

use super::*;
use crate::config;
use crate::model::MessageKey;
use crate::records::trail::Recorded;
use crate::sender::channel::http_client;
use crate::sim::{Answer, FakeWeCom, Options, Scenario};
use crate::store::embedded::EmbeddedStore;
use crate::store::{Line, Stage};
use crate::telemetry::health::STALLED_AFTER;

/// The robot's key.
const ROBOT: &str = "report-robot";

struct Scene {
    fake: FakeWeCom,
    scenario: Scenario,
    store: SharedStore,
    records: Records,
    _folder: TempDir,
}

impl Scene {
    /// A fake WeCom, and records with one message on 2026-11-29.
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let fake = FakeWeCom::start(Options::default()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let scenario = Scenario::new(&fake).unwrap().set("report", "webhook", fake.webhook(ROBOT, "ops"));
        let store = EmbeddedStore::open(&folder.path().join("store"), 1).unwrap();
        let url = Secret::new(format!("sqlite://{}", folder.path().join("records.db").display()));
        let records = Records::open(&url).await.unwrap();
        let key = MessageKey::new("support", "wr1", "u1", "m1");
        let line = Line { stage: Stage::Accepted, request_id: "r1".into(), key, detail: Default::default() };
        records.write(vec![Recorded::parse(&format!("1795910400000\t{line}")).unwrap()]).await.unwrap();
        Self { fake, scenario, store, records, _folder: folder }
    }

    /// What one process would tell it by.
    fn reporter(&self) -> (Reporter, Webhook) {
        let settings = config::load(&self.scenario.write().unwrap()).unwrap();
        let client = http_client(&settings.sender).unwrap();
        let webhook = settings.report.webhook.clone().unwrap();
        let in_force = InForce::new(settings).unwrap();
        let (store, records) = (self.store.clone(), self.records.clone());
        (Reporter::new(store, records, in_force, client, Arc::default()), webhook)
    }
}

fn day(text: &str) -> Date {
    text.parse().unwrap()
}

#[tokio::test]
async fn several_processes_tell_a_day_once() {
    let scene = Scene::new().await;
    let ((one, webhook), (other, _)) = (scene.reporter(), scene.reporter());
    let today = day("2026-11-30");
    for _ in 0..3 {
        let (one, other) = tokio::join!(one.tell(&webhook, today), other.tell(&webhook, today));
        assert!(one.unwrap() != Told::Refused && other.unwrap() != Told::Refused);
    }
    let texts = scene.fake.texts(ROBOT);
    assert_eq!(texts.len(), 1);
    assert!(texts[0].starts_with("wecom-gateway 日报 2026-11-29（UTC）\n\n消息 1："), "{}", texts[0]);
    // The next day is another matter.
    assert_eq!(other.tell(&webhook, day("2026-12-01")).await.unwrap(), Told::Done);
    assert!(scene.fake.texts(ROBOT)[1].ends_with("没有收到消息。"));
}

#[tokio::test]
async fn what_was_not_sent_is_told_again_and_what_may_have_been_is_not() {
    let scene = Scene::new().await;
    let (reporter, webhook) = scene.reporter();
    let today = day("2026-11-30");
    scene.fake.script(ROBOT, [Answer::Errcode(45009).into()]);
    assert_eq!(reporter.tell(&webhook, today).await.unwrap(), Told::Refused);
    assert_eq!(reporter.tell(&webhook, today).await.unwrap(), Told::Done);
    assert_eq!(scene.fake.texts(ROBOT).len(), 1);
    let tomorrow = day("2026-12-01");
    scene.fake.script(ROBOT, [Answer::Cut.into()]);
    for _ in 0..2 {
        assert_eq!(reporter.tell(&webhook, tomorrow).await.unwrap(), Told::Done);
    }
    assert_eq!(scene.fake.posts(ROBOT), 3);
}

#[tokio::test]
async fn a_slow_day_is_no_stuck_loop() {
    let scene = Scene::new().await;
    let (reporter, webhook) = scene.reporter();
    assert_eq!(reporter.tell(&webhook, day("2026-11-30")).await.unwrap(), Told::Done);
    let later = std::time::Instant::now() + 2 * STALLED_AFTER;
    assert_eq!(reporter.health.stalled(later), [LOOP], "it ticks on its way, beyond once a round");
}

#[tokio::test]
async fn a_day_waits_for_the_records_and_leaves_its_lock() {
    let scene = Scene::new().await;
    let (reporter, webhook) = scene.reporter();
    scene.records.close().await;
    assert!(matches!(reporter.tell(&webhook, day("2026-11-30")).await, Err(ReportError::Records(_))));
    let note = Note::report("2026-11-29", webhook.digest.as_str());
    assert!(scene.store.lock_note(&note, "another", PREPARING).await.unwrap(), "it is free");
    assert_eq!(reporter.tell(&webhook, day("2026-11-30")).await.unwrap(), Told::Theirs);
    assert_eq!(scene.fake.posts(ROBOT), 0);
}

#[tokio::test(start_paused = true)]
async fn tries_are_few_and_apart_and_each_day_begins_anew() {
    let (mut progress, today) = (Progress::default(), day("2026-11-30"));
    for _ in 0..MOST_TRIES {
        assert!(progress.is_open(today));
        progress.after(today, Ok(Told::Refused));
        assert!(!progress.is_open(today));
        tokio::time::advance(AGAIN).await;
    }
    assert!(!progress.is_open(today), "it is left out");
    assert!(progress.is_open(day("2026-12-01")));
    progress.after(today, Ok(Told::Theirs));
    assert_eq!(progress.tries, 0);
}
