//! What is sound, but lets strangers in or leads replies to nobody: told by `check` as hints, and by `serve` as warnings at each
//! start. Samples of published files may stay while somebody tries them out, so they are no faults.

use std::sync::LazyLock;

use crate::config::Settings;
use crate::config::settings::{App, AppKind, JsonAuth};
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

/// One sentence each, which names the app.
pub(super) fn open(settings: &Settings) -> Vec<String> {
    settings.apps.values().flat_map(|app| of_app(app)).collect()
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
    door.into_iter().chain(samples).collect()
}

fn is_sample(crypto: &CallbackCrypto) -> bool {
    SAMPLE.as_ref().is_some_and(|sample| crypto.shares_a_secret_with(sample))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load_apps;

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
        assert_eq!(auth("type = \"header\", name = \"X-Token\", value = \"v\""), [""; 0]);
    }
}
