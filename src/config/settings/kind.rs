//! What posts an app's callbacks, and how it is trusted.

use crate::model::Secret;
use crate::wecom::crypto::CallbackCrypto;

/// What posts an app's callbacks.
#[derive(Clone, Debug)]
pub enum AppKind {
    /// A self-built app: XML, answered by the API.
    App(CallbackCrypto),
    /// A group robot.
    GroupRobot(CallbackCrypto),
    /// A smart robot (智能机器人), URL mode.
    Aibot(CallbackCrypto),
    /// A plain JSON webhook.
    Json(JsonAuth),
}

impl AppKind {
    /// Whether of a group's texts only those come in that mention the bot: WeCom keeps the others from robots. A self-built app
    /// hears no groups, and a JSON webhook hears whatever its poster posts.
    pub fn hears_mentions_alone(&self) -> bool {
        match self {
            Self::GroupRobot(_) | Self::Aibot(_) => true,
            Self::App(_) | Self::Json(_) => false,
        }
    }
}

/// Who may post to a `json` app.
#[derive(Clone, Debug)]
pub enum JsonAuth {
    /// A header with a fixed value.
    Header {
        /// Header name.
        name: String,
        /// Its value.
        value: Secret,
    },
    /// A header with the hex HMAC-SHA256 of the body (an optional `sha256=` in front).
    HmacSha256 {
        /// Header name.
        header: String,
        /// The key.
        secret: Secret,
    },
    /// Anybody; only accepted on a loopback listener.
    None,
}
