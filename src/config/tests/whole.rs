//! What concerns files as such: several at once, unreadable ones, what is put into strings, and secrets in faults.

use super::{AES_KEY, Folder, blames, json, robot};
use crate::config::{load, load_apps};

#[test]
fn every_fault_of_every_file_is_told_in_one_run() {
    let gateway = "[server]\nlisten = \"here\"\nshape = 1\n[sender]\ntimeout = \"20s\"\n[dedup]\nttl = \"20m\"\n[kafka]\ntopics = 1\n";
    let first = "kind = \"group_robot\"\ntoken = \"a b\"\nencoding_aes_key = \"short\"\n[[chats]]\nid = \"c\"\nweight = 0\nwebhook = \"k1\"\n[[commands]]\nname = \"q\"\n";
    let second = json("colour = 1\n[[chats]]\nid = \"d\"\nwebhook = \"k1\"\n[[bindings]]\npattern = '('\n");
    let faults =
        Folder::new().gateway(gateway).app("first", first).app("second", &second).app("Third", "kind = ").faults();
    let places: Vec<_> =
        faults.iter().map(|f| (f.file.file_name().unwrap().to_str().unwrap(), f.key.as_str())).collect();
    let expected = [
        ("gateway.toml", "server.listen"),
        ("gateway.toml", "server.shape"),
        ("gateway.toml", "sender.timeout"),
        ("gateway.toml", "kafka.topics"),
        ("Third.toml", ""),
        ("Third.toml", ""),
        ("first.toml", "token"),
        ("first.toml", "encoding_aes_key"),
        ("first.toml", "chats[0].weight"),
        ("first.toml", "commands[0].action"),
        ("second.toml", "bindings[0].pattern"),
        ("second.toml", "colour"),
        ("second.toml", "chats[0].webhook"),
        ("gateway.toml", "dedup.ttl"),
    ];
    assert_eq!(places, expected, "{faults}");
    assert_eq!(faults.to_string().lines().count(), expected.len(), "one line a fault");
}

#[test]
fn a_fault_reads_as_file_key_and_mend() {
    let folder = Folder::new().gateway("store = { shards = 100 }");
    let expected =
        format!("{}: store.shards: is 100: write a whole number from 1 to 99", folder.path("gateway.toml").display());
    assert_eq!(folder.faults().to_string(), expected);
}

#[test]
fn toml_that_cannot_be_read_names_line_and_column() {
    let faults =
        Folder::new().gateway("[log]\nlevel = \"info\"\n群 = 1\n").app("a", "kind = \"json\"\nauth = \n").faults();
    assert!(blames(&faults, "gateway.toml", "", &["line 3, column 1"]), "{faults}");
    assert!(blames(&faults, "apps/a.toml", "", &["line 2, column 8", "no TOML"]), "{faults}");
    let twice = Folder::new().gateway("[log]\n[log]\n").faults();
    assert!(blames(&twice, "gateway.toml", "", &["line 2, column 2", "duplicate"]), "{twice}");
}

#[test]
fn an_unreadable_gateway_file_makes_no_faults_of_the_apps() {
    let app = robot(
        "max_reply_age = \"5h\"\n[[chats]]\nid = \"c\"\nwebhook = \"https://proxy.example/send?key=k\"\nweight = 0",
    );
    let faults = Folder::new().gateway("[").app("a", &app).faults();
    assert_eq!(faults.iter().map(|f| f.key.as_str()).collect::<Vec<_>>(), ["", "chats[0].weight"], "{faults}");
}

#[test]
fn a_missing_gateway_file_is_told_with_its_path() {
    let faults = load(std::path::Path::new("/nowhere/gateway.toml")).unwrap_err();
    assert!(blames(&faults, "/nowhere/gateway.toml", "", &["can't be read", "--config"]), "{faults}");
}

#[test]
fn files_in_another_encoding_are_told_as_such() {
    let folder = Folder::new().app("b", &robot("[rules]\nsensitive_file = \"words.txt\""));
    let gbk = |name: &str, before: &str| {
        std::fs::write(folder.path(name), [before.as_bytes(), b"\xd6\xfa\n".as_slice()].concat()).unwrap();
    };
    gbk("apps/a.toml", "kind = \"json\"\n# ");
    gbk("apps/words.txt", "");
    let faults = folder.faults();
    let mend = ["not UTF-8", "save it"];
    assert!(blames(&faults, "apps/a.toml", "", &["line 2", mend[0], mend[1]]), "{faults}");
    assert!(blames(&faults, "apps/b.toml", "rules.sensitive_file", &["words.txt is", mend[0], mend[1]]), "{faults}");
    assert!(!faults.to_string().contains("--config"), "{faults}");
}

#[test]
fn app_files_are_named_after_their_app() {
    for name in ["Support", "a b", "客服", &"x".repeat(65)] {
        let faults = Folder::new().app(name, &robot("")).faults();
        assert!(blames(&faults, &format!("apps/{name}.toml"), "", &["a-z", "64"]), "{faults}");
    }
    let folder = Folder::new().app("a_b-1", &robot("")).app(".hidden", "no toml").file("apps/notes.txt", "no toml");
    let settings = folder.settings();
    assert_eq!(settings.apps.keys().collect::<Vec<_>>(), ["a_b-1"]);
    assert_eq!(settings.apps["a_b-1"].id, "a_b-1");
}

#[test]
fn the_apps_folder_may_be_absent() {
    let folder = Folder::new();
    std::fs::remove_dir(folder.path("apps")).unwrap();
    assert!(folder.settings().apps.is_empty());
}

#[test]
fn variables_and_secret_files_go_into_any_string() {
    let folder = Folder::new().file("key", &format!("{AES_KEY} \nsecond line\n"));
    let key = folder.path("key").display().to_string();
    let text = format!(
        "kind = \"group_robot\"\ntoken = \"${{TOKEN}}\"\nencoding_aes_key = \"${{file:{key}}}\"\nbot_names = [\"${{file:{key}}}\"]"
    );
    let folder = folder.app("a", &text.replace("${TOKEN}", "T${file:/dev/null}1"));
    assert_eq!(folder.settings().apps["a"].bot_names, [format!("{AES_KEY} ")]);

    let faults = folder
        .app("b", &robot("bot_names = [\"${TEAM}\"]\ncorp_id = 1\n[rules]\nsensitive = [\"${file:/nowhere}\"]"))
        .faults();
    assert!(blames(&faults, "b.toml", "bot_names[0]", &["TEAM", "not set"]), "{faults}");
    assert!(blames(&faults, "b.toml", "rules.sensitive[0]", &["/nowhere", "can't be read"]), "{faults}");
}

#[test]
fn no_fault_tells_a_secret() {
    let gateway = r#"
        admin = { tokens = [{ name = "a", secret = "hush-1", scope = "x", hint = "hush-2" }] }
        wecom = { api_base = "ftp://u:hush-3@h" }
        store = { redis = "rediss://:hush-4@h" }
        database = { url = "mysql://u:hush-5@h/db" }
        log = { level = "x${OPS_TOKEN}" }
        kafka = "hush-6"
    "#;
    let first = "kind = \"app\"\ntoken = \"hush-7-\"\nencoding_aes_key = \"hush-8\"\ncorp_id = \"c\"\n[[chats]]\nid = \"c\"\nwebhook = \"https://x.example/?key=hush-9\"\n[[chats]]\nid = \"d\"\nwebhook = \"hush 10\"\n";
    let second = "kind = \"json\"\ntoken = \"hush-11\"\nauth = { type = \"hmac\", secret = \"hush-12\" }\n[mention]\naction = { type = \"http\", url = \"hush-13\", secret = [\"hush-14\"] }\n";
    let third = "kind = \"json\"\nauth = hush-15\n";
    let faults = Folder::new().gateway(gateway).app("first", first).app("second", second).app("third", third).faults();
    let told = format!("{faults}\n{faults:?}");
    assert!(faults.iter().count() >= 13, "{told}");
    assert!(!told.contains("hush") && !told.contains("ops-secret"), "{told}");
}

#[test]
fn the_configuration_in_the_repository_loads_as_it_stands() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let settings = super::load_with(&root.join("config/gateway.toml"), &|_| None).unwrap();
    assert!(!settings.apps.is_empty());
}

#[test]
fn app_files_load_without_their_gateway() {
    let chat = |id: &str, key: &str| {
        format!("[[chats]]\nid = \"{id}\"\nwebhook = \"http://127.0.0.1:9800/cgi-bin/webhook/send?key={key}\"\n")
    };
    let folder = Folder::new().app("one", &robot(&chat("c1", "k1"))).app("two", &robot(&chat("c2", "k1")));
    let (one, two) = (folder.path("apps/one.toml"), folder.path("apps/two.toml"));
    let apps = load_apps(std::slice::from_ref(&one)).unwrap();
    assert_eq!((apps[0].id.as_str(), apps[0].chats["c1"].webhook().is_some()), ("one", true));
    let faults = load_apps(&[one, two]).unwrap_err();
    assert!(blames(&faults, "apps/two.toml", "chats[0].webhook", &["has the webhook of"]), "{faults}");
}

#[test]
fn only_what_may_hold_a_secret_is_hidden() {
    let rules = "[[commands]]\nname = \"hours\"\naction = { type = \"reply\", text = \"九点到六点\" }\n\
                 [[bindings]]\npattern = '我是(?P<user>u-\\d+)'\n\
                 [[commands]]\nname = \"q\"\naction = { type = \"http\", url = \"http://crm:9000/?key=hush\", secret = \"hush\" }\n";
    let settings = Folder::new().app("a", &robot(rules)).settings();
    let shown = &settings.files["apps/a.toml"].shown;
    assert!(
        shown.contains("九点到六点") && shown.contains("我是(?P<user>") && shown.contains("http://crm:9000/***"),
        "{shown}"
    );
    assert!(!shown.contains("hush") && !shown.contains("Token1"), "{shown}");
}
