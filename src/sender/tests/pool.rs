//! The pool against a robot and a store: order, permits, verdicts, crashes, outages, stopping.

use std::collections::HashMap;
use std::time::Duration;

use tokio::net::TcpListener;

use super::robot::{Answer, Call, Robot};
use super::scene::Scene;
use super::watched::{Event, Fault};
use crate::model::{Delivery, now_ms, resend_id};
use crate::store::{Fate, ParkReason};

/// An answer of [`Scene::verdict`].
fn words(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}

/// An entry of [`Scene::ended`].
fn ended(delivery: &str, state: &str) -> (String, String) {
    (delivery.to_owned(), state.to_owned())
}

#[tokio::test]
async fn a_chats_replies_leave_in_order_one_at_a_time_and_chats_go_side_by_side() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a", "b", "c"]).await;
    scene.sender.max_chats = 2;
    for chat in ["a", "b", "c"] {
        scene.queue(chat, &["0", "1"]).await;
        scene.queue(chat, &["2", "3"]).await;
    }
    let running = scene.start();
    let mut seen: HashMap<String, Vec<String>> = HashMap::new();
    // Two at once from the start; a third would break the semaphore.
    let mut open = vec![robot.call().await, robot.call().await];
    for _ in 0..12 {
        open.extend(std::iter::from_fn(|| robot.try_call()));
        if open.is_empty() {
            open.push(robot.call().await);
        }
        assert!(open.len() <= 2, "{open:?}");
        assert!(open.iter().all(|call| open.iter().filter(|other| other.key == call.key).count() == 1), "{open:?}");
        let call: Call = open.remove(0);
        seen.entry(call.key.clone()).or_default().push(call.text());
        call.code(0);
        assert_eq!(scene.verdict().await.0, "delivered");
    }
    for chat in ["a", "b", "c"] {
        assert_eq!(seen[chat], ["0", "1", "2", "3"], "{chat}");
    }
    running.finish().await;
    assert_eq!(scene.store.most_leased(), 2);
}

#[tokio::test]
async fn a_dead_robot_is_tried_once_and_its_other_replies_are_dropped() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["gone", "ok"]).await;
    scene.queue("gone", &["0", "1", "2"]).await;
    let _running = scene.start();
    robot.call().await.code(93000);
    assert_eq!(scene.verdict().await, words("dead", "chat_gone"));
    assert_eq!(scene.verdict().await, words("dropped", "chat_dead"));
    assert_eq!(scene.verdict().await, words("dropped", "chat_dead"));
    let status = scene.status("gone").await;
    assert_eq!(status.dead, Some(scene.digest("gone")));
    assert_eq!(status.last_error.as_deref(), Some("errcode 93000: as told"));
    scene.queue("ok", &["fine"]).await;
    let call = robot.call().await;
    assert_eq!(call.key, "ok");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
}

#[tokio::test]
async fn a_refused_content_ends_alone_and_a_refusal_for_pace_parks_the_chat() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["bad", "busy"]).await;
    let _running = scene.start();
    scene.queue("bad", &["0", "1"]).await;
    robot.call().await.code(40008);
    assert_eq!(scene.verdict().await, words("dead", "rejected"));
    let call = robot.call().await;
    assert_eq!(call.text(), "1");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
    scene.queue("busy", &["0", "1"]).await;
    robot.call().await.code(45009);
    let settle = scene.settled().await;
    assert!(matches!(settle.fate, Fate::Again { why: ParkReason::Paced, .. }), "{settle:?}");
    let status = scene.status("busy").await;
    assert_eq!((status.depth, status.parked.map(|(why, _)| why).as_deref()), (2, Some("paced")));
}

#[tokio::test]
async fn what_may_have_arrived_is_not_sent_again() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue("a", &["cut", "after"]).await;
    let _running = scene.start();
    robot.call().await.answer(Answer::Cut);
    let settle = scene.settled().await;
    assert!(matches!(settle.fate, Fate::Ended { back_off: Some(_), chat_dead: None }), "{settle:?}");
    let call = robot.call().await;
    assert_eq!(call.text(), "after");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
    assert_eq!(scene.ended().await, [ended("r0.0", "unknown"), ended("r0.1", "delivered")]);
}

#[tokio::test]
async fn what_is_answered_too_late_is_not_sent_again() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.sender.timeout = Duration::from_millis(300);
    scene.queue("a", &["late"]).await;
    let running = scene.start();
    let call = robot.call().await;
    assert_eq!(scene.verdict().await, words("unknown", "no_answer"));
    call.code(0);
    running.finish().await;
    assert_eq!((scene.status("a").await.depth, robot.is_quiet()), (0, true));
}

#[tokio::test]
async fn what_was_not_written_is_tried_three_times() {
    let robot = Robot::start().await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("an address");
    let mut scene = Scene::new(&robot, &[]).await;
    scene.route("a", &format!("http://{free}/send?key=k-e-y"));
    scene.queue("a", &["0"]).await;
    let _running = scene.start();
    assert_eq!(scene.verdict().await, words("retried", "transient"));
    assert_eq!(scene.verdict().await, words("retried", "transient"));
    assert_eq!(scene.verdict().await, words("dead", "transient"));
    let last_error = scene.status("a").await.last_error.expect("an error");
    assert!(last_error.starts_with("not sent: ") && !last_error.contains("k-e-y"), "{last_error}");
}

#[tokio::test]
async fn a_reply_without_its_own_route_or_past_its_age_is_dropped_unsent() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a", "b"]).await;
    let _running = scene.start();
    let of_b = scene.digest("b");
    scene.queue_with("a", &["meant for b's robot"], |delivery| delivery.route = of_b.clone()).await;
    assert_eq!(scene.verdict().await, words("dropped", "route_changed"));
    scene.queue("nowhere", &["0"]).await;
    assert_eq!(scene.verdict().await, words("dropped", "route_missing"));
    scene.queue_with("a", &["old"], |delivery| delivery.expires_at = 1).await;
    assert_eq!(scene.verdict().await, words("dropped", "too_old"));
    scene.queue("a", &["in time"]).await;
    let call = robot.call().await;
    assert_eq!((call.key.as_str(), call.text().as_str()), ("a", "in time"));
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
}

#[tokio::test]
async fn what_another_process_began_and_never_settled_is_unknown() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue("a", &["perhaps sent", "next"]).await;
    scene.begin_and_leave("a").await;
    let _running = scene.start();
    assert_eq!(scene.verdict().await, words("unknown", "interrupted"));
    let call = robot.call().await;
    assert_eq!(call.text(), "next");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
}

#[tokio::test]
async fn an_attempt_without_an_answer_is_repeated_where_the_repeat_is_known() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue_with("a", &["known"], |delivery| delivery.repeat_until = Some(now_ms() + 60_000)).await;
    scene.queue_with("a", &["over"], |delivery| delivery.repeat_until = Some(now_ms() - 1)).await;
    scene.queue("a", &["next"]).await;
    // A process begins the first one and dies.
    scene.begin_and_leave("a").await;
    let _running = scene.start();
    let first = robot.call().await;
    let body = first.body.clone();
    first.answer(Answer::Cut);
    assert_eq!(scene.verdict().await, words("retried", "no_answer"));
    let second = robot.call().await;
    assert_eq!(second.body, body, "the same bytes");
    second.code(0);
    assert_eq!(scene.verdict().await, words("delivered", ""));
    robot.call().await.answer(Answer::Cut);
    assert_eq!(scene.verdict().await, words("unknown", "no_answer"));
    let next = robot.call().await;
    assert_eq!(next.text(), "next");
    next.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn what_may_have_been_sent_is_never_called_unsent() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    // Begun by a process that died; by now the repeat is refused, or it is too old for one.
    scene.queue_with("a", &["refused"], |delivery| delivery.repeat_until = Some(now_ms() + 60_000)).await;
    scene.begin_and_leave("a").await;
    let running = scene.start();
    robot.call().await.code(40058);
    assert_eq!(scene.verdict().await, words("unknown", "rejected"));
    running.finish().await;
    let old = |delivery: &mut Delivery| (delivery.repeat_until, delivery.expires_at) = (Some(now_ms() + 60_000), 1);
    scene.queue_with("a", &["old"], old).await;
    scene.begin_and_leave("a").await;
    let _running = scene.start();
    assert_eq!(scene.verdict().await, words("unknown", "too_old"));
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn a_repeat_is_sent_within_its_window_and_only_its_delivery_tells() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    let repeat = |until: i64| {
        move |delivery: &mut Delivery| {
            (delivery.id, delivery.repeat_until) = (resend_id(&delivery.id), Some(until));
        }
    };
    let open = now_ms() + 60_000;
    scene.queue_with("a", &["refused"], repeat(open)).await;
    // Behind another, so that it is begun with that one's settle.
    scene.queue_with("a", &["over"], repeat(now_ms() - 1)).await;
    scene.queue_with("a", &["arrives"], repeat(open)).await;
    scene.queue_with("a", &["over"], repeat(now_ms() - 1)).await;
    scene.queue("a", &["next"]).await;
    let _running = scene.start();
    robot.call().await.code(40058);
    assert_eq!(scene.verdict().await, words("unknown", "rejected"));
    assert_eq!(scene.verdict().await, words("unknown", "no_answer"));
    for text in ["arrives", "next"] {
        let call = robot.call().await;
        assert_eq!(call.text(), text);
        call.code(0);
        assert_eq!(scene.verdict().await, words("delivered", ""));
        if text == "arrives" {
            assert_eq!(scene.verdict().await, words("unknown", "no_answer"));
        }
    }
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn a_begin_that_outlasts_the_repeats_window_writes_nothing() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue_with("a", &["known"], |delivery| delivery.repeat_until = Some(now_ms() + 1100)).await;
    scene.queue("a", &["next"]).await;
    scene.begin_and_leave("a").await;
    // With the pauses between them longer than that.
    scene.store.fail("begin", &[Fault::Unapplied; 5]);
    let _running = scene.start();
    assert_eq!(scene.verdict().await, words("unknown", "no_answer"));
    let next = robot.call().await;
    assert_eq!(next.text(), "next");
    next.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn a_store_that_fails_for_a_while_costs_neither_a_reply_nor_a_repeat() {
    for fault in [Fault::Unapplied, Fault::AnswerLost] {
        let mut robot = Robot::start().await;
        let scene = Scene::new(&robot, &["a"]).await;
        scene.queue("a", &["0", "1"]).await;
        scene.store.fail("claim_replies", &[Fault::Unapplied; 2]);
        scene.store.fail("begin", &[fault; 2]);
        let running = scene.start();
        for text in ["0", "1"] {
            let call = robot.call().await;
            assert_eq!(call.text(), text, "{fault:?}");
            scene.store.fail("settle", &[fault; 2]);
            call.code(0);
        }
        running.finish().await;
        assert_eq!(scene.ended().await, [ended("r0.0", "delivered"), ended("r0.1", "delivered")], "{fault:?}");
        assert!(robot.is_quiet());
    }
}

#[tokio::test]
async fn a_panic_ends_its_own_lane_only() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a", "b"]).await;
    scene.sender.max_chats = 1;
    scene.queue("a", &["0"]).await;
    scene.store.fail("begin", &[Fault::Panic]);
    let running = scene.start();
    assert!(matches!(scene.event().await, Event::Failed));
    scene.queue("b", &["1"]).await;
    let call = robot.call().await;
    assert_eq!(call.key, "b");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
    running.finish().await;
}

#[tokio::test]
async fn a_lease_is_renewed_while_a_robot_takes_its_time() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.sender.lease = Duration::from_millis(1500);
    scene.queue("a", &["0"]).await;
    let _running = scene.start();
    let call = robot.call().await;
    // Renewed at a third each time: after four the first lease is over.
    for _ in 0..4 {
        assert!(matches!(scene.event().await, Event::Renewed));
    }
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn stopping_finishes_what_is_under_way_and_begins_nothing_more() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue("a", &["under way", "waits"]).await;
    let running = scene.start();
    let call = robot.call().await;
    running.stop.draining.cancel();
    call.code(0);
    running.finish().await;
    assert_eq!(scene.verdict().await.0, "delivered");
    let status = scene.status("a").await;
    assert_eq!((status.depth, status.leased), (1, false));
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn at_the_cut_a_begun_lane_goes_back_as_begun() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue("a", &["perhaps sent", "next"]).await;
    let running = scene.start();
    let _unanswered = robot.call().await;
    running.stop.draining.cancel();
    running.stop.cut.cancel();
    running.finish().await;
    let status = scene.status("a").await;
    assert_eq!((status.depth, status.leased), (2, false));
    // Nobody waits for the end of a lease.
    let _running = scene.start();
    assert_eq!(scene.verdict().await, words("unknown", "interrupted"));
    let call = robot.call().await;
    assert_eq!(call.text(), "next");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
}

#[tokio::test]
async fn what_was_claimed_while_stopping_goes_back_unbegun() {
    let robot = Robot::start().await;
    let scene = Scene::new(&robot, &["a"]).await;
    scene.queue("a", &["waits"]).await;
    let running = scene.start();
    scene.store.cancel_at_claim(running.stop.draining.clone());
    running.stop.draining.cancelled().await;
    running.finish().await;
    let status = scene.status("a").await;
    assert_eq!((status.depth, status.leased), (1, false));
    assert!(robot.is_quiet());
}

#[tokio::test]
async fn a_chat_whose_webhook_was_replaced_is_served_by_the_new_one() {
    let mut robot = Robot::start().await;
    let mut scene = Scene::new(&robot, &["a"]).await;
    scene.queue("a", &["0"]).await;
    scene.route("a", &robot.webhook("new"));
    let _running = scene.start();
    let call = robot.call().await;
    assert_eq!(call.key, "new");
    call.code(0);
    assert_eq!(scene.verdict().await.0, "delivered");
}
