//! The keys of an `action`, wherever it stands.

use super::Without::{Is, Needed, Nothing, Said};
use super::{File, SECRET, SIZE, Section, TEXT, URL, key, section, words};

pub(super) const FILE: File = File {
    name: "Actions",
    does: words(
        "What a command, a keyword, a mention or a binding does: `action = { type = \"…\", … }`, or a table of its own, `[mention.action]`.",
        "命令、关键词、提及、绑定所做的事：`action = { type = \"…\", … }`，或单独的表 `[mention.action]`。",
    ),
    sections: &[ANY, REPLY, HTTP, LLM],
};

const ANY: Section = section(
    "action",
    &[key(
        "type",
        words("`\"reply\"`, `\"http\"`, `\"llm\"` or `\"help\"`", "`\"reply\"`、`\"http\"`、`\"llm\"` 或 `\"help\"`"),
        Needed("\"help\""),
        "Which; `help` lists the commands and has no more keys.",
        "哪一种；`help` 列出命令，没有其他键。",
    )],
    "Common to all.",
    "各种动作都有。",
);

const REPLY: Section = section(
    "action reply",
    &[key(
        "text",
        TEXT,
        Needed("\"您好，{{ user.name }}\""),
        "The reply. It may name `args.<name>`, `user.name`, `user.id`, `user.remark`, `user.phone`, `user.email`, `chat.id`, `chat.name`, `message.id`, `message.text`, `sender.key`, `command.name`, `session.vars.<name>`; any other name is a fault.",
        "回复内容。可引用 `args.<名>`、`user.name`、`user.id`、`user.remark`、`user.phone`、`user.email`、`chat.id`、`chat.name`、`message.id`、`message.text`、`sender.key`、`command.name`、`session.vars.<名>`；其他名字都是错误。",
    )],
    "A fixed text with values put in: only values, no code.",
    "固定文本，可填入值；只有值，没有代码。",
);

const HTTP: Section = section(
    "action http",
    &[
        key(
            "url",
            URL,
            Needed("\"http://127.0.0.1:9000/bot\""),
            "Your service; it gets the message by POST.",
            "你的服务；以 POST 收到消息。",
        ),
        key(
            "timeout",
            words("duration up to `max_reply_age`", "不超过 `max_reply_age` 的时长"),
            Is("\"8s\""),
            "For the whole call; after it the member gets an apology.",
            "整个调用的时限；超时成员会收到致歉。",
        ),
        key("secret", SECRET, Nothing("\"${ORDERS_HMAC}\""), "Signs the request.", "对请求签名。"),
    ],
    "Asks a service of yours.",
    "调用你自己的服务。",
);

const LLM: Section = section(
    "action llm",
    &[
        key(
            "base_url",
            URL,
            Needed("\"http://127.0.0.1:8000/v1\""),
            "Where the API begins: `POST {base_url}/chat/completions`.",
            "API 的起始地址：`POST {base_url}/chat/completions`。",
        ),
        key("model", TEXT, Needed("\"some-model\""), "Its name there.", "模型名。"),
        key("api_key", SECRET, Nothing("\"${LLM_KEY}\""), "Bearer text.", "Bearer 令牌。"),
        key(
            "system",
            TEXT,
            Nothing("\"你是客服，简短回答。\""),
            "What the model is told first, as it stands; members' words never become part of it.",
            "先告诉模型的话，原样发送；成员的话不会混入其中。",
        ),
        key(
            "timeout",
            words("duration up to `max_reply_age`", "不超过 `max_reply_age` 的时长"),
            Said(
                words("`\"30s\"`, or `max_reply_age` where that is less", "`\"30s\"`，若 `max_reply_age` 更短则取它"),
                "\"20s\"",
            ),
            "For one request; refused ones (429, 5xx) are repeated within the message's age.",
            "单次请求的时限；被拒绝的（429、5xx）在消息有效期内重试。",
        ),
        key(
            "context",
            words("0 to 1000000", "0 到 1000000"),
            Is("4000"),
            "Most tokens of earlier turns that are sent along, counted rather too many; 0 is none.",
            "最多附带多少 token 的前文（宁多算）；0 为不带。",
        ),
        key("max_tokens", words("1 to 1000000", "1 到 1000000"), Nothing("500"), "Handed on.", "原样传给模型。"),
        key("temperature", words("0 to 2", "0 到 2"), Nothing("0.7"), "Handed on.", "原样传给模型。"),
        key("max_answer", SIZE, Is("\"8KiB\""), "A longer answer is cut.", "更长的回答会被截断。"),
        key(
            "format",
            words("`\"text\"` or `\"markdown\"`", "`\"text\"` 或 `\"markdown\"`"),
            Is("\"text\""),
            "As what the answer is sent.",
            "以哪种消息类型发送。",
        ),
    ],
    "Asks a model behind any OpenAI-compatible API.",
    "询问任何兼容 OpenAI 接口的大模型。",
);
