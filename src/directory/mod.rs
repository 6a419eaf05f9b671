//! The directory: what WeCom itself tells of external contacts and customer groups, asked in the background.
//!
//! Only apps with an API side may ask (`externalcontact/get`, `externalcontact/groupchat/get`; document/path/92114 and 92122),
//! and WeCom grants it only where the app is listed under 客户联系 → 可调用应用. What always holds:
//!
//! - No message waits for it: a message only leaves its sender and its chat here, and what finds no room is asked another time.
//! - One of all processes asks for one person or chat, once a day; a process asks at most five times a second.
//! - An app that may not ask is left alone for an hour. An answer that can't be read holds up its own question alone, several in a
//!   row the app.
//! - What WeCom tells fills in; what people set stands (see [`FieldChange::Fill`]).

mod ask;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use self::ask::{Asker, Group, Person};
use crate::config::settings::{Api, App};
use crate::externalcontact::{ExternalContact, Refusal};
use crate::member::{MemberKey, NAME, PHONE, REMARK, field_value};
use crate::model::{ChatKind, Lane, Message, Secret, SenderKind};
use crate::setup::InForce;
use crate::store::{self, FieldChange, Note, NoteWrite, ProfileChange, SharedStore};

/// How long an answer, also an empty one, is good for.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// Between two questions of one process: 300 a minute, of the 10,000 that a corp has.
const PAUSE: Duration = Duration::from_millis(200);
/// How far a question stays behind the message that raised it: the answer to the member comes first.
const BEHIND: Duration = Duration::from_secs(1);
/// How long this process takes an answer for fresh before it looks whether that still stands: a member may have been forgotten.
const SURE_FOR: Duration = Duration::from_secs(600);
/// Odd answers in a row that speak of the app's side, or WeCom's, rather than of one question.
const ODD_ANSWERS: u32 = 3;
/// How long an app asks nothing after WeCom said that it asks too much, or gave no answer; and one question likewise.
const BUSY_FOR: Duration = Duration::from_secs(60);
/// … that it may not ask, or asks wrongly.
const FORBIDDEN_FOR: Duration = Duration::from_secs(3600);
/// Questions that may wait.
const WAITING: usize = 1000;
/// Subjects, and names of chats, that one process remembers.
const REMEMBERED: usize = 10_000;

/// Whom or what to ask about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Contact(String),
    Group(String),
}

/// A question: of which app, about whom.
type Question = (String, Subject);

/// Where messages leave whom they came from, and where names of chats are found.
pub struct Directory {
    store: SharedStore,
    in_force: Arc<InForce>,
    asker: Asker,
    questions: mpsc::Sender<(Instant, Question)>,
    waiting: tokio::sync::Mutex<mpsc::Receiver<(Instant, Question)>>,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// Not to be asked again before then.
    asked: HashMap<Question, Instant>,
    chat_names: HashMap<Lane, String>,
}

impl Directory {
    /// Asks by `wecom`.
    pub fn new(store: SharedStore, in_force: Arc<InForce>, wecom: Arc<ExternalContact>) -> Self {
        let (questions, waiting) = mpsc::channel(WAITING);
        let (waiting, memory) = (tokio::sync::Mutex::new(waiting), Mutex::default());
        Self { store, in_force, asker: Asker::new(wecom), questions, waiting, memory }
    }

    /// Hears of a message's sender and chat; asks about them some time, where that is due.
    pub fn hear(&self, app: &App, message: &Message) {
        if !may_ask(app) {
            return;
        }
        if message.sender_kind == SenderKind::External {
            self.wonder((app.id.clone(), Subject::Contact(message.sender_key.clone())));
        }
        let has_name = app.chats.get(&message.chat_id).is_some_and(|chat| chat.name.is_some());
        if message.chat_kind == ChatKind::Group && !has_name && !message.chat_id.is_empty() {
            self.wonder((app.id.clone(), Subject::Group(message.chat_id.clone())));
        }
    }

    /// What WeCom calls a chat, as far as this process knows.
    pub fn chat_name(&self, app: &str, chat: &str) -> Option<String> {
        self.memory().chat_names.get(&Lane::of_chat(app, chat)).cloned()
    }

    /// Asks until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let mut waiting = self.waiting.lock().await;
        let mut moods: HashMap<String, Mood> = HashMap::new();
        while let Some(Some((raised, question))) = stop.run_until_cancelled(waiting.recv()).await {
            let (app, _) = &question;
            if stop.run_until_cancelled(tokio::time::sleep_until((raised + BEHIND).into())).await.is_none() {
                return;
            }
            let mood = moods.entry(app.clone()).or_default();
            if mood.held_until.is_some_and(|until| Instant::now() < until) {
                self.ask_again(&question, BUSY_FOR);
                continue;
            }
            match stop.run_until_cancelled(self.ask_once(&question)).await {
                None => return,
                Some(Ok(Asked::Elsewhere)) => {}
                Some(Ok(Asked::Here) | Err(Refusal::Unknown)) => *mood = Mood::default(),
                Some(Err(refusal)) => {
                    let pause = mood.worsen(app, &refusal);
                    self.ask_again(&question, pause);
                }
            }
        }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wonder(&self, question: Question) {
        let now = Instant::now();
        let mut memory = self.memory();
        if memory.asked.get(&question).is_some_and(|not_before| now < *not_before) {
            return;
        }
        if memory.asked.len() >= REMEMBERED {
            memory.asked.clear();
        }
        if self.questions.try_send((now, question.clone())).is_ok() {
            memory.asked.insert(question, now + SURE_FOR);
        }
    }

    /// The next message after `pause` asks again.
    fn ask_again(&self, question: &Question, pause: Duration) {
        self.memory().asked.insert(question.clone(), Instant::now() + pause);
    }

    /// The note of a question stands while its answer is fresh, and says what a group is called; its lock is of who asks.
    async fn ask_once(&self, question: &Question) -> Result<Asked, Refusal> {
        let (app, subject) = question;
        let Some(api) = self.in_force.settings().apps.get(app).and_then(|app| app.api.clone()) else {
            return Ok(Asked::Elsewhere);
        };
        let note = match subject {
            Subject::Contact(sender) => Note::contact(app, sender),
            Subject::Group(chat) => Note::group(app, chat),
        };
        if let Some(noted) = self.store.read_notes(vec![note.clone()]).await?.pop().flatten() {
            self.call_chat(app, subject, noted.value.expose());
            return Ok(Asked::Elsewhere);
        }
        let owner = format!("{:016x}", rand::random::<u64>());
        if !self.store.lock_note(&note, &owner, BUSY_FOR).await? {
            self.ask_again(question, BUSY_FOR);
            return Ok(Asked::Elsewhere);
        }
        let name = match self.ask(app, &api, subject).await {
            Ok(name) => name,
            Err(Refusal::Unknown) => String::new(),
            Err(refusal) => {
                self.store.unlock_note(&note, &owner).await?;
                return Err(refusal);
            }
        };
        let write = NoteWrite { note, value: Secret::new(name.as_str()), ttl: FRESH, owner: Some(owner) };
        self.store.write_note(write).await?;
        self.call_chat(app, subject, &name);
        Ok(Asked::Here)
    }

    /// Keeps what WeCom tells; answers what it calls a group.
    async fn ask(&self, app: &str, api: &Arc<Api>, subject: &Subject) -> Result<String, Refusal> {
        let (people, name) = match subject {
            Subject::Contact(sender) => (self.asker.contact(api, sender).await.map(|person| vec![person]), None),
            Subject::Group(chat) => match self.asker.group(api, chat).await {
                Ok(Group { name, members }) => (Ok(members), name),
                Err(refusal) => (Err(refusal), None),
            },
        };
        tokio::time::sleep(PAUSE).await;
        for person in people? {
            self.keep(app, person).await?;
        }
        Ok(name.as_deref().and_then(field_value).unwrap_or_default())
    }

    fn call_chat(&self, app: &str, subject: &Subject, name: &str) {
        let Subject::Group(chat) = subject else { return };
        if name.is_empty() {
            return;
        }
        let mut memory = self.memory();
        if memory.chat_names.len() >= REMEMBERED {
            memory.chat_names.clear();
        }
        memory.chat_names.insert(Lane::of_chat(app, chat), name.to_owned());
    }

    async fn keep(&self, app: &str, person: Person) -> store::Result<()> {
        let fields = [(NAME, person.name), (REMARK, person.remark), (PHONE, person.phone)];
        let fill = |(field, value): (&str, Option<String>)| {
            Some((field.to_owned(), FieldChange::Fill(field_value(value.as_deref()?)?)))
        };
        let contact: Vec<_> = fields.into_iter().filter_map(fill).collect();
        if contact.is_empty() {
            return Ok(());
        }
        info!(app, sender_key = person.id, fields = contact.len(), "WeCom told who a contact is");
        let change =
            ProfileChange { member: MemberKey::new(app, &person.id), user: None, contact, upon: None, change: None };
        self.store.members().change_profile(change).await.map(drop)
    }
}

/// Who asked a question.
enum Asked {
    /// This process, just now, and it was answered.
    Here,
    /// Another one, or this one before.
    Elsewhere,
}

/// How WeCom answers an app.
#[derive(Default)]
struct Mood {
    /// It asks nothing before then.
    held_until: Option<Instant>,
    /// Odd answers in a row.
    odd: u32,
    /// Whether it was said that it is held up: once until it is answered again.
    told: bool,
}

impl Mood {
    /// After a refusal: how long the question waits, and with it the app where it is about more than the question.
    fn worsen(&mut self, app: &str, refusal: &Refusal) -> Duration {
        let (why, pause, mend) = match refusal {
            Refusal::Unknown => return FRESH,
            Refusal::Odd(why) => {
                self.odd += 1;
                if self.odd < ODD_ANSWERS {
                    debug!(app, why, "WeCom gave no answer that can be read; this question waits");
                    return BUSY_FOR;
                }
                (why, BUSY_FOR, "see that the API is what answers at [wecom] api_base")
            }
            Refusal::Busy(why) => (why, BUSY_FOR, "it is asked again in a minute"),
            Refusal::Forbidden(why) => {
                (why, FORBIDDEN_FOR, "list this app under 客户联系 → 可调用应用, or set ask_contacts = false")
            }
            Refusal::BadToken(why) => (why, FORBIDDEN_FOR, "its access token is refused: check corp_id and secret"),
        };
        if !std::mem::replace(&mut self.told, true) {
            warn!(app, why, mend, "WeCom does not tell this app who contacts are; messages go on without");
        }
        self.held_until = Some(Instant::now() + pause);
        pause
    }
}

fn may_ask(app: &App) -> bool {
    app.api.as_ref().is_some_and(|api| api.ask_contacts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_answer_is_about_its_question_several_are_about_the_app() {
        let mut mood = Mood::default();
        let odd = Refusal::Odd("HTTP 500 without JSON".into());
        for n in 1..ODD_ANSWERS {
            assert_eq!(mood.worsen("app", &odd), BUSY_FOR);
            assert!(mood.held_until.is_none() && !mood.told, "{n}");
        }
        mood.worsen("app", &odd);
        assert!(mood.held_until.is_some() && mood.told);
        for (refusal, pause) in [
            (Refusal::Busy("errcode -1".into()), BUSY_FOR),
            (Refusal::Forbidden("errcode 48002".into()), FORBIDDEN_FOR),
            (Refusal::BadToken("errcode 40014".into()), FORBIDDEN_FOR),
        ] {
            let mut mood = Mood::default();
            assert_eq!((mood.worsen("app", &refusal), mood.told, mood.held_until.is_some()), (pause, true, true));
        }
    }
}
