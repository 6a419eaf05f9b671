//! The documentation, held to what is so: its configurations load, its commands run and bring what is said, its links lead
//! somewhere, both languages show the same, and what operators may meet is explained.

mod expected;
mod files;
mod page;
mod services;
mod shell;
mod stage;
mod words;

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use page::{Block, Page, pages, root};
use regex::Regex;
use serde_json::Value;
use stage::Stage;

/// At most so many shell blocks of one page may be left out, each with a reason.
const MOST_LEFT_OUT: usize = 6;

#[test]
fn every_block_of_json_is_json() {
    for block in pages().iter().flat_map(|page| &page.blocks).filter(|block| block.language == "json") {
        let read = serde_json::from_str::<Value>(&block.body);
        assert!(read.is_ok(), "{}: {}", block.place, read.unwrap_err());
    }
}

#[test]
fn every_link_leads_somewhere() {
    let pages: BTreeMap<String, Page> = pages().into_iter().map(|page| (page.name.clone(), page)).collect();
    let mut astray = Vec::new();
    for page in pages.values() {
        for link in page.links() {
            let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, at)| (file, Some(at)));
            let there = if file.is_empty() { PathBuf::from(&page.name) } else { beside(&page.name, file) };
            let leads = match (pages.get(there.to_str().unwrap()), anchor) {
                (Some(there), Some(anchor)) => there.anchors().contains(anchor),
                (_, Some(_)) => false,
                (_, None) => root().join(&there).exists(),
            };
            if !leads {
                astray.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert_eq!(astray, [""; 0]);
}

/// `file` as a page names it, below the crate's folder.
fn beside(page: &str, file: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap().join(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn both_languages_show_the_same() {
    let pages: BTreeMap<String, Page> = pages().into_iter().map(|page| (page.name.clone(), page)).collect();
    let mut pairs = 0;
    for page in pages.values() {
        let Some(other) = page.other_language().and_then(|name| pages.get(&name)) else { continue };
        pairs += 1;
        let shown = |page: &Page| -> Vec<(String, BTreeMap<String, String>, String)> {
            // Pictures and what commands print have words of their language in them.
            let code = page.blocks.iter().filter(|block| !block.language.is_empty());
            let mut notes = code.clone().map(|block| block.notes.clone()).collect::<Vec<_>>();
            notes.iter_mut().for_each(|notes| drop(notes.remove("no-run")));
            let code = code.zip(notes);
            code.map(|(block, notes)| (block.language.clone(), notes, block.without_comments())).collect()
        };
        let (mine, theirs) = (shown(page), shown(other));
        for (n, (mine, theirs)) in mine.iter().zip(&theirs).enumerate() {
            assert_eq!(mine, theirs, "block {n} of {} and {}", page.name, other.name);
        }
        assert_eq!(mine.len(), theirs.len(), "{} and {}", page.name, other.name);
    }
    assert!(pairs >= 3, "README, operations and recipes are there in both languages");
}

#[test]
fn what_is_not_run_says_why_and_is_little() {
    for page in pages() {
        let left_out: Vec<&Block> = page.blocks.iter().filter(|block| block.notes.contains_key("no-run")).collect();
        assert!(left_out.len() <= MOST_LEFT_OUT, "{} has {}", page.name, left_out.len());
        for block in left_out {
            assert!(block.note("no-run").is_some_and(|why| why.len() > 10), "{} says no reason", block.place);
        }
    }
}

/// Also where they are not run: clap reads all words before it comes to `--help`.
#[test]
fn every_command_line_is_one() {
    let command = Regex::new(r"(?m)^(?:\$ )?(wecom-gateway (?:\\\n|[^\n#])*)").unwrap();
    let mut lines = 0;
    for block in
        pages().iter().flat_map(|page| &page.blocks).filter(|block| ["", "sh"].contains(&block.language.as_str()))
    {
        for found in command.captures_iter(&block.body) {
            lines += 1;
            let line = found[1].replacen("wecom-gateway", env!("CARGO_BIN_EXE_wecom-gateway"), 1);
            let line = format!("{} --help", line.trim());
            let ended = Command::new("bash").arg("-c").arg(line).current_dir(root()).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr);
            assert!(ended.status.success(), "{}: {}\n{said}", block.place, &found[1]);
        }
    }
    assert!(lines > 20, "{lines} command lines");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_pages_show_happens() {
    let mut failed = Vec::new();
    for page in pages() {
        let mut sections: Vec<(String, Vec<Block>)> = Vec::new();
        for block in page.blocks {
            match sections.last_mut() {
                Some((section, blocks)) if *section == block.section => blocks.push(block),
                _ => sections.push((block.section.clone(), vec![block])),
            }
        }
        for (section, blocks) in sections.into_iter().filter(|(_, blocks)| blocks.iter().any(Block::happens)) {
            let happens = tokio::spawn(async move {
                let mut stage = Stage::set(&blocks).await;
                stage.play(&blocks).await;
                stage.end().await;
            });
            if happens.await.is_err() {
                failed.push(format!("{}, {section}", page.name));
            }
        }
    }
    assert_eq!(failed, [""; 0], "what is wrong with each stands above");
}
