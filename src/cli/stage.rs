//! The stage of a demo: a fake WeCom, the load, and the configuration of a gateway between them, in files as a user's are.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};

use super::demo::Options;
use super::values::Span;
use crate::config::Settings;
use crate::config::settings::{self, AppKind};
use crate::sim::scenario::{robot_app, robot_key};
use crate::sim::{self, Answer, Caller, FakeWeCom, Ledger, Load, Scenario, Target, WorkTime};

/// Chats that the gateway sends to at once: a robot that takes its time must not set the pace of the demo.
const CHATS_AT_ONCE: usize = 64;
/// The one app of the demo.
const APP: &str = "demo";
/// What its members call it.
const BOT: &str = "小助手";

/// What is to be shown.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub load: Load,
    /// How long an action takes.
    pub work: Option<Span>,
    /// How long a robot takes.
    pub robot: Duration,
    /// How long the robot of one chat takes.
    pub slow_robot: Option<Duration>,
    pub redis: Option<String>,
}

impl Setup {
    /// A comparison runs in an open loop, with actions and robots that take the time they take in the field.
    pub(super) fn new(options: &Options) -> Self {
        let compare = options.compare;
        let ms = Duration::from_millis;
        let minute_in_two_runs = (compare && options.messages.is_none()).then_some(Duration::from_secs(20));
        let load = Load {
            messages: options.messages.unwrap_or(5000) as usize,
            duration: options.duration.or(minute_in_two_runs),
            chats: options.chats.unwrap_or(if compare { 100 } else { 50 }) as usize,
            seed: options.seed,
            rate: options.rate.or(compare.then_some(20.0)),
            ..Load::default()
        };
        Self {
            load,
            work: options.action_ms.or(compare.then_some(Span(ms(200), ms(800)))),
            robot: ms(options.robot_ms.unwrap_or(if compare { 80 } else { 5 })),
            slow_robot: compare.then_some(Duration::from_secs(1)),
            redis: options.redis.clone(),
        }
    }

    /// What is shown, in one line.
    pub(super) fn title(&self) -> String {
        let Load { chats, seed, rate, duration, under_way, .. } = &self.load;
        let store = if self.redis.is_some() { "redis" } else { "embedded" };
        let pace = rate.map_or(format!("{under_way} messages under way"), |rate| format!("{rate} messages/s"));
        let long = duration.map_or(String::new(), |d| format!(" for {} s", d.as_secs_f64()));
        let work = self.work.map_or(String::new(), |span| format!("an action takes {}, ", span.show()));
        let slow = self.slow_robot.map_or(String::new(), |d| format!(", one robot {} ms", d.as_millis()));
        let robot = self.robot.as_millis();
        format!(
            "{chats} chats, {pace}{long}, seed {seed}, {store} store; {work}a robot takes {robot} ms to answer{slow}"
        )
    }
}

/// A fake WeCom and what a gateway has to know of it.
pub(super) struct Stage {
    pub fake: FakeWeCom,
    pub settings: Settings,
    pub app: Arc<settings::App>,
    /// Its folder holds the files and the store.
    _scenario: Scenario,
}

impl Stage {
    /// Starts the fake and writes the configuration.
    pub(super) async fn set(setup: &Setup) -> anyhow::Result<Self> {
        let options = sim::Options {
            latency: setup.robot,
            work: setup.work.map(|Span(from, to)| WorkTime { seed: setup.load.seed, from, to }),
            action_secret: Some("demo-action-secret".into()),
            forget: true,
            ..sim::Options::default()
        };
        let fake = FakeWeCom::start(options).await.context("the fake WeCom can't listen on loopback")?;
        let chats = setup.load.chat_ids();
        let mut scenario = Scenario::new(&fake)
            .context("no temporary folder")?
            .set("sender", "max_chats", CHATS_AT_ONCE)
            .app(APP, robot_app(&fake, APP, &chats));
        if let Some(url) = &setup.redis {
            scenario = scenario.on_redis(url);
        }
        if let Some((slow, chat)) = setup.slow_robot.zip(chats.first()) {
            fake.always(&robot_key(APP, chat), Answer::Taken.after(slow));
        }
        let path = scenario.write().context("can't write the demo's configuration")?;
        let settings = crate::config::load(&path).context("the demo's own configuration")?;
        let app = settings.apps.get(APP).context("the demo's own app is missing")?.clone();
        Ok(Self { fake, settings, app, _scenario: scenario })
    }

    /// What the load is posted to, where callbacks are taken at `base`.
    pub(super) fn target(&self, base: &str, load: &Load) -> anyhow::Result<Target> {
        let AppKind::GroupRobot(crypto) = &self.app.kind else { bail!("the demo's own app is no group robot") };
        let caller = Caller::new(format!("{base}/callback/{APP}"), crypto.clone())?;
        Ok(Target { caller, bot: BOT.to_owned(), chats: load.chat_ids() })
    }

    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        self.fake.ledger()
    }
}
