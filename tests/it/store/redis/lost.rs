//! An answer that is lost after its call was applied, and a request that is cut before, at every verb: the call fails as
//! something that passes, and the same call again gives the right answer and applies nothing twice.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wecom_gateway::member::MemberKey;
use wecom_gateway::model::{MessageKey, Outcome, Secret, resend_id};
use wecom_gateway::store::redis::RedisStore;

use super::outages::recovered;
use super::*;
use crate::proxy::{Fault, Proxy};
use crate::redis_server::RedisServer;
use crate::store::operators::{operate, operation, tuning};
use crate::store::pushes::{change, child, new_push, open_task, opening, queue_push, state};

/// A server behind a proxy, and a handle that nothing happens to.
struct Behind {
    direct: SharedStore,
    server: RedisServer,
    proxy: Proxy,
    fault: Fault,
    struck: usize,
}

impl Behind {
    async fn new(fault: Fault) -> Self {
        let server = RedisServer::spawn(&[]);
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
        Self { direct: open(&server, 1), server, proxy, fault, struck: 0 }
    }

    /// Whether what is lost was applied.
    fn was_applied(&self) -> bool {
        matches!(self.fault, Fault::CutAnswer(_))
    }

    /// Makes a call whose answer is lost, then the same call again. The server knows every script: else the first
    /// answer would only ask for it. The handle is new each time: one that was cut before waits longer to connect again.
    async fn twice<T>(&mut self, call: impl AsyncFn(SharedStore) -> Result<T>) -> T {
        let url = Secret::new(format!("redis://{}", self.proxy.address()));
        let store: SharedStore = RedisStore::open(&url, 1).expect("open");
        store.ping().await.expect("it is there");
        self.proxy.arm(b"EVALSHA", self.fault);
        let Err(error) = patiently(call(store.clone())).await else { panic!("its answer was lost") };
        assert!(error.is_transient(), "{error:?}");
        self.struck += 1;
        self.proxy.struck(self.struck).await;
        recovered(&store).await;
        patiently(call(store)).await.expect("its repeat is answered")
    }
}

/// Goes once through every verb on a store.
async fn know_every_script(store: &SharedStore) {
    enqueue(store, arrival("warm", "u", "warm", "warm")).await;
    let claimed = take(store).await;
    let ticket =
        LateTicket { ttl: LONG, received_at: now_ms(), expires_at: now_ms() + 60_000, reply_to: Default::default() };
    let replies = vec![reply("warm", "warm", 0, "hi")];
    finish(store, Commit { await_late: Some(ticket), ..commit(&claimed, replies) }).await;
    store.renew(Side::Out, vec![take_reply(store).await.lease], Duration::ZERO).await.expect("renew");
    let head = await_reply(store).await;
    store.release(Side::Out, vec![head.lease], Duration::ZERO).await.expect("release");
    send(store, Fate::Delivered).await;
    store.waiting(&lane("warm"), "warm").await.expect("waiting");
    store.answer_late(late("none", 0)).await.expect("answer");
    store.revive(&lane("warm")).await.expect("revive");
    store.session(&member()).await.expect("session");
    store.forget_session(&SessionKey::of_chat(APP, "warm"), LONG, Some(changed("warm"))).await.expect("forget");
    store.tune(tuning("warm")).await.expect("tune");
    operate(store, operation("warm", "none.0", "op")).await;
    store.chats(vec![lane("warm")]).await.expect("chats");
    store.busy_chats(1).await.expect("busy chats");
    store.depth().await.expect("depth");
    let (member, members) = (MemberKey::new(APP, "warm"), store.members());
    members.change_profile(bound("warm")).await.expect("change");
    members.read_profile(&member).await.expect("read");
    members.forget_profile(&member, LONG, Some(changed("warm"))).await.expect("forget");
    members.admit(knock("warm", 1)).await.expect("admit");
    open_task(store, opening("warm", 1)).await;
    queue_push(store, new_push("warm", "warm", 0)).await;
    store.pushes().advance_tasks(vec![progress("warm", 1)]).await.expect("advance");
    store.pushes().task("warm").await.expect("task");
    send(store, Fate::Delivered).await;
    for batch in store.read_journal(100).await.expect("journal") {
        store.trim_journal(&batch).await.expect("trim");
    }
}

fn member() -> SessionKey {
    SessionKey::of_sender(APP, "chat", "u")
}

fn late(request_id: &str, seq: u64) -> LateAnswer {
    let replies = vec![reply(request_id, "chat", 10 + seq as usize, "late")];
    let lines = vec![line(Stage::Answered, request_id, &replies[0].key)];
    LateAnswer { request_id: request_id.into(), lane: lane("chat"), seq, replies, turn: LEVEL, depth_limit: 100, lines }
}

fn bound(sender: &str) -> ProfileChange {
    let user = UserChange::Bind { id: "u-7".into(), ttl: LONG, renew: Some(LONG) };
    let contact = vec![("name".to_owned(), FieldChange::Fill("甲".into()))];
    ProfileChange { member: MemberKey::new(APP, sender), user: Some(user), contact, upon: None, change: None }
}

fn progress(task: &str, cursor: u64) -> TaskProgress {
    TaskProgress { task_id: task.into(), cursor, done: false }
}

fn knock(request_id: &str, limit: u32) -> Knock {
    // A member of its own for the warm-up.
    let sender = if request_id == "warm" { "warm" } else { "u" };
    let key = MessageKey::new(APP, "chat", sender, request_id);
    Knock { key, request_id: request_id.into(), rate: Pace { limit, window: LONG } }
}

#[tokio::test]
async fn an_answer_that_is_lost_changes_nothing() {
    nothing_is_lost_or_done_twice(Fault::CutAnswer(0)).await;
}

#[tokio::test]
async fn half_an_answer_is_none() {
    nothing_is_lost_or_done_twice(Fault::CutAnswer(1)).await;
}

#[tokio::test]
async fn half_a_request_is_none() {
    nothing_is_lost_or_done_twice(Fault::CutRequest(0)).await;
}

async fn nothing_is_lost_or_done_twice(fault: Fault) {
    use Stage::{Accepted, Answered, Changed, Handled, Operated, Pushed, Settled};
    let mut behind = Behind::new(fault).await;
    know_every_script(&behind.direct).await;
    inbound(&mut behind).await;
    outbound(&mut behind).await;
    observed(&mut behind).await;
    members(&mut behind).await;
    remembered(&mut behind).await;
    pushes(&mut behind).await;
    // Each step is told once, whether the first call made it or the repeat.
    let expected = vec![Accepted, Handled, Settled, Settled, Settled, Answered, Operated, Settled];
    let mut told = journal(&mut behind).await;
    let forgotten = told.remove("").expect("a session was forgotten");
    let times = if behind.was_applied() { 2 } else { 1 };
    assert_eq!(forgotten.len(), times, "twice is as good as once");
    // A change that is made again is known by its id.
    for (id, changes) in [("paused", 1), ("resumed", 1), ("muted", 1), ("noted", 1), ("forgotten", 1), ("gone", 1)] {
        assert_eq!(told.remove(id), Some(vec![Changed; changes * times]), "{id}");
    }
    let pushed = vec![Pushed, Settled, Operated, Settled];
    assert_eq!(told, BTreeMap::from([("r1".to_owned(), expected), ("t-t".to_owned(), pushed)]));
}

/// Leaves three replies of `r1` and a ticket for a late one.
async fn inbound(behind: &mut Behind) {
    let message = Arrival { repeated: true, ..arrival("chat", "u", "m1", "r1") };
    let again = message.clone();
    let stored = behind.twice(async move |store| store.enqueue(vec![again.clone()]).await).await;
    assert_eq!(stored, [Enqueued::Stored]);
    assert_eq!(behind.direct.depth().await.expect("depth").waiting, 1);

    let first = behind.twice(async |store| store.claim_messages(5, SHORT).await).await;
    let claimed = match first.items.into_iter().next() {
        Some(claimed) => claimed,
        None => await_message(&behind.direct).await,
    };
    assert_eq!(claimed.redelivered, behind.was_applied());
    assert!(behind.direct.claim_messages(5, LONG).await.expect("claim").items.is_empty());

    let lease = claimed.lease.clone();
    let renewed = behind.twice(async move |store| store.renew(Side::In, vec![lease.clone()], LONG).await).await;
    assert_eq!(renewed, [true]);
    let lease = claimed.lease.clone();
    behind.twice(async move |store| store.release(Side::In, vec![lease.clone()], Duration::ZERO).await).await;
    let claimed = take(&behind.direct).await;

    let ticket =
        LateTicket { ttl: LONG, received_at: now_ms(), expires_at: now_ms() + 60_000, reply_to: Default::default() };
    let replies = (0..3).map(|seq| reply("r1", "chat", seq, "hi")).collect();
    let call = Commit { await_late: Some(ticket), ..commit(&claimed, replies) };
    let committed = behind.twice(async move |store| store.commit(vec![call.clone()]).await).await;
    assert_eq!(committed, [if behind.was_applied() { Committed::Lost } else { Committed::Done }]);
    assert_eq!(behind.direct.depth().await.expect("depth").waiting, 3);
    assert_eq!(enqueue_one(&behind.direct, message).await, Enqueued::Stored);
    assert!(behind.direct.claim_messages(5, LONG).await.expect("claim").items.is_empty());
}

/// Sends the replies, one of them at the second try.
async fn outbound(behind: &mut Behind) {
    let first = behind.twice(async |store| store.claim_replies(5, SHORT).await).await;
    let head = match first.items.into_iter().next() {
        Some(head) => head,
        None => await_reply(&behind.direct).await,
    };
    assert!(!head.begun);
    behind.direct.renew(Side::Out, vec![head.lease.clone()], LONG).await.expect("renew");

    // The window takes one send, which the repeat is no second of.
    let call = Begin { pace: Pace { limit: 1, window: LONG }, ..begin_of(&head) };
    let begun = behind.twice(async move |store| store.begin(vec![call.clone()]).await).await;
    assert_eq!(begun, [Begun::Go]);
    let places: u64 = behind.server.command(&["LLEN", "wg:{00}:pace:shop:chat"]).await;
    assert_eq!(places, 1);

    let call = settle_and_go_on(&head, Fate::Delivered);
    let settled = behind.twice(async move |store| store.settle(vec![call.clone()]).await).await;
    let [Settled::Next(head, Some(Begun::Go))] = &settled[..] else { panic!("{settled:?}") };
    assert_eq!(head.delivery.id, "r1.1");

    let mut call = settle_of(head, Fate::Again { park: Duration::from_millis(1), why: ParkReason::Transient });
    call.lines = vec![];
    let settled = behind.twice(async move |store| store.settle(vec![call.clone()]).await).await;
    assert!(matches!((&settled[0], behind.was_applied()), (Settled::Lost, true) | (Settled::Released, false)));
    let head = await_reply(&behind.direct).await;
    assert_eq!((head.delivery.id.as_str(), head.attempts, head.failures, head.begun), ("r1.1", 1, 1, false));

    let call = settle_of(&head, Fate::Ended { back_off: None, chat_dead: Some(route("home")) });
    let settled = behind.twice(async move |store| store.settle(vec![call.clone()]).await).await;
    assert!(matches!((&settled[0], behind.was_applied()), (Settled::Lost, true) | (Settled::Released, false)));
    behind.twice(async |store| store.revive(&lane("chat")).await).await;
    for (id, paused) in [("paused", true), ("resumed", false)] {
        let tuning = || Tuning { paused: Some(paused), change: changed(id), ..tuning("chat") };
        behind.twice(async |store| store.tune(tuning()).await).await;
    }
    assert_eq!(send(&behind.direct, Fate::Delivered).await.delivery.id, "r1.2");
}

/// A late answer, and what only looks.
async fn observed(behind: &mut Behind) {
    let waiting = behind.twice(async |store| store.waiting(&lane("chat"), "r1").await).await;
    assert!(waiting.is_some());
    let answer = late("r1", 1);
    let answered = behind.twice(async move |store| store.answer_late(answer.clone()).await).await;
    assert_eq!(answered, if behind.was_applied() { Answered::Repeat } else { Answered::Queued });
    // Whoever did it is told so again.
    let by_hand = operation("chat", "r1.1", "op1");
    assert_eq!(behind.twice(async move |store| store.operate(by_hand.clone()).await).await, Operated::Done);
    assert_eq!(operate(&behind.direct, operation("chat", "r1.1", "op2")).await, Operated::Earlier);
    let status = behind.twice(async |store| store.chats(vec![lane("chat")]).await).await;
    assert_eq!(status[0].depth, 1);
    assert_eq!(behind.twice(async |store| store.busy_chats(5).await).await, [lane("chat")]);
    assert_eq!(behind.twice(async |store| store.depth().await).await.waiting, 1);
    assert_eq!(send(&behind.direct, Fate::Delivered).await.delivery.id, "r1.11");
}

/// What is known of members, counted of them and muted for them.
async fn members(behind: &mut Behind) {
    let member = MemberKey::new(APP, "u");
    behind.twice(async |store| store.members().change_profile(bound("u")).await).await;
    let profile = behind.twice(async |store| store.members().read_profile(&member).await).await;
    assert_eq!((profile.user_id(), profile.contact.len()), (Some("u-7"), 1));
    behind.twice(async |store| store.members().forget_profile(&member, LONG, Some(changed("gone"))).await).await;
    behind.twice(async |store| store.note_change(changed("noted")).await).await;
    let profile = behind.direct.members().read_profile(&member).await.expect("reads");
    assert!(profile.user.is_none() && profile.contact.is_empty() && profile.forgotten > Some(0), "{profile:?}");

    assert_eq!(behind.twice(async |store| store.members().admit(knock("k1", 2)).await).await, Admitted::Yes);
    let second = behind.direct.members().admit(knock("k2", 2)).await.expect("counts");
    assert_eq!(second, Admitted::Yes, "the first counts once");
    assert_eq!(behind.twice(async |store| store.members().admit(knock("k3", 2)).await).await, Admitted::TooFastFirst);
    let tuning = || Tuning { muted: Some(true), change: changed("muted"), ..tuning("chat") };
    behind.twice(async |store| store.tune(tuning()).await).await;
    let muted: Option<String> = behind.server.command(&["HGET", "wg:{00}:chat:shop:chat", "muted"]).await;
    assert_eq!(muted.as_deref(), Some("1"));
}

async fn remembered(behind: &mut Behind) {
    let before = behind.twice(async |store| store.session(&member()).await).await;
    assert_eq!(before, Remembered::default());
    behind.twice(async |store| store.forget_session(&member(), LONG, Some(changed("forgotten"))).await).await;
    let after = behind.direct.session(&member()).await.expect("reads");
    assert!(!after.found && after.forgotten > 0 && after.session == Session::default(), "{after:?}");
}

/// A task and its one delivery, which is refused, sent again by hand, and arrives.
async fn pushes(behind: &mut Behind) {
    let opened = behind.twice(async |store| store.pushes().open_tasks(vec![opening("t", 2)]).await).await;
    assert_eq!(opened, [Opened::Open(0)]);
    let queued = behind.twice(async |store| store.pushes().queue_pushes(vec![new_push("t", "chat", 0)]).await).await;
    assert_eq!(queued, [if behind.was_applied() { Pushed::Known } else { Pushed::Queued }]);
    assert_eq!(behind.direct.depth().await.expect("depth").waiting, 1);
    behind.twice(async |store| store.pushes().advance_tasks(vec![progress("t", 1)]).await).await;
    assert_eq!(open_task(&behind.direct, opening("t", 2)).await, Opened::Open(1));

    let head = take_reply(&behind.direct).await;
    begin(&behind.direct, begin_of(&head)).await;
    let call = Settle { child: change(&head.delivery, state(Outcome::Dead)), ..settle_of(&head, ENDED) };
    behind.twice(async move |store| store.settle(vec![call.clone()]).await).await;
    assert_eq!(child(&behind.direct, "t").await, state(Outcome::Dead));
    let resend = Delivery { id: resend_id(&head.delivery.id), ..head.delivery.clone() };
    let queued = change(&resend, state(Outcome::Queued));
    let call = Operation { child: queued, resend: Some(resend), ..operation("chat", &head.delivery.id, "op") };
    assert_eq!(behind.twice(async move |store| store.operate(call.clone()).await).await, Operated::Done);
    let status = behind.twice(async |store| store.pushes().task("t").await).await.expect("it is known");
    assert_eq!((status.cursor, status.children.len()), (1, 1));
    assert_eq!(status.children[0].state, state(Outcome::Queued));
    assert_eq!(send(&behind.direct, Fate::Delivered).await.delivery.id, "t-t.0.r1");
}

/// Turns the journal once, then reads and trims it in two pieces; answers which stages it told of each request.
async fn journal(behind: &mut Behind) -> BTreeMap<String, Vec<Stage>> {
    let mut told: BTreeMap<String, Vec<Stage>> = BTreeMap::new();
    let lines =
        async |store: &SharedStore| store.read_journal(100).await.expect("journal").first().map_or(0, |b| b.count);
    let all = lines(&behind.direct).await;
    let batch = behind.direct.read_journal(100).await.expect("journal").remove(0);
    let there = behind.twice(async |store| store.rotate_journal(&batch, batch.lines.clone()).await).await;
    assert_eq!((there, lines(&behind.direct).await), (!behind.was_applied(), all));
    for (most, left) in [(3, all - 3), (100, 0)] {
        let batch = behind.twice(async |store| store.read_journal(most).await).await.remove(0);
        for raw in &batch.lines {
            let line = Entry::parse(raw).expect("a line").line;
            told.entry(line.request_id).or_default().push(line.stage);
        }
        behind.twice(async |store| store.trim_journal(&batch).await).await;
        assert_eq!(lines(&behind.direct).await, left);
    }
    told
}
