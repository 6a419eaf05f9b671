//! Files and voices for a robot: uploaded before they are sent, and known by their id for three days
//! (`webhook/upload_media`, developer.work.weixin.qq.com/document/path/91770).
//!
//! An id is good for the robot that uploaded it alone, so it is remembered by robot and content, for all processes. An
//! upload sends nothing: whatever goes wrong with it, the message was not sent.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use super::{Wire, exchange};
use crate::model::{RouteDigest, Secret};
use crate::store::{Note, NoteWrite};
use crate::wecom::verdict::{ChannelKind, Reply, Verdict, read_answer, verdict};

/// An id is used for an hour less than WeCom keeps it.
const KNOWN_FOR: Duration = Duration::from_secs(3 * 24 * 3600 - 3600);

/// A file or voice that is to be uploaded.
pub(super) struct Upload {
    kind: &'static str,
    filename: String,
    content: Vec<u8>,
}

impl Upload {
    /// What a message asks to be uploaded; `None` where it already has its id, or is of another type.
    pub fn of(message: &Value) -> Option<Self> {
        let kind = ["file", "voice"].into_iter().find(|kind| message["msgtype"] == *kind)?;
        let body = &message[kind];
        let content = STANDARD.decode(body["base64"].as_str()?).ok()?;
        let filename = body["filename"].as_str().unwrap_or("voice.amr").to_owned();
        Some(Self { kind, filename, content })
    }

    /// The message once it is uploaded.
    pub fn message(&self, media_id: &Secret) -> Value {
        let kind = self.kind;
        json!({"msgtype": kind, kind: {"media_id": media_id.expose()}})
    }

    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(format!("{}\0{}\0", self.kind, self.filename));
        hash.update(&self.content);
        hex::encode(hash.finalize())
    }

    /// `multipart/form-data` of the one field `media`, and its boundary.
    fn form(&self) -> (String, Vec<u8>) {
        let boundary = format!("wecom-gateway-{:032x}", rand::random::<u128>());
        // What would end the quoted name or the line.
        let filename: String =
            self.filename.chars().map(|c| if c == '"' || c == '\\' || c.is_control() { '_' } else { c }).collect();
        let length = self.content.len();
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"media\"; filename=\"{filename}\"; \
             filelength={length}\r\nContent-Type: application/octet-stream\r\n\r\n"
        );
        let end = format!("\r\n--{boundary}--\r\n");
        let body = [head.as_bytes(), &self.content, end.as_bytes()].concat();
        (boundary, body)
    }
}

/// The id of an upload: the one that is remembered, or (`anew`, or where there is none) that of an upload now.
///
/// # Errors
/// What became of the upload, as the answer to a message that was not sent.
pub(super) async fn id(wire: &Wire, webhook: &Secret, upload: &Upload, anew: bool) -> Result<Secret, Reply> {
    let robot = RouteDigest::of(ChannelKind::GroupRobot.as_str(), webhook.expose());
    let note = Note::media(robot.as_str(), &upload.digest());
    if !anew
        // Without the store it is uploaded once more: that is allowed.
        && let Ok(noted) = wire.store.read_notes(vec![note.clone()]).await
        && let Some(noted) = noted.into_iter().flatten().next()
    {
        return Ok(noted.value);
    }
    let media_id = post(wire, webhook, upload).await?;
    let write = NoteWrite { note, value: media_id.clone(), ttl: KNOWN_FOR, owner: None };
    if let Err(error) = wire.store.write_note(write).await {
        tracing::debug!(%error, "an upload's id could not be remembered");
    }
    Ok(media_id)
}

async fn post(wire: &Wire, webhook: &Secret, upload: &Upload) -> Result<Secret, Reply> {
    let not_sent = |why: &str| Reply::NotWritten(format!("the upload failed: {why}"));
    let url = upload_url(webhook, upload.kind).ok_or_else(|| not_sent("the webhook is no URL"))?;
    let (boundary, body) = upload.form();
    let form = format!("multipart/form-data; boundary={boundary}");
    let request = wire.client.post(url).header(CONTENT_TYPE, form).body(body);
    let (status, answer) = exchange(request).await.map_err(|reply| match reply {
        Reply::NoAnswer(why) => not_sent(&why),
        reply => reply,
    })?;
    let reply = read_answer(status, &answer);
    match verdict(ChannelKind::GroupRobot, &reply) {
        Verdict::Delivered => {
            let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
            answer["media_id"].as_str().map(Secret::new).ok_or_else(|| not_sent("no media_id in its answer"))
        }
        Verdict::Unknown => Err(not_sent(&format!("HTTP {status}"))),
        _ => Err(reply),
    }
}

/// Beside the webhook, with its key.
fn upload_url(webhook: &Secret, kind: &str) -> Option<Url> {
    let mut url = Url::parse(webhook.expose()).ok()?;
    let path = format!("{}/upload_media", url.path().trim_end_matches('/').rsplit_once('/')?.0);
    url.set_path(&path);
    url.query_pairs_mut().append_pair("type", kind);
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_stands_beside_its_webhook() {
        let webhook = Secret::new("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k1");
        let url = upload_url(&webhook, "file").unwrap();
        assert_eq!(url.as_str(), "https://qyapi.weixin.qq.com/cgi-bin/webhook/upload_media?key=k1&type=file");
    }

    #[test]
    fn only_what_has_a_content_is_uploaded() {
        let file = json!({"msgtype": "file", "file": {"base64": "aGVsbG8gd29ybGQ=", "filename": "a\"b.txt"}});
        let upload = Upload::of(&file).unwrap();
        assert_eq!(upload.content, b"hello world");
        let (boundary, form) = upload.form();
        let form = String::from_utf8(form).unwrap();
        assert!(
            form.contains("filename=\"a_b.txt\"; filelength=11\r\n") && form.ends_with(&format!("--{boundary}--\r\n"))
        );
        assert_eq!(upload.message(&Secret::new("m1")), json!({"msgtype": "file", "file": {"media_id": "m1"}}));
        for message in [json!({"msgtype": "file", "file": {"media_id": "m"}}), crate::wecom::message::text("hi")] {
            assert!(Upload::of(&message).is_none(), "{message}");
        }
    }
}
