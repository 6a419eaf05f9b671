//! What is sound, but lets strangers in or leads replies or spans to nobody: told by `check` as hints, and by `serve` as warnings at each
//! start. Samples of published files may stay while somebody tries them out, so they are no faults.

use std::sync::LazyLock;

use url::Url;

use crate::config::Settings;
use crate::config::of_short;
use crate::config::settings::{Action, App, AppKind, HttpAction, JsonAuth};
use crate::model::Secret;
use crate::wecom::crypto::{CallbackCrypto, ReceiveId};

/// What `config/apps/support.toml` holds, which everybody can read.
const SAMPLE_TOKEN: &str = "SampleTokenReplaceMe";
const SAMPLE_KEY: &str = "SampleKeyReplaceMeSampleKeyReplaceMeSample1";
const SAMPLE_WEBHOOK: &str = "key=00000000-0000-0000-0000-000000000000";

static SAMPLE: LazyLock<Option<CallbackCrypto>> = LazyLock::new(|| {
    let (token, key) = (Secret::new(SAMPLE_TOKEN), Secret::new(SAMPLE_KEY));
    CallbackCrypto::new(token, &key, ReceiveId::Any).ok()
});

/// Where collectors take OTLP over gRPC, which the gateway does not speak.
const GRPC_PORT: u16 = 4317;

/// One sentence each, which names the app, the operators' token, or the key.
pub(super) fn open(settings: &Settings) -> Vec<String> {
    let tokens = settings.admin.tokens.iter().filter_map(|token| {
        Some(format!("the secret of [admin] token {:?} {}.", token.name, of_short(&token.secret)?))
    });
    let otlp = settings.telemetry.as_ref().and_then(|tracing| Url::parse(tracing.otlp.expose()).ok());
    let grpc = otlp.filter(|otlp| otlp.port() == Some(GRPC_PORT)).map(|_| {
        "[telemetry] otlp names port 4317, where collectors commonly take OTLP over gRPC, which is not spoken: spans go by HTTP, \
         commonly to port 4318."
            .to_owned()
    });
    tokens.chain(grpc).chain(settings.apps.values().flat_map(|app| of_app(app))).collect()
}

fn of_app(app: &App) -> Vec<String> {
    let door = match &app.kind {
        AppKind::App(crypto) | AppKind::GroupRobot(crypto) | AppKind::Aibot(crypto) => is_sample(crypto)
            .then_some("token or encoding_aes_key is the published sample, so that anybody may write as anybody: put WeCom's own there"),
        AppKind::Json(JsonAuth::None) => Some(
            "auth is \"none\", so that anybody who can reach its callback path (also through a reverse proxy on this machine) may \
             write as anybody: require a header or a signature",
        ),
        AppKind::Json(JsonAuth::Header { .. } | JsonAuth::HmacSha256 { .. }) => None,
    };
    let door = door.map(|door| format!("app {:?}: {door}.", app.id));
    let samples = app
        .chats
        .values()
        .filter(|chat| chat.webhook().is_some_and(|webhook| webhook.url.expose().contains(SAMPLE_WEBHOOK)));
    let samples = samples.map(|chat| {
        let mend = "put the webhook of the chat's robot there";
        format!(
            "app {:?}: the webhook of chat {:?} is the published sample, so that its replies arrive nowhere: {mend}.",
            app.id, chat.id
        )
    });
    door.into_iter().chain(samples).chain(of_secrets(app)).collect()
}

/// What the app and services of the team's own know each other by.
fn of_secrets(app: &App) -> Vec<String> {
    let theirs = match &app.kind {
        AppKind::Json(JsonAuth::Header { value, .. }) => Some(("value of auth", value)),
        AppKind::Json(JsonAuth::HmacSha256 { secret, .. }) => Some(("secret of auth", secret)),
        AppKind::Json(JsonAuth::None) | AppKind::App(_) | AppKind::GroupRobot(_) | AppKind::Aibot(_) => None,
    };
    let theirs = theirs.and_then(|(what, secret)| Some(format!("app {:?}: the {what} {}.", app.id, of_short(secret)?)));
    let ours = app.rules.actions().find_map(|action| match action {
        Action::Http(HttpAction { secret, .. }) => of_short(secret.as_ref()?),
        Action::Reply { .. } | Action::Help | Action::Llm(_) => None,
    });
    let ours = ours.map(|said| format!("app {:?}: the secret of an http action {said}.", app.id));
    theirs.into_iter().chain(ours).collect()
}

fn is_sample(crypto: &CallbackCrypto) -> bool {
    SAMPLE.as_ref().is_some_and(|sample| crypto.shares_a_secret_with(sample))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_apps;

    const LONG: &str = "a-secret-of-length";
    const OWN_KEY: &str = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C";

    fn told(text: &str) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, text).unwrap();
        of_app(&load_apps(&[file]).unwrap()[0])
    }

    fn robot(token: &str, key: &str) -> Vec<String> {
        told(&format!("kind = \"group_robot\"\ntoken = \"{token}\"\nencoding_aes_key = \"{key}\"\n"))
    }

    #[test]
    fn the_published_file_as_it_stands_is_told_of() {
        let told = told(include_str!("../../config/apps/support.toml"));
        assert!(told.len() == 2, "{told:?}");
        assert!(told[0].starts_with("app \"a\": token or encoding_aes_key is the published sample"), "{told:?}");
        assert!(told[1].contains("chat \"wrSampleChatReplaceMe\" is the published sample"), "{told:?}");
    }

    #[test]
    fn each_sample_is_told_of_alone_and_own_secrets_are_not() {
        assert_eq!(robot(SAMPLE_TOKEN, OWN_KEY).len(), 1);
        assert_eq!(robot("Token1", SAMPLE_KEY).len(), 1);
        assert_eq!(robot("Token1", OWN_KEY), [""; 0]);
    }

    #[test]
    fn an_app_that_anybody_may_post_to_is_told_of() {
        let auth = |auth: &str| told(&format!("kind = \"json\"\nauth = {{ {auth} }}\n"));
        let open = auth("type = \"none\"");
        assert!(open.len() == 1 && open[0].contains("through a reverse proxy"), "{open:?}");
        let value = |value: &str| auth(&format!("type = \"header\", name = \"X-Token\", value = \"{value}\""));
        assert_eq!(value(LONG), [""; 0]);
        let short = value("v");
        assert!(short.len() == 1 && short[0].starts_with("app \"a\": the value of auth is shorter"), "{short:?}");
    }

    #[test]
    fn a_collector_at_the_port_of_grpc_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.toml");
        for (port, told) in [(4317, 1), (4318, 0)] {
            std::fs::write(&file, format!("telemetry.otlp = \"http://collector:{port}\"")).unwrap();
            let hints = open(&crate::config::load(&file).unwrap());
            assert!(hints.len() == told && hints.iter().all(|hint| hint.contains("port 4318")), "{hints:?}");
        }
    }

    #[test]
    fn what_can_be_found_by_trying_is_told_of() {
        let action = |secret: &str| {
            let http = format!("{{ type = \"http\", url = \"http://orders:9000/\", secret = \"{secret}\" }}");
            told(&format!(
                "kind = \"group_robot\"\ntoken = \"T\"\nencoding_aes_key = \"{OWN_KEY}\"\n[mention]\naction = {http}\n"
            ))
        };
        assert_eq!(action(LONG), [""; 0]);
        let short = action("hush");
        assert!(short.len() == 1 && short[0].contains("`openssl rand -hex 32`"), "{short:?}");
        assert!(!short[0].contains("hush"), "{short:?}");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.toml");
        let token = |name: &str, secret: &str| {
            format!("[[admin.tokens]]\nname = \"{name}\"\nsecret = \"{secret}\"\nscope = \"read\"\n")
        };
        std::fs::write(&file, token("ops", "t0ken") + &token("bi", LONG)).unwrap();
        let short = open(&crate::config::load(&file).unwrap());
        assert!(
            short.len() == 1 && short[0].starts_with("the secret of [admin] token \"ops\" is shorter"),
            "{short:?}"
        );
    }
}
