//! What all ways of sending have in common: outlets, their scripts and rates, what arrived, and how a send is answered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

use super::api::Apps;
use super::contacts::Book;
use super::customers::Asked;
use super::webhook::Media;
use super::{AGENT, Arrived, CONTACT, CUSTOMER_GROUP, GETTOKEN, SEND_RESULT};
use crate::sim::behaviour::{Answer, Behaviour, Gate, Options, Rate, Refusal};
use crate::sim::ledger::Ledger;
use crate::sim::violation::Violation;
use crate::sim::wire::Scissors;

/// An address that can be sent to.
#[derive(Debug, Default)]
pub(super) struct Outlet {
    /// `None` until it is known: a script may be there before.
    pub chat: Option<String>,
    under_way: usize,
    pub posts: usize,
    pub script: VecDeque<Behaviour>,
    pub always: Option<Behaviour>,
    window: VecDeque<Instant>,
    gate: Gate,
    /// Repeats that it knows for what they are.
    known: HashSet<String>,
}

impl Outlet {
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// Whether one more send now stays within `rate`; takes its place if so.
    fn within(&mut self, rate: Rate, now: Instant) -> bool {
        while self.window.front().is_some_and(|first| now.duration_since(*first) >= rate.window) {
            self.window.pop_front();
        }
        let room = self.window.len() < rate.limit;
        if room {
            self.window.push_back(now);
        }
        room
    }
}

/// All outlets and what reached them.
#[derive(Debug)]
pub(super) struct Outlets {
    pub by_key: HashMap<String, Outlet>,
    pub arrived: Vec<Arrived>,
    pub apps: Apps,
    pub media: Media,
    pub book: Book,
    /// What members were asked to send to customers.
    pub asked: Asked,
    dice: Option<(StdRng, Vec<(f64, Behaviour)>)>,
}

impl Outlets {
    /// The outlet of this key, known or not.
    pub fn planned(&mut self, key: &str) -> &mut Outlet {
        self.by_key.entry(key.to_owned()).or_default()
    }

    /// Sets it up, for `chat`.
    pub fn open(&mut self, key: &str, chat: &str) {
        self.planned(key).chat.get_or_insert_with(|| chat.to_owned());
    }

    fn draw(&mut self) -> Option<Behaviour> {
        let (dice, faces) = self.dice.as_mut()?;
        let mut point: f64 = dice.random();
        faces.iter().find_map(|(chance, behaviour)| {
            point -= chance;
            (point < 0.0).then(|| behaviour.clone())
        })
    }

    /// What the outlet does with the next send: script, then always, then the mix.
    pub fn behaviour(&mut self, key: &str) -> Behaviour {
        let own = self.by_key.get_mut(key).and_then(|o| o.script.pop_front().or_else(|| o.always.clone()));
        own.or_else(|| self.draw()).unwrap_or(Answer::Taken.into())
    }
}

/// A send as an endpoint read it.
pub(super) struct Send {
    /// Where to.
    pub key: String,
    /// Text and body; errcode and reason where WeCom takes no such message.
    pub message: Result<(String, Value), (i64, &'static str)>,
    /// By what its outlet knows a repeat; `None`: it knows none.
    pub repeat: Option<String>,
    /// Whether one arrival is all that it takes.
    pub once: bool,
    /// What it is called once it is taken, where that is told.
    pub msgid: Option<String>,
}

/// Shared by all endpoints.
pub(super) struct Desk {
    outlets: Mutex<Outlets>,
    pub options: Options,
    pub ledger: Arc<Ledger>,
}

impl Desk {
    pub fn new(options: Options, ledger: Arc<Ledger>) -> Self {
        let dice = options.mix.as_ref().map(|mix| (StdRng::seed_from_u64(mix.seed), mix.of.clone()));
        let (apps, media, book, asked) = (Apps::default(), Media::default(), Book::default(), Asked::default());
        let mut outlets = Outlets { by_key: HashMap::new(), arrived: Vec::new(), apps, media, book, asked, dice };
        [GETTOKEN, AGENT, CONTACT, CUSTOMER_GROUP, SEND_RESULT].iter().for_each(|key| outlets.open(key, ""));
        Self { outlets: Mutex::new(outlets), options, ledger }
    }

    pub fn outlets(&self) -> MutexGuard<'_, Outlets> {
        self.outlets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The gate of an outlet; one that nobody shuts where there is no such outlet.
    pub fn gate(&self, key: &str) -> Gate {
        self.outlets().by_key.get(key).map(|outlet| outlet.gate.clone()).unwrap_or_default()
    }

    /// Takes a send in: checks it, decides what happens to it, and records it if it arrives. `None`: nobody's address.
    fn arrive(&self, send: Send) -> Option<Behaviour> {
        let mut outlets = self.outlets();
        let outlet = outlets.by_key.get_mut(&send.key).and_then(|outlet| Some((outlet.chat.clone()?, outlet)));
        let Some((chat, outlet)) = outlet else {
            drop(outlets);
            self.ledger.violate(Violation::ForeignWebhook);
            return None;
        };
        (outlet.under_way, outlet.posts) = (outlet.under_way + 1, outlet.posts + 1);
        if outlet.under_way > 1 {
            self.ledger.violate(Violation::SendsOverlap(chat.clone()));
        }
        let (text, body) = match send.message {
            Ok(read) => read,
            Err((code, why)) => {
                self.ledger.violate(Violation::BadMessage { chat, why });
                return Some(Answer::Errcode(code).into());
            }
        };
        if self.options.rate.is_some_and(|rate| !outlet.within(rate, Instant::now())) {
            self.ledger.refused(&chat, &text, Refusal::ForNow);
            self.ledger.violate(Violation::OverRate(chat));
            return Some(Answer::Errcode(45009).into());
        }
        let is_known = send.repeat.as_ref().is_some_and(|repeat| outlet.known.contains(repeat));
        let is_used_up = send.once && !outlet.known.is_empty();
        let behaviour = outlets.behaviour(&send.key);
        // Under the lock, so that the ledger sees a chat's replies in the order in which they came.
        match behaviour.answer.refusal() {
            Some(refusal) => self.ledger.refused(&chat, &text, refusal),
            None if is_used_up => {
                self.ledger.refused(&chat, &text, Refusal::ForGood);
                return Some(Answer::Errcode(USED_UP).into());
            }
            None if is_known => {}
            None => {
                let mark = send.repeat.unwrap_or_else(|| "once".into());
                if let Some(outlet) = outlets.by_key.get_mut(&send.key) {
                    outlet.known.insert(mark);
                }
                self.ledger.replied(&chat, &text);
                if !self.options.forget {
                    outlets.arrived.push(Arrived { key: send.key, chat, text, body });
                }
            }
        }
        self.ledger.stir();
        Some(behaviour)
    }

    /// Takes a send in and answers it; `None`: nobody's address.
    pub async fn take(self: &Arc<Self>, scissors: &Scissors, send: Send) -> Option<Response> {
        let (key, msgid) = (send.key.clone(), send.msgid.clone());
        let behaviour = self.arrive(send)?;
        let _under_way = UnderWay { desk: Arc::clone(self), key: key.clone() };
        let more = msgid.map_or_else(|| json!({}), |msgid| json!({"msgid": msgid}));
        Some(self.answer(scissors, &key, behaviour, more).await)
    }

    /// Waits as the outlet's script says, then answers; `more` is added to what was taken.
    pub async fn answer(&self, scissors: &Scissors, key: &str, behaviour: Behaviour, more: Value) -> Response {
        tokio::time::sleep(behaviour.delay.unwrap_or(self.options.latency)).await;
        self.gate(key).pass().await;
        match behaviour.answer {
            Answer::Taken => answer(0, more),
            Answer::LeavesOut(list, who) => {
                let mut more = more;
                more[list] = if list == FAILED { who.split('|').collect() } else { who.into() };
                answer(0, more)
            }
            Answer::Errcode(code) => errcode(code),
            Answer::Status(status) => {
                (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), "bad gateway").into_response()
            }
            Answer::Html => ([(header::CONTENT_TYPE, "text/html")], "<html><body>502</body></html>").into_response(),
            Answer::Cut => {
                scissors.cut();
                StatusCode::OK.into_response()
            }
        }
    }
}

/// The list of who is left out that is one, and no text.
const FAILED: &str = "fail_list";
/// What a `response_url` says that had its call.
const USED_UP: i64 = 40058;

/// One send under way; ends when its answer is ready or its client has gone.
struct UnderWay {
    desk: Arc<Desk>,
    key: String,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(outlet) = self.desk.outlets().by_key.get_mut(&self.key) {
            outlet.under_way -= 1;
        }
        self.desk.ledger.stir();
    }
}

/// WeCom's way to answer: HTTP 200, and the truth in the body.
pub(super) fn errcode(code: i64) -> Response {
    answer(code, json!({}))
}

/// As [`errcode`], with more beside it.
pub(super) fn answer(code: i64, more: Value) -> Response {
    let errmsg = match code {
        0 => "ok",
        40014 => "invalid access_token",
        42001 => "access_token expired",
        45009 => "api freq out of limit",
        60020 => {
            "not allow to access from your ip, hint: [1700000000], from ip: 203.0.113.7, more info at https://open.work.weixin.qq.com/devtool/query?e=60020"
        }
        93000 => "invalid webhook url",
        _ => "scripted",
    };
    let mut body = json!({"errcode": code, "errmsg": errmsg});
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    axum::Json(body).into_response()
}
