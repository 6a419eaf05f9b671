//! What an action is shown of a session: what the store has of it, else what the archive has.
//!
//! The archive is asked only where the store forgot, and what it had goes into the store with the commit: a member who
//! comes back costs one question. It never stands in a message's way: it is asked for a moment only, and while it does
//! not answer it is left alone; the message is handled without its older turns then.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::warn;

use super::Context;
use crate::config::settings::SessionScope;
use crate::model::{Message, Session, SessionKey};
use crate::records::Records;
use crate::setup::AppSetup;
use crate::store::{ClaimedMessage, Outage, Remembered};

/// How long the archive is waited for.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);
/// How long it is left alone after it gave no answer.
const LEFT_ALONE: Duration = Duration::from_secs(5);

/// The archive, asked for a moment only.
pub(super) struct Archive {
    records: Records,
    /// Until when it is left alone.
    silent_until: Mutex<Option<Instant>>,
}

/// A session as an action is shown it.
pub(super) struct Recalled {
    pub key: SessionKey,
    pub session: Session,
    /// See [`Remembered::forgotten`].
    pub forgotten: i64,
}

impl Archive {
    pub(super) fn new(records: Records) -> Self {
        Self { records, silent_until: Mutex::default() }
    }

    /// What it has of a session from after `after`; `None` where it gives no answer.
    async fn of(&self, key: &SessionKey, after: i64, turns: usize) -> Option<Session> {
        if self.silent().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let reason = match timeout(ANSWERS_WITHIN, self.records.archived(key, after, turns)).await {
            Ok(Ok(session)) => return Some(session.unwrap_or_default()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer in time".to_owned(),
        };
        warn!(reason, "sessions are not read back from the database for a while");
        *self.silent() = Some(Instant::now() + LEFT_ALONE);
        None
    }

    fn silent(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.silent_until.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What the action of this message is shown. `archived`: also where only the archive has it.
pub(super) async fn recall(context: &Context, app: &AppSetup, claimed: &ClaimedMessage, archived: bool) -> Recalled {
    let (bounds, message) = (&app.settings.session, &claimed.message);
    let key = bounds.key(&message.app, &message.chat_id, &message.sender_key);
    let Remembered { mut session, found, forgotten } = match bounds.scope {
        SessionScope::Sender => claimed.remembered.clone(),
        SessionScope::Chat => of_chat(context, message, &key).await,
    };
    if !found && archived && bounds.archive {
        session = context.archive.of(&key, forgotten, bounds.turns).await.unwrap_or_default();
    }
    Recalled { key, session, forgotten }
}

/// The claim brings a member's own session along; a chat's is asked for, through store outages: what came of a message
/// could not be committed then anyway.
async fn of_chat(context: &Context, message: &Message, key: &SessionKey) -> Remembered {
    let mut outage = Outage::of_one_call("session");
    loop {
        match context.store.session(key).await {
            Ok(remembered) => return remembered,
            Err(error) if error.is_transient() => outage.wait(&error, &context.metrics, &context.alarms).await,
            Err(error) => {
                tracing::error!(
                    %error, request_id = %message.request_id, app = %message.app, chat_id = %message.chat_id,
                    sender_key = %message.sender_key, msg_id = %message.msg_id, "a session can't be read; it begins anew"
                );
                return Remembered::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Role, Secret, SessionTurn};
    use crate::records::exchange;
    use crate::records::trail::Recorded;
    use crate::store::{Line, Stage};

    async fn records(folder: &tempfile::TempDir, name: &str) -> Records {
        Records::open(&Secret::new(format!("sqlite://{}", folder.path().join(name).display()))).await.expect("opens")
    }

    #[tokio::test]
    async fn an_archive_that_gave_no_answer_is_left_alone_for_a_while() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = SessionKey::of_sender("app", "c", "u");
        let good = records(&folder, "good.db").await;
        let turn = SessionTurn { role: Role::User, text: "那个价格".into(), name: None };
        let detail = exchange(std::slice::from_ref(&turn), None);
        let line = Line { stage: Stage::Exchanged, request_id: "r".into(), key: key.line_key("m"), detail };
        good.write(vec![Recorded::parse(&format!("1\t{line}")).expect("a line")]).await.expect("writes");

        let away = records(&folder, "away.db").await;
        away.close().await;
        let mut archive = Archive::new(away);
        assert_eq!(archive.of(&key, 0, 10).await, None);
        archive.records = good;
        assert_eq!(archive.of(&key, 0, 10).await, None, "it is not even asked");
        *archive.silent() = Some(Instant::now());
        assert_eq!(archive.of(&key, 0, 10).await.map(|session| session.turns), Some(vec![turn]));
        assert_eq!(archive.of(&SessionKey::of_sender("app", "c", "v"), 0, 10).await, Some(Session::default()));
    }
}
