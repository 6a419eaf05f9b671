//! The console: a few static files in the binary, without a build step, that ask the API like any other client.
//!
//! They hold nothing of this gateway, so they need no token; what they show comes from the API, which does. The policy that goes
//! with them lets a browser load nothing from elsewhere and be framed by nobody.

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";

/// Path, type, content.
const FILES: [(&str, &str, &str); 14] = [
    ("/", HTML, include_str!("static/index.html")),
    ("/console.css", CSS, include_str!("static/console.css")),
    ("/main.js", JS, include_str!("static/main.js")),
    ("/api.js", JS, include_str!("static/api.js")),
    ("/ui.js", JS, include_str!("static/ui.js")),
    ("/words.js", JS, include_str!("static/words.js")),
    ("/now.js", JS, include_str!("static/now.js")),
    ("/chats.js", JS, include_str!("static/chats.js")),
    ("/find.js", JS, include_str!("static/find.js")),
    ("/settle.js", JS, include_str!("static/settle.js")),
    ("/stats.js", JS, include_str!("static/stats.js")),
    ("/changes.js", JS, include_str!("static/changes.js")),
    ("/apps.js", JS, include_str!("static/apps.js")),
    ("/config.js", JS, include_str!("static/config.js")),
];

/// Styles are set on elements too; scripts never are.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

/// The files, each at its place.
pub(super) fn router<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.into_iter().fold(Router::new(), |router, (path, kind, content)| {
        let mut tag = hex::encode(Sha256::digest(content));
        tag.truncate(16);
        let tag = format!("\"{tag}\"");
        router.route(
            path,
            get(move |request: Request| async move { file(&request.headers().clone(), kind, content, &tag) }),
        )
    })
}

fn file(asked: &HeaderMap, kind: &'static str, content: &'static str, tag: &str) -> Response {
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if known { StatusCode::NOT_MODIFIED.into_response() } else { content.into_response() };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}
