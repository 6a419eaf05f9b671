//! Callback crypto: signature, decryption, and the encrypted answer.
//!
//! WeCom signs each callback with SHA-1 over four sorted values and encrypts its payload with AES-256-CBC under a
//! key that travels as 43 base64 characters ("加解密方案说明", developer.work.weixin.qq.com/document/path/90968).
//! Two details break most implementations, and both hold here: the last character of a key may carry bits that
//! decode to nothing, and the padding runs from 1 to **32** although AES blocks have 16 bytes.
//!
//! What always holds: the key schedule is computed once; the signature is compared in constant time; every length
//! is checked before it is used; no error and no `Debug` shows a key, a token or a whole receive id.

use std::fmt;
use std::sync::Arc;

use aes::Aes256;
use aes::cipher::{Array, Block, BlockModeDecrypt, BlockModeEncrypt, InnerIvInit, KeyInit};
use base64::Engine as _;
use base64::engine::general_purpose::{GeneralPurpose, PAD_INDIFFERENT, STANDARD};
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

use crate::model::Secret;

/// Characters of an EncodingAESKey.
const KEY_CHARACTERS: usize = 43;
/// Random bytes and the message's length, in front of the message.
const HEADER: usize = 20;
/// Plaintexts are padded to a multiple of this, always by at least one byte.
const PAD_TO: usize = 32;
const AES_BLOCK: usize = 16;

/// 43 characters hold 258 bits, a key 256: three of four generated keys end in bits that a strict decoder refuses.
const KEY_BASE64: GeneralPurpose =
    GeneralPurpose::new(&base64::alphabet::STANDARD, PAD_INDIFFERENT.with_decode_allow_trailing_bits(true));

/// Token, key and receive id of one app. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CallbackCrypto {
    token: Secret,
    key: Arc<AesKey>,
    receive_id: ReceiveId,
}

/// The key's schedule and its IV, which is the key's own first block.
struct AesKey {
    cipher: Aes256,
    iv: [u8; AES_BLOCK],
}

impl fmt::Debug for AesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesKey(***)")
    }
}

/// What the decrypted tail must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiveId {
    /// Compared exactly (may be empty): the corp id of a self-built app, empty for robots.
    Exactly(String),
    /// Not checked (`*`).
    Any,
}

/// What a ciphertext holds.
#[derive(PartialEq, Eq)]
pub struct Opened {
    /// The message.
    pub message: Vec<u8>,
    /// For whom it was made.
    pub receive_id: Vec<u8>,
}

/// Why a key or a callback is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// The key is too short or too long.
    #[error("an EncodingAESKey has {KEY_CHARACTERS} characters, this one has {found}")]
    KeyLength {
        /// Its characters, without blanks around it and one `=` at its end.
        found: usize,
    },
    /// The key holds something else than base64.
    #[error("character {position} of the EncodingAESKey is not of the base64 alphabet (A-Z a-z 0-9 + /)")]
    KeyCharacter {
        /// Counted from 1.
        position: usize,
    },
    /// The ciphertext is no base64 (blanks inside it are none).
    #[error("the ciphertext is not base64")]
    Base64,
    /// The ciphertext is not made of whole AES blocks.
    #[error("the ciphertext has {found} bytes, not a positive multiple of {AES_BLOCK}")]
    BlockLength {
        /// Its bytes.
        found: usize,
    },
    /// The padding is not 1..=32 equal bytes: another key, or a damaged text.
    #[error("the padding is wrong: encrypted with another key, or damaged")]
    Padding,
    /// The length written inside doesn't fit the text around it.
    #[error("the length inside the decrypted text does not fit it")]
    Length,
    /// Sent to somebody else. Both ids are masked.
    #[error("the receive id is {found}, expected {expected}")]
    ReceiveId {
        /// What the app is configured for.
        expected: String,
        /// What the callback carried.
        found: String,
    },
}

impl CryptoError {
    /// Whether the callback was meant for another receiver (403) rather than unreadable (400).
    pub fn is_receive_id_mismatch(&self) -> bool {
        matches!(self, Self::ReceiveId { .. })
    }
}

impl CallbackCrypto {
    /// Checks the key: 43 characters of base64 alphabet; blanks around it and one `=` at its end are taken.
    ///
    /// # Errors
    /// [`CryptoError::KeyLength`] or [`CryptoError::KeyCharacter`].
    pub fn new(token: Secret, encoding_aes_key: &Secret, receive_id: ReceiveId) -> Result<Self, CryptoError> {
        let text = encoding_aes_key.expose().trim();
        let text = text.strip_suffix('=').unwrap_or(text);
        let alien = |c: char| !(c.is_ascii_alphanumeric() || c == '+' || c == '/');
        if let Some(position) = text.chars().position(alien) {
            return Err(CryptoError::KeyCharacter { position: position + 1 });
        }
        let wrong_length = || CryptoError::KeyLength { found: text.len() };
        if text.len() != KEY_CHARACTERS {
            return Err(wrong_length());
        }
        let bytes = KEY_BASE64.decode(text).map_err(|_| wrong_length())?;
        let key: [u8; 32] = bytes.try_into().map_err(|_| wrong_length())?;
        let mut iv = [0; AES_BLOCK];
        iv.copy_from_slice(&key[..AES_BLOCK]);
        let key = AesKey { cipher: Aes256::new(&Array(key)), iv };
        Ok(Self { token, key: Arc::new(key), receive_id })
    }

    /// Whether token or key are the same. An IV is the first half of its key, so that equal ones tell of equal keys.
    pub fn shares_a_secret_with(&self, other: &Self) -> bool {
        self.token == other.token || self.key.iv == other.key.iv
    }

    /// Whether `msg_signature` (hex, either case) is right, in constant time.
    pub fn verify(&self, msg_signature: &str, timestamp: &str, nonce: &str, encrypt: &str) -> bool {
        let mut given = [0; 20];
        hex::decode_to_slice(msg_signature, &mut given).is_ok()
            && given.ct_eq(&self.digest(timestamp, nonce, encrypt)).into()
    }

    /// `sha1_hex(concat(sort([token, timestamp, nonce, encrypt])))`: the values are sorted, not their names.
    pub fn sign(&self, timestamp: &str, nonce: &str, encrypt: &str) -> String {
        hex::encode(self.digest(timestamp, nonce, encrypt))
    }

    fn digest(&self, timestamp: &str, nonce: &str, encrypt: &str) -> [u8; 20] {
        let mut values = [self.token.expose(), timestamp, nonce, encrypt];
        values.sort_unstable();
        values.iter().fold(Sha1::new(), |sha, value| sha.chain_update(value)).finalize().into()
    }

    /// The message inside a ciphertext: base64, AES-256-CBC, padding, length, receive id.
    ///
    /// # Errors
    /// [`CryptoError::ReceiveId`] when it was meant for somebody else, another variant when it can't be read.
    pub fn decrypt(&self, encrypt: &str) -> Result<Vec<u8>, CryptoError> {
        let Opened { message, receive_id } = self.open(encrypt)?;
        self.check_receive_id(&receive_id)?;
        Ok(message)
    }

    /// As [`Self::decrypt`], for whomever it was meant.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn open(&self, encrypt: &str) -> Result<Opened, CryptoError> {
        let mut text = STANDARD.decode(encrypt).map_err(|_| CryptoError::Base64)?;
        let found = text.len();
        let (blocks, rest) = Block::<Aes256>::slice_as_chunks_mut(&mut text);
        if blocks.is_empty() || !rest.is_empty() {
            return Err(CryptoError::BlockLength { found });
        }
        cbc::Decryptor::inner_iv_init(&self.key.cipher, &Array(self.key.iv)).decrypt_blocks(blocks);
        text.truncate(unpadded_length(&text)?);
        let receive_id = text.split_off(message_end(&text)?);
        text.drain(..HEADER);
        Ok(Opened { message: text, receive_id })
    }

    /// What the decrypted tail must be.
    pub fn receive_id(&self) -> &ReceiveId {
        &self.receive_id
    }

    /// Whether a decrypted tail is what it must be.
    ///
    /// # Errors
    /// [`CryptoError::ReceiveId`].
    pub fn check_receive_id(&self, found: &[u8]) -> Result<(), CryptoError> {
        match &self.receive_id {
            ReceiveId::Exactly(expected) if expected.as_bytes() != found => {
                Err(CryptoError::ReceiveId { expected: mask(expected.as_bytes()), found: mask(found) })
            }
            ReceiveId::Exactly(_) | ReceiveId::Any => Ok(()),
        }
    }

    /// The reverse of [`Self::decrypt`], with the 16 random bytes given. Where any receive id is taken, none is written.
    pub fn encrypt(&self, plaintext: &[u8], random: [u8; 16]) -> String {
        let receive_id = match &self.receive_id {
            ReceiveId::Exactly(id) => id.as_bytes(),
            ReceiveId::Any => &[],
        };
        // Four bytes hold any length that fits into a callback, by far; a longer text could not be read back.
        let length = u32::try_from(plaintext.len()).unwrap_or(u32::MAX);
        let mut text = Vec::with_capacity(HEADER + plaintext.len() + receive_id.len() + PAD_TO);
        text.extend_from_slice(&random);
        text.extend_from_slice(&length.to_be_bytes());
        text.extend_from_slice(plaintext);
        text.extend_from_slice(receive_id);
        let pad = PAD_TO - text.len() % PAD_TO;
        text.resize(text.len() + pad, pad as u8);
        let (blocks, _) = Block::<Aes256>::slice_as_chunks_mut(&mut text);
        cbc::Encryptor::inner_iv_init(&self.key.cipher, &Array(self.key.iv)).encrypt_blocks(blocks);
        STANDARD.encode(text)
    }

    /// The encrypted answer to an XML callback (document/path/90930); `timestamp` in seconds, note the capital S.
    pub fn seal_xml(&self, plaintext: &[u8], random: [u8; 16], timestamp: i64, nonce: &str) -> String {
        let encrypt = self.encrypt(plaintext, random);
        let signature = self.sign(&timestamp.to_string(), nonce, &encrypt);
        let nonce = nonce.replace("]]>", "]]]]><![CDATA[>");
        format!(
            "<xml><Encrypt><![CDATA[{encrypt}]]></Encrypt><MsgSignature><![CDATA[{signature}]]></MsgSignature>\
             <TimeStamp>{timestamp}</TimeStamp><Nonce><![CDATA[{nonce}]]></Nonce></xml>"
        )
    }

    /// The encrypted answer to a JSON callback (document/path/101033): `msgsignature` without underscore, `timestamp`
    /// an integer of seconds, and, for an aibot, `nonce` that of the callback.
    pub fn seal_json(&self, plaintext: &[u8], random: [u8; 16], timestamp: i64, nonce: &str) -> String {
        let encrypt = self.encrypt(plaintext, random);
        let msgsignature = self.sign(&timestamp.to_string(), nonce, &encrypt);
        serde_json::json!({
            "encrypt": encrypt, "msgsignature": msgsignature, "timestamp": timestamp, "nonce": nonce,
        })
        .to_string()
    }
}

/// Where the padding begins. Every pad byte is looked at.
fn unpadded_length(text: &[u8]) -> Result<usize, CryptoError> {
    let pad = text.last().map_or(0, |&byte| usize::from(byte));
    let length = text.len().checked_sub(pad).ok_or(CryptoError::Padding)?;
    let even = text[length..].iter().all(|&byte| usize::from(byte) == pad);
    if (1..=PAD_TO).contains(&pad) && even { Ok(length) } else { Err(CryptoError::Padding) }
}

/// Where the message ends and the receive id begins.
fn message_end(text: &[u8]) -> Result<usize, CryptoError> {
    let length = text.get(HEADER - 4..HEADER).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes);
    length
        .and_then(|length| HEADER.checked_add(usize::try_from(length).ok()?))
        .filter(|&end| end <= text.len())
        .ok_or(CryptoError::Length)
}

/// An id as an error may show it: enough to recognise one's own, too little to learn another's.
fn mask(id: &[u8]) -> String {
    match id {
        [] => "empty".to_owned(),
        [a, b, _, _, _, _, .., y, z] if id.is_ascii() && !id.iter().any(u8::is_ascii_control) => {
            let [a, b, y, z] = [*a, *b, *y, *z].map(char::from);
            format!("{a}{b}…{y}{z} ({} bytes)", id.len())
        }
        _ => format!("… ({} bytes)", id.len()),
    }
}

#[cfg(test)]
mod tests;
