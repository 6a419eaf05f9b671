//! Callback crypto (stub signatures).
use crate::model::Secret;

/// Token, key and receive id of one app.
#[derive(Clone, Debug)]
pub struct CallbackCrypto {
    /// token
    token: Secret,
    /// receive id
    receive_id: ReceiveId,
}

/// What the decrypted tail must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiveId {
    /// Compared exactly (may be empty).
    Exactly(String),
    /// Not checked (`*`).
    Any,
}

/// Why a callback is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum CryptoError {
    /// stub
    #[error("stub")]
    Stub,
}

impl CallbackCrypto {
    /// Checks the key: 43 characters of base64 alphabet, blanks around and one `=` at its end are taken.
    pub fn new(_token: Secret, _encoding_aes_key: &Secret, _receive_id: ReceiveId) -> Result<Self, CryptoError> {
        Err(CryptoError::Stub)
    }
    /// Whether `msg_signature` (hex, either case) is right, in constant time.
    pub fn verify(&self, _msg_signature: &str, _timestamp: &str, _nonce: &str, _encrypt: &str) -> bool {
        let _ = (&self.token, &self.receive_id);
        false
    }
    /// `sha1_hex(sort(token, timestamp, nonce, encrypt))`.
    pub fn sign(&self, _timestamp: &str, _nonce: &str, _encrypt: &str) -> String {
        String::new()
    }
    /// base64, AES-256-CBC, padding, length, receive id.
    pub fn decrypt(&self, _encrypt: &str) -> Result<Vec<u8>, CryptoError> {
        Err(CryptoError::Stub)
    }
    /// The reverse of `decrypt`, with the 16 random bytes given.
    pub fn encrypt(&self, _plaintext: &[u8], _random: [u8; 16]) -> String {
        String::new()
    }
}
