//! Faults of app files but for their rules: kinds and what belongs to them, keys, chats, webhooks.

use std::time::Duration;

use super::{AES_KEY, Folder, blames, each_app_fault, json, robot};
use crate::config::settings::{self, AppKind, ChatWay, JsonAuth, OnUnknown, SessionScope};

const HOOK: &str = "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=";

fn with_key(key: &str) -> String {
    format!("kind = \"aibot\"\ntoken = \"Token1\"\nencoding_aes_key = \"{key}\"")
}

#[test]
fn a_kind_is_needed_and_brings_its_own_keys() {
    each_app_fault(&[
        (String::new(), "kind", &["missing", "\"app\", \"group_robot\", \"aibot\", \"json\""]),
        ("kind = \"group-robot\"\ntoken = \"x\"".into(), "kind", &["did you mean \"group_robot\"", "\"aibot\""]),
        (robot("corp_id = \"ww1\""), "corp_id", &["belongs to kind \"app\"", "\"group_robot\"", "remove"]),
        (robot("[gateway]\nurl = \"http://g\""), "gateway", &["belongs to kind \"json\""]),
        (robot("auth = { type = \"none\" }"), "auth", &["belongs to kind \"json\""]),
        (json("token = \"T1\""), "token", &["belongs to kind \"app\", \"group_robot\", \"aibot\"", "\"json\""]),
        (with_key(AES_KEY) + "\nsecret = \"s\"", "secret", &["belongs to kind \"app\""]),
        (robot("on_unknown = \"drop\""), "on_unknown", &["\"hold\", \"retry\""]),
        (robot("on_unknown = \"retry\""), "on_unknown", &["knows a repeat", "\"hold\""]),
        (with_key(AES_KEY) + "\non_unknown = \"retry\"", "on_unknown", &["response_url"]),
        (robot("[store]\npath = \"x\""), "store", &["whole process", "gateway.toml"]),
        (robot("receive_ids = \"x\""), "receive_ids", &["did you mean \"receive_id\""]),
    ]);
}

#[test]
fn keys_are_taken_as_they_are_pasted_and_refused_when_they_cannot_be_right() {
    let [short, long, alien] = [&AES_KEY[..42], &format!("{AES_KEY}A"), &format!("{}*", &AES_KEY[..42])];
    each_app_fault(&[
        (with_key(short), "encoding_aes_key", &["42", "43 characters again"]),
        (with_key(long), "encoding_aes_key", &["44", "43 characters again"]),
        (with_key(alien), "encoding_aes_key", &["base64", "43 characters again"]),
        (with_key(""), "encoding_aes_key", &["empty"]),
        ("kind = \"aibot\"\ntoken = \"Token1\"".into(), "encoding_aes_key", &["missing", "43 characters"]),
        (format!("kind = \"aibot\"\nencoding_aes_key = \"{AES_KEY}\""), "token", &["missing", "${NAME}"]),
    ]);
    for pasted in [AES_KEY.to_owned(), format!(" {AES_KEY}\\n"), format!("{AES_KEY}="), format!("{AES_KEY}= ")] {
        Folder::new().app("a", &with_key(&pasted)).settings();
    }
}

#[test]
fn tokens_are_1_to_32_letters_or_digits() {
    let with = |token: &str| format!("kind = \"group_robot\"\nencoding_aes_key = \"{AES_KEY}\"\ntoken = \"{token}\"");
    each_app_fault(&[
        (with(""), "token", &["0 characters", "1 to 32"]),
        (with(&"x".repeat(33)), "token", &["33 characters", "1 to 32"]),
        (with("abc "), "token", &["no letter or digit", "blank"]),
    ]);
    Folder::new().app("a", &with(&"x".repeat(32))).settings();
}

#[test]
fn a_faulty_token_does_not_hide_a_faulty_key() {
    let faults = Folder::new().app("a", "kind = \"app\"\ntoken = \"a b\"\nencoding_aes_key = \"short\"").faults();
    assert!(blames(&faults, "a.toml", "token", &[]) && blames(&faults, "a.toml", "encoding_aes_key", &[]), "{faults}");
}

#[test]
fn the_receive_id_is_exact_or_not_checked_and_an_app_has_its_corp_id() {
    let kind = |more: &str| {
        let text = format!("kind = \"app\"\ntoken = \"T\"\nencoding_aes_key = \"{AES_KEY}\"\n{more}");
        format!("{:?}", Folder::new().app("a", &text).settings().apps["a"].kind)
    };
    let api = "corp_id = \"ww1\"\nagent_id = 7\nsecret = \"s\"\n";
    assert!(kind("receive_id = \"*\"").contains("Any"));
    assert!(kind("receive_id = \"ww2\"").contains("Exactly(\"ww2\")"));
    assert!(kind(api).contains("Exactly(\"ww1\")"));
    assert!(kind(&format!("{api}receive_id = \"\"")).contains("Exactly(\"\")"));
    let app = |more: &str| format!("kind = \"app\"\ntoken = \"T\"\nencoding_aes_key = \"{AES_KEY}\"\n{more}");
    each_app_fault(&[
        (app(""), "receive_id", &["corp_id", "企业 ID"]),
        (app("receive_id = 7"), "receive_id", &["a string"]),
    ]);
}

#[test]
fn the_api_side_of_an_app_is_whole_or_absent() {
    let app = |more: &str| {
        format!("kind = \"app\"\ntoken = \"T\"\nencoding_aes_key = \"{AES_KEY}\"\nreceive_id = \"ww1\"\n{more}")
    };
    each_app_fault(&[
        (app("corp_id = \"ww1\"\nagent_id = 1"), "secret", &["missing", "needed together"]),
        (app("corp_id = \"ww1\"\nsecret = \"s\""), "agent_id", &["missing", "needed together"]),
        (app("agent_id = 1\nsecret = \"s\""), "corp_id", &["missing", "needed together"]),
    ]);
}

#[test]
fn every_way_out_has_what_it_needs() {
    let app = |more: &str| {
        format!("kind = \"app\"\ntoken = \"T\"\nencoding_aes_key = \"{AES_KEY}\"\nreceive_id = \"ww1\"\n{more}")
    };
    let api = "corp_id = \"ww1\"\nagent_id = 7\nsecret = \"s3cret\"\non_unknown = \"retry\"\n";
    let group = "[[chats]]\nid = \"c\"\nappchat = true\n";
    each_app_fault(&[
        (app(group), "chats[0].appchat", &["corp_id, agent_id and secret"]),
        (app(&format!("{api}{group}webhook = \"k\"")), "chats[0].appchat", &["beside a webhook"]),
        (app(&format!("corp_id = \"ww1\"\nagent_id = 7\n{group}")), "secret", &["needed together"]),
        (app("agent_id = \"7\"\ncorp_id = \"ww1\"\nsecret = \"s\""), "agent_id", &["a string"]),
        (app("on_unknown = \"resend\""), "on_unknown", &["\"hold\", \"retry\""]),
        (json(group), "chats[0].appchat", &["only for kind \"app\""]),
        (json("[gateway]\nurl = \"http://g/\"\nclient_msg_id_window = \"0s\""), "gateway.client_msg_id_window", &[]),
    ]);
    let settings = Folder::new()
        .app("a", &app(&format!("{api}{group}")))
        .app("bare", &app(""))
        .app("g", &json("[gateway]\nurl = \"http://g/send?k=1\"\ninstance_guid = \"i\""))
        .settings();
    let app = &settings.apps["a"];
    let api = app.api.as_ref().unwrap();
    assert_eq!((api.corp_id.as_str(), api.agent_id, api.secret.expose()), ("ww1", 7, "s3cret"));
    assert_eq!(app.on_unknown, OnUnknown::Retry);
    assert!(matches!(&app.chats["c"].way, Some(ChatWay::AppChat(way)) if way == api), "{:?}", app.chats["c"]);
    let bare = &settings.apps["bare"];
    assert!(bare.api.is_none() && bare.on_unknown == OnUnknown::Hold, "it still takes callbacks");
    let gateway = settings.apps["g"].gateway.as_ref().unwrap();
    assert_eq!((gateway.url.expose(), gateway.instance_guid.as_deref()), ("http://g/send?k=1", Some("i")));
    assert_eq!(gateway.client_msg_id_window, Duration::from_secs(600));
    assert!(!format!("{settings:?}").contains("s3cret") && !format!("{settings:?}").contains("k=1"));
}

#[test]
fn who_may_post_json_is_said() {
    let auth = |auth: &str| format!("kind = \"json\"\nauth = {auth}");
    each_app_fault(&[
        ("kind = \"json\"".into(), "auth", &["missing", "header"]),
        (auth("{}"), "auth.type", &["missing", "\"hmac_sha256\""]),
        (auth("{ type = \"basic\", user = \"x\" }"), "auth.type", &["\"header\", \"hmac_sha256\", \"none\""]),
        (auth("{ type = \"header\", value = \"x\" }"), "auth.name", &["missing"]),
        (auth("{ type = \"header\", name = \"X-T\" }"), "auth.value", &["missing", "${NAME}"]),
        (auth("{ type = \"header\", name = \"X T\", value = \"x\" }"), "auth.name", &["no header's name"]),
        (auth("{ type = \"hmac_sha256\", header = \"X-S\" }"), "auth.secret", &["missing"]),
        (auth("{ type = \"none\", name = \"X\" }"), "auth.name", &["unknown"]),
        (json("[gateway]\ninstance_guid = \"i\""), "gateway.url", &["missing"]),
        (json("[gateway]\nurl = \"g\""), "gateway.url", &["no URL"]),
    ]);
    let open =
        Folder::new().gateway("server = { listen = \"0.0.0.0:8080\" }").app("a", &auth("{ type = \"none\" }")).faults();
    assert!(blames(&open, "apps/a.toml", "auth.type", &["anybody", "0.0.0.0:8080", "hmac_sha256"]), "{open}");

    let settings =
        Folder::new().app("a", &auth("{ type = \"hmac_sha256\", header = \"X-Sign\", secret = \"k\" }")).settings();
    assert!(
        matches!(&settings.apps["a"].kind, AppKind::Json(JsonAuth::HmacSha256 { header, .. }) if header == "x-sign")
    );
    assert_eq!(settings.apps["a"].dedup_ttl, Duration::from_secs(86_400));
}

#[test]
fn webhooks() {
    let chat = |webhook: &str| robot(&format!("[[chats]]\nid = \"c\"\nwebhook = \"{webhook}\""));
    each_app_fault(&[
        (chat("https://evil.example/send?key=k"), "chats[0].webhook", &["webhook", "evil.example", "webhook_hosts"]),
        (chat("http://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k"), "chats[0].webhook", &["webhook", "https://"]),
        (chat("https://qyapi.weixin.qq.com/cgi-bin/webhook/send"), "chats[0].webhook", &["webhook", "key"]),
        (chat(HOOK), "chats[0].webhook", &["webhook", "key"]),
        (chat("qyapi.weixin.qq.com/cgi-bin/webhook/send?key=k"), "chats[0].webhook", &["webhook", "bare key"]),
        (chat("https://"), "chats[0].webhook", &["no URL"]),
        (
            chat(&HOOK.replace("send", "upload_media")),
            "chats[0].webhook",
            &["no webhook", "/cgi-bin/webhook/send?key=…"],
        ),
        (chat("https://qyapi.weixin.qq.com/?key=k"), "chats[0].webhook", &["no webhook"]),
        (chat(" "), "chats[0].webhook", &["bare key"]),
    ]);
}

#[test]
fn a_bare_key_a_full_url_and_blanks_are_the_same_route() {
    let route = |webhook: &str| {
        let text = robot(&format!("[[chats]]\nid = \"c\"\nwebhook = \"{webhook}\""));
        Folder::new().app("a", &text).settings().apps["a"].chats["c"].webhook().unwrap().clone()
    };
    let [full, bare, blank] = [route(&format!("{HOOK}k-1_A")), route("k-1_A"), route(&format!(" {HOOK}k-1_A\\n"))];
    assert_eq!(full.url.expose(), format!("{HOOK}k-1_A"));
    assert_eq!([&full.url, &full.url], [&bare.url, &blank.url]);
    assert_eq!([&full.digest, &full.digest], [&bare.digest, &blank.digest]);
    assert_ne!(full.digest, route("k-2").digest);
}

#[test]
fn a_bare_key_goes_where_the_api_is_and_loopback_needs_no_tls() {
    let gateway = "wecom = { api_base = \"http://127.0.0.1:7000/wx/\", webhook_hosts = [\"127.0.0.1\"] }";
    let settings = Folder::new().gateway(gateway).app("a", &robot("[[chats]]\nid = \"c\"\nwebhook = \"k\"")).settings();
    let webhook = settings.apps["a"].chats["c"].webhook().unwrap();
    assert_eq!(webhook.url.expose(), "http://127.0.0.1:7000/wx/cgi-bin/webhook/send?key=k");
}

#[test]
fn hosts_of_a_teams_own_may_have_paths_of_their_own() {
    let gateway = "wecom = { webhook_hosts = [\"proxy.example\"] }";
    let app = robot("[[chats]]\nid = \"c\"\nwebhook = \"https://proxy.example/robots/1?key=k\"");
    Folder::new().gateway(gateway).app("a", &app).settings();
}

#[test]
fn a_faulty_api_base_makes_no_fault_of_the_bare_keys_that_it_completes() {
    let bare = robot("[[chats]]\nid = \"c\"\nwebhook = \"k\"");
    for (base, word) in [("http://10.0.0.5", "loopback"), ("https://qyapi.weixin.qq.com/cgi-bin/", "a path")] {
        let gateway =
            format!("wecom = {{ api_base = \"{base}\", webhook_hosts = [\"10.0.0.5\", \"qyapi.weixin.qq.com\"] }}");
        let faults = Folder::new().gateway(&gateway).app("a", &bare).faults();
        assert!(blames(&faults, "gateway.toml", "wecom.api_base", &[word, "write"]), "{faults}");
        assert_eq!(faults.iter().count(), 1, "{faults}");
    }
}

#[test]
fn a_bots_name_sheds_the_sign_it_was_copied_with() {
    let app = robot("bot_names = [\"@小助手\", \" ＠Robot A\", \"a@b\"]\n[mention]\naction = { type = \"help\" }");
    let app = Folder::new().app("a", &app).settings().apps["a"].clone();
    assert_eq!(app.bot_names, ["小助手", "Robot A", "a@b"]);
}

#[test]
fn a_webhook_belongs_to_one_chat_of_one_app() {
    let chats = |first: &str, hook: &str| {
        robot(&format!(
            "[[chats]]\nid = \"{first}\"\nwebhook = \"{HOOK}{first}\"\n[[chats]]\nid = \"{first}2\"\nwebhook = \"{hook}\""
        ))
    };
    // Within an app, by its bare key.
    let faults = Folder::new().app("a", &chats("one", "one")).faults();
    assert!(
        blames(&faults, "apps/a.toml", "chats[1].webhook", &["webhook", "\"one\"", "\"one2\"", "its own"]),
        "{faults}"
    );
    // Over two apps, with another parameter beside it: both chats and both files are named.
    let faults =
        Folder::new().app("a", &chats("one", "k1")).app("b", &chats("two", &format!("{HOOK}k1&debug=1"))).faults();
    assert!(
        blames(
            &faults,
            "apps/b.toml",
            "chats[1].webhook",
            &["webhook", "\"one2\"", "apps/a.toml", "\"two2\"", "apps/b.toml"]
        ),
        "{faults}"
    );
    assert_eq!(faults.iter().count(), 1, "{faults}");
    Folder::new().app("a", &chats("one", "k1")).app("b", &chats("two", "k2")).settings();
}

#[test]
fn chats() {
    let chat = |more: &str| robot(&format!("[[chats]]\nid = \"c\"\n{more}"));
    each_app_fault(&[
        (robot("[[chats]]\nwebhook = \"k\""), "chats[0].id", &["missing"]),
        (chat("[[chats]]\nid = \"c\""), "chats[1].id", &["\"c\"", "chats[0].id"]),
        (chat("weight = 0"), "chats[0].weight", &["1 to 100"]),
        (chat("weight = 101"), "chats[0].weight", &["1 to 100"]),
        (chat("pace = \"20\""), "chats[0].pace", &["\"20\"", "20/min"]),
        (chat("pace = \"0/min\""), "chats[0].pace", &["never send: write at least \"1/h\""]),
        (robot("[[chats]]\nid = \"\"\nname = \"n\"\nweight = 1\npace = \"1/s\""), "chats[0].id", &["empty"]),
        (robot("bot_names = [\"小助手\", \"＠ \"]"), "bot_names[1]", &["no name", "without \"@\""]),
        (chat("appchat = true"), "chats[0].appchat", &["only for kind \"app\"", "webhook"]),
        (robot("[chats_default]\npace = \"fast\""), "chats_default.pace", &["\"fast\"", "20/min"]),
        (robot("chats = [\"c\"]"), "chats[0]", &["a table"]),
        (robot("bot_names = \"bot\""), "bot_names", &["an array"]),
        (robot("[fields]\nchat_id = [\"\"]"), "fields.chat_id[0]", &["empty"]),
        (robot("[fields]\nchatid = [\"x\"]"), "fields.chatid", &["did you mean \"chat_id\""]),
    ]);
    let text = robot(
        "[chats_default]\npace = \"5/s\"\ncoalesce = false\n[[chats]]\nid = \"a\"\n[[chats]]\nid = \"b\"\npace = \"100/h\"\nweight = 100\nname = \"VIP 群\"\ncoalesce = true",
    );
    let app = Folder::new().app("a", &text).settings().apps["a"].clone();
    assert_eq!((app.pace, app.chats["a"].pace.limit, app.chats["a"].weight), (app.chats["a"].pace, 5, 1));
    assert_eq!((app.chats["a"].coalesce, app.chats["b"].coalesce), (false, true));
    assert_eq!(
        (app.chats["b"].pace.limit, app.chats["b"].weight, app.chats["b"].name.as_deref()),
        (100, 100, Some("VIP 群"))
    );
}

#[test]
fn sessions() {
    each_app_fault(&[
        (robot("session = { scope = \"chat\" }"), "session.scope", &["[workers] order = \"chat\""]),
        (robot("session = { scope = \"group\" }"), "session.scope", &["\"sender\", \"chat\""]),
        (robot("session = { turns = 1 }"), "session.turns", &["from 2 to 1000"]),
        (robot("session = { keep = \"0s\" }"), "session.keep", &["no time at all"]),
        (robot("session = { max_turn = \"2KB\" }"), "session.max_turn", &["no size"]),
        (robot("session = { max_turn = \"0\" }"), "session.max_turn", &["\"0\"", "keeps nothing", "4KiB"]),
        (robot("session = { max_vars = \"0KiB\" }"), "session.max_vars", &["keeps nothing"]),
        (robot("session = { max_vars = \"2MiB\" }"), "session.max_vars", &["at most", "1MiB"]),
    ]);
    let shared =
        Folder::new().gateway("workers = { order = \"chat\" }").app("a", &robot("session = { scope = \"chat\" }"));
    let session = shared.settings().apps["a"].session.clone();
    assert_eq!(session, settings::Session { scope: SessionScope::Chat, ..settings::Session::default() });
    let keys = "session = { turns = 4, keep = \"7d\", max_turn = \"1KiB\", max_vars = \"2KiB\", archive = false }";
    let session = Folder::new().app("a", &robot(keys)).settings().apps["a"].session.clone();
    assert_eq!((session.turns, session.keep.as_secs(), session.max_turn), (4, 7 * 86_400, 1024));
    assert_eq!((session.max_vars, session.archive), (2048, false));
}
