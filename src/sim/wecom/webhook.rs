//! Group robots: `webhook/send` and `webhook/upload_media`, by key.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{ConnectInfo, Query, State};
use axum::response::Response;
use axum::routing::post;
use serde::Deserialize;
use serde_json::json;

use super::desk::{Desk, Send, answer, errcode};
use super::message::{ROBOT, read};
use crate::sim::wire::Scissors;

/// What robots uploaded, by robot and id: an id is good for its own robot alone.
#[derive(Debug, Default)]
pub(super) struct Media {
    known: HashSet<(String, String)>,
    uploads: usize,
}

impl Media {
    pub fn uploads(&self) -> usize {
        self.uploads
    }
    pub fn forget(&mut self) {
        self.known.clear();
    }
    fn take(&mut self, robot: &str) -> String {
        self.uploads += 1;
        let id = format!("media-{}", self.uploads);
        self.known.insert((robot.to_owned(), id.clone()));
        id
    }
    fn knows(&self, robot: &str, id: &str) -> bool {
        self.known.contains(&(robot.to_owned(), id.to_owned()))
    }
}

pub(super) fn router() -> Router<Arc<Desk>> {
    Router::new().route("/cgi-bin/webhook/send", post(send)).route("/cgi-bin/webhook/upload_media", post(upload))
}

#[derive(Deserialize)]
struct Robot {
    key: String,
    #[serde(rename = "type")]
    kind: Option<String>,
}

async fn send(
    State(desk): State<Arc<Desk>>,
    ConnectInfo(scissors): ConnectInfo<Scissors>,
    Query(Robot { key, .. }): Query<Robot>,
    body: Bytes,
) -> Response {
    let message = read(&body, ROBOT);
    if let Ok((_, body)) = &message
        && let Some(id) = ["file", "voice"].iter().find_map(|kind| body[kind]["media_id"].as_str())
        && !desk.outlets().media.knows(&key, id)
    {
        return errcode(40007);
    }
    let send = Send { key, message, repeat: None, once: false, msgid: None };
    desk.take(&scissors, send).await.unwrap_or_else(|| errcode(93000))
}

/// Bytes of a file and of a voice, at most.
const MOST: (usize, usize) = (20 << 20, 2 << 20);

async fn upload(State(desk): State<Arc<Desk>>, Query(robot): Query<Robot>, body: Bytes) -> Response {
    let Robot { key, kind } = robot;
    let most = match kind.as_deref() {
        Some("file") => MOST.0,
        Some("voice") => MOST.1,
        _ => return errcode(40004),
    };
    if desk.outlets().by_key.get(&key).is_none_or(|outlet| outlet.chat.is_none()) {
        return errcode(93000);
    }
    match media(&body) {
        Some(content) if content.len() > most => errcode(45001),
        Some(content) if content.len() > 5 => {
            let id = desk.outlets().media.take(&key);
            desk.ledger.stir();
            answer(0, json!({"type": kind, "media_id": id, "created_at": "1380000000"}))
        }
        Some(_) | None => errcode(40058),
    }
}

/// The content of the form's field `media`, where it is named and as long as it says.
fn media(form: &[u8]) -> Option<&[u8]> {
    let end_of_line = find(form, b"\r\n")?;
    let boundary = [b"\r\n", &form[..end_of_line]].concat();
    let head_ends = find(form, b"\r\n\r\n")?;
    let head = std::str::from_utf8(&form[..head_ends]).ok()?;
    let content = &form[head_ends + 4..];
    let content = &content[..find(content, &boundary)?];
    let length = head.split_once("filelength=")?.1;
    let length = length.split(|c: char| !c.is_ascii_digit()).next()?;
    let is_named = head.contains("name=\"media\"") && head.contains("filename=\"");
    (is_named && length.parse() == Ok(content.len())).then_some(content)
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}
