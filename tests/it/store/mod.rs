//! The contract of a store, as tests: what `src/store/mod.rs` says of each verb, tried on whatever a [`Fixture`] opens.
//!
//! [`contract_suite!`] stamps every case as a test of its own. The store's clock is real, so time passes here too: leases
//! and windows are short where they must end, and their end is awaited by asking again when the store says to
//! (`next_wake`), never by guessing. [`pass`] only makes sure that *at least* so much time went by.

mod bounds;
mod embedded;
mod inbound;
mod journal;
mod late;
mod lease;
mod members;
mod merge;
mod model;
mod notes;
mod operators;
mod outbound;
mod pushes;
mod redis;
mod session;
mod settle;
mod share;
mod turn;
mod walk;
mod weights;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use wecom_gateway::model::{
    ChatKind, Delivery, Lane, Message, MessageKey, ReplyTo, RouteDigest, SenderKind, Session, SessionKey, delivery_id,
    now_ms,
};
use wecom_gateway::store::*;

/// A lease (or window) that no test outlives.
pub const LONG: Duration = Duration::from_secs(60);
/// A lease (or window) that a test waits out.
pub const SHORT: Duration = Duration::from_millis(120);
/// A rate that no test reaches by accident.
pub const PACE: Pace = Pace { limit: 20, window: LONG };
/// A turn without any head start.
pub const LEVEL: Turn = Turn { weight: 1, head_start: Duration::ZERO };
/// The app of every test.
pub const APP: &str = "shop";

/// A store with nothing in it, and a way to look at the same data from elsewhere.
#[async_trait]
pub trait Fixture: Send + Sync {
    /// The store.
    fn store(&self) -> SharedStore;
    /// Another handle on the same data, as another process or this one after a restart has it.
    async fn reopen(&self) -> SharedStore {
        self.reopen_as(Options::default()).await
    }
    /// As [`Fixture::reopen`], with the fixture's own shards and everything else as `options` says.
    async fn reopen_as(&self, options: Options) -> SharedStore;
    /// Its shards. Turns are kept within one, so cases about turns use chats of one shard.
    fn shards(&self) -> u16;
}

/// `n` chats of one shard, in ascending order of their names.
pub fn chats_of_one_shard(fixture: &dyn Fixture, n: usize) -> Vec<String> {
    let shards = fixture.shards();
    (0..).map(|i| format!("chat{i:05}")).filter(|c| Lane::of_chat(APP, c).shard(shards) == 0).take(n).collect()
}

/// The out-lane of a chat.
pub fn lane(chat: &str) -> Lane {
    Lane::of_chat(APP, chat)
}

/// A message that just came in.
pub fn arrival(chat: &str, sender: &str, msg_id: &str, request_id: &str) -> Arrival {
    let message = Message {
        request_id: request_id.into(),
        app: APP.into(),
        chat_id: chat.into(),
        chat_kind: ChatKind::Group,
        msg_id: msg_id.into(),
        sender_key: sender.into(),
        sender_kind: SenderKind::External,
        sender_name: Some("小王".into()),
        msg_type: "text".into(),
        text: format!("查询 {msg_id}"),
        sent_at: None,
        received_at: now_ms(),
        response_url: None,
    };
    Arrival { lane: Lane::of_sender(APP, chat, sender), message, max_age: LONG, mark_ttl: LONG, depth_limit: 100 }
}

/// What a route of that name has as digest.
pub fn route(name: &str) -> RouteDigest {
    RouteDigest::of("group_robot", name)
}

/// A reply by the route `home`.
pub fn reply(request_id: &str, chat: &str, seq: usize, text: &str) -> Delivery {
    Delivery {
        id: delivery_id(request_id, seq),
        request_id: request_id.into(),
        key: MessageKey::new(APP, chat, "u", request_id),
        app: APP.into(),
        chat_id: chat.into(),
        reply_to: ReplyTo::default(),
        push: None,
        message: json!({"msgtype": "text", "text": {"content": text}}),
        route: route("home"),
        bound: false,
        repeat_until: None,
        expires_at: now_ms() + 60_000,
        received_at: now_ms(),
        queued_at: now_ms(),
    }
}

/// A journal line.
pub fn line(stage: Stage, request_id: &str, key: &MessageKey) -> Line {
    Line { stage, request_id: request_id.into(), key: key.clone(), detail: serde_json::Map::new() }
}

/// The commit of a claimed message with these replies.
pub fn commit(claimed: &ClaimedMessage, replies: Vec<Delivery>) -> Commit {
    let key = claimed.message.key();
    Commit {
        lease: claimed.lease.clone(),
        lines: vec![line(Stage::Handled, &claimed.message.request_id, &key)],
        key,
        request_id: claimed.message.request_id.clone(),
        mark_ttl: LONG,
        exchange: None,
        replies,
        turn: LEVEL,
        depth_limit: 100,
        await_late: None,
    }
}

/// What `sender` said in `chat`: the session from now on, and its line.
pub fn said(sender: &str, session: Session, keep: Duration) -> Exchange {
    let key = SessionKey::of_sender(APP, "chat", sender);
    let line = Some(line(Stage::Exchanged, "r", &key.line_key("m")));
    Exchange { key, session, keep, forgotten: 0, line }
}

/// Puts one message in, which must be stored.
pub async fn enqueue(store: &SharedStore, arrival: Arrival) {
    assert_eq!(enqueue_one(store, arrival).await, Enqueued::Stored);
}

/// Puts one message in.
pub async fn enqueue_one(store: &SharedStore, arrival: Arrival) -> Enqueued {
    store.enqueue(vec![arrival]).await.expect("enqueue")[0]
}

/// Claims the one message that is there now, for [`LONG`].
pub async fn take(store: &SharedStore) -> ClaimedMessage {
    let claimed = store.claim_messages(1, LONG).await.expect("claim");
    claimed.items.into_iter().next().expect("a message")
}

/// Commits one message.
pub async fn finish(store: &SharedStore, commit: Commit) -> Committed {
    store.commit(vec![commit]).await.expect("commit")[0]
}

/// Claims the one reply that is there now, for [`LONG`].
pub async fn take_reply(store: &SharedStore) -> ClaimedReply {
    let claimed = store.claim_replies(1, LONG).await.expect("claim");
    claimed.items.into_iter().next().expect("a reply")
}

/// Queues replies in a chat by way of a message; nothing else may wait inbound.
pub async fn queue(store: &SharedStore, turn: Turn, replies: Vec<Delivery>) {
    let (chat, request_id) = (replies[0].chat_id.clone(), replies[0].request_id.clone());
    enqueue(store, arrival(&chat, "u", &request_id, &request_id)).await;
    let commit = Commit { turn, ..commit(&take(store).await, replies) };
    assert_eq!(finish(store, commit).await, Committed::Done);
}

/// Queues plain replies `texts` in a chat, under the request id `r-<chat>`.
pub async fn queue_texts(store: &SharedStore, chat: &str, texts: &[&str]) {
    let request_id = format!("r-{chat}");
    let replies = texts.iter().enumerate().map(|(seq, text)| reply(&request_id, chat, seq, text)).collect();
    queue(store, LEVEL, replies).await;
}

/// The text of a claimed reply.
pub fn text_of(claimed: &ClaimedReply) -> &str {
    claimed.delivery.message["text"]["content"].as_str().expect("a text")
}

/// Begins a claimed reply by the route `home` at [`PACE`].
pub fn begin_of(claimed: &ClaimedReply) -> Begin {
    Begin {
        lease: claimed.lease.clone(),
        delivery_id: claimed.delivery.id.clone(),
        merged: 1,
        route: route("home"),
        pace: PACE,
        lease_for: LONG,
    }
}

/// One `begin`.
pub async fn begin(store: &SharedStore, begin: Begin) -> Begun {
    store.begin(vec![begin]).await.expect("begin")[0]
}

/// A settle that gives the lease back.
pub fn settle_of(claimed: &ClaimedReply, fate: Fate) -> Settle {
    Settle {
        lease: claimed.lease.clone(),
        delivery_id: claimed.delivery.id.clone(),
        merged: 1,
        fate,
        last_error: None,
        child: None,
        lines: vec![line(Stage::Settled, &claimed.delivery.request_id, &claimed.delivery.key)],
        go_on: None,
        turn: LEVEL,
    }
}

/// A settle that goes on with the next head, by the route `home` at [`PACE`].
pub fn settle_and_go_on(claimed: &ClaimedReply, fate: Fate) -> Settle {
    let go_on = GoOn { route: route("home"), pace: PACE, lease_for: LONG };
    Settle { go_on: Some(go_on), ..settle_of(claimed, fate) }
}

/// One `settle`.
pub async fn settle(store: &SharedStore, settle: Settle) -> Settled {
    store.settle(vec![settle]).await.expect("settle").into_iter().next().expect("an answer")
}

/// Begins and settles the reply that is there now.
pub async fn send(store: &SharedStore, fate: Fate) -> ClaimedReply {
    let claimed = take_reply(store).await;
    assert_eq!(begin(store, begin_of(&claimed)).await, Begun::Go);
    let settled = settle(store, settle_of(&claimed, fate)).await;
    assert!(matches!(settled, Settled::Released), "{settled:?}");
    claimed
}

/// `Ended` without consequences.
pub const ENDED: Fate = Fate::Ended { back_off: None, chat_dead: None };

/// The head comes again at once.
pub fn again(why: ParkReason) -> Fate {
    Fate::Again { park: Duration::ZERO, why }
}

/// Claims a message as soon as time alone makes one workable.
pub async fn await_message(store: &SharedStore) -> ClaimedMessage {
    patiently(async {
        loop {
            let claimed = store.claim_messages(1, LONG).await.expect("claim");
            if let Some(item) = claimed.items.into_iter().next() {
                return item;
            }
            tokio::time::sleep(claimed.next_wake.expect("something to wait for")).await;
        }
    })
    .await
}

/// Claims a reply as soon as time alone makes one workable.
pub async fn await_reply(store: &SharedStore) -> ClaimedReply {
    patiently(async {
        loop {
            let claimed = store.claim_replies(1, LONG).await.expect("claim");
            if let Some(item) = claimed.items.into_iter().next() {
                return item;
            }
            tokio::time::sleep(claimed.next_wake.expect("something to wait for")).await;
        }
    })
    .await
}

/// Lets a lease end now, which works as `is_held` says.
pub async fn end_lease(store: &SharedStore, side: Side, lease: &Lease, is_held: bool) {
    let renewed = store.renew(side, vec![lease.clone()], Duration::ZERO).await.expect("renew");
    assert_eq!(renewed, [is_held]);
    pass(Duration::from_millis(2)).await;
}

/// Bounds a wait for something that must happen.
pub async fn patiently<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it never happened")
}

/// Lets at least so much time go by.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// All journal lines that wait, by shard and age.
pub async fn entries(store: &SharedStore) -> Vec<Entry> {
    let batches = store.read_journal(10_000).await.expect("journal");
    batches.iter().flat_map(|b| &b.lines).map(|l| Entry::parse(l).expect("a line")).collect()
}

/// The stages that the journal tells of one request, in order.
pub async fn stages(store: &SharedStore, request_id: &str) -> Vec<Stage> {
    entries(store).await.into_iter().filter(|e| e.line.request_id == request_id).map(|e| e.line.stage).collect()
}

/// Stamps one test per case for the fixture that the async function `$make` opens.
macro_rules! contract_suite {
    ($make:path) => {
        $crate::store::stamp! { $make;
            inbound:
                a_message_is_claimed_as_it_came_in
                a_lane_is_first_in_first_out
                a_lane_is_worked_by_one_while_others_go_on
                a_claim_brings_no_more_than_wanted
                lanes_that_wait_longest_come_first
                a_copy_of_a_claimed_or_done_message_is_a_duplicate
                the_second_of_two_waiting_copies_is_dropped_at_its_claim
                a_repeat_under_the_same_request_id_is_handled_once_and_silently
                only_the_whole_triple_makes_two_messages_one
                a_full_lane_refuses_and_others_do_not
                a_batch_is_answered_in_its_order
                a_message_past_its_age_is_dropped_unhandled
                a_mark_ends_with_its_ttl
                any_text_is_a_lawful_id
                what_was_stored_is_there_from_elsewhere;
            lease:
                an_ended_lease_brings_the_same_message_again
                a_lost_lease_commits_nothing
                an_ended_lease_that_nobody_took_still_commits
                a_renewed_lease_holds
                a_lost_lease_is_not_renewed
                a_released_message_can_be_claimed_at_once
                a_lane_given_back_for_a_while_waits_so_long
                an_idle_store_has_nothing_to_wait_for
                next_wake_is_the_nearest_end_of_a_lease
                new_work_wakes_its_side
                a_commit_leaves_replies_in_order
                a_commit_without_replies_leaves_none
                a_full_out_lane_takes_nothing_of_a_commit;
            session:
                a_session_belongs_to_one_member_of_one_chat
                a_session_may_be_one_for_a_whole_chat
                a_session_ends_with_its_ttl
                a_forgotten_session_is_there_and_empty
                what_was_under_way_when_it_was_forgotten_is_not_remembered
                that_it_was_forgotten_outlives_what_is_said_after;
            bounds:
                a_message_whose_workers_never_finish_is_dead_as_poison
                a_release_is_no_crash
                crashes_belong_to_one_message
                crashes_are_counted_over_a_restart
                a_full_store_takes_nothing_new_and_finishes_what_it_has
                a_late_answer_is_never_refused_by_a_full_store;
            turn:
                heavier_chats_go_first
                chats_of_one_weight_go_by_age
                a_light_chat_is_not_starved
                a_lane_that_is_worked_keeps_its_order
                a_claim_of_replies_brings_no_more_than_wanted
                a_parked_lane_is_not_claimed_before_its_time
                going_on_stays_with_the_lane_while_nobody_is_before_it
                going_on_yields_to_a_lane_whose_turn_is_before_ours
                going_on_by_another_route_leaves_the_head_unbegun
                going_on_leaves_a_head_past_its_age_unbegun
                going_on_stops_at_a_full_window
                going_on_meets_a_dead_chat
                a_settle_whose_answer_was_lost_can_be_repeated;
            outbound:
                a_window_takes_exactly_its_limit
                a_full_window_opens_again
                a_place_in_the_window_counts_from_the_delivery
                a_failed_send_keeps_its_place_in_the_window
                a_repeated_begin_takes_one_place
                begin_prolongs_the_lease
                begin_is_lost_once_the_lease_is_over
                a_begun_head_without_a_settle_comes_back_as_begun
                a_claimed_head_that_was_not_begun_comes_back_as_it_was
                a_dead_chat_is_dead_by_its_route_only
                a_revived_chat_is_sent_to_again
                a_released_reply_can_be_claimed_at_once
                leases_of_replies_are_renewed_until_lost;
            settle:
                a_delivered_head_makes_room_for_the_next
                an_ended_head_makes_room_for_the_next
                attempts_and_refusals_belong_to_the_head
                failures_belong_to_the_lane_until_a_delivery
                a_retried_head_comes_back_after_its_park
                an_unanswered_head_comes_back_begun
                a_back_off_parks_the_lane_although_the_head_went
                a_back_off_outlives_an_empty_lane
                a_lost_lease_settles_nothing
                an_ended_lease_that_nobody_took_still_settles
                an_ended_lease_that_was_passed_over_still_parks;
            merge:
                only_what_pace_held_back_comes_with_its_followers
                a_full_window_holds_back_too
                no_more_come_than_may_leave_together
                one_settle_ends_all_that_a_request_carried
                more_than_wait_are_not_begun
                what_was_begun_together_comes_back_together
                what_was_refused_together_is_sent_apart
                going_on_after_several_brings_the_next_several
                a_refusal_for_pace_closes_the_window_for_all;
            operators:
                an_operators_weight_wins_until_it_is_taken_back
                a_weight_acts_on_what_waits_already
                a_paused_chat_sends_nothing_until_it_is_resumed
                resuming_leaves_what_pace_holds_back
                an_operator_revives_a_chat
                what_is_set_of_a_chat_is_kept
                a_delivery_is_ended_by_hand_once
                a_resend_leaves_as_any_reply
                a_full_lane_takes_no_resend
                an_operation_is_known_for_so_long
                an_operation_is_of_its_own_chat_alone
                many_hands_at_once_end_a_delivery_once;
            pushes:
                a_task_is_opened_once_and_goes_on_where_it_stopped
                tasks_of_a_batch_are_answered_in_its_order
                a_task_and_its_deliveries_are_known_for_so_long
                a_task_tells_its_deliveries_in_the_order_of_their_numbers
                a_push_is_queued_once
                an_end_before_the_beginning_is_noted
                a_full_lane_takes_no_push
                a_full_store_takes_no_push
                a_push_is_of_its_own_chat_alone
                two_processes_at_one_task_queue_each_delivery_once
                a_settle_changes_its_push
                a_repeated_settle_leaves_the_push_alone
                an_operation_changes_its_push
                a_push_that_left_its_lane_is_revised_by_whoever_knows_it pushes_are_never_merged;
            share:
                every_fourth_lane_is_one_of_pushes_while_both_wait
                pushes_get_what_replies_leave
                heavy_chats_go_first_among_pushes_too
                a_paused_chat_keeps_its_pushes
                a_lane_of_pushes_waits_among_pushes_wherever_it_comes_from
                a_lease_of_a_push_that_ended_still_finishes
                a_reply_behind_pushes_takes_its_lane_along
                a_lane_taken_along_stands_where_its_reply_would
                no_lane_goes_on_with_a_push_while_a_reply_waits
                a_lane_of_replies_leaves_pushes_their_share
                pushes_wake_their_side;
            weights:
                heavy_chats_wait_little_and_no_chat_for_ever;
            late:
                a_late_answer_is_queued
                a_late_answer_is_queued_once_per_seq
                only_the_chat_that_waits_gets_a_late_answer
                a_late_answer_comes_too_late
                a_late_answer_finds_a_full_lane
                a_repeated_commit_keeps_the_ticket;
            members:
                a_profile_is_its_members_alone
                a_contact_changes_field_by_field
                what_people_set_is_not_filled_in
                a_binding_ends_with_its_ttl
                a_binding_is_replaced_and_undone
                a_member_is_forgotten_whole
                a_member_is_admitted_at_a_rate
                a_rate_counts_exactly_however_many_come_at_once
                a_rate_opens_again_with_its_window
                a_claim_tells_whether_its_chat_is_muted;
            notes:
                a_note_is_the_same_from_everywhere_until_it_ends
                a_notes_lock_is_one_owners_until_it_ends
                a_note_is_written_under_its_lock_once
                a_note_is_dropped_by_compare;
            journal:
                lines_tell_what_happened_in_order
                a_journal_is_read_and_trimmed_piece_by_piece
                a_trim_by_the_slower_reader_is_passed_over
                what_is_kept_of_a_batch_goes_to_the_end
                the_depth_is_told
                the_oldest_is_told
                a_chat_tells_its_state
                a_dead_chat_tells_its_route_and_last_error
                busy_chats_are_those_with_something_waiting;
            model:
                any_interleaving_keeps_the_promises;
            walk:
                random_walks_meet_no_surprise;
        }
    };
}
pub(crate) use contract_suite;

/// The body of [`contract_suite!`].
macro_rules! stamp {
    ($make:path; $($file:ident: $($case:ident)+;)+) => {$($(
        #[tokio::test]
        async fn $case() {
            $crate::store::$file::$case(&$make().await).await;
        }
    )+)+};
}
pub(crate) use stamp;
