//! Shell blocks, taken apart into commands and what the page says that comes of each.
//!
//! Behind a command, comment lines that begin with a status (`# 202 [{"task_id":…`) or an exit code (`# exit 1`) say so; other
//! comments are for readers.

use regex::Regex;
use serde_json::Value;

/// A command of a block.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// As bash takes it.
    pub text: String,
    /// What comes of it.
    pub outcome: Outcome,
}

/// What a page says of a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// The exit code.
    pub code: i32,
    /// The HTTP status, of `curl`.
    pub status: Option<u16>,
    /// The answer, of `curl`.
    pub answer: Option<Value>,
}

impl Command {
    /// Whether it only sets variables for those behind it.
    pub fn is_assignment(&self) -> bool {
        let word = r#"[A-Za-z_]+=("[^"]*"|[^" ]*)"#;
        Regex::new(&format!("^(export )?{word}( {word})*$")).unwrap().is_match(&self.text)
    }

    /// Whether asking again does no harm: what happened shows a moment later.
    pub fn only_asks(&self) -> bool {
        if ["trace", "report"].iter().any(|name| self.text.starts_with(&format!("wecom-gateway {name} "))) {
            return true;
        }
        self.text.starts_with("curl ") && ![" -d ", " -X ", " -T "].iter().any(|changes| self.text.contains(changes))
    }
}

/// The commands of a block.
pub fn commands(block: &str) -> Vec<Command> {
    let mut commands: Vec<(String, String)> = Vec::new();
    let mut open = String::new();
    for line in block.lines() {
        let comment = line.strip_prefix('#').filter(|_| open.is_empty());
        match (comment, commands.last_mut()) {
            (Some(comment), Some((_, said))) => *said += &format!("{}\n", comment.trim()),
            (Some(_), None) => {}
            (None, _) => {
                open += line;
                if goes_on(&open) {
                    open += "\n";
                } else if !open.trim().is_empty() {
                    commands.push((without_comment(&open), String::new()));
                    open.clear();
                } else {
                    open.clear();
                }
            }
        }
    }
    assert!(open.is_empty(), "a command does not end: {open}");
    commands.into_iter().map(|(text, said)| Command { text, outcome: outcome(&said) }).collect()
}

fn outcome(said: &str) -> Outcome {
    let exit = Regex::new(r"^exit (\d+)").unwrap();
    if let Some(found) = exit.captures(said) {
        return Outcome { code: found[1].parse().unwrap(), ..Outcome::default() };
    }
    let answer = Regex::new(r"^(\d{3})(?:\s+([\[{].*))?").unwrap();
    let said = said.replace('\n', " ");
    let Some(found) = answer.captures(&said) else { return Outcome::default() };
    let json = found.get(2).map(|json| {
        let json = json.as_str();
        serde_json::from_str(json).unwrap_or_else(|error| panic!("no JSON ({error}): {json}"))
    });
    Outcome { code: 0, status: Some(found[1].parse().unwrap()), answer: json }
}

/// Where a comment begins, and whether a quote is still open at the end.
fn read(text: &str) -> (Option<usize>, bool) {
    let (mut quote, mut before) = (None, ' ');
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return (Some(at), false),
            (None, '"' | '\'') if before != '\\' => quote = Some(c),
            (Some(open), _) if c == open && (before != '\\' || open == '\'') => quote = None,
            _ => {}
        }
        before = c;
    }
    (None, quote.is_some())
}

fn goes_on(text: &str) -> bool {
    read(text).1 || text.ends_with('\\') || text.trim_end().ends_with('|')
}

fn without_comment(text: &str) -> String {
    let end = read(text).0.unwrap_or(text.len());
    text[..end].trim().to_owned()
}

#[test]
fn a_block_is_its_commands() {
    let block = "# first\na=\"x y\" b=1   # set\ncurl $a -d '{\n  \"n\": 1}'\n# 202 [{\"n\":\n#   \"…\"}]\n\necho x |\n  cat\nfalse\n# exit 1: why\n";
    let read = commands(block);
    let texts: Vec<&str> = read.iter().map(|command| command.text.as_str()).collect();
    assert_eq!(texts, ["a=\"x y\" b=1", "curl $a -d '{\n  \"n\": 1}'", "echo x |\n  cat", "false"]);
    assert_eq!(read.iter().map(Command::is_assignment).collect::<Vec<_>>(), [true, false, false, false]);
    assert_eq!(read[1].outcome.status, Some(202));
    assert_eq!(read[1].outcome.answer, Some(serde_json::json!([{"n": "…"}])));
    assert_eq!((read[2].outcome.code, read[3].outcome.code), (0, 1));
}
