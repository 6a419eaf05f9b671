//! What deciding costs: which rule a text meets, with short and long word lists, and cutting long answers.
//!
//! `cargo bench --bench rules`, half a minute. No I/O, one thread. The rules come from files, as a user's do.

#![allow(clippy::expect_used, reason = "without its set-up a bench has nothing to measure")]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use wecom_gateway::model::{ChatKind, Message, SenderKind};
use wecom_gateway::rules::RuleSet;
use wecom_gateway::wecom::message;

/// The gateway's own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Sensitive words and keywords, each.
const WORD_LISTS: [usize; 2] = [10, 10_000];
/// Bytes of an answer that has to be cut.
const LONG_ANSWER: usize = 20_000;

const GATEWAY: &str = r#"
[store]
path = "unused"
"#;

const APP: &str = r#"
kind = "group_robot"
token = "BenchToken"
encoding_aes_key = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
bot_names = ["小助手"]

[rules]
sensitive_file = "words.txt"

[[commands]]
name = "query"
aliases = ["查询订单"]
summary = "查询订单状态"
args = [{ name = "order_id", label = "订单号", type = "integer", required = true }]
action = { type = "reply", text = "{{ args.order_id }}" }

[[bindings]]
pattern = '绑定的?手机号是?\s*(?P<phone>1\d{10})'
action = { type = "reply", text = "ok" }

[mention]
action = { type = "reply", text = "您好" }
"#;

/// The rules of an app with `n` sensitive words and `n` keywords.
fn rules(n: usize) -> RuleSet {
    let folder = tempfile::tempdir().expect("a folder");
    let apps = folder.path().join("apps");
    let words: String = (0..n).map(|i| format!("违禁词{i:05}\n")).collect();
    let keywords: Vec<String> = (0..n).map(|i| format!("\"关键词{i:05}\"")).collect();
    let mut app = APP.to_owned();
    write!(app, "\n[[keywords]]\nany = [{}]\naction = {{ type = \"reply\", text = \"ok\" }}\n", keywords.join(","))
        .expect("a string takes everything");
    std::fs::create_dir(&apps).expect("a folder");
    std::fs::write(folder.path().join("gateway.toml"), GATEWAY).expect("a file");
    std::fs::write(apps.join("words.txt"), words).expect("a file");
    std::fs::write(apps.join("bench.toml"), app).expect("a file");
    let settings = wecom_gateway::config::load(&folder.path().join("gateway.toml")).expect("sound settings");
    RuleSet::compile(&settings.apps["bench"]).expect("sound rules")
}

fn message(text: &str) -> Message {
    Message {
        request_id: "r".into(),
        app: "bench".into(),
        chat_id: "wrBench".into(),
        chat_kind: ChatKind::Group,
        msg_id: "m".into(),
        sender_key: "wmBench".into(),
        sender_kind: SenderKind::Internal,
        sender_name: None,
        msg_type: "text".into(),
        text: text.into(),
        sent_at: None,
        received_at: 0,
        response_url: None,
        trace: None,
    }
}

fn decide(c: &mut Criterion) {
    let chatter = "今天下午三点开会，大家把周报准备一下，谢谢！";
    let texts = [
        ("command", "/query 1001".to_owned()),
        ("mention_command", "@小助手 /query 1001".to_owned()),
        ("keyword", format!("{chatter}关键词00007")),
        ("mention", format!("@小助手 {chatter}")),
        ("sensitive", format!("{chatter}违禁词00007")),
        ("chatter", chatter.to_owned()),
        ("chatter_4k", chatter.repeat(4096 / chatter.len())),
    ];
    let mut group = c.benchmark_group("decide");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1000));
    for words in WORD_LISTS {
        let rules = rules(words);
        for (name, text) in &texts {
            let message = message(text);
            group.throughput(Throughput::Bytes(text.len() as u64));
            group.bench_function(BenchmarkId::new(*name, format!("{words}_words")), |b| {
                b.iter(|| rules.decide(black_box(&message)));
            });
        }
    }
    group.finish();
}

fn split(c: &mut Criterion) {
    let line = "第一段：订单已经发出，预计明天送达。Please check the tracking number below.\n";
    let unbroken = "群".repeat(LONG_ANSWER / 3);
    let answers = [
        ("text", message::text(&line.repeat(LONG_ANSWER / line.len()))),
        ("text_without_breaks", message::text(&unbroken)),
        ("markdown", {
            let block = format!("## 标题\n{line}```sql\nselect 1;\n```\n\n");
            serde_json::json!({
                "msgtype": "markdown", "markdown": {"content": block.repeat(LONG_ANSWER / block.len())},
            })
        }),
        ("text_that_fits", message::text(line)),
    ];
    let mut group = c.benchmark_group("fit");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1000));
    for (name, answer) in &answers {
        group.bench_function(*name, |b| b.iter(|| message::fit(black_box(answer), &message::GROUP_ROBOT)));
    }
    group.finish();
}

criterion_group!(benches, decide, split);
criterion_main!(benches);
