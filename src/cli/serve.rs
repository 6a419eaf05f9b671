//! `serve`: runs the gateway until SIGTERM or SIGINT, then lets it finish what is under way.

use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::{Failure, runtime};
use crate::app::App;
use crate::config::Settings;
use crate::telemetry::logs;

pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    logs::init(&settings.log).map_err(Failure::running)?;
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::running)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::running)?;
        let app = App::start(settings).await?;
        tokio::select! {
            _ = terminate.recv() => info!("SIGTERM: finishing what is under way"),
            _ = interrupt.recv() => info!("SIGINT: finishing what is under way"),
        }
        app.stop().await;
        info!("stopped");
        Ok(())
    })
}
