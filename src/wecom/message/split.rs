//! Cuts over-long content into parts, where a reader would.
//!
//! The best place is the end of a paragraph, then of a line, of a sentence, a blank, and only then between two
//! graphemes. A cut that would leave less than a quarter of a part is taken only when there is no later one. What
//! always holds: no part is longer than the limit; no grapheme, mention or tag is cut unless it is longer than the
//! limit itself; the parts joined are the content apart from white space at the cuts, and from the code fences that
//! are closed before a cut and opened again behind it.

use unicode_segmentation::GraphemeCursor;

/// Whether code fences mean something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markup {
    None,
    Markdown,
}

/// A limit with less room than this has none for fences.
const FENCE_LIMIT: usize = 64;
/// Longer than `<@userid>` or `<font color="warning">`, whatever their ids.
const MAX_TAG: usize = 128;

/// Parts of at most `limit` bytes, none of them blank. `limit` must hold a character (4 bytes).
pub(super) fn split(content: &str, limit: usize, markup: Markup) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = content;
    let mut open: Option<Fence<'_>> = None;
    loop {
        let reopened = open.map_or(0, |fence| fence.opening.len() + 1);
        if reopened + rest.len() <= limit {
            push(&mut parts, open, rest, None);
            return parts;
        }
        let fences = match markup {
            Markup::Markdown if limit >= FENCE_LIMIT => FenceLine::within(rest, open, limit),
            Markup::Markdown | Markup::None => Vec::new(),
        };
        let closing = fences.iter().filter_map(|line| line.open_after).chain(open).map(|fence| fence.marker.len() + 1);
        let room = limit.saturating_sub(reopened + closing.max().unwrap_or(0));
        let cut = best_cut(rest, room, &fences);
        let open_at_cut = fences.iter().rfind(|line| line.end <= cut).map_or(open, |line| line.open_after);
        push(&mut parts, open, &rest[..cut], open_at_cut);
        (rest, open) = behind_cut(&rest[cut..], open_at_cut);
    }
}

/// Adds a part unless it is blank, within the fences that it was cut out of.
fn push(parts: &mut Vec<String>, open: Option<Fence<'_>>, part: &str, open_behind: Option<Fence<'_>>) {
    if part.trim().is_empty() {
        return;
    }
    let mut text = String::with_capacity(part.len());
    if let Some(fence) = open {
        text.extend([fence.opening, "\n"]);
    }
    text.push_str(part);
    if let Some(fence) = open_behind {
        text.extend(["\n", fence.marker]);
    }
    parts.push(text);
}

/// What is left behind a cut: without the blanks there, but with the indentation of a line that begins there; and
/// without the end of a fence, which the cut has already closed.
fn behind_cut<'a>(tail: &'a str, open: Option<Fence<'a>>) -> (&'a str, Option<Fence<'a>>) {
    let text = tail.trim_start();
    let blanks = &tail[..tail.len() - text.len()];
    let Some(line_end) = blanks.rfind('\n') else {
        // A blank may carry a combining mark; then it belongs to the text.
        let kept = blanks.chars().next_back().filter(|_| !is_grapheme_boundary(tail, blanks.len()));
        return (&tail[blanks.len() - kept.map_or(0, char::len_utf8)..], open);
    };
    let rest = &tail[line_end + 1..];
    let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
    if open.is_some_and(|fence| fence.is_closed_by(line)) { (behind, None) } else { (rest, open) }
}

/// How good a cut is, best first.
#[derive(Clone, Copy)]
enum Break {
    Paragraph,
    Line,
    Sentence,
    Blank,
}

/// Where to cut `text`, which is longer than `room`: at most `room`, and never 0.
fn best_cut(text: &str, room: usize, fences: &[FenceLine<'_>]) -> usize {
    // The last break of each kind.
    let mut last = [None; Break::Blank as usize + 1];
    let allowed = |at| {
        is_grapheme_boundary(text, at) && tag_around(text, at).is_none() && !fences.iter().any(|line| line.forbids(at))
    };
    let mut sentence = Sentence::Open;
    let mut before = None;
    for (at, c) in text.char_indices().take_while(|&(at, _)| at <= room) {
        let found = before.and_then(|before: char| break_between(before, &text[at..], c, sentence));
        if let Some(found) = found.filter(|_| allowed(at)) {
            last[found as usize] = Some(at);
        }
        sentence = sentence.then(c);
        before = Some(c);
    }
    let far = last.iter().flatten().find(|&&at| at >= room / 4);
    far.or(last.iter().flatten().next()).copied().unwrap_or_else(|| cut_between_graphemes(text, room))
}

/// What kind of break stands between `before` and `tail`, which begins with `c`.
fn break_between(before: char, tail: &str, c: char, sentence: Sentence) -> Option<Break> {
    if c.is_whitespace() && !before.is_whitespace() {
        let blanks = tail.chars().take_while(|c| c.is_whitespace());
        return Some(match blanks.filter(|&c| c == '\n').count() {
            0 if sentence == Sentence::Open => Break::Blank,
            0 => Break::Sentence,
            1 => Break::Line,
            _ => Break::Paragraph,
        });
    }
    let goes_on = c.is_whitespace() || sentence.then(c) != Sentence::Open;
    (sentence == Sentence::Ended && !goes_on).then_some(Break::Sentence)
}

/// Whether a sentence has just ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sentence {
    Open,
    /// By a mark that ends one only where a blank follows: `3.5` is no sentence.
    EndedIfBlank,
    Ended,
}

impl Sentence {
    /// After one more character; closing quotes and brackets belong to the sentence that they close.
    fn then(self, c: char) -> Self {
        match c {
            '。' | '！' | '？' | '；' | '…' => Self::Ended,
            '.' | '!' | '?' | ';' => Self::EndedIfBlank,
            '”' | '’' | '」' | '』' | '）' | '》' | '】' | ')' | ']' | '"' | '\'' => self,
            _ => Self::Open,
        }
    }
}

/// The last place for text without any break; inside a grapheme only if that alone is longer than `room`.
fn cut_between_graphemes(text: &str, room: usize) -> usize {
    let end = text.floor_char_boundary(room);
    let end = if end == 0 { text.chars().next().map_or(0, char::len_utf8) } else { end };
    let at = if is_grapheme_boundary(text, end) {
        end
    } else {
        let before = GraphemeCursor::new(end, text.len(), true).prev_boundary(text, 0).ok().flatten();
        before.filter(|&at| at > 0).unwrap_or(end)
    };
    tag_around(text, at).filter(|&start| start > 0).unwrap_or(at)
}

fn is_grapheme_boundary(text: &str, at: usize) -> bool {
    GraphemeCursor::new(at, text.len(), true).is_boundary(text, 0).unwrap_or(true)
}

/// Where the mention or tag begins that a cut at `at` would break: `<@id>`, `<font …>`, `</font>`.
fn tag_around(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let from = at.saturating_sub(MAX_TAG);
    let start = from + bytes[from..at].iter().rposition(|&byte| matches!(byte, b'<' | b'>' | b'\n'))?;
    let behind = bytes[at..].iter().take(MAX_TAG).find(|&&byte| matches!(byte, b'<' | b'>' | b'\n'))?;
    let is_tag = bytes.get(start + 1).is_some_and(|&byte| matches!(byte, b'@' | b'/') || byte.is_ascii_alphabetic());
    (bytes[start] == b'<' && is_tag && *behind == b'>').then_some(start)
}

/// An open code fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence<'a> {
    /// The whole line: indentation, marks, info string.
    opening: &'a str,
    /// Indentation and marks: the line that closes it.
    marker: &'a str,
}

impl<'a> Fence<'a> {
    /// Three or more backticks or tildes, and behind backticks no more of them. A line that would fill more than a
    /// quarter of each part is no fence to us.
    fn opened_by(line: &'a str, limit: usize) -> Option<Self> {
        let marks = line.trim_start();
        let mark = marks.chars().next().filter(|&c| c == '`' || c == '~')?;
        let info = marks.trim_start_matches(mark);
        let marker = &line[..line.len() - info.len()];
        let is_fence = marks.len() - info.len() >= 3 && !(mark == '`' && info.contains('`'));
        let opening = line.trim_end();
        (is_fence && opening.len() <= limit / 4).then_some(Self { opening, marker })
    }

    /// At least as many of the same marks, and nothing else.
    fn is_closed_by(self, line: &str) -> bool {
        let marks = self.marker.trim_start();
        let line = line.trim();
        line.starts_with(marks) && line.trim_start_matches(&marks[..1]).is_empty()
    }
}

/// A line that opens or closes a fence.
struct FenceLine<'a> {
    start: usize,
    /// Where its text ends.
    end: usize,
    open_after: Option<Fence<'a>>,
}

impl<'a> FenceLine<'a> {
    /// Those that begin in the first `limit` bytes of `text`, which begins inside `open`.
    fn within(text: &'a str, mut open: Option<Fence<'a>>, limit: usize) -> Vec<Self> {
        let mut found = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if start > limit {
                break;
            }
            let toggled = match open {
                Some(fence) => fence.is_closed_by(line).then_some(None),
                None => Fence::opened_by(line, limit).map(Some),
            };
            if let Some(open_after) = toggled {
                open = open_after;
                found.push(Self { start, end: start + line.trim_end().len(), open_after });
            }
            start += line.len();
        }
        found
    }

    /// Never inside such a line; nor right behind an opening one, which would leave an empty block.
    fn forbids(&self, at: usize) -> bool {
        self.start < at && (at < self.end || (at == self.end && self.open_after.is_some()))
    }
}

#[cfg(test)]
mod tests;
