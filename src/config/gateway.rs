//! `gateway.toml`: the process, section by section, with every default of the contract.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use url::{Host, Url};

use super::alarms::alarms;
use super::kafka::kafka;
use super::reader::{Source, Table, quoted};
use super::report::report;
use super::route::{OFFICIAL_HOST, is_loopback};
use super::settings::{
    Admin, AdminToken, Backend, Database, Dedup, Log, LogFormat, Order, Push, Scope, Sender, Server, Settings, Store,
    WeCom, Workers,
};
use super::strength::{GUESSED, NEW_SECRET, is_below};
use super::telemetry::telemetry;
use super::units::{self, Mend, show};
use crate::model::Secret;
use crate::store::redis::Address;
use crate::telemetry::LogContent;
use crate::zone::Zone;

/// Where operators ask, unless said.
const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8081);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// The fewest shards on a Redis Cluster.
const CLUSTER_SHARDS: u16 = 16;

/// What an app's file is most likely to hold by mistake; `kafka` and `telemetry` are told of by themselves.
pub(super) const SECTIONS: [&str; 12] = [
    "server",
    "admin",
    "wecom",
    "store",
    "database",
    "dedup",
    "workers",
    "sender",
    "alarms",
    "log",
    "kafka",
    "telemetry",
];

/// The whole file; its apps are read after it.
pub(super) fn settings(root: &mut Table) -> Settings {
    let wecom = root.section("wecom", wecom);
    let database = root.section("database", database);
    let settings = Settings {
        server: root.section("server", server),
        admin: root.section("admin", admin),
        store: root.section("store", store),
        push: root.section("push", |t| push(t, &database)),
        database,
        dedup: root.section("dedup", dedup),
        workers: root.section("workers", workers),
        sender: root.section("sender", sender),
        alarms: root.section("alarms", |t| alarms(t, &wecom)),
        report: root.section("report", |t| report(t, &wecom)),
        wecom,
        kafka: root.section_if("kafka", kafka),
        log: root.section("log", log),
        telemetry: root.section("telemetry", telemetry),
        apps: Default::default(),
        files: Default::default(),
    };
    let (public, operators) = (settings.server.listen, settings.admin.listen);
    if overlap(public, operators) {
        let why = format!("{operators} overlaps [server] listen ({public})");
        root.fault("admin.listen", format!("{why}: give each listener a port of its own"));
    }
    root.belong_elsewhere(
        &super::app::SECTIONS,
        "is of one app, and belongs in its file, apps/<id>.toml beside this one",
    );
    settings
}

/// `[admin]` of the file; the rest is not judged.
pub(super) fn admin_alone(root: &mut Table) -> Admin {
    let admin = root.section("admin", admin);
    root.drop_rest();
    admin
}

/// Where `[admin]` listens, without a look at its tokens.
pub(super) fn admin_address(root: &mut Table) -> SocketAddr {
    let listen = root.section("admin", |t| {
        let listen = t.parsed("listen", address).unwrap_or(ADMIN);
        t.drop_rest();
        listen
    });
    root.drop_rest();
    listen
}

/// Whether two listeners would claim the same port of some address; `[::]` takes IPv4 too. Port 0 is a free one each.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |wide: IpAddr, other: IpAddr| wide.is_unspecified() && (wide.is_ipv6() || other.is_ipv4());
    let (ip_a, ip_b) = (a.ip().to_canonical(), b.ip().to_canonical());
    a.port() == b.port() && a.port() != 0 && (ip_a == ip_b || covers(ip_a, ip_b) || covers(ip_b, ip_a))
}

fn server(t: &mut Table) -> Server {
    let body = |text: &str| match units::size(text) {
        Ok(0) => Err("lets no callback through: write a larger size, such as \"1MiB\"".into()),
        other => other,
    };
    let deadline = t.parsed("deadline", deadline).unwrap_or(Duration::from_secs(2));
    let drain = t.span("drain", Duration::from_secs(6));
    Server {
        listen: t.parsed("listen", address).unwrap_or(SocketAddr::from(([127, 0, 0, 1], 8080))),
        max_body: t.parsed("max_body", body).unwrap_or(1 << 20),
        deadline,
        drain,
        watch: t.parsed("watch", watch).unwrap_or(None),
    }
}

/// What has to agree although one of the two may change while the gateway runs and the other not.
pub(super) fn across(source: &Source, Settings { server, push, database, .. }: &Settings) {
    let sound = |keys: &[&str]| !keys.iter().any(|key| source.ledger.blames(&source.file, key));
    if server.drain < server.deadline && sound(&["server.deadline", "server.drain"]) {
        let (drain, deadline) = (show(server.drain), show(server.deadline));
        let why = format!("{drain} is below [server] deadline ({deadline}), so that callbacks would be cut off");
        source.ledger.note(&source.file, "server.drain", format!("{why}: lengthen it"));
    }
    if push.keep > database.retain && sound(&["push.keep", "database.retain"]) {
        let (keep, retain) = (show(push.keep), show(database.retain));
        let why = format!("{keep} is longer than [database] retain ({retain}), from which what is unknown is settled");
        source.ledger.note(&source.file, "push.keep", format!("{why}: shorten it"));
    }
}

/// How often files are looked at: not at all, or not so often that reading them costs anything.
fn watch(text: &str) -> Result<Option<Duration>, Mend> {
    match text {
        "off" => Ok(None),
        span => match units::duration(span)? {
            every if every < Duration::from_secs(1) => Err("is too often: write \"1s\" or more, or \"off\"".into()),
            every => Ok(Some(every)),
        },
    }
}

/// The longest that an answer may take: WeCom hangs up after 5 s, and the way to it takes time too.
const LATEST_ANSWER: Duration = Duration::from_millis(4500);

fn deadline(text: &str) -> Result<Duration, Mend> {
    match units::some_duration(text) {
        Ok(late) if late > LATEST_ANSWER => {
            let mend = format!("write at most {:?}", show(LATEST_ANSWER));
            Err(format!("is too late for WeCom, which hangs up after 5s and sends the callback again: {mend}"))
        }
        other => other,
    }
}

fn address(text: &str) -> Result<SocketAddr, Mend> {
    text.parse().map_err(|_| "is no address: write IP and port, such as \"127.0.0.1:8080\" or \"[::1]:8080\"".into())
}

fn admin(t: &mut Table) -> Admin {
    let listen = t.parsed("listen", address).unwrap_or(ADMIN);
    let mut before: Vec<AdminToken> = Vec::new();
    let mut entries = 0;
    let tokens = t.each("tokens", |t| {
        entries += 1;
        let token = admin_token(t, listen)?;
        if before.iter().any(|other| other.name == token.name) {
            t.fault(
                "name",
                format!("{:?} is the name of another token: give each its own, logs tell them apart by it", token.name),
            );
        } else if let Some(other) = before.iter().find(|other| other.secret == token.secret) {
            let why =
                format!("{:?} has the secret of {:?}, so that none could tell them apart", token.name, other.name);
            t.fault("secret", format!("{why}: give each its own"));
        }
        before.push(token.clone());
        Some(token)
    });
    if entries == 0 && !listen.ip().is_loopback() {
        let why = format!("{listen} can be reached from other machines, and there are no tokens");
        t.fault("listen", format!("{why}: add [admin] tokens, or listen on 127.0.0.1"));
    }
    Admin { listen, tokens }
}

/// Who is named so in trails: whoever asks from this machine without a token, signals the process, or writes its files.
const NOBODY: [&str; 3] = ["loopback", "signal", "watch"];

fn admin_token(t: &mut Table, listen: SocketAddr) -> Option<AdminToken> {
    let name = t.filled("name");
    let secret = t.secret("secret");
    let scopes = [Scope::Metrics, Scope::Read, Scope::Push, Scope::Admin];
    let scope = t.word("scope", &scopes.map(|scope| (scope.as_str(), scope)));
    if let Some(name) = name.as_deref().filter(|name| NOBODY.contains(name)) {
        t.fault("name", format!("{name:?} is what trails call who has no token: give this one a name of its own"));
    }
    let name = t.require("name", name, "say whose token this is, for the logs");
    let secret = t.require("secret", secret, "write the bearer text, best as \"${NAME}\"");
    if !listen.ip().is_loopback() && secret.as_ref().is_some_and(|secret| is_below(GUESSED, secret)) {
        let why = format!("is shorter than {GUESSED} characters, and {listen} can be reached from other machines");
        t.fault("secret", format!("{why}: make one by `{NEW_SECRET}`"));
    }
    let scope = t.require("scope", scope, "write \"metrics\", \"read\", \"push\" or \"admin\"");
    Some(AdminToken { name: name?, secret: secret?, scope: scope? })
}

fn wecom(t: &mut Table) -> WeCom {
    let api_base = t.parsed_unseen("api_base", api_base).unwrap_or_else(official_api);
    let listed = t.strings("webhook_hosts").unwrap_or_else(|| vec![OFFICIAL_HOST.into()]);
    let mut is_in_full = t.sound(&["webhook_hosts"]);
    let mut webhook_hosts = Vec::with_capacity(listed.len());
    for (i, host) in listed.iter().enumerate() {
        match Host::parse(host.trim()) {
            Ok(parsed) => webhook_hosts.push(parsed.to_string()),
            Err(_) => {
                t.fault(
                    &format!("webhook_hosts[{i}]"),
                    format!("{host:?} is no host: write a bare name or IP, without scheme, port or path"),
                );
                match meant(host) {
                    Some(meant) => webhook_hosts.push(meant),
                    None => is_in_full = false,
                }
            }
        }
    }
    if !t.sound(&["api_base"]) {
        webhook_hosts.push(OFFICIAL_HOST.into()); // where its stand-in leads: a bare key is no fault of the chat's
    }
    if listed.is_empty() && t.sound(&["webhook_hosts"]) {
        t.fault("webhook_hosts", "is empty, so that no webhook could be reached: list \"qyapi.weixin.qq.com\"");
    }
    if listed.is_empty() || !is_in_full {
        webhook_hosts.clear(); // not known in full: no webhook is judged by them
    }
    WeCom { api_base, webhook_hosts }
}

/// The host that was meant by what is none: that of a URL, or what stands before a port or a path.
fn meant(text: &str) -> Option<String> {
    let text = text.trim();
    let url = if text.contains("://") { Url::parse(text) } else { Url::parse(&format!("https://{text}")) };
    url.ok()?.host_str().map(str::to_owned)
}

/// The address from the documentation of WeCom's API.
fn official_api() -> Url {
    #[allow(clippy::expect_used)] // a constant, and read by every test
    Url::parse("https://qyapi.weixin.qq.com").expect("is a URL")
}

fn api_base(text: &str) -> Result<Url, Mend> {
    let mut url = web_url(text)?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err(
            "holds a query or a fragment: write scheme and host, such as \"https://qyapi.weixin.qq.com\"".into()
        );
    }
    if url.scheme() != "https" && !is_loopback(&url) {
        return Err("is without encryption: write https:// (http is for loopback hosts alone)".into());
    }
    let path = url.path().trim_end_matches('/').to_owned();
    if url.host_str() == Some(OFFICIAL_HOST) && !path.is_empty() {
        return Err(format!("holds a path, which {OFFICIAL_HOST} doesn't have: write \"https://{OFFICIAL_HOST}\""));
    }
    url.set_path(&path);
    Ok(url)
}

/// An http or https URL. The mend doesn't quote it: it may hold a key.
pub(super) fn web_url(text: &str) -> Result<Url, Mend> {
    let wrong = match Url::parse(text.trim()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => return Ok(url),
        Ok(_) => "begins with neither http:// nor https://".to_owned(),
        Err(e) => format!("is no URL ({e})"),
    };
    Err(format!("{wrong}: write it in full, such as \"https://host/path\""))
}

fn store(t: &mut Table) -> Store {
    let backend = t.word("backend", &[("embedded", Backend::Embedded), ("redis", Backend::Redis)]);
    let backend = backend.unwrap_or(Backend::Embedded);
    let spool_limit = t.parsed("spool_limit", spool_limit).unwrap_or(256 << 20);
    let spool = t.flag("spool", true) && backend == Backend::Redis;
    let store = Store {
        backend,
        path: PathBuf::from(t.filled("path").unwrap_or_else(|| "data".into())),
        redis: t.parsed_unseen("redis", redis_address).unwrap_or_else(|| Secret::new("redis://127.0.0.1:6379")),
        shards: t.whole("shards", 1..=99).and_then(|n| u16::try_from(n).ok()).unwrap_or(1),
        replicas: t.whole("replicas", 0..=100).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
        lane_depth: t.whole("lane_depth", 1..=u64::MAX).unwrap_or(10_000),
        spool_limit: spool.then_some(spool_limit),
        max_waiting: t.whole("max_waiting", 1..=u64::MAX).unwrap_or(1_000_000),
        fsync: t.flag("fsync", true),
    };
    if store.replicas > 0 && backend == Backend::Embedded {
        t.fault("replicas", "the embedded store has no replicas to wait for: write 0, or [store] backend = \"redis\"");
    }
    let is_cluster = Address::parse(store.redis.expose()).is_ok_and(|address| address.is_cluster());
    if backend == Backend::Redis && is_cluster {
        if store.shards < CLUSTER_SHARDS {
            t.fault(
                "shards",
                "a Cluster spreads the shards over its nodes, of which each needs some: write 16 or more",
            );
        }
        if store.replicas > 0 {
            t.fault("replicas", "is not available on a Cluster in this version: write 0");
        }
    }
    store
}

fn spool_limit(text: &str) -> Result<u64, Mend> {
    match units::size(text) {
        Ok(0) => Err("keeps nothing: write a larger size, such as \"256MiB\", or spool = false".into()),
        other => other.map(|bytes| bytes as u64),
    }
}

fn redis_address(text: &str) -> Result<Secret, Mend> {
    let text = text.trim();
    Address::parse(text).map(|_| Secret::new(text)).map_err(|why| why.to_string())
}

fn database(t: &mut Table) -> Database {
    Database {
        url: t.parsed_unseen("url", database_url).unwrap_or_else(|| Secret::new("sqlite://data/records.db")),
        retain: t.span("retain", 30 * DAY),
        journal_limit: t.whole("journal_limit", 1..=u64::MAX).unwrap_or(500_000),
        zone: t.parsed("zone", zone).unwrap_or_else(Zone::system),
        stats_retain: t.span("stats_retain", 400 * DAY),
    }
}

fn zone(name: &str) -> Result<Zone, Mend> {
    let mend = "is no time zone: write its name in the table of zones, such as \"Asia/Shanghai\" or \"UTC\"";
    Zone::named(name.trim()).ok_or_else(|| mend.to_owned())
}

fn database_url(text: &str) -> Result<Secret, Mend> {
    match text.split_once("://") {
        Some(("sqlite", path)) if !path.is_empty() => Ok(Secret::new(text)),
        Some(("sqlite", _)) => Err("names no file: write one, such as \"sqlite://data/records.db\"".into()),
        Some(("mysql" | "mariadb", _)) => match Url::parse(text) {
            Ok(url) if url.has_host() && url.path().len() > 1 => Ok(Secret::new(text)),
            _ => Err("is no MySQL address: write \"mysql://<user>:<password>@<host>:<port>/<database>\", what is special in \
                      the password percent-encoded"
                .into()),
        },
        Some(("postgres" | "postgresql", _)) => {
            let mend = "write mysql://… or a file, such as \"sqlite://data/records.db\"";
            Err(format!("is a PostgreSQL server, not available in this version: {mend}"))
        }
        _ => Err("is no database address: write one such as \"sqlite://data/records.db\"".into()),
    }
}

fn dedup(t: &mut Table) -> Dedup {
    let max_skew = t.parsed("max_skew", |text| match text {
        "off" => Ok(None),
        _ => units::some_duration(text).map(Some).map_err(|mend| format!("{mend}, or \"off\"")),
    });
    Dedup {
        ttl: t.span("ttl", 60 * MINUTE),
        window: t.span_or_zero("window", Duration::from_secs(10)),
        max_skew: max_skew.unwrap_or(Some(30 * MINUTE)),
    }
}

fn workers(t: &mut Table) -> Workers {
    Workers {
        concurrency: t.whole("concurrency", 1..=1_000_000).and_then(|n| usize::try_from(n).ok()).unwrap_or(512),
        lease: t.span("lease", Duration::from_secs(30)),
        order: t.word("order", &[("sender", Order::Sender), ("chat", Order::Chat)]).unwrap_or(Order::Sender),
        poison_after: t.whole("poison_after", 1..=100).and_then(|n| u32::try_from(n).ok()).unwrap_or(5),
    }
}

fn sender(t: &mut Table) -> Sender {
    let max_chats = t.whole("max_chats", 0..=1_000_000).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
    let timeout = t.span("timeout", Duration::from_secs(5));
    let lease = t.span("lease", Duration::from_secs(30));
    if timeout >= lease / 2 && t.sound(&["timeout", "lease"]) {
        let (timeout, lease) = (show(timeout), show(lease));
        let why = format!("{timeout} is not below half of [sender] lease ({lease}), so that a send could outlive it");
        t.fault("timeout", format!("{why}: shorten it, or lengthen the lease"));
    }
    Sender {
        max_chats: max_chats.unwrap_or_else(|| 2 * std::thread::available_parallelism().map_or(1, usize::from)),
        timeout,
        lease,
        head_start: t.span_or_zero("head_start", Duration::from_secs(5)),
    }
}

/// What is unknown of a task is settled from the records: they must not forget it first.
fn push(t: &mut Table, database: &Database) -> Push {
    let told = t.parsed("keep", units::some_duration);
    let looks = t.whole("compensate_looks", 1..=100).and_then(|n| u32::try_from(n).ok());
    Push {
        // Unsaid, it is as long as the records allow.
        keep: told.unwrap_or((7 * DAY).min(database.retain)),
        ask_after: t.span("ask_after", MINUTE),
        compensate_after: t.span("compensate_after", MINUTE),
        compensate_looks: looks.unwrap_or(7),
    }
}

fn log(t: &mut Table) -> Log {
    let formats = [("auto", LogFormat::Auto), ("json", LogFormat::Json), ("text", LogFormat::Text)];
    let contents = [("none", LogContent::None), ("digest", LogContent::Digest), ("full", LogContent::Full)];
    Log {
        format: t.word("format", &formats).unwrap_or(LogFormat::Auto),
        level: t.parsed("level", log_level).unwrap_or_else(|| "info".into()),
        content: t.word("content", &contents).unwrap_or_default(),
    }
}

/// A lone word must be a level: `tracing` would take a misspelt one for the name of a target.
fn log_level(text: &str) -> Result<String, Mend> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let mend =
        format!("is no log level: write one of {}, or a filter such as \"info,wecom_gateway=debug\"", quoted(&LEVELS));
    let plain_word = text.chars().all(|c| c.is_ascii_alphanumeric());
    if plain_word && !LEVELS.contains(&text.to_ascii_lowercase().as_str()) {
        return Err(mend);
    }
    EnvFilter::try_new(text).map(|_| text.to_owned()).map_err(|_| mend)
}
