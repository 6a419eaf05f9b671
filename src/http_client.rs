//! HTTP clients on whatever machine: one without CA certificates starts too, and speaks plain `http://`.

use std::error::Error as _;
use std::fmt::Write as _;

use reqwest::{Client, ClientBuilder};

/// The client that `described` describes. Where the system has no CA certificates it trusts nobody: `http://` works, every `https://` fails
/// before it is written. What it encrypts with is installed for the whole process.
///
/// # Errors
/// Whatever else keeps it from being made.
pub fn built(described: impl Fn() -> ClientBuilder) -> reqwest::Result<Client> {
    // Fails only where it is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    described().build().or_else(|error| {
        tracing::warn!(error = causes(&error), "no CA certificates found: nothing can be sent by https");
        described().tls_certs_only([]).build()
    })
}

/// The innermost cause says what happened ("connection refused"), the outermost only that something did: that it is an error, whoever
/// shows this says.
pub(crate) fn causes(error: &reqwest::Error) -> String {
    let outermost = error.to_string();
    let mut text = outermost.strip_prefix("error ").unwrap_or(&outermost).to_owned();
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing into a String cannot fail.
        let _ = write!(text, ": {cause}");
        source = cause.source();
    }
    text
}
