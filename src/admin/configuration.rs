//! `GET /configuration`: the files as they were read last, secrets blank, and what of them is not in force yet; `POST /reload`: reads them again, as SIGHUP does.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Operator;
use super::{AdminState, Failure};
use crate::config::Unfit;
use crate::records::rfc3339;
use crate::setup::{Refusal, ReloadError, Reloaded};

/// The files as they were read last.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Configuration {
    /// When they were read.
    #[schema(format = DateTime)]
    read_at: String,
    /// Keys of `gateway.toml` that are in force only after the next start: until then the gateway works by what they said before.
    needs_restart: Vec<&'static str>,
    /// What was read after these files and not taken; null where the last ones read are these.
    last_refusal: Option<RefusalItem>,
    files: Vec<File>,
}

/// Files that were not taken.
#[derive(Debug, Serialize, ToSchema)]
struct RefusalItem {
    /// When, RFC 3339 with milliseconds.
    at: String,
    /// Who had them read: the name of a token, `loopback`, `signal`, `watch`.
    by: String,
    /// How many faults they have.
    faults: usize,
    /// The faults, a line each.
    message: String,
}

/// One file.
#[derive(Debug, Serialize, ToSchema)]
struct File {
    /// `gateway.toml` or `apps/<id>.toml`
    name: String,
    /// Its keys as TOML, without comments; a secret is `***`, or the `${…}` that leads to it; a web address that may hold one is cut behind its host.
    text: String,
}

/// The files as they were read last, secrets blank
///
/// They are in force, but for the keys in `needs_restart`. Later ones that were refused are told in `last_refusal`.
#[utoipa::path(
    get,
    path = "/configuration",
    operation_id = "getConfiguration",
    tag = "gateway",
    responses((status = 200, description = "The files", body = Configuration))
)]
pub(super) async fn get(State(state): State<AdminState>) -> Json<Configuration> {
    let setup = state.in_force.now();
    let settings = &setup.settings;
    let mut files: Vec<File> =
        settings.files.iter().map(|(name, read)| File { name: name.clone(), text: read.shown.clone() }).collect();
    // The process before its apps.
    files.sort_by_key(|file| file.name.contains('/'));
    let refused = |refusal: Arc<Refusal>| {
        let Refusal { at, by, faults, message } = &*refusal;
        RefusalItem { at: rfc3339(*at), by: by.clone(), faults: *faults, message: message.clone() }
    };
    Json(Configuration {
        read_at: rfc3339(setup.read_at),
        needs_restart: setup.needs_restart.clone(),
        last_refusal: state.reloader.refusal().map(refused),
        files,
    })
}

/// Reads the configuration again
///
/// Takes the files as they are now, as SIGHUP does: all of them, or none.
#[utoipa::path(
    post,
    path = "/reload",
    operation_id = "reload",
    tag = "gateway",
    responses(
        (status = 200, description = "They are in force", body = Reloaded),
        (status = 409, description = "`no_file`: the gateway was not started from a file; `needs_restart`: they are sound, but not beside what can't change before"),
        (status = 422, description = "`configuration_faults`: every fault; what was in force stays"),
        (status = 500, description = "`internal`: a fault of this program; what was in force stays")
    )
)]
pub(super) async fn reload(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
) -> Result<Json<Reloaded>, Failure> {
    state.reloader.reload(who.who()).await.map(Json).map_err(|error| {
        let status = match &error {
            ReloadError::Files(Unfit::NeedsRestart { .. }) | ReloadError::NoFile => StatusCode::CONFLICT,
            ReloadError::Files(Unfit::Faulty(_)) | ReloadError::Rules(_) => StatusCode::UNPROCESSABLE_ENTITY,
            ReloadError::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Failure::new(status, error.code(), error.to_string())
    })
}
