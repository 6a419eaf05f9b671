//! The kinds of alarms: the word of each, what it says in Chinese, and what mends it.

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// WeCom says that the chat's address is gone.
    ChatDead,
    /// A reply was refused for its rate too often, and dropped.
    RateLimited,
    /// Nobody knows whether a reply arrived.
    Unknown,
    /// Nobody knows whether a push arrived, and the compensator can do no more.
    PushUnknown,
    /// A fault of configuration, or a limit of the API: nothing gets through, for the app or for one chat.
    Held,
    /// This machine could not even try to send.
    NotTried,
    /// A reply has no way out, or its way leads to another chat now, and was dropped (P2).
    NoRoute,
    /// Too many replies wait for a chat: those of a message were dropped.
    LaneFull,
    /// A message brought its worker down too often.
    Poison,
    /// The store does not answer.
    StoreAway,
    /// The spool is half full.
    SpoolFilling,
    /// The records can't be written.
    RecordsAway,
    /// No task comes from Kafka: no broker lets us in, or the topic or the group is not there for us.
    KafkaAway,
    /// Letters of refused tasks, or results, can't be written: their topic is not there or too small, or no broker takes them.
    KafkaUnwritable,
    /// One of the two is over.
    KafkaBack,
}

impl Kind {
    /// Its word in the hook's JSON and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ChatDead => "chat_dead",
            Self::RateLimited => "rate_limited",
            Self::Unknown => "unknown",
            Self::PushUnknown => "push_unknown",
            Self::Held => "held",
            Self::NotTried => "not_tried",
            Self::NoRoute => "no_route",
            Self::LaneFull => "lane_full",
            Self::Poison => "poison",
            Self::StoreAway => "store_away",
            Self::SpoolFilling => "spool_filling",
            Self::RecordsAway => "records_away",
            Self::KafkaAway => "kafka_away",
            Self::KafkaUnwritable => "kafka_unwritable",
            Self::KafkaBack => "kafka_back",
        }
    }

    /// What happened, in a few words.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ChatDead => "群聊已失效，不再向它发送",
            Self::RateLimited => "多次被限流，回复已丢弃",
            Self::Unknown => "回复是否送达未知",
            Self::PushUnknown => "推送是否送达未知，补偿已用尽",
            Self::Held => "配置或接口额度有误，已停发",
            Self::NotTried => "本机暂时无法发出请求",
            Self::NoRoute => "没有可用的路由，回复或推送已丢弃",
            Self::LaneFull => "等待发送的回复太多，新的已丢弃",
            Self::Poison => "消息多次使处理进程崩溃，已放弃",
            Self::StoreAway => "存储无应答",
            Self::SpoolFilling => "本地暂存超过一半",
            Self::RecordsAway => "轨迹数据库写不进",
            Self::KafkaAway => "读不到 Kafka，推送任务暂停接收",
            Self::KafkaUnwritable => "写不进 Kafka 主题，死信或推送结果在等待",
            Self::KafkaBack => "Kafka 已恢复",
        }
    }

    /// What to do, in one sentence.
    pub(super) fn mend(self) -> &'static str {
        match self {
            Self::ChatDead => "确认群和机器人还在，换上新的 webhook，或把应用重新拉进群。",
            Self::RateLimited => "调低该群的 pace，或打开 coalesce 让等待中的回复合并发送。",
            Self::Unknown => "到群里看一眼，没有收到就在运维接口里重发。",
            Self::PushUnknown => {
                "到群聊里看一眼，用 POST /api/v1/push/{task_id}/confirm 说明是否送达，或按投递 id 人工了结。"
            }
            Self::Held => "按错误码检查 secret、企业可信IP、应用可见范围或调用额度，恢复后会自动继续。",
            Self::NotTried => "检查本机的文件描述符、内存，以及到存储和企业微信的网络。",
            Self::NoRoute => "给该群聊配置 webhook，并确认没有别的群聊用同一个。",
            Self::LaneFull => "看该群聊为什么发不出去，或调大 [store] lane_depth。",
            Self::Poison => "按消息 id 查轨迹和日志，修好规则或动作后请成员重发。",
            Self::StoreAway => "检查 Redis 或本地磁盘，恢复后会自动继续。",
            Self::SpoolFilling => "尽快恢复 Redis，暂存写满后回调会得到 503。",
            Self::RecordsAway => "检查 [database] 的数据库和磁盘，恢复后会自动补写。",
            Self::KafkaAway => "检查 [kafka] 的 broker、账号、主题和到它们的网络，恢复后会自动从中断处继续。",
            Self::KafkaUnwritable => {
                "检查该主题是否存在、max.message.bytes 是否够大、账号能否写入；死信写不进时，它所在的分区停在那里，恢复后会自动继续。"
            }
            Self::KafkaBack => "无需处理，已从中断处继续。",
        }
    }

    /// What it is about where it is neither a chat nor an app.
    pub(super) fn part(self) -> &'static str {
        match self {
            Self::StoreAway => "store",
            Self::SpoolFilling => "spool",
            Self::RecordsAway => "records",
            Self::KafkaAway | Self::KafkaUnwritable | Self::KafkaBack => "kafka",
            Self::ChatDead
            | Self::RateLimited
            | Self::Unknown
            | Self::PushUnknown
            | Self::Held
            | Self::NotTried
            | Self::NoRoute
            | Self::LaneFull
            | Self::Poison => "process",
        }
    }

    /// Whether all processes mean the same by it, so that one of them tells it for all. The others are each process's own.
    pub(super) fn is_shared(self) -> bool {
        match self {
            Self::ChatDead
            | Self::RateLimited
            | Self::Unknown
            | Self::PushUnknown
            | Self::Held
            | Self::NoRoute
            | Self::LaneFull
            | Self::Poison => true,
            Self::NotTried
            | Self::StoreAway
            | Self::SpoolFilling
            | Self::RecordsAway
            | Self::KafkaAway
            | Self::KafkaUnwritable
            | Self::KafkaBack => false,
        }
    }
}
