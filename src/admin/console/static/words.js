// Every text of the console, in Chinese and English. `{0}` is filled in.

const WORDS = {
  now: ["现在", "Now"], chats: ["群聊", "Chats"], find: ["查找", "Find"], settle: ["待了结", "To settle"],
  stats: ["统计", "Statistics"], changes: ["变更", "Changes"], apps: ["应用", "Apps"], config: ["配置", "Configuration"],

  unreachable: ["连不上网关：它停了，或网络不通", "The gateway can't be reached: it is down, or the network is"],
  went_wrong: ["没有成功", "That did not work"], http_fault: ["HTTP {0}", "HTTP {0}"], try_again: ["重试", "Try again"],
  cancel: ["取消", "Cancel"], more: ["更多", "More"], refresh: ["刷新", "Refresh"], close: ["关闭", "Close"], all: ["全部", "All"],
  login: ["登录", "Log in"], logout: ["退出", "Log out"], token: ["令牌", "Token"],
  login_hint: ["填入 gateway.toml 里 [admin] tokens 的一个令牌。只保存在这个浏览器标签页里。", "Enter one of [admin] tokens of gateway.toml. It is kept in this browser tab only."],
  login_refused: ["令牌不对", "No such token"], login_too_small: ["这个令牌的权限不够，控制台至少要 read", "This token's scope is too small: the console needs read"], theme: ["明暗", "Theme"], language: ["English", "中文"],
  forbidden: ["这个令牌的权限不够", "This token may not do that"],

  rate_in: ["收到回调 / 秒", "Callbacks / s"], rate_done: ["处理消息 / 秒", "Messages handled / s"], rate_out: ["送达 / 秒", "Delivered / s"],
  latency: ["收到到送达", "Arrival to delivery"], p50: ["中位", "median"], p95: ["P95", "P95"], waiting: ["等待中", "Waiting"],
  lanes_in: ["等待处理的队列", "Lanes to handle"], lanes_out: ["等待发送的群聊", "Chats to send to"], parked: ["搁置的群聊", "Chats set aside"],
  journal: ["未写入轨迹库的日志行", "Lines not yet recorded"], spool: ["暂存", "Spool"], store: ["存储", "Store"], up: ["正常", "up"], down: ["连不上", "unreachable"],
  draining: ["正在停止", "stopping"], ready: ["可以接收回调", "takes callbacks"], not_ready: ["不能接收回调", "takes no callbacks"],
  refused_in: ["拒绝的回调 / 分", "Refused callbacks / min"], duplicates_in: ["拦下的重复 / 分", "Copies stopped / min"], ended_badly: ["未送达 / 分", "Not delivered / min"],
  first_look: ["正在取第二个读数…", "Waiting for a second reading…"], last_minutes: ["最近 {0}", "last {0}"], callbacks_by: ["回调的应答", "Answers to callbacks"], sends_by: ["发送的结果", "What sends came to"],
  handled_as: ["处理的决定（不是送达与否）", "What handling decided (not what arrived)"], nothing_yet: ["启动以来还没有", "None since the start"], unrecorded: ["未写入轨迹库", "unrecorded"],

  chat: ["群聊", "Chat"], app: ["应用", "App"], depth: ["等待", "Waits"], oldest: ["最久", "Longest"], why: ["原因", "Why"], weight: ["权重", "Weight"], state: ["状态", "State"],
  last_error: ["最近的错误", "Last error"], pause: ["暂停", "Pause"], resume: ["恢复", "Resume"], revive: ["解除失效", "Revive"], unmute: ["解除静音", "Unmute"], set_weight: ["权重…", "Weight…"],
  chats_none: ["没有群聊", "No chats"], chats_none_hint: ["在应用的文件里加 [[chats]]，或等第一条消息。", "Add [[chats]] to an app's file, or wait for a first message."],
  only_waiting: ["只看有情况的", "Only those with something going on"], filter: ["按名称或 id 过滤", "Filter by name or id"], nothing_matches: ["没有符合的", "Nothing matches"], nothing_matches_hint: ["换个条件再看。", "Try another filter."],
  paused_done: ["已暂停 {0}", "{0} is paused"], resumed_done: ["已恢复 {0}", "{0} goes on"], revived_done: ["{0} 已解除失效", "{0} is revived"], unmuted_done: ["{0} 可以说话了", "{0} may speak again"], weight_done: ["{0} 的权重是 {1}", "{0} has weight {1}"],
  weight_ask: ["{0} 的权重", "Weight of {0}"], weight_hint: ["1 到 100，越大越先发。清空则回到配置文件里的值。", "1 to 100, heavier goes first. Empty: back to what the file says."], save: ["保存", "Save"],
  pause_ask: ["暂停 {0}？", "Pause {0}?"], pause_hint: ["不再开始新的发送，直到恢复；等待的回复照常计时，过期即丢弃。", "Nothing more is begun there until it is resumed; what waits grows old meanwhile."],
  wakes: ["{0} 后继续", "goes on in {0}"], muted: ["已静音", "muted"],
  mute: ["静音…", "Mute…"], mute_ask: ["让 {0} 静音？", "Mute {0}?"], mute_hint: ["成员的消息不再回答，直到解除静音。", "Its members are not answered until it is unmuted."], muted_done: ["{0} 已静音", "{0} is muted"],
  try_now: ["马上再试", "Try now"], tried_done: ["{0} 马上再试", "{0} is tried now"], tries: ["{0} 后再试一条", "one send tries in {0}"], held_by_chat: ["按群，见群聊页", "by chat: see the page of chats"],
  zone: ["所有时间的时区", "The zone of all times here"], may_look: ["只读", "read only"], may_look_hint: ["这个令牌不能改动：需要权限 admin 的令牌。", "This token may not change anything: that takes one of scope admin."],
  path: ["路径", "Path"], refused_hint: ["被拒绝的回调不是消息，没有轨迹；用 wecom-gateway explain 逐步检查。最近的见", "A refused callback is no message and has no trail; wecom-gateway explain takes it apart. The last ones:"],
  nth_binding: ["第 {0} 个 [[bindings]]", "[[bindings]] no. {0}"], change_app: ["应用", "App"], tuned_held: ["停发", "Held"],

  find_hint: ["msg_id、request_id、delivery id 或 task id", "msg_id, request_id, delivery id or task id"], find_go: ["查找", "Find"],
  find_start: ["一条消息的轨迹", "The whole way of a message"], find_start_hint: ["填入任意一个 id：收到、规则、动作、排队、发送、结果，都在这里。", "Enter any id: arrived, rule, action, queued, sent, how it ended: all of it is here."],
  find_none: ["没有 “{0}” 的记录", "Nothing is known of “{0}”"], find_none_hint: ["id 要完整。半秒前发生的可能还没写入轨迹库；超过保留期的已经删除。", "The id must be whole. What happened within half a second may not be recorded yet; what is older than the records' retention is gone."],
  message: ["消息", "Message"], sender: ["发送者", "Sender"], outcome: ["结果", "Outcome"], reason: ["原因", "Reason"], took: ["用时", "took"], after_start: ["+{0}", "+{0}"],

  delivery: ["投递", "Delivery"], when: ["时间", "When"], errcode: ["错误码", "errcode"], resend: ["重发", "Send again"], delivered_act: ["已送达", "It arrived"], discard: ["放弃", "Discard"],
  settle_none: ["没有待了结的", "Nothing to settle"], settle_none_hint: ["所有投递都有了明确的结果。", "Every delivery has come to a clear end."],
  selected: ["已选 {0} 条", "{0} selected"], select_all: ["全选", "Select all"], trail: ["轨迹", "Trail"],
  settle_ask: ["{0}：{1} 条", "{0}: {1} deliveries"], resend_hint: ["原样再发一次。如果其实已经送达，对方会看到两次。", "The same message is sent once more. Where it did arrive, people see it twice."],
  discard_hint: ["不再发送，记为放弃。", "Nobody misses it; it is recorded as discarded."], delivered_hint: ["以你的话为准，记为已送达。", "On your word it counts as delivered."], settled_done: ["完成 {0} 条", "{0} settled"], settled_some: ["完成 {0} 条，{1} 条没有成功：{2}", "{0} settled, {1} were not: {2}"],

  day: ["日期", "Day"], messages: ["消息", "Messages"], replies: ["回复", "Replies"], hits: ["命中", "Hits"], success: ["送达率", "Delivered"], copies: ["拦下的重复", "Copies stopped"], mean: ["平均", "Mean"],
  stats_none: ["这一天没有消息", "No messages on that day"], stats_none_hint: ["换一天看看。", "Choose another day."], by_rule: ["按触发", "By trigger"], by_chat: ["按群聊", "By chat"], csv: ["导出 CSV", "CSV"], rule: ["触发", "Trigger"],

  changes_short: ["变更…", "Changes…"], changes_of: ["{0} 最近的变更", "Last changes of {0}"], changes_none: ["没有变更", "No changes"], changes_none_hint: ["运维改过什么、谁改的，都在这里；半秒内的可能还没写入轨迹库，超过保留期的已经删除。", "What operators changed, and who, is told here. What happened within half a second may not be recorded yet; what is older than the records' retention is gone."],
  by_whom: ["按操作者过滤", "Filter by who"], since: ["从这天起", "Since that day"], who: ["谁", "Who"], of_what: ["对象", "Of"], what: ["改了什么", "What"], as_configured: ["配置的值", "as configured"],
  via_api: ["接口或控制台", "by API or console"], via_command: ["群内命令", "by a command in the chat"], via_signal: ["SIGHUP 信号", "by SIGHUP"], via_watch: ["文件变化（server.watch）", "files changed (server.watch)"],
  change_user: ["成员资料", "Member's profile"], change_user_forgotten: ["忘记成员", "Member forgotten"], change_session_forgotten: ["清除会话", "Session forgotten"], change_delivery: ["人工了结", "Delivery settled"], change_configuration: ["新配置", "New configuration"], change_refused: ["新配置被拒绝，{0} 处错误", "A configuration was refused, faults: {0}"], key_added: ["新增", "added"], key_removed: ["删除", "removed"], key_changed: ["已改", "changed"],
  tuned_weight: ["权重", "Weight"], tuned_paused: ["暂停", "Paused"], tuned_dead: ["失效", "Dead"], tuned_muted: ["静音", "Muted"], fields_set: ["设置", "set"], fields_removed: ["删除", "removed"],

  callback_url: ["回调地址", "Callback path"], kind: ["类型", "Kind"], access_token: ["access_token", "access_token"], hold: ["停发", "Held"], held_no: ["没有", "no"], trusted_address: ["企业可信IP", "Trusted address"], trusted_ok: ["没有被拒绝过", "nothing refused"],
  recent: ["最近的回调", "Last callbacks"], recent_none: ["这个进程还没有收到回调", "This process has had no callback yet"], recent_none_hint: ["企业微信后台的 URL 要指到反向代理，代理再转到这个地址。", "The URL in WeCom's console must lead to your proxy, and from there to this address."],
  accepted: ["接收", "accepted"], refused: ["拒绝", "refused"], apps_none: ["没有应用", "No apps"], apps_none_hint: ["在 apps/ 下放一个 <id>.toml，然后重新加载配置。", "Put a file <id>.toml into apps/, then reload the configuration."],
  strangers: ["发给不存在的应用", "To apps that don't exist"], token_good: ["有效，还剩 {0}", "good for {0}"], token_none: ["还没有", "none yet"], token_refused: ["被拒绝：{0}", "refused: {0}"], no_api: ["不用 API", "uses no API"], of_process: ["此进程", "this process"],

  files_read: ["{0} 读到的文件。", "The files as they were read at {0}."], files_none: ["不是从文件启动的", "It was not started from files"], not_in_force: ["尚未生效", "not in force yet"], reload_refused: ["之后的改动被拒绝", "later changes were refused"], reload: ["重新加载", "Reload"], reload_ask: ["重新加载配置？", "Reload the configuration?"], reload_hint: ["全部文件都没有错误才会生效；否则一切照旧。", "It is taken only where no file has a fault; else everything stays as it is."],
  reloaded_none: ["没有变化", "Nothing changed"], reloaded: ["已读入：{0}", "Taken: {0}"], needs_restart: ["{0}：重启后才生效，此前仍按原来的值工作。", "{0}: only after a restart; until then the gateway works by what they said before."], files_hint: ["密钥不显示；${…} 按文件里的写法显示。", "Secrets are blank; ${…} stands as in the file."], faults: ["没有生效，请修改：", "Not taken; mend these:"],
};

const KEY = "wecom-gateway-language";
const preferred = () => (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en");
let language = localStorage.getItem(KEY) ?? preferred();

export const isChinese = () => language === "zh";

export function useLanguage(next = language) {
  language = next;
  localStorage.setItem(KEY, next);
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
}

export function t(key, ...values) {
  const words = WORDS[key];
  if (!words) return key;
  return words[isChinese() ? 0 : 1].replace(/\{(\d)\}/g, (_, n) => values[n] ?? "");
}

// Words of the gateway's own, which stay as they are in logs and API, with what they mean beside them.
const MEANINGS = {
  active: ["正常", "active"], paced: ["限速中", "paced"], backing_off: ["退避中", "backing off"], paused: ["已暂停", "paused"], dead: ["已失效", "dead"],
  pace: ["等速率窗口", "its robot's window"], back_off: ["失败后退避", "a failure before"], hold: ["停发：有错要改", "a fault to be mended (held)"], pause: ["人工暂停", "an operator"], answer: ["等应答", "an answer"], turn: ["排队", "its turn"],
  queued: ["排队中", "queued"], delivered: ["已送达", "delivered"], ignored: ["未触发", "ignored"], blocked: ["敏感词", "blocked"], silent: ["动作不回复", "silent"], waiting: ["等迟到的回复", "waiting"],
  duplicate: ["重复", "duplicate"], dropped: ["已丢弃", "dropped"], unknown: ["结果未知", "unknown"], resent: ["已重发", "resent"],
  accepted: ["收到并存下", "taken"], pushed: ["推送入队", "push queued"], expired: ["过期", "given up"], handled: ["处理完", "handled"], answered: ["迟到的回复", "late answer"], retried: ["再试", "tried again"], settled: ["发送结束", "send ended"], operated: ["人工了结", "by an operator"],
  group_robot: ["群机器人", "group robot"], app: ["自建应用", "app"], aibot: ["智能机器人", "smart robot"], json: ["JSON 网关", "JSON gateway"],
  stored: ["已存下", "stored"], spooled: ["已暂存", "spooled"], verified: ["URL 验证通过", "URL verified"],
  not_found: ["路径不对", "not_found"], unknown_app: ["没有这个应用", "unknown_app"], method_not_allowed: ["方法不对", "method_not_allowed"], body_too_large: ["正文太大", "body_too_large"], body_unreadable: ["正文没收全", "body_unreadable"],
  missing_query: ["查询串不全", "missing_query"], bad_timestamp: ["时间戳不对", "bad_timestamp"], timestamp_skew: ["时间差太大", "timestamp_skew"], signature_mismatch: ["签名不符", "signature_mismatch"], unauthorized: ["请求头不对", "unauthorized"],
  bad_envelope: ["不是加密的正文", "bad_envelope"], receive_id_mismatch: ["receive_id 不符", "receive_id_mismatch"], decrypt_failed: ["解密失败", "decrypt_failed"], bad_payload: ["内容无法解析", "bad_payload"], missing_field: ["缺少字段", "missing_field"],
  lane_full: ["队列已满", "lane_full"], store_full: ["存储已满", "store_full"], spool_full: ["暂存已满", "spool_full"], store_unavailable: ["存储不可用", "store_unavailable"], store_timeout: ["存储超时", "store_timeout"],
  partial: ["漏了人", "partial"], transient: ["暂时失败", "transient"], token: ["access token 被拒", "token"], chat_gone: ["群聊已不在", "chat_gone"], rejected: ["内容被拒", "rejected"], configuration: ["配置问题", "configuration"], not_tried: ["本机发不出", "not_tried"],
  no_answer: ["没有应答", "no_answer"], interrupted: ["进程中断", "interrupted"], not_confirmed: ["成员没有确认", "not_confirmed"], rejected_together: ["合并后被拒", "rejected_together"], too_old: ["太旧", "too_old"], chat_dead: ["群聊已失效", "chat_dead"],
  route_missing: ["没有出口", "route_missing"], route_changed: ["出口已属别的群聊", "route_changed"], route_shared: ["出口与别的群聊相同", "route_shared"], response_url_host: ["response_url 的主机不在名单里", "response_url_host"], response_url_expired: ["response_url 已过期", "response_url_expired"], response_url_used: ["response_url 已用过", "response_url_used"],
  awaiting_member: ["等成员发送", "awaiting_member"], no_friend: ["不是好友", "no_friend"], over_limit: ["已收满群发", "over_limit"], left_out: ["被漏掉", "left_out"], reached_nobody: ["没人收到", "reached_nobody"], discarded: ["已放弃", "discarded"], confirmed: ["确认已送达", "confirmed"],
  no_mention_rule: ["没有 [mention]", "no_mention_rule"], unknown_command: ["没有这个命令", "unknown_command"], muted: ["已静音", "muted"], member_rate: ["成员发得太快", "member_rate"], not_bound: ["只给已绑定的成员", "not_bound"], not_internal: ["只给企业成员", "not_internal"], not_external: ["只给外部联系人", "not_external"], not_admin: ["只给管理员", "not_admin"], poison: ["一再拖垮处理", "poison"], panic: ["程序出错", "panic"],
  resend: ["重发", "resend"], discard: ["放弃", "discard"], reply: ["回复", "reply"], http: ["HTTP 服务", "http"], llm: ["大模型", "llm"], help: ["帮助", "help"], mute: ["静音", "mute"], unmute: ["解除静音", "unmute"],
  app_message: ["应用消息", "app_message"], app_chat: ["应用群聊", "app_chat"], customer_task: ["客户群发", "customer_task"], response_url: ["response_url", "response_url"], json_gateway: ["JSON 网关", "json_gateway"], compensated: ["补偿器查看", "compensated"], exchanged: ["记入会话", "exchanged"], forgotten: ["清除会话", "forgotten"],
  latency_ms: ["收到到送达", "latency_ms"], digest: ["摘要", "digest"], true: ["是", "true"], false: ["否", "false"],
  reason: ["原因", "reason"], delivery: ["投递", "delivery"], verdict: ["应答的含义", "verdict"], errcode: ["错误码", "errcode"], errmsg: ["企业微信的话", "errmsg"], rule: ["规则", "rule"], trigger: ["触发", "trigger"], action: ["动作", "action"], replies: ["回复", "replies"], elapsed_ms: ["用时", "elapsed_ms"], waited_ms: ["等待", "waited_ms"], channel: ["出口", "channel"], attempts: ["次数", "attempts"], by: ["操作者", "by"], resent_as: ["重发为", "resent_as"], redelivered: ["重新领取", "redelivered"], msg_type: ["消息类型", "msg_type"], merged: ["合并条数", "merged"],
  command: ["命令", "command"], keyword: ["关键词", "keyword"], mention: ["@机器人", "mention"], binding: ["绑定", "binding"], chatter: ["闲聊", "chatter"], sensitive: ["敏感词", "sensitive"], event: ["事件", "event"], other: ["其他", "other"],
};
export const meaning = (word) => MEANINGS[word]?.[isChinese() ? 0 : 1] ?? word;

const GOOD = ["active", "delivered", "answered", "up"];
const BAD = ["dead", "unknown", "unreachable"];
const WARN = ["paced", "backing_off", "paused", "dropped", "blocked", "waiting", "retried", "expired"];
export const mood = (word) => (GOOD.includes(word) ? "good" : BAD.includes(word) ? "bad" : WARN.includes(word) ? "warn" : "");
