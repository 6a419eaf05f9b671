//! `GET /configuration`: the files that are in force, secrets blank; `POST /reload`: reads them again, as SIGHUP does.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use super::auth::Operator;
use super::{AdminState, Failure};
use crate::config::Unfit;
use crate::setup::{ReloadError, Reloaded};

/// What is in force.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Configuration {
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

/// The files in force, secrets blank
#[utoipa::path(
    get,
    path = "/configuration",
    operation_id = "getConfiguration",
    tag = "gateway",
    responses((status = 200, description = "The files", body = Configuration))
)]
pub(super) async fn get(State(state): State<AdminState>) -> Json<Configuration> {
    let settings = state.settings();
    let mut files: Vec<File> =
        settings.files.iter().map(|(name, read)| File { name: name.clone(), text: read.shown.clone() }).collect();
    // The process before its apps.
    files.sort_by_key(|file| file.name.contains('/'));
    Json(Configuration { files })
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
    state.reloader.reload(&who.name).await.map(Json).map_err(|error| match error {
        ReloadError::Files(Unfit::NeedsRestart { .. }) => {
            Failure::new(StatusCode::CONFLICT, "needs_restart", error.to_string())
        }
        ReloadError::Files(Unfit::Faulty(_)) | ReloadError::Rules(_) => {
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration_faults", error.to_string())
        }
        ReloadError::NoFile => Failure::new(StatusCode::CONFLICT, "no_file", error.to_string()),
    })
}
