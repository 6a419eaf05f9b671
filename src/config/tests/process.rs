//! Faults and defaults of `gateway.toml`.

use std::time::Duration;

use super::{Folder, blames, each_gateway_fault, json, robot};
use crate::config::settings::{Backend, LogFormat, Order, Scope};

#[test]
fn an_empty_file_gives_the_defaults_of_the_contract() {
    let s = Folder::new().settings();
    let secs = Duration::from_secs;
    assert_eq!(
        (s.server.listen.to_string().as_str(), s.server.max_body, s.server.deadline, s.server.drain),
        ("127.0.0.1:8080", 1 << 20, secs(2), secs(6))
    );
    assert_eq!((s.admin.listen.to_string().as_str(), s.admin.tokens.len()), ("127.0.0.1:8081", 0));
    assert_eq!(
        (s.wecom.api_base.as_str(), s.wecom.webhook_hosts),
        ("https://qyapi.weixin.qq.com/", vec!["qyapi.weixin.qq.com".to_owned()])
    );
    assert_eq!(
        (s.store.backend, s.store.path.to_str(), s.store.shards, s.store.lane_depth),
        (Backend::Embedded, Some("data"), 1, 10_000)
    );
    assert_eq!(s.store.redis.expose(), "redis://127.0.0.1:6379");
    assert_eq!((s.store.replicas, s.store.max_waiting, s.workers.poison_after), (0, 1_000_000, 5));
    assert!(s.store.fsync);
    assert_eq!((s.database.url.expose(), s.database.retain), ("sqlite://data/records.db", secs(30 * 86_400)));
    assert_eq!(s.database.journal_limit, 500_000);
    assert_eq!((s.dedup.ttl, s.dedup.window, s.dedup.max_skew), (secs(3600), secs(10), Some(secs(1800))));
    assert_eq!((s.workers.concurrency, s.workers.lease, s.workers.order), (512, secs(30), Order::Sender));
    assert_eq!((s.sender.timeout, s.sender.lease, s.sender.head_start), (secs(5), secs(30), secs(5)));
    assert_eq!(s.sender.max_chats, 2 * std::thread::available_parallelism().unwrap().get());
    assert_eq!((s.log.format, s.log.level.as_str(), s.apps.len()), (LogFormat::Auto, "info", 0));
}

#[test]
fn what_is_written_is_what_is_read() {
    let text = r#"
        server = { listen = "[::1]:9000", max_body = "64KiB", deadline = "500ms", drain = "20s" }
        admin = { listen = "0.0.0.0:9001", tokens = [{ name = "ops", secret = "${OPS_TOKEN}", scope = "push" }] }
        wecom = { api_base = "http://127.0.0.1:7000/proxy/", webhook_hosts = ["127.0.0.1", "Example.com"] }
        store = { backend = "redis", redis = "redis://:p%40ss@10.0.0.1:6380/2", shards = 16, replicas = 2, max_waiting = 5, spool_limit = "1GiB" }
        dedup = { window = "0s", max_skew = "off" }
        workers = { order = "chat", poison_after = 3 }
        sender = { max_chats = 7 }
        log = { format = "json", level = "info,wecom_gateway=debug" }
        [telemetry]
    "#;
    let s = Folder::new().gateway(text).settings();
    assert_eq!(
        (s.server.max_body, s.server.deadline, s.server.drain),
        (65_536, Duration::from_millis(500), Duration::from_secs(20))
    );
    let [token] = s.admin.tokens.as_slice() else { panic!("one token") };
    assert_eq!((token.name.as_str(), token.secret.expose(), token.scope), ("ops", "ops-secret", Scope::Push));
    assert_eq!(
        (s.wecom.api_base.as_str(), s.wecom.webhook_hosts),
        ("http://127.0.0.1:7000/proxy", vec!["127.0.0.1".into(), "example.com".into()])
    );
    assert_eq!((s.store.backend, s.store.shards, s.store.spool_limit), (Backend::Redis, 16, Some(1 << 30)));
    assert_eq!((s.store.replicas, s.store.max_waiting, s.workers.poison_after), (2, 5, 3));
    assert_eq!((s.dedup.window, s.dedup.max_skew), (Duration::ZERO, None));
    assert_eq!((s.workers.order, s.sender.max_chats, s.log.format), (Order::Chat, 7, LogFormat::Json));
}

#[test]
fn a_spool_is_beside_redis_alone_and_can_be_turned_off() {
    let limit = |store: &str| Folder::new().gateway(&format!("store = {{ {store} }}")).settings().store.spool_limit;
    assert_eq!(limit("backend = \"redis\""), Some(256 << 20));
    assert_eq!(limit("backend = \"redis\", spool = false"), None);
    assert_eq!(limit("spool_limit = \"1MiB\""), None);
}

#[test]
fn unknown_keys_are_told_with_what_they_may_have_meant() {
    let text = "[server]\nlitsen = \"127.0.0.1:1\"\ncolour = 1\n[sendr]\n[[admin.tokens]]\nname = \"a\"\nsecret = \"b\"\nscope = \"read\"\nscpoe = 1\n";
    let faults = Folder::new().gateway(text).faults();
    assert!(blames(&faults, "gateway.toml", "server.litsen", &["unknown", "did you mean \"listen\"?"]), "{faults}");
    assert!(blames(&faults, "gateway.toml", "server.colour", &["unknown", "remove it"]), "{faults}");
    assert!(blames(&faults, "gateway.toml", "sendr", &["did you mean \"sender\"?"]), "{faults}");
    assert!(blames(&faults, "gateway.toml", "admin.tokens[0].scpoe", &["did you mean \"scope\"?"]), "{faults}");
    assert_eq!(faults.iter().count(), 4, "{faults}");
}

#[test]
fn wrong_types_and_forms() {
    each_gateway_fault(&[
        ("server = 1", "server", &["an integer", "a table"]),
        ("session = { turns = 5 }", "session", &["of one app", "apps/<id>.toml", "move it there"]),
        ("[[commands]]\nname = \"q\"", "commands", &["of one app"]),
        ("server = { listen = 8080 }", "server.listen", &["an integer", "in quotes"]),
        ("server = { listen = \"localhost:8080\" }", "server.listen", &["\"localhost:8080\"", "127.0.0.1:8080"]),
        ("server = { max_body = \"1MB\" }", "server.max_body", &["\"1MB\"", "1MiB"]),
        ("server = { max_body = \"0\" }", "server.max_body", &["larger"]),
        ("server = { deadline = \"2\" }", "server.deadline", &["\"2\"", "30s"]),
        ("server = { deadline = \"0s\" }", "server.deadline", &["longer"]),
        ("admin = { tokens = 1 }", "admin.tokens", &["[[tokens]]"]),
        ("admin = { tokens = [1] }", "admin.tokens[0]", &["a table"]),
        (
            "admin = { tokens = [{ name = \"watch\", secret = \"s\", scope = \"read\" }] }",
            "admin.tokens[0].name",
            &["\"watch\"", "a name of its own"],
        ),
        ("store = { backend = \"reids\" }", "store.backend", &["did you mean \"redis\"", "\"embedded\", \"redis\""]),
        ("store = { shards = 0 }", "store.shards", &["1 to 99"]),
        ("store = { shards = 100 }", "store.shards", &["1 to 99"]),
        ("store = { lane_depth = -1 }", "store.lane_depth", &["from 1"]),
        ("store = { spool_limit = \"0\" }", "store.spool_limit", &["keeps nothing", "spool = false"]),
        ("server = { drain = \"1s\" }", "server.drain", &["deadline (2s)", "lengthen"]),
        ("store = { max_waiting = 0 }", "store.max_waiting", &["from 1"]),
        ("store = { replicas = 1 }", "store.replicas", &["embedded", "\"redis\""]),
        ("store = { backend = \"redis\", replicas = 101 }", "store.replicas", &["0 to 100"]),
        ("workers = { poison_after = 0 }", "workers.poison_after", &["1 to 100"]),
        ("store = { spool = \"yes\" }", "store.spool", &["true or false"]),
        ("store = { path = \" \" }", "store.path", &["empty"]),
        ("store = { path = \"Cargo.toml\" }", "store.path", &["\"Cargo.toml\"", "a file", "name a folder"]),
        ("store = { path = \"Cargo.toml/data\" }", "store.path", &["can't be created", "Cargo.toml is a file"]),
        ("server = { deadline = \"4501ms\" }", "server.deadline", &["5s", "at most \"4500ms\""]),
        ("dedup = { max_skew = \"never\" }", "dedup.max_skew", &["\"never\"", "or \"off\""]),
        ("workers = { concurrency = 0 }", "workers.concurrency", &["from 1"]),
        ("workers = { order = \"message\" }", "workers.order", &["\"sender\", \"chat\""]),
        ("log = { format = \"xml\" }", "log.format", &["\"auto\", \"json\", \"text\""]),
        ("log = { level = \"loud\" }", "log.level", &["\"loud\"", "\"debug\""]),
        ("log = { level = \"a=b=c\" }", "log.level", &["a=b=c"]),
    ]);
}

#[test]
fn addresses() {
    each_gateway_fault(&[
        ("wecom = { api_base = \"qyapi.weixin.qq.com\" }", "wecom.api_base", &["no URL", "https://"]),
        ("wecom = { api_base = \"ftp://qyapi.weixin.qq.com\" }", "wecom.api_base", &["neither http://", "https://"]),
        ("wecom = { api_base = \"https://a.example/?x=1\" }", "wecom.api_base", &["query"]),
        ("wecom = { webhook_hosts = [] }", "wecom.webhook_hosts", &["empty", "qyapi.weixin.qq.com"]),
        (
            "wecom = { webhook_hosts = [\"https://a.example\"] }",
            "wecom.webhook_hosts[0]",
            &["no host", "without scheme"],
        ),
        ("wecom = { webhook_hosts = [\"a.example:80\"] }", "wecom.webhook_hosts[0]", &["port"]),
        ("wecom = { webhook_hosts = [\"\"] }", "wecom.webhook_hosts[0]", &["empty"]),
        ("store = { redis = \"127.0.0.1:6379\" }", "store.redis", &["redis://host:port"]),
        ("store = { redis = \"redis://h:port\" }", "store.redis", &["redis://host:port"]),
        ("database = { url = \"data/records.db\" }", "database.url", &["sqlite://"]),
        ("database = { url = \"sqlite://\" }", "database.url", &["no file"]),
        ("database = { url = \"mysql://u:p@h\" }", "database.url", &["no MySQL address", "<database>"]),
        ("database = { url = \"mysql://u:p@:x/db\" }", "database.url", &["no MySQL address", "percent-encoded"]),
        ("wecom = { api_base = \"http://10.0.0.5\" }", "wecom.api_base", &["https://", "loopback"]),
    ]);
    for base in ["http://127.0.0.1:7000", "http://[::1]:7000", "http://localhost/x", "https://proxy.example/wx"] {
        Folder::new().gateway(&format!("wecom = {{ api_base = \"{base}\" }}")).settings();
    }
    Folder::new().gateway("server = { deadline = \"4500ms\" }").settings();
}

#[test]
fn listeners_may_not_claim_the_same_port() {
    let listening = |public: &str, operators: &str| {
        let tokens = "tokens = [{ name = \"a\", secret = \"eight-ch\", scope = \"read\" }]";
        let text = format!("server = {{ listen = \"{public}\" }}\nadmin = {{ listen = \"{operators}\", {tokens} }}");
        Folder::new().gateway(&text)
    };
    for (public, operators) in [
        ("127.0.0.1:80", "127.0.0.1:80"),
        ("0.0.0.0:80", "127.0.0.1:80"),
        ("127.0.0.1:80", "0.0.0.0:80"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("[::]:80", "127.0.0.1:80"),
        ("0.0.0.0:80", "[::]:80"),
        ("[::]:80", "[::1]:80"),
        ("[::ffff:10.0.0.1]:80", "10.0.0.1:80"),
    ] {
        let faults = listening(public, operators).faults();
        let told = blames(&faults, "gateway.toml", "admin.listen", &[public, operators, "a port of its own"]);
        assert!(told && faults.iter().count() == 1, "{public} {operators}\n→ {faults}");
    }
    for (public, operators) in [
        ("0.0.0.0:80", "127.0.0.1:81"),
        ("0.0.0.0:0", "0.0.0.0:0"),
        ("0.0.0.0:80", "[::1]:80"),
        ("127.0.0.1:80", "127.0.0.2:80"),
    ] {
        listening(public, operators).settings();
    }
}

#[test]
fn the_stores_folder_is_looked_at_and_not_created() {
    let folder = Folder::new();
    let data = folder.path("a/data");
    folder.gateway(&format!("store = {{ path = \"{}\" }}", data.display())).settings();
    assert!(!data.parent().unwrap().exists());
}

#[test]
fn a_secret_belongs_to_one_token() {
    let token = |name: &str, secret: &str| {
        format!("[[admin.tokens]]\nname = \"{name}\"\nsecret = \"{secret}\"\nscope = \"read\"\n")
    };
    let faults = Folder::new().gateway(&(token("ops", "hush") + &token("bi", "x") + &token("cron", "hush"))).faults();
    let told = blames(&faults, "gateway.toml", "admin.tokens[2].secret", &["\"ops\"", "\"cron\"", "its own"]);
    assert!(told && faults.iter().count() == 1 && !faults.to_string().contains("hush"), "{faults}");
}

#[test]
fn a_redis_is_a_server_a_cluster_or_a_master_that_sentinels_name() {
    let store = |lines: &str| format!("[store]\nbackend = \"redis\"\n{lines}");
    for sound in [
        "redis = \"rediss://u:p@h\"\nreplicas = 1",
        "redis = \"redis+cluster://h1,h2\"\nshards = 16",
        "redis = \"redis+sentinel://h1,h2/?master=m\"\nreplicas = 2",
    ] {
        Folder::new().gateway(&store(sound)).settings();
    }
    each_gateway_fault(&[
        (
            &store("redis = \"redis+cluster://h1/2\""),
            "store.redis",
            &["no address of a Redis Cluster", "redis+cluster://host:port,"],
        ),
        (&store("redis = \"redis+sentinel://h1\""), "store.redis", &["no address of Redis sentinels", "?master=name"]),
        (&store("redis = \"memcached://h1\""), "store.redis", &["is no Redis address", "redis://host:port"]),
        (&store("redis = \"redis+cluster://h1\"\nshards = 15"), "store.shards", &["16 or more"]),
        (
            &store("redis = \"redis+cluster://h1\"\nshards = 16\nreplicas = 1"),
            "store.replicas",
            &["not available on a Cluster", "write 0"],
        ),
    ]);
}

#[test]
fn what_this_version_does_not_have_is_said_plainly() {
    each_gateway_fault(&[(
        "database = { url = \"postgres://u:p@h/db\" }",
        "database.url",
        &["not available in this version", "mysql://"],
    )]);
}

#[test]
fn the_operators_listener_needs_tokens_once_others_can_reach_it() {
    let token = |name: &str| format!("[[admin.tokens]]\nname = \"{name}\"\nsecret = \"x\"\nscope = \"admin\"\n");
    let twice = token("ops") + &token("ops");
    let open =
        "admin = { listen = \"0.0.0.0:8081\", tokens = [{ name = \"a\", secret = \"seven-c\", scope = \"read\" }] }";
    each_gateway_fault(&[
        (open, "admin.tokens[0].secret", &["8 characters", "0.0.0.0:8081", "openssl rand"]),
        ("admin = { listen = \"0.0.0.0:8081\" }", "admin.listen", &["tokens", "127.0.0.1"]),
        (&twice, "admin.tokens[1].name", &["\"ops\"", "its own"]),
        ("[[admin.tokens]]\nsecret = \"x\"\nscope = \"read\"", "admin.tokens[0].name", &["missing"]),
        ("[[admin.tokens]]\nname = \"x\"\nscope = \"read\"", "admin.tokens[0].secret", &["missing", "${NAME}"]),
        ("[[admin.tokens]]\nname = \"x\"\nsecret = \"x\"", "admin.tokens[0].scope", &["missing", "\"push\""]),
        (
            "[[admin.tokens]]\nname = \"x\"\nsecret = \"x\"\nscope = \"root\"",
            "admin.tokens[0].scope",
            &["\"read\", \"push\", \"admin\""],
        ),
    ]);
}

#[test]
fn a_send_must_fit_twice_into_its_lease() {
    each_gateway_fault(&[
        ("sender = { timeout = \"15s\" }", "sender.timeout", &["15s", "half of [sender] lease (30s)"]),
        ("sender = { lease = \"10s\" }", "sender.timeout", &["5s", "10s", "lengthen the lease"]),
    ]);
    Folder::new().gateway("sender = { timeout = \"14999ms\" }").settings();
}

#[test]
fn the_memory_outlasts_whatever_could_bring_a_message_back() {
    let blamed = |gateway: &str, app: &str, file: &str, key: &str, words: &[&str]| {
        let faults = Folder::new().gateway(gateway).app("a", app).faults();
        assert!(blames(&faults, file, key, words) && faults.iter().count() == 1, "{gateway}\n{app}\n→ {faults}");
    };
    let age = |age: &str, more: &str| format!("max_reply_age = \"{age}\"\n{more}");
    // max_skew + 5 min + max_reply_age
    blamed(
        "dedup = { ttl = \"44m\" }",
        &robot(""),
        "gateway.toml",
        "dedup.ttl",
        &["44m", "45m", "max_skew (30m)", "\"a\""],
    );
    blamed("", &robot(&age("26m", "")), "gateway.toml", "dedup.ttl", &["1h", "61m", "max_reply_age (26m)"]);
    blamed("", &robot(&age("26m", "dedup_ttl = \"60m\"")), "apps/a.toml", "dedup_ttl", &["1h", "61m"]);
    blamed("dedup = { max_skew = \"off\", ttl = \"14m\" }", &robot(""), "gateway.toml", "dedup.ttl", &["14m", "15m"]);
    // JSON callbacks carry no timestamp, and are remembered for a day.
    blamed("", &json(&age("24h", "")), "apps/a.toml", "dedup_ttl", &["1d", "1445m"]);
    // Twice the longest action and a send.
    let slow = "dedup_ttl = \"50m\"\n[mention]\naction = { type = \"http\", url = \"http://s\", timeout = \"30m\" }";
    let gateway = "dedup = { max_skew = \"1m\" }";
    blamed(
        gateway,
        &robot(&age("30m", slow)),
        "apps/a.toml",
        "dedup_ttl",
        &["50m", "3610s", "longest action (30m)", "timeout (5s)"],
    );

    Folder::new().gateway("dedup = { ttl = \"45m\" }").app("a", &robot("")).settings();
    Folder::new().app("a", &robot(&age("26m", "dedup_ttl = \"61m\""))).settings();
    Folder::new().app("a", &json(&age("23h", ""))).settings();
}

#[test]
fn the_longest_need_of_all_apps_is_the_one_that_is_told() {
    let age = |age: &str| robot(&format!("max_reply_age = \"{age}\""));
    let faults = Folder::new().app("a", &age("26m")).app("b", &age("40m")).app("c", &age("30m")).faults();
    assert!(blames(&faults, "gateway.toml", "dedup.ttl", &["75m", "\"b\""]) && faults.iter().count() == 1, "{faults}");
}

#[test]
fn without_apps_too_the_memory_covers_the_skew() {
    each_gateway_fault(&[("dedup = { ttl = \"34m\" }", "dedup.ttl", &["34m", "35m", "max_skew (30m)"])]);
}
