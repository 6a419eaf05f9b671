//! Plain tables whose columns stand, also under Chinese characters, which are two columns wide.

use unicode_width::UnicodeWidthStr;

/// How a column stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A title and how its column stands.
pub(super) type Column = (&'static str, Align);

/// Columns, two blanks apart, each as wide as its widest cell; every line ends with its text.
pub(super) fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let titles = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let lines: Vec<Vec<String>> =
        std::iter::once(&titles).chain(rows).map(|row| row.iter().map(|cell| shown(cell)).collect()).collect();
    let width = |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.width()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(columns).zip(&widths).map(|((cell, (_, align)), width)| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            match align {
                Align::Left => format!("{cell}{blanks}"),
                Align::Right => format!("{blanks}{cell}"),
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A cell in one line: what would move the terminal's cursor is a blank.
fn shown(cell: &str) -> String {
    cell.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_wide_characters() {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let rows = [row(["VIP 群", "7", "x"]), row(["wrB", "1234", "多行\n文字"])];
        let text = table(&[("chat", Align::Left), ("messages", Align::Right), ("note", Align::Left)], &rows);
        assert_eq!(text, "chat    messages  note\nVIP 群         7  x\nwrB         1234  多行 文字\n");
    }
}
