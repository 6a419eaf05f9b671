//! Follows what customers were sent: WeCom took it, a member has to confirm it, and who got it is asked for until it is known.
//!
//! The records say which deliveries wait; how far each has come stands in its child, as of any push. What always holds:
//!
//! - One of all processes asks about a delivery: the note of the question says until when nobody asks again, its lock who
//!   asks now. A process that dies asking leaves a lock that ends by itself.
//! - It is asked seldom: 1, 5, 15 and 30 times `[push] ask_after` after WeCom took it, then every 60 times; and by one
//!   process no more than five times a second.
//! - What is told changes the child and leaves its line in one step, unless somebody changed the child in between.
//! - Once its task is known no longer (`[push] keep`) it ends as `unknown`, and somebody is told.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use tracing::{debug, info, warn};

use super::results::{self, NOT_CONFIRMED, advance, counts};
use super::status::current_id;
use crate::alarms::{Alarm, Kind};
use crate::config::settings::Api;
use crate::externalcontact::{ExternalContact, Refusal};
use crate::model::{Lane, Outcome, Secret, first_id, millis, now_ms};
use crate::records::{AwaitedPush, Records, RecordsError};
use crate::setup::InForce;
use crate::stop::Stop;
use crate::store::{Child, ChildChange, Line, Note, NoteWrite, Revision, SharedStore, Stage, StoreError};
use crate::task::{PushState, RecipientState};
use crate::telemetry::Telemetry;

/// How often the records are looked at, at most.
const LOOK: Duration = Duration::from_secs(30);
/// Deliveries that are looked at together.
const PAGE: u32 = 200;
/// When WeCom is asked: so many times `ask_after` after it took the task; from the last one on, each time as long again.
const ASKED_AT: [i64; 5] = [1, 5, 15, 30, 60];
/// Between two requests of one process.
const PAUSE: Duration = Duration::from_millis(200);
/// A question about 10,000 customers of many members takes its time.
const LOCKED_FOR: Duration = Duration::from_secs(600);
/// WeCom's bound of one page, and how many of them are read of one list.
const ROWS: u32 = 1000;
const MOST_PAGES: usize = 100;

/// Why a delivery could not be followed for now.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Asks WeCom who got what a member had to confirm.
pub struct Awaiting {
    store: SharedStore,
    records: Records,
    in_force: Arc<InForce>,
    wecom: Arc<ExternalContact>,
    telemetry: Telemetry,
}

impl Awaiting {
    /// Over this store and its records.
    pub fn new(
        store: SharedStore,
        records: Records,
        in_force: Arc<InForce>,
        wecom: Arc<ExternalContact>,
        telemetry: Telemetry,
    ) -> Self {
        Self { store, records, in_force, wecom, telemetry }
    }

    /// Asks until it is stopped; what is asked by then is finished, so that no lock is left.
    pub async fn run(&self, stop: Stop) {
        loop {
            let pause = self.in_force.settings().push.ask_after.min(LOOK);
            if stop.draining.run_until_cancelled(sleep(pause)).await.is_none() {
                return;
            }
            match stop.cut.run_until_cancelled(self.look(&stop)).await {
                None => return,
                Some(Ok(())) => {}
                Some(Err(error)) => debug!(%error, "who got which push can't be asked now"),
            }
        }
    }

    /// Goes once through all that wait.
    async fn look(&self, stop: &Stop) -> Result<(), Failure> {
        let mut after = String::new();
        let mut refused = HashSet::new();
        loop {
            let page = self.records.awaited(&after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.id);
            for push in self.due(page).await? {
                let [app, ..] = push.key.parts();
                if stop.draining.is_cancelled() {
                    return Ok(());
                }
                if refused.contains(&app) {
                    continue;
                }
                if let Some(refusal) = self.follow(&push).await? {
                    warn!(app, ?refusal, delivery = push.id, "WeCom does not say who got a push; it is asked again");
                    refused.insert(app);
                }
            }
        }
    }

    /// Those that are to be asked about now.
    async fn due(&self, page: Vec<AwaitedPush>) -> Result<Vec<AwaitedPush>, StoreError> {
        let first = millis(self.in_force.settings().push.ask_after);
        let now = now_ms();
        let old: Vec<AwaitedPush> = page.into_iter().filter(|push| now >= push.since.saturating_add(first)).collect();
        let asked = self.store.read_notes(old.iter().map(|push| Note::awaiting(&push.id)).collect()).await?;
        Ok(old.into_iter().zip(asked).filter(|(_, asked)| asked.is_none()).map(|(push, _)| push).collect())
    }

    /// Asks about one, unless another process does. `Some`: WeCom does not answer.
    async fn follow(&self, push: &AwaitedPush) -> Result<Option<Refusal>, StoreError> {
        let (note, owner) = (Note::awaiting(&push.id), format!("{:016x}", rand::random::<u64>()));
        if !self.store.lock_note(&note, &owner, LOCKED_FOR).await? {
            return Ok(None);
        }
        let refusal = match self.learn(push).await {
            Ok(refusal) => refusal,
            Err(failure) => {
                self.store.unlock_note(&note, &owner).await?;
                return Err(failure);
            }
        };
        let settings = self.in_force.settings();
        let next = next_ask(push, now_ms(), millis(settings.push.ask_after)).min(self.ends_at(push));
        let left = u64::try_from(next - now_ms()).unwrap_or(0).max(1);
        let (value, ttl) = (Secret::new("asked"), Duration::from_millis(left));
        self.store.write_note(NoteWrite { note, value, ttl, owner: Some(owner) }).await?;
        Ok(refusal)
    }

    /// When it is given up, Unix ms: its child is known a little longer.
    fn ends_at(&self, push: &AwaitedPush) -> i64 {
        push.taken_at.saturating_add(millis(self.in_force.settings().push.keep))
    }

    async fn learn(&self, push: &AwaitedPush) -> Result<Option<Refusal>, StoreError> {
        let task_id = push.key.task_id().unwrap_or_default();
        let task = self.store.pushes().task(&task_id).await?;
        let child =
            task.into_iter().flat_map(|task| task.children).find(|child| child.delivery_id == first_id(&push.id));
        let Some(child) = child else {
            // Nobody knows whom it was for any more.
            self.revise(push, 0, PushState::because(Outcome::Unknown, NOT_CONFIRMED)).await?;
            return Ok(None);
        };
        if !child.state.awaits_member() || current_id(&child) != push.id {
            // It ended, and the records do not know it yet.
            return Ok(None);
        }
        let (told, refusal) = match self.ask(push, &child).await {
            Ok(told) => (told, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        let is_late = now_ms() >= self.ends_at(push) || child.state.msgid.is_none();
        let next = advance(&child.state, told, is_late);
        if next != child.state {
            self.revise(push, child.at, next).await?;
        }
        Ok(refusal)
    }

    /// What WeCom tells of its recipients; nothing where its app can't ask (any more).
    async fn ask(&self, push: &AwaitedPush, child: &Child) -> Result<Vec<RecipientState>, Refusal> {
        let [app, ..] = push.key.parts();
        let api = self.in_force.settings().apps.get(&app).and_then(|app| app.api.clone());
        let (Some(api), Some(msgid)) = (api, &child.state.msgid) else { return Ok(Vec::new()) };
        let mut told = Vec::new();
        for page in self.pages(&api, "get_groupmsg_task", json!({"msgid": msgid})).await? {
            for sender in results::senders(&page) {
                let question = json!({"msgid": msgid, "userid": sender});
                let pages = self.pages(&api, "get_groupmsg_send_result", question).await?;
                told.extend(pages.iter().flat_map(results::told));
            }
        }
        Ok(told)
    }

    /// All pages of a list.
    async fn pages(&self, api: &Arc<Api>, path: &str, mut question: Value) -> Result<Vec<Value>, Refusal> {
        question["limit"] = ROWS.into();
        let mut pages = Vec::new();
        while pages.len() < MOST_PAGES {
            let page = self.wecom.post(api, path, &question).await?;
            sleep(PAUSE).await;
            let cursor = page["next_cursor"].as_str().filter(|cursor| !cursor.is_empty()).map(str::to_owned);
            pages.push(page);
            match cursor {
                Some(cursor) => question["cursor"] = cursor.into(),
                None => break,
            }
        }
        Ok(pages)
    }

    /// Says what is known now; how it ended where it did.
    async fn revise(&self, push: &AwaitedPush, seen: i64, state: PushState) -> Result<(), StoreError> {
        let [app, chat, ..] = push.key.parts();
        let (ended, reason) = (state.state, state.reason.clone());
        let lines = if ended == Outcome::Queued { Vec::new() } else { vec![line(push, &state)] };
        let task_id = push.key.task_id().unwrap_or_default();
        let change = ChildChange { task_id, delivery_id: first_id(&push.id).to_owned(), state };
        let revision = Revision { lane: Lane::of_chat(&app, &chat), seen, change, lines };
        // Another word came first; it is looked at again.
        if !self.store.pushes().revise(revision).await? || ended == Outcome::Queued {
            return Ok(());
        }
        info!(app, delivery = push.id, state = ended.as_str(), reason, "WeCom told who got a push");
        self.telemetry.metrics.push_ended(&app, ended);
        if ended == Outcome::Unknown {
            let why = format!("nobody confirmed it, or WeCom did not say so ({})", push.id);
            self.telemetry.alarms.raise(Alarm::of_chat(Kind::Unknown, &app, &chat, &why));
        }
        Ok(())
    }
}

fn line(push: &AwaitedPush, state: &PushState) -> Line {
    let detail = json!({
        "delivery": push.id,
        "state": state.state.as_str(),
        "reason": state.reason,
        "by": "wecom",
        "errcode": state.errcode,
        "msgid": state.msgid,
        "left_out": state.left_out,
        "recipients": counts(&state.recipients),
    });
    Line {
        stage: Stage::Settled,
        request_id: push.request_id.clone(),
        key: push.key.clone(),
        detail: detail.as_object().cloned().unwrap_or_default(),
    }
}

/// When it is asked about next, Unix ms; `first` is `ask_after` in ms.
fn next_ask(push: &AwaitedPush, now: i64, first: i64) -> i64 {
    let first = first.max(1);
    let waited = now.saturating_sub(push.since).max(0) / first;
    let [.., every] = ASKED_AT;
    let next = ASKED_AT.into_iter().find(|at| *at > waited).unwrap_or_else(|| (waited / every + 1) * every);
    push.since.saturating_add(next.saturating_mul(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MessageKey;

    #[test]
    fn it_is_asked_less_and_less_often() {
        let key = MessageKey::of_push("a", "to:x", "t");
        let push = AwaitedPush { id: "t.0".into(), request_id: "t".into(), key, taken_at: 0, since: 1000 };
        let minute = 60_000;
        let mut asked = vec![];
        let mut now = 1000;
        for _ in 0..8 {
            now = next_ask(&push, now, minute);
            asked.push((now - 1000) / minute);
        }
        assert_eq!(asked, [1, 5, 15, 30, 60, 120, 180, 240]);
        // A clock that went back asks later, not at once.
        assert_eq!(next_ask(&push, 0, minute), 1000 + minute);
    }
}
