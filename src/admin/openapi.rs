//! `GET /api/v1/openapi.json`: what this listener can be asked, described by the very handlers and types that answer.
//!
//! What always holds: the API is made of routes that have their descriptions with them ([`OpenApiRouter`]), in groups by the scope
//! that is both demanded and described. What all operations have in common is added here:
//! the errors that follow from a scope, the shape of an error, `X-Request-Id`.

use std::collections::BTreeSet;

use axum::Extension;
use axum::body::Bytes;
use axum::http::HeaderName;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

use super::AdminState;
use super::auth::Operator;
use crate::api_error::ErrorBody;
use crate::config::settings::Scope;

/// How the security scheme is called.
const TOKEN: &str = "token";
/// What the path of an operation goes on with that shares a route with others, because ids may hold slashes.
const BELOW: &str = "x-below";
const SCHEMAS: &str = "#/components/schemas/";

/// What stands around the operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "wecom-gateway",
        description = "What operators and the team's own services ask the gateway, on its admin listener. Ids in paths are \
            percent-encoded, slashes too. In answers everything is there; what is not known is null. Phone numbers are whole for scope `admin` alone."
    ),
    components(schemas(ErrorBody)),
    tags(
        (name = "messages", description = "What became of messages and of what was sent for them."),
        (name = "chats", description = "Chats, their lanes, what holds them up."),
        (name = "pushes", description = "What goes out with no message before it."),
        (name = "members", description = "Who members are, and what is remembered of them."),
        (name = "gateway", description = "The process: its apps, its configuration, its day."),
        (name = "probes", description = "What machines look at.")
    )
)]
struct Outline;

/// The description, as it is served.
#[derive(Clone)]
pub(super) struct Document(Bytes);

impl From<Value> for Document {
    fn from(description: Value) -> Self {
        Self(Bytes::from(description.to_string()))
    }
}

/// Says of all operations of some routes which scope they need.
pub(super) fn demanding(scope: Scope, mut routes: OpenApiRouter<AdminState>) -> OpenApiRouter<AdminState> {
    for item in routes.get_openapi_mut().paths.paths.values_mut() {
        let all = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in all.into_iter().flatten() {
            operation.security = Some(vec![SecurityRequirement::new(TOKEN, [scope.as_str()])]);
        }
    }
    routes
}

/// The description of the probes, and of the API below its prefix.
pub(super) fn document(probes: utoipa::openapi::OpenApi, prefix: &str, api: utoipa::openapi::OpenApi) -> Value {
    let mut whole = Outline::openapi().merge_from(probes).nest(prefix, api);
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token of `[admin] tokens`. Each scope includes those before it: `metrics`, `read`, `push`, `admin`. Where no token is configured, a client \
         on the gateway's own machine needs none, and nobody else is let in.",
    ));
    let components = whole.components.get_or_insert_default();
    components.add_security_scheme(TOKEN, SecurityScheme::Http(scheme.build()));
    // Maps with texts for keys: serializing them cannot fail.
    let mut whole = serde_json::to_value(whole).unwrap_or_default();
    if let Some(paths) = whole["paths"].as_object_mut() {
        *paths = as_clients_write_them(std::mem::take(paths));
        paths.values_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut).for_each(complete);
    }
    let asked = asked(&whole["paths"]);
    if let Some(schemas) = whole["components"]["schemas"].as_object_mut() {
        items_by_name(schemas);
        let answers = schemas.iter_mut().filter(|(name, _)| !asked.contains(*name));
        answers.for_each(|(_, schema)| everything_is_there(schema));
    }
    whole
}

/// A parameter that takes the rest of a path is the router's affair, and so is what stands behind it.
fn as_clients_write_them(paths: Map<String, Value>) -> Map<String, Value> {
    let mut written = Map::new();
    for (path, item) in paths {
        let path = path.replace("{*", "{");
        let Value::Object(operations) = item else { continue };
        for (method, mut operation) in operations {
            let below = operation.as_object_mut().and_then(|operation| operation.remove(BELOW));
            let path = format!("{path}{}", below.as_ref().and_then(Value::as_str).unwrap_or_default());
            written.entry(path).or_insert_with(|| json!({}))[method] = operation;
        }
    }
    written
}

/// Adds to an operation what all of them have in common.
fn complete(operation: &mut Value) {
    if let Some(scope) = operation["security"][0][TOKEN][0].as_str().map(str::to_owned) {
        let told = operation["description"].as_str().map(|told| format!("{told}\n\n")).unwrap_or_default();
        operation["description"] = format!("{told}Scope: `{scope}`.").into();
        operation["responses"]["401"] =
            json!({"description": "`token_required`: no token; `token_unknown`: none of the gateway's"});
        let why = "`scope_too_small`: the token may less than this needs; `loopback_only`, `foreign_host`, `foreign_origin`: no token is configured, and the client is not on the gateway's machine, or may be a web page";
        operation["responses"]["403"] = json!({"description": why});
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    responses.sort_keys();
    for (status, response) in responses {
        response["headers"]["X-Request-Id"] =
            json!({"description": "names this answer in the log", "schema": {"type": "string"}});
        if response.get("content").is_none() && status.starts_with(['4', '5']) {
            response["content"] = json!({"application/json": {"schema": {"$ref": format!("{SCHEMAS}Error")}}});
        }
    }
}

/// The schemas of what is sent to the gateway.
fn asked(paths: &Value) -> BTreeSet<String> {
    let bodies = paths.as_object().into_iter().flat_map(Map::values).filter_map(Value::as_object);
    let bodies = bodies.flat_map(Map::values).map(|operation| &operation["requestBody"]["content"]);
    let schemas = bodies.filter_map(Value::as_object).flat_map(Map::values).map(|content| &content["schema"]);
    let names = schemas.filter_map(|schema| schema["$ref"].as_str()?.strip_prefix(SCHEMAS));
    names.map(str::to_owned).collect()
}

/// What a page is of is written within it; clients want it under its own name.
fn items_by_name(schemas: &mut Map<String, Value>) {
    let mut items = Map::new();
    for (name, page) in schemas.iter_mut() {
        let Some(of) = name.strip_prefix("Page_") else { continue };
        let by_name = json!({"$ref": format!("{SCHEMAS}{of}")});
        items.insert(of.to_owned(), std::mem::replace(&mut page["properties"]["items"]["items"], by_name));
    }
    schemas.extend(items);
}

/// In answers what is not known is null: so a field that may be null is never left out.
fn everything_is_there(schema: &mut Value) {
    let Some(parts) = schema.as_object_mut() else { return };
    let nullable = |field: &Value| {
        field["type"].as_array().or(field["oneOf"].as_array()).is_some_and(|all| all.iter().any(is_null))
    };
    let fields = parts.get("properties").and_then(Value::as_object).into_iter().flatten();
    let always: Vec<Value> = fields.filter(|(_, field)| nullable(field)).map(|(name, _)| json!(name)).collect();
    if !always.is_empty()
        && let Some(required) = parts.entry("required").or_insert_with(|| json!([])).as_array_mut()
    {
        required.extend(always);
    }
    for within in ["allOf", "oneOf"] {
        parts.get_mut(within).and_then(Value::as_array_mut).into_iter().flatten().for_each(everything_is_there);
    }
}

fn is_null(kind: &Value) -> bool {
    kind == "null" || kind["type"] == "null"
}

/// This description
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "describe",
    tag = "gateway",
    responses((status = 200, description = "OpenAPI 3.1", body = Object, content_type = "application/json"))
)]
pub(super) async fn get(
    Extension(Document(document)): Extension<Document>,
    Extension(who): Extension<Operator>,
) -> impl IntoResponse {
    // For the console: what whoever asks may do.
    ([(CONTENT_TYPE, "application/json"), (HeaderName::from_static("x-scope"), who.scope.as_str())], document)
}
