//! What is sound but can hardly be meant, in an app's rules and its robots, and around them: hints, never faults.

use url::Url;
use uuid::Uuid;

use crate::config::settings::{Action, App, AppKind, Audience, Binding, Chat, Command, Manners, Push, Rules};
use crate::config::{OFFICIAL_HOST, ROBOT_PACE, Settings};
use crate::member::{MAX_FIELD_NAME, is_field_name};
use crate::store::Pace;
use crate::wecom::crypto::{CallbackCrypto, ReceiveId};

/// Hints at an app, one sentence each.
pub(super) fn of_an_app(app: &App) -> Vec<String> {
    let of_kind = of_receiver(app).into_iter().chain(of_names(app));
    let of_kind = of_kind.map(|hint| format!("app {:?}: {hint}.", app.id));
    of_kind.chain(of_rules(app)).chain(of_robots(app)).collect()
}

/// A `receive_id` that WeCom's callbacks to this kind of app can hardly carry: each would be refused.
fn of_receiver(App { kind, api, .. }: &App) -> Option<String> {
    const REFUSED: &str = "so that each may be refused (403 receive_id_mismatch)";
    let exactly = |crypto: &CallbackCrypto| match crypto.receive_id() {
        ReceiveId::Exactly(id) => Some(id.clone()),
        ReceiveId::Any => None,
    };
    match kind {
        AppKind::App(crypto) => match (exactly(crypto)?, api.as_ref().map(|api| &api.corp_id)) {
            (id, _) if id.is_empty() => Some(format!(
                "receive_id is empty, and WeCom seals an app's callbacks for its corp, {REFUSED}: write the corp's id; only an app of a \
                 third party without a corp has none"
            )),
            (id, Some(corp)) if id != *corp => Some(format!(
                "receive_id is not corp_id, for which WeCom seals the callbacks of a corp's own app, {REFUSED}: remove receive_id; only \
                 an app of a third party has its suite's id there"
            )),
            _ => None,
        },
        AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) if !exactly(crypto)?.is_empty() => Some(format!(
            "receive_id is set, and WeCom seals a robot's callbacks for nobody, {REFUSED}: write receive_id = \"\""
        )),
        AppKind::GroupRobot(_) | AppKind::Aibot(_) | AppKind::Json(_) => None,
    }
}

/// A robot of groups that knows no mention for its own.
fn of_names(App { kind, bot_names, rules, .. }: &App) -> Option<String> {
    let hint = "bot_names is empty, and a robot hears only what mentions it in a group, so that no command behind the mention is found: \
                write its name as the client shows it";
    let listens = !rules.commands.is_empty() || rules.mention.is_some();
    (listens && kind.hears_mentions_alone() && bot_names.is_empty()).then(|| hint.to_owned())
}

/// Hints at an app's rules, one sentence each.
fn of_rules(App { id, rules, .. }: &App) -> Vec<String> {
    let commands = rules.commands.iter().flat_map(of_command);
    let bindings = rules.bindings.iter().flat_map(of_binding);
    let all = of_mutes(&rules.manners).into_iter().chain(commands).chain(bindings).chain(of_bound(rules));
    all.map(|hint| format!("app {id:?}: {hint}.")).collect()
}

/// Hints at the robots of an app's chats, one sentence each.
fn of_robots(App { id, chats, .. }: &App) -> Vec<String> {
    let of_chat = |chat: &Chat| {
        let url = Url::parse(chat.webhook()?.url.expose()).ok().filter(|url| url.host_str() == Some(OFFICIAL_HOST))?;
        let key = url.query_pairs().find(|(name, _)| name == "key").map(|(_, key)| key.into_owned());
        let no_uuid = key.is_some_and(|key| Uuid::try_parse(&key).is_err());
        let key =
            no_uuid.then_some("the key of the webhook is no UUID, as WeCom's are: copy it again from the robot's page");
        let fast = is_faster(chat.pace, ROBOT_PACE).then_some(
            "its pace is above the 20 a minute that WeCom takes for one robot, which then refuses for a minute (45009)",
        );
        let hints: Vec<&str> = key.into_iter().chain(fast).collect();
        (!hints.is_empty()).then(|| format!("app {id:?}, chat {:?}: {}.", chat.id, hints.join("; ")))
    };
    chats.values().filter_map(of_chat).collect()
}

fn is_faster(a: Pace, b: Pace) -> bool {
    u128::from(a.limit) * b.window.as_millis() > u128::from(b.limit) * a.window.as_millis()
}

/// A hint at `[dedup]`, where callbacks carry a time that nobody looks at.
pub(super) fn of_dedup(Settings { dedup, apps, .. }: &Settings) -> Option<String> {
    let is_timed = |app: &App| !matches!(app.kind, AppKind::Json(_));
    let hint = "[dedup] max_skew is \"off\": who recorded a callback may post it again when ttl is over, and it is handled again; \
                write a time, such as \"30m\".";
    (dedup.max_skew.is_none() && apps.values().any(|app| is_timed(app))).then(|| hint.to_owned())
}

/// Hints at how pushes are looked after: what is asked about first when its task is known no longer is never asked about.
pub(super) fn of_push(Push { keep, compensate_after, ask_after, .. }: &Push) -> Vec<String> {
    let late = [
        ("compensate_after", compensate_after, "no unknown push is ever looked at"),
        ("ask_after", ask_after, "nobody ever asks WeCom who of the customers got a push"),
    ];
    let late = late.into_iter().filter(|(_, after, _)| *after >= keep);
    late.map(|(key, _, means)| format!("[push] {key} is no shorter than [push] keep, so that {means}: shorten it."))
        .collect()
}

/// Names of one of the two commands alone.
fn of_mutes(Manners { admins, mute, unmute, .. }: &Manners) -> Option<String> {
    let default = Manners::default_names();
    let (mute_named, unmute_named) = (*mute != default.0, *unmute != default.1);
    if admins.is_empty() || mute_named == unmute_named {
        return None;
    }
    let (named, other, stays) = if mute_named { ("mute", "unmute", unmute) } else { ("unmute", "mute", mute) };
    Some(format!("[rules] {named} has names of its own, {other} still answers to {}: name it too", stays.join(", ")))
}

fn of_command(command: &Command) -> Vec<String> {
    let mut hints = Vec::new();
    let name = &command.name;
    if command.only.as_ref().and_then(|only| only.text.as_ref()).is_some_and(|text| text.contains("{{")) {
        hints.push(format!(
            "only_text of command {name:?} holds \"{{{{\", but is no template: members get it as it stands"
        ));
    }
    if command.args.is_empty() && matches!(command.action, Action::Llm(_)) {
        let why = "takes no arguments, so that a question behind its name is refused (参数太多)";
        hints.push(format!("command {name:?} asks a model and {why}: give it one of type \"rest\""));
    }
    hints
}

/// Captures that are kept under a name that nobody could change by the API, or that reads as if it were the user id.
fn of_binding(Binding { pattern, action, terms }: &Binding) -> Vec<String> {
    if terms.unbind || matches!(action, Some(Action::Http(_))) {
        return Vec::new();
    }
    let hint = |name: &str| {
        match name {
        "user_id" => Some(
            "a binding keeps its capture \"user_id\" as a contact field, not as the user id: that an action of type \"http\" answers"
                .to_owned(),
        ),
        name if !is_field_name(name) => Some(format!(
            "a binding keeps its capture {name:?} under a name that the API does not take: write at most {MAX_FIELD_NAME} of a to z, 0 to 9 \
             and _"
        )),
        _ => None,
    }
    };
    pattern.capture_names().flatten().filter_map(hint).collect()
}

/// Commands for bound members where nothing here binds anybody.
fn of_bound(rules: &Rules) -> Option<String> {
    let is_for_bound = |command: &&Command| command.only.as_ref().is_some_and(|only| only.audience == Audience::Bound);
    let name = &rules.commands.iter().find(is_for_bound)?.name;
    let open = rules.commands.iter().filter(|command| !is_for_bound(command)).map(|command| &command.action);
    let keywords = rules.keywords.iter().map(|keyword| &keyword.action);
    let bindings = rules.bindings.iter().filter_map(|binding| binding.action.as_ref());
    let mut actions = open.chain(keywords).chain(bindings).chain(&rules.mention);
    if actions.any(|action| matches!(action, Action::Http(_))) {
        return None;
    }
    Some(format!(
        "command {name:?} is for bound members, and only PUT /api/v1/users binds anybody here: no action of type \
                  \"http\" is open to the others"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_apps;

    /// The hints at an app with these rules.
    fn hints(rules: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        let auth = "auth = { type = \"header\", name = \"X-Token\", value = \"v\" }";
        std::fs::write(&file, format!("kind = \"json\"\n{auth}\n{rules}\n")).unwrap();
        of_rules(&load_apps(&[file]).unwrap()[0])
    }

    #[test]
    fn what_can_hardly_be_meant_is_told() {
        let http = "{ type = \"http\", url = \"http://crm:9000/\" }";
        let llm = "{ type = \"llm\", base_url = \"http://llm:8000/v1\", model = \"m\" }";
        let help = "{ type = \"help\" }";
        for (rules, told) in [
            ("[rules]\nadmins = [\"z\"]\nmute = [\"闭嘴\"]".to_owned(), "unmute still answers to unmute, 取消静音"),
            ("[rules]\nadmins = [\"z\"]\nunmute = [\"说话\"]".to_owned(), "mute still answers to mute, 静音"),
            (
                format!(
                    "[[commands]]\nname = \"q\"\nonly = \"internal\"\nonly_text = \"{{{{ user.name }}}}\"\naction = {help}"
                ),
                "as it stands",
            ),
            (format!("[[commands]]\nname = \"ask\"\naction = {llm}"), "参数太多"),
            ("[[bindings]]\npattern = '我是(?P<user_id>u-\\d+)'".to_owned(), "\"user_id\" as a contact field"),
            ("[[bindings]]\npattern = '我叫(?P<Name>\\S+)'".to_owned(), "\"Name\" under a name"),
            (format!("[[commands]]\nname = \"q\"\nonly = \"bound\"\naction = {http}"), "only PUT /api/v1/users"),
        ] {
            let hints = hints(&rules);
            assert!(
                hints.len() == 1 && hints[0].starts_with("app \"a\": ") && hints[0].contains(told),
                "{rules}: {hints:?}"
            );
        }
    }

    #[test]
    fn a_receiver_that_wecom_does_not_name_is_told() {
        let hints = |app: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("a.toml");
            let secrets = "token = \"T\"\nencoding_aes_key = \"jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C\"";
            std::fs::write(&file, format!("{secrets}\n{app}\n[mention]\naction = {{ type = \"help\" }}\n")).unwrap();
            of_an_app(&load_apps(&[file]).unwrap()[0])
        };
        let api = "kind = \"app\"\ncorp_id = \"ww1\"\nagent_id = 7\nsecret = \"s\"\n";
        let robot = "kind = \"aibot\"\nbot_names = [\"小助手\"]\n";
        for (app, told) in [
            ("kind = \"app\"\nreceive_id = \"\"".to_owned(), "receive_id is empty"),
            (format!("{api}receive_id = \"\""), "receive_id is empty"),
            (format!("{api}receive_id = \"ww2\""), "receive_id is not corp_id"),
            (format!("{robot}receive_id = \"ww1\""), "receive_id is set"),
            ("kind = \"group_robot\"".to_owned(), "bot_names is empty"),
        ] {
            let hints = hints(&app);
            assert!(hints.len() == 1 && hints[0].starts_with(&format!("app \"a\": {told}")), "{app}: {hints:?}");
        }
        for app in [
            api.to_owned(),
            format!("{api}receive_id = \"ww1\""),
            format!("{api}receive_id = \"*\""),
            robot.to_owned(),
            "kind = \"app\"\nreceive_id = \"ww1\"".to_owned(),
        ] {
            assert_eq!(hints(&app), [""; 0], "{app}");
        }
    }

    /// The hints at robots of a file with this text, and at `[dedup]` with that.
    fn around(dedup: &str, app: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let gateway = folder.path().join("gateway.toml");
        std::fs::write(&gateway, format!("[dedup]\n{dedup}\n")).unwrap();
        std::fs::create_dir(folder.path().join("apps")).unwrap();
        let kind =
            "kind = \"group_robot\"\ntoken = \"T\"\nencoding_aes_key = \"jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C\"";
        std::fs::write(folder.path().join("apps/a.toml"), format!("{kind}\n{app}\n")).unwrap();
        let settings = crate::config::load(&gateway).unwrap();
        settings.apps.values().flat_map(|app| of_robots(app)).chain(of_dedup(&settings)).collect()
    }

    #[test]
    fn robots_that_wecom_will_not_take_are_told() {
        let chat = |key: &str, more: &str| format!("[[chats]]\nid = \"c\"\nwebhook = \"{key}\"\n{more}");
        let key = "693a91f6-7aaa-4bc4-97a0-0ec2acfa5aaa";
        let url = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=";
        for (app, told) in [
            (chat("693a91f6-7aaa", ""), "no UUID"),
            (chat(&format!("{url}mykey"), ""), "no UUID"),
            (chat(key, "pace = \"21/min\""), "above the 20 a minute"),
            (chat(key, "pace = \"1/s\""), "above the 20 a minute"),
            (format!("[chats_default]\npace = \"30/min\"\n{}", chat(key, "")), "above the 20 a minute"),
        ] {
            let hints = around("", &app);
            assert!(
                hints.len() == 1 && hints[0].starts_with("app \"a\", chat \"c\": ") && hints[0].contains(told),
                "{app}: {hints:?}"
            );
        }
        for app in
            [chat(key, ""), chat(&format!("{url}{key}"), "pace = \"20/min\""), "[[chats]]\nid = \"c\"".to_owned()]
        {
            assert_eq!(around("", &app), [""; 0], "{app}");
        }
    }

    #[test]
    fn callbacks_of_any_age_are_told() {
        let told = around("max_skew = \"off\"", "");
        assert!(told.len() == 1 && told[0].contains("max_skew"), "{told:?}");
    }

    #[test]
    fn what_is_asked_about_too_late_is_told() {
        let push = |gateway: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("gateway.toml");
            std::fs::write(&file, gateway).unwrap();
            of_push(&crate::config::load(&file).unwrap().push)
        };
        assert_eq!(push(""), Vec::<String>::new());
        let late = push("[push]\nkeep = \"1h\"\ncompensate_after = \"1h\"\nask_after = \"59m\"");
        assert!(late.len() == 1 && late[0].starts_with("[push] compensate_after is no shorter"), "{late:?}");
        let late = push("[push]\nkeep = \"1h\"\nask_after = \"2h\"");
        assert!(late.len() == 1 && late[0].starts_with("[push] ask_after is no shorter"), "{late:?}");
    }

    #[test]
    fn what_may_be_meant_is_not() {
        let http = "{ type = \"http\", url = \"http://crm:9000/\" }";
        for rules in [
            "[rules]\nadmins = [\"z\"]".to_owned(),
            "[rules]\nadmins = [\"z\"]\nmute = [\"闭嘴\"]\nunmute = [\"说话\"]".to_owned(),
            format!("[[bindings]]\npattern = '我是(?P<User>\\d+)'\naction = {http}"),
            format!(
                "[[bindings]]\npattern = '我是(?P<user>\\d+)'\naction = {http}\n\
                 [[commands]]\nname = \"q\"\nonly = \"bound\"\naction = {http}"
            ),
        ] {
            assert_eq!(hints(&rules), Vec::<String>::new(), "{rules}");
        }
    }
}
