//! `serve`: runs the gateway until SIGTERM or SIGINT, then lets it finish what is under way. SIGHUP reads the configuration
//! again.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::{Failure, doors, runtime};
use crate::app::App;
use crate::config::Settings;
use crate::telemetry::logs;

pub(super) fn run(settings: Settings, file: PathBuf) -> Result<(), Failure> {
    logs::init(&settings.log).map_err(Failure::running)?;
    doors::open(&settings).into_iter().for_each(|door| warn!("{door}"));
    #[cfg(feature = "crash-points")]
    crate::crash::arm().map_err(|error| Failure { code: super::MISCONFIGURED, text: error.to_string() })?;
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::running)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::running)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(Failure::running)?;
        if let Some(why) = crate::config::alone(&settings) {
            warn!("{why}");
        }
        let app = App::start_from(settings, file).await?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break info!("SIGTERM: finishing what is under way"),
                _ = interrupt.recv() => break info!("SIGINT: finishing what is under way"),
                // What came of it stands in the log.
                _ = hangup.recv() => drop(app.reloader().reload("SIGHUP").await),
            }
        }
        app.stop().await;
        info!("stopped");
        Ok(())
    })
}
