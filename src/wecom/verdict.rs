//! Verdicts: what an answer to a send, or its absence, means.
//!
//! A pure function from what happened to what is to be done about it. WeCom answers HTTP 200 with an `errcode` in
//! the body for nearly everything, so the body decides where there is one and the status only where there is none.
//! What always holds: nothing counts as delivered but a success status with `errcode` 0, and what may have been sent
//! is never called unsent. Codes: "全局错误码", developer.work.weixin.qq.com/document/path/90313; `errmsg` is
//! unstable text and decides nothing.

use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mask;

#[cfg(test)]
mod tests;

/// How long a robot or an API waits after 45009 ("minute" limits, document/path/90312) or an HTTP 429.
pub const RATE_WINDOW: Duration = Duration::from_secs(60);
/// How long after 45033, which says that too many calls run at once.
const CONCURRENCY_WINDOW: Duration = Duration::from_secs(3);
/// Characters of `errmsg` that are kept.
const MAX_ERRMSG: usize = 200;

/// By which channel a chat is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// A group robot's webhook.
    #[default]
    GroupRobot,
    /// `message/send`.
    AppMessage,
    /// `appchat/send`.
    AppChat,
    /// `externalcontact/add_msg_template`.
    CustomerTask,
    /// A smart robot's single-use address.
    ResponseUrl,
    /// A plain JSON gateway.
    JsonGateway,
}

impl ChannelKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::GroupRobot, Self::AppMessage, Self::AppChat, Self::CustomerTask, Self::ResponseUrl, Self::JsonGateway];

    /// The word used in routes, trails, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GroupRobot => "group_robot",
            Self::AppMessage => "app_message",
            Self::AppChat => "app_chat",
            Self::CustomerTask => "customer_task",
            Self::ResponseUrl => "response_url",
            Self::JsonGateway => "json_gateway",
        }
    }

    /// Whether it is the app's own API, with an access token: what is wrong there is wrong for the whole app, and a token error
    /// can be mended by a refresh.
    pub fn is_api(self) -> bool {
        match self {
            Self::AppMessage | Self::AppChat | Self::CustomerTask => true,
            Self::GroupRobot | Self::ResponseUrl | Self::JsonGateway => false,
        }
    }
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// This machine could not even try (no file descriptor, no memory): nothing was written.
    NotTried(String),
    /// Refused, DNS, TLS: nothing was written.
    NotWritten(String),
    /// Timeout or cut after the request may have been written.
    NoAnswer(String),
    /// A success status with `errcode` 0: WeCom took it.
    Taken(Receipt),
    /// Any other HTTP answer.
    Http {
        /// Status.
        status: u16,
        /// `errcode` and `errmsg`, where the body had an integer (or "0") errcode.
        code: Option<(i64, String)>,
    },
}

/// What WeCom says of a message that it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt {
    /// By which it could be recalled, or asked about; `message/send` and `add_msg_template` alone give one.
    pub msgid: Option<String>,
    /// Who is left out of those that it was for, in WeCom's words: `invaliduser u1|u2, unlicenseduser u3`.
    pub left_out: Option<String>,
    /// Each of the customers or groups that `add_msg_template` leaves out.
    pub failed: Vec<String>,
}

/// What it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// WeCom took it.
    Delivered,
    /// WeCom took it, and leaves somebody out for good: the same again would reach the others twice.
    Partial,
    /// Over a rate, and not sent: wait for this window.
    Paced(Duration),
    /// Certainly not sent, or so WeCom says: try again, a few times.
    Transient,
    /// Not sent: refresh the token, then once more.
    Token,
    /// Not sent: the chat or its robot is gone.
    ChatGone,
    /// Not sent: refused for good.
    Rejected,
    /// Not sent: ours to mend. Hold, probe slowly.
    Configuration,
    /// Not sent, and nobody's refusal: this machine could not try. Try again, as often as it takes.
    NotTried,
    /// May have been sent.
    Unknown,
}

impl Verdict {
    /// The word used in trails, metrics and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Partial => "partial",
            Self::Paced(_) => "paced",
            Self::Transient => "transient",
            Self::Token => "token",
            Self::ChatGone => "chat_gone",
            Self::Rejected => "rejected",
            Self::Configuration => "configuration",
            Self::NotTried => "not_tried",
            Self::Unknown => "unknown",
        }
    }
}

/// What is to be done after `reply` on `channel`.
pub fn verdict(channel: ChannelKind, reply: &Reply) -> Verdict {
    match reply {
        Reply::NotTried(_) => Verdict::NotTried,
        Reply::NotWritten(_) => Verdict::Transient,
        Reply::NoAnswer(_) => Verdict::Unknown,
        Reply::Taken(Receipt { left_out: None, .. }) => Verdict::Delivered,
        Reply::Taken(Receipt { left_out: Some(_), .. }) => Verdict::Partial,
        // A proxy's answers: the first two come from one that reached nobody.
        Reply::Http { status: 502 | 503, .. } => Verdict::Transient,
        Reply::Http { status: 500..=599, .. } => Verdict::Unknown,
        Reply::Http { status: 429, .. } => Verdict::Paced(RATE_WINDOW),
        Reply::Http { code: Some((errcode, _)), .. } if *errcode != 0 => by_errcode(channel, *errcode),
        // Somewhere else than we were told: nobody took it there, and nobody will until the address is mended.
        Reply::Http { status: 300..=399, .. } => Verdict::Configuration,
        Reply::Http { status: 400..=499, .. } => Verdict::Rejected,
        // A success status that says nothing, or nothing readable: a page of a proxy, or a body cut short.
        Reply::Http { .. } => Verdict::Unknown,
    }
}

fn by_errcode(channel: ChannelKind, errcode: i64) -> Verdict {
    match errcode {
        // System busy; a conflict of versions.
        -1 | 6000 => Verdict::Transient,
        45009 => Verdict::Paced(RATE_WINDOW),
        45033 => Verdict::Paced(CONCURRENCY_WINDOW),
        // The token is invalid, missing or expired (42009: a suite's). Where none is sent, something is set up wrong.
        40014 | 41001 | 42001 | 42009 if channel.is_api() => Verdict::Token,
        40014 | 41001 | 42001 | 42009 => Verdict::Configuration,
        // The webhook is invalid or its robot removed; the robot is not in the group. Then: no such chat: invalid, absent, not
        // made by this app, dissolved, not a customer group.
        93000 | 93008 | 40050 | 86001 | 86003 | 86008 | 49008 | 90501 | 90509 => match channel {
            ChannelKind::GroupRobot | ChannelKind::AppChat | ChannelKind::JsonGateway => Verdict::ChatGone,
            // One address was refused, and the next message brings its own.
            ChannelKind::AppMessage | ChannelKind::CustomerTask | ChannelKind::ResponseUrl => Verdict::Rejected,
        },
        // Secret, corp id, agent id, missing parameters of ours, another app's token.
        40001 | 40013 | 40056 | 41002 | 41004 | 301002 => Verdict::Configuration,
        // Permissions: of the function, the API, the authorisation, the app, towards external contacts.
        48001 | 48002 | 48004 | 50003 | 84074 => Verdict::Configuration,
        // Our address is not allowed; the robot is switched off; no such smart robot.
        60020 | 301042 | 93004 | 93019 => Verdict::Configuration,
        // The content's or the recipient's fault, or a code that nobody has explained: the same again would end the same.
        _ => Verdict::Rejected,
    }
}

/// Lists of `message/send` that name who is left out (document/path/90236): an errcode 0 does not say that all got it.
const LEFT_OUT: [&str; 4] = ["invaliduser", "invalidparty", "invalidtag", "unlicenseduser"];

/// The list of `add_msg_template` of who is left out (document/path/92135).
const FAILED: &str = "fail_list";

/// What an HTTP answer says. `errcode` counts as an integer or as a text of one ("0"); a body without it, or that is
/// no JSON, is an answer that says nothing. `errmsg` is kept without our own address, at most 200 characters; where that address
/// is what WeCom refuses, it is named behind.
pub fn read_answer(status: u16, body: &[u8]) -> Reply {
    let Ok(answer) = serde_json::from_slice::<Value>(body) else { return Reply::Http { status, code: None } };
    let errcode = &answer["errcode"];
    let errcode = errcode.as_i64().or_else(|| errcode.as_str()?.parse().ok());
    if errcode == Some(0) && (200..300).contains(&status) {
        let left_out = LEFT_OUT.iter().filter_map(|name| {
            let who = answer[name].as_str().filter(|who| !who.is_empty())?;
            Some(format!("{name} {who}"))
        });
        let failed = answer[FAILED].as_array().into_iter().flatten();
        let failed: Vec<String> = failed.filter_map(|who| who.as_str().map(str::to_owned)).collect();
        let in_words = (!failed.is_empty()).then(|| format!("{FAILED} {}", failed.join("|")));
        let left_out: Vec<_> = left_out.chain(in_words).collect();
        let msgid = answer["msgid"].as_str().filter(|msgid| !msgid.is_empty()).map(shown);
        let left_out = (!left_out.is_empty()).then(|| shown(&left_out.join(", ")));
        return Reply::Taken(Receipt { msgid, left_out, failed });
    }
    let errmsg = answer["errmsg"].as_str().unwrap_or_default();
    let told = |errcode| match address_in(errmsg).filter(|_| ADDRESS_REFUSED.contains(&errcode)) {
        Some(address) => format!("{} ({FROM_IP} {address})", shown(errmsg)),
        None => shown(errmsg),
    };
    Reply::Http { status, code: errcode.map(|errcode| (errcode, told(errcode))) }
}

/// The codes by which WeCom refuses the address that we call from.
const ADDRESS_REFUSED: [i64; 2] = [60020, 301042];

/// What mends an answer that refuses our address, in words behind it.
pub fn address_mend(errcode: i64) -> Option<&'static str> {
    let mend = "enter this address in WeCom's console, 应用管理 → the app → 企业可信IP";
    ADDRESS_REFUSED.contains(&errcode).then_some(mend)
}

/// In front of the address that WeCom saw.
const FROM_IP: &str = "from ip:";

/// The address that an `errmsg` quotes, and where it stands with what leads up to it.
fn seen_at(errmsg: &str) -> Option<(Range<usize>, &str)> {
    let start = errmsg.to_ascii_lowercase().find(FROM_IP)?;
    let address = errmsg[start + FROM_IP.len()..].trim_start();
    let length = address.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(address.len());
    Some((start..errmsg.len() - address.len() + length, &address[..length]))
}

/// The address from which WeCom saw us call, where its answer says so: what has to be entered there to be allowed (60020).
pub fn seen_address(body: &[u8]) -> Option<IpAddr> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    address_in(answer["errmsg"].as_str()?)
}

fn address_in(errmsg: &str) -> Option<IpAddr> {
    seen_at(errmsg)?.1.parse().ok()
}

/// An `errmsg` as logs and trails may hold it. WeCom adds `from ip: 203.0.113.7`, which is our address. No phone number is cut in
/// two: the mask would not know its front.
pub fn shown(errmsg: &str) -> String {
    let mut text = errmsg.to_owned();
    while let Some((Range { start, end }, _)) = seen_at(&text) {
        let rest = text.split_off(end);
        text.truncate(text[..start].trim_end_matches([' ', ',']).len());
        text.push_str(&rest);
    }
    let text = text.replace(char::is_control, " ");
    let most = text.char_indices().nth(MAX_ERRMSG).map_or(text.len(), |(at, _)| at);
    mask::cut(&text, most).to_owned()
}
