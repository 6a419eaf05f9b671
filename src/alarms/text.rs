//! Alarms in words, for a group. Pure. A chat may be named by a phone number: that is masked; or by a mention: it calls nobody.

use std::collections::VecDeque;

use super::{Alarm, Due};
use crate::mask;
use crate::wecom::message::{GROUP_ROBOT, defuse};

/// What happened, to whom, and why: one line.
pub(super) fn line(Due { alarm, count }: &Due) -> String {
    let mut line = format!("【{}】{}", alarm.kind.title(), alarm.subject());
    if !alarm.detail.is_empty() {
        line.push_str(&format!("：{}", alarm.detail.replace(char::is_control, " ")));
    }
    if *count > 1 {
        line.push_str(&format!("（另有 {} 条同类）", count - 1));
    }
    defuse(&mask::phones_in(&line)).into_owned()
}

/// As many alarms from the front as go into one text of a robot, at least one; and how many those are. `host` says whose
/// they are.
pub(super) fn merged(waiting: &VecDeque<Due>, host: &str) -> (String, usize) {
    let mut text = format!("wecom-gateway 告警（{host}）");
    let mut taken = 0;
    for due in waiting {
        let Due { alarm: Alarm { kind, .. }, .. } = due;
        let (line, mend) = (line(due), format!("\n处理：{}", kind.mend()));
        let room = GROUP_ROBOT.text.saturating_sub(text.len() + 2 + mend.len());
        if taken > 0 && line.len() > room {
            break;
        }
        text.extend(["\n\n", &line[..line.floor_char_boundary(room)], &mend]);
        taken += 1;
    }
    (text, taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alarms::{Kind, MOST_DETAIL};

    fn due(chat: &str, detail: &str, count: u64) -> Due {
        Due { alarm: Alarm::of_chat(Kind::ChatDead, "support", chat, detail), count }
    }

    #[test]
    fn an_alarm_says_what_to_whom_why_how_often_and_what_to_do() {
        let (text, taken) = merged(&VecDeque::from([due("c1", "errcode 93000: gone\n", 13), due("c2", "", 1)]), "gw-1");
        assert_eq!(taken, 2);
        let mend = "确认群和机器人还在，换上新的 webhook，或把应用重新拉进群。";
        assert_eq!(
            text,
            format!(
                "wecom-gateway 告警（gw-1）\n\n【群聊已失效，不再向它发送】support/c1：errcode 93000: gone （另有 12 条同类）\n\
                 处理：{mend}\n\n【群聊已失效，不再向它发送】support/c2\n处理：{mend}"
            )
        );
    }

    #[test]
    fn a_chat_that_is_named_by_a_phone_number_is_masked() {
        assert!(line(&due("13800138000", "81013", 1)).ends_with("support/138****8000：81013"));
    }

    #[test]
    fn an_alarm_calls_nobody() {
        let text = line(&due("<@all>", "81013 @all", 1));
        assert!(text.ends_with("support/<@\u{200b}all>：81013 @\u{200b}all"), "{text}");
    }

    #[test]
    fn a_text_never_is_too_long_for_its_robot() {
        // The longest that each part may be.
        let (app, chat, host) = ("a".repeat(64), "c".repeat(512), "h".repeat(64));
        let longest =
            Due { alarm: Alarm::of_chat(Kind::Held, &app, &chat, &"长".repeat(MOST_DETAIL)), count: u64::MAX };
        let (text, taken) = merged(&VecDeque::from([longest.clone(), longest]), &host);
        assert!(taken == 1 && text.len() <= GROUP_ROBOT.text, "{taken}: {} bytes", text.len());
        let calls =
            Due { alarm: Alarm::of_chat(Kind::Held, &app, &"<@".repeat(256), &"<@".repeat(256)), count: u64::MAX };
        let (text, taken) = merged(&VecDeque::from([calls]), &host);
        assert!(taken == 1 && text.len() <= GROUP_ROBOT.text, "{taken}: {} bytes", text.len());
        assert!(text.ends_with(Kind::Held.mend()), "{text}");
        let many: VecDeque<Due> = (0..40).map(|n| due(&n.to_string(), "errcode 93000", 1)).collect();
        let (text, taken) = merged(&many, &host);
        assert!((5..40).contains(&taken) && text.len() <= GROUP_ROBOT.text, "{taken}: {} bytes", text.len());
    }
}
