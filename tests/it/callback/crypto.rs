//! Sealed callbacks, end to end: published vectors, every padding, receive ids, lengths that lie.

use serde::Deserialize;
use serde_json::{Value, json};

use super::client::{Client, INSIDE};
use super::endpoint::{ANY_APP, CHAT, CORP_APP, Endpoint, text};
use super::seal::{CORP, Callback, encrypt, padded, plaintext, sign};
use crate::world::APP;

#[derive(Deserialize)]
struct Vector {
    name: String,
    token: String,
    key: String,
    receive_id: String,
    timestamp: String,
    nonce: String,
    signature: Option<String>,
    signature_holds: bool,
    encrypt: String,
    plaintext: String,
}

impl Vector {
    fn all() -> Vec<Self> {
        let file: Value = serde_json::from_str(include_str!("../../data/crypto_vectors.json")).unwrap();
        serde_json::from_value(file["published"].clone()).unwrap()
    }

    fn app(&self) -> Value {
        json!({
            "kind": "group_robot", "token": self.token, "encoding_aes_key": self.key, "receive_id": self.receive_id,
        })
    }

    fn callback(&self) -> Callback {
        let made = || sign(&self.token, &self.timestamp, &self.nonce, &self.encrypt);
        Callback {
            app: self.name.clone(),
            timestamp: self.timestamp.clone(),
            nonce: self.nonce.clone(),
            ciphertext: self.encrypt.clone(),
            signature: self.signature.clone().unwrap_or_else(made),
        }
    }
}

#[tokio::test]
async fn published_vectors_are_answered_as_published() {
    let vectors = Vector::all();
    let endpoint = Endpoint::with(|scenario| {
        let any_time = scenario.set("dedup", "max_skew", "off");
        vectors.iter().fold(any_time, |scenario, vector| scenario.app(&vector.name, vector.app()))
    });
    let Endpoint { client, world } = endpoint.await;
    let mut refused = 0;
    for vector in &vectors {
        println!("{}", vector.name);
        let callback = vector.callback();
        let answer = client.get(&callback.verification()).await;
        if vector.signature.is_some() && !vector.signature_holds {
            answer.refused(403, "signature_mismatch");
            client.post(&callback).await.refused(403, "signature_mismatch");
            refused += 1;
            continue;
        }
        assert_eq!((answer.status, answer.body), (200, vector.plaintext.clone().into_bytes()));
        match vector.plaintext.contains("<MsgId>") {
            true => client.post(&callback).await.taken(),
            false => drop(client.post(&callback).await.refused(400, vector.refused_as())),
        }
    }
    assert_eq!(refused, 1);
    world.end().await;
}

impl Vector {
    /// As a message: a number is none, and one of them is a message without an id.
    fn refused_as(&self) -> &'static str {
        if self.plaintext.starts_with("<xml>") { "missing_field" } else { "bad_payload" }
    }
}

#[tokio::test]
async fn a_published_message_is_kept_as_it_was_written() {
    let vectors = Vector::all();
    let vector = vectors.iter().find(|vector| vector.name == "official-post-xml").unwrap();
    let endpoint =
        Endpoint::with(|scenario| scenario.set("dedup", "max_skew", "off").app(&vector.name, vector.app())).await;
    endpoint.client.post(&vector.callback()).await.taken();
    let trail = endpoint.trail("4561255354251345929").await;
    assert_eq!((&trail["chat"], &trail["sender"]), (&json!("mycreate"), &json!("mycreate")));
    endpoint.world.end().await;
}

/// A text of such a length that `pad` bytes are added.
fn padded_by(pad: usize) -> (String, Callback) {
    let id = format!("pad-{pad}");
    let message =
        (0..32).map(|fill| text(&id, &"x".repeat(fill))).find(|text| (20 + text.len() + pad).is_multiple_of(32));
    let message = message.unwrap();
    (id, Callback::of(message))
}

#[tokio::test]
async fn every_padding_is_taken() {
    let endpoint = Endpoint::new().await;
    for pad in 1..=32 {
        let (id, callback) = padded_by(pad);
        endpoint.client.post(&callback).await.taken();
        assert_eq!(endpoint.trail(&id).await["chat"], CHAT, "{id}");
    }
    // Padded to AES's own blocks, as some libraries do.
    let message = text("pad-short", "");
    let length = u32::try_from(message.len()).unwrap();
    let blocks = padded(plaintext(length, message.as_bytes(), b""), 16);
    endpoint.client.post(&Callback::of_blocks(blocks)).await.taken();
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_wrong_padding_is_refused() {
    let endpoint = Endpoint::new().await;
    let message = text("padded-wrong", INSIDE);
    let length = u32::try_from(message.len()).unwrap();
    let whole = plaintext(length, message.as_bytes(), b"");
    let ending = |bytes: &[u8]| {
        let mut blocks = whole.clone();
        blocks.resize(whole.len().next_multiple_of(32) + 64 - bytes.len(), 7);
        blocks.extend_from_slice(bytes);
        blocks
    };
    let uneven = [&[9][..], &[32; 30], &[32]].concat();
    for (name, bytes) in
        [("0", vec![0; 32]), ("33", vec![33; 33]), ("64", vec![64; 64]), ("255", vec![255]), ("uneven", uneven)]
    {
        println!("{name}");
        endpoint.client.post(&Callback::of_blocks(ending(&bytes))).await.refused(400, "decrypt_failed");
    }
    endpoint.nothing_of(&["padded-wrong"]).await;
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_receive_id_must_be_exactly_ones_own() {
    let endpoint = Endpoint::new().await;
    let upper = CORP.to_uppercase();
    let longer = format!("{CORP}\0\0");
    let rows = [
        (APP, "", true),
        (APP, CORP, false),
        (APP, " ", false),
        (CORP_APP, CORP, true),
        (CORP_APP, "", false),
        (CORP_APP, "ww5e1f00c0ffee1235", false),
        (CORP_APP, &upper, false),
        (CORP_APP, &longer, false),
        (CORP_APP, &CORP[..17], false),
        (ANY_APP, "", true),
        (ANY_APP, CORP, true),
        (ANY_APP, &longer, true),
    ];
    for (n, (app, receive_id, holds)) in rows.into_iter().enumerate() {
        let id = format!("receiver-{n}");
        let answer = endpoint.client.post(&Callback::for_receiver(text(&id, INSIDE), receive_id).to(app)).await;
        if holds {
            answer.taken();
            assert_eq!(endpoint.trail(&id).await["app"], app);
        } else {
            let sentence = answer.refused(403, "receive_id_mismatch");
            // Neither of the two ids, not in part either.
            assert!(!sentence.contains("ww") && !sentence.contains("WW") && !sentence.contains("34"), "{sentence}");
            endpoint.nothing_of(&[&id]).await;
        }
    }
    endpoint.world.end().await;
}

#[tokio::test]
async fn a_length_that_lies_is_refused() {
    let endpoint = Endpoint::new().await;
    let message = text("lies", INSIDE);
    let truth = u32::try_from(message.len()).unwrap();
    let ends_in_padding = truth + 1;
    for length in [0x7fff_ffff, 0xffff_ffff, 0xffff_ffec, 0xffff_ffed, 0x8000_0000, ends_in_padding] {
        for app in [APP, ANY_APP] {
            let blocks = padded(plaintext(length, message.as_bytes(), b""), 32);
            endpoint.client.post(&Callback::of_blocks(blocks).to(app)).await.refused(400, "decrypt_failed");
        }
    }
    // What is left over belongs to the receive id.
    let shorter = padded(plaintext(truth - 1, message.as_bytes(), b""), 32);
    endpoint.client.post(&Callback::of_blocks(shorter.clone())).await.refused(403, "receive_id_mismatch");
    endpoint.client.post(&Callback::of_blocks(shorter).to(ANY_APP)).await.refused(400, "bad_payload");
    // Too short for a length at all.
    for blocks in [padded(Vec::new(), 32), padded(vec![7; 19], 32), padded(vec![7; 3], 16)] {
        endpoint.client.post(&Callback::of_blocks(blocks)).await.refused(400, "decrypt_failed");
    }
    endpoint.nothing_of(&["lies"]).await;
    endpoint.world.end().await;
}

/// Characters that only the URL-safe alphabet has.
fn url_safe(ciphertext: &str) -> String {
    ciphertext.replace('+', "-").replace('/', "_")
}

async fn undecodable(client: &Client, ciphertext: String) {
    client.post(&Callback::of_ciphertext(ciphertext)).await.refused(400, "decrypt_failed");
}

#[tokio::test]
async fn a_ciphertext_that_is_none_is_refused() {
    let Endpoint { client, world } = Endpoint::new().await;
    let whole = std::iter::repeat_with(|| encrypt(padded(plaintext(12, b"<xml>1</xml>", b""), 32)))
        .find(|text| text.contains(['+', '/']) && text.ends_with('='))
        .unwrap();
    undecodable(&client, url_safe(&whole)).await;
    undecodable(&client, whole.trim_end_matches('=').into()).await;
    undecodable(&client, format!("{whole}AAAA")).await;
    undecodable(&client, format!("{} {}", &whole[..8], &whole[8..])).await;
    undecodable(&client, format!("{}\n{}", &whole[..8], &whole[8..])).await;
    undecodable(&client, whole[..20].into()).await;
    undecodable(&client, "AAAA".into()).await;
    undecodable(&client, "密文".into()).await;
    world.end().await;
}
