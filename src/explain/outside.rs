//! What a callback shows before it is opened: where it was sent, how, how much of it, and with what header.

use axum::http::Method;
use jiff::Timestamp;

use super::rewritten::decoded_whole;
use super::{Diagnosis, Fault, Scene, Steps, sealed};
use crate::config::nearest;
use crate::config::settings::{App, AppKind, JsonAuth};
use crate::ingress::authentic;
use crate::ingress::judge;
use crate::wecom::crypto::CallbackCrypto;
use crate::wecom::envelope;

/// A URL as it was received, cut in two and otherwise untouched: what is percent-encoded stays so.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// As a line of an access log names it.
    pub method: Option<&'a str>,
    /// When that line says that it was answered, Unix ms.
    pub at: Option<i64>,
    /// `None` where only a query is known.
    pub path: Option<&'a str>,
    pub query: &'a str,
}

impl<'a> Target<'a> {
    pub fn of(url: &'a str) -> Self {
        let line = url;
        let (method, url) = logged(line).map_or((None, line.trim()), |(method, url)| (Some(method), url));
        let at = method.and_then(|_| logged_at(line));
        let is_scheme = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphabetic());
        let local = match url.split_once("://") {
            Some((scheme, rest)) if is_scheme(scheme) => rest.find(['/', '?']).map_or("/", |at| &rest[at..]),
            Some(_) | None => url,
        };
        let (path, query) = match local.split_once('?') {
            Some((path, query)) => (path, query),
            None if local.starts_with('/') => (local, ""),
            None => ("", local),
        };
        Self { method, at, path: Some(path).filter(|path| !path.is_empty()), query }
    }

    /// Whether it is a message's: it has everything of a callback but the `echostr` of a verification.
    pub fn is_of_message(&self) -> bool {
        let query = decoded_whole(self.query);
        let names = |name: &str| url::form_urlencoded::parse(query.as_bytes()).any(|(found, _)| found == name);
        match self.method {
            Some(method) => method == "POST",
            None => names("msg_signature") && !names("echostr"),
        }
    }
}

/// Method and target of the request that a line of an access log tells of: `… "POST /callback/a?… HTTP/1.1" 403 …`.
fn logged(line: &str) -> Option<(&str, &str)> {
    let request = |part: &'_ str| -> Option<(usize, usize)> {
        let (method, rest) = part.split_once(' ')?;
        let (target, version) = rest.split_once(' ')?;
        let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
        (is_method && version.starts_with("HTTP/")).then_some((method.len(), target.len()))
    };
    line.split('"').map(str::trim).find_map(|part| {
        let (method, target) = request(part)?;
        Some((&part[..method], &part[method + 1..method + 1 + target]))
    })
}

/// The time in a line of the combined format: `10.0.0.7 - - [30/Nov/2026:13:10:02 +0800] "POST …`.
fn logged_at(line: &str) -> Option<i64> {
    let before = line.split('"').next().unwrap_or_default();
    let time = before.split_once('[')?.1.split_once(']')?.0;
    let at = Timestamp::strptime("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    Some(at.as_millisecond())
}

/// The word for an app's kind in its file.
pub(super) fn kind(app: &App) -> &'static str {
    match app.kind {
        AppKind::App(_) => "app",
        AppKind::GroupRobot(_) => "group_robot",
        AppKind::Aibot(_) => "aibot",
        AppKind::Json(_) => "json",
    }
}

/// What opens an app's callbacks, where they are encrypted.
pub(super) fn crypto(app: &App) -> Option<&CallbackCrypto> {
    match &app.kind {
        AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) => Some(crypto),
        AppKind::Json(_) => None,
    }
}

pub(super) fn path(steps: &mut Steps, scene: &Scene<'_>) {
    let meant = &scene.asked.app;
    let Some(path) = scene.target.path else {
        return steps.note("path", format!("--url has no path: taken for /callback/{meant}"));
    };
    let url = format!("https://<your host>/callback/{meant}");
    match judge::app_id(path) {
        None => {
            let says =
                format!("{path} is no address of the gateway's, it would answer 404: callbacks go to /callback/<app>");
            let mend =
                format!("set the URL in WeCom to {url}, or let the proxy pass on /callback/{meant} instead of {path}");
            steps.fail("path", Diagnosis::new(Fault::WrongPath, says, mend));
        }
        Some(named) if named != *meant => {
            let says = format!(
                "the path names app {named:?}, not {meant:?}: the gateway would look at it with that app's token and key{}",
                if named == scene.subject() { ", and so do the steps below" } else { "" }
            );
            let mend = format!("set the URL in WeCom to {url}, or ask about --app {named}");
            steps.fail("path", Diagnosis::new(Fault::WrongApp, says, mend));
        }
        Some(_) => steps.holds("path", format!("{path} is where callbacks of {meant:?} go")),
    }
}

/// The app that is asked about; `None` where there is none.
pub(super) fn app<'s>(steps: &mut Steps, scene: &Scene<'s>) -> Option<&'s App> {
    let meant = scene.subject();
    if let Some(app) = scene.settings.apps.get(meant) {
        steps.holds("app", format!("{} is of kind {:?}", scene.file(meant), kind(app)));
        return Some(app);
    }
    let known: Vec<&str> = scene.settings.apps.keys().map(String::as_str).collect();
    let near = nearest(meant, &known).map(|near| format!("did you mean --app {near}? ")).unwrap_or_default();
    let there = if known.is_empty() { "no app at all".to_owned() } else { known.join(", ") };
    let fits = sealed::fitting(scene).map(|app| format!("; the callback fits the token of app {:?}", app.id));
    let says = format!("there is no {}; there is {there}{}", scene.file(meant), fits.unwrap_or_default());
    let mend = format!("{near}the file's name is the app's id: write it, or name another app");
    steps.fail("app", Diagnosis::new(Fault::UnknownApp, says, mend));
    None
}

pub(super) fn method(steps: &mut Steps, scene: &Scene<'_>, app: &App) {
    match (&scene.method, &app.kind) {
        (&Method::GET, AppKind::Json(_)) => {
            let says = "a plain JSON webhook takes POST alone: there is no URL verification";
            let mend =
                "give its body with --body; where WeCom itself verifies this URL, kind \"json\" is the wrong one";
            steps.fail("method", Diagnosis::new(Fault::Method, says, mend));
        }
        (&Method::POST, _) if scene.asked.body.is_none() => {
            let says = "a message's, which comes by POST (a verification has an echostr), and its body was not given";
            let mend = "give what was posted with --body: an access log does not have it";
            steps.fail("method", Diagnosis::new(Fault::MissingBody, says, mend));
        }
        (&Method::GET, _) => steps.holds("method", "GET, without --body: WeCom's URL verification"),
        _ => steps.holds("method", format!("POST with {} bytes", scene.body.len())),
    }
}

pub(super) fn size(steps: &mut Steps, scene: &Scene<'_>) {
    let max = scene.settings.server.max_body;
    if scene.body.len() > max {
        let says = format!("the body has {} bytes, server.max_body takes {max}", scene.body.len());
        let mend = "WeCom's own are far smaller: see what posts it, or raise server.max_body";
        steps.fail("size", Diagnosis::new(Fault::TooLarge, says, mend));
    }
}

/// Who may post to a plain webhook.
pub(super) fn authorised(steps: &mut Steps, scene: &Scene<'_>, app: &App, auth: &JsonAuth) {
    let (headers, body) = (&scene.asked.headers, scene.body);
    if authentic::authorised(auth, headers, body) {
        return steps.holds("auth", "the header is what the app's auth asks for");
    }
    let file = scene.file(&app.id);
    if envelope::ciphertext(body).is_ok() {
        let says = "the body is encrypted, as WeCom's own callbacks are, and the app is of kind \"json\"";
        let mend = format!("{file}: write kind \"app\", \"group_robot\" or \"aibot\", with token and encoding_aes_key");
        return steps.fail("auth", Diagnosis::new(Fault::WrongKind, says, mend));
    }
    let name = match auth {
        JsonAuth::Header { name, .. } => name,
        JsonAuth::HmacSha256 { header, .. } => header,
        JsonAuth::None => return,
    };
    let says = match (auth, headers.contains_key(name)) {
        (_, false) => format!("the header {name} is missing"),
        (JsonAuth::HmacSha256 { .. }, true) if authentic::authorised(auth, headers, body.trim_ascii_end()) => {
            format!(
                "{name} fits the body without the blanks at its end: they were added on the way, or when it was saved"
            )
        }
        (JsonAuth::HmacSha256 { .. }, true) => format!("{name} is no HMAC-SHA256 of this very body under auth.secret"),
        (_, true) => format!("{name} is not what auth.value says"),
    };
    let mend = format!("{file}: auth must hold what the sender sends; give the header here with --header '{name}: …'");
    steps.fail("auth", Diagnosis::new(Fault::Unauthorized, says, mend));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_cut_and_otherwise_left_alone() {
        let of = |url| {
            let Target { path, query, .. } = Target::of(url);
            (path, query)
        };
        assert_eq!(of("https://gw.example.com:8443/callback/a?x=%2B+1"), (Some("/callback/a"), "x=%2B+1"));
        assert_eq!(of("/callback/a?x=1?2"), (Some("/callback/a"), "x=1?2"));
        assert_eq!(of("/callback/a"), (Some("/callback/a"), ""));
        assert_eq!(of("https://gw.example.com"), (Some("/"), ""));
        let line = "10.0.0.7 - - [30/Nov/2026:13:10:02 +0800] \"POST /callback/a?x=%2B HTTP/1.1\" 403 98 \"-\" \"Mozilla/4.0\"";
        let logged = Target::of(line);
        assert_eq!((logged.method, logged.path, logged.query), (Some("POST"), Some("/callback/a"), "x=%2B"));
        assert_eq!(logged.at, Some(1_796_015_402_000));
        assert_eq!(Target::of(&line.replace("30/Nov", "31/Nov")).at, None);
        let bare = Target::of("GET /callback/a?x=1 HTTP/2.0");
        assert_eq!((bare.path, bare.at), (Some("/callback/a"), None));
        assert_eq!(of("?x=1"), (None, "x=1"));
        assert_eq!(of("x=1&u=http://y"), (None, "x=1&u=http://y"));
    }
}
