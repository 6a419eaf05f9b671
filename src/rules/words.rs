//! Word lists: sensitive words and keywords, found anywhere in a text in one pass.
//!
//! Aho-Corasick: time linear in the text however many words are listed.

use aho_corasick::AhoCorasick;

use super::RuleError;
use super::fold::fold;

/// A list of words, ready to be searched for.
#[derive(Debug)]
pub(super) struct Words {
    automaton: AhoCorasick,
}

impl Words {
    /// Folds the words; a word without a visible character would stand in every text and is refused.
    pub(super) fn compile<'w>(words: impl IntoIterator<Item = &'w String>) -> Result<Self, RuleError> {
        let folded: Vec<String> = words.into_iter().map(|word| fold(word)).collect();
        if folded.iter().any(|word| word.trim().is_empty()) {
            return Err(RuleError::Empty("word"));
        }
        Ok(Self { automaton: AhoCorasick::new(folded)? })
    }

    /// Whether any of the words stands in a folded text.
    pub(super) fn stand_in(&self, folded: &str) -> bool {
        self.automaton.is_match(folded)
    }

    /// The index of the word that stands in a folded text, the first by the list's order where several do.
    pub(super) fn first_listed(&self, folded: &str) -> Option<usize> {
        self.automaton.find_overlapping_iter(folded).map(|found| found.pattern().as_usize()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Words {
        Words::compile(&list.iter().map(|w| w.to_string()).collect::<Vec<_>>()).expect("words")
    }

    #[test]
    fn the_lists_order_decides_not_the_texts() {
        let words = words(&["coupon", "优惠券", "优惠"]);
        assert_eq!(words.first_listed("优惠券 coupon"), Some(0));
        assert_eq!(words.first_listed("有优惠券吗"), Some(1));
        assert_eq!(words.first_listed("有优惠吗"), Some(2));
        assert_eq!(words.first_listed("天气"), None);
    }

    #[test]
    fn an_empty_list_matches_nothing_and_an_empty_word_is_refused() {
        assert!(!words(&[]).stand_in("anything"));
        for word in ["", " ", "\u{200B}"] {
            assert!(matches!(Words::compile(&[word.to_string()]), Err(RuleError::Empty(_))), "{word:?}");
        }
    }
}
