//! `serve`: runs the gateway until SIGTERM or SIGINT, then lets it finish what is under way. SIGHUP reads the configuration
//! again.

use std::path::PathBuf;

use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use super::{Failure, doors, runtime};
use crate::app::App;
use crate::config::Settings;
use crate::store::Who;
use crate::telemetry::logs;

pub(super) fn run(settings: Settings, file: PathBuf) -> Result<(), Failure> {
    let _written = logs::init(&settings.log).map_err(Failure::running)?;
    let alone = crate::config::alone(&settings).map(str::to_owned);
    let doubts: Vec<String> = doors::open(&settings).into_iter().chain(alone).collect();
    #[cfg(feature = "crash-points")]
    crate::crash::arm().map_err(|error| Failure { code: super::MISCONFIGURED, text: error.to_string() })?;
    runtime()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::running)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::running)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(Failure::running)?;
        let app = App::start_from(settings, file).await?;
        // Of a gateway that runs: one that can't start says why in one sentence, and nothing else.
        doubts.iter().for_each(|doubt| warn!("{doubt}"));
        loop {
            tokio::select! {
                _ = terminate.recv() => break info!("SIGTERM: finishing what is under way"),
                _ = interrupt.recv() => break info!("SIGINT: finishing what is under way"),
                // What came of it stands in the log.
                _ = hangup.recv() => drop(app.reloader().reload(Who::SIGNAL).await),
            }
        }
        app.stop().await;
        info!("stopped");
        Ok(())
    })
}
