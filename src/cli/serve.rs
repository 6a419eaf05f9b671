//! `serve`: runs the gateway until SIGTERM or SIGINT, then lets it finish what is under way.

use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::{Failure, runtime};
use crate::app::App;
use crate::config::Settings;
use crate::telemetry::logs;

pub(super) fn run(settings: Settings) -> Result<(), Failure> {
    logs::init(&settings.log).map_err(Failure::running)?;
    #[cfg(feature = "crash-points")]
    crate::crash::arm().map_err(|error| Failure { code: super::MISCONFIGURED, text: error.to_string() })?;
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::running)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::running)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(Failure::running)?;
        let app = App::start(settings).await?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break info!("SIGTERM: finishing what is under way"),
                _ = interrupt.recv() => break info!("SIGINT: finishing what is under way"),
                // Unhandled, it would end the process.
                _ = hangup.recv() => warn!("SIGHUP: this version reads its configuration at start only; restart it"),
            }
        }
        app.stop().await;
        info!("stopped");
        Ok(())
    })
}
