//! The app's own API: a POST with an access token in its query, and what a refused token leads to.
//!
//! What always holds: a token that was refused is given up (by compare: never somebody's newer one) and the request written
//! once more, with another token, at most once; a refresh that brings the very token that was just refused ends it, for
//! then it is not the token's age.

use std::sync::Arc;

use serde_json::Value;

use super::{Wire, masked, wire};
use crate::config::settings;
use crate::model::Secret;
use crate::wecom::verdict::Reply;

/// What WeCom says of a token that it does not take (document/path/90313). 40001, which is a bad secret elsewhere, comes
/// for invalid tokens too.
pub(crate) fn refuses_token(errcode: i64) -> bool {
    matches!(errcode, 40001 | 40014 | 41001 | 42001 | 42009)
}

/// Posts `body` to `path` of the API, such as `message/send`.
pub(super) async fn post(wire: &Wire, api: &Arc<settings::Api>, path: &str, body: &Value) -> Reply {
    let token = match wire.tokens.get(api).await {
        Ok(token) => token,
        Err(none) => return none.into(),
    };
    let reply = post_with(wire, path, &token, body).await;
    let is_refused = matches!(reply, Reply::Http { code: Some((errcode, _)), .. } if refuses_token(errcode));
    if !is_refused {
        return reply;
    }
    wire.tokens.refused(api, &token).await;
    match wire.tokens.get(api).await {
        Ok(fresh) if fresh == token => reply,
        Ok(fresh) => post_with(wire, path, &fresh, body).await,
        Err(none) => none.into(),
    }
}

async fn post_with(wire: &Wire, path: &str, token: &Secret, body: &Value) -> Reply {
    let query =
        url::form_urlencoded::Serializer::new(String::new()).append_pair("access_token", token.expose()).finish();
    let url = format!("{}/cgi-bin/{path}?{query}", wire.api_base);
    masked(wire::post(&wire.client, &url, body).await, token.expose())
}
