//! The outer body of an encrypted callback (stub signatures).

/// Why an outer body can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeError {
    /// stub
    #[error("stub")]
    Stub,
}

/// The ciphertext inside an XML (`<Encrypt>`) or JSON (`encrypt`, `Encrypt`) body, ASCII blanks around it trimmed.
pub fn ciphertext(_body: &[u8]) -> Result<String, EnvelopeError> {
    Err(EnvelopeError::Stub)
}
