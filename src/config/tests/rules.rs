//! Faults of rules, arguments, actions and templates.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Folder, each_app_fault, robot};
use crate::action::template::Template;
use crate::action::{Actions, Answer, Request, http_client};
use crate::config::action::VALUES;
use crate::config::settings::{Action, ArgKind, Audience, Only, Rules, Terms};
use crate::member::{BoundUser, Profile};
use crate::model::{ChatKind, Message, SenderKind, Session};
use crate::rules::{self, CommandCall, Run, Trigger};
use crate::store::Pace;

const HELP: &str = "action = { type = \"help\" }";
const HTTP: &str = "action = { type = \"http\", url = \"http://crm/bind\" }";

fn command(name: &str, more: &str) -> String {
    format!("[[commands]]\nname = \"{name}\"\n{HELP}\n{more}\n")
}

fn reply(text: &str) -> String {
    let args = "args = [{ name = \"order_id\" }]";
    robot(&format!("[[commands]]\nname = \"q\"\n{args}\naction = {{ type = \"reply\", text = '{text}' }}"))
}

#[test]
fn names_of_commands() {
    let two = |first: &str, second: &str| robot(&(command("query", first) + &command("find", second)));
    each_app_fault(&[
        (two("", "aliases = [\"query\"]"), "commands[1].aliases[0]", &["\"query\"", "commands[0].name", "rename"]),
        (two("aliases = [\"Q\"]", "aliases = [\"q\"]"), "commands[1].aliases[0]", &["\"q\"", "commands[0].aliases[0]"]),
        (two("aliases = [\"a\", \"a\"]", ""), "commands[0].aliases[1]", &["commands[0].aliases[0]"]),
        (robot(&(command("Find", "") + &command("find", ""))), "commands[1].name", &["commands[0].name"]),
        (robot(&command("/query", "")), "commands[0].name", &["prefix \"/\"", "alone"]),
        (robot(&command("query order", "")), "commands[0].name", &["blank", "one word"]),
        (robot(&command("", "")), "commands[0].name", &["empty"]),
        (robot(&(command("find", "") + &command("ＦＩＮＤ", ""))), "commands[1].name", &["commands[0].name"]),
        (robot(&command("\u{200b}", "")), "commands[0].name", &["empty"]),
        (robot(&command("q", "aliases = [\"／x\"]")), "commands[0].aliases[0]", &["prefix"]),
        (robot(&format!("[[commands]]\n{HELP}")), "commands[0].name", &["missing"]),
        (robot("[[commands]]\nname = \"q\""), "commands[0].action", &["missing", "reply"]),
    ]);
}

#[test]
fn arguments() {
    let args = |args: &str| robot(&command("q", &format!("args = [{args}]")));
    each_app_fault(&[
        (args("{ type = \"integer\" }"), "commands[0].args[0].name", &["missing"]),
        (args("{ name = \"\" }"), "commands[0].args[0].name", &["empty"]),
        (args("{ name = \"a\" }, { name = \"a\" }"), "commands[0].args[1].name", &["\"a\"", "its own"]),
        (
            args("{ name = \"a\", type = \"int\" }"),
            "commands[0].args[0].type",
            &["\"integer\"", "\"phone\"", "\"rest\""],
        ),
        (args("{ name = \"a\", type = \"choice\" }"), "commands[0].args[0].choices", &["missing"]),
        (args("{ name = \"a\", type = \"choice\", choices = [] }"), "commands[0].args[0].choices", &["missing"]),
        (args("{ name = \"a\", choices = [\"x\"] }"), "commands[0].args[0].choices", &["type \"choice\""]),
        (args("{ name = \"a\", type = \"rest\" }, { name = \"b\" }"), "commands[0].args[1]", &["\"a\"", "to the end"]),
        (
            args("{ name = \"a\", required = false }, { name = \"b\" }"),
            "commands[0].args[1].required",
            &["optional \"a\"", "in front"],
        ),
        (args("{ name = \"a\", requird = false }"), "commands[0].args[0].requird", &["did you mean \"required\""]),
    ]);
    let text = args(
        "{ name = \"a\", label = \"甲\", type = \"choice\", choices = [\"x\"] }, { name = \"b\", required = false, type = \"rest\" }",
    );
    let app = Folder::new().app("a", &text).settings().apps["a"].clone();
    let [a, b] = app.rules.commands[0].args.as_slice() else { panic!("two arguments") };
    assert_eq!((a.label.as_str(), &a.kind, a.required), ("甲", &ArgKind::Choice(vec!["x".into()]), true));
    assert_eq!((b.label.as_str(), &b.kind, b.required), ("b", &ArgKind::Rest, false));
}

#[test]
fn words_and_patterns() {
    let rules = |text: &str| robot(&format!("[rules]\n{text}"));
    let binding = |text: &str| robot(&format!("[[bindings]]\n{text}"));
    each_app_fault(&[
        (rules("prefixes = [\"/\", \"\"]"), "rules.prefixes[1]", &["empty"]),
        (rules("prefixes = [\"\u{200b}\"]"), "rules.prefixes[0]", &["empty"]),
        (rules("sensitive = [\" \"]"), "rules.sensitive[0]", &["empty"]),
        (rules("sensitive_file = \"none.txt\""), "rules.sensitive_file", &["apps/none.txt", "relative to this file"]),
        (rules("unknown_command = \"help\""), "rules.unknown_command", &["\"hint\", \"ignore\""]),
        (robot(&format!("[[keywords]]\n{HELP}")), "keywords[0].any", &["missing"]),
        (robot(&format!("[[keywords]]\nany = []\n{HELP}")), "keywords[0].any", &["missing", "list the words"]),
        (robot(&format!("[[keywords]]\nany = [\"\"]\n{HELP}")), "keywords[0].any[0]", &["empty"]),
        (robot("[[keywords]]\nany = [\"x\"]"), "keywords[0].action", &["missing"]),
        (robot("[mention]"), "mention.action", &["missing"]),
        (binding(&format!("pattern = '(unclosed'\n{HELP}")), "bindings[0].pattern", &["unclosed group", "correct it"]),
        (binding(&format!("pattern = 'a(?=b)'\n{HELP}")), "bindings[0].pattern", &["look-around"]),
        (binding(HELP), "bindings[0].pattern", &["missing"]),
        (binding("pattern = '(?P<name>.*)'"), "bindings[0].pattern", &["matches whatever is written", "手机号是"]),
        (binding("pattern = '(我叫)?(?P<name>x?)'"), "bindings[0].pattern", &["matches whatever is written"]),
        (binding("pattern = '^\\s*(?P<name>\\S.*)$'"), "bindings[0].pattern", &["matches whatever is written"]),
        (binding("pattern = 'x'"), "bindings[0]", &["no action", "captures nothing", "(?P<phone>"]),
        (binding(&format!("pattern = 'x'\nttl = \"week\"\n{HELP}")), "bindings[0].ttl", &["\"week\"", "7d"]),
    ]);
}

#[test]
fn manners() {
    let rules = |text: &str| robot(&format!("[rules]\n{text}"));
    let with = |rules: &str, more: &str| robot(&(format!("[rules]\n{rules}\n") + &command("query", more)));
    let binding = |text: &str| robot(&format!("[[bindings]]\npattern = 'x'\n{text}"));
    each_app_fault(&[
        (rules("per_member = \"10\""), "rules.per_member", &["\"10\"", "\"20/min\""]),
        (rules("per_member = \"0/min\""), "rules.per_member", &["at least"]),
        (rules("mute = [\"静音\"]"), "rules.mute", &["nobody", "admins"]),
        (rules("admins = [\"zs\"]\nunmute = []"), "rules.unmute", &["empty", "name the command"]),
        (rules("admins = [\"zs\"]\nmute = [\"/x\"]"), "rules.mute[0]", &["prefix \"/\""]),
        (rules("admins = [\"zs\"]\nmute = [\"x\"]\nunmute = [\"X\"]"), "rules.unmute[0]", &["rules.mute[0]"]),
        (with("admins = [\"zs\"]", "aliases = [\"静音\"]"), "commands[0].aliases[0]", &["rules.mute[1]", "rename"]),
        (with("", "only = \"members\""), "commands[0].only", &["\"bound\", \"internal\", \"external\", \"admin\""]),
        (with("", "only = \"admin\""), "commands[0].only", &["nobody yet", "[rules] admins"]),
        (with("", "only_text = \"x\""), "commands[0].only_text", &["only = \"bound\""]),
        (with("", "only = \"bound\"\nonly_text = \"\""), "commands[0].only_text", &["empty"]),
        (robot("[[bindings]]\npattern = '我叫(?P<name>.)'\nttl = \"1d\""), "bindings[0].ttl", &["type \"http\""]),
        (binding(&format!("renew_on_use = true\n{HELP}")), "bindings[0].renew_on_use", &["type \"http\""]),
        (
            binding(&format!("{HELP}\n[[bindings]]\npattern = 'x'\nunbind = true")),
            "bindings[1].pattern",
            &["bindings[0].pattern", "never reached"],
        ),
        (binding("unbind = true\nttl = \"1d\""), "bindings[0].ttl", &["unbind ends one"]),
        (binding("unbind = true\nrenew_on_use = true"), "bindings[0].renew_on_use", &["unbind ends one"]),
        (binding(&format!("unbind = 1\n{HELP}")), "bindings[0].unbind", &["true or false"]),
        (binding(&format!("unbind = true\n{HELP}")), "bindings[0].action", &["beside unbind", "reply"]),
        (binding(&format!("unbind = true\n{HTTP}")), "bindings[0].action", &["asks nobody"]),
    ]);
    let bye = binding("unbind = true\naction = { type = \"reply\", text = \"再见\" }");
    assert!(Folder::new().app("a", &bye).settings().apps["a"].rules.bindings[0].action.is_some());
    for narrow in ["^\\d+$", "我叫(?P<name>.+)", "^解绑$", "[a-z]+"] {
        Folder::new().app("a", &robot(&format!("[[bindings]]\npattern = '{narrow}'\n{HELP}"))).settings();
    }
    let text = with(
        "per_member = \"10/min\"\nadmins = [\"zs\"]\nmute = [\"shh\"]",
        "only = \"bound\"\nonly_text = \"先绑定\"",
    );
    let text = text
        + "[[bindings]]\npattern = '(?P<phone>1\\d{10})'\nttl = \"1d\"\nrenew_on_use = true\naction = { type = \"http\", url = \"http://crm:1/\" }\n[[bindings]]\npattern = '解绑'\nunbind = true";
    let app = Folder::new().app("a", &text).settings().apps["a"].clone();
    let Rules { manners, commands, bindings, .. } = &app.rules;
    let minute = Duration::from_secs(60);
    assert_eq!(manners.per_member, Some(Pace { limit: 10, window: minute }));
    assert_eq!((manners.mute.as_slice(), manners.unmute.len()), (["shh".to_owned()].as_slice(), 2));
    assert_eq!(commands[0].only, Some(Only { audience: Audience::Bound, text: Some("先绑定".into()) }));
    assert_eq!(bindings[0].terms, Terms { unbind: false, ttl: minute * 60 * 24, renew_on_use: true });
    assert_eq!(bindings[1].terms, Terms { unbind: true, ..Terms::default() });
    assert!(bindings[0].action.is_some() && bindings[1].action.is_none());
}

#[test]
fn sensitive_words_come_from_list_and_file() {
    let app = robot("[rules]\nsensitive = [\"甲\"]\nsensitive_file = \"words.txt\"");
    let folder = Folder::new().file("apps/words.txt", "\u{feff}乙\r\n\n\u{200b}\n 丙 丁 \n").app("a", &app);
    assert_eq!(folder.settings().apps["a"].rules.sensitive, ["甲", "乙", "丙 丁"]);
}

#[test]
fn actions() {
    let mention = |action: &str| robot(&format!("[mention]\naction = {action}"));
    each_app_fault(&[
        (mention("\"help\""), "mention.action", &["a string", "a table"]),
        (mention("{}"), "mention.action.type", &["missing", "\"reply\", \"http\", \"llm\", \"help\""]),
        (mention("{ type = \"htpp\", url = \"x\" }"), "mention.action.type", &["did you mean \"http\""]),
        (mention("{ type = \"reply\" }"), "mention.action.text", &["missing"]),
        (mention("{ type = \"reply\", text = \"\" }"), "mention.action.text", &["empty"]),
        (mention("{ type = \"help\", text = \"x\" }"), "mention.action.text", &["unknown"]),
        (mention("{ type = \"http\" }"), "mention.action.url", &["missing"]),
        (mention("{ type = \"http\", url = \"orders:9000/bot\" }"), "mention.action.url", &["neither http://"]),
        (mention("{ type = \"http\", url = \"/bot\" }"), "mention.action.url", &["no URL"]),
        (
            mention("{ type = \"http\", url = \"http://o\", timeout = \"11m\" }"),
            "mention.action.timeout",
            &["11m", "max_reply_age (10m)"],
        ),
        (mention("{ type = \"http\", url = \"http://o\", secret = \"\" }"), "mention.action.secret", &["empty"]),
    ]);
    let app =
        Folder::new().app("a", &mention("{ type = \"http\", url = \"http://o:9000/bot\", secret = \"${OPS_TOKEN}\" }"));
    let app = app.settings().apps["a"].clone();
    let Some(Action::Http(http)) = &app.rules.mention else { panic!("an http action") };
    assert_eq!((http.url.as_str(), http.timeout.as_secs()), ("http://o:9000/bot", 8));
    assert_eq!(http.secret.as_ref().map(|s| s.expose()), Some("ops-secret"));
}

#[test]
fn models() {
    let llm = |keys: &str| {
        let action = format!("type = \"llm\", base_url = \"http://llm:8000/v1/\", model = \"m\", {keys}");
        robot(&format!("[mention]\naction = {{ {action} }}"))
    };
    let only = |key: &str| robot(&format!("[mention]\naction = {{ type = \"llm\", {key} }}"));
    each_app_fault(&[
        (only("model = \"m\""), "mention.action.base_url", &["missing", "http://llm:8000/v1"]),
        (only("base_url = \"http://l\""), "mention.action.model", &["missing"]),
        (
            only("model = \"m\", base_url = \"http://l/v1/chat/completions/\""),
            "mention.action.base_url",
            &["ends with /chat/completions", "where the API begins"],
        ),
        (llm("api_key = \"\""), "mention.action.api_key", &["empty"]),
        (llm("timeout = \"11m\""), "mention.action.timeout", &["11m", "max_reply_age (10m)"]),
        (llm("temperature = 3"), "mention.action.temperature", &["0 to 2"]),
        (llm("temperature = \"hot\""), "mention.action.temperature", &["0 to 2"]),
        (llm("max_tokens = 0"), "mention.action.max_tokens", &["from 1"]),
        (llm("max_answer = \"0B\""), "mention.action.max_answer", &["nothing of an answer"]),
        (llm("format = \"html\""), "mention.action.format", &["\"text\", \"markdown\""]),
        (llm("contxt = 1"), "mention.action.contxt", &["did you mean \"context\""]),
    ]);
    let app = Folder::new().app("a", &llm("api_key = \"${OPS_TOKEN}\", temperature = 1")).settings().apps["a"].clone();
    let Some(Action::Llm(llm)) = &app.rules.mention else { panic!("an llm action") };
    assert_eq!(llm.endpoint.as_str(), "http://llm:8000/v1/chat/completions");
    assert_eq!(llm.api_key.as_ref().map(|key| key.expose()), Some("ops-secret"));
    assert_eq!(
        (llm.timeout.as_secs(), llm.max_age.as_secs(), llm.context, llm.temperature),
        (30, 600, 4000, Some(1.0))
    );
    // The default gives way to a short age.
    let hasty = "max_reply_age = \"20s\"\n".to_owned();
    let action = "[mention]\naction = { type = \"llm\", base_url = \"http://l\", model = \"m\" }";
    let app = Folder::new().app("a", &robot(&(hasty + action))).settings().apps["a"].clone();
    assert!(matches!(&app.rules.mention, Some(Action::Llm(llm)) if llm.timeout.as_secs() == 20));
}

#[test]
fn templates_hold_plain_values_only() {
    let key = "commands[0].action.text";
    let keyword =
        |text: &str| robot(&format!("[[keywords]]\nany = [\"x\"]\naction = {{ type = \"reply\", text = '{text}' }}"));
    let binding = |pattern: &str, text: &str| {
        robot(&format!("[[bindings]]\npattern = '{pattern}'\naction = {{ type = \"reply\", text = '{text}' }}"))
    };
    each_app_fault(&[
        (reply("{% if args.order_id %}x{% endif %}"), key, &["{%", "plain values", "{{ args.order_id }}"]),
        (reply("{# note #}"), key, &["{#", "plain values"]),
        (reply("{{ args.order_id"), key, &["never closed"]),
        (reply("{{ args.order_id | upper }}"), key, &["not a plain value", "{{ args.order_id }}"]),
        (reply("{{ range(9) }}"), key, &["not a plain value"]),
        (reply("{{ 1 + 1 }}"), key, &["not a plain value"]),
        (reply("{{ }}"), key, &["not a plain value"]),
        (reply("{{ usr.name }}"), key, &["usr", "user"]),
        (reply("{{ args.orderid }}"), key, &["`args.orderid`", "did you mean `args.order_id`"]),
        (reply("{{ args.order_id.x }}"), key, &["isn't there", "did you mean `args.order_id`"]),
        (reply("{{ user.nme }}"), key, &["`user.nme`", "did you mean `user.name`"]),
        (reply("{{ user.name }} {{ user }}"), key, &["`user`", "write one of args.order_id, user.name, user.id"]),
        (reply("{{ session.turns.0.text }}"), key, &["isn't there", "session.vars"]),
        (keyword("{{ args.x }}"), "keywords[0].action.text", &["`args.x`", "isn't there: write one of user.name"]),
        (keyword("{{ args }}"), "keywords[0].action.text", &["`args`", "isn't there"]),
        (binding("x", "{{ args.x }}"), "bindings[0].action.text", &["`args.x`", "isn't there: write one of user.name"]),
        (binding("(?P<phone>1)", "{{ args.phne }}"), "bindings[0].action.text", &["did you mean `args.phone`"]),
        (
            robot("[mention]\naction = { type = \"reply\", text = \"{{ args.x }}\" }"),
            "mention.action.text",
            &["`args.x`", "isn't there"],
        ),
    ]);
    for text in [
        "订单 {{ args.order_id }} {{user.name}} {{ chat.id }} {{ session.vars.step.0.x }}",
        "{a} }} 50%",
        "{{ sender.key }}{{ message.text }}{{ command.name }}{{ args }}",
    ] {
        Folder::new().app("a", &reply(text)).settings();
    }
    let binding =
        "[[bindings]]\npattern = '(?P<phone>1\\d{10})'\naction = { type = \"reply\", text = \"{{ args.phone }}\" }";
    Folder::new().app("a", &robot(binding)).settings();
}

/// Every root whole, as the action fills it in, against the names that the check knows: neither may run ahead.
#[tokio::test]
async fn the_names_that_templates_may_hold_are_those_that_are_filled_in() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let roots = ["chat", "command", "message", "sender", "session", "user"];
    let whole = roots.map(|root| format!("{{{{ {root} }}}}")).join("\n");
    let action = Arc::new(rules::Action::Reply(Template::compile(&whole).unwrap()));
    let command = Some(CommandCall { name: "q".into(), args: Map::new() });
    let run = Run { command, ..Run::new("command:q".into(), Trigger::Command, action) };
    let (message, session, rules) = (message(), Session::default(), rules::tests::set(|_| {}));
    let user = BoundUser { id: "u-7".into(), left: Duration::from_secs(60), renew: None };
    let contact = ["name", "remark", "phone", "email"].map(|field| (field.to_owned(), field.to_owned()));
    let profile = Profile { user: Some(user), contact: contact.into(), ..Profile::default() };
    let request = Request {
        message: &message,
        chat_name: Some("群"),
        run: &run,
        session: &session,
        profile: &profile,
        rules: &rules,
        trace: None,
    };
    let answer = Actions::new(http_client().unwrap()).run(request).await.unwrap();
    let Answer::Say { messages, .. } = answer else { panic!("{answer:?}") };

    let lines = messages[0]["text"]["content"].as_str().unwrap().lines();
    let filled: BTreeSet<String> = roots
        .iter()
        .zip(lines)
        .flat_map(|(root, line)| {
            let values: Map<String, Value> = serde_json::from_str(line).unwrap();
            assert!(values.values().all(|value| !value.is_null()), "{root}: {line}");
            values.into_iter().map(move |(name, _)| format!("{root}.{name}"))
        })
        .collect();
    assert_eq!(filled, VALUES.map(str::to_owned).into());
}

fn message() -> Message {
    Message {
        request_id: "r".into(),
        app: "a".into(),
        chat_id: "c".into(),
        chat_kind: ChatKind::Group,
        msg_id: "m".into(),
        sender_key: "u".into(),
        sender_kind: SenderKind::External,
        sender_name: Some("王五".into()),
        msg_type: "text".into(),
        text: "/q".into(),
        sent_at: None,
        received_at: 0,
        response_url: None,
        trace: None,
    }
}
