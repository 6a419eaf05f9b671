//! The keys of `gateway.toml` that stand around the flow: who is told what, and Kafka.

use super::Without::{Is, Nothing};
use super::{SECRET, SPAN, Section, TEXT, URL, WEBHOOK, key, section, words};

pub(super) const ALARMS: Section = section(
    "alarms",
    &[
        key(
            "webhook",
            WEBHOOK,
            Nothing("\"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=00000000-0000-0000-0000-0000000000aa\""),
            "A group that is told, by a robot that no chat has.",
            "通知到哪个群；机器人不能属于任何群聊。",
        ),
        key(
            "url",
            URL,
            Nothing("\"http://127.0.0.1:9000/alarms\""),
            "A service that is told, by POST.",
            "以 POST 通知的服务。",
        ),
        key(
            "secret",
            SECRET,
            Nothing("\"${ALARM_SECRET}\""),
            "Signs what is posted to `url`.",
            "对发往 `url` 的内容签名。",
        ),
        key(
            "window",
            SPAN,
            Is("\"10m\""),
            "One alarm of a kind and subject in so long; the rest are counted.",
            "同类同对象的告警在此间隔内只发一次，其余计数。",
        ),
    ],
    "Who is told of dead chats, unknown replies, outages; nobody by default.",
    "群失效、回复结果未知、故障时通知谁；默认不通知。",
);

pub(super) const REPORT: Section = section(
    "report",
    &[
        key(
            "webhook",
            WEBHOOK,
            Nothing("\"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=00000000-0000-0000-0000-0000000000bb\""),
            "A group that gets yesterday's figures, by a robot that no chat has; it may be that of `[alarms]`.",
            "每天收到昨日统计的群；机器人不能属于任何群聊，可与 `[alarms]` 相同。",
        ),
        key(
            "at",
            words("`\"HH:MM\"`", "`\"时:分\"`"),
            Is("\"09:00\""),
            "When, in `database.zone`.",
            "何时发送，按 `database.zone`。",
        ),
    ],
    "A daily summary.",
    "每日汇总。",
);

pub(super) const LOG: Section = section(
    "log",
    &[
        key(
            "format",
            words("`\"auto\"`, `\"json\"` or `\"text\"`", "`\"auto\"`、`\"json\"` 或 `\"text\"`"),
            Is("\"auto\""),
            "Text on a terminal, JSON otherwise, unless said.",
            "终端上为文本，否则为 JSON。",
        ),
        key(
            "level",
            words(
                "a level, or a filter such as `\"info,wecom_gateway=debug\"`",
                "级别，或过滤式如 `\"info,wecom_gateway=debug\"`",
            ),
            Is("\"info\""),
            "What is told.",
            "记录哪些。",
        ),
        key(
            "content",
            words("`\"none\"`, `\"digest\"` or `\"full\"`", "`\"none\"`、`\"digest\"` 或 `\"full\"`"),
            Is("\"digest\""),
            "What lines tell of what members and bots say.",
            "日志里怎么写聊天内容。",
        ),
    ],
    "Log lines, on stderr.",
    "日志，写到 stderr。",
);

pub(super) const KAFKA: Section = section(
    "kafka",
    &[
        key(
            "brokers",
            words("`host:port`, several joined by commas", "`主机:端口`，多个用逗号分隔"),
            Is("\"127.0.0.1:9092\""),
            "Where the cluster is.",
            "集群地址。",
        ),
        key(
            "topic",
            words("name of a topic", "主题名"),
            Is("\"wecom.push\""),
            "Where tasks are read, and where batches are handed over.",
            "从哪里读取任务，也是批量移交的去处。",
        ),
        key(
            "results_topic",
            words("name of a topic", "主题名"),
            Is("\"wecom.push.results\""),
            "Where it is told how each delivery ended.",
            "写回每次发送结果的主题。",
        ),
        key(
            "dead_letter_topic",
            words("name of a topic", "主题名"),
            Is("\"wecom.push.dead\""),
            "Where tasks go that were refused for good, with the reason; by default `<topic>.dead`.",
            "被最终拒绝的任务及原因写到哪里；默认 `<topic>.dead`。",
        ),
        key(
            "group",
            TEXT,
            Is("\"wecom-gateway\""),
            "The consumer group of all gateways that share the topic.",
            "共用主题的所有网关的消费组。",
        ),
        key(
            "in_flight",
            words("1 to 1000000", "1 到 1000000"),
            Is("1000"),
            "Most tasks that were read and that no lane owns yet.",
            "已读而尚未入队的任务上限。",
        ),
        key(
            "options",
            words("table of librdkafka's settings", "librdkafka 设置的表"),
            Nothing("{ \"security.protocol\" = \"sasl_ssl\" }"),
            "Those of the connection, passed through; what the promises stand on can't be set, nor what tells that Kafka is away or back (`statistics.interval.ms`).",
            "连接相关的设置，原样传入；关系到承诺的不能设，用来判断 Kafka 是否断开或恢复的（`statistics.interval.ms`）也不能设。",
        ),
    ],
    "Push tasks from Kafka; without the section there is no Kafka. Needs the cargo feature `kafka`, which is on by default.",
    "从 Kafka 接收推送任务；没有此节则不用 Kafka。需要默认开启的编译特性 `kafka`。",
);

pub(super) const TELEMETRY: Section = section(
    "telemetry",
    &[
        key(
            "otlp",
            URL,
            Nothing("\"http://127.0.0.1:4318\""),
            "The collector, by OTLP over HTTP: `POST <otlp>/v1/traces`. Commonly port 4318; gRPC, commonly 4317, is not spoken.",
            "采集器，用 HTTP 上的 OTLP：`POST <otlp>/v1/traces`。一般是 4318 端口；gRPC（一般是 4317）不支持。",
        ),
        key(
            "sample",
            words("0 to 1", "0 到 1"),
            Is("1.0"),
            "The share of traces that are kept; with `otlp`.",
            "保留多大比例的链路；与 `otlp` 同用。",
        ),
    ],
    "Traces: one from callback to delivery, over all processes. Nothing is traced without `otlp`.",
    "链路追踪：从回调到送达，跨进程为同一条。没有 `otlp` 就不追踪。",
);
