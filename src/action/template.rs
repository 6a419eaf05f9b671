//! Templates of `reply` actions: `{{ args.order_id }}` and nothing more.
//!
//! The engine is minijinja, held to plain values: tags, calls, filters and operators are refused before it sees them. What
//! always holds: a member's words are values, never template text, and every value is defused on its way into the
//! answer and severed from what stands around it, so nobody can make the bot call others through it. A value that isn't there is
//! empty.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde::Serialize;

use crate::wecom::message::{defuse, severed};

/// What a path may begin with.
const ROOTS: [&str; 7] = ["args", "chat", "command", "message", "sender", "session", "user"];

const NAME: &str = "reply";

/// Why a template can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// `{%` or `{#`.
    #[error("a template holds plain values only, no `{0}`")]
    Tag(&'static str),
    /// `{{` without `}}`.
    #[error("`{{{{` is never closed by `}}}}`")]
    Unclosed,
    /// A call, a filter, an operator, or no name at all.
    #[error("`{0}` is not a plain value like `args.order_id`")]
    NotPlain(String),
    /// A root that no message has.
    #[error("`{0}` is no value; a value begins with one of {list}", list = ROOTS.join(", "))]
    UnknownRoot(String),
    /// The engine's own refusal.
    #[error("the template can't be used: {0}")]
    Engine(#[from] minijinja::Error),
}

/// A compiled template.
#[derive(Clone, Debug)]
pub struct Template {
    engine: Environment<'static>,
    speaks_of_user: bool,
}

/// Whether a text can be a template.
pub fn check(text: &str) -> Result<(), TemplateError> {
    Template::compile(text).map(drop)
}

impl Template {
    /// Checks and compiles a template.
    pub fn compile(text: &str) -> Result<Self, TemplateError> {
        check_plain(text)?;
        let mut engine = Environment::empty();
        engine.set_undefined_behavior(UndefinedBehavior::Chainable);
        engine.set_syntax(SyntaxConfig::builder().keep_trailing_newline(true).build()?);
        engine.set_formatter(|out, _, value| Ok(out.write_str(&shown(value)?)?));
        engine.add_template_owned(NAME, severed_from_values(text))?;
        let speaks_of_user = paths(text).any(|path| path.trim().split('.').next() == Some("user"));
        Ok(Self { engine, speaks_of_user })
    }

    /// Whether it shows anything of `user`.
    pub fn speaks_of_user(&self) -> bool {
        self.speaks_of_user
    }

    /// Fills in the values.
    pub fn render(&self, values: impl Serialize) -> Result<String, TemplateError> {
        Ok(self.engine.get_template(NAME)?.render(Serde(values))?)
    }
}

/// A value as a reader expects it: text as it is, anything else as JSON, what isn't there as nothing.
fn shown(value: &Value) -> Result<String, minijinja::Error> {
    if let Some(text) = value.as_str() {
        return Ok(defuse(text).into_owned() + severed(text));
    }
    if value.is_undefined() || value.is_none() {
        return Ok(String::new());
    }
    let json = serde_json::to_string(value);
    json.map(|json| defuse(&json).into_owned())
        .map_err(|e| minijinja::Error::new(ErrorKind::BadSerialization, e.to_string()))
}

/// The template with a break wherever its own words would make a mention of the value behind them: `@{{ user.name }}`, whose name may be
/// `all`. Whose message it is no member can choose: `<@{{ sender.key }}>` calls whoever asked.
fn severed_from_values(text: &str) -> String {
    let mut pieces = text.split("{{");
    let mut words = pieces.next().unwrap_or_default();
    let mut out = words.to_owned();
    for piece in pieces {
        let (path, behind) = piece.split_once("}}").unwrap_or((piece, ""));
        if path.trim() != "sender.key" {
            out.push_str(severed(words));
        }
        out.extend(["{{", piece]);
        words = behind;
    }
    out
}

fn check_plain(text: &str) -> Result<(), TemplateError> {
    if let Some(tag) = ["{%", "{#"].into_iter().find(|tag| text.contains(tag)) {
        return Err(TemplateError::Tag(tag));
    }
    text.split("{{").skip(1).try_for_each(|piece| {
        let (path, _) = piece.split_once("}}").ok_or(TemplateError::Unclosed)?;
        check_path(path.trim())
    })
}

/// What stands between `{{` and `}}`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split("{{").skip(1).filter_map(|piece| piece.split_once("}}")).map(|(path, _)| path)
}

/// `root.name.name`, where a name may be a place in a list.
fn check_path(path: &str) -> Result<(), TemplateError> {
    let word = |part: &str| part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let name = |part: &str| word(part) && part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let place = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let mut parts = path.split('.');
    let root = parts.next().unwrap_or_default();
    if !name(root) || !parts.all(|part| name(part) || place(part)) {
        return Err(TemplateError::NotPlain(path.to_owned()));
    }
    if ROOTS.contains(&root) { Ok(()) } else { Err(TemplateError::UnknownRoot(path.to_owned())) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn render(template: &str) -> String {
        let values = json!({
            "args": {"n": 1001, "x": 9.5, "text": "{{ user.name }} {% if 1 %}<@all>", "none": null, "flag": true},
            "user": {"name": "王五"}, "command": null, "session": {"vars": {"a": {"b": "c"}, "list": [1, "x"]}},
        });
        Template::compile(template).expect(template).render(values).expect(template)
    }

    #[test]
    fn plain_values_are_filled_in() {
        assert_eq!(
            render("订单 {{ args.n }}：{{user.name}}，{{ args.x }} {{ args.flag }}\n"),
            "订单 1001：王五，9.5 true\n"
        );
        assert_eq!(render("{{ session.vars.a.b }} }} { }"), "c }} { }");
        assert_eq!(
            render("{{ session.vars.list }} {{ session.vars.list.1 }} {{ session.vars.a }}"),
            r#"[1,"x"] x {"b":"c"}"#
        );
        assert_eq!(render("领券入口"), "领券入口");
    }

    #[test]
    fn what_is_not_there_is_empty() {
        assert_eq!(
            render("[{{ args.no }}{{ args.none }}{{ args.no.deeper.still }}{{ command.name }}{{ args.n.x }}]"),
            "[]"
        );
    }

    #[test]
    fn members_words_stay_data_and_are_defused() {
        let text = render("{{ args.text }}");
        assert!(text.starts_with("{{ user.name }} {% if 1 %}"), "{text}");
        assert!(!text.contains("<@all>"), "{text}");
        assert!(render("<@all> {{ args.n }}").starts_with("<@all>"), "the operator's own words are theirs");
    }

    #[test]
    fn no_value_joins_what_stands_around_it_to_a_mention() {
        let values = json!({
            "args": {"x": "@id", "y": "<", "a": "@", "b": "ALL", "al": "@al", "l": "l"}, "user": {"name": "all"},
            "sender": {"key": "zhangsan"},
        });
        for (template, text) in [
            ("@{{ user.name }}", "@\u{200b}all"),
            ("<@{{ user.name }}>", "<@\u{200b}all>"),
            ("<{{ args.x }}>", "<\u{200b}@id>"),
            ("@al{{ args.l }}", "@al\u{200b}l"),
            ("{{ args.a }}{{ args.b }} {{ args.al }}l", "@\u{200b}ALL @al\u{200b}l"),
            ("{{ args.y }}{{ args.x }}>", "<\u{200b}@id>"),
            ("<{{ args.no }}{{ args.x }}>", "<\u{200b}@id>"),
            // Which id it is nobody chooses.
            ("<@{{ sender.key }}> {{ user.name }}", "<@zhangsan> all"),
        ] {
            assert_eq!(Template::compile(template).expect(template).render(&values).expect(template), text);
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for template in [
            "{% if args.x %}a{% endif %}",
            "{# note #}",
            "{{ args.x",
            "{{ args.x | upper }}",
            "{{ args.x() }}",
            "{{ args['x'] }}",
            "{{ 1 + 1 }}",
            "{{ args.x ~ args.y }}",
            "{{ }}",
            "{{ args. }}",
            "{{- args.x -}}",
            "{{ 'a' }}",
            "{{ args.x if args.y }}",
            "{{{ args.x }}}",
            "{{ arg.x }}",
            "{{ true }}",
            "{{ args.x\n+1 }}",
        ] {
            assert!(check(template).is_err(), "{template}");
        }
    }
}
