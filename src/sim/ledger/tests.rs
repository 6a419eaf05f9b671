//! The ledger, told by hand what happened.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::*;

fn posted(ledger: &Ledger, serial: u64, answered: bool) -> Tag {
    let tag = Tag::new("c1", "u1", serial);
    ledger.expect(&tag, answered);
    ledger.posted(serial);
    ledger.acked(serial);
    tag
}

#[test]
fn each_broken_promise_is_seen() {
    let ledger = Ledger::default();
    let tags: Vec<Tag> = (1..=5).map(|n| posted(&ledger, n, n != 4)).collect();
    ledger.posted(1);
    ledger.replied("c1", &tags[1].to_string());
    ledger.replied("c1", &tags[0].to_string());
    ledger.replied("c1", &tags[1].to_string());
    ledger.replied("c2", &tags[2].to_string());
    ledger.replied("c1", &tags[3].to_string());
    ledger.replied("c1", "[c1 u2 5]");
    assert_eq!(
        ledger.violations(),
        [
            Violation::OutOfOrder { tag: tags[0].clone(), after: 2 },
            Violation::Repeated(tags[1].clone()),
            Violation::WrongChat { tag: tags[2].clone(), chat: "c2".into() },
            Violation::Unasked(tags[3].clone()),
            Violation::MixedContext { chat: "c1".into(), sender: "u2".into(), foreign: tags[4].clone() },
        ]
    );
    assert_eq!(ledger.lost(9), [tags[4].clone()]);
    let summary = ledger.summary();
    let counts = [summary.misrouted, summary.repeated, summary.out_of_order, summary.other];
    assert_eq!((counts, summary.kept()), ([1, 1, 1, 2], false));
    assert_eq!(
        summary.progress,
        Progress { posted: 5, acked: 5, copies: 1, wanted: 4, missing: 1, answered: 4, replies: 6, untagged: 0 }
    );
}

#[tokio::test]
async fn waiting_ends_with_the_last_reply_or_with_patience() {
    let ledger = Ledger::default();
    let tag = posted(&ledger, 1, true);
    assert!(!ledger.all_answered(Duration::from_millis(1)).await);
    let (done, ()) = tokio::join!(ledger.all_answered(Duration::from_secs(60)), async {
        tokio::task::yield_now().await;
        ledger.replied("c1", &tag.to_string());
    });
    assert!(done && ledger.summary().kept());
}

#[tokio::test]
async fn latencies_run_from_the_first_post_and_permits_until_the_reply() {
    let (ledger, permits) = (Ledger::default(), Arc::new(Semaphore::new(10)));
    for serial in 1..=100 {
        let tag = posted(&ledger, serial, true);
        if serial <= 10 {
            ledger.until_replied(serial, Arc::clone(&permits).acquire_owned().await.unwrap());
        }
        let first = ledger.state().messages[&serial].posted.unwrap();
        ledger.posted(serial);
        ledger.state().note_reply(&tag, first + Duration::from_millis(10 * serial));
    }
    let summary = ledger.summary();
    let close = |got: Duration, want: u64| got.abs_diff(Duration::from_millis(want)) <= Duration::from_millis(2);
    assert!(close(summary.p95, 950) && close(summary.p99, 990) && close(summary.mean, 505), "{summary:?}");
    assert_eq!(permits.available_permits(), 10);
    posted(&ledger, 101, false);
    ledger.until_replied(101, Arc::clone(&permits).acquire_owned().await.unwrap());
    assert_eq!(permits.available_permits(), 10, "it wants no reply");
    posted(&ledger, 102, true);
    ledger.until_replied(102, Arc::clone(&permits).acquire_owned().await.unwrap());
    assert_eq!(permits.available_permits(), 9);
}

#[test]
fn a_reply_that_outruns_its_ack_is_not_missing() {
    let ledger = Ledger::default();
    let tag = Tag::new("c1", "u1", 1);
    ledger.expect(&tag, true);
    ledger.posted(1);
    ledger.replied("c1", &tag.to_string());
    ledger.acked(1);
    assert_eq!(ledger.progress().missing, 0);
}

#[test]
fn order_is_owed_only_to_what_was_taken_before() {
    let ledger = Ledger::default();
    let tags: Vec<Tag> = (1..=3).map(|n| Tag::new("c1", "u1", n)).collect();
    for tag in &tags[..2] {
        ledger.expect(tag, true);
        ledger.posted(tag.serial);
    }
    // The first two were under way together, the third came after both.
    ledger.acked(2);
    ledger.acked(1);
    posted(&ledger, 3, true);
    ledger.replied("c1", &tags[1].to_string());
    ledger.replied("c1", &tags[0].to_string());
    assert_eq!(ledger.violations(), []);
    let ledger = Ledger::default();
    let tags: Vec<Tag> = (1..=2).map(|n| posted(&ledger, n, true)).collect();
    ledger.replied("c1", &tags[1].to_string());
    ledger.replied("c1", &tags[0].to_string());
    assert_eq!(ledger.violations(), [Violation::OutOfOrder { tag: tags[0].clone(), after: 2 }]);
}

#[test]
fn what_wecom_refused_is_not_lost() {
    let ledger = Ledger::default();
    let tags: Vec<Tag> = (1..=4).map(|n| posted(&ledger, n, true)).collect();
    let missing = || ledger.progress().missing;
    ledger.refused("c1", &tags[0].to_string(), Refusal::ForGood);
    ledger.refused("c1", &tags[1].to_string(), Refusal::ForNow);
    assert_eq!((missing(), ledger.summary().lost, ledger.summary().refused), (3, 2, 2), "the second may still come");
    ledger.replied("c1", &tags[1].to_string());
    ledger.refused("c1", &tags[2].to_string(), Refusal::ChatGone);
    assert_eq!((missing(), ledger.summary().lost, ledger.summary().refused), (0, 0, 3));
    posted(&ledger, 5, true);
    let summary = ledger.summary();
    assert_eq!((missing(), summary.lost, summary.refused, summary.kept()), (0, 0, 4, true), "its chat is gone");
}

#[test]
fn a_reply_without_a_tag_is_counted() {
    let ledger = Ledger::default();
    posted(&ledger, 1, true);
    ledger.replied("c1", "您好");
    assert_eq!((ledger.progress().untagged, ledger.progress().missing), (1, 1));
}
