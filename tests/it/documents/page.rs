//! A page of the documentation, taken apart: its fenced blocks, links and headings.
//!
//! The first word behind a fence names the language; what follows says what a block is to the tests (and shows nowhere):
//! `no-run="why"`, `says=member in=chat`, `hears=chat`, `asks=url`, `answers=url`, `unanswered=chat`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

/// A page.
pub struct Page {
    /// Its path below the crate's folder.
    pub name: String,
    /// What it says.
    pub text: String,
    /// Its fenced blocks.
    pub blocks: Vec<Block>,
    /// Its lines outside fences.
    prose: Vec<String>,
}

/// A fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// `page:line` of its fence.
    pub place: String,
    /// The heading of level 2 that it stands under.
    pub section: String,
    /// The first word behind the fence.
    pub language: String,
    /// What else stands there.
    pub notes: BTreeMap<String, String>,
    /// What is between the fences.
    pub body: String,
}

/// The crate's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All pages: what stands in the crate's folder, and in `docs/`.
pub fn pages() -> Vec<Page> {
    let names = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).unwrap();
        let names = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name()));
        names.filter(|name| name.extension().is_some_and(|extension| extension == "md")).collect::<Vec<PathBuf>>()
    };
    let all: BTreeSet<PathBuf> = names("").into_iter().chain(names("docs")).collect();
    all.iter().map(|name| Page::read(name.to_str().unwrap())).collect()
}

impl Page {
    /// Reads a page by its path below the crate's folder.
    pub fn read(name: &str) -> Self {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let mut page = Self { name: name.to_owned(), text, blocks: Vec::new(), prose: Vec::new() };
        let (mut section, mut open): (String, Option<Block>) = (String::new(), None);
        for (number, line) in page.text.lines().enumerate() {
            match (line.strip_prefix("```"), open.take()) {
                (Some(_), Some(block)) => page.blocks.push(block),
                (Some(info), None) => {
                    open = Some(Block::open(&format!("{name}:{}", number + 1), &section, info));
                }
                (None, Some(mut block)) => {
                    block.body += line;
                    block.body += "\n";
                    open = Some(block);
                }
                (None, None) => {
                    if let Some(heading) = line.strip_prefix("## ") {
                        section = heading.to_owned();
                    }
                    page.prose.push(line.to_owned());
                }
            }
        }
        assert!(open.is_none(), "{name}: a block has no end");
        page
    }

    /// Where its links lead, but for other sites.
    pub fn links(&self) -> Vec<String> {
        let code = Regex::new("`[^`]*`").unwrap();
        let link = Regex::new(r"\]\(([^)\s]+)\)").unwrap();
        let prose = self.prose.join("\n");
        let text = code.replace_all(&prose, "");
        let all = link.captures_iter(&text).map(|found| found[1].to_owned());
        all.filter(|target| !target.contains("://")).collect()
    }

    /// The anchors of its headings, as GitHub makes them.
    pub fn anchors(&self) -> BTreeSet<String> {
        let headings = self.prose.iter().filter(|line| line.starts_with('#'));
        headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
    }

    /// The page in the other language, whether it is there or not.
    pub fn other_language(&self) -> Option<String> {
        let stem = self.name.strip_suffix(".md")?;
        (!stem.ends_with(".zh-CN")).then(|| format!("{stem}.zh-CN.md"))
    }
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

impl Block {
    fn open(place: &str, section: &str, info: &str) -> Self {
        let notes = Regex::new(r#"([a-z-]+)=(?:"([^"]*)"|(\S+))"#).unwrap();
        let notes = notes.captures_iter(info).map(|found| {
            let value = found.get(2).or(found.get(3)).map_or("", |value| value.as_str());
            (found[1].to_owned(), value.to_owned())
        });
        Self {
            place: place.to_owned(),
            section: section.to_owned(),
            language: info.split_whitespace().next().unwrap_or_default().to_owned(),
            notes: notes.collect(),
            body: String::new(),
        }
    }

    /// A note.
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.get(name).map(String::as_str)
    }

    /// Whether something happens that can be looked at.
    pub fn happens(&self) -> bool {
        self.note("says").is_some() || (self.language == "sh" && self.note("no-run").is_none())
    }

    /// The file that a `toml` block is, and whether it is all of it: `# config/apps/a.toml`, `# in config/gateway.toml`.
    pub fn file(&self) -> Option<(&str, bool)> {
        let first = self.body.lines().next()?.strip_prefix("# ")?;
        let (path, is_whole) = first.strip_prefix("in ").map_or((first, true), |path| (path, false));
        path.starts_with("config/").then_some((path, is_whole))
    }

    /// Its words without comments, which each language has its own of.
    pub fn without_comments(&self) -> String {
        let comment = Regex::new(r"(^|\s+)#.*$").unwrap();
        let lines = self.body.lines().map(|line| comment.replace(line, "").trim_end().to_owned());
        lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
    }
}
