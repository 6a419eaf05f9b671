//! Every text that members get from the gateway itself, in Chinese.
//!
//! Words of a member are shown back shortened, without invisible characters and defused, so that nobody can make the
//! bot call others or fill a chat. Texts name labels and commands, never a rule, a service or an error.

use super::commands::Command;
use super::fold::invisible;
use super::form::Form;
use crate::config::settings::{Arg, ArgKind, Audience};
use crate::wecom::message::defuse;

/// How many characters of a member's words are shown back.
const SHOWN: usize = 40;

/// The summary of the built-in `help`.
pub(super) const HELP_SUMMARY: &str = "显示可用命令";

pub(super) const MUTE_SUMMARY: &str = "让我在本群静音";
pub(super) const UNMUTE_SUMMARY: &str = "取消静音";

/// What a member gets whose binding sentence was kept.
pub(super) const KEPT: &str = "已记下您的信息。";
/// … who is bound to a business user.
pub(crate) const BOUND: &str = "绑定成功。";
/// … whose binding is over.
pub(crate) const UNBOUND: &str = "已解除绑定。";
/// … who writes too fast, once a window.
pub(crate) const TOO_FAST: &str = "您的消息太频繁了，请稍后再试。";

/// What an admin gets who muted a chat, or let it speak again.
pub(crate) fn muted(muted: bool) -> &'static str {
    if muted { "已静音：在取消静音之前，我不再回复本群的消息。" } else { "已取消静音。" }
}

/// What a member gets for whom a command is not.
pub(super) fn not_for(audience: Audience) -> &'static str {
    match audience {
        Audience::Bound => "请先绑定身份，再使用这个命令。",
        Audience::Internal => "这个命令只对内部成员开放。",
        Audience::External => "这个命令只对外部联系人开放。",
        Audience::Admin => "这个命令只对管理员开放。",
    }
}

/// How `help` marks a command that is not for everybody.
fn mark(audience: Audience) -> &'static str {
    match audience {
        Audience::Bound => "（绑定后可用）",
        Audience::Internal => "（仅内部成员）",
        Audience::External => "（仅外部联系人）",
        Audience::Admin => "（仅管理员）",
    }
}

/// What a member gets when a service behind the gateway failed; the id leads an operator to the trail.
pub(crate) fn apology(request_id: &str) -> String {
    format!("抱歉，服务暂时不可用，请稍后再试。（编号：{request_id}）")
}

/// An argument is missing.
pub(super) fn missing(form: Form<'_>, command: &Command, arg: &Arg) -> String {
    format!("缺少{}。\n{}", arg.label, usage(form, command))
}

/// An argument is not what it must be.
pub(super) fn wrong(form: Form<'_>, command: &Command, arg: &Arg, given: &str) -> String {
    format!("{}应为{}，收到的是“{}”。\n{}", arg.label, expected(&arg.kind), shown(given), usage(form, command))
}

/// An argument is a number that is too large, or too small.
pub(super) fn beyond(form: Form<'_>, command: &Command, arg: &Arg, given: &str, is_below: bool) -> String {
    let way = if is_below { "小" } else { "大" };
    format!("{}的数值太{way}，收到的是“{}”。\n{}", arg.label, shown(given), usage(form, command))
}

/// There are more words than arguments.
pub(super) fn too_many(form: Form<'_>, command: &Command) -> String {
    format!("参数太多。\n{}", usage(form, command))
}

/// There is no such command.
pub(super) fn unknown(form: Form<'_>, given: &str, help: Option<&str>) -> String {
    let said = format!("没有“{}{}”这个命令", form.prefix, shown(given));
    match help {
        Some(help) => format!("{said}，发送 {} 查看可用命令。", form.write(help)),
        None => format!("{said}。"),
    }
}

/// The list of commands.
pub(super) fn help<'c>(form: Form<'_>, commands: impl Iterator<Item = &'c Command>) -> String {
    commands.fold(String::from("可用命令："), |text, command| format!("{text}\n{}", help_line(form, command)))
}

fn help_line(form: Form<'_>, command: &Command) -> String {
    let mut line = synopsis(form, command);
    if !command.summary.is_empty() {
        line += &format!("：{}", command.summary);
    }
    if !command.aliases.is_empty() {
        let aliases: Vec<String> = command.aliases.iter().map(|alias| form.write(alias)).collect();
        line += &format!("（也可用 {}）", aliases.join("、"));
    }
    line += command.only.as_ref().map_or("", |only| mark(only.audience));
    line
}

fn usage(form: Form<'_>, command: &Command) -> String {
    let mut text = format!("用法：{}", synopsis(form, command));
    if !command.args.is_empty() {
        let examples: Vec<&str> = command.args.iter().map(|arg| example(&arg.kind)).collect();
        text += &format!("\n例如：{}", form.write(&format!("{} {}", command.name, examples.join(" "))));
    }
    text
}

/// `/query <订单号> [备注]`
fn synopsis(form: Form<'_>, command: &Command) -> String {
    form.write(&command.args.iter().fold(command.name.clone(), |text, arg| {
        let label = match &arg.kind {
            ArgKind::Choice(choices) => format!("{}：{}", arg.label, choices.join("|")),
            _ => arg.label.clone(),
        };
        if arg.required { format!("{text} <{label}>") } else { format!("{text} [{label}]") }
    }))
}

fn expected(kind: &ArgKind) -> String {
    match kind {
        ArgKind::String | ArgKind::Rest => "文字".to_owned(),
        ArgKind::Integer => "整数".to_owned(),
        ArgKind::Number => "数字".to_owned(),
        ArgKind::Phone => "11 位手机号".to_owned(),
        ArgKind::Date => format!("日期（如 {}）", example(kind)),
        ArgKind::Choice(choices) => format!("以下之一：{}", choices.join("、")),
    }
}

fn example(kind: &ArgKind) -> &str {
    match kind {
        ArgKind::String => "文字",
        ArgKind::Integer => "1001",
        ArgKind::Number => "9.9",
        ArgKind::Phone => "13800138000",
        ArgKind::Date => "2026-01-31",
        ArgKind::Choice(choices) => choices.first().map_or("", String::as_str),
        ArgKind::Rest => "一段文字",
    }
}

/// A member's words, fit to be shown back.
fn shown(given: &str) -> String {
    let mut visible = given.chars().filter(|c| !invisible(*c) && !c.is_control());
    let mut text: String = visible.by_ref().take(SHOWN).collect();
    if visible.next().is_some() {
        text.push('…');
    }
    defuse(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_members_words_come_back_short_and_harmless() {
        assert_eq!(shown(&"a".repeat(40)), "a".repeat(40));
        assert_eq!(shown(&"群".repeat(10_000)), format!("{}…", "群".repeat(40)));
        assert_eq!(shown("a\u{202E}b\u{200B}c\u{7}"), "abc");
        assert!(!shown("<@all>").contains("<@all>"));
        assert!(!shown("<\u{200B}@all>").contains("<@all>"));
    }

    #[test]
    fn an_apology_names_the_request() {
        assert!(apology("r-1").contains("r-1"));
    }
}
