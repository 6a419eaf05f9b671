//! Keeps the journal within its bound while the records cannot take it.
//!
//! The oldest lines are looked at a piece at a time: those of messages that are known to have ended `delivered` or
//! `ignored` are given up, with their whole trail; the others go to the journal's end, which changes nothing, because what
//! the records make of lines does not depend on their order. Where all were looked at and there is still too much, the
//! oldest go whatever they say. That a session was forgotten, and what operators changed, is never given up.

use std::collections::{HashMap, HashSet};

use super::trail::{Digest, Recorded, Step, fold};
use crate::model::Outcome;
use crate::store::{Result, SharedStore, Stage};

/// Lines looked at in one step, of each shard: a message's lines lie within so many of each other, as a rule.
const STEP: usize = 5_000;

/// Gives lines up until no more than `limit` wait; answers how many. `goes_on` is called for each piece.
pub(super) async fn thin(store: &SharedStore, limit: u64, goes_on: impl Fn()) -> Result<usize> {
    let mut waiting = store.depth().await?.journal;
    let (mut unseen, mut given_up) = (waiting, 0);
    while waiting > limit {
        goes_on();
        let spare = if unseen > 0 { worth_keeping } else { never_given_up };
        let batches = store.read_journal(STEP).await?;
        if batches.is_empty() || (unseen == 0 && batches.iter().all(|batch| spare(&batch.lines).len() == batch.count)) {
            break;
        }
        for batch in batches {
            if waiting <= limit {
                break;
            }
            let kept = spare(&batch.lines);
            let gone = batch.count - kept.len();
            unseen = unseen.saturating_sub(batch.count as u64);
            if store.rotate_journal(&batch, kept).await? {
                waiting = waiting.saturating_sub(gone as u64);
                given_up += gone;
            }
        }
    }
    Ok(given_up)
}

/// All but the lines of messages that began here and ended well here, and what nobody can read.
fn worth_keeping(lines: &[String]) -> Vec<String> {
    let read: Vec<(&String, Recorded)> = lines.iter().filter_map(|raw| Some((raw, Recorded::parse(raw)?))).collect();
    let mut trails: HashMap<Digest, Vec<&Step>> = HashMap::new();
    for (_, line) in read.iter().filter(|(_, line)| line.step.stage.is_of_message()) {
        trails.entry(line.message).or_default().push(&line.step);
    }
    let ended_well = |steps: &[&Step]| {
        let began = steps.iter().any(|step| matches!(step.stage, Stage::Accepted | Stage::Pushed));
        began && matches!(fold(steps.iter().copied()).0.outcome, Outcome::Delivered | Outcome::Ignored)
    };
    let spent: HashSet<Digest> = trails.into_iter().filter(|(_, steps)| ended_well(steps)).map(|(of, _)| of).collect();
    let kept = read.iter().filter(|(_, line)| !line.step.stage.is_of_message() || !spent.contains(&line.message));
    kept.map(|(raw, _)| (*raw).clone()).collect()
}

fn never_given_up(lines: &[String]) -> Vec<String> {
    let is_kept = |raw: &&String| {
        Recorded::parse(raw).is_some_and(|line| matches!(line.step.stage, Stage::Forgotten | Stage::Changed))
    };
    lines.iter().filter(is_kept).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use serde_json::{Value, json};

    use super::*;
    use crate::model::MessageKey;
    use crate::store::Line;

    fn line(at: i64, stage: Stage, msg_id: &str, detail: Value) -> String {
        let detail = detail.as_object().cloned().unwrap_or_default();
        let key = MessageKey::new("app", "chat", "u", msg_id);
        format!("{at}\t{}", Line { stage, request_id: msg_id.into(), key, detail })
    }

    fn life(msg_id: &str, state: &str) -> [String; 3] {
        let reply = format!("{msg_id}.0");
        let handled = json!({"outcome": "queued", "replies": [{"id": reply}]});
        let settled = json!({"delivery": reply, "state": state});
        [
            line(1, Stage::Accepted, msg_id, json!({})),
            line(2, Stage::Handled, msg_id, handled),
            line(3, Stage::Settled, msg_id, settled),
        ]
    }

    #[test]
    fn whole_trails_of_what_ended_well_are_given_up_first() {
        let ignored = line(2, Stage::Handled, "i", json!({"outcome": "ignored", "replies": []}));
        let said = line(2, Stage::Exchanged, "d", json!({"turns": []}));
        let [accepted, handled, settled] = life("half", "delivered");
        let kept =
            [vec![said.clone()], life("u", "unknown").to_vec(), vec![accepted.clone(), handled.clone()]].concat();
        let gone = [life("d", "delivered").to_vec(), vec![line(1, Stage::Accepted, "i", json!({})), ignored]].concat();
        let lines = [gone.clone(), kept.clone(), vec!["nonsense".to_owned()]].concat();
        assert_eq!(worth_keeping(&lines), kept);
        // Without its beginning it may be the end of one whose beginning was kept.
        assert_eq!(worth_keeping(from_ref(&settled)), from_ref(&settled));
        assert_eq!(worth_keeping(&[accepted, handled, settled]), [""; 0]);
    }

    #[test]
    fn deletions_and_what_operators_changed_are_never_given_up() {
        let kept = [line(1, Stage::Forgotten, "", json!({})), line(2, Stage::Changed, "", json!({"by": "ops"}))];
        let lines = [life("u", "unknown").to_vec(), kept.to_vec()].concat();
        assert_eq!(never_given_up(&lines), kept);
        assert_eq!(worth_keeping(&kept), kept);
    }
}
