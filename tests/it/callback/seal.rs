//! WeCom's side of a callback, byte by byte. It is written from the protocol and uses nothing of the gateway, so that
//! a mistake there can't cancel itself out here, and so that it can also seal what WeCom never would.

use aes::Aes256;
use aes::cipher::{BlockModeEncrypt, KeyIvInit, block_padding::NoPadding};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rand::RngExt;
use sha1::{Digest, Sha1};
use wecom_gateway::model::now_ms;

use crate::world::APP;

pub const TOKEN: &str = "CallbackToken0001";
/// Two bits of its last character decode to nothing, as with three of four keys.
pub const KEY: &str = "Kq3vX9mT2bLw8ZrY5cHn7PdJ4sGf6AeU1oWiRtVyBxD";
/// The 42 characters that count whole, and the last one without those bits.
const STRICT_KEY: &str = "Kq3vX9mT2bLw8ZrY5cHn7PdJ4sGf6AeU1oWiRtVyBxA=";
pub const CORP: &str = "ww5e1f00c0ffee1234";

/// What is encrypted, before its padding: 16 random bytes, the length, the message, the receive id.
pub fn plaintext(length: u32, message: &[u8], receive_id: &[u8]) -> Vec<u8> {
    let random: [u8; 16] = rand::rng().random();
    [&random[..], &length.to_be_bytes(), message, receive_id].concat()
}

/// Pads to a multiple of `to`, always by one byte at least.
pub fn padded(mut text: Vec<u8>, to: usize) -> Vec<u8> {
    let pad = to - text.len() % to;
    text.resize(text.len() + pad, u8::try_from(pad).unwrap());
    text
}

/// AES-256-CBC of whole blocks, in base64.
pub fn encrypt(mut blocks: Vec<u8>) -> String {
    let key = STANDARD.decode(STRICT_KEY).unwrap();
    let cipher = cbc::Encryptor::<Aes256>::new_from_slices(&key, &key[..16]).unwrap();
    let length = blocks.len();
    cipher.encrypt_padded::<NoPadding>(&mut blocks, length).unwrap();
    STANDARD.encode(blocks)
}

/// The signature of a callback.
pub fn sign(token: &str, timestamp: &str, nonce: &str, ciphertext: &str) -> String {
    let mut values = [token, timestamp, nonce, ciphertext];
    values.sort_unstable();
    hex::encode(Sha1::digest(values.concat()))
}

/// A signed callback, on its way to an app.
#[derive(Clone, Debug)]
pub struct Callback {
    pub app: String,
    pub timestamp: String,
    pub nonce: String,
    pub ciphertext: String,
    pub signature: String,
}

impl Callback {
    /// As WeCom sends it to a robot: an empty receive id, the time now.
    pub fn of(message: impl AsRef<[u8]>) -> Self {
        Self::for_receiver(message, "")
    }

    /// With a receive id.
    pub fn for_receiver(message: impl AsRef<[u8]>, receive_id: &str) -> Self {
        let message = message.as_ref();
        let length = u32::try_from(message.len()).unwrap();
        Self::of_blocks(padded(plaintext(length, message, receive_id.as_bytes()), 32))
    }

    /// Around these very blocks.
    pub fn of_blocks(blocks: Vec<u8>) -> Self {
        Self::of_ciphertext(encrypt(blocks))
    }

    /// Around this very ciphertext.
    pub fn of_ciphertext(ciphertext: impl Into<String>) -> Self {
        let nonce = rand::rng().random_range(1_000_000_000_u64..10_000_000_000).to_string();
        let unsigned = Self {
            app: APP.into(),
            timestamp: String::new(),
            nonce,
            ciphertext: ciphertext.into(),
            signature: String::new(),
        };
        unsigned.at(seconds_from_now(0))
    }

    /// To another app.
    pub fn to(self, app: &str) -> Self {
        Self { app: app.into(), ..self }
    }

    /// Signed with this timestamp.
    pub fn at(self, timestamp: impl ToString) -> Self {
        let timestamp = timestamp.to_string();
        let signature = sign(TOKEN, &timestamp, &self.nonce, &self.ciphertext);
        Self { timestamp, signature, ..self }
    }

    /// With a signature that does not hold.
    pub fn forged(self) -> Self {
        let signature = sign("another token", &self.timestamp, &self.nonce, &self.ciphertext);
        Self { signature, ..self }
    }

    /// The three values that every callback's query has.
    pub fn query(&self) -> String {
        let [signature, timestamp, nonce] = [&self.signature, &self.timestamp, &self.nonce].map(|v| percent_encoded(v));
        format!("msg_signature={signature}&timestamp={timestamp}&nonce={nonce}")
    }

    /// Where it is posted to.
    pub fn target(&self) -> String {
        format!("/callback/{}?{}", self.app, self.query())
    }

    /// Where the URL verification asks, with the ciphertext as `echostr`.
    pub fn verification(&self) -> String {
        format!("{}&echostr={}", self.target(), percent_encoded(&self.ciphertext))
    }

    /// The body around the ciphertext.
    pub fn xml(&self) -> String {
        format!("<xml><ToUserName><![CDATA[x]]></ToUserName><Encrypt><![CDATA[{}]]></Encrypt></xml>", self.ciphertext)
    }

    /// The body of a smart robot.
    pub fn json(&self) -> String {
        serde_json::json!({"encrypt": self.ciphertext}).to_string()
    }
}

/// Unix seconds, so far from now.
pub fn seconds_from_now(seconds: i64) -> i64 {
    now_ms() / 1000 + seconds
}

/// As part of a path or a query.
pub fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}
