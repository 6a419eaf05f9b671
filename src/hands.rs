//! The end of a delivery by hand: an operator's, that of whoever knows from outside whether it arrived, or the compensator's.
//!
//! What is decided stands in the store, in the chat's own slot and in one step, so that it holds for every process and through
//! any crash; the records follow by the journal, and so does the state of a push's child. A delivery is ended by hand once: whoever
//! comes second is told so.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::model::{Delivery, Lane, MessageKey, Outcome, first_id, millis, new_id, now_ms, resend_id};
use crate::push::is_set;
use crate::records::{EndedDelivery, Records, RecordsError};
use crate::setup::InForce;
use crate::store::{ByHand, ChangeKind, ChildChange, Line, Operated, Operation, SharedStore, Stage, StoreError, Who};
use crate::task::PushState;

/// Whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand<'a> {
    /// An operator's, by the name of their token: it stands in the trail of changes, too.
    Operator(&'a str),
    /// A producer's word on its own push, by the name of its token.
    Producer(&'a str),
    /// The compensator's.
    Compensator,
}

impl<'a> Hand<'a> {
    /// Who did it, in trails.
    pub fn by(self) -> &'a str {
        match self {
            Self::Operator(token) | Self::Producer(token) => token,
            Self::Compensator => "compensator",
        }
    }

    /// What the trail of changes says of it, where it does.
    fn change(self, id: &str, of: &MessageKey, detail: Value) -> Option<Line> {
        match self {
            Self::Operator(token) => {
                Some(Line::change(id, ChangeKind::Delivery, Who::operator(token), of.clone(), detail))
            }
            Self::Producer(_) | Self::Compensator => None,
        }
    }
}

/// Why nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum HandError {
    /// The records have none of this id.
    #[error("the records know no delivery of this id")]
    UnknownDelivery,
    /// Somebody came first.
    #[error("somebody settled this delivery before; its trail says who")]
    SettledAlready,
    /// It is under way, or ended well.
    #[error("this delivery is {0}: only unknown, dead and dropped ones are settled")]
    NotOpen(String),
    /// There is nothing to send again.
    #[error("its content is not kept ({0}), so it can't be sent again; settle it as delivered or discard")]
    NotKept(String),
    /// Its app has gone.
    #[error("its app is no longer configured, so it can't be sent again")]
    UnknownApp,
    /// A push is not sent once it is no longer known.
    #[error("its task says that it is too late (expires_at); hand over a new task")]
    Expired,
    /// Its chat has no room.
    #[error("too many replies wait for this chat (store.lane_depth); nothing was done, try it again")]
    LaneFull,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The records.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// A delivery that ended, as far as its end by hand must know it.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its id.
    pub id: String,
    /// Its request.
    pub request_id: String,
    /// What it answered, or which push it was.
    pub key: MessageKey,
    /// See [`Delivery::is_repeat`].
    pub is_repeat: bool,
    /// What a push's child says of it, where that is to stay: what WeCom calls it, and who got it.
    pub known: Option<PushState>,
}

impl Ended {
    fn of(known: EndedDelivery) -> Self {
        let is_repeat = known.content.as_ref().is_some_and(Delivery::is_repeat);
        Self { id: known.item.id, request_id: known.item.request_id, key: known.key, is_repeat, known: None }
    }
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request of the delivery that was ended.
    pub request_id: String,
    /// What it answered, or which push it was.
    pub key: MessageKey,
    /// The state that it, or the one in its place, is in now.
    pub state: Outcome,
    /// What the one in its place is called.
    pub resent_as: Option<String>,
}

/// Ends deliveries by hand.
pub struct Hands {
    store: SharedStore,
    records: Records,
    in_force: Arc<InForce>,
}

impl Hands {
    /// Over this store and its records.
    pub fn new(store: SharedStore, records: Records, in_force: Arc<InForce>) -> Self {
        Self { store, records, in_force }
    }

    /// Ends the delivery that the records have under this id.
    ///
    /// # Errors
    /// Every variant of [`HandError`]; nothing was done then.
    pub async fn end(&self, id: &str, action: ByHand, hand: Hand<'_>) -> Result<Done, HandError> {
        let known = self.records.delivery(id).await?.ok_or(HandError::UnknownDelivery)?;
        self.end_known(known, action, hand, Map::new()).await
    }

    /// As [`Hands::end`], of a delivery as the records have it; `told` is what the trail says beside.
    ///
    /// # Errors
    /// Every variant of [`HandError`] but `UnknownDelivery`; nothing was done then.
    pub async fn end_known(
        &self,
        known: EndedDelivery,
        action: ByHand,
        hand: Hand<'_>,
        told: Map<String, Value>,
    ) -> Result<Done, HandError> {
        may_be_ended(&known)?;
        let resend = match action {
            ByHand::Resend => Some(Delivery { repeat_until: None, ..self.again(&known)? }),
            ByHand::Repeat => Some(self.again(&known)?),
            ByHand::Delivered | ByHand::Discard | ByHand::Expire => None,
        };
        let ended = Ended::of(known);
        let known = if resend.is_none() { self.known(&ended).await? } else { None };
        self.operate(Ended { known, ..ended }, resend, action, hand, told).await
    }

    /// Whether [`ByHand::Resend`] would be taken now, but for a chat that is full.
    pub fn may_send_again(&self, known: &EndedDelivery) -> bool {
        may_be_ended(known).is_ok() && self.again(known).is_ok()
    }

    /// What a task says of its delivery to a set; of chats it says no more than the records do.
    async fn known(&self, Ended { id, key, .. }: &Ended) -> Result<Option<PushState>, StoreError> {
        let [_, chat, ..] = key.parts();
        let Some(task_id) = key.task_id().filter(|_| is_set(&chat)) else { return Ok(None) };
        let children = self.store.pushes().task(&task_id).await?.into_iter().flat_map(|task| task.children);
        Ok(children.into_iter().find(|child| child.delivery_id == first_id(id)).map(|child| child.state))
    }

    /// Ends a delivery that certainly ended, whatever the records have of it by now; nothing is sent in its place.
    ///
    /// # Errors
    /// [`HandError::SettledAlready`], [`HandError::Store`].
    pub async fn conclude(&self, ended: Ended, action: ByHand, hand: Hand<'_>) -> Result<Done, HandError> {
        self.operate(ended, None, action, hand, Map::new()).await
    }

    async fn operate(
        &self,
        ended: Ended,
        resend: Option<Delivery>,
        action: ByHand,
        hand: Hand<'_>,
        told: Map<String, Value>,
    ) -> Result<Done, HandError> {
        let resent_as = resend.as_ref().map(|delivery| delivery.id.clone());
        let (request_id, key) = (ended.request_id.clone(), ended.key.clone());
        match self.store.operate(self.operation(ended, resend, action, hand, told)).await? {
            Operated::Done => Ok(Done { request_id, key, state: action.state(), resent_as }),
            Operated::Earlier => Err(HandError::SettledAlready),
            Operated::LaneFull => Err(HandError::LaneFull),
        }
    }

    fn operation(
        &self,
        ended: Ended,
        resend: Option<Delivery>,
        action: ByHand,
        hand: Hand<'_>,
        mut told: Map<String, Value>,
    ) -> Operation {
        let child = child(&ended, resend.as_ref(), action);
        let Ended { id, request_id, key, .. } = ended;
        let [app, chat, ..] = key.parts();
        let resent_as = resend.as_ref().map(|delivery| delivery.id.as_str());
        let detail = json!({"delivery": id, "action": action.as_str(), "resent_as": resent_as});
        told.extend(detail.as_object().cloned().unwrap_or_default());
        told.insert("by".to_owned(), hand.by().into());
        let operation = new_id();
        let change = hand.change(&operation, &key, detail);
        let ended = Line { stage: Stage::Operated, request_id, key, detail: told };
        let setup = self.in_force.now();
        Operation {
            id: operation,
            lane: Lane::of_chat(&app, &chat),
            keep: setup.settings.database.retain,
            child,
            delivery_id: id,
            turn: setup.turn(&app, &chat),
            depth_limit: setup.settings.store.lane_depth,
            lines: std::iter::once(ended).chain(change).collect(),
            resend,
        }
    }

    /// The delivery once more, to be sent as any other: by the guard, and not for longer than its app's replies may wait, or than
    /// its task says.
    fn again(&self, ended: &EndedDelivery) -> Result<Delivery, HandError> {
        let content = ended.content.clone().ok_or_else(|| {
            HandError::NotKept(ended.not_kept.clone().unwrap_or_else(|| "it never became a delivery".to_owned()))
        })?;
        let settings = self.in_force.settings();
        let app = settings.apps.get(&ended.item.app).ok_or(HandError::UnknownApp)?;
        let now = now_ms();
        let age = millis(app.max_reply_age);
        let expires_at = match &content.push {
            Some(_) if now > content.expires_at => return Err(HandError::Expired),
            Some(_) => content.expires_at,
            None => now.saturating_add(age),
        };
        let id = resend_id(&content.id);
        Ok(Delivery { id, received_at: now, expires_at, ..content })
    }
}

/// Whether a delivery is one of those that wait for a person.
fn may_be_ended(known: &EndedDelivery) -> Result<(), HandError> {
    if known.operated {
        return Err(HandError::SettledAlready);
    }
    match Outcome::parse(&known.item.state) {
        Some(Outcome::Unknown | Outcome::Dead | Outcome::Dropped) => Ok(()),
        _ => Err(HandError::NotOpen(known.item.state.clone())),
    }
}

/// What changes of a push's child.
fn child(ended: &Ended, resend: Option<&Delivery>, action: ByHand) -> Option<ChildChange> {
    let Ended { id, key, is_repeat, known, .. } = ended;
    let known = known.clone().unwrap_or_else(|| PushState::plain(action.state()));
    let again = (first_id(id) != id).then_some(id);
    let state = PushState {
        reason: action.reason().map(str::to_owned),
        sent_as: resend.map(|delivery| &delivery.id).or(again).cloned(),
        is_repeat: resend.map_or(*is_repeat, Delivery::is_repeat),
        state: action.state(),
        ..known
    };
    Some(ChildChange { task_id: key.task_id()?, delivery_id: first_id(id).to_owned(), state })
}
