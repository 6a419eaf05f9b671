//! Verdicts: what an answer, or its absence, means (stub signatures).

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Refused, DNS, TLS: nothing was written.
    NotWritten(String),
    /// Timeout or cut after the request may have been written.
    NoAnswer(String),
    /// An HTTP answer.
    Http {
        /// Status.
        status: u16,
        /// `errcode` and `errmsg`, where the body had an integer (or "0") errcode.
        code: Option<(i64, String)>,
    },
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// WeCom took it.
    Delivered,
    /// Over a rate: wait for this window.
    Paced(std::time::Duration),
    /// Certainly not sent.
    Transient,
    /// Refresh the token.
    Token,
    /// The chat or its robot is gone.
    ChatGone,
    /// Refused for good.
    Rejected,
    /// Ours to mend: hold, probe slowly.
    Configuration,
    /// May have been sent.
    Unknown,
}
