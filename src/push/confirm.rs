//! A producer's word on deliveries that are `unknown`: that they arrived, or that they did not.
//!
//! What arrived is `delivered`. What did not is sent again, once: a second "not arrived" must be no second message, because it may
//! be the first one's repeat. Either word said again changes nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::delivery::request_id;
use super::results::NOT_CONFIRMED;
use super::status::current_id;
use crate::hands::{Done, Ended, Hand, HandError, Hands};
use crate::model::{MessageKey, Outcome, first_id};
use crate::store::{ByHand, CONFIRMED, Child, TaskStatus};
use crate::task::PushState;

/// The records follow the store within half a second; this is how long they are waited for.
const BEHIND: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// What was heard from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// Whether it arrived.
    pub arrived: bool,
    /// Of this chat's delivery alone.
    pub chat: Option<String>,
    /// Of this delivery alone, by its first id or the one that it has since it was sent again.
    pub delivery: Option<String>,
}

/// A delivery that was settled by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Its id until now.
    pub delivery: String,
    /// What was done.
    pub done: Done,
}

/// Why nothing was settled.
#[derive(Debug, thiserror::Error)]
pub enum ConfirmError {
    /// The task has no delivery as it is named.
    #[error("the task has no such delivery")]
    NoSuchDelivery,
    /// Nothing waits for a word.
    #[error("nothing of this task is unknown, so there is nothing to confirm")]
    NotUnknown,
    /// It was sent again once.
    #[error(
        "it was sent again before and is unknown once more: look into the chat, then settle it by POST /api/v1/deliveries/{{id}}"
    )]
    SentAgain,
    /// A hand that failed; those before it are settled, and the same call goes on.
    #[error(transparent)]
    Hand(#[from] HandError),
}

/// Settles what is unknown of a task; what was settled so before counts as done. `by` is who said it.
///
/// # Errors
/// Every variant of [`ConfirmError`].
pub async fn confirm(
    hands: &Hands,
    task_id: &str,
    task: &TaskStatus,
    word: &Confirmation,
    by: &str,
) -> Result<Vec<Settled>, ConfirmError> {
    let chosen: Vec<&Child> = task.children.iter().filter(|child| is_meant(child, word)).collect();
    if chosen.is_empty() {
        return Err(ConfirmError::NoSuchDelivery);
    }
    let open: Vec<&Child> = chosen.iter().copied().filter(|child| child.state.state == Outcome::Unknown).collect();
    if open.is_empty() {
        return if chosen.iter().any(|child| was_said(child, word.arrived)) {
            Ok(Vec::new())
        } else {
            Err(ConfirmError::NotUnknown)
        };
    }
    let open: Vec<&Child> = open.into_iter().filter(|child| word.arrived || !child.state.was_missed()).collect();
    if open.is_empty() {
        return Err(ConfirmError::SentAgain);
    }
    let mut settled = Vec::with_capacity(open.len());
    for child in open {
        let done = if word.arrived {
            hands.conclude(ended(task_id, child), ByHand::Delivered, Hand::Producer(by)).await
        } else {
            send_again(hands, task_id, child, by).await
        };
        match done {
            Ok(done) => settled.push(Settled { delivery: current_id(child).to_owned(), done }),
            // Somebody's word came first.
            Err(HandError::SettledAlready) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(settled)
}

fn is_meant(child: &Child, word: &Confirmation) -> bool {
    let (_, chat) = child.lane.app_and_chat();
    let by_chat = word.chat.as_ref().is_none_or(|named| *named == chat);
    by_chat && word.delivery.as_ref().is_none_or(|named| first_id(named) == child.delivery_id)
}

/// Whether this word was said of it before.
fn was_said(child: &Child, arrived: bool) -> bool {
    match arrived {
        true => child.state.reason.as_deref() == Some(CONFIRMED),
        false => child.state.was_missed(),
    }
}

fn ended(task_id: &str, child: &Child) -> Ended {
    let (app, chat) = child.lane.app_and_chat();
    let key = MessageKey::of_push(&app, &chat, task_id);
    let PushState { is_repeat, .. } = child.state;
    let known = Some(child.state.clone());
    Ended { id: current_id(child).to_owned(), request_id: request_id(task_id), key, is_repeat, known }
}

/// Sends it again from what the records kept of it, once they know that it ended.
async fn send_again(hands: &Hands, task_id: &str, child: &Child, by: &str) -> Result<Done, HandError> {
    let patience = Instant::now() + BEHIND;
    loop {
        match hands.end(current_id(child), ByHand::Resend, Hand::Producer(by)).await {
            Err(HandError::UnknownDelivery | HandError::NotOpen(_)) if Instant::now() < patience => {
                sleep(LOOK_AGAIN).await;
            }
            // WeCom may let the member send it still: it stays what it is, with whom it was for.
            Err(HandError::Expired) if child.state.reason.as_deref() == Some(NOT_CONFIRMED) => {
                return Err(HandError::Expired);
            }
            Err(HandError::Expired) => {
                return hands.conclude(ended(task_id, child), ByHand::Expire, Hand::Producer(by)).await;
            }
            other => return other,
        }
    }
}
