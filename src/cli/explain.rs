//! `explain`: what a callback that was received comes to, step by step. It sends nothing and opens no store, so it can be run
//! beside a gateway that serves.

use std::io::Read;
use std::path::{Path, PathBuf};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;

use super::voice::{say, warn};
use super::{ConfigFile, FAILED, Failure, MISCONFIGURED, runtime};
use crate::config;
use crate::explain::{Asked, Explanation, State, Step, explain};

/// What `explain` is asked.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    file: ConfigFile,
    /// The app that the callback was meant for.
    #[arg(long, value_name = "ID")]
    app: String,
    /// As it was received: the line of an access log, a whole URL, path and query, or the query alone. In single quotes.
    #[arg(long)]
    url: String,
    /// What was posted; - reads stdin. Without it: a URL verification (GET), if --url has an echostr.
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// A header of a plain JSON webhook, such as 'X-Webhook-Token: …'.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// When it came, such as 2026-11-29T08:00:00Z, or in Unix seconds; unless said, the time in --url's line of a log, else now.
    #[arg(long, value_name = "TIME", value_parser = time)]
    received_at: Option<i64>,
    /// Show what the member wrote.
    #[arg(long)]
    show_text: bool,
    /// For eyes or for machines.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let mend = || "is no header: write 'Name: value'".to_owned();
    let (name, value) = text.split_once(':').ok_or_else(mend)?;
    let value = HeaderValue::from_str(value.trim()).map_err(|_| mend())?;
    Ok((name.trim().parse().map_err(|_| mend())?, value))
}

/// Unix ms.
fn time(text: &str) -> Result<i64, String> {
    let mend = || "is no time: write one such as 2026-11-29T08:00:00Z, or Unix seconds".to_owned();
    if let Ok(seconds) = text.parse::<i64>() {
        return seconds.checked_mul(1000).ok_or_else(mend);
    }
    text.parse::<jiff::Timestamp>().map(|at| at.as_millisecond()).map_err(|_| mend())
}

fn read(file: &Path) -> std::io::Result<Bytes> {
    let mut body = Vec::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut body)?;
    } else {
        body = std::fs::read(file)?;
    }
    Ok(body.into())
}

pub(super) fn run(options: Options) -> Result<(), Failure> {
    let around = config::load_around(&options.file.config, &options.app);
    let (settings, missing) = around.map_err(|faults| Failure { code: MISCONFIGURED, text: faults.to_string() })?;
    if !missing.is_empty() {
        let missing = missing.join(", ");
        warn(format_args!("not there in this shell, and not needed to open callbacks: what these name: {missing}"));
    }
    let apps = options.file.config.with_file_name("apps");
    let unreadable = |file: &Path, error: std::io::Error| Failure {
        code: MISCONFIGURED,
        text: format!("--body {}: {error}; name the file that holds the body", file.display()),
    };
    let asked = Asked {
        app: options.app,
        url: options.url,
        body: options.body.as_deref().map(|file| read(file).map_err(|error| unreadable(file, error))).transpose()?,
        headers: HeaderMap::from_iter(options.headers),
        at: options.received_at,
        show_text: options.show_text,
    };
    let explanation = runtime()?.block_on(explain(&settings, &apps, &asked));
    match options.format {
        Format::Text => say(text(&explanation))?,
        Format::Json => say(serde_json::to_string_pretty(&explanation).map_err(Failure::running)?)?,
    }
    if explanation.acts { Ok(()) } else { Err(Failure { code: FAILED, text: String::new() }) }
}

/// For eyes.
fn text(explanation: &Explanation) -> String {
    let Explanation { app, method, steps, text, .. } = explanation;
    let mut all = format!("{method} for app {app:?}\n\n");
    for (at, step) in (1..).zip(steps) {
        all.push_str(&line(at, step));
    }
    if let Some(text) = text {
        all.push_str(&format!("\ntext: {text}\n"));
    }
    all.push_str(&format!("\n{}\n", end(explanation)));
    all
}

fn line(at: usize, step: &Step) -> String {
    let mark = match step.state {
        State::Holds => '✓',
        State::Note => '!',
        State::Fails => '✗',
        State::Skipped => '–',
    };
    let mut line = format!("{at:>2} {mark} {:<11} {}\n", step.step, step.says);
    if let Some(mend) = &step.mend {
        line.push_str(&format!("{:<17}mend: {mend}\n", ""));
    }
    line
}

fn end(explanation: &Explanation) -> String {
    let Explanation { method, status, code, reason, acts, .. } = explanation;
    match (code, acts) {
        (_, false) if explanation.lacks_body() => {
            "What the gateway would answer hangs on the body: give what was posted with --body FILE (- for stdin).".to_owned()
        }
        (Some(code), _) => {
            format!("The gateway would answer {status} {code}: {}.", reason.as_deref().unwrap_or_default())
        }
        (None, true) if method == "GET" => "The gateway would answer 200 with the decrypted echostr.".to_owned(),
        (None, true) => {
            "The gateway would answer 200 and act.\nNot looked at, because it is in the store: copies (a message is handled \
             once), muted chats, members' rates, paused or dead chats."
                .to_owned()
        }
        (None, false) if explanation.leads_elsewhere() => {
            format!("Nothing of it would reach app {:?}: the path leads to another one, which would take it.", explanation.app)
        }
        (None, false) => "The gateway would answer 200, and no reply would come of it.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_times_are_read_or_told_how_to_write() {
        assert_eq!(header("X-Token:  a:b ").unwrap(), ("x-token".parse().unwrap(), "a:b".parse().unwrap()));
        for wrong in ["X-Token", ": a", "X Token: a", "X: a\nb"] {
            assert!(header(wrong).unwrap_err().contains("Name: value"), "{wrong}");
        }
        assert_eq!(time("1796457600"), Ok(1_796_457_600_000));
        assert_eq!(time("2026-11-29T08:00:00Z"), Ok(1_795_939_200_000));
        assert_eq!(time("2026-11-29T16:00:00+08:00"), time("2026-11-29T08:00:00Z"));
        for wrong in ["yesterday", "2026-11-29", "9223372036854775807"] {
            assert!(time(wrong).unwrap_err().contains("Unix seconds"), "{wrong}");
        }
    }
}
