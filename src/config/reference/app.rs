//! The keys of `apps/<id>.toml`.

use super::Without::{Is, Needed, Nothing, Said};
use super::{FLAG, File, RATE, SECRET, SIZE, SPAN, Section, TEXT, TEXTS, URL, WEBHOOK, key, section, words};

pub(super) const FILE: File = File {
    name: "config/apps/&lt;id&gt;.toml",
    does: words(
        "One WeCom app: what posts its callbacks, its chats and their ways out, its rules.",
        "一个企业微信应用：谁推送回调、有哪些群及其出口、有哪些规则。",
    ),
    sections: &[
        TOP,
        AUTH,
        GATEWAY,
        CHATS_DEFAULT,
        CHATS,
        FIELDS,
        RULES,
        COMMANDS,
        ARGS,
        KEYWORDS,
        MENTION,
        BINDINGS,
        SESSION,
    ],
};

const TOP: Section = section(
    "",
    &[
        key(
            "kind",
            words(
                "`\"app\"`, `\"group_robot\"`, `\"aibot\"` or `\"json\"`",
                "`\"app\"`、`\"group_robot\"`、`\"aibot\"` 或 `\"json\"`",
            ),
            Needed("\"group_robot\""),
            "A self-built app; a group robot; an intelligent robot; a gateway that posts plain JSON.",
            "自建应用；群机器人；智能机器人；推送普通 JSON 的网关。",
        ),
        key(
            "token",
            words("1 to 32 letters and digits", "1 到 32 个字母或数字"),
            Needed("\"Token1\""),
            "From where the callback was set up in WeCom. Not for `json`.",
            "在企业微信设置回调处得到。`json` 不用。",
        ),
        key(
            "encoding_aes_key",
            words("43 characters", "43 个字符"),
            Needed("\"jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C\""),
            "From the same place. Not for `json`.",
            "同上。`json` 不用。",
        ),
        key(
            "receive_id",
            words("text, or `\"*\"`: not checked", "字符串，或 `\"*\"`：不检查"),
            Said(
                words(
                    "`\"\"`; for `app` it is `corp_id`, and needed without that",
                    "`\"\"`；`app` 取 `corp_id`，没有 `corp_id` 时必须写",
                ),
                "\"*\"",
            ),
            "For whom callbacks are sealed: the corp id for `app`, empty for robots. Compared exactly.",
            "回调加密时的接收方：`app` 为企业 id，机器人为空。精确比较。",
        ),
        key("bot_names", TEXTS, Is("[]"), "What an @mention may call it.", "@ 机器人时的名字。"),
        key(
            "max_reply_age",
            SPAN,
            Is("\"10m\""),
            "From arrival: an older message is not handled, an older reply not sent.",
            "自到达起：更旧的消息不处理，更旧的回复不发送。",
        ),
        key(
            "dedup_ttl",
            SPAN,
            Said(words("`dedup.ttl`; `\"24h\"` for `json`", "`dedup.ttl`；`json` 为 `\"24h\"`"), "\"2h\""),
            "How long this app's messages are remembered.",
            "该应用的消息去重时长。",
        ),
        key(
            "on_unknown",
            words("`\"hold\"` or `\"retry\"`", "`\"hold\"` 或 `\"retry\"`"),
            Is("\"hold\""),
            "A reply of which nobody knows whether it arrived: left to a person, or sent again while the far side knows the repeat (`message/send`, JSON gateways).",
            "不知是否送达的回复：留给人处理，或在对端能识别重复的期限内重发（`message/send`、JSON 网关）。",
        ),
        key(
            "corp_id",
            TEXT,
            Nothing("\"ww0123456789abcdef\""),
            "`app`: with `agent_id` and `secret`, the API side, by which one-to-one chats are answered.",
            "`app`：与 `agent_id`、`secret` 一起构成 API 一侧，用来回复单聊。",
        ),
        key("agent_id", words("a whole number", "整数"), Nothing("1000002"), "See `corp_id`.", "见 `corp_id`。"),
        key("secret", SECRET, Nothing("\"${APP_SECRET}\""), "See `corp_id`.", "见 `corp_id`。"),
        key(
            "ask_contacts",
            FLAG,
            Is("true"),
            "`app`: whether WeCom is asked who external contacts and customer groups are.",
            "`app`：是否向企业微信查询外部联系人和客户群。",
        ),
    ],
    "What the app is, and its times.",
    "应用是什么，以及它的时限。",
);

const AUTH: Section = section(
    "auth",
    &[
        key(
            "type",
            words("`\"header\"`, `\"hmac_sha256\"` or `\"none\"`", "`\"header\"`、`\"hmac_sha256\"` 或 `\"none\"`"),
            Needed("\"header\""),
            "A fixed header; a signature of the body; nothing: anybody who reaches the listener may post, so only a loopback listener accepts it. Behind a reverse proxy that is everybody: remove such an app first.",
            "固定的请求头；对请求体的签名；或不验证：连得上监听地址的人都能推送，所以只允许监听本机。经过反向代理时就是所有人：请先删除这样的应用。",
        ),
        key(
            "name",
            words("name of a header", "请求头名"),
            Needed("\"X-Webhook-Token\""),
            "`header`: which one.",
            "`header`：哪个请求头。",
        ),
        key("value", SECRET, Needed("\"${JSON_TOKEN}\""), "`header`: what it must hold.", "`header`：必须等于什么。"),
        key(
            "header",
            words("name of a header", "请求头名"),
            Needed("\"X-Signature\""),
            "`hmac_sha256`: which one holds the hex HMAC-SHA-256 of the body.",
            "`hmac_sha256`：哪个请求头带有请求体的十六进制 HMAC-SHA-256。",
        ),
        key("secret", SECRET, Needed("\"${JSON_SECRET}\""), "`hmac_sha256`: the key.", "`hmac_sha256`：密钥。"),
    ],
    "`json` only, and needed there: who may post. Written as `auth = { type = \"header\", … }`.",
    "仅 `json`，且必须写：谁可以推送。写作 `auth = { type = \"header\", … }`。",
);

const GATEWAY: Section = section(
    "gateway",
    &[
        key("url", URL, Needed("\"http://127.0.0.1:9000/send\""), "Where replies are posted.", "回复发往哪里。"),
        key(
            "instance_guid",
            TEXT,
            Nothing("\"inst_1\""),
            "Which account sends, where the gateway has several.",
            "网关有多个账号时由哪个发送。",
        ),
        key(
            "client_msg_id_window",
            SPAN,
            Is("\"10m\""),
            "How long it remembers a `client_msg_id`: sending again inside it shows nothing twice.",
            "它记住 `client_msg_id` 多久：期限内重发不会重复显示。",
        ),
    ],
    "`json` only: the send side of such a gateway.",
    "仅 `json`：这类网关的发送侧。",
);

const CHATS_DEFAULT: Section = section(
    "chats_default",
    &[
        key(
            "pace",
            RATE,
            Is("\"20/min\""),
            "What a robot may send, over any such span: WeCom's own limit.",
            "每个机器人的发送速率：企业微信自身的限制。",
        ),
        key("coalesce", FLAG, Is("true"), "What pace holds back leaves as one message.", "被限速压住的回复合并发出。"),
    ],
    "What holds for every chat of the app.",
    "对该应用所有群生效。",
);

const CHATS: Section = section(
    "chats[]",
    &[
        key("id", TEXT, Needed("\"wrA\""), "As it stands in callbacks.", "与回调中的完全一致。"),
        key(
            "webhook",
            WEBHOOK,
            Nothing("\"https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=00000000-0000-0000-0000-0000000000cc\""),
            "The robot of this chat: answers leave only by it. It belongs to one chat of one app.",
            "该群的机器人；回复只从这里发出。一个 webhook 只能属于一个应用的一个群。",
        ),
        key(
            "appchat",
            FLAG,
            Is("false"),
            "`app`: a group that the app made, reached by `appchat/send`.",
            "`app`：应用自建的群，用 `appchat/send` 发送。",
        ),
        key("name", TEXT, Nothing("\"VIP\""), "What people call it.", "人们怎么称呼它。"),
        key(
            "weight",
            words("1 to 100", "1 到 100"),
            Is("1"),
            "Heavier chats are served first; none starves.",
            "权重越大越优先，但每个群都会轮到。",
        ),
        key(
            "pace",
            RATE,
            Said(words("that of `[chats_default]`", "同 `[chats_default]`"), "\"10/min\""),
            "As there.",
            "同上。",
        ),
        key(
            "coalesce",
            FLAG,
            Said(words("that of `[chats_default]`", "同 `[chats_default]`"), "false"),
            "As there.",
            "同上。",
        ),
    ],
    "One for each group that is answered. One-to-one chats of `app`, `aibot` and `json` need none.",
    "每个要回复的群一项。`app`、`aibot`、`json` 的单聊不需要。",
);

const FIELDS: Section = section(
    "fields",
    &[
        key("chat_id", TEXTS, Is("[]"), "Further names of the chat's id.", "群 id 的其他字段名。"),
        key("msg_id", TEXTS, Is("[]"), "Further names of the message's id.", "消息 id 的其他字段名。"),
        key("sender", TEXTS, Is("[]"), "Further names of the sender.", "发送者的其他字段名。"),
    ],
    "Spellings of callback fields, on top of the built-in ones.",
    "回调字段的其他写法，在内置写法之外。",
);

const RULES: Section = section(
    "rules",
    &[
        key("prefixes", TEXTS, Is("[\"/\", \"／\"]"), "What stands in front of a command.", "命令的前缀。"),
        key(
            "unknown_command",
            words("`\"hint\"` or `\"ignore\"`", "`\"hint\"` 或 `\"ignore\"`"),
            Is("\"hint\""),
            "What an unknown command gets.",
            "未知命令：提示或忽略。",
        ),
        key("sensitive", TEXTS, Is("[]"), "Words that are logged and never answered.", "敏感词：只记录，绝不回复。"),
        key(
            "sensitive_file",
            words("file, relative to this one", "文件，相对于本文件"),
            Nothing("\"words.txt\""),
            "More of them, one a line.",
            "更多敏感词，每行一个。",
        ),
        key(
            "commands_on_mention",
            FLAG,
            Is("true"),
            "`@bot /query 1` and `@bot query 1` are commands too.",
            "`@机器人 /query 1` 和 `@机器人 query 1` 也是命令。",
        ),
        key(
            "bare_name",
            FLAG,
            Is("true"),
            "A text that begins with a bot's name, without `@`, is a mention too.",
            "以机器人名字开头（不带 `@`）也算提及。",
        ),
        key(
            "per_member",
            RATE,
            Nothing("\"10/min\""),
            "One member's messages in one chat that are handled; the first too many is answered once.",
            "一个成员在一个群里被处理的消息速率；超出时只提示一次。",
        ),
        key(
            "admins",
            TEXTS,
            Is("[]"),
            "Sender keys of those who may mute a chat.",
            "可以让群静音的成员（sender key）。",
        ),
        key(
            "mute",
            TEXTS,
            Said(
                words("`[\"mute\", \"静音\"]`, with `admins`", "有 `admins` 时 `[\"mute\", \"静音\"]`"),
                "[\"quiet\"]",
            ),
            "Names of the command that mutes a chat.",
            "静音命令的名字。",
        ),
        key(
            "unmute",
            TEXTS,
            Said(
                words("`[\"unmute\", \"取消静音\"]`, with `admins`", "有 `admins` 时 `[\"unmute\", \"取消静音\"]`"),
                "[\"speak\"]",
            ),
            "Names of the command that lets it speak again.",
            "取消静音命令的名字。",
        ),
    ],
    "What triggers, in this order: sensitive words, bindings, commands, keywords, mention; all else is dropped silently.",
    "触发顺序：敏感词、绑定、命令、关键词、提及；其余静默丢弃。",
);

const COMMANDS: Section = section(
    "commands[]",
    &[
        key(
            "name",
            words("one word", "一个词"),
            Needed("\"query\""),
            "What calls it, without its prefix.",
            "命令名，不带前缀。",
        ),
        key("aliases", TEXTS, Is("[]"), "Other names.", "其他名字。"),
        key("summary", TEXT, Is("\"\""), "One line for `help`.", "`help` 里的一行说明。"),
        key(
            "only",
            words(
                "`\"bound\"`, `\"internal\"`, `\"external\"` or `\"admin\"`",
                "`\"bound\"`、`\"internal\"`、`\"external\"` 或 `\"admin\"`",
            ),
            Nothing("\"bound\""),
            "Whom it is for: members with a business user id, members of the company, contacts outside of it (as far as the callback says which), `rules.admins`. Everybody by default.",
            "谁可以用：已绑定业务 id 的成员、企业成员、外部联系人（以回调说明的为准）、`rules.admins`。默认所有人。",
        ),
        key(
            "only_text",
            TEXT,
            Said(words("a text of the gateway's", "网关自带的一句话"), "\"请先绑定。\""),
            "What the others get; with `only`.",
            "其他人得到的回复；与 `only` 同用。",
        ),
    ],
    "A command, with its `action` (see [Actions](#actions)).",
    "命令，及其 `action`（见 [Actions](#actions)）。",
);

const ARGS: Section = section(
    "commands[].args[]",
    &[
        key("name", TEXT, Needed("\"order_id\""), "Its key, as actions see it.", "动作看到的键名。"),
        key(
            "label",
            TEXT,
            Said(words("`name`", "同 `name`"), "\"订单号\""),
            "What members read in usage and faults.",
            "用法和错误提示里成员看到的名字。",
        ),
        key(
            "type",
            words(
                "`\"string\"`, `\"integer\"`, `\"number\"`, `\"phone\"`, `\"date\"`, `\"choice\"` or `\"rest\"`",
                "`\"string\"`、`\"integer\"`、`\"number\"`、`\"phone\"`、`\"date\"`、`\"choice\"` 或 `\"rest\"`",
            ),
            Is("\"string\""),
            "What it must be; `rest` takes all that is left.",
            "必须是什么；`rest` 取剩余全部。",
        ),
        key("choices", TEXTS, Nothing("[\"甲\", \"乙\"]"), "`choice`: what may be chosen.", "`choice`：可选的值。"),
        key(
            "required",
            FLAG,
            Is("true"),
            "Whether it must be there; required ones come first.",
            "是否必填；必填的在前。",
        ),
    ],
    "`args = [{ … }]` of a command, in order.",
    "命令的 `args = [{ … }]`，按顺序。",
);

const KEYWORDS: Section = section(
    "keywords[]",
    &[key(
        "any",
        TEXTS,
        Needed("[\"优惠券\"]"),
        "Any of these words in a text triggers it.",
        "文本里出现任一词即触发。",
    )],
    "A keyword rule, with its `action`.",
    "关键词规则，及其 `action`。",
);

const MENTION: Section = section(
    "mention",
    &[],
    "What @bot does with anything that is not a command; in a one-to-one chat every text counts as a mention. Holds only an `action`.",
    "@ 机器人但不是命令时做什么；单聊里每条文本都算提及。只含 `action`。",
);

const BINDINGS: Section = section(
    "bindings[]",
    &[
        key(
            "pattern",
            words("regular expression, in single quotes", "正则表达式，写在单引号里"),
            Needed("'手机号是(?P<phone>1[3-9][0-9]{9})$'"),
            "The sentence; its named groups (`name`, `remark`, `phone`, `email`, others) are captures.",
            "句式；其中的命名组（`name`、`remark`、`phone`、`email` 等）会被捕获。",
        ),
        key(
            "ttl",
            SPAN,
            Is("\"7d\""),
            "How long the business user id holds; beside an `http` action.",
            "业务 id 保留多久；与 `http` 动作同用。",
        ),
        key(
            "renew_on_use",
            FLAG,
            Is("false"),
            "As long again at each use; beside an `http` action.",
            "每次使用后重新计时；与 `http` 动作同用。",
        ),
        key("unbind", FLAG, Is("false"), "The sentence ends a binding instead.", "改为解除绑定。"),
    ],
    "A sentence by which members say who they are. With an `http` action the service answers `user_id`, or a reason; without an `action` the captures are kept.",
    "成员自报身份的句式。有 `http` 动作时由服务返回 `user_id` 或原因；没有 `action` 时保存捕获的内容。",
);

const SESSION: Section = section(
    "session",
    &[
        key(
            "scope",
            words("`\"sender\"` or `\"chat\"`", "`\"sender\"` 或 `\"chat\"`"),
            Is("\"sender\""),
            "Each member's own in each chat, or shared in a chat, which needs `workers.order = \"chat\"`.",
            "每人每群各自一份，或全群共享（需要 `workers.order = \"chat\"`）。",
        ),
        key(
            "turns",
            words("2 to 1000", "2 到 1000"),
            Is("20"),
            "Turns kept, both sides counted.",
            "保留几轮，双方都计。",
        ),
        key(
            "keep",
            SPAN,
            Is("\"24h\""),
            "How long the store keeps it after the last message.",
            "最后一条消息之后在存储中保留多久。",
        ),
        key(
            "archive",
            FLAG,
            Is("true"),
            "In the database too, for members who come back later.",
            "同时存入数据库，供日后回来的成员使用。",
        ),
        key(
            "max_turn",
            words("size up to `\"1MiB\"`", "不超过 `\"1MiB\"` 的大小"),
            Is("\"2KiB\""),
            "A longer turn is cut.",
            "更长的一轮会被截断。",
        ),
        key("max_vars", SIZE, Is("\"16KiB\""), "Most that `vars` may take as JSON.", "`vars` 的 JSON 最多多大。"),
    ],
    "What `http` and `llm` actions are shown of what was said before.",
    "`http` 和 `llm` 动作能看到的前文。",
);
