//! Published vectors, every padding, and what must be refused.

use proptest::prelude::*;
use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Vectors {
    published: Vec<Published>,
    aligned: Vec<Aligned>,
}

#[derive(Deserialize)]
struct Published {
    name: String,
    token: String,
    key: String,
    receive_id: String,
    timestamp: String,
    nonce: String,
    signature: Option<String>,
    signature_holds: bool,
    random: Option<String>,
    encrypt: String,
    plaintext: String,
}

#[derive(Deserialize)]
struct Aligned {
    message_bytes: usize,
    pad: u8,
    key: String,
    random: String,
    receive_id: String,
    encrypt: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("../../../tests/data/crypto_vectors.json")).unwrap()
}

const KEY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ012345D";
const RANDOM: [u8; 16] = *b"0123456789abcdef";

fn crypto(receive_id: &str) -> CallbackCrypto {
    with_key(KEY, ReceiveId::Exactly(receive_id.into())).unwrap()
}

fn with_key(key: &str, receive_id: ReceiveId) -> Result<CallbackCrypto, CryptoError> {
    CallbackCrypto::new(Secret::new("TestToken0001"), &Secret::new(key), receive_id)
}

fn sixteen(text: &str) -> [u8; 16] {
    text.as_bytes().try_into().unwrap()
}

/// Encrypts bytes exactly as they are: whatever header, tail and padding a test wants to get wrong.
fn seal_raw(crypto: &CallbackCrypto, text: &[u8]) -> String {
    let mut text = text.to_vec();
    let (blocks, rest) = Block::<Aes256>::slice_as_chunks_mut(&mut text);
    assert!(rest.is_empty());
    cbc::Encryptor::inner_iv_init(&crypto.key.cipher, &Array(crypto.key.iv)).encrypt_blocks(blocks);
    STANDARD.encode(text)
}

/// Header with `length`, then `rest`, then padding up to the next multiple of 32.
fn sealed_with_length(crypto: &CallbackCrypto, length: u32, rest: &[u8]) -> String {
    let mut text = [&RANDOM[..], &length.to_be_bytes(), rest].concat();
    let pad = PAD_TO - text.len() % PAD_TO;
    text.resize(text.len() + pad, pad as u8);
    seal_raw(crypto, &text)
}

#[test]
fn published_vectors_verify_decrypt_and_encrypt() {
    let all = vectors().published;
    assert_eq!(all.len(), 8);
    for v in all {
        let receive_id = ReceiveId::Exactly(v.receive_id);
        let crypto = CallbackCrypto::new(Secret::new(v.token), &Secret::new(v.key), receive_id).unwrap();
        let plaintext = crypto.decrypt(&v.encrypt).unwrap();
        assert_eq!(String::from_utf8(plaintext).unwrap(), v.plaintext, "{}", v.name);
        if let Some(signature) = v.signature {
            assert_eq!(crypto.verify(&signature, &v.timestamp, &v.nonce, &v.encrypt), v.signature_holds, "{}", v.name);
            assert_eq!(crypto.sign(&v.timestamp, &v.nonce, &v.encrypt) == signature, v.signature_holds, "{}", v.name);
        }
        if let Some(random) = v.random {
            assert_eq!(crypto.encrypt(v.plaintext.as_bytes(), sixteen(&random)), v.encrypt, "{}", v.name);
        }
    }
}

#[test]
fn messages_that_end_on_a_block_get_whole_padding() {
    let all = vectors().aligned;
    assert_eq!(all.iter().map(|v| v.pad).collect::<Vec<_>>(), [12, 1, 32, 17, 16, 32]);
    for v in all {
        let crypto = with_key(&v.key, ReceiveId::Exactly(v.receive_id)).unwrap();
        let message = "m".repeat(v.message_bytes);
        assert_eq!(crypto.decrypt(&v.encrypt).unwrap(), message.as_bytes(), "{} bytes", v.message_bytes);
        assert_eq!(crypto.encrypt(message.as_bytes(), sixteen(&v.random)), v.encrypt, "{} bytes", v.message_bytes);
    }
}

#[test]
fn a_key_is_taken_with_blanks_around_and_one_equals_sign() {
    let sealed = crypto("").encrypt(b"hi", RANDOM);
    for key in [KEY.to_owned(), format!("{KEY}="), format!("  {KEY}\n"), format!("{KEY}= ")] {
        let crypto = with_key(&key, ReceiveId::Exactly(String::new())).unwrap();
        assert_eq!(crypto.decrypt(&sealed).unwrap(), b"hi");
    }
    for last in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".chars() {
        assert!(with_key(&format!("{}{last}", &KEY[..42]), ReceiveId::Any).is_ok(), "a key may end in {last}");
    }
}

#[test]
fn a_wrong_key_is_refused_with_its_fault_and_without_itself() {
    let length = |found| CryptoError::KeyLength { found };
    let rows = [
        (String::new(), length(0)),
        (KEY[..42].to_owned(), length(42)),
        (format!("{KEY}A"), length(44)),
        (format!("{KEY}=="), CryptoError::KeyCharacter { position: 44 }),
        (KEY.replace('m', " "), CryptoError::KeyCharacter { position: 13 }),
        (KEY.replace('e', "键"), CryptoError::KeyCharacter { position: 5 }),
        (KEY.replace('z', "-"), CryptoError::KeyCharacter { position: 26 }),
    ];
    for (key, fault) in rows {
        let found = with_key(&key, ReceiveId::Any).unwrap_err();
        assert!(!found.to_string().contains("abcd"), "{found}");
        assert_eq!(found, fault);
    }
}

#[test]
fn debug_shows_neither_token_nor_key() {
    let shown = format!("{:?}", crypto("ww1"));
    assert!(!shown.contains("TestToken") && !shown.contains("abcd"), "{shown}");
    assert!(shown.contains("AesKey(***)"), "{shown}");
}

#[test]
fn signatures_are_hex_of_either_case_and_whole() {
    let crypto = crypto("");
    let signature = crypto.sign("1700000000", "77", "abc");
    assert!(crypto.verify(&signature, "1700000000", "77", "abc"));
    assert!(crypto.verify(&signature.to_uppercase(), "1700000000", "77", "abc"));
    assert!(!crypto.verify(&signature, "1700000001", "77", "abc"));
    assert!(!crypto.verify(&signature, "1700000000", "77", "abd"));
    for wrong in
        ["", "0", &signature[1..], &format!("{signature}00"), &format!("0{signature}"), &"g".repeat(40), "签名"]
    {
        assert!(!crypto.verify(wrong, "1700000000", "77", "abc"), "{wrong}");
    }
}

#[test]
fn only_whole_standard_base64_blocks_are_read() {
    let crypto = crypto("");
    let good = crypto.encrypt(b"hello", RANDOM);
    for (text, why) in [
        (format!("{} {}", &good[..8], &good[8..]), "a blank inside"),
        (format!("{good}\n"), "a line feed behind"),
        (good.replace('=', ""), "no padding"),
        (format!("-{}", &good[1..]), "the URL-safe alphabet"),
        ("密文".to_owned(), "no ASCII"),
    ] {
        assert_eq!(crypto.decrypt(&text), Err(CryptoError::Base64), "{why}");
    }
    assert_eq!(crypto.decrypt(""), Err(CryptoError::BlockLength { found: 0 }));
    assert_eq!(crypto.decrypt("AAAA"), Err(CryptoError::BlockLength { found: 3 }));
    assert_eq!(crypto.decrypt(&STANDARD.encode([0; 17])), Err(CryptoError::BlockLength { found: 17 }));
}

#[test]
fn every_pad_byte_is_checked() {
    let crypto = crypto("");
    let body = [&RANDOM[..], &1u32.to_be_bytes(), b"x"].concat();
    let padded = |pad: &[u8]| crypto.decrypt(&seal_raw(&crypto, &[&body[..], pad].concat()));
    assert_eq!(padded(&[11; 11]).unwrap(), b"x");
    // A pad to 16 rather than 32 is another peer's habit, and as clear.
    assert_eq!(padded(&[27; 27]).unwrap(), b"x");
    for wrong in [[0; 11], [33; 11], [255; 11], [12; 11]] {
        assert_eq!(padded(&wrong), Err(CryptoError::Padding), "{wrong:?}");
    }
    for place in 0..10 {
        let mut pad = [11; 11];
        pad[place] = 10;
        assert_eq!(padded(&pad), Err(CryptoError::Padding), "byte {place}");
    }
    assert_eq!(crypto.decrypt(&seal_raw(&crypto, &[32; 16])), Err(CryptoError::Padding), "pad longer than the text");
}

#[test]
fn a_length_that_lies_is_refused() {
    let crypto = crypto("");
    for length in [6, 0x7fff_ffff, 0xffff_ffff, 0xffff_ffec] {
        let sealed = sealed_with_length(&crypto, length, b"hello");
        assert_eq!(crypto.decrypt(&sealed), Err(CryptoError::Length), "{length:x}");
    }
    assert_eq!(crypto.decrypt(&sealed_with_length(&crypto, 5, b"hello")).unwrap(), b"hello");
    // Only padding and no room for a header.
    assert_eq!(crypto.decrypt(&seal_raw(&crypto, &[16; 16])), Err(CryptoError::Length));
}

#[test]
fn receive_ids_are_compared_exactly() {
    let ours = crypto("ww00000000000000aa");
    let sent_to = |id: &str| ours.decrypt(&crypto(id).encrypt(b"hi", RANDOM));
    assert_eq!(sent_to("ww00000000000000aa").unwrap(), b"hi");
    for other in ["", "ww00000000000000bb", "ww00000000000000a", "WW00000000000000AA", "ww00000000000000aa\0\0"] {
        let refused = sent_to(other).unwrap_err();
        assert!(refused.is_receive_id_mismatch(), "{other:?}: {refused}");
        assert!(!refused.to_string().contains("000000"), "{refused}");
    }
    assert!(crypto("").decrypt(&ours.encrypt(b"hi", RANDOM)).unwrap_err().is_receive_id_mismatch());
    let any = with_key(KEY, ReceiveId::Any).unwrap();
    assert_eq!(any.decrypt(&ours.encrypt(b"hi", RANDOM)).unwrap(), b"hi");
    assert!(!CryptoError::Padding.is_receive_id_mismatch());
}

#[test]
fn a_mismatch_names_both_sides_masked() {
    let refused = crypto("ww00000000000000aa").decrypt(&crypto("").encrypt(b"", RANDOM)).unwrap_err();
    assert_eq!(refused.to_string(), "the receive id is empty, expected ww…aa (18 bytes)");
    assert_eq!((mask(b"short"), mask("企业微信".as_bytes())), ("… (5 bytes)".into(), "… (12 bytes)".into()));
}

#[test]
fn sealed_answers_can_be_opened() {
    let crypto = crypto("ww00000000000000aa");
    let xml = crypto.seal_xml(b"<xml/>", RANDOM, 1_700_000_000, "n]]>1");
    assert!(xml.contains("<TimeStamp>1700000000</TimeStamp>"), "{xml}");
    let encrypt = super::super::envelope::ciphertext(xml.as_bytes()).unwrap();
    assert_eq!(crypto.decrypt(&encrypt).unwrap(), b"<xml/>");
    assert!(xml.contains(&crypto.sign("1700000000", "n]]>1", &encrypt)), "{xml}");

    let json: serde_json::Value =
        serde_json::from_str(&crypto.seal_json(b"{}", RANDOM, 1_700_000_000, "n\"1")).unwrap();
    let text = |name: &str| json[name].as_str().unwrap();
    assert_eq!(json["timestamp"], 1_700_000_000);
    assert_eq!(text("nonce"), "n\"1");
    assert!(crypto.verify(text("msgsignature"), "1700000000", "n\"1", text("encrypt")));
    assert_eq!(crypto.decrypt(text("encrypt")).unwrap(), b"{}");
}

proptest! {
    #[test]
    fn every_padding_comes_back(
        start in prop::collection::vec(any::<u8>(), 0..200),
        random in any::<[u8; 16]>(),
        receive_id in "[a-z0-9]{0,20}",
    ) {
        let crypto = crypto(&receive_id);
        let mut pads = [false; PAD_TO];
        let mut message = start;
        for _ in 0..PAD_TO {
            let sealed = crypto.encrypt(&message, random);
            prop_assert_eq!(STANDARD.decode(&sealed).unwrap().len() % PAD_TO, 0);
            prop_assert_eq!(&crypto.decrypt(&sealed).unwrap(), &message);
            pads[(HEADER + message.len() + receive_id.len()) % PAD_TO] = true;
            message.push(b'm');
        }
        prop_assert!(pads.iter().all(|&seen| seen));
    }

    #[test]
    fn nothing_from_outside_panics(bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        let crypto = with_key(KEY, ReceiveId::Any).unwrap();
        let blocks: Vec<u8> = bytes.iter().flat_map(|&byte| [byte; AES_BLOCK]).collect();
        let _ = crypto.decrypt(&seal_raw(&crypto, &blocks));
        let _ = crypto.decrypt(&STANDARD.encode(&bytes));
    }
}
