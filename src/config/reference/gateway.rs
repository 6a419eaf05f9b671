//! The keys of `gateway.toml`.

use super::Without::{Is, Needed, Said};
use super::around::{ALARMS, KAFKA, LOG, REPORT, TELEMETRY};
use super::{ADDRESS, FLAG, File, SECRET, SIZE, SPAN, SPAN_OR_ZERO, Section, TEXT, key, section, words};

pub(super) const FILE: File = File {
    name: "config/gateway.toml",
    does: words(
        "The process itself. Every key may be left out, but for those of an entry in a list.",
        "进程本身。除列表里各项自己的键之外，全部可以省略。",
    ),
    sections: &[
        SERVER, ADMIN, TOKENS, WECOM, STORE, DATABASE, DEDUP, WORKERS, SENDER, PUSH, ALARMS, REPORT, LOG, TELEMETRY,
        KAFKA,
    ],
};

const SERVER: Section = section(
    "server",
    &[
        key(
            "listen",
            ADDRESS,
            Is("\"127.0.0.1:8080\""),
            "Where callbacks are taken; put your reverse proxy in front.",
            "接收回调的地址；前面放反向代理。",
        ),
        key("max_body", SIZE, Is("\"1MiB\""), "A larger body is refused with 413.", "更大的请求体以 413 拒绝。"),
        key(
            "deadline",
            words("duration, at most `\"4500ms\"`", "时长，最多 `\"4500ms\"`"),
            Is("\"2s\""),
            "An answer leaves within this, whatever happens behind; WeCom hangs up after 5 s.",
            "无论后面发生什么，都在此时限内应答；企业微信 5 秒后断开。",
        ),
        key(
            "drain",
            words("duration, at least `deadline`", "时长，不小于 `deadline`"),
            Is("\"6s\""),
            "How long a stop waits for work under way.",
            "停止时最多等待进行中的工作多久。",
        ),
        key(
            "watch",
            words("`\"off\"`, or a duration from `\"1s\"`", "`\"off\"`，或不小于 `\"1s\"` 的时长"),
            Is("\"off\""),
            "Looks at these files so often, and takes what changed.",
            "按此间隔查看这些文件，有修改就加载。",
        ),
    ],
    "The public listener and the process's own times.",
    "对外监听与进程自身的时限。",
);

const ADMIN: Section = section(
    "admin",
    &[key(
        "listen",
        ADDRESS,
        Is("\"127.0.0.1:8081\""),
        "Console, API, metrics, probes. Without tokens only a loopback address is taken.",
        "控制台、API、指标、探针。没有令牌时只能写本机地址。",
    )],
    "For operators; not for the public.",
    "给运维用，不要对外。",
);

const TOKENS: Section = section(
    "admin.tokens[]",
    &[
        key(
            "name",
            TEXT,
            Needed("\"ops\""),
            "Whose it is: trails and logs tell operators apart by it.",
            "令牌属于谁；轨迹和日志以此区分操作者。",
        ),
        key(
            "secret",
            SECRET,
            Needed("\"${OPS_TOKEN}\""),
            "The bearer text, such as `openssl rand -hex 32` makes; at least 8 characters where other machines reach `listen`.",
            "Bearer 令牌文本，可用 `openssl rand -hex 32` 生成；`listen` 能从别的机器访问时至少 8 个字符。",
        ),
        key(
            "scope",
            words(
                "`\"metrics\"`, `\"read\"`, `\"push\"` or `\"admin\"`",
                "`\"metrics\"`、`\"read\"`、`\"push\"` 或 `\"admin\"`",
            ),
            Needed("\"admin\""),
            "What it may do; each includes the one before. `metrics` reads `/metrics` alone; `read` sees what members say.",
            "可以做什么；后者包含前者。`metrics` 只能读 `/metrics`；`read` 看得到成员说的话。",
        ),
    ],
    "Who may ask. None: loopback clients only.",
    "谁可以访问。没有令牌则只允许本机。",
);

const WECOM: Section = section(
    "wecom",
    &[
        key(
            "api_base",
            words("https URL; http only on loopback", "https 地址；仅本机可用 http"),
            Is("\"https://qyapi.weixin.qq.com\""),
            "Where WeCom's API is; a private deployment has its own.",
            "企业微信 API 的地址；私有部署有自己的地址。",
        ),
        key(
            "webhook_hosts",
            words("list of hosts", "主机列表"),
            Is("[\"qyapi.weixin.qq.com\"]"),
            "Hosts that a webhook or a `response_url` may point at; anything else is refused.",
            "webhook 与 `response_url` 允许指向的主机；其余一律拒绝。",
        ),
    ],
    "Where WeCom is.",
    "企业微信在哪里。",
);

const STORE: Section = section(
    "store",
    &[
        key(
            "backend",
            words("`\"embedded\"` or `\"redis\"`", "`\"embedded\"` 或 `\"redis\"`"),
            Is("\"embedded\""),
            "SQLite under `path`, for one process; Redis, for several.",
            "`path` 下的 SQLite，用于单进程；Redis，用于多进程。",
        ),
        key(
            "path",
            words("folder", "目录"),
            Is("\"data\""),
            "Belongs to one process, which locks it.",
            "每个进程独占并加锁。",
        ),
        key(
            "redis",
            words(
                "`redis://[:password@]host:port[/db]`, `redis+sentinel://…?master=name` or `redis+cluster://…`",
                "`redis://[:密码@]主机:端口[/库]`、`redis+sentinel://…?master=名称` 或 `redis+cluster://…`",
            ),
            Is("\"redis://127.0.0.1:6379\""),
            "With `backend = \"redis\"`; use `appendonly yes`, `appendfsync always`, `maxmemory-policy noeviction`. Sentinels, TLS and a Cluster: [promises.md](promises.md#which-redis).",
            "`backend = \"redis\"` 时使用；Redis 请设 `appendonly yes`、`appendfsync always`、`maxmemory-policy noeviction`。哨兵、TLS、Cluster 见 [承诺](promises.zh-CN.md#哪种-redis)。",
        ),
        key(
            "shards",
            words("1 to 99", "1 到 99"),
            Is("1"),
            "Parts of the store; fixed at first start. 16 or more on a Redis Cluster.",
            "分片数；首次启动后不可改。Redis Cluster 上至少 16。",
        ),
        key(
            "replicas",
            words("0 to 100", "0 到 100"),
            Is("0"),
            "Redis: so many replicas must have a write before an ack and before a send. Not on a Cluster.",
            "Redis：应答和发送之前，须有几个副本已写入。Cluster 上不可用。",
        ),
        key(
            "lane_depth",
            words("from 1", "不小于 1"),
            Is("10000"),
            "Most messages that may wait in one lane.",
            "单个队列最多积压多少条。",
        ),
        key(
            "max_waiting",
            words("from 1", "不小于 1"),
            Is("1000000"),
            "Most messages and replies that may wait in all; more callbacks get 503.",
            "总共最多积压多少条；超过则回调得到 503。",
        ),
        key(
            "spool",
            FLAG,
            Is("true"),
            "With Redis away, callbacks are kept under `path` and replayed.",
            "Redis 不可用时，回调先存在 `path` 下，恢复后重放。",
        ),
        key(
            "spool_limit",
            SIZE,
            Is("\"256MiB\""),
            "Most that the spool holds; then 503.",
            "本地暂存上限，超过则 503。",
        ),
        key(
            "fsync",
            FLAG,
            Is("true"),
            "Embedded: `false` answers before the disk has it; a crash of the machine may then lose acked messages.",
            "embedded：`false` 时不等落盘就应答；机器崩溃可能丢失已应答的消息。",
        ),
    ],
    "Where messages and replies wait.",
    "消息与回复在哪里排队。",
);

const DATABASE: Section = section(
    "database",
    &[
        key(
            "url",
            words(
                "`sqlite://file` or `mysql://user:password@host:port/database`",
                "`sqlite://文件` 或 `mysql://用户:密码@主机:端口/库`",
            ),
            Is("\"sqlite://data/records.db\""),
            "SQLite for one gateway process; several share one MySQL or MariaDB.",
            "SQLite 只供一个网关进程；多个进程共用一个 MySQL 或 MariaDB。",
        ),
        key("retain", SPAN, Is("\"30d\""), "Older records are forgotten.", "更早的记录会被删除。"),
        key(
            "journal_limit",
            words("from 1", "不小于 1"),
            Is("500000"),
            "Most lines that wait for the database while it is away; the oldest of no consequence go first.",
            "数据库不可用时最多积压的行数；先舍弃最旧且无后果的行。",
        ),
        key(
            "zone",
            words("name of a time zone", "时区名"),
            Said(words("the machine's", "本机时区"), "\"Asia/Shanghai\""),
            "Where days of statistics begin.",
            "统计按哪个时区分天。",
        ),
        key("stats_retain", SPAN, Is("\"400d\""), "How long statistics are kept.", "统计保存多久。"),
    ],
    "Trails, statistics, what was said, what did not end well.",
    "轨迹、统计、会话存档、未妥善结束的发送。",
);

const DEDUP: Section = section(
    "dedup",
    &[
        key(
            "ttl",
            SPAN,
            Is("\"1h\""),
            "How long a message is remembered; `check` refuses less than anything could bring it back after.",
            "消息去重时长；短于可能的重复到达时间时 `check` 会拒绝。",
        ),
        key(
            "window",
            SPAN_OR_ZERO,
            Is("\"10s\""),
            "In-process filter in front of it, over what is stored already; `\"0s\"` is off.",
            "进程内的前置过滤，只针对已入库的消息；`\"0s\"` 为关闭。",
        ),
        key(
            "max_skew",
            words("duration, or `\"off\"`", "时长，或 `\"off\"`"),
            Is("\"30m\""),
            "How old a callback's timestamp may be (at most 5 min ahead). To raise it, raise `ttl` first and [wait](operations.md#a-changed-configuration).",
            "回调时间戳最多可以多旧（最多超前 5 分钟）。要调大时，先调大 `ttl`，[等一段时间](operations.zh-CN.md#修改配置)再调它。",
        ),
    ],
    "Each message once.",
    "每条消息只处理一次。",
);

const WORKERS: Section = section(
    "workers",
    &[
        key(
            "concurrency",
            words("1 to 1000000", "1 到 1000000"),
            Is("512"),
            "Actions under way at once; one app holds at most half.",
            "同时进行的动作数；一个应用最多占一半。",
        ),
        key(
            "lease",
            SPAN,
            Is("\"30s\""),
            "How long a worker's right to a lane holds; renewed while it works.",
            "处理者对队列的占有期；工作时自动续期。",
        ),
        key(
            "order",
            words("`\"sender\"` or `\"chat\"`", "`\"sender\"` 或 `\"chat\"`"),
            Is("\"sender\""),
            "Messages are handled in order of arrival per member, or per chat.",
            "按成员或按群保持处理顺序。",
        ),
        key(
            "poison_after",
            words("1 to 100", "1 到 100"),
            Is("5"),
            "A message that brings its worker down so often is given up as `dead`, `poison`.",
            "一条消息几次拖垮处理者后放弃，记为 `dead`、`poison`。",
        ),
    ],
    "What handles messages.",
    "处理消息。",
);

const SENDER: Section = section(
    "sender",
    &[
        key(
            "max_chats",
            words("0 to 1000000", "0 到 1000000"),
            Is("0"),
            "Chats being sent to at once; 0 is twice the cores.",
            "同时发送的群数；0 为核数的两倍。",
        ),
        key(
            "timeout",
            words("duration below half of `lease`", "小于 `lease` 一半的时长"),
            Is("\"5s\""),
            "For one request to WeCom; after it nobody knows.",
            "单次请求的时限；超时后结果未知。",
        ),
        key("lease", SPAN, Is("\"30s\""), "How long a sender's right to a lane holds.", "发送者对队列的占有期。"),
        key(
            "head_start",
            SPAN_OR_ZERO,
            Is("\"5s\""),
            "By how much one unit of weight lets a chat go ahead of a lighter one.",
            "每单位权重可比更轻的群提前多少。",
        ),
    ],
    "What sends replies and pushes.",
    "发送回复与推送。",
);

const PUSH: Section = section(
    "push",
    &[
        key(
            "keep",
            words("duration up to `database.retain`", "不超过 `database.retain` 的时长"),
            Is("\"7d\""),
            "How long a task is known: sent once within it, and never after.",
            "推送任务的去重时长：期内只发一次，过期不再发送。",
        ),
        key(
            "ask_after",
            SPAN,
            Is("\"1m\""),
            "When WeCom is first asked which customers got a task that a member had to confirm.",
            "首次向企业微信查询客户群发结果的等待时间。",
        ),
        key(
            "compensate_after",
            SPAN,
            Is("\"1m\""),
            "When a push that ended `unknown` is looked at first; twice as long each time after.",
            "结果未知的推送首次复查的等待时间，之后每次加倍。",
        ),
        key(
            "compensate_looks",
            words("1 to 100", "1 到 100"),
            Is("7"),
            "How often it is, before a person is called.",
            "复查几次后转人工。",
        ),
    ],
    "Push tasks.",
    "推送任务。",
);
