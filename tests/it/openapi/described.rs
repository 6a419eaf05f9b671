//! Answers held against the API's own description: the status is one that is told, and the body is what is told of it, with no
//! field more or less.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::{Map, Value, json};
use wecom_gateway::admin;

static DESCRIBED: LazyLock<Described> = LazyLock::new(|| Described::of(admin::description()));

/// Panics where an answer is not as it is described. `path` is that of the request, without its query.
pub fn hold(method: &str, path: &str, status: u16, body: &Value) {
    DESCRIBED.hold(method, path, status, body);
}

struct Described {
    document: Value,
    /// By where the schema stands in the document.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Described {
    fn of(mut document: Value) -> Self {
        let schemas = document["components"]["schemas"].as_object_mut().into_iter().flatten();
        schemas.for_each(|(_, schema)| close_within(schema));
        Self { document, validators: Mutex::default() }
    }

    fn hold(&self, method: &str, path: &str, status: u16, body: &Value) {
        // By no method of that path, or at no path at all: no operation answered.
        if status == 405 || body["error"]["code"] == "not_found" {
            return;
        }
        let operation = self.operation(method, path).unwrap_or_else(|| panic!("not described: {method} {path}"));
        let pointer = format!("{operation}/responses/{status}");
        let told = self.document.pointer(&pointer);
        let told = told.unwrap_or_else(|| panic!("{method} {path}: {status} is not described\n{body}"));
        match told["content"].get("application/json") {
            Some(content) => {
                let faults = self.faults(&pointer, &content["schema"], body);
                assert_eq!(faults, [""; 0], "{method} {path}: {status}\n{body:#}");
            }
            None => assert!(body.is_null() || told.get("content").is_some(), "{method} {path}: {status} has no body"),
        }
    }

    fn faults(&self, pointer: &str, schema: &Value, body: &Value) -> Vec<String> {
        let known = self.validators.lock().unwrap().get(pointer).cloned();
        let validator = known.unwrap_or_else(|| {
            let mut schema = schema.clone();
            close(&mut schema);
            schema["components"] = self.document["components"].clone();
            let validator = Arc::new(jsonschema::draft202012::new(&schema).expect("a sound schema"));
            self.validators.lock().unwrap().insert(pointer.to_owned(), validator.clone());
            validator
        });
        validator.iter_errors(body).map(|fault| format!("{}: {fault}", fault.instance_path())).collect()
    }

    /// Where the operation stands that a request means: of the paths that fit, the one that says most.
    fn operation(&self, method: &str, path: &str) -> Option<String> {
        let paths = self.document["paths"].as_object()?.iter();
        let fitting = paths.filter(|(told, item)| item.get(method.to_lowercase()).is_some() && fits(told, path));
        let (told, _) = fitting
            .max_by_key(|(told, _)| (told.matches('/').count(), std::cmp::Reverse(told.matches('{').count())))?;
        let escaped = told.replace('~', "~0").replace('/', "~1");
        Some(format!("/paths/{escaped}/{}", method.to_lowercase()))
    }
}

/// A parameter is a segment; the last one is all that follows.
fn fits(told: &str, path: &str) -> bool {
    let (mut told, mut path) = (told.split('/').peekable(), path.split('/'));
    while let Some(part) = told.next() {
        let Some(segment) = path.next() else { return false };
        let is_parameter = part.starts_with('{');
        if !is_parameter && part != segment {
            return false;
        }
        if is_parameter && told.peek().is_none() {
            return true;
        }
    }
    path.next().is_none()
}

/// No field more than those that are told, wherever a schema is used; one that tells of none is open.
fn close(schema: &mut Value) {
    close_within(schema);
    let Some(parts) = schema.as_object_mut() else { return };
    if ["$ref", "properties", "allOf", "oneOf"].iter().any(|part| parts.contains_key(*part)) {
        parts.entry("unevaluatedProperties").or_insert(json!(false));
    }
}

/// As [`close`], for what a schema holds: where it is a part of another, that one knows the rest.
fn close_within(schema: &mut Value) {
    let Some(parts) = schema.as_object_mut() else { return };
    let fields = parts.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
    fields.for_each(close);
    for within in ["items", "additionalProperties"] {
        parts.get_mut(within).into_iter().for_each(close);
    }
    for among in ["allOf", "oneOf"] {
        parts.get_mut(among).and_then(Value::as_array_mut).into_iter().flatten().for_each(close_within);
    }
}
