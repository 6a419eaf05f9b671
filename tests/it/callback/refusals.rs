//! Every status of the endpoint and the one shape of its errors; and what its log gives away.

use std::io::Write;
use std::sync::{Arc, Mutex};

use reqwest::Method;

use super::client::{INSIDE, UNSEEN};
use super::endpoint::{CHAT, CORP_APP, Endpoint, HOOK, text};
use super::seal::{CORP, Callback, seconds_from_now};
use crate::world::APP;

#[tokio::test]
async fn every_refusal_has_its_status_and_its_code() {
    let endpoint = Endpoint::new().await;
    let good = || Callback::of(text("refused", INSIDE));
    let rows = [
        (good().forged(), 403, "signature_mismatch"),
        (good().at(seconds_from_now(-31 * 60)), 403, "timestamp_skew"),
        (good().at("soon"), 400, "bad_timestamp"),
        (good().to(CORP_APP), 403, "receive_id_mismatch"),
        (Callback::for_receiver(text("refused", INSIDE), CORP), 403, "receive_id_mismatch"),
        (Callback::of_ciphertext("AAAA"), 400, "decrypt_failed"),
        (Callback::of(INSIDE), 400, "bad_payload"),
        (Callback::of(text("", INSIDE)), 400, "missing_field"),
        (good().to("nobody"), 404, "unknown_app"),
        (good().to(&APP.to_uppercase()), 404, "unknown_app"),
        (good().to(HOOK), 403, "unauthorized"),
    ];
    for (callback, status, code) in &rows {
        endpoint.client.post(callback).await.refused(*status, code);
    }
    endpoint.client.post_as(&good(), "").await.refused(400, "bad_envelope");
    for name in ["msg_signature", "timestamp", "nonce"] {
        let target = good().target().replace(&format!("{name}="), "other=");
        let answer = endpoint.client.ask(Method::POST, &target, &[], good().xml()).await;
        assert!(answer.refused(400, "missing_query").contains(name));
    }
    endpoint.nothing_of(&["refused"]).await;
    // Each is counted; a name that is no app's makes no counter.
    assert_eq!(endpoint.counted(APP, "receive_id_mismatch").await, 1);
    assert_eq!((endpoint.counted("nobody", "unknown_app").await, endpoint.counted("", "unknown_app").await), (0, 2));
    endpoint.world.end().await;
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_by_name() {
    let endpoint = Endpoint::new().await;
    let good = Callback::of(text("method", INSIDE));
    for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS, Method::TRACE] {
        let answer = endpoint.client.ask(method, &good.target(), &[], good.xml()).await;
        answer.refused(405, "method_not_allowed");
        assert_eq!(answer.header("allow"), "GET, POST");
    }
    let head = endpoint.client.ask(Method::HEAD, &good.target(), &[], "").await;
    assert_eq!((head.status, head.header("allow")), (405, "GET, POST"));
    for target in [
        "/",
        "/callback",
        "/callback/",
        "/callback/support/x",
        "/callback/support//",
        "//callback/support",
        "/metrics",
        "/livez",
    ] {
        for method in [Method::GET, Method::POST] {
            endpoint
                .client
                .ask(method, &format!("{target}?{}", good.query()), &[], good.xml())
                .await
                .refused(404, "not_found");
        }
    }
    for name in ["/", "%FF", "%00", "%2F", "..%2Fsupport", "support%20", "%E7%BE%A4", "support;x"] {
        let target = format!("/callback/{name}?{}", good.query());
        endpoint.client.ask(Method::POST, &target, &[], good.xml()).await.refused(404, "unknown_app");
    }
    endpoint.nothing_of(&["method"]).await;
    // A name is a name, however it is written.
    let target = good.target().replace("support", "supp%6Frt");
    endpoint.client.ask(Method::POST, &target, &[], good.xml()).await.taken();
    endpoint.world.end().await;
}

#[tokio::test]
async fn every_answer_has_a_name_of_its_own() {
    let endpoint = Endpoint::new().await;
    let good = Callback::of(text("named", "hi"));
    let mut names = Vec::new();
    for callback in [&good, &good, &good.clone().forged(), &good.clone().to("nobody")] {
        // The caller's own is not taken over.
        let answer =
            endpoint.client.ask(Method::POST, &callback.target(), &[("X-Request-Id", "mine")], callback.xml()).await;
        names.push(answer.header("x-request-id").to_owned());
    }
    let first = names[0].clone();
    assert_eq!(endpoint.trail("named").await["request_id"], first);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 4);
    endpoint.world.end().await;
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// On one thread, so that all of the gateway's tasks log where the test listens.
#[tokio::test(flavor = "current_thread")]
async fn the_log_names_messages_and_gives_nothing_away() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter("wecom_gateway=trace")
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let listening = tracing::subscriber::set_default(subscriber);
    // While there is just one subscriber, `tracing` takes the thread that first meets a log statement for all of them,
    // and that may be another test's, where nobody listens. With a second one it asks both.
    let _second = tracing::Dispatch::new(tracing_subscriber::registry());
    let endpoint = Endpoint::new().await;
    let good = Callback::of(text("logged-1", &format!("/echo {INSIDE}")));
    endpoint.client.post(&good).await.taken();
    endpoint.client.post(&good).await.taken();
    endpoint.client.post(&good.clone().forged()).await.refused(403, "signature_mismatch");
    endpoint.client.post(&good.to(CORP_APP)).await.refused(403, "receive_id_mismatch");
    endpoint.client.post(&Callback::of(INSIDE)).await.refused(400, "bad_payload");
    endpoint.fence().await;
    endpoint.world.end().await;
    drop(listening);
    let lines = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for seen in ["logged-1", CHAT, "u1", "signature_mismatch", "stored", "duplicate", "outcome=\"queued\""] {
        assert!(lines.contains(seen), "{seen} is not in the log:\n{lines}");
    }
    for unseen in UNSEEN.into_iter().chain([CORP]) {
        assert!(!lines.contains(unseen), "{unseen} is in the log:\n{lines}");
    }
}
