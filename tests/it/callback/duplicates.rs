//! `success` only after the message is stored; copies that come while the first is being stored share its answer.

use futures_util::future::join_all;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use wecom_gateway::sim::Scenario;

use super::client::Answer;
use super::endpoint::{AIBOT, text};
use super::gated::{Bare, Gate};
use super::seal::Callback;

/// The one message that most tests copy, encrypted anew each time.
fn copy() -> Callback {
    Callback::of(text("m1", "hi"))
}

/// Posts copies at once, each on a connection of its own, while the first of all is being stored.
async fn copies(bare: &Bare, number: usize) -> tokio::task::JoinHandle<Vec<Answer>> {
    let client = bare.client.clone();
    let posts = async move {
        let callbacks: Vec<Callback> = (0..number).map(|_| copy()).collect();
        join_all(callbacks.iter().map(|callback| client.post(callback))).await
    };
    let posts = tokio::spawn(posts);
    bare.store.until_came(1).await;
    posts
}

/// With a deadline that passes.
fn hasty(scenario: Scenario) -> Scenario {
    scenario.set("server", "deadline", "500ms")
}

#[tokio::test]
async fn nobody_is_told_success_before_the_message_is_stored() {
    let bare = Bare::new().await;
    bare.store.set(Gate::Shut);
    let first = copies(&bare, 1).await;
    let others = copies(&bare, 19).await;
    // Somebody else is answered meanwhile, and neither the first nor its copies.
    bare.client.post(&copy().forged()).await.refused(403, "signature_mismatch");
    assert!(!first.is_finished() && !others.is_finished());
    assert_eq!(bare.lanes().await, 0);
    bare.store.set(Gate::Open);
    for posts in [first, others] {
        posts.await.unwrap().iter().for_each(Answer::taken);
    }
    assert_eq!((bare.store.came(), bare.lanes().await), (1, 1));
    assert_eq!((bare.counted("stored"), bare.counted("duplicate")), (1, 19));
}

#[tokio::test]
async fn copies_do_not_ask_the_store_again() {
    let bare = Bare::with(hasty).await;
    bare.store.set(Gate::Shut);
    // Nobody gets through, so each of them waited for the one that is at the store.
    for answer in copies(&bare, 20).await.await.unwrap() {
        answer.refused(503, "store_timeout");
    }
    bare.client.post(&copy()).await.refused(503, "store_timeout");
    assert_eq!(bare.store.came(), 1);
    // Another message is not another's copy.
    bare.client.post(&Callback::of(text("m2", "hi"))).await.refused(503, "store_timeout");
    bare.client.post(&copy().to(AIBOT)).await.refused(503, "store_timeout");
    assert_eq!(bare.store.came(), 3);
}

#[tokio::test]
async fn a_write_that_came_late_is_remembered() {
    let bare = Bare::with(hasty).await;
    bare.store.set(Gate::Shut);
    bare.client.post(&copy()).await.refused(503, "store_timeout");
    bare.store.set(Gate::Open);
    bare.store.until_stored(1).await;
    bare.client.post(&copy()).await.taken();
    bare.client.post(&copy()).await.taken();
    assert_eq!((bare.store.came(), bare.lanes().await, bare.counted("duplicate")), (1, 1, 2));
}

#[tokio::test]
async fn a_failed_write_fails_its_copies_and_is_tried_again() {
    for gate in [Gate::Away, Gate::Broken] {
        let bare = Bare::new().await;
        bare.store.set(Gate::Shut);
        let posts = copies(&bare, 10).await;
        bare.store.set(gate);
        for answer in posts.await.unwrap() {
            answer.refused(503, "store_unavailable");
        }
        bare.store.set(Gate::Open);
        bare.client.post(&copy()).await.taken();
        assert_eq!(
            (bare.lanes().await, bare.counted("stored"), bare.counted("store_unavailable")),
            (1, 1, 10),
            "{gate:?}"
        );
    }
}

#[tokio::test]
async fn a_client_that_leaves_does_not_take_the_write_with_it() {
    let bare = Bare::new().await;
    bare.store.set(Gate::Shut);
    let first = copy();
    let mut leaving = TcpStream::connect(bare.client.address()).await.unwrap();
    let body = first.xml();
    let request =
        format!("POST {} HTTP/1.1\r\nHost: g\r\nContent-Length: {}\r\n\r\n{body}", first.target(), body.len());
    leaving.write_all(request.as_bytes()).await.unwrap();
    bare.store.until_came(1).await;
    drop(leaving);
    let posts = copies(&bare, 3).await;
    bare.store.set(Gate::Open);
    posts.await.unwrap().iter().for_each(Answer::taken);
    assert_eq!((bare.store.came(), bare.lanes().await), (1, 1));
}

#[tokio::test]
async fn within_the_window_the_store_is_not_asked_and_without_it_it_is() {
    for (window, asked) in [("10s", 1), ("0s", 4)] {
        let bare = Bare::with(|scenario| scenario.set("dedup", "window", window)).await;
        for _ in 0..4 {
            bare.client.post(&copy()).await.taken();
        }
        assert_eq!(bare.store.came(), asked, "{window}");
    }
}

#[tokio::test]
async fn a_full_lane_is_told_from_a_store_that_is_away() {
    let bare = Bare::with(|scenario| scenario.set("store", "lane_depth", 2)).await;
    let of_u1 = |n: usize| Callback::of(text(&format!("full-{n}"), "hi"));
    for n in 1..=2 {
        bare.client.post(&of_u1(n)).await.taken();
    }
    for _ in 0..2 {
        let sentence = bare.client.post(&of_u1(3)).await.refused(503, "lane_full");
        assert!(sentence.contains("lane_depth"), "{sentence}");
    }
    // Others have lanes of their own, and what is stored is still known.
    bare.client.post(&Callback::of(text("full-3", "hi").replace("u1", "u2"))).await.taken();
    bare.client.post(&of_u1(1)).await.taken();
    assert_eq!(bare.lanes().await, 2);
}

#[tokio::test]
async fn a_full_store_is_told_and_counted() {
    let bare = Bare::with(|scenario| scenario.set("store", "max_waiting", 2)).await;
    let of = |n: usize| Callback::of(text(&format!("full-{n}"), "hi").replace("u1", &format!("u{n}")));
    for n in 1..=2 {
        bare.client.post(&of(n)).await.taken();
    }
    let sentence = bare.client.post(&of(3)).await.refused(503, "store_full");
    assert!(sentence.contains("store.max_waiting"), "{sentence}");
    bare.client.post(&of(1)).await.taken();
    assert_eq!((bare.counted("store_full"), bare.lanes().await), (1, 2));
}

#[tokio::test]
async fn events_without_a_time_are_not_known_longer_by_a_longer_window() {
    // An hour is more than the minute for which the digest of such an event names it.
    let bare = Bare::with(|scenario| scenario.set("dedup", "window", "1h")).await;
    let timeless = "<xml><FromUserName>u</FromUserName><MsgType>event</MsgType><Event>enter_agent</Event></xml>";
    let timed = timeless.replace("<MsgType>", "<CreateTime>1700000000</CreateTime><MsgType>");
    for _ in 0..2 {
        bare.client.post(&Callback::of(timeless)).await.taken();
    }
    assert_eq!(bare.store.came(), 2);
    for _ in 0..2 {
        bare.client.post(&Callback::of(&timed)).await.taken();
    }
    assert_eq!(bare.store.came(), 3);
}
