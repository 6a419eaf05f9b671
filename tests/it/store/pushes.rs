//! Contract: the barrier of pushes: a task is opened, its deliveries are queued each once, and what becomes of them is kept
//! beside them. How lanes of pushes share with those of replies is in `share`.

use wecom_gateway::model::{Outcome, first_id, resend_id};
use wecom_gateway::task::{PushOf, PushState, Recipient};

use super::bounds::holding;
use super::operators::{operate, operation};
use super::*;

/// A state by its word alone.
pub fn state(word: Outcome) -> PushState {
    PushState::plain(word)
}

fn state_because(word: Outcome, reason: &str) -> PushState {
    PushState { reason: Some(reason.into()), ..state(word) }
}

/// The `n`-th delivery of a task, to a chat.
pub fn new_push(task: &str, chat: &str, n: usize) -> NewPush {
    let request_id = format!("t-{task}");
    let key = MessageKey::of_push(APP, chat, task);
    let push = Some(Box::new(PushOf { task_id: task.into(), to: Recipient::Chat }));
    let lines = vec![line(Stage::Pushed, &request_id, &key)];
    let delivery = Delivery { key, push, ..reply(&request_id, chat, n, "a push") };
    NewPush {
        task_id: task.into(),
        delivery_id: delivery.id.clone(),
        lane: lane(chat),
        fate: Ok(delivery),
        keep: LONG,
        turn: LEVEL,
        depth_limit: 100,
        lines,
    }
}

/// Queues one.
pub async fn queue_push(store: &SharedStore, push: NewPush) -> Pushed {
    store.pushes().queue_pushes(vec![push]).await.expect("queue")[0]
}

/// Queues pushes of a task of its own to a chat, which must be taken.
pub async fn queue_pushes_to(store: &SharedStore, turn: Turn, chat: &str, count: usize) {
    let batch = (0..count).map(|n| NewPush { turn, ..new_push(&format!("to-{chat}"), chat, n) }).collect();
    let answers = store.pushes().queue_pushes(batch).await.expect("queue");
    assert!(answers.iter().all(|answer| *answer == Pushed::Queued), "{answers:?}");
}

/// A task of `total` deliveries, at the door.
pub fn opening(task: &str, total: u64) -> TaskOpening {
    TaskOpening { task_id: task.into(), app: APP.into(), digest: "d1".into(), total, keep: LONG }
}

/// Opens one.
pub async fn open_task(store: &SharedStore, task: TaskOpening) -> Opened {
    store.pushes().open_tasks(vec![task]).await.expect("open")[0]
}

async fn advance(store: &SharedStore, task: &str, cursor: u64, done: bool) {
    let progress = TaskProgress { task_id: task.into(), cursor, done };
    store.pushes().advance_tasks(vec![progress]).await.expect("advance");
}

async fn children(store: &SharedStore, task: &str) -> Vec<Child> {
    store.pushes().task(task).await.expect("read").expect("a task").children
}

/// The state of the one delivery that is known of a task.
pub async fn child(store: &SharedStore, task: &str) -> PushState {
    let [child] = &children(store, task).await[..] else { panic!("one delivery") };
    child.state.clone()
}

/// What changes of a push's child.
pub fn change(delivery: &Delivery, state: PushState) -> Option<ChildChange> {
    assert!(delivery.push.is_some());
    ChildChange::of(delivery, state)
}

pub async fn a_task_is_opened_once_and_goes_on_where_it_stopped(fixture: &impl Fixture) {
    let (store, other) = (fixture.store(), fixture.reopen().await);
    let another = TaskOpening { digest: "d2".into(), ..opening("t", 3) };
    assert_eq!(open_task(&store, opening("t", 3)).await, Opened::Open(0));
    assert_eq!(open_task(&other, opening("t", 3)).await, Opened::Open(0));
    assert_eq!(open_task(&other, another.clone()).await, Opened::Conflict);
    advance(&store, "t", 2, false).await;
    // A slower process, which took it up earlier.
    advance(&other, "t", 1, false).await;
    assert_eq!(open_task(&store, opening("t", 3)).await, Opened::Open(2));
    advance(&store, "t", 3, true).await;
    advance(&other, "t", 2, false).await;
    assert_eq!(open_task(&other, opening("t", 3)).await, Opened::Done);
    assert_eq!(open_task(&store, another).await, Opened::Conflict);
    let status = store.pushes().task("t").await.expect("read").expect("a task");
    let expected = TaskStatus { app: APP.into(), total: 3, cursor: 3, done: true, children: vec![] };
    assert_eq!(status, expected);
    // Of what is not known nothing is noted.
    advance(&store, "none", 1, true).await;
    assert_eq!(store.pushes().task("none").await.expect("read"), None);
}

pub async fn tasks_of_a_batch_are_answered_in_its_order(fixture: &impl Fixture) {
    let store = fixture.store();
    let tricky = ["a:b", "a%3Ab", "{a}", "群 1\t"];
    for (n, task) in tricky.iter().enumerate() {
        open_task(&store, opening(task, 9)).await;
        advance(&store, task, n as u64, false).await;
    }
    let batch = tricky.iter().rev().map(|task| opening(task, 9)).collect();
    let answers = store.pushes().open_tasks(batch).await.expect("open");
    assert_eq!(answers, [3, 2, 1, 0].map(Opened::Open));
    for task in tricky {
        assert_eq!(queue_push(&store, new_push(task, "chat", 0)).await, Pushed::Queued);
        assert_eq!(child(&store, task).await, state(Outcome::Queued));
    }
}

pub async fn a_task_and_its_deliveries_are_known_for_so_long(fixture: &impl Fixture) {
    let store = fixture.store();
    let brief = new_push("t", "chat", 0);
    let call = NewPush { keep: SHORT, ..brief.clone() };
    assert_eq!(open_task(&store, TaskOpening { keep: SHORT, ..opening("t", 1) }).await, Opened::Open(0));
    advance(&store, "t", 1, true).await;
    assert_eq!(queue_push(&store, call).await, Pushed::Queued);
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(store.pushes().task("t").await.expect("read"), None);
    assert_eq!(open_task(&store, TaskOpening { digest: "d2".into(), ..opening("t", 1) }).await, Opened::Open(0));
    assert_eq!(children(&store, "t").await, []);
    // What is forgotten stays so, whatever becomes of the delivery.
    let head = take_reply(&store).await;
    let child = change(&head.delivery, state(Outcome::Delivered));
    settle(&store, Settle { child, ..settle_of(&head, Fate::Delivered) }).await;
    assert_eq!(children(&store, "t").await, []);
    assert_eq!(queue_push(&store, brief).await, Pushed::Queued);
}

pub async fn a_task_tells_its_deliveries_in_the_order_of_their_numbers(fixture: &impl Fixture) {
    let store = fixture.store();
    open_task(&store, opening("t", 12)).await;
    let batch: Vec<_> = (0..12).rev().map(|n| new_push("t", &format!("chat{n}"), n)).collect();
    store.pushes().queue_pushes(batch).await.expect("queue");
    queue_push(&store, new_push("other", "chat0", 12)).await;
    let known = children(&store, "t").await;
    for (n, child) in known.iter().enumerate() {
        assert_eq!(child.delivery_id, format!("t-t.{n}"));
        assert_eq!((&child.lane, &child.state), (&lane(&format!("chat{n}")), &state(Outcome::Queued)));
        assert!((now_ms() - child.at).abs() < 60_000, "{child:?}");
    }
    assert_eq!(known.len(), 12);
}

pub async fn a_push_is_queued_once(fixture: &impl Fixture) {
    let store = fixture.store();
    open_task(&store, opening("t", 1)).await;
    let push = new_push("t", "chat", 0);
    assert_eq!(queue_push(&store, push.clone()).await, Pushed::Queued);
    assert_eq!(queue_push(&fixture.reopen().await, push.clone()).await, Pushed::Known);
    assert_eq!(store.depth().await.expect("depth").waiting, 1);
    let sent = send(&store, Fate::Delivered).await;
    assert_eq!(Ok(sent.delivery), push.fate);
    // Known also once it is gone, and whatever it says.
    assert_eq!(queue_push(&store, push.clone()).await, Pushed::Known);
    let ended = NewPush { fate: Err(state(Outcome::Dropped)), ..push };
    assert_eq!(queue_push(&store, ended).await, Pushed::Known);
    assert_eq!(child(&store, "t").await, state(Outcome::Queued));
    assert_eq!(stages(&store, "t-t").await, [Stage::Pushed, Stage::Settled]);
}

pub async fn an_end_before_the_beginning_is_noted(fixture: &impl Fixture) {
    let store = holding(fixture, 1).await;
    let chat = &chats_of_one_shard(fixture, 1)[0];
    open_task(&store, opening("t", 2)).await;
    queue_push(&store, new_push("other", chat, 0)).await;
    let expired = state_because(Outcome::Dropped, "expired");
    // It takes no room.
    let ended = NewPush { fate: Err(expired.clone()), depth_limit: 0, ..new_push("t", chat, 1) };
    assert_eq!(queue_push(&store, ended.clone()).await, Pushed::Queued);
    assert_eq!(queue_push(&store, ended).await, Pushed::Known);
    assert_eq!(child(&store, "t").await, expired);
    assert_eq!((stages(&store, "t-t").await.len(), store.depth().await.expect("depth").waiting), (1, 1));
}

pub async fn a_full_lane_takes_no_push(fixture: &impl Fixture) {
    let store = fixture.store();
    open_task(&store, opening("t", 3)).await;
    let batch = || (0..3).map(|n| NewPush { depth_limit: 2, ..new_push("t", "chat", n) }).collect();
    let queue = async || store.pushes().queue_pushes(batch()).await.expect("queue");
    assert_eq!(queue().await, [Pushed::Queued, Pushed::Queued, Pushed::LaneFull]);
    assert_eq!(queue().await, [Pushed::Known, Pushed::Known, Pushed::LaneFull]);
    assert_eq!((children(&store, "t").await.len(), stages(&store, "t-t").await.len()), (2, 2));
    send(&store, Fate::Delivered).await;
    assert_eq!(queue().await, [Pushed::Known, Pushed::Known, Pushed::Queued]);
    for n in ["t-t.1", "t-t.2"] {
        assert_eq!(send(&store, Fate::Delivered).await.delivery.id, n);
    }
}

pub async fn a_full_store_takes_no_push(fixture: &impl Fixture) {
    let store = holding(fixture, 2).await;
    let chats = chats_of_one_shard(fixture, 3);
    open_task(&store, opening("t", 3)).await;
    let batch = || chats.iter().enumerate().map(|(n, chat)| new_push("t", chat, n)).collect();
    let queue = async || store.pushes().queue_pushes(batch()).await.expect("queue");
    assert_eq!(queue().await, [Pushed::Queued, Pushed::Queued, Pushed::StoreFull]);
    assert_eq!(queue().await, [Pushed::Known, Pushed::Known, Pushed::StoreFull]);
    assert_eq!((children(&store, "t").await.len(), stages(&store, "t-t").await.len()), (2, 2));
    // It is as full for messages, and a full lane says so first.
    assert_eq!(enqueue_one(&store, arrival(&chats[2], "u", "m", "r")).await, Enqueued::StoreFull);
    let crowded = NewPush { depth_limit: 1, ..new_push("t", &chats[0], 7) };
    assert_eq!(queue_push(&store, crowded).await, Pushed::LaneFull);
    send(&store, Fate::Delivered).await;
    assert_eq!(queue().await, [Pushed::Known, Pushed::Known, Pushed::Queued]);
}

/// What would move a push to another chat is refused whole.
pub async fn a_push_is_of_its_own_chat_alone(fixture: &impl Fixture) {
    let store = fixture.store();
    open_task(&store, opening("t", 2)).await;
    let stray = NewPush { lane: lane("other"), ..new_push("t", "chat", 1) };
    let refused = store.pushes().queue_pushes(vec![new_push("t", "chat", 0), stray]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!((children(&store, "t").await.len(), store.depth().await.expect("depth").waiting), (0, 0));
}

/// As if a rebalance had two consumers read the same tasks.
pub async fn two_processes_at_one_task_queue_each_delivery_once(fixture: &impl Fixture) {
    const CHATS: usize = 30;
    let handles = [fixture.store(), fixture.reopen().await];
    let fan_out = async |store: &SharedStore, reversed: bool| {
        assert_eq!(open_task(store, opening("t", CHATS as u64)).await, Opened::Open(0));
        let mut batch: Vec<_> = (0..CHATS).map(|n| new_push("t", &format!("chat{}", n % 20), n)).collect();
        if reversed {
            batch.reverse();
        }
        let calls = batch.into_iter().map(|push| queue_push(store, push));
        let answers = futures_util::future::join_all(calls).await;
        answers.into_iter().filter(|answer| *answer == Pushed::Queued).count()
    };
    let (one, two) = patiently(async { tokio::join!(fan_out(&handles[0], false), fan_out(&handles[1], true)) }).await;
    assert_eq!(one + two, CHATS);
    assert_eq!(children(&handles[0], "t").await.len(), CHATS);
    let status = handles[0].chats((0..20).map(|n| lane(&format!("chat{n}"))).collect()).await.expect("chats");
    assert_eq!(status.iter().map(|chat| chat.depth).sum::<u64>(), CHATS as u64);
    assert_eq!(stages(&handles[0], "t-t").await.len(), CHATS);
}

pub async fn a_settle_changes_its_push(fixture: &impl Fixture) {
    let store = fixture.store();
    open_task(&store, opening("t", 1)).await;
    queue_push(&store, new_push("t", "chat", 0)).await;
    let refused = PushState { errcode: Some(45009), ..state_because(Outcome::Queued, "paced") };
    let unanswered = state_because(Outcome::Queued, "no_answer");
    let unknown = PushState { errcode: None, ..state_because(Outcome::Unknown, "no_answer") };
    for (fate, said) in [
        (again(ParkReason::Paced), refused),
        (again(ParkReason::Unanswered), unanswered),
        (Fate::Ended { back_off: Some(Duration::ZERO), chat_dead: None }, unknown.clone()),
    ] {
        let head = await_reply(&store).await;
        begin(&store, begin_of(&head)).await;
        let call = Settle { child: change(&head.delivery, said.clone()), ..settle_of(&head, fate) };
        assert!(matches!(settle(&store, call.clone()).await, Settled::Released));
        let settled = children(&store, "t").await;
        assert_eq!(
            (&settled[0].state, settled[0].delivery_id.as_str(), &settled[0].lane),
            (&said, "t-t.0", &lane("chat"))
        );
        // Its answer was lost; what is said now would be wrong.
        let late = Settle { child: change(&head.delivery, state(Outcome::Dead)), ..call };
        assert!(matches!(settle(&store, late).await, Settled::Lost));
        assert_eq!(children(&store, "t").await, settled);
    }
    assert_eq!(child(&store, "t").await, unknown);
}

/// A settle that goes on is repeated as it is, and changes nothing any more.
pub async fn a_repeated_settle_leaves_the_push_alone(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_pushes_to(&store, LEVEL, "chat", 2).await;
    open_task(&store, opening("to-chat", 2)).await;
    let head = take_reply(&store).await;
    begin(&store, begin_of(&head)).await;
    let delivered = PushState { errcode: Some(0), ..state(Outcome::Delivered) };
    let call = Settle { child: change(&head.delivery, delivered), ..settle_and_go_on(&head, Fate::Delivered) };
    assert!(matches!(settle(&store, call.clone()).await, Settled::Next(_, Some(Begun::Go))));
    let settled = children(&store, "to-chat").await;
    assert_eq!(
        settled.iter().map(|child| child.state.state).collect::<Vec<_>>(),
        [Outcome::Delivered, Outcome::Queued]
    );
    let other = Settle { child: change(&head.delivery, state(Outcome::Dead)), ..call };
    assert!(matches!(settle(&store, other).await, Settled::Next(_, Some(Begun::Go))));
    assert_eq!(children(&store, "to-chat").await, settled);
}

pub async fn an_operation_changes_its_push(fixture: &impl Fixture) {
    let store = fixture.store();
    open_task(&store, opening("t", 1)).await;
    queue_push(&store, new_push("t", "chat", 0)).await;
    let sent = send(&store, ENDED).await.delivery;
    let resend = Delivery { id: resend_id(&sent.id), ..sent.clone() };
    assert_eq!(first_id(&resend.id), sent.id);
    let again = Operation {
        child: change(&resend, state_because(Outcome::Queued, "resent")),
        resend: Some(resend),
        ..operation("chat", &sent.id, "a")
    };
    let full = Operation { depth_limit: 0, ..again.clone() };
    assert_eq!(operate(&store, full).await, Operated::LaneFull);
    assert_eq!(child(&store, "t").await, state(Outcome::Queued));
    assert_eq!(operate(&store, again).await, Operated::Done);
    assert_eq!(child(&store, "t").await, state_because(Outcome::Queued, "resent"));
    let earlier = Operation { child: change(&sent, state(Outcome::Dead)), ..operation("chat", &sent.id, "b") };
    assert_eq!(operate(&store, earlier).await, Operated::Earlier);
    assert_eq!(child(&store, "t").await, state_because(Outcome::Queued, "resent"));
    // It is the same delivery to its task.
    let head = take_reply(&store).await;
    let delivered = change(&head.delivery, state(Outcome::Delivered));
    settle(&store, Settle { child: delivered, ..settle_of(&head, Fate::Delivered) }).await;
    assert_eq!(child(&store, "t").await, state(Outcome::Delivered));
    let by_hand =
        Operation { child: change(&sent, state(Outcome::Dropped)), ..operation("chat", &head.delivery.id, "c") };
    assert_eq!(operate(&store, by_hand).await, Operated::Done);
    assert_eq!(child(&store, "t").await, state(Outcome::Dropped));
}

pub async fn a_push_that_left_its_lane_is_revised_by_whoever_knows_it(fixture: &impl Fixture) {
    let (store, other) = (fixture.store(), fixture.reopen().await);
    open_task(&store, opening("t", 1)).await;
    queue_push(&store, new_push("t", "chat", 0)).await;
    let sent = send(&store, Fate::Delivered).await.delivery;
    let revision = |seen, word| Revision {
        lane: lane("chat"),
        seen,
        change: change(&sent, state(word)).expect("of a push"),
        lines: vec![line(Stage::Settled, "t-t", &sent.key)],
    };
    let revise = async |store: &SharedStore, revision| store.pushes().revise(revision).await.expect("revise");
    let seen = children(&store, "t").await[0].at;
    let lines = async || stages(&store, "t-t").await.len();
    let before = lines().await;
    assert!(!revise(&other, revision(seen - 1, Outcome::Dead)).await, "of one that changed since");
    assert_eq!((child(&store, "t").await, lines().await), (state(Outcome::Queued), before));
    assert!(revise(&other, revision(seen, Outcome::Delivered)).await);
    assert_eq!((child(&store, "t").await, lines().await), (state(Outcome::Delivered), before + 1));
    let [now] = &children(&store, "t").await[..] else { panic!("one delivery") };
    assert_eq!((now.lane.clone(), now.at >= seen), (lane("chat"), true));
    // Of one that nobody knows any more the trail alone says how it ended.
    let gone = Revision {
        change: ChildChange { task_id: "gone".into(), ..revision(0, Outcome::Dead).change },
        ..revision(0, Outcome::Dead)
    };
    assert!(revise(&store, gone).await);
    assert_eq!((store.pushes().task("gone").await.expect("read"), lines().await), (None, before + 2));
}

/// Neither with replies nor with each other.
pub async fn pushes_are_never_merged(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    queue_pushes_to(&store, LEVEL, "chat", 2).await;
    queue(&store, LEVEL, vec![reply("r9", "chat", 0, "3")]).await;
    send(&store, again(ParkReason::Paced)).await;
    let head = await_reply(&store).await;
    assert_eq!(head.behind.len(), 1, "the other reply before the pushes");
    begin(&store, Begin { merged: 2, ..begin_of(&head) }).await;
    settle(&store, Settle { merged: 2, ..settle_of(&head, Fate::Delivered) }).await;
    for _ in 0..2 {
        send(&store, again(ParkReason::Paced)).await;
        let head = await_reply(&store).await;
        assert!(head.delivery.push.is_some() && head.behind.is_empty(), "{head:?}");
        settle(&store, settle_of(&head, ENDED)).await;
    }
    assert_eq!(text_of(&send(&store, Fate::Delivered).await), "3");
}
