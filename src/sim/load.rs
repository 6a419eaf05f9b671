//! The load: so many messages over so many chats, from one seed, posted the way WeCom posts them.
//!
//! Commands, mentions, a keyword, chatter and a forbidden word are mixed; some messages come twice at once, some come again
//! after later ones; some ids are used in two chats. Chats overtake each other freely, but the first posts of one
//! (chat, sender) are awaited one after the other, so that their order is defined. The last message of each (chat, sender) comes
//! after all copies and wants a reply: once it has one, nothing of that member can still be on its way.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::caller::{Caller, robot_text};
use super::ledger::Ledger;
use super::violation::Tag;

/// How much of what.
#[derive(Clone, Debug)]
pub struct Load {
    /// Messages in all; copies come on top.
    pub messages: usize,
    /// Chats that they are spread over.
    pub chats: usize,
    /// Members who write in each chat; everybody is in several chats.
    pub members: usize,
    /// Same seed, same messages.
    pub seed: u64,
    /// Messages under way at once: posted and without their reply, or without `success` where they want none.
    pub under_way: usize,
    /// Share of messages that come twice at the same time.
    pub twins: f64,
    /// Share of messages that come again after later ones.
    pub late: f64,
}

impl Default for Load {
    fn default() -> Self {
        Self { messages: 5000, chats: 50, members: 3, seed: 1, under_way: 64, twins: 0.08, late: 0.07 }
    }
}

/// One message of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Names it in every text that belongs to it.
    pub tag: Tag,
    /// Opaque, as WeCom's are.
    pub msg_id: String,
    /// What the member wrote.
    pub text: String,
    /// Whether it wants exactly one reply, or none.
    pub answered: bool,
    /// How else it comes.
    pub copies: Copies,
}

/// The copies of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copies {
    /// It comes once.
    None,
    /// Twice at the same time.
    Twin,
    /// Again after so many later messages of the same member.
    Late(usize),
}

/// What members say when they want nothing.
const CHATTER: [&str; 5] = [
    "今天天气不错啊",
    "收到，谢谢大家",
    "中午一起吃饭吗？",
    "周报已经发了",
    "[强] 辛苦了 https://example.com/a?b=1&c=2",
];

/// A text that needs no answer is one of these; the others carry their serial or their tag.
fn text(rng: &mut StdRng, tag: &Tag) -> (String, bool) {
    let n = tag.serial;
    match rng.random_range(0..100) {
        0..35 => (format!("/query {n}"), true),
        35..55 => (format!("/echo {tag}"), true),
        55..62 => (format!("@小助手 /query {n}"), true),
        62..70 => (format!("@小助手 介绍一下产品 #{n}"), true),
        70..77 => (format!("有优惠券吗 #{n}"), true),
        77..80 => (format!("／查询订单 {n}"), true),
        80..83 => (format!("/echo 违禁词 {n}"), false),
        _ => (CHATTER.choose(rng).copied().unwrap_or_default().to_owned(), false),
    }
}

impl Load {
    /// The chats' ids.
    pub fn chat_ids(&self) -> Vec<String> {
        (0..self.chats).map(|i| format!("wrDemo{i:04}")).collect()
    }

    /// All messages, a list per (chat, sender), in the order in which each list is to be posted.
    pub fn plan(&self) -> Vec<Vec<Planned>> {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let chats = self.chat_ids();
        let members = self.members.max(1);
        let mut lanes = vec![Vec::new(); chats.len() * members];
        let mut previous: Option<(usize, String)> = None;
        for serial in 1..=self.messages as u64 {
            let lane = rng.random_range(0..lanes.len().max(1));
            let Some(chat) = chats.get(lane / members) else { break };
            // Neighbouring chats share their members.
            let tag = Tag::new(chat, &format!("zhang{:03}", lane / members + lane % members), serial);
            let (text, answered) = text(&mut rng, &tag);
            // An id is a message's only within its chat and sender.
            let reused = previous.take().filter(|(other, _)| *other != lane && rng.random_bool(0.05));
            let msg_id = match reused {
                Some((_, id)) => id,
                None => {
                    let id = STANDARD.encode(rng.random::<[u8; 20]>());
                    previous = Some((lane, id.clone()));
                    id
                }
            };
            let copies = self.copies(&mut rng);
            lanes[lane].push(Planned { tag, msg_id, text, answered, copies });
        }
        lanes.retain(|lane| !lane.is_empty());
        for last in lanes.iter_mut().filter_map(|lane| lane.last_mut()) {
            (last.text, last.answered, last.copies) = (format!("/echo {}", last.tag), true, Copies::None);
        }
        lanes.shuffle(&mut rng);
        lanes
    }

    fn copies(&self, rng: &mut StdRng) -> Copies {
        let point: f64 = rng.random();
        if point < self.twins {
            Copies::Twin
        } else if point < self.twins + self.late {
            Copies::Late(rng.random_range(1..4))
        } else {
            Copies::None
        }
    }

    /// Posts everything; ends when the last post was answered or given up, and never where replies are lost and nothing
    /// under way ends ([`Ledger::stalled`] tells). Dropping it ends the posts under way.
    pub async fn run(&self, caller: &Caller, ledger: &Arc<Ledger>) {
        let permits = Arc::new(Semaphore::new(self.under_way.max(1)));
        let mut lanes = JoinSet::new();
        for plan in self.plan() {
            for message in &plan {
                ledger.expect(&message.tag, message.answered);
            }
            let poster = Poster { caller: caller.clone(), ledger: Arc::clone(ledger), permits: Arc::clone(&permits) };
            lanes.spawn(async move { poster.run(&plan).await });
        }
        while lanes.join_next().await.is_some() {}
    }
}

/// Posts the messages of one (chat, sender).
struct Poster {
    caller: Caller,
    ledger: Arc<Ledger>,
    permits: Arc<Semaphore>,
}

impl Poster {
    async fn run(&self, plan: &[Planned]) {
        let mut late: Vec<(usize, &Planned)> = Vec::new();
        for (place, message) in plan.iter().enumerate() {
            let is_last = place + 1 == plan.len();
            for (_, copy) in late.extract_if(.., |(due, _)| *due <= place || is_last) {
                self.deliver(copy).await;
            }
            match message.copies {
                Copies::None => self.deliver(message).await,
                Copies::Twin => {
                    tokio::join!(self.deliver(message), self.deliver(message));
                }
                Copies::Late(after) => {
                    self.deliver(message).await;
                    late.push((place + 1 + after, message));
                }
            }
        }
    }

    async fn deliver(&self, message: &Planned) {
        // Nobody closes the semaphore.
        let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
        let Tag { chat, sender, serial } = &message.tag;
        let payload = robot_text(chat, sender, &message.msg_id, &message.text);
        if self.caller.deliver(&payload, || self.ledger.posted(*serial)).await {
            self.ledger.acked(*serial);
            self.ledger.until_replied(*serial, permit);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn one_seed_is_one_load() {
        let load = Load { messages: 400, chats: 7, ..Load::default() };
        assert_eq!(load.plan(), load.plan());
        assert_ne!(load.plan(), Load { seed: 2, ..load.clone() }.plan());
        assert_eq!(load.plan().iter().map(Vec::len).sum::<usize>(), 400);
        assert!(Load { chats: 0, ..load }.plan().is_empty());
    }

    #[test]
    fn a_load_holds_what_it_promises() {
        let lanes = Load { messages: 2000, chats: 10, ..Load::default() }.plan();
        for lane in &lanes {
            let serials: Vec<u64> = lane.iter().map(|m| m.tag.serial).collect();
            assert!(serials.is_sorted() && lane.iter().all(|m| m.tag.chat == lane[0].tag.chat));
            let last = &lane[lane.len() - 1];
            assert!(last.answered && last.copies == Copies::None);
        }
        let all: Vec<&Planned> = lanes.iter().flatten().collect();
        let ids: HashSet<_> = all.iter().map(|m| &m.msg_id).collect();
        let triples: HashSet<_> = all.iter().map(|m| (&m.tag.chat, &m.tag.sender, &m.msg_id)).collect();
        assert!(ids.len() < all.len(), "some ids are used in two chats");
        assert_eq!(triples.len(), all.len(), "but never twice by one member in one chat");
        let senders: HashSet<_> = all.iter().map(|m| &m.tag.sender).collect();
        assert!(senders.len() < lanes.len(), "some members are in several chats");
        for kind in [Copies::None, Copies::Twin, Copies::Late(1)] {
            assert!(all.iter().any(|m| m.copies == kind));
        }
        assert!(all.iter().all(|m| !m.answered || m.text.contains(&m.tag.serial.to_string())));
    }
}
