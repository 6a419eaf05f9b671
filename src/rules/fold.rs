//! Folding: what two spellings must share to count as the same word.
//!
//! Members type full-width letters (`／ｑｕｅｒｙ`), capitals and blanks of every kind, and a zero-width character in the
//! middle of a word hides it from a plain search. All words and names are compared in folded form; text itself is never
//! replaced by its folded form, because arguments are kept as they stand.
//!
//! Folding goes character by character, so it takes linear time and a text's folded length never grows in characters.

/// Whether a character takes no place on the screen: it neither separates words nor belongs to one.
pub(super) fn invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180E}' | '\u{FEFF}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FE00}'..='\u{FE0F}')
}

/// Whether a character can stand between words: white space of any kind (U+2005, U+00A0, U+3000 …) or nothing visible.
pub(super) fn blank(c: char) -> bool {
    c.is_whitespace() || invisible(c)
}

/// One visible character without its width and case; white space of any kind becomes one ASCII space.
pub(super) fn fold_char(c: char) -> char {
    let narrow = match c {
        // The full-width forms stand in ASCII's own order, 0xFEE0 above it.
        '\u{FF01}'..='\u{FF5E}' => char::from_u32(u32::from(c) - 0xFEE0).unwrap_or(c),
        c if c.is_whitespace() => ' ',
        c => c,
    };
    let mut lower = narrow.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) => only,
        _ => narrow,
    }
}

/// A text without width, case and invisible characters.
pub(crate) fn fold(text: &str) -> String {
    text.chars().filter(|c| !invisible(*c)).map(fold_char).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn width_case_blanks_and_hidden_characters_do_not_count() {
        for (text, folded) in [
            ("ＱＵＥＲＹ", "query"),
            ("／Query　１２", "/query 12"),
            ("違\u{200B}禁\u{FEFF}词", "違禁词"),
            ("a\u{2005}b\u{00A0}c\nd", "a b c d"),
            ("İ", "İ"), // its lower case is two characters: left alone
            ("查询", "查询"),
        ] {
            assert_eq!(fold(text), folded, "{text:?}");
        }
    }
}
