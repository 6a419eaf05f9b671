//! The operators' listener: console, probes, metrics and the API (contract, section 4).
//!
//! What always holds: every answer carries `X-Request-Id`; every error, from a wrong path to a lost database, has the
//! one shape of [`crate::api_error`]; nothing but the probes and the console's static files answers to a stranger; nothing here
//! moves a message or a reply to another chat; phone numbers are whole for scope `admin` alone. Each route of the API is described
//! where it is handled, and cannot be without (`openapi`). Ids may hold a slash, and some proxies decode `%2F`: where an id comes
//! last in a path, what follows is taken whole.
//!
//! Serve it with `into_make_service_with_connect_info::<SocketAddr>()`: a peer whose address is not known counts as a
//! stranger.

mod apps;
mod auth;
mod changes;
mod chats;
mod configuration;
mod console;
mod failure;
mod local;
mod masked;
mod object;
mod openapi;
mod operate;
mod probes;
mod push;
mod pushed;
mod replies;
mod sessions;
mod stats;
mod trails;
mod users;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::{Extension, Router};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::IntoParams;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

use crate::alarms::Alarms;
use crate::api_error::{ApiError, with_request_id};
use crate::config::Settings;
use crate::config::settings::Scope;
use crate::hands::Hands;
use crate::model::new_id;
use crate::push::{Desk, Kafka};
use crate::records::{Cursor, Records};
use crate::sender::Holds;
use crate::sender::route::Routes;
use crate::setup::{InForce, Reloader};
use crate::store::{SharedStore, Spool};
use crate::telemetry::{Health, Metrics, Recent, Spans};
pub use auth::Refusals;
use failure::Failure;

/// What the operators' listener shows.
#[derive(Clone)]
pub struct AdminState {
    /// Lanes, pace, depth.
    pub store: SharedStore,
    /// What waits for the store, where there is a spool.
    pub spool: Option<Arc<Spool>>,
    /// Trails and deliveries.
    pub records: Records,
    /// Who may ask, the configured chats, and how each is reached now.
    pub in_force: Arc<InForce>,
    /// Reads the configuration again.
    pub reloader: Arc<Reloader>,
    /// What the last callbacks were answered.
    pub recent: Arc<Recent>,
    /// Where push tasks are handed over.
    pub desk: Arc<Desk>,
    /// Ends deliveries by hand.
    pub hands: Arc<Hands>,
    /// What holds whole apps up.
    pub holds: Arc<Holds>,
    /// Where alarms are raised.
    pub alarms: Alarms,
    /// What `/metrics` shows.
    pub metrics: Arc<Metrics>,
    /// Where tasks come from and go to, if it is configured.
    pub kafka: Option<Arc<Kafka>>,
    /// Where the time of what is handed over here went.
    pub spans: Spans,
    /// What the probes show.
    pub health: Arc<Health>,
    /// What of refused requests is told.
    pub refusals: Arc<Refusals>,
}

impl AdminState {
    fn settings(&self) -> Arc<Settings> {
        self.in_force.settings()
    }

    fn routes(&self) -> Arc<Routes> {
        self.in_force.routes()
    }
}

/// Where the API lies.
const API: &str = "/api/v1";

/// The listener's router.
pub fn router(state: AdminState) -> Router {
    let only = |scope| from_fn_with_state((state.clone(), scope), auth::require);
    let api = groups()
        .into_iter()
        .fold(OpenApiRouter::default(), |api, (scope, routes)| api.merge(routes.route_layer(only(scope))));
    let api = Router::from(api)
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(Extension(openapi::Document::from(description())))
        .layer(from_fn(masked::below_admin))
        .layer(only(Scope::Read));
    Router::from(probing())
        .nest(API, api)
        .merge(console::router())
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(from_fn(with_request_ids))
        .with_state(state)
}

/// What `GET /api/v1/openapi.json` answers: an OpenAPI 3.1 document of this listener, but for the console.
pub fn description() -> Value {
    let api = groups()
        .into_iter()
        .fold(OpenApiRouter::default(), |api, (scope, routes)| api.merge(openapi::demanding(scope, routes)));
    openapi::document(probing().into_openapi(), API, api.into_openapi())
}

/// The API's routes, by the scope that they demand.
fn groups() -> [(Scope, OpenApiRouter<AdminState>); 3] {
    let reading = OpenApiRouter::default()
        .routes(routes!(trails::messages))
        .routes(routes!(trails::deliveries))
        .routes(routes!(chats::list))
        .routes(routes!(chats::one))
        .routes(routes!(pushed::get))
        .routes(routes!(users::get))
        .routes(routes!(sessions::get))
        .routes(routes!(stats::day))
        .routes(routes!(apps::list))
        .routes(routes!(changes::list))
        .routes(routes!(openapi::get));
    let pushing = OpenApiRouter::default()
        .routes(routes!(push::post).layer(DefaultBodyLimit::max(push::MOST_BYTES)))
        .routes(routes!(pushed::confirm))
        .routes(routes!(replies::post));
    let changing = OpenApiRouter::default()
        .routes(routes!(operate::delivery))
        .routes(routes!(operate::chat))
        .routes(routes!(apps::retry))
        .routes(routes!(sessions::delete))
        .routes(routes!(users::put, users::delete))
        .routes(routes!(configuration::get))
        .routes(routes!(configuration::reload));
    [(Scope::Read, reading), (Scope::Push, pushing), (Scope::Admin, changing)]
}

/// What machines look at.
fn probing() -> OpenApiRouter<AdminState> {
    OpenApiRouter::default()
        .routes(routes!(probes::livez))
        .routes(routes!(probes::readyz))
        .routes(routes!(probes::metrics))
}

/// A span as answers have it.
fn whole_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Of an id in a path or in a body.
fn unknown_app() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "unknown_app", "no app of this id is configured")
}

async fn no_such_path() -> Failure {
    Failure::new(StatusCode::NOT_FOUND, "not_found", "nothing here; the console is at /, the API under /api/v1")
}

async fn no_such_method() -> Failure {
    Failure::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", "not by this method; `Allow` says by which")
}

/// Names every answer, and writes the errors that inner layers left in it ([`Failure`]).
async fn with_request_ids(request: Request, next: Next) -> Response {
    let request_id = new_id();
    let mut response = next.run(request).await;
    let Some(error) = response.extensions_mut().remove::<ApiError>() else {
        return with_request_id(response, &request_id);
    };
    let mut written = error.respond(&request_id);
    for name in [header::ALLOW, header::WWW_AUTHENTICATE] {
        if let Some(value) = response.headers_mut().remove(&name) {
            written.headers_mut().insert(name, value);
        }
    }
    written
}

/// How much of a list, and from where.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Part {
    /// At most so many items.
    #[param(value_type = Option<i64>, minimum = 1, maximum = 1000, default = 100)]
    #[serde(default, deserialize_with = "some_items")]
    limit: Option<u32>,
    /// `next` of the page before.
    cursor: Option<String>,
}

/// So many as a page holds: one of no items would never come to an end. Whose fault says nothing of types; the field's name is put in front.
fn some_items<'de, D: Deserializer<'de>>(field: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(field)?;
    let limit = text.parse().ok().filter(|limit| (1..=Part::MOST).contains(limit));
    limit.map(Some).ok_or_else(|| D::Error::custom(format_args!("write 1 to {}", Part::MOST)))
}

impl Part {
    const DEFAULT: u32 = 100;
    const MOST: u32 = 1000;

    fn limit(&self) -> u32 {
        self.limit.unwrap_or(Self::DEFAULT)
    }

    fn from(&self) -> Option<Cursor> {
        self.cursor.as_deref().filter(|text| !text.is_empty()).map(Cursor::from_text)
    }
}
