//! What is right for one gateway by itself, and wrong as soon as a second one shares its store.

use super::settings::{Backend, Settings};

/// What several gateways could not share of this configuration although their store is made to be shared: a sentence for whoever
/// checks or starts it.
pub fn alone(settings: &Settings) -> Option<&'static str> {
    let is_file = settings.database.url.expose().starts_with("sqlite:");
    (settings.store.backend == Backend::Redis && is_file).then_some(
        "[store] is in Redis, which several gateways can share, and [database] url is a SQLite file, which they can't: right for one \
         gateway; for several, give all of them one MySQL database, or trails and statistics are in pieces",
    )
}
