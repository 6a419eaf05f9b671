//! The URL verification: what makes WeCom's console say "saved".

use super::client::Client;
use super::endpoint::{AIBOT, ANY_APP, CORP_APP, Endpoint, HOOK};
use super::seal::{CORP, Callback, percent_encoded, seconds_from_now};
use crate::world::APP;

/// Beyond 2^53, and with a zero in front: not to be taken for a number.
const PLAIN: &str = "01616140317555161061";

/// An `echostr` with a `+` in it, as most have.
fn with_a_plus() -> Callback {
    std::iter::repeat_with(|| Callback::of(PLAIN)).find(|callback| callback.ciphertext.contains('+')).unwrap()
}

async fn answers_plain(client: &Client, target: &str) {
    let answer = client.get(target).await;
    assert_eq!((answer.status, answer.body.as_slice()), (200, PLAIN.as_bytes()), "{target}: {answer:?}");
    assert!(answer.header("content-type").starts_with("text/plain"), "{answer:?}");
}

#[tokio::test]
async fn the_plain_echostr_is_the_whole_answer() {
    let Endpoint { client, world } = Endpoint::new().await;
    for (app, receive_id) in [(APP, ""), (CORP_APP, CORP), (ANY_APP, "whoever"), (AIBOT, "")] {
        let callback = Callback::for_receiver(PLAIN, receive_id).to(app);
        answers_plain(&client, &callback.verification()).await;
        answers_plain(&client, &callback.verification().replacen('?', "/?", 1)).await;
    }
    // Whatever the bytes are, they come back: no line feed is cut or added, nothing is read as UTF-8.
    for bytes in [&b"7\n"[..], b"\xef\xbb\xbf7", b"\xff\x00\"", b""] {
        let answer = client.get(&Callback::of(bytes).verification()).await;
        assert_eq!((answer.status, answer.body.as_slice()), (200, bytes));
    }
    world.end().await;
}

#[tokio::test]
async fn a_plus_may_arrive_encoded_raw_or_as_a_blank() {
    let Endpoint { client, world } = Endpoint::new().await;
    let callback = with_a_plus();
    let encoded = percent_encoded(&callback.ciphertext);
    let lower = encoded.replace("%2B", "%2b").replace("%2F", "%2f").replace("%3D", "%3d");
    for echostr in [&encoded, &lower, &callback.ciphertext, &encoded.replace("%2B", "%20")] {
        answers_plain(&client, &format!("{}&echostr={echostr}", callback.target())).await;
    }
    world.end().await;
}

#[tokio::test]
async fn names_of_the_signature_and_its_case_do_not_matter() {
    let Endpoint { client, world } = Endpoint::new().await;
    let callback = Callback::of(PLAIN);
    for name in ["msg_signature", "msgsignature", "signature"] {
        answers_plain(&client, &callback.verification().replace("msg_signature", name)).await;
    }
    let upper = Callback { signature: callback.signature.to_uppercase(), ..callback.clone() };
    answers_plain(&client, &upper.verification()).await;
    // The order of parameters and those of one's own neither.
    let Callback { signature, timestamp, nonce, ciphertext, .. } = &callback;
    let echostr = percent_encoded(ciphertext);
    let query = format!("a=1&echostr={echostr}&nonce={nonce}&robot_callback_format=json&timestamp={timestamp}");
    answers_plain(&client, &format!("/callback/{APP}?{query}&msg_signature={signature}&b")).await;
    world.end().await;
}

#[tokio::test]
async fn what_does_not_hold_is_refused() {
    let Endpoint { client, world } = Endpoint::new().await;
    let good = || Callback::of(PLAIN);
    let one_digit_off = |callback: Callback| {
        let digit = if callback.signature.starts_with('0') { "1" } else { "0" };
        Callback { signature: format!("{digit}{}", &callback.signature[1..]), ..callback }
    };
    let rows = [
        ("forged", good().forged(), 403, "signature_mismatch"),
        ("one digit", one_digit_off(good()), 403, "signature_mismatch"),
        ("too short", Callback { signature: good().signature[..38].into(), ..good() }, 403, "signature_mismatch"),
        ("no hex", Callback { signature: "x".repeat(40), ..good() }, 403, "signature_mismatch"),
        ("empty", Callback { signature: String::new(), ..good() }, 403, "signature_mismatch"),
        ("nonce changed", Callback { nonce: "1".into(), ..good() }, 403, "signature_mismatch"),
        ("too old", good().at(seconds_from_now(-31 * 60)), 403, "timestamp_skew"),
        ("ahead", good().at(seconds_from_now(6 * 60)), 403, "timestamp_skew"),
        ("no time", good().at("now"), 400, "bad_timestamp"),
        ("for another", Callback::for_receiver(PLAIN, CORP), 403, "receive_id_mismatch"),
        ("for nobody", good().to(CORP_APP), 403, "receive_id_mismatch"),
        ("no ciphertext", Callback::of_ciphertext("hello"), 400, "decrypt_failed"),
        ("nothing", Callback::of_ciphertext(""), 400, "decrypt_failed"),
        ("unknown app", good().to("nobody"), 404, "unknown_app"),
    ];
    for (name, callback, status, code) in rows {
        println!("{name}");
        client.get(&callback.verification()).await.refused(status, code);
    }
    let json = client.get(&good().to(HOOK).verification()).await;
    json.refused(405, "method_not_allowed");
    assert_eq!(json.header("allow"), "POST");
    world.end().await;
}

#[tokio::test]
async fn a_missing_parameter_is_named() {
    let Endpoint { client, world } = Endpoint::new().await;
    let whole = Callback::of(PLAIN).verification();
    for name in ["msg_signature", "timestamp", "nonce", "echostr"] {
        let without = whole.replace(&format!("{name}="), "other=");
        let sentence = client.get(&without).await.refused(400, "missing_query");
        assert!(sentence.contains(name), "{sentence}");
    }
    client.get(&format!("/callback/{APP}")).await.refused(400, "missing_query");
    world.end().await;
}

#[tokio::test]
async fn a_time_within_the_window_is_taken_at_both_ends() {
    let Endpoint { client, world } = Endpoint::new().await;
    for seconds in [-29 * 60, -60, 0, 4 * 60] {
        answers_plain(&client, &Callback::of(PLAIN).at(seconds_from_now(seconds)).verification()).await;
    }
    world.end().await;
    let any_time = Endpoint::with(|scenario| scenario.set("dedup", "max_skew", "off")).await;
    for timestamp in ["-1", "0", "1409659813"] {
        answers_plain(&any_time.client, &Callback::of(PLAIN).at(timestamp).verification()).await;
    }
    any_time.world.end().await;
}

#[tokio::test]
async fn the_signature_covers_the_values_as_they_were_received() {
    let Endpoint { client, world } = Endpoint::new().await;
    let callback = Callback::of(PLAIN);
    // A nonce with blanks and signs, and a timestamp with zeros in front: signed as they stand.
    let timestamp = format!("000{}", callback.timestamp);
    let odd = Callback { nonce: "a b&c=d%".into(), ..callback }.at(timestamp);
    answers_plain(&client, &odd.verification()).await;
    world.end().await;
}
