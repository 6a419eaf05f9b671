//! HTTP as channels need it: one request, written at most once, its failure classified honestly.
//!
//! What always holds:
//!
//! - Nobody resends behind our back: reqwest's own retries are off, redirects are not followed. hyper may move a request
//!   to a fresh connection only where the reused one had closed before a single byte of it was taken, so that is no repeat.
//! - `NotTried` is said only where this machine itself was at its end, `NotWritten` only where no connection came about (refused, DNS, TLS, too slow to connect). Connecting has
//!   half of the whole time, so that a slow connect is told apart from a slow answer.
//! - No error text holds the URL: it holds the robot's key.

use std::error::Error as _;
use std::time::Duration;

use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, ClientBuilder, RequestBuilder, Response, redirect, retry};
use serde_json::Value;

use crate::config::settings;
use crate::crash::{self, Point};
use crate::http_client::{self, causes};
use crate::wecom::verdict::{Reply, read_answer};

/// Most bytes of an answer that are read. WeCom's are a few hundred, but for those that name all of 10,000 customers.
const MAX_ANSWER: usize = 1024 * 1024;

/// An idle connection is dropped after this: the far side closes them sooner or later, and a request written into a closing
/// one can't be told from one that was taken.
const IDLE: Duration = Duration::from_secs(5);

/// The client for all robots. It honours the usual proxy variables (`HTTPS_PROXY`, `NO_PROXY`) and writes names of headers in title
/// case, as documents do: not everybody reads them in any case.
pub fn http_client(sender: &settings::Sender) -> reqwest::Result<Client> {
    http_client::built(|| builder(sender))
}

fn builder(sender: &settings::Sender) -> ClientBuilder {
    Client::builder()
        .timeout(sender.timeout)
        .connect_timeout(sender.timeout / 2)
        .pool_idle_timeout(IDLE)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .http1_title_case_headers()
        .user_agent(concat!("wecom-gateway/", env!("CARGO_PKG_VERSION")))
}

/// Posts `message` as raw UTF-8 JSON, without any escape that JSON does not ask for: WeCom refuses `\uXXXX` (40033) and looks
/// for a literal `<@userid>`.
pub(super) async fn post(client: &Client, url: &str, message: &Value) -> Reply {
    let request = client.post(url).header(CONTENT_TYPE, "application/json").body(message.to_string());
    let answer = match request.send().await {
        Ok(answer) => answer,
        Err(error) => return no_answer(error),
    };
    crash::point(Point::Written);
    match read(answer).await {
        Ok((status, body)) => read_answer(status, &body),
        Err(reply) => reply,
    }
}

/// Status and body of a GET, or why there are none.
pub(crate) async fn get(client: &Client, url: &str) -> Result<(u16, Vec<u8>), Reply> {
    exchange(client.get(url)).await
}

/// Status and body that a request was answered with, or why there are none.
pub(crate) async fn exchange(request: RequestBuilder) -> Result<(u16, Vec<u8>), Reply> {
    read(request.send().await.map_err(no_answer)?).await
}

async fn read(answer: Response) -> Result<(u16, Vec<u8>), Reply> {
    let status = answer.status().as_u16();
    let body = read_capped(answer).await.map_err(no_answer)?;
    Ok((status, body))
}

/// The body, cut at [`MAX_ANSWER`]: what is longer is no answer of WeCom's, and reads as one without an errcode.
async fn read_capped(mut answer: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        let room = MAX_ANSWER - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_ANSWER {
            break;
        }
    }
    Ok(body)
}

fn no_answer(error: reqwest::Error) -> Reply {
    let error = error.without_url();
    if is_exhaustion(&error) {
        return Reply::NotTried(causes(&error));
    }
    // A request that could not even be built was never written either.
    if error.is_connect() || error.is_builder() {
        Reply::NotWritten(causes(&error))
    } else {
        Reply::NoAnswer(causes(&error))
    }
}

/// Whether a connection failed for want of a file descriptor or memory of this machine's own.
fn is_exhaustion(error: &reqwest::Error) -> bool {
    let mut source = error.source();
    while let Some(cause) = source {
        let os_error = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
        if matches!(os_error, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) {
            return error.is_connect();
        }
        source = cause.source();
    }
    false
}
