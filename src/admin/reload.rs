//! `POST /reload`: reads the configuration again, as SIGHUP does, and answers what changed or every fault.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::AdminState;
use super::auth::Operator;
use super::failure::Failure;
use crate::setup::{ReloadError, Reloaded};

/// Takes the files as they are now: all of them, or none.
pub(super) async fn post(
    State(state): State<AdminState>,
    Extension(who): Extension<Operator>,
) -> Result<Json<Reloaded>, Failure> {
    state.reloader.reload(&who.name).await.map(Json).map_err(|error| match error {
        ReloadError::Faults(_) | ReloadError::Rules(_) => {
            let text = format!("nothing was changed; mend these and try again: {error}");
            Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "configuration_faults", text)
        }
        ReloadError::NoFile => Failure::new(StatusCode::CONFLICT, "no_file", error.to_string()),
    })
}
