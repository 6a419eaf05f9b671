//! What commands say, to whoever reads them. A reader that has gone away (`| head`) is no failure; a full disk is.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

/// Writes to stdout, as lines.
///
/// # Errors
/// What came of it, unless nobody reads any more.
pub(super) fn say(text: impl Display) -> io::Result<()> {
    lines(&mut io::stdout().lock(), &text.to_string())
}

/// Writes to stderr, as lines. There is nobody to tell where that fails.
pub(super) fn warn(text: impl Display) {
    let _ = lines(&mut io::stderr().lock(), &text.to_string());
}

fn lines(out: &mut impl Write, text: &str) -> io::Result<()> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(out, "{text}{end}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
