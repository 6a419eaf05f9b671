//! What WeCom's protocol costs, step by step and whole: signature, decryption, outer body, payload.
//!
//! `cargo bench --bench protocol`, half a minute. No I/O, one thread.

#![allow(clippy::expect_used, reason = "without its set-up a bench has nothing to measure")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mimalloc::MiMalloc;
use serde_json::json;
use wecom_gateway::model::Secret;
use wecom_gateway::sim::robot_text;
use wecom_gateway::wecom::crypto::{CallbackCrypto, ReceiveId};
use wecom_gateway::wecom::envelope;
use wecom_gateway::wecom::payload::{self, Fields, Payload};

/// The gateway's own.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const TIMESTAMP: &str = "1767225600";
const NONCE: &str = "1597212914";
const TEXT: &str = "@小助手 /query 1001 麻烦看一下这个订单到哪了";
/// Near what WeCom lets a member write at once.
const LONG_TEXT: usize = 2000;

/// One callback as it comes in, and what stands in it.
struct Callback {
    shape: &'static str,
    payload: String,
    cipher: String,
    signature: String,
    body: String,
}

fn crypto() -> CallbackCrypto {
    let key = Secret::new("a".repeat(43));
    CallbackCrypto::new(Secret::new("BenchToken"), &key, ReceiveId::Exactly(String::new())).expect("a key")
}

/// A group robot's XML, the same with a long text, and a smart robot's JSON.
fn callbacks() -> Vec<Callback> {
    let long: String = TEXT.chars().cycle().take(LONG_TEXT / 3).collect();
    let robot = |text| robot_text("wrBenchChat0001", "wmBenchMember0001", "CAIQg/PK+xgYpcSEpYCAgAMgAQ==", text);
    let aibot = json!({
        "msgid": "CAIQg/PK+xgYpcSEpYCAgAMgAQ==", "aibotid": "aibBench0001", "chatid": "wrBenchChat0001",
        "chattype": "group", "from": {"userid": "wmBenchMember0001"},
        "response_url": "https://qyapi.weixin.qq.com/cgi-bin/aibot/response?response_code=0123456789abcdef",
        "msgtype": "text", "text": {"content": TEXT},
    });
    let crypto = crypto();
    [("xml", robot(TEXT)), ("xml_long", robot(&long)), ("json", aibot.to_string())]
        .map(|(shape, payload)| {
            let cipher = crypto.encrypt(payload.as_bytes(), [7; 16]);
            let signature = crypto.sign(TIMESTAMP, NONCE, &cipher);
            let body = match shape {
                "json" => json!({"encrypt": cipher}).to_string(),
                _ => format!("<xml><Encrypt><![CDATA[{cipher}]]></Encrypt></xml>"),
            };
            Callback { shape, payload, cipher, signature, body }
        })
        .into()
}

/// From the body to what the message says, as the endpoint does it.
fn open(crypto: &CallbackCrypto, fields: &Fields, callback: &Callback) -> Payload {
    let cipher = envelope::ciphertext(callback.body.as_bytes()).expect("a body");
    assert!(crypto.verify(&callback.signature, TIMESTAMP, NONCE, &cipher));
    let plain = crypto.decrypt(&cipher).expect("a ciphertext");
    payload::parse(&plain, fields).expect("a payload")
}

fn steps(c: &mut Criterion) {
    let (crypto, fields) = (crypto(), Fields::default());
    let mut group = c.benchmark_group("protocol");
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_millis(1200));
    for callback in &callbacks() {
        let Callback { shape, payload, cipher, signature, body } = callback;
        group.throughput(Throughput::Bytes(body.len() as u64));
        group.bench_function(BenchmarkId::new("envelope", shape), |b| {
            b.iter(|| envelope::ciphertext(black_box(body.as_bytes())));
        });
        group.bench_function(BenchmarkId::new("verify", shape), |b| {
            b.iter(|| crypto.verify(black_box(signature), TIMESTAMP, NONCE, black_box(cipher)));
        });
        group.bench_function(BenchmarkId::new("decrypt", shape), |b| b.iter(|| crypto.decrypt(black_box(cipher))));
        group.bench_function(BenchmarkId::new("payload", shape), |b| {
            b.iter(|| payload::parse(black_box(payload.as_bytes()), &fields));
        });
        group.bench_function(BenchmarkId::new("whole", shape), |b| {
            b.iter(|| open(&crypto, &fields, black_box(callback)));
        });
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
