//! A day in words, for a group. Pure.

use std::cmp::Reverse;

use crate::config::Settings;
use crate::mask;
use crate::records::{Replies, Stats};
use crate::wecom::message::{GROUP_ROBOT, defuse};

/// Chats and rules that are named, most first.
const NAMED: usize = 5;
/// Characters of a name that are shown.
const NAME: usize = 24;

/// The summary of a day, short enough for a robot's text.
pub(super) fn summary(stats: &Stats, settings: &Settings) -> String {
    let total = &stats.total;
    let hits = |word: &str| total.hits.get(word).copied().unwrap_or_default();
    let Replies { replies, delivered, unknown, dead, dropped, .. } = total.replies;
    let mut text = format!("wecom-gateway 日报 {}（{}）\n\n", stats.date, stats.zone);
    if total.messages == 0 && replies == 0 {
        text.push_str("没有收到消息。");
        return text;
    }
    text.push_str(&format!(
        "消息 {}：命令 {}，关键词 {}，@提及 {}，绑定 {}，闲聊 {}{}\n",
        total.messages,
        hits("command"),
        hits("keyword"),
        hits("mention"),
        hits("binding"),
        hits("chatter"),
        rest(|word| hits(word))
    ));
    text.push_str(&format!(
        "回复 {replies}：送达 {delivered}，未知 {unknown}，失败 {dead}，丢弃 {dropped}，成功率 {}\n",
        percent(total.replies.success_rate)
    ));
    text.push_str(&format!("拦下的重复消息 {}\n", total.duplicates));
    if let Some(latency) = &total.replies.latency_ms {
        let [mean, p50, p95, p99] = [latency.mean, latency.p50, latency.p95, latency.p99].map(spent);
        text.push_str(&format!("从收到到送达：平均 {mean}，P50 {p50}，P95 {p95}，P99 {p99}\n"));
    }
    let mut chats: Vec<_> = stats.chats.items.iter().filter(|chat| chat.figures.messages > 0).collect();
    chats.sort_by_key(|chat| Reverse(chat.figures.messages));
    let chats = chats.into_iter().map(|chat| {
        let configured = settings.apps.get(&chat.app).and_then(|app| app.chats.get(&chat.chat));
        let name = configured.and_then(|chat| chat.name.as_deref()).unwrap_or(&chat.chat);
        let replies = &chat.figures.replies;
        let figures = format!("消息 {}，成功率 {}", chat.figures.messages, percent(replies.success_rate));
        format!("{}：{figures}{}", short(name), mean(replies))
    });
    list(&mut text, "最活跃的群聊", chats);
    let rules = stats.rules.iter().map(|rule| {
        let figures = format!("{} 次（{}）", rule.hits, percent(rule.hit_rate));
        // A binding has no name but its place in the file.
        let place = rule.rule.parse::<usize>().ok().filter(|_| rule.trigger == "binding");
        let name = place.map_or_else(|| short(&rule.rule), |place| format!("绑定 {}", place.saturating_add(1)));
        format!("{name}（{}）：{figures}{}", short(&rule.app), mean(&rule.replies))
    });
    list(&mut text, "命中最多的规则", rules);
    text.truncate(text.floor_char_boundary(GROUP_ROBOT.text));
    text.truncate(text.trim_end().len());
    text
}

/// What else came, as far as any did, so that the parts make the whole.
fn rest(hits: impl Fn(&str) -> i64) -> String {
    let words = [("sensitive", "敏感词"), ("event", "事件"), ("other", "其他")];
    let some = words.map(|(word, told)| (told, hits(word))).into_iter().filter(|(_, hits)| *hits > 0);
    some.map(|(told, hits)| format!("，{told} {hits}")).collect()
}

/// The first few, numbered, under a title; nothing where there is nothing.
fn list(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    for (n, line) in lines.take(NAMED).enumerate() {
        if n == 0 {
            text.push_str(&format!("\n{title}\n"));
        }
        text.push_str(&format!("{}. {line}\n", n + 1));
    }
}

fn mean(replies: &Replies) -> String {
    replies.latency_ms.as_ref().map(|latency| format!("，平均 {}", spent(latency.mean))).unwrap_or_default()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.2}%", share * 100.0))
}

fn spent(ms: u64) -> String {
    if ms < 1_000 { format!("{ms} 毫秒") } else { format!("{:.1} 秒", ms as f64 / 1_000.0) }
}

/// A name in one line and not too long. A chat may be named by a phone number, which is masked, or by a mention: it calls nobody.
fn short(name: &str) -> String {
    let name = mask::phones_in(name).replace(char::is_control, " ");
    match name.char_indices().nth(NAME) {
        Some((end, _)) => format!("{}…", defuse(&name[..end])),
        None => defuse(&name).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::records::{ChatStats, Figures, Hit, Latencies, Page, RuleStats};

    fn replies(n: i64) -> Replies {
        let latency_ms = Some(Latencies { mean: 320, p50: 210, p95: 999, p99: 1_800 });
        Replies { replies: n, delivered: n - 1, dead: 1, success_rate: Some(0.975), latency_ms, ..Replies::default() }
    }

    fn stats(chats: i64, name: &str) -> Stats {
        let figures = |n| Figures { messages: n, duplicates: 7, replies: replies(n), ..Figures::default() };
        let chat = |n: i64| {
            let chat = format!("{name}{n}");
            ChatStats { app: "support".into(), chat, name: None, figures: figures(n + 10) }
        };
        let rule = |n: i64| RuleStats {
            app: "support".into(),
            trigger: "command".into(),
            rule: format!("{name}{n}"),
            hits: 50 - n,
            hit_rate: Some(0.5),
            replies: Replies::default(),
        };
        let mut total = figures(40);
        total.hits = [("command", 30), ("chatter", 10)].into();
        Stats {
            date: "2026-11-29".into(),
            zone: "Asia/Shanghai".into(),
            total,
            rules: (0..chats).map(rule).collect(),
            chats: Page { items: (0..chats).map(chat).collect(), next: None },
        }
    }

    #[test]
    fn the_parts_of_a_days_messages_make_the_whole() {
        let mut day = stats(0, "");
        day.total.hits = [("command", 2), ("sensitive", 1), ("event", 3), ("other", 0)].into();
        let text = summary(&day, &settings());
        assert!(text.contains("闲聊 0，敏感词 1，事件 3\n"), "{text}");
        // None is left out: each is told by a word of its own.
        for hit in Hit::ALL {
            day.total.hits = [(hit.as_str(), 23)].into();
            assert!(summary(&day, &settings()).contains(" 23"), "{hit:?}");
        }
    }

    fn settings() -> Settings {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("gateway.toml"), "").unwrap();
        config::load(&folder.path().join("gateway.toml")).unwrap()
    }

    #[test]
    fn a_day_is_told_with_its_busiest_chats_and_rules() {
        let text = summary(&stats(2, "wr"), &settings());
        let want = "\
wecom-gateway 日报 2026-11-29（Asia/Shanghai）

消息 40：命令 30，关键词 0，@提及 0，绑定 0，闲聊 10
回复 40：送达 39，未知 0，失败 1，丢弃 0，成功率 97.50%
拦下的重复消息 7
从收到到送达：平均 320 毫秒，P50 210 毫秒，P95 999 毫秒，P99 1.8 秒

最活跃的群聊
1. wr1：消息 11，成功率 97.50%，平均 320 毫秒
2. wr0：消息 10，成功率 97.50%，平均 320 毫秒

命中最多的规则
1. wr0（support）：50 次（50.00%）
2. wr1（support）：49 次（50.00%）";
        assert_eq!(text, want);
    }

    #[test]
    fn a_name_calls_nobody_and_shows_no_phone_number() {
        for (name, shown) in
            [("<@all>", "1. <@\u{200b}all>0："), ("12345678901234567 1380013800", "1. 12345678901234567 138***…：")]
        {
            let text = summary(&stats(1, name), &settings());
            assert_eq!(text.matches(shown).count(), 1, "{text}");
        }
    }

    #[test]
    fn it_fits_into_a_robots_text_and_says_when_there_was_nothing() {
        let text = summary(&stats(900, &"群".repeat(500)), &settings());
        assert!(text.len() <= GROUP_ROBOT.text && text.matches('…').count() == 2 * NAMED, "{}: {text}", text.len());
        let mut none = stats(0, "");
        none.total = Figures::default();
        assert!(summary(&none, &settings()).ends_with("没有收到消息。"));
    }
}
