//! How a command has to be written so that the bot hears it: `/query 1001`, or `@小助手 /query 1001` in a group where nothing but
//! mentions comes in. Whatever text shows a command, it shows it in this form, so that what members copy works.

/// The form of commands in one chat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Form<'a> {
    /// In front of a command's name.
    pub(super) prefix: &'a str,
    /// By which name the bot has to be called; `None` where it hears all.
    pub(super) mention: Option<&'a str>,
    /// Whether that may stand in front; else what stands behind it is no command, and it has to stand at the end.
    pub(super) mention_leads: bool,
}

impl Form<'_> {
    /// A command as a member has to write it; `words` are its name, and what follows.
    pub(super) fn write(&self, words: &str) -> String {
        let Self { prefix, mention, mention_leads } = self;
        match mention {
            None => format!("{prefix}{words}"),
            Some(name) if *mention_leads => format!("@{name} {prefix}{words}"),
            Some(name) => format!("{prefix}{words} @{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{app, message, rules};
    use super::super::{Decision, RuleSet};
    use super::*;
    use crate::config::settings::{App, AppKind, JsonAuth};
    use crate::model::{ChatKind, Secret};
    use crate::wecom::crypto::{CallbackCrypto, ReceiveId};

    #[test]
    fn the_mention_stands_where_it_is_heard() {
        for (mention, mention_leads, want) in [
            (None, true, "/query 1001"),
            (None, false, "/query 1001"),
            (Some("小助手"), true, "@小助手 /query 1001"),
            (Some("Robot A"), false, "/query 1001 @Robot A"),
        ] {
            assert_eq!(Form { prefix: "/", mention, mention_leads }.write("query 1001"), want);
        }
    }

    fn crypto() -> CallbackCrypto {
        let key = Secret::new("jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C");
        CallbackCrypto::new(Secret::new("T"), &key, ReceiveId::Any).unwrap()
    }

    fn said(set: &RuleSet, chat: ChatKind, text: &str) -> String {
        match set.decide(&message("text", text, chat)) {
            Decision::Say { text, .. } => text,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn members_are_told_what_the_bot_hears_in_their_chat() {
        use ChatKind::{Group, Single};
        let (robot, smart) = (|| AppKind::GroupRobot(crypto()), || AppKind::Aibot(crypto()));
        let (own, json) = (|| AppKind::App(crypto()), || AppKind::Json(JsonAuth::None));
        for (kind, chat, text, shown) in [
            (robot(), Group, "@小助手 query", "@小助手 /query 1001"),
            (smart(), Group, "@小助手 query", "@小助手 /query 1001"),
            // The name that was heard, as it is configured.
            (robot(), Group, "@robota /query", "@RobotA /query 1001"),
            (robot(), Group, "@Li Si @robot  a /query", "@Robot A /query 1001"),
            (robot(), Group, "/query @小助手", "@小助手 /query 1001"),
            // None is known to have been used.
            (robot(), Group, "/query", "@Robot A /query 1001"),
            (robot(), Single, "query", "/query 1001"),
            (smart(), Single, "@小助手 query", "/query 1001"),
            (own(), Single, "query", "/query 1001"),
            (own(), Group, "@小助手 query", "/query 1001"),
            (json(), Group, "@小助手 query", "/query 1001"),
        ] {
            let kind_of = format!("{kind:?}");
            let set = RuleSet::compile(&App { kind, ..app(rules()) }).unwrap();
            let (answer, want) = (said(&set, chat, text), format!("例如：{shown}"));
            assert!(answer.lines().any(|line| line == want), "{kind_of}, {chat:?}, {text}: {answer}");
        }
    }

    #[test]
    fn every_text_that_shows_a_command_shows_it_so() {
        let robot = |change: fn(&mut App)| {
            let mut app = App { kind: AppKind::GroupRobot(crypto()), ..app(rules()) };
            change(&mut app);
            RuleSet::compile(&app).unwrap()
        };
        let named = robot(|_| {});
        let hint = said(&named, ChatKind::Group, "@小助手 /nonsense");
        assert_eq!(hint, "没有“/nonsense”这个命令，发送 @小助手 /help 查看可用命令。");
        let wrong = said(&named, ChatKind::Group, "@小助手 query abc");
        assert!(wrong.contains("用法：@小助手 /query <订单号>\n例如：@小助手 /query 1001"), "{wrong}");
        let help = named.help_text(&message("text", "@小助手 help", ChatKind::Group));
        let line = "@小助手 /query <订单号>：query 的说明（也可用 @小助手 /查询订单）";
        assert!(help.lines().any(|told| told == line), "{help}");

        let nameless = robot(|app| app.bot_names.clear());
        assert!(said(&nameless, ChatKind::Group, "/query").ends_with("例如：@我 /query 1001"));
        // What stands behind a mention is no command there.
        let apart = robot(|app| app.rules.commands_on_mention = false);
        assert!(said(&apart, ChatKind::Group, "/query @小助手").ends_with("例如：/query 1001 @小助手"));
    }
}
