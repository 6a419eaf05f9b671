//! The whole gateway against every way out: each with WeCom's own limits, on both stores.

mod app;
mod contacts;
mod holds;
mod media;
mod once;
mod tokens;
mod unknown;

use serde_json::Value;
use wecom_gateway::sim::{FakeWeCom, Options, Scenario};

use crate::world::{APP, On, World};

/// A world whose one app is made by `app`.
async fn world_of(on: On, app: impl FnOnce(&FakeWeCom) -> Value) -> World {
    world_with(on, app, |scenario| scenario).await
}

/// As [`world_of`], with a configuration of its own.
async fn world_with(on: On, app: impl FnOnce(&FakeWeCom) -> Value, shape: impl FnOnce(Scenario) -> Scenario) -> World {
    World::with(on, &[], Options::default(), |fake, scenario| shape(scenario.app(APP, app(fake)))).await
}
