//! Reads one TOML table key by key: each getter takes its key out, checks its type, and notes a fault where something
//! is wrong; what nobody took when a table closes is an unknown key.
//!
//! A getter that met a fault answers as if the key were absent, so that reading goes on and all faults are found in
//! one run. Sections are read inside closures: a table that is opened can't be left without the check for unknown keys.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::Value;

use super::expand::{Environment, expand};
use super::faults::Ledger;
use super::files;
use super::units::{self, Mend};
use crate::model::Secret;
use crate::rules::fold::fold;

/// One file while it is read.
pub(super) struct Source<'a> {
    /// As faults name it.
    pub(super) file: PathBuf,
    /// Where faults go.
    pub(super) ledger: &'a Ledger,
    /// Where `${NAME}` is looked up.
    pub(super) environment: &'a Environment<'a>,
}

impl<'a> Source<'a> {
    /// Reads the whole file with `read`; `None` where it isn't there or is no TOML.
    pub(super) fn read<T>(&'a self, read: impl FnOnce(&mut Table<'a>) -> T) -> Option<T> {
        let parsed = files::text(&self.file, "create it, or name another file with --config")
            .inspect(|text| self.ledger.reads(&self.file, text))
            .and_then(|text| text.parse::<toml::Table>().map_err(|e| syntax_fault(&text, &e)));
        match parsed {
            Ok(values) => {
                self.ledger.holds(&self.file, &values);
                Some(Table::open(self, String::new(), values, read))
            }
            Err(message) => {
                self.ledger.note(&self.file, "", message);
                None
            }
        }
    }

    /// What `read` answers to an empty file.
    pub(super) fn defaults<T>(&'a self, read: impl FnOnce(&mut Table<'a>) -> T) -> T {
        Table::open(self, String::new(), toml::Table::new(), read)
    }
}

/// Only position and reason: the line itself may hold a secret.
fn syntax_fault(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column} is no TOML ({}): correct it there", error.message())
}

/// One table while it is read.
pub(super) struct Table<'a> {
    source: &'a Source<'a>,
    /// Dotted path, empty for the whole file.
    path: String,
    values: toml::Table,
    /// Every key that was asked for: what an unknown one may have meant.
    known: Vec<&'static str>,
}

impl<'a> Table<'a> {
    fn open<T>(source: &'a Source<'a>, path: String, values: toml::Table, read: impl FnOnce(&mut Self) -> T) -> T {
        let mut table = Table { source, path, values, known: Vec::new() };
        let result = read(&mut table);
        for key in table.values.keys() {
            let hint = match nearest(key, &table.known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => "remove it, or correct its name".into(),
            };
            table.fault(key, format!("is unknown here: {hint}"));
        }
        result
    }

    /// The file that is read.
    pub(super) fn file(&self) -> &Path {
        &self.source.file
    }

    /// Notes that the file says this too, by naming it.
    pub(super) fn reads(&self, text: &str) {
        self.source.ledger.reads(&self.source.file, text);
    }

    /// Notes that nobody may see what a key says.
    fn hides(&self, key: &str) {
        self.source.ledger.hides(&self.source.file, self.path_of(key));
    }

    /// The dotted path of a key of this table.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Notes a fault at a key of this table: what is wrong, and what mends it.
    pub(super) fn fault(&self, key: &str, message: impl Into<String>) {
        self.source.ledger.note(&self.source.file, &self.path_of(key), message);
    }

    /// Notes a fault at the table itself.
    pub(super) fn fault_here(&self, message: impl Into<String>) {
        self.source.ledger.note(&self.source.file, &self.path, message);
    }

    /// Whether none of these keys has a fault, nor anything beneath them: only then is it fair to compare them.
    pub(super) fn sound(&self, keys: &[&str]) -> bool {
        !keys.iter().any(|key| self.source.ledger.blames(&self.source.file, &self.path_of(key)))
    }

    /// As [`Table::sound`], for keys of the file's own top.
    pub(super) fn sound_above(&self, keys: &[&str]) -> bool {
        !keys.iter().any(|key| self.source.ledger.blames(&self.source.file, key))
    }

    /// Takes a key out, whatever it holds.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        #[cfg(test)]
        self.source.ledger.asks(self.path_of(key));
        self.values.remove(key)
    }

    /// Blames keys that only another file has.
    pub(super) fn belong_elsewhere(&mut self, keys: &[&str], where_to: &str) {
        for key in keys {
            if self.values.remove(*key).is_some() {
                self.fault(key, format!("{where_to}: move it there"));
            }
        }
    }

    /// Drops what is left, unjudged: for tables whose fault has been told already.
    pub(super) fn drop_rest(&mut self) {
        self.values.clear();
    }

    /// Notes that a key must be there, unless it is or has a fault already.
    pub(super) fn require<T>(&self, key: &str, value: Option<T>, mend: &str) -> Option<T> {
        if value.is_none() && self.sound(&[key]) {
            self.fault(key, format!("is missing: {mend}"));
        }
        value
    }

    fn wrong_type(&self, key: &str, wanted: &str, found: &Value) {
        let found = match found.type_str() {
            "integer" => "an integer".to_owned(),
            "array" => "an array".to_owned(),
            other => format!("a {other}"),
        };
        self.fault(key, format!("is {found}: write {wanted}"));
    }

    fn text_of(&self, key: &str, value: Value) -> Option<Text> {
        match value {
            Value::String(raw) => match expand(&raw, self.source.environment) {
                Ok(value) => {
                    self.reads(&value);
                    return Some(Text { raw, value });
                }
                Err(message) => self.fault(key, message),
            },
            other => self.wrong_type(key, "a string, in quotes", &other),
        }
        None
    }

    /// A string.
    pub(super) fn string(&mut self, key: &'static str) -> Option<String> {
        let value = self.take(key)?;
        self.text_of(key, value).map(|text| text.value)
    }

    /// A string that isn't blank.
    pub(super) fn filled(&mut self, key: &'static str) -> Option<String> {
        let text = self.string(key)?;
        if !is_visible(&text) {
            self.fault(key, "is empty: fill it, or remove the key");
            return None;
        }
        Some(text)
    }

    /// A string that isn't blank and that no fault may quote.
    pub(super) fn secret(&mut self, key: &'static str) -> Option<Secret> {
        self.hides(key);
        self.filled(key).map(Secret::new)
    }

    /// A string that `parse` understands; a fault quotes it as it stands in the file.
    pub(super) fn parsed<T>(&mut self, key: &'static str, parse: impl FnOnce(&str) -> Result<T, Mend>) -> Option<T> {
        let value = self.take(key)?;
        let text = self.text_of(key, value)?;
        parse(&text.value).map_err(|mend| self.fault(key, format!("{:?} {mend}", text.raw))).ok()
    }

    /// As [`Table::parsed`], for texts that may hold a secret: a fault doesn't quote them.
    pub(super) fn parsed_unseen<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Mend>,
    ) -> Option<T> {
        self.hides(key);
        self.parsed_long(key, parse)
    }

    /// As [`Table::parsed`], for texts that are too long to be quoted.
    pub(super) fn parsed_long<T>(
        &mut self,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<T, Mend>,
    ) -> Option<T> {
        let value = self.take(key)?;
        let text = self.text_of(key, value)?;
        parse(&text.value).map_err(|mend| self.fault(key, mend)).ok()
    }

    /// One of a few words.
    pub(super) fn word<T: Clone>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        self.parsed(key, |text| {
            let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| meaning.clone());
            found.ok_or_else(|| {
                let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
                let meant = nearest(text, &names).map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
                format!("is not known here: {meant}write one of {}", quoted(&names))
            })
        })
    }

    /// One of a few words, which must be there.
    pub(super) fn required_word<T: Clone>(&mut self, key: &'static str, words: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let word = self.word(key, words);
        self.require(key, word, &format!("write one of {}", quoted(&names)))
    }

    /// `true` or `false`.
    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        match self.take(key) {
            None => default,
            Some(Value::Boolean(flag)) => flag,
            Some(other) => {
                self.wrong_type(key, "true or false, without quotes", &other);
                default
            }
        }
    }

    /// A whole number within a range.
    pub(super) fn whole(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        let wanted = match range.end() {
            &u64::MAX => format!("a whole number from {}", range.start()),
            end => format!("a whole number from {} to {end}", range.start()),
        };
        match self.take(key)? {
            Value::Integer(n) => match u64::try_from(n) {
                Ok(n) if range.contains(&n) => return Some(n),
                _ => self.fault(key, format!("is {n}: write {wanted}")),
            },
            other => self.wrong_type(key, &wanted, &other),
        }
        None
    }

    /// A duration longer than nothing.
    pub(super) fn span(&mut self, key: &'static str, default: Duration) -> Duration {
        self.parsed(key, units::some_duration).unwrap_or(default)
    }

    /// A duration that may be `"0s"`.
    pub(super) fn span_or_zero(&mut self, key: &'static str, default: Duration) -> Duration {
        self.parsed(key, units::duration).unwrap_or(default)
    }

    /// An array of strings, none of them blank; all keep their places, faulty ones too.
    pub(super) fn strings(&mut self, key: &'static str) -> Option<Vec<String>> {
        let items = match self.take(key)? {
            Value::Array(items) => items,
            other => {
                self.wrong_type(key, "an array of strings, in brackets", &other);
                return None;
            }
        };
        let text_at = |(i, item)| {
            let at = format!("{key}[{i}]");
            let text = self.text_of(&at, item).map(|text| text.value);
            if text.as_ref().is_some_and(|text| !is_visible(text)) {
                self.fault(&at, "is empty: fill it, or remove it");
            }
            text.unwrap_or_default()
        };
        Some(items.into_iter().enumerate().map(text_at).collect())
    }

    /// Every key that is left, with its value as text; names of tables within are put in front, with dots between. Nobody may see
    /// their values: which of them are secrets is not known here.
    pub(super) fn texts(&mut self) -> Vec<(String, Secret)> {
        let values = std::mem::take(&mut self.values);
        let mut texts = Vec::with_capacity(values.len());
        self.texts_of("", values, &mut texts);
        texts
    }

    fn texts_of(&self, above: &str, values: toml::Table, texts: &mut Vec<(String, Secret)>) {
        for (key, value) in values {
            let name = format!("{above}{key}");
            let text = match value {
                Value::Table(values) => {
                    self.texts_of(&format!("{name}."), values, texts);
                    continue;
                }
                Value::Integer(number) => Some(number.to_string()),
                Value::Boolean(flag) => Some(flag.to_string()),
                other => self.text_of(&name, other).map(|text| text.value),
            };
            self.hides(&name);
            texts.extend(text.map(|text| (name, Secret::new(text))));
        }
    }

    /// A section; an absent one is read as an empty one, which gives its defaults.
    pub(super) fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> T {
        let values = self.take(key).and_then(|value| self.table_of(key, value)).unwrap_or_default();
        Table::open(self.source, self.path_of(key), values, read)
    }

    /// A section that may be absent.
    pub(super) fn section_if<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let values = self.take(key).and_then(|value| self.table_of(key, value))?;
        Some(Table::open(self.source, self.path_of(key), values, read))
    }

    /// An array of tables, each with its place in the array; those for which `read` answers `None` are left out.
    pub(super) fn each<T>(&mut self, key: &'static str, mut read: impl FnMut(&mut Self) -> Option<T>) -> Vec<T> {
        let items = match self.take(key) {
            None => return Vec::new(),
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong_type(key, &format!("[[{key}]], or an array of tables"), &other);
                return Vec::new();
            }
        };
        let one = |(i, item)| {
            let at = format!("{key}[{i}]");
            let values = self.table_of(&at, item)?;
            Table::open(self.source, self.path_of(&at), values, &mut read)
        };
        items.into_iter().enumerate().filter_map(one).collect()
    }

    fn table_of(&self, key: &str, value: Value) -> Option<toml::Table> {
        match value {
            Value::Table(values) => Some(values),
            other => {
                self.wrong_type(key, "a table", &other);
                None
            }
        }
    }
}

/// Whether a text shows anything: neither blanks nor zero-width characters alone.
pub(super) fn is_visible(text: &str) -> bool {
    !fold(text).trim().is_empty()
}

/// A string with everything put in, and as it stands in the file.
struct Text {
    raw: String,
    value: String,
}

/// `"a", "b", "c"`.
pub(super) fn quoted<T: AsRef<str>>(words: &[T]) -> String {
    words.iter().map(|word| format!("{:?}", word.as_ref())).collect::<Vec<_>>().join(", ")
}

/// The known word that one was most likely to mean, if any is near.
pub(crate) fn nearest<'w, T: AsRef<str>>(word: &str, known: &'w [T]) -> Option<&'w str> {
    let bound = (word.chars().count() / 3).max(1);
    let distance = |known: &&str| strsim::damerau_levenshtein(word, known);
    known.iter().map(AsRef::as_ref).min_by_key(distance).filter(|near| distance(near) <= bound)
}
