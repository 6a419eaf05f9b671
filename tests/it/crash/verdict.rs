//! The verdict on a run: what WeCom and the team's service saw, held against what the operators' API says of every message.
//!
//! What was acknowledged must have been handled once and have ended once: delivered and seen by the fake once; or `unknown`
//! where a gateway died between its handling and its end; or without an answer where it wants none. What never was
//! acknowledged may be lost, and must keep all other promises.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use serde_json::Value;
use wecom_gateway::sim::{Tag, Violation};

use super::fleet::Fleet;
use super::traffic::Posted;

/// Trails that are asked for at once.
const AT_ONCE: usize = 32;
/// Faults that are told in words.
const TOLD: usize = 20;

/// What a run came to.
#[derive(Debug, Default)]
pub struct Verdict {
    pub posted: usize,
    pub acked: usize,
    /// Their reply was delivered.
    pub answered: usize,
    /// Wanted no answer and got none.
    pub unanswered: usize,
    /// A death stood between begin and settle: by time, which deaths.
    pub unknown: usize,
    pub fatal: BTreeSet<i64>,
    /// Of those never acknowledged.
    pub unacked_handled: usize,
    /// Actions that were asked again.
    pub asked_again: usize,
    pub lost: usize,
    pub repeated: usize,
    pub misplaced: usize,
    pub out_of_order: usize,
    pub endless: usize,
    pub other: usize,
    /// The first of the last six, in words.
    pub faults: Vec<String>,
}

/// What the records say of one message.
enum Trail {
    /// Nothing.
    None,
    /// It has not ended.
    Open,
    Ended(Value),
}

impl Verdict {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.zeros().iter().all(|(_, n)| *n == 0)
    }

    /// What must be nought.
    pub fn zeros(&self) -> [(&'static str, usize); 6] {
        [
            ("lost", self.lost),
            ("repeated", self.repeated),
            ("misplaced or mixed", self.misplaced),
            ("out of order", self.out_of_order),
            ("trails without an end", self.endless),
            ("anything else", self.other),
        ]
    }

    /// Fails where a promise was broken.
    pub fn assert_clean(&self) {
        assert!(self.is_clean(), "{self}");
    }

    fn fault(&mut self, count: fn(&mut Self) -> &mut usize, words: impl fmt::Display) {
        *count(self) += 1;
        if self.faults.len() < TOLD {
            self.faults.push(words.to_string());
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, n: usize, more: String| writeln!(f, "{name:<28}{n:>9}{more}");
        let none = String::new;
        row("messages", self.posted, none())?;
        row("acknowledged", self.acked, none())?;
        row("  answered", self.answered, none())?;
        row("  wanted no answer", self.unanswered, none())?;
        let fatal = format!("   by {} deaths between begin and settle", self.fatal.len());
        row("  unknown", self.unknown, if self.unknown > 0 { fatal } else { none() })?;
        let handled = format!("   {} of them handled all the same", self.unacked_handled);
        row("never acknowledged", self.posted - self.acked, if self.posted > self.acked { handled } else { none() })?;
        row("actions asked again", self.asked_again, none())?;
        for (name, n) in self.zeros() {
            row(name, n, if n > 0 { "   must be 0".into() } else { none() })?;
        }
        self.faults.iter().try_for_each(|fault| writeln!(f, "broken: {fault}"))
    }
}

/// Judges a run whose members have ceased to wait: asks for every trail until it has ended, or until none ends any more for
/// `patience`. `deaths` are the times of gateways' ends, Unix ms.
pub async fn judge(fleet: &Fleet, posted: &[Posted], deaths: &[i64], patience: Duration) -> Verdict {
    let mut verdict = Verdict { posted: posted.len(), ..Verdict::default() };
    let trails = trails(fleet, posted, patience).await;
    let missing: HashSet<Tag> = fleet.fake.ledger().lost(usize::MAX).into_iter().collect();
    for (posted, trail) in posted.iter().zip(trails) {
        verdict.acked += usize::from(posted.acked);
        match trail {
            Trail::Ended(item) => {
                verdict.unacked_handled += usize::from(!posted.acked);
                verdict.of_ended(posted, &item, &missing, deaths);
            }
            Trail::None if !posted.acked => {}
            Trail::None => {
                verdict.fault(|v| &mut v.lost, format_args!("{}: acknowledged, without a trail", name(posted)))
            }
            Trail::Open => verdict.fault(|v| &mut v.endless, format_args!("{}: no end", name(posted))),
        }
    }
    for violation in fleet.fake.ledger().violations() {
        verdict.of_violation(&violation);
    }
    verdict
}

fn name(posted: &Posted) -> String {
    format!("{} ({})", posted.message.tag, posted.message.msg_id)
}

impl Verdict {
    fn of_ended(&mut self, posted: &Posted, item: &Value, missing: &HashSet<Tag>, deaths: &[i64]) {
        let (tag, name) = (&posted.message.tag, name(posted));
        let (outcome, reason) = (item["outcome"].as_str().unwrap_or_default(), item["reason"].as_str());
        let stages = || item["stages"].as_array().into_iter().flatten();
        let of = |stage: &str| stages().filter(|step| step["stage"] == stage).count();
        if of("handled") != 1 {
            self.fault(|v| &mut v.repeated, format_args!("{name}: handled {} times", of("handled")));
        }
        if of("settled") != usize::from(posted.message.answered) {
            self.fault(|v| &mut v.other, format_args!("{name}: settled {} times", of("settled")));
        }
        match (outcome, reason) {
            ("delivered", None) if posted.message.answered => {
                self.answered += usize::from(posted.acked);
                if missing.contains(tag) {
                    self.fault(|v| &mut v.lost, format_args!("{name}: delivered, and never seen"));
                }
            }
            ("ignored" | "blocked", _) if !posted.message.answered => self.unanswered += usize::from(posted.acked),
            ("unknown", Some("interrupted")) => {
                self.unknown += usize::from(posted.acked);
                let at = |stage: &str| stages().find(|step| step["stage"] == stage).map(time).unwrap_or_default();
                let (from, to) = (at("handled"), at("settled"));
                match deaths.iter().rfind(|death| (from..=to).contains(*death)) {
                    Some(death) => drop(self.fatal.insert(*death)),
                    None => self.fault(|v| &mut v.other, format_args!("{name}: unknown, and nobody died: {item}")),
                }
            }
            _ => self.fault(|v| &mut v.lost, format_args!("{name}: {outcome} {reason:?}: {item}")),
        }
    }

    fn of_violation(&mut self, violation: &Violation) {
        match violation {
            Violation::AskedTwice { .. } => self.asked_again += 1,
            Violation::Repeated(_) => self.fault(|v| &mut v.repeated, violation),
            Violation::WrongChat { .. } | Violation::ForeignWebhook | Violation::MixedContext { .. } => {
                self.fault(|v| &mut v.misplaced, violation)
            }
            Violation::OutOfOrder { .. } | Violation::SendsOverlap(_) | Violation::HandledAtOnce { .. } => {
                self.fault(|v| &mut v.out_of_order, violation)
            }
            Violation::Unasked(_)
            | Violation::OverRate(_)
            | Violation::BadMessage { .. }
            | Violation::BadActionRequest(_) => self.fault(|v| &mut v.other, violation),
        }
    }
}

/// Unix ms of a stage.
fn time(step: &Value) -> i64 {
    let at: jiff::Timestamp = step["at"].as_str().unwrap_or_default().parse().expect("RFC 3339");
    at.as_millisecond()
}

/// The trail of each message, once it has ended.
async fn trails(fleet: &Fleet, posted: &[Posted], patience: Duration) -> Vec<Trail> {
    let mut found: Vec<Trail> = posted.iter().map(|_| Trail::None).collect();
    // Of what was never acknowledged nothing need ever come.
    let mut open: Vec<usize> = (0..posted.len()).collect();
    let mut moved = tokio::time::Instant::now();
    while !open.is_empty() && moved.elapsed() < patience {
        let asked = stream::iter(open.clone()).map(async |n| (n, trail(fleet, &posted[n]).await));
        let answers: Vec<(usize, Trail)> = asked.buffer_unordered(AT_ONCE).collect().await;
        let before = open.len();
        open.clear();
        for (n, trail) in answers {
            if !matches!((&trail, posted[n].acked), (Trail::Ended(_), _) | (Trail::None, false)) {
                open.push(n);
            }
            found[n] = trail;
        }
        if open.len() < before {
            moved = tokio::time::Instant::now();
        }
        if !open.is_empty() {
            // Rows come behind the work, by a flusher that looks four times a second.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    found
}

async fn trail(fleet: &Fleet, Posted { message, .. }: &Posted) -> Trail {
    let id: String = url::form_urlencoded::byte_serialize(message.msg_id.as_bytes()).collect();
    let answer = fleet.api(&format!("messages/{id}")).await;
    let tag = &message.tag;
    let own = |item: &&Value| item["chat"] == *tag.chat && item["sender"] == *tag.sender;
    let items: Vec<&Value> = answer["items"].as_array().into_iter().flatten().filter(own).collect();
    match items[..] {
        [] => Trail::None,
        [item] if item["outcome"] == "queued" => Trail::Open,
        [item] => Trail::Ended(item.clone()),
        _ => panic!("two trails of one message: {answer}"),
    }
}
