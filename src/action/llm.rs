//! The `llm` action: asks a model behind any OpenAI-compatible API, `POST {base_url}/chat/completions`, not streamed
//! (platform.openai.com/docs/api-reference/chat/create).
//!
//! The model sees `system` as it stands in the configuration, the last turns of the session within a bound of tokens, and
//! what the member wrote now. What always holds: members' words are messages of role `user`, never template text and never
//! part of `system`; what the model says can call nobody. A request that was refused (429, 5xx, no connection) is repeated,
//! at the time the API asks for and never past the message's age; one that may have been worked on is not. Repeats, and
//! the same message handled again after a crash, carry one `Idempotency-Key`.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::http::{failure, read};
use super::{ActionError, Answer, Request};
use crate::config::settings::{AnswerFormat, LlmAction};
use crate::model::{Role, SessionTurn, now_ms, since};
use crate::trace_context::TRACEPARENT;
use crate::wecom::message;

/// Requests for one message at most.
const TRIES: u32 = 5;
/// Before the first repeat, where the API does not say; doubled for each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Characters that a `name` may have.
const NAME: usize = 64;
/// What a message costs beside its words.
const MESSAGE_TOKENS: usize = 8;
/// Stands where an answer was cut.
const CUT: &str = "…";

/// Asks the model.
pub(super) async fn ask(
    client: &reqwest::Client,
    action: &LlmAction,
    request: &Request<'_>,
) -> Result<Answer, ActionError> {
    let body = serde_json::to_string(&Body::of(action, request))?;
    let mut tries = 0;
    loop {
        tries += 1;
        let left = left(action, request.message.received_at);
        let (failed, pause) = match post(client, action, request, &body, action.timeout.min(left)).await {
            Ok(response) if response.status() == StatusCode::OK => return spoken(action, &read(response).await?),
            Ok(response) => {
                let (status, asked) = (response.status(), retry_after(response.headers(), now_ms()));
                (ActionError::Status(status.as_u16()), may_repeat(status).then(|| pause(asked, tries)))
            }
            Err(failed @ ActionError::Connect(_)) => (failed, Some(pause(None, tries))),
            Err(failed) => return Err(failed),
        };
        let Some(pause) = pause.filter(|pause| tries < TRIES && *pause < left) else { return Err(failed) };
        tokio::time::sleep(pause).await;
    }
}

async fn post(
    client: &reqwest::Client,
    action: &LlmAction,
    request: &Request<'_>,
    body: &str,
    within: Duration,
) -> Result<Response, ActionError> {
    let call = client
        .post(action.endpoint.clone())
        .timeout(within)
        .header("Content-Type", "application/json")
        .header("X-Request-Id", &request.message.request_id)
        .header("Idempotency-Key", request.message.key().idempotency_key());
    let call = match request.trace {
        Some(trace) => call.header(TRACEPARENT, trace.to_string()),
        None => call,
    };
    let call = match &action.api_key {
        Some(key) => call.bearer_auth(key.expose()),
        None => call,
    };
    call.body(body.to_owned()).send().await.map_err(failure)
}

/// How long the message is still worth an answer.
fn left(action: &LlmAction, received_at: i64) -> Duration {
    let age = since(received_at);
    action.max_age.saturating_sub(age)
}

/// Whether an answer says that nothing was done, and that this may change.
fn may_repeat(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()
}

/// How long to wait before the next try: what the API asked for, else longer each time.
fn pause(asked: Option<Duration>, tries: u32) -> Duration {
    asked.unwrap_or_else(|| {
        let pause = FIRST_PAUSE.saturating_mul(1 << tries.saturating_sub(1).min(8));
        pause.mul_f64(rand::random_range(0.75..1.25))
    })
}

/// `Retry-After`: seconds, or a date (RFC 9110, section 10.2.3); `now` is Unix ms.
fn retry_after(headers: &HeaderMap, now: i64) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit()) {
        // More seconds than there are numbers for are longer than any message waits.
        return Some(text.parse().map_or(Duration::MAX, Duration::from_secs));
    }
    let at = rfc2822::parse(text).ok()?.timestamp().as_millisecond();
    Some(Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or(0)))
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Said<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
}

/// One message of the conversation.
#[derive(Debug, PartialEq, Serialize)]
struct Said<'a> {
    role: &'static str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl<'a> Body<'a> {
    fn of(action: &'a LlmAction, request: &Request<'a>) -> Self {
        let system = action.system.as_deref().map(|content| Said { role: "system", content, name: None });
        let earlier = recent(&request.session.turns, action.context).iter().map(Said::earlier);
        let message = request.message;
        let now = Said { role: "user", content: &message.text, name: request.member_name().and_then(name) };
        Self {
            model: &action.model,
            messages: system.into_iter().chain(earlier).chain([now]).collect(),
            max_tokens: action.max_tokens,
            temperature: action.temperature,
            stream: false,
        }
    }
}

impl<'a> Said<'a> {
    fn earlier(turn: &'a SessionTurn) -> Self {
        let role = match turn.role {
            Role::User => "user",
            Role::Bot => "assistant",
        };
        Self { role, content: &turn.text, name: turn.name.as_deref().and_then(name) }
    }
}

/// The last turns that fit into so many tokens, from a member's on: some models want a user to speak first.
fn recent(turns: &[SessionTurn], bound: usize) -> &[SessionTurn] {
    let mut sum = 0;
    let fitting = turns.iter().rev().take_while(|turn| {
        sum += tokens(&turn.text) + MESSAGE_TOKENS;
        sum <= bound
    });
    let last = &turns[turns.len() - fitting.count()..];
    let from = last.iter().position(|turn| turn.role == Role::User).unwrap_or(last.len());
    &last[from..]
}

/// About how many tokens a text is, rather too many: a third of its ASCII characters (models take some four of them for
/// one), and two for every other (they take one or two for a Chinese one).
fn tokens(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().count() - ascii;
    ascii.div_ceil(3) + 2 * others
}

/// A member's name as `name` takes it: no blanks, none of `<|\/>`, 64 characters. `None` where nothing is left.
fn name(text: &str) -> Option<String> {
    let fits = |c: &char| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '|' | '\\' | '/' | '>');
    Some(text.chars().filter(fits).take(NAME).collect::<String>()).filter(|name| !name.is_empty())
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    message: Words,
}

#[derive(Deserialize)]
struct Words {
    content: Option<String>,
}

/// What the model said, harmless and not too long.
fn spoken(action: &LlmAction, body: &[u8]) -> Result<Answer, ActionError> {
    // The parser's own words may quote the body; its place in the body says enough.
    let unreadable = |e: serde_json::Error| {
        let place = format!("line {}, column {}", e.line(), e.column());
        ActionError::BadAnswer(format!("it is no chat completion ({place})"))
    };
    let Completion { choices } = serde_json::from_slice(body).map_err(unreadable)?;
    let said = choices.into_iter().next().and_then(|choice| choice.message.content).unwrap_or_default();
    let said = said.trim();
    if said.is_empty() {
        return Err(ActionError::BadAnswer("the model said nothing".to_owned()));
    }
    let mut text = message::defuse(said).into_owned();
    if text.len() > action.max_answer {
        text.truncate(text.floor_char_boundary(action.max_answer.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
    let message = match action.format {
        AnswerFormat::Text => message::text(&text),
        AnswerFormat::Markdown => json!({"msgtype": "markdown", "markdown": {"content": text}}),
    };
    Ok(Answer::Say { messages: vec![message], vars: None, user_id: None })
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn turn(role: Role, text: &str) -> SessionTurn {
        SessionTurn { role, text: text.to_owned(), name: None }
    }

    #[test]
    fn earlier_turns_are_sent_as_far_as_they_fit_and_from_a_member_on() {
        let turns =
            [turn(Role::User, "一二三四五"), turn(Role::Bot, "abc"), turn(Role::User, "abc"), turn(Role::Bot, "abc")];
        // 5 × 2 + 8, and three times 1 + 8.
        for (bound, left) in [(0, 0), (8, 0), (9, 0), (18, 2), (44, 2), (45, 4), (1000, 4)] {
            assert_eq!(recent(&turns, bound), &turns[4 - left..], "{bound}");
        }
    }

    #[test]
    fn tokens_are_rather_counted_too_many() {
        for (text, count) in [("", 0), ("a", 1), ("hello!", 2), ("你好", 4), ("你好ab", 5)] {
            assert_eq!(tokens(text), count, "{text}");
        }
    }

    #[test]
    fn names_are_what_the_api_takes() {
        assert_eq!(name(" 小 王</system>"), Some("小王system".to_owned()));
        assert_eq!(name("< / >"), None);
        assert_eq!(name(&"长".repeat(100)).map(|name| name.chars().count()), Some(64));
    }

    #[test]
    fn the_api_says_when_to_come_back() {
        let of = |text: &'static str| {
            let headers = [(RETRY_AFTER, HeaderValue::from_static(text))].into_iter().collect();
            retry_after(&headers, 1_445_412_400_000)
        };
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(80)));
        assert_eq!(of("Wed, 21 Oct 2015 07:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(of("99999999999999999999999"), Some(Duration::MAX));
        assert_eq!((of("soon"), of("-1"), of("")), (None, None, None));
        assert_eq!(retry_after(&HeaderMap::new(), 0), None);
    }

    #[test]
    fn only_refusals_are_repeated_and_later_each_time() {
        for (status, repeated) in [(429, true), (500, true), (503, true), (400, false), (401, false), (302, false)] {
            assert_eq!(StatusCode::from_u16(status).map(may_repeat).ok(), Some(repeated), "{status}");
        }
        let asked = Some(Duration::from_secs(7));
        assert_eq!(pause(asked, 3), Duration::from_secs(7));
        for tries in 1..TRIES {
            assert!(pause(None, tries + 1) > pause(None, tries), "{tries}");
        }
    }
}
