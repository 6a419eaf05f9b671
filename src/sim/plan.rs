//! The messages of one (chat, sender), one after the other, from one seed: texts, ids, and which of them come again.
//!
//! Always: serials rise within a lane and are nobody else's; some ids are used in two lanes, never twice in one.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::load::Load;
use super::texts::TextKind;
use super::violation::Tag;

/// Share of message ids that another (chat, sender) uses too: an id is a message's only within its chat and sender.
const SHARED_IDS: f64 = 0.05;

/// One message of a load.
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
    /// Many times at the same time: a retry storm.
    Storm,
    /// Again after so many later messages of the same member; in an open loop, after so many seconds.
    Late(u64),
}

/// The messages of one (chat, sender), made one by one.
#[derive(Debug)]
pub struct LanePlan {
    load: Arc<Load>,
    chat: String,
    sender: String,
    bot: String,
    /// What a lane's serials have in common: they are `number` more than a multiple of `step`.
    number: u64,
    step: u64,
    rng: StdRng,
    /// The same in both lanes of a pair.
    pair: StdRng,
    place: u64,
}

impl LanePlan {
    /// Lane `number` of `step`: what `member` of the chat writes. `bot` is what their mentions call.
    pub fn new(load: &Arc<Load>, (number, step): (u64, u64), chat: &str, member: usize, bot: &str) -> Self {
        // Neighbouring chats share their members.
        let sender = format!("zhang{:03}", number as usize / load.members.max(1) + member);
        let seed = |salt: u64| StdRng::seed_from_u64(load.seed ^ load.after_serial.rotate_left(17) ^ (salt << 1));
        Self {
            load: Arc::clone(load),
            chat: chat.to_owned(),
            sender,
            bot: bot.to_owned(),
            number,
            step,
            rng: StdRng::seed_from_u64(load.seed.rotate_left(32) ^ number),
            pair: seed(number / 2),
            place: 0,
        }
    }

    /// The next message.
    pub fn message(&mut self) -> Planned {
        let (kind, copies) = (self.load.texts.draw(&mut self.rng), self.copies());
        self.planned(kind, copies)
    }

    /// A message that comes once and wants a reply: where it is posted after all others of its lane, copies too, its reply says
    /// that nothing of that member is still on its way.
    pub fn fence(&mut self) -> Planned {
        self.planned(TextKind::Echo, Copies::None)
    }

    fn planned(&mut self, kind: TextKind, copies: Copies) -> Planned {
        let serial = self.load.after_serial + self.place * self.step + self.number + 1;
        self.place += 1;
        let tag = Tag::new(&self.chat, &self.sender, serial);
        let text = kind.write(&tag, &self.bot, &mut self.rng);
        Planned { tag, msg_id: self.msg_id(), text, answered: kind.is_answered(), copies }
    }

    fn copies(&mut self) -> Copies {
        let Load { twins, late, storms, .. } = *self.load;
        let point: f64 = self.rng.random();
        let after = self.rng.random_range(1..4);
        match point {
            p if p < storms => Copies::Storm,
            p if p < storms + twins => Copies::Twin,
            p if p < storms + twins + late => Copies::Late(after),
            _ => Copies::None,
        }
    }

    fn msg_id(&mut self) -> String {
        let (shared, mut id) = (self.pair.random_bool(SHARED_IDS), self.pair.random::<[u8; 20]>());
        if !shared {
            // Which of the pair it is makes it this lane's own.
            id[0] = (id[0] & 0xfe) | (self.number % 2) as u8;
        }
        STANDARD.encode(id)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn lanes(load: &Load) -> Vec<Vec<Planned>> {
        let lane = |number: u64| {
            let chat = format!("c{}", number / 3);
            let mut lane = LanePlan::new(&Arc::new(load.clone()), (number, 30), &chat, number as usize % 3, "小助手");
            (0..60).map(|place| if place < 59 { lane.message() } else { lane.fence() }).collect()
        };
        (0..30).map(lane).collect()
    }

    #[test]
    fn one_seed_is_one_load() {
        let load = Load::default();
        assert_eq!(lanes(&load), lanes(&load));
        assert_ne!(lanes(&load), lanes(&Load { seed: 2, ..load }));
    }

    #[test]
    fn another_run_on_the_same_gateway_is_other_messages() {
        let ids = |load: &Load| -> HashSet<String> { lanes(load).into_iter().flatten().map(|m| m.msg_id).collect() };
        let (one, two) = (Load::default(), Load { after_serial: 1_000_000, ..Load::default() });
        assert!(ids(&one).is_disjoint(&ids(&two)));
        assert!(lanes(&two).iter().flatten().all(|message| message.tag.serial > 1_000_000));
    }

    #[test]
    fn a_load_holds_what_it_promises() {
        let load = Load { storms: 0.02, ..Load::default() };
        let lanes = lanes(&load);
        for lane in &lanes {
            assert!(lane.is_sorted_by_key(|m| m.tag.serial) && lane.iter().all(|m| m.tag.chat == lane[0].tag.chat));
            let last = &lane[lane.len() - 1];
            assert!(last.answered && last.copies == Copies::None);
        }
        let all: Vec<&Planned> = lanes.iter().flatten().collect();
        let count = |part: fn(&Planned) -> String| all.iter().map(|m| part(m)).collect::<HashSet<_>>().len();
        assert_eq!(count(|m| m.tag.serial.to_string()), all.len());
        assert!(count(|m| m.msg_id.clone()) < all.len(), "some ids are used twice");
        assert_eq!(count(|m| format!("{} {} {}", m.tag.chat, m.tag.sender, m.msg_id)), all.len(), "but by two members");
        assert!(count(|m| m.tag.sender.clone()) < lanes.len(), "some members are in several chats");
        for kind in [Copies::None, Copies::Twin, Copies::Storm, Copies::Late(1)] {
            assert!(all.iter().any(|m| m.copies == kind), "{kind:?}");
        }
    }
}
