//! How long a secret is that somebody thought up: what is short can be found by trying.

use crate::model::Secret;

/// What makes one that is long enough.
pub(crate) const NEW_SECRET: &str = "openssl rand -hex 32";

/// Characters below which trying takes hours, so that it guards nothing that other machines reach.
pub(super) const GUESSED: usize = 8;
/// Characters below which it is worth a word wherever it stands.
const SHORT: usize = 16;

/// What is said of a secret that is short; `None` of a longer one. Not its length: that would help whoever tries.
pub(crate) fn of_short(secret: &Secret) -> Option<String> {
    is_below(SHORT, secret).then(|| {
        format!("is shorter than {SHORT} characters, so that it may be found by trying: make one by `{NEW_SECRET}`")
    })
}

/// Whether it has fewer characters.
pub(super) fn is_below(characters: usize, secret: &Secret) -> bool {
    secret.expose().chars().count() < characters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_not_told() {
        assert_eq!(of_short(&Secret::new("密".repeat(16))), None);
        let said = of_short(&Secret::new("密".repeat(15))).unwrap();
        assert!(said.contains("16 characters") && !said.contains("15"), "{said}");
    }
}
