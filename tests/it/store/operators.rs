//! Contract: what operators do by hand: weight, pause, revive, and the end of a delivery.

use wecom_gateway::store::*;

use super::*;

/// Changes nothing yet; the configuration says [`LEVEL`].
pub fn tuning(chat: &str) -> Tuning {
    let change = changed("tuned");
    Tuning {
        lane: lane(chat),
        weight: None,
        paused: None,
        revive: false,
        unhold: false,
        muted: None,
        turn: LEVEL,
        change,
    }
}

/// The operation `id`, which ends the delivery by word alone.
pub fn operation(chat: &str, delivery: &str, id: &str) -> Operation {
    let request_id = delivery.split('.').next().expect("a request");
    Operation {
        id: id.into(),
        lane: lane(chat),
        delivery_id: delivery.into(),
        keep: LONG,
        child: None,
        resend: None,
        turn: LEVEL,
        depth_limit: 100,
        lines: vec![line(Stage::Operated, request_id, &reply(request_id, chat, 0, "").key)],
    }
}

/// One operation.
pub async fn operate(store: &SharedStore, operation: Operation) -> Operated {
    store.operate(operation).await.expect("operate")
}

async fn tune(store: &SharedStore, tuning: Tuning) {
    store.tune(tuning).await.expect("tune");
}

async fn status(store: &SharedStore, chat: &str) -> ChatStatus {
    store.chats(vec![lane(chat)]).await.expect("chats").remove(0)
}

async fn is_idle(store: &SharedStore) -> bool {
    store.claim_replies(5, LONG).await.expect("claim").items.is_empty()
}

/// A turn by a weight, an hour a unit.
fn weight(weight: u32) -> Turn {
    Turn { weight, head_start: Duration::from_secs(3600) }
}

async fn queue_as(store: &SharedStore, chat: &str, request_id: &str, turn: Turn) {
    queue(store, turn, vec![reply(request_id, chat, 0, "hi")]).await;
}

pub async fn an_operators_weight_wins_until_it_is_taken_back(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 2);
    for (set, first) in [(Some(100), 0), (None, 1)] {
        tune(&store, Tuning { weight: Some(set), turn: weight(1), ..tuning(&chats[0]) }).await;
        assert_eq!(status(&store, &chats[0]).await.weight, set);
        queue_as(&store, &chats[1], &format!("r{first}1"), weight(50)).await;
        queue_as(&store, &chats[0], &format!("r{first}0"), weight(1)).await;
        let order = [send(&store, Fate::Delivered).await, send(&store, Fate::Delivered).await];
        assert_eq!(order.map(|sent| sent.delivery.chat_id), [chats[first].clone(), chats[1 - first].clone()]);
    }
}

pub async fn a_weight_acts_on_what_waits_already(fixture: &impl Fixture) {
    let store = fixture.store();
    let chats = chats_of_one_shard(fixture, 3);
    for (chat, of) in chats.iter().zip([30, 20, 10]) {
        queue_as(&store, chat, &format!("r-{chat}"), weight(of)).await;
    }
    tune(&store, Tuning { weight: Some(Some(5)), turn: weight(30), ..tuning(&chats[0]) }).await;
    tune(&store, Tuning { weight: Some(Some(40)), turn: weight(10), ..tuning(&chats[2]) }).await;
    let mut order = Vec::new();
    for _ in 0..3 {
        order.push(send(&store, Fate::Delivered).await.delivery.chat_id);
    }
    assert_eq!(order, [chats[2].clone(), chats[1].clone(), chats[0].clone()]);
}

pub async fn a_paused_chat_sends_nothing_until_it_is_resumed(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2", "3"]).await;
    let under_way = take_reply(&store).await;
    assert_eq!(begin(&store, begin_of(&under_way)).await, Begun::Go);
    tune(&store, Tuning { paused: Some(true), ..tuning("chat") }).await;
    // What is under way is finished, and nothing follows it.
    let settled = settle(&store, settle_and_go_on(&under_way, Fate::Delivered)).await;
    assert!(matches!(settled, Settled::Parked(Begun::Paused)), "{settled:?}");
    queue(&store, LEVEL, vec![reply("more", "chat", 0, "4")]).await;
    assert!(is_idle(&store).await);
    let paused = status(&store, "chat").await;
    assert_eq!((paused.paused, paused.depth, paused.parked.expect("parked").0.as_str()), (true, 3, "paused"));

    let other = fixture.reopen().await;
    tune(&other, Tuning { paused: Some(false), ..tuning("chat") }).await;
    for text in ["2", "3", "4"] {
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), text);
    }
    assert!(!status(&store, "chat").await.paused);
}

pub async fn resuming_leaves_what_pace_holds_back(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    send(&store, Fate::Again { park: LONG, why: ParkReason::Paced }).await;
    for paused in [true, false] {
        tune(&store, Tuning { paused: Some(paused), ..tuning("chat") }).await;
    }
    assert!(is_idle(&store).await);
    assert_eq!(status(&store, "chat").await.parked.expect("parked").0, "paced");
}

pub async fn an_operator_revives_a_chat(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let head = take_reply(&store).await;
    begin(&store, begin_of(&head)).await;
    let gone = Fate::Ended { back_off: None, chat_dead: Some(route("home")) };
    settle(&store, Settle { last_error: Some("93000 gone".into()), ..settle_of(&head, gone) }).await;
    tune(&store, tuning("chat")).await;
    assert!(status(&store, "chat").await.dead.is_some(), "nothing was said of that");
    tune(&store, Tuning { revive: true, ..tuning("chat") }).await;
    assert_eq!(status(&store, "chat").await.last_error, None, "of which it died");
    assert_eq!(begin(&store, begin_of(&take_reply(&store).await)).await, Begun::Go);
}

/// Also one that was given back for its app's hold; what waits for anything else goes on waiting.
pub async fn an_operator_ends_what_a_hold_set_aside(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    send(&store, Fate::Again { park: LONG, why: ParkReason::Held }).await;
    tune(&store, tuning("chat")).await;
    assert!(is_idle(&store).await, "nothing was said of that");
    tune(&store, Tuning { unhold: true, ..tuning("chat") }).await;
    let head = take_reply(&store).await;
    store.release(Side::Out, vec![head.lease], LONG).await.expect("release");
    assert!(is_idle(&store).await);
    tune(&store, Tuning { unhold: true, ..tuning("chat") }).await;
    send(&store, Fate::Again { park: LONG, why: ParkReason::Paced }).await;
    tune(&store, Tuning { unhold: true, ..tuning("chat") }).await;
    assert!(is_idle(&store).await);
    assert_eq!(status(&store, "chat").await.parked.expect("parked").0, "paced");
}

/// A lease is somebody's, whatever is said of holds.
pub async fn what_is_under_way_is_no_hold(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1"]).await;
    let head = take_reply(&store).await;
    tune(&store, Tuning { unhold: true, ..tuning("chat") }).await;
    assert!(is_idle(&store).await);
    assert_eq!(begin(&store, begin_of(&head)).await, Begun::Go);
}

/// A chat that holds nothing, through work and a restart.
pub async fn what_is_set_of_a_chat_is_kept(fixture: &impl Fixture) {
    let store = fixture.store();
    let set = Tuning { weight: Some(Some(7)), paused: Some(true), ..tuning("chat") };
    tune(&store, set.clone()).await;
    tune(&store, Tuning { weight: None, paused: Some(false), ..set.clone() }).await;
    queue_texts(&store, "chat", &["1"]).await;
    send(&store, Fate::Delivered).await;
    tune(&store, Tuning { weight: None, ..set }).await;
    let status = status(&fixture.reopen().await, "chat").await;
    assert_eq!((status.weight, status.paused, status.depth), (Some(7), true, 0));
}

/// In the journal once the change is made, whoever looks; a repeat leaves it again under its id.
pub async fn a_change_leaves_its_line(fixture: &impl Fixture) {
    let store = fixture.store();
    let (set, session) = ((Some(Some(7)), Some(true)), SessionKey::of_sender(APP, "chat", "u"));
    let all = Tuning { weight: set.0, paused: set.1, muted: Some(true), change: changed("a"), ..tuning("chat") };
    for _ in 0..2 {
        tune(&store, all.clone()).await;
    }
    store.forget_session(&session, LONG, Some(changed("b"))).await.expect("forgets");
    store.note_change(changed("c")).await.expect("notes");
    let other = fixture.reopen().await;
    let ids: Vec<_> = entries(&other).await.into_iter().map(|entry| entry.line).collect();
    let of = |id: &str| ids.iter().filter(|line| **line == changed(id)).count();
    assert_eq!((of("a"), of("b"), of("c"), ids.len()), (2, 1, 1, 5), "and the archive's: {ids:?}");
    let status = status(&other, "chat").await;
    assert_eq!((status.weight, status.paused, status.muted), (Some(7), true, true));
    tune(&other, Tuning { muted: Some(false), ..tuning("chat") }).await;
    let status = self::status(&store, "chat").await;
    assert_eq!((status.weight, status.paused, status.muted), (Some(7), true, false));
}

pub async fn a_delivery_is_ended_by_hand_once(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    send(&store, ENDED).await;
    assert_eq!(operate(&store, operation("chat", "r-chat.0", "a")).await, Operated::Done);
    let again = Operation { resend: Some(reply("r-chat", "chat", 10, "again")), ..operation("chat", "r-chat.0", "b") };
    assert_eq!(operate(&fixture.reopen().await, again).await, Operated::Earlier);
    assert_eq!(operate(&store, operation("chat", "r-chat.0", "a")).await, Operated::Done, "a repeat of the first");
    assert_eq!(operate(&store, operation("chat", "r-chat.1", "b")).await, Operated::Done, "another delivery");
    let told = stages(&store, "r-chat").await;
    assert_eq!(told[told.len() - 2..], [Stage::Operated, Stage::Operated]);
    assert_eq!((told.len(), status(&store, "chat").await.depth), (5, 1));
}

pub async fn a_resend_leaves_as_any_reply(fixture: &impl Fixture) {
    let store = fixture.store();
    let resend = |chat: &str, id: &str| {
        let again = reply("r", chat, 10, "again");
        Operation { resend: Some(again), ..operation(chat, &format!("r.{id}"), id) }
    };
    // Into a lane that holds nothing, and behind what waits.
    assert_eq!(operate(&store, resend("chat", "a")).await, Operated::Done);
    assert_eq!(operate(&store, resend("chat", "a")).await, Operated::Done);
    assert_eq!(status(&store, "chat").await.depth, 1);
    assert_eq!(send(&store, Fate::Delivered).await.delivery.id, "r.10");
    queue_texts(&store, "other", &["first"]).await;
    operate(&store, resend("other", "b")).await;
    for text in ["first", "again"] {
        assert_eq!(text_of(&send(&store, Fate::Delivered).await), text);
    }
}

pub async fn a_full_lane_takes_no_resend(fixture: &impl Fixture) {
    let store = fixture.store();
    queue_texts(&store, "chat", &["1", "2"]).await;
    let resend = Some(reply("r", "chat", 10, "again"));
    let full = Operation { resend, depth_limit: 2, ..operation("chat", "r.0", "a") };
    assert_eq!(operate(&store, full.clone()).await, Operated::LaneFull);
    assert_eq!(stages(&store, "r").await, []);
    send(&store, Fate::Delivered).await;
    assert_eq!(operate(&store, Operation { id: "b".into(), ..full }).await, Operated::Done, "nothing was done before");
}

pub async fn an_operation_is_known_for_so_long(fixture: &impl Fixture) {
    let store = fixture.store();
    let brief = Operation { keep: SHORT, ..operation("chat", "r.0", "a") };
    assert_eq!(operate(&store, brief).await, Operated::Done);
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(operate(&store, operation("chat", "r.0", "b")).await, Operated::Done);
}

/// What would move a reply to another chat is refused whole.
pub async fn an_operation_is_of_its_own_chat_alone(fixture: &impl Fixture) {
    let store = fixture.store();
    let stray = Operation { resend: Some(reply("r", "other", 10, "again")), ..operation("chat", "r.0", "a") };
    let refused = store.operate(stray).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(store.depth().await.expect("depth").waiting, 0);
}

pub async fn many_hands_at_once_end_a_delivery_once(fixture: &impl Fixture) {
    let (store, other) = (fixture.store(), fixture.reopen().await);
    let hands = (0..20).map(|n: usize| {
        let store = if n.is_multiple_of(2) { store.clone() } else { other.clone() };
        let resend = Some(reply("r", "chat", 10 + n, "again"));
        async move { operate(&store, Operation { resend, ..operation("chat", "r.0", &n.to_string()) }).await }
    });
    let done = futures_util::future::join_all(hands).await;
    assert_eq!(done.iter().filter(|done| **done == Operated::Done).count(), 1, "{done:?}");
    assert_eq!(status(&store, "chat").await.depth, 1);
}
