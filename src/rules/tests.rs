//! What each text makes the bot do: one table a rule, and a search for texts that panic.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::config::settings::{
    App, AppKind, Arg, ArgKind, Audience, Binding, Command, JsonAuth, Keyword, Manners, Only, Rules, UnknownCommand,
};
use crate::model::SenderKind;

fn reply(text: &str) -> settings::Action {
    settings::Action::Reply { text: text.to_owned() }
}

fn arg(name: &str, label: &str, kind: ArgKind, required: bool) -> Arg {
    Arg { name: name.into(), label: label.into(), kind, required }
}

fn command(name: &str, aliases: &[&str], args: Vec<Arg>) -> Command {
    let aliases = aliases.iter().map(|alias| alias.to_string()).collect();
    Command { name: name.into(), aliases, summary: format!("{name} 的说明"), args, only: None, action: reply("ok") }
}

pub(super) fn rules() -> Rules {
    Rules {
        prefixes: vec!["/".into(), "／".into()],
        unknown_command: UnknownCommand::Hint,
        sensitive: vec!["违禁词".into(), "Bad Word".into()],
        commands_on_mention: true,
        bare_name: true,
        commands: vec![
            command("query", &["查询订单"], vec![arg("order_id", "订单号", ArgKind::Integer, true)]),
            command("echo", &[], vec![arg("text", "内容", ArgKind::Rest, true)]),
            command("stop", &[], vec![arg("n", "编号", ArgKind::Integer, false)]),
            command("city", &[], vec![arg("c", "城市", ArgKind::Choice(vec!["北京".into(), "上海".into()]), true)]),
        ],
        keywords: vec![
            Keyword { any: vec!["优惠券".into(), "Coupon".into()], action: reply("k0") },
            Keyword { any: vec!["优惠".into()], action: reply("k1") },
        ],
        mention: Some(reply("mention")),
        bindings: vec![Binding {
            pattern: Regex::new(r"绑定的?手机号是?\s*(?P<phone>1\d{10})(?P<tail>x)?").expect("a pattern"),
            action: Some(reply("bound")),
            terms: Terms::default(),
        }],
        manners: Manners::default(),
    }
}

pub(super) fn app(rules: Rules) -> App {
    let bot_names = vec!["Robot A".into(), "RobotA".into(), "小助手".into()];
    App { bot_names, rules, ..App::for_tests("support", AppKind::Json(JsonAuth::None)) }
}

pub(crate) fn set(change: impl FnOnce(&mut Rules)) -> RuleSet {
    let mut rules = rules();
    change(&mut rules);
    RuleSet::compile(&app(rules)).expect("rules")
}

pub(super) fn message(msg_type: &str, text: &str, chat_kind: ChatKind) -> Message {
    Message {
        request_id: "r".into(),
        app: "support".into(),
        chat_id: "c".into(),
        chat_kind,
        msg_id: "m".into(),
        sender_key: "u".into(),
        sender_kind: SenderKind::Internal,
        sender_name: None,
        msg_type: msg_type.into(),
        text: text.into(),
        sent_at: None,
        received_at: 0,
        response_url: None,
        trace: None,
    }
}

/// A decision in one line: `run <rule> <args>`, `say <rule>` and maybe why, `block <rule>`, `ignore <reason>`.
fn line(decision: Decision) -> String {
    match decision {
        Decision::Ignore { reason } => format!("ignore {reason}"),
        Decision::Block { rule } => format!("block {rule}"),
        Decision::Say { rule, reason: Some(reason), .. } => format!("say {rule} {reason}"),
        Decision::Say { rule, .. } => format!("say {rule}"),
        Decision::Run(Run { rule, command: Some(call), .. }) => format!("run {rule} {}", Value::Object(call.args)),
        Decision::Run(Run { rule, .. }) => format!("run {rule}"),
    }
}

fn in_group(set: &RuleSet, text: &str) -> String {
    line(set.decide(&message("text", text, ChatKind::Group)))
}

fn said(set: &RuleSet, text: &str) -> String {
    match set.decide(&message("text", text, ChatKind::Group)) {
        Decision::Say { text, .. } => text,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_text_in_a_group() {
    let set = set(|_| {});
    for (text, want) in [
        ("今天天气不错啊", "ignore chatter"),
        ("", "ignore chatter"),
        // Sensitive words come first, however they are written.
        ("/query 违禁词", "block sensitive"),
        ("违\u{200B}禁词 优惠券", "block sensitive"),
        ("@小助手 ｂａｄ　ＷＯＲＤ", "block sensitive"),
        // Bindings, with or without a mention.
        ("我绑定的手机号是13800138000", "run binding:0"),
        ("@小助手 绑定手机号13800138000", "run binding:0"),
        // Commands behind a prefix.
        ("/query 1001", r#"run command:query {"order_id":1001}"#),
        ("／查询订单　１２", r#"run command:query {"order_id":12}"#),
        ("/ QUERY\u{2005}7", r#"run command:query {"order_id":7}"#),
        ("  /query 7 @小助手", r#"run command:query {"order_id":7}"#),
        ("/help", "run command:help {}"),
        ("/帮助", "run command:help {}"),
        ("/stop@Robot A", r#"run command:stop {"n":null}"#),
        ("/stop@Robot A 5", r#"run command:stop {"n":5}"#),
        ("/stop @Robot A 5", r#"run command:stop {"n":5}"#),
        ("/echo @Li Si 在吗", r#"run command:echo {"text":"@Li Si 在吗"}"#),
        ("/echo ; rm -rf / $(x) ../../", r#"run command:echo {"text":"; rm -rf / $(x) ../../"}"#),
        ("/query", "say command:query"),
        ("/query abc", "say command:query"),
        ("/query 1 2", "say command:query"),
        ("/help me", "say command:help"),
        ("/nonsense 1", "say unknown_command"),
        ("/queryabc", "say unknown_command"),
        ("/query优惠券", "say unknown_command"),
        // No commands of ours.
        ("/", "ignore chatter"),
        ("//", "ignore chatter"),
        ("/ ", "ignore chatter"),
        ("/etc/passwd", "ignore chatter"),
        ("/:strong", "ignore chatter"),
        ("/stop@OtherBot", "ignore chatter"),
        ("请看 /query 1", "ignore chatter"),
        ("please do not call for help now", "ignore chatter"),
        ("help", "ignore chatter"),
        ("query 1", "ignore chatter"),
        // Commands on a mention.
        ("@Robot A help", "run command:help {}"),
        ("@Li Si @Robot A help", "run command:help {}"),
        ("＠Robot A\u{2005}help", "run command:help {}"),
        ("help @Robot A", "run command:help {}"),
        ("help@Robot A", "run command:help {}"),
        ("@Robot A\u{00A0}help", "run command:help {}"),
        ("@Robot A @Robot A help", "run command:help {}"),
        ("@Robot A /help", "run command:help {}"),
        ("@Robot A @ZhangSan /help", "run command:help {}"),
        ("@Robot A @Zhang San\u{2005}@王五 /stop 5", r#"run command:stop {"n":5}"#),
        ("@Robot A @ZhangSan help", "run mention"),
        ("@Robot A @ZhangSan /etc/hosts", "run mention"),
        ("@Robot A @ZhangSan who can see it: /help", "run mention"),
        ("@Robot A see /help", "run mention"),
        ("@ZhangSan /help", "ignore chatter"),
        ("小助手，帮助", "run command:help {}"),
        ("@小助手查询订单 12", r#"run command:query {"order_id":12}"#),
        ("@小助手 query", "say command:query"),
        ("@小助手 query abc", "say command:query"),
        ("@小助手 /nonsense", "say unknown_command"),
        ("@RobotAX help", "ignore chatter"),
        ("mail a@Robot A", "ignore chatter"),
        ("help@robota.com", "ignore chatter"),
        // Keywords stand before mentions, and the file's order decides.
        ("有优惠券吗", "run keyword:优惠券"),
        ("ＣＯＵＰＯＮ?", "run keyword:Coupon"),
        ("有优惠吗", "run keyword:优惠"),
        ("@小助手 有优惠吗", "run keyword:优惠"),
        // Mentions.
        ("@小助手 介绍一下产品", "run mention"),
        ("@小助手介绍一下", "run mention"),
        ("@小助手", "run mention"),
        ("小助手", "run mention"),
        ("介绍一下 @小助手", "run mention"),
        ("@小助手 help me with this", "run mention"),
        ("@小助手 query 12 怎么还没到", "run mention"),
    ] {
        assert_eq!(in_group(&set, text), want, "{text:?}");
    }
}

#[test]
fn in_a_one_to_one_chat_every_text_speaks_to_the_bot() {
    let set = set(|_| {});
    for (text, want) in [
        ("你好", "run mention"),
        ("help", "run command:help {}"),
        ("query 12", r#"run command:query {"order_id":12}"#),
        ("help me", "run mention"),
        ("优惠券", "run keyword:优惠券"),
        ("/nonsense", "say unknown_command"),
        (" \u{200B} ", "ignore chatter"),
    ] {
        assert_eq!(line(set.decide(&message("text", text, ChatKind::Single))), want, "{text:?}");
    }
}

#[test]
fn other_types_are_ignored_by_name() {
    let set = set(|_| {});
    for (msg_type, want) in [
        ("mixed", r#"run command:query {"order_id":1}"#),
        // What was said, where WeCom tells it.
        ("voice", r#"run command:query {"order_id":1}"#),
        ("markdown", "ignore type:markdown"),
        ("event:add_to_chat", "ignore event:add_to_chat"),
    ] {
        assert_eq!(line(set.decide(&message(msg_type, "@小助手 /query 1", ChatKind::Single))), want, "{msg_type}");
    }
    assert_eq!(line(set.decide(&message("voice", "", ChatKind::Single))), "ignore type:voice", "a recording alone");
}

#[test]
fn switches_switch() {
    let quiet = set(|rules| rules.unknown_command = UnknownCommand::Ignore);
    assert_eq!(in_group(&quiet, "/nonsense"), "ignore unknown_command");

    let apart = set(|rules| rules.commands_on_mention = false);
    assert_eq!(in_group(&apart, "@小助手 /query 1"), "run mention");
    assert_eq!(in_group(&apart, "@小助手 query 1"), "run mention");
    assert_eq!(in_group(&apart, "/query 1 @小助手"), r#"run command:query {"order_id":1}"#);

    let named = set(|rules| rules.bare_name = false);
    assert_eq!(in_group(&named, "小助手 介绍"), "ignore chatter");

    let mute = set(|rules| rules.mention = None);
    assert_eq!(in_group(&mute, "@小助手 介绍"), "ignore no_mention_rule");
    assert_eq!(in_group(&mute, "@小助手 query 12 怎么还没到"), "say command:query");

    let bang = set(|rules| rules.prefixes = vec!["!".into(), "!!".into()]);
    assert_eq!(in_group(&bang, "！！query 1"), r#"run command:query {"order_id":1}"#);
    assert_eq!(in_group(&bang, "/query 1"), "ignore chatter");
}

#[test]
fn a_binding_hands_on_its_captures() {
    let set = set(|_| {});
    match set.decide(&message("text", "绑定手机号 13800138000", ChatKind::Group)) {
        Decision::Run(run) => {
            assert_eq!((run.trigger, run.action.as_str()), (Trigger::Binding, "reply"));
            assert_eq!(run.captures.map(Value::Object), Some(json!({"phone": "13800138000", "tail": null})));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn texts_name_the_label_what_was_wrong_and_a_way_out() {
    let set = set(|_| {});
    for (text, parts) in [
        ("/query", vec!["缺少订单号", "用法：/query <订单号>", "例如：/query 1001"]),
        ("/查询订单 abc", vec!["订单号应为整数", "“abc”", "/query <订单号>"]),
        ("/query 1 2", vec!["参数太多", "/query <订单号>"]),
        ("/city 深圳", vec!["城市应为以下之一：北京、上海", "“深圳”", "<城市：北京|上海>"]),
        ("/stop x", vec!["编号应为整数", "[编号]"]),
        ("/query 99999999999999999999", vec!["订单号的数值太大", "“99999999999999999999”", "/query <订单号>"]),
        ("/query -9223372036854775809", vec!["订单号的数值太小", "“-9223372036854775809”"]),
        ("/query 99999999999999999999x", vec!["订单号应为整数"]),
        ("/nonsense 1", vec!["“/nonsense”", "/help"]),
    ] {
        let answer = said(&set, text);
        assert!(parts.iter().all(|part| answer.contains(part)), "{text}: {answer}");
    }
    let answer = said(&set, &format!("/query <@all>{}", "x".repeat(10_000)));
    assert!(!answer.contains("<@all>") && answer.chars().count() < 120, "{answer}");
}

#[test]
fn help_lists_every_command() {
    let text = set(|_| {}).help_text(&message("text", "/help", ChatKind::Group));
    for line in [
        "/query <订单号>：query 的说明（也可用 /查询订单）",
        "/echo <内容>：echo 的说明",
        "/stop [编号]：stop 的说明",
        "/help：显示可用命令（也可用 /帮助）",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    let own = set(|rules| {
        rules.commands.push(Command { action: settings::Action::Help, ..command("菜单", &[], vec![]) });
    });
    assert_eq!(in_group(&own, "/菜单"), "run command:菜单 {}");
    assert_eq!(in_group(&own, "/help"), "say unknown_command");
    assert!(said(&own, "/xyz").contains("/菜单"));
    let taken = set(|rules| rules.commands.push(command("Help", &[], vec![])));
    assert_eq!(said(&taken, "/xyz"), "没有“/xyz”这个命令。");
}

#[test]
fn rules_that_cannot_work_are_refused() {
    let refused = |change: fn(&mut Rules)| {
        let mut rules = rules();
        change(&mut rules);
        RuleSet::compile(&app(rules)).expect_err("must be refused")
    };
    assert!(matches!(refused(|r| r.sensitive.push(" ".into())), RuleError::Empty("word")));
    assert!(matches!(refused(|r| r.prefixes.push(String::new())), RuleError::Empty("prefix")));
    assert!(matches!(refused(|r| r.commands[0].name = "my query".into()), RuleError::NotAWord(_)));
    assert!(matches!(refused(|r| r.commands[1].aliases.push("ＱＵＥＲＹ".into())), RuleError::NameTaken(_)));
    assert!(matches!(refused(|r| r.mention = Some(reply("{{ x() }}"))), RuleError::Template { .. }));
}

#[test]
fn a_long_text_is_searched_in_its_head_but_never_cut() {
    let set = set(|_| {});
    let filler = "群".repeat(SEARCHED);
    assert_eq!(in_group(&set, &format!("{filler}优惠券")), "ignore chatter");
    assert_eq!(in_group(&set, &format!("{filler}违禁词")), "block sensitive");
    match set.decide(&message("text", &format!("/echo {filler}"), ChatKind::Group)) {
        Decision::Run(Run { command: Some(call), .. }) => assert_eq!(call.args["text"], json!(filler)),
        other => panic!("{other:?}"),
    }
}

/// Pieces that mean something here, in any order.
fn piece() -> impl Strategy<Value = String> {
    let meaningful = [
        "@",
        "＠",
        "/",
        "／",
        "Robot",
        "Robot A",
        "小助手",
        "query",
        "help",
        "echo",
        "city",
        "12",
        "\"",
        "“",
        "”",
        " ",
        "\u{2005}",
        "\u{200B}",
        "\n",
        "优惠",
        "绑定手机号",
        "13800138000",
        "+86",
        "-",
        "2026年1月31日",
        "İ",
        "💡",
    ];
    prop_oneof![
        4 => proptest::sample::select(meaningful.to_vec()).prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

proptest! {
    #[test]
    fn no_text_panics(pieces in proptest::collection::vec(piece(), 0..12), single in any::<bool>()) {
        thread_local!(static SET: RuleSet = set(|_| {}));
        let kind = if single { ChatKind::Single } else { ChatKind::Group };
        let text = pieces.concat();
        SET.with(|set| {
            let first = line(set.decide(&message("text", &text, kind)));
            prop_assert_eq!(&first, &line(set.decide(&message("text", &text, kind))));
            // A blank around a text changes nothing.
            prop_assert_eq!(first, line(set.decide(&message("text", &format!(" {text}\n"), kind))));
            Ok(())
        })?;
    }
}

fn from(sender: &str, kind: SenderKind, text: &str) -> Message {
    Message { sender_key: sender.into(), sender_kind: kind, ..message("text", text, ChatKind::Group) }
}

#[test]
fn a_command_is_for_its_audience() {
    let only = |audience, text: Option<&str>| Some(Only { audience, text: text.map(str::to_owned) });
    let set = set(|rules| {
        rules.manners.admins = ["boss".to_owned()].into();
        rules.manners.mute = vec!["mute".into(), "静音".into()];
        rules.commands[0].only = only(Audience::Internal, None);
        rules.commands[1].only = only(Audience::External, Some("外部专用"));
        rules.commands[2].only = only(Audience::Bound, None);
        rules.commands[3].only = only(Audience::Admin, None);
    });
    use SenderKind::{External, Internal, Unknown};
    for (sender, kind, text, want) in [
        ("zs", Internal, "/query 1", "run command:query {\"order_id\":1}"),
        ("wm", External, "/query 1", "say command:query not_internal"),
        ("zs", Unknown, "@小助手 query 1", "say command:query not_internal"),
        // Whom it is not for learns nothing of its arguments.
        ("wm", External, "/query", "say command:query not_internal"),
        ("wm", External, "/echo hi", "run command:echo {\"text\":\"hi\"}"),
        ("zs", Internal, "/echo hi", "say command:echo not_external"),
        ("zs", Unknown, "/echo hi", "say command:echo not_external"),
        ("wm", External, "/stop 1", "run command:stop {\"n\":1}"),
        ("boss", Internal, "/city 北京", "run command:city {\"c\":\"北京\"}"),
        ("Boss", Internal, "/city 北京", "say command:city not_admin"),
    ] {
        assert_eq!(line(set.decide(&from(sender, kind, text))), want, "{sender} {text}");
    }
    let said = |sender: &str, text: &str| match set.decide(&from(sender, SenderKind::Internal, text)) {
        Decision::Say { text, .. } => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(said("zs", "/echo hi"), "外部专用");
    assert!(said("zs", "/city 北京").contains("管理员"));
    match set.decide(&from("wm", External, "/stop 1")) {
        Decision::Run(run) => assert!(run.unless_bound.is_some_and(|text| text.contains("绑定"))),
        other => panic!("{other:?}"),
    }
    let help = set.help_text(&message("text", "/help", ChatKind::Group));
    for mark in [
        "query 的说明（也可用 /查询订单）（仅内部成员）",
        "echo 的说明（仅外部联系人）",
        "stop 的说明（绑定后可用）",
        "/mute：让我在本群静音（也可用 /静音）（仅管理员）",
    ] {
        assert!(help.contains(mark), "{mark}: {help}");
    }
}

#[test]
fn admins_alone_mute_a_chat() {
    let with_names = |rules: &mut Rules| {
        rules.manners.admins = ["boss".to_owned()].into();
        rules.manners.mute = vec!["mute".into(), "静音".into()];
        rules.manners.unmute = vec!["unmute".into(), "取消静音".into()];
    };
    let set = set(with_names);
    for (sender, text, want) in [
        ("boss", "/mute", "run command:mute {}"),
        ("boss", "@小助手 静音", "run command:mute {}"),
        ("boss", "/取消静音", "run command:unmute {}"),
        ("zs", "/mute", "say command:mute not_admin"),
        ("zs", "@小助手 取消静音", "say command:unmute not_admin"),
        ("boss", "静音", "ignore chatter"),
        ("boss", "/mute now", "say command:mute"),
    ] {
        assert_eq!(line(set.decide(&from(sender, SenderKind::Internal, text))), want, "{sender} {text}");
    }
    let nobody = super::tests::set(|rules| {
        with_names(rules);
        rules.manners.admins.clear();
    });
    assert_eq!(in_group(&nobody, "/mute"), "say unknown_command");
    assert!(!nobody.help_text(&message("text", "/help", ChatKind::Group)).contains("静音"));
}

#[test]
fn a_binding_sentence_binds_and_is_no_command() {
    let set = set(|rules| {
        let sentence = |pattern: &str, action, unbind| Binding {
            pattern: Regex::new(pattern).expect("a pattern"),
            action,
            terms: Terms { unbind, ..Terms::default() },
        };
        rules.bindings.push(sentence("我叫(?P<name>.+)", None, false));
        rules.bindings.push(sentence("解绑|/query 0", None, true));
    });
    let run = |text: &str| match set.decide(&message("text", text, ChatKind::Group)) {
        Decision::Run(run) => run,
        other => panic!("{text}: {other:?}"),
    };
    let named = run("我叫王五");
    assert_eq!((named.rule.as_str(), named.terms.as_deref()), ("binding:1", Some(&Terms::default())));
    assert_eq!(named.captures.map(Value::Object), Some(json!({"name": "王五"})));
    let unbound = run("/query 0");
    assert!(
        unbound.rule == "binding:2" && unbound.command.is_none() && unbound.terms.is_some_and(|terms| terms.unbind)
    );
    assert_eq!(run("/query 1").terms, None);
    assert_eq!(set.kept_fields().into_iter().collect::<Vec<_>>(), ["name", "phone", "tail"]);
}
