//! Access tokens: one for each app's secret, shared by all processes, refreshed by one of them at a time.
//!
//! Source: developer.work.weixin.qq.com/document/path/91039. A token lives two hours and may be taken back earlier; asking for
//! it too often is blocked, and a wrong secret asked for again and again bans the address for an hour. What always holds:
//!
//! - WeCom is asked only under the note's lock, which its holder alone gives back, and which ends by itself.
//! - It is asked ten minutes before a token ends (a little more, by chance); whoever does not get the lock goes on with the
//!   current one.
//! - A refused token is given up only where it is still the current one.
//! - What WeCom refused is remembered by all processes, and not asked again for a while.
//! - No token and no secret is in any error, log line or `Debug`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{info, warn};

use super::channel::get;
use crate::config::settings::Api;
use crate::model::Secret;
use crate::store::{self, Note, NoteWrite, Noted, SharedStore};
use crate::wecom::verdict::{Reply, read_answer};

/// So long before its end a token is refreshed, and up to a fifth more.
const EARLY: Duration = Duration::from_secs(600);
/// A process that could not refresh early tries again after this.
const AGAIN: Duration = Duration::from_secs(60);
/// A token is not used to its last moment: the request has to arrive.
const MARGIN: Duration = Duration::from_secs(5);
/// What a refresh may take beyond its request; then somebody else may try.
const LOCK_MARGIN: Duration = Duration::from_secs(5);
/// Nobody asks again for so long after WeCom refused. Below the minute after which a held app is probed.
const REFUSED_FOR: Duration = Duration::from_secs(50);
/// … and after WeCom could not be reached.
const FAILED_FOR: Duration = Duration::from_secs(2);
/// How often a process looks whether another one has the token by now.
const LOOK: Duration = Duration::from_millis(50);

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NoToken {
    /// WeCom refuses to give one.
    Refused {
        /// Its code.
        errcode: i64,
        /// Its words.
        errmsg: String,
    },
    /// WeCom can't be asked, or says nothing readable.
    Failed(String),
    /// The store is away, or whoever asks takes too long.
    NotYet(String),
}

impl From<NoToken> for Reply {
    /// A message without a token was not sent.
    fn from(none: NoToken) -> Self {
        match none {
            // Busy, or out of reach: that says nothing of the message, so it uses up none of its tries.
            NoToken::Refused { errcode: -1, errmsg } => Self::NotTried(format!("gettoken: {errmsg}")),
            NoToken::Failed(why) => Self::NotTried(format!("gettoken: {why}")),
            NoToken::Refused { errcode, errmsg } => {
                Self::Http { status: 200, code: Some((errcode, format!("gettoken: {errmsg}"))) }
            }
            NoToken::NotYet(why) => Self::NotTried(format!("no access token: {why}")),
        }
    }
}

/// How long an app's token is still good, where there is one, and why WeCom gives none, where it refuses.
///
/// # Errors
/// The store's.
pub async fn token_state(store: &SharedStore, api: &Api) -> store::Result<(Option<Duration>, Option<String>)> {
    let names = Names::of(api);
    let mut noted = store.read_notes(vec![names.token, names.none]).await?.into_iter();
    let left = noted.next().flatten().map(|token| token.left);
    let none = noted.next().flatten().and_then(|none| serde_json::from_str(none.value.expose()).ok());
    let why = none.map(|none| match none {
        NoToken::Refused { errcode, errmsg } => format!("errcode {errcode}: {errmsg}"),
        NoToken::Failed(why) | NoToken::NotYet(why) => why,
    });
    Ok((left, why))
}

/// Lets a token that WeCom refused be asked for again, by whoever needs it next.
pub(super) async fn forget_refusal(store: &SharedStore, api: &Api) -> store::Result<()> {
    store.drop_note(&Names::of(api).none, None).await.map(drop)
}

/// The tokens of all apps. Clones are the same.
#[derive(Clone)]
pub(crate) struct Tokens(Arc<Desk>);

struct Desk {
    store: SharedStore,
    client: reqwest::Client,
    /// Without a trailing slash.
    api_base: String,
    /// How long a message waits for a token.
    patience: Duration,
    slots: Mutex<HashMap<Note, Arc<Slot>>>,
}

/// What this process knows of one token.
#[derive(Default)]
struct Slot {
    current: Mutex<Option<Current>>,
    /// The last one that was refused: somebody who read it before may bring it late, and it must not come back by that.
    refused: Mutex<Option<Secret>>,
    /// Held by the one task of this process that looks for a token.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone)]
struct Current {
    token: Secret,
    ends: Instant,
    refresh: Instant,
}

/// The notes of one secret.
struct Names {
    token: Note,
    none: Note,
}

impl Names {
    fn of(api: &Api) -> Self {
        let mut digest = hex::encode(Sha256::digest(api.secret.expose()));
        digest.truncate(16);
        Self { token: Note::token(&api.corp_id, &digest), none: Note::no_token(&api.corp_id, &digest) }
    }
}

impl Slot {
    fn current(&self) -> MutexGuard<'_, Option<Current>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token, unless it is over.
    fn good(&self) -> Option<Current> {
        self.current().clone().filter(|current| Instant::now() < current.ends)
    }

    fn last_refused(&self) -> MutexGuard<'_, Option<Secret>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, token: Secret, left: Duration) {
        let ends = Instant::now() + left.saturating_sub(MARGIN);
        let early = EARLY.mul_f64(rand::random_range(1.0..1.2));
        // One that lives shorter than that is not asked for at each send all the same.
        let refresh = ends.checked_sub(early).map_or(ends, |at| at.max(Instant::now() + AGAIN));
        *self.current() = Some(Current { token, ends, refresh });
    }

    /// Not early again for a while.
    fn put_off(&self) {
        if let Some(current) = self.current().as_mut() {
            current.refresh = Instant::now() + AGAIN;
        }
    }
}

impl Tokens {
    pub fn new(store: SharedStore, client: reqwest::Client, api_base: &str, patience: Duration) -> Self {
        let api_base = api_base.to_owned();
        Self(Arc::new(Desk { store, client, api_base, patience, slots: Mutex::default() }))
    }

    /// A token that is good as far as anybody knows.
    pub async fn get(&self, api: &Api) -> Result<Secret, NoToken> {
        let (desk, names) = (&*self.0, Names::of(api));
        let slot = desk.slot(&names.token);
        let Some(current) = slot.good() else { return desk.wait_for_one(api, &names, &slot).await };
        if Instant::now() >= current.refresh
            && let Ok(_asking) = slot.asking.try_lock()
        {
            slot.put_off();
            desk.refresh_early(api, &names, &slot).await;
        }
        Ok(slot.good().map_or(current.token, |current| current.token))
    }

    /// The early refresh of every token is due.
    #[cfg(test)]
    pub fn hurry(&self) {
        for slot in self.0.slots.lock().unwrap_or_else(PoisonError::into_inner).values() {
            slot.current().iter_mut().for_each(|current| current.refresh = Instant::now());
        }
    }

    /// `token` was refused: it is nobody's any more, unless another has taken its place already.
    pub async fn refused(&self, api: &Api, token: &Secret) {
        let (desk, names) = (&*self.0, Names::of(api));
        let slot = desk.slot(&names.token);
        *slot.last_refused() = Some(token.clone());
        slot.current().take_if(|current| current.token == *token);
        if let Err(error) = desk.store.drop_note(&names.token, Some(token)).await {
            warn!(%error, "a refused access token could not be given up");
        }
    }
}

impl Desk {
    fn slot(&self, note: &Note) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.entry(note.clone()).or_default().clone()
    }

    async fn wait_for_one(&self, api: &Api, names: &Names, slot: &Slot) -> Result<Secret, NoToken> {
        let give_up = Instant::now() + self.patience;
        let late = || NoToken::NotYet("somebody asks for it, and WeCom does not answer".into());
        let _asking = timeout_at(give_up, slot.asking.lock()).await.map_err(|_| late())?;
        loop {
            // Of another task of this process, while this one waited for its turn.
            if let Some(current) = slot.good() {
                return Ok(current.token);
            }
            if let Some(known) = self.known(names, slot).await.map_err(not_yet)? {
                return known;
            }
            if let Some(brought) = self.ask_under_lock(api, names, slot, None).await? {
                return brought;
            }
            if Instant::now() >= give_up {
                return Err(late());
            }
            sleep(LOOK.mul_f64(rand::random_range(1.0..2.0))).await;
        }
    }

    async fn refresh_early(&self, api: &Api, names: &Names, slot: &Slot) {
        let before = slot.good();
        // Another process may have done it.
        let known = self.known(names, slot).await;
        let is_new = slot.good().zip(before.as_ref()).is_some_and(|(now, before)| now.token != before.token);
        if matches!(known, Ok(Some(Err(_))) | Err(_)) || is_new {
            return;
        }
        slot.put_off();
        if let Err(why) | Ok(Some(Err(why))) = self.ask_under_lock(api, names, slot, before.as_ref()).await {
            warn!(corp_id = api.corp_id, agent_id = api.agent_id, ?why, "an access token could not be refreshed early");
        }
    }

    /// What all processes know: a token, or why there is none for now.
    async fn known(&self, names: &Names, slot: &Slot) -> store::Result<Option<Result<Secret, NoToken>>> {
        let mut noted = self.store.read_notes(vec![names.token.clone(), names.none.clone()]).await?.into_iter();
        let refused = slot.last_refused().clone();
        let is_good = |noted: &Noted| noted.left > MARGIN && refused.as_ref() != Some(&noted.value);
        if let Some(Noted { value, left }) = noted.next().flatten().filter(is_good) {
            slot.keep(value.clone(), left);
            return Ok(Some(Ok(value)));
        }
        let none = noted.next().flatten();
        Ok(none.and_then(|noted| serde_json::from_str(noted.value.expose()).ok()).map(Err))
    }

    /// Asks WeCom, if nobody else does; `None` where somebody does. Whoever had the lock before may have brought another token
    /// than `old` since we looked: to ask again would end theirs.
    async fn ask_under_lock(
        &self,
        api: &Api,
        names: &Names,
        slot: &Slot,
        old: Option<&Current>,
    ) -> Result<Option<Result<Secret, NoToken>>, NoToken> {
        let owner = format!("{:016x}", rand::random::<u64>());
        let lock_for = self.patience + LOCK_MARGIN;
        if !self.store.lock_note(&names.token, &owner, lock_for).await.map_err(not_yet)? {
            return Ok(None);
        }
        let known = self.known(names, slot).await.map_err(not_yet)?;
        let is_news = match &known {
            Some(Ok(token)) => old.is_none_or(|old| old.token != *token),
            Some(Err(_)) => true,
            None => false,
        };
        if is_news {
            self.store.unlock_note(&names.token, &owner).await.map_err(not_yet)?;
            return Ok(known);
        }
        let answer = self.ask(api).await;
        let written = match &answer {
            Ok((token, lives)) => {
                info!(corp_id = api.corp_id, agent_id = api.agent_id, "a new access token");
                // Fresh from WeCom, even where it is the one that was refused.
                slot.last_refused().take();
                slot.keep(token.clone(), *lives);
                let value = token.clone();
                let write = NoteWrite { note: names.token.clone(), value, ttl: *lives, owner: Some(owner) };
                self.store.write_note(write).await.map(drop)
            }
            Err(why) => self.remember_refusal(names, &owner, why).await,
        };
        if let Err(error) = written {
            warn!(%error, "what gettoken answered could not be kept for others");
        }
        Ok(Some(answer.map(|(token, _)| token)))
    }

    async fn remember_refusal(&self, names: &Names, owner: &str, why: &NoToken) -> store::Result<()> {
        let ttl = match why {
            NoToken::Refused { errcode: -1, .. } | NoToken::Failed(_) | NoToken::NotYet(_) => FAILED_FOR,
            NoToken::Refused { .. } => REFUSED_FOR,
        };
        let value = Secret::new(serde_json::to_string(why).unwrap_or_default());
        let write = NoteWrite { note: names.none.clone(), value, ttl, owner: None };
        self.store.write_note(write).await?;
        self.store.unlock_note(&names.token, owner).await
    }

    /// One `gettoken`: the token and how long it lives.
    async fn ask(&self, api: &Api) -> Result<(Secret, Duration), NoToken> {
        let answer = get(&self.client, &gettoken_url(&self.api_base, api)).await;
        let (status, body) = answer.map_err(NoToken::from)?;
        read_token(api, status, &body)
    }
}

impl From<Reply> for NoToken {
    /// Of a `gettoken` without an answer.
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::NotTried(why) => Self::NotYet(why),
            Reply::NotWritten(why) | Reply::NoAnswer(why) => Self::Failed(why),
            Reply::Taken(_) => Self::Failed("an answer without a token".to_owned()),
            Reply::Http { status, .. } => Self::Failed(format!("HTTP {status}")),
        }
    }
}

/// Where `gettoken` is asked; `api_base` is without a trailing slash. It holds the secret.
pub(crate) fn gettoken_url(api_base: &str, api: &Api) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("corpid", &api.corp_id).append_pair("corpsecret", api.secret.expose());
    format!("{api_base}/cgi-bin/gettoken?{}", query.finish())
}

/// What `gettoken` answered: a token and how long it lives.
pub(crate) fn read_token(api: &Api, status: u16, body: &[u8]) -> Result<(Secret, Duration), NoToken> {
    let failed = |why: String| NoToken::Failed(why);
    match read_answer(status, body) {
        Reply::Taken(_) => {}
        Reply::Http { code: Some((errcode, errmsg)), .. } => {
            return Err(NoToken::Refused { errcode, errmsg: errmsg.replace(api.secret.expose(), "***") });
        }
        _ => return Err(failed(format!("HTTP {status} without an errcode"))),
    }
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
    let lives = answer["expires_in"].as_u64().map(Duration::from_secs).filter(|lives| *lives > MARGIN);
    token.map(Secret::new).zip(lives).ok_or_else(|| failed("an answer without a token, or without its time".into()))
}

fn not_yet(error: store::StoreError) -> NoToken {
    NoToken::NotYet(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_token_for_now_no_try_is_used_up() {
        let refused = |errcode| NoToken::Refused { errcode, errmsg: "e".into() };
        for none in [refused(-1), NoToken::Failed("HTTP 502".into()), NoToken::NotYet("late".into())] {
            assert!(matches!(Reply::from(none.clone()), Reply::NotTried(_)), "{none:?}");
        }
        assert!(matches!(Reply::from(refused(40001)), Reply::Http { code: Some((40001, _)), .. }));
    }
}
