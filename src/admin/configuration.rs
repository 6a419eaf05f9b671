//! `GET /configuration`: the files as they were read last, secrets blank, and what of them is not in force yet; `POST /reload`: reads them again, as SIGHUP does.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Operator;
use super::{AdminState, Failure};
use crate::config::Unfit;
use crate::records::rfc3339;
use crate::setup::{ReloadError, Reloaded};

/// The files as they were read last.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Configuration {
    /// When they were read.
    #[schema(format = DateTime)]
    read_at: String,
    /// Keys of `gateway.toml` that are in force only after the next start: until then the gateway works by what they said before.
    needs_restart: Vec<&'static str>,
    files: Vec<File>,
}

/// One file.
#[derive(Debug, Serialize, ToSchema)]
struct File {
    /// `gateway.toml` or `apps/<id>.toml`
    name: String,
    /// Its keys as TOML, without comments; a secret is `***`, or the `${…}` that leads to it.
    text: String,
}

/// The files as they were read last, secrets blank
///
/// They are in force, but for the keys in `needs_restart`.
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
    Json(Configuration { read_at: rfc3339(setup.read_at), needs_restart: setup.needs_restart.clone(), files })
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
        (status = 422, description = "`configuration_faults`: every fault; what was in force stays")
    )
)]
pub(super) async fn reload(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
) -> Result<Json<Reloaded>, Failure> {
    state.reloader.reload(who.who()).await.map(Json).map_err(|error| match error {
        ReloadError::Files(Unfit::NeedsRestart { .. }) => {
            Failure::new(StatusCode::CONFLICT, "needs_restart", error.to_string())
        }
        ReloadError::Files(Unfit::Faulty(_)) | ReloadError::Rules(_) => {
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration_faults", error.to_string())
        }
        ReloadError::NoFile => Failure::new(StatusCode::CONFLICT, "no_file", error.to_string()),
    })
}
