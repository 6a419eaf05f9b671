//! `message/send`: one message to one member of the corp, or to a set of them (developer.work.weixin.qq.com/document/path/90236).
//!
//! WeCom can be told to know a repeat: `enable_duplicate_check` with an interval, within which the same request is not
//! received again. Where a delivery shall be repeated it carries that from its first attempt on. What WeCom allows one member,
//! 30 a minute and 1000 an hour, it does not refuse beyond that but drops without a word, so both must hold here. A set
//! keeps the same pace, because each of its members gets all that it is sent; who is in several sets is not counted over them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Channel, Wire, api};
use crate::config::settings::{Api, OnUnknown};
use crate::model::RouteDigest;
use crate::store::Pace;
use crate::task::MemberSet;
use crate::wecom::message::{APP_MESSAGE, Limits};
use crate::wecom::verdict::{ChannelKind, Reply};

/// How long a reply may be repeated: WeCom's own default for its duplicate check.
const REPLY_KNOWN_FOR: Duration = Duration::from_secs(1800);
/// How long a push may be, which may wait for its turn first: near the longest that WeCom takes, 4 hours.
const PUSH_KNOWN_FOR: Duration = Duration::from_secs(3 * 3600);
/// How much longer than that it is asked to check at least: a repeat that is begun in time is written a little later.
const SLACK: Duration = Duration::from_secs(60);
/// The longest interval that WeCom takes.
const MOST_INTERVAL: Duration = Duration::from_secs(4 * 3600);
/// 960 an hour: one window that keeps both of WeCom's.
const MOST: Pace = Pace { limit: 16, window: Duration::from_secs(60) };

/// Members, reached by an app.
#[derive(Clone)]
pub struct AppMessage {
    api: Arc<Api>,
    to: MemberSet,
    /// `None`: a delivery is not repeated.
    known_for: Option<Duration>,
}

impl std::fmt::Debug for AppMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppMessage").field("api", &self.api).field("known_for", &self.known_for).finish()
    }
}

impl AppMessage {
    /// The way to `member`; none where that could be read as several members, or all of them.
    pub fn new(api: Arc<Api>, member: &str, on_unknown: OnUnknown) -> Option<Self> {
        let is_one = !member.is_empty() && !member.contains('|') && !member.starts_with('@');
        let to = MemberSet { users: vec![member.to_owned()], ..MemberSet::default() };
        is_one.then(|| Self { api, to, known_for: (on_unknown == OnUnknown::Retry).then_some(REPLY_KNOWN_FOR) })
    }

    /// The way to a set that its sender named as one.
    pub fn to_set(api: Arc<Api>, to: MemberSet, on_unknown: OnUnknown) -> Self {
        Self { api, to, known_for: (on_unknown == OnUnknown::Retry).then_some(PUSH_KNOWN_FOR) }
    }

    /// Names it without telling it.
    pub fn digest(&self) -> RouteDigest {
        let Api { corp_id, agent_id, .. } = &*self.api;
        let who = match self.addressed() {
            [("touser", one), ("toparty", parties), ("totag", tags)] if parties.is_empty() && tags.is_empty() => one,
            lists => lists.map(|(_, list)| list).join("\0"),
        };
        RouteDigest::of(ChannelKind::AppMessage.as_str(), &format!("{corp_id}\0{agent_id}\0{who}"))
    }

    /// The set as requests name it.
    fn addressed(&self) -> [(&'static str, String); 3] {
        let MemberSet { users, parties, tags } = &self.to;
        [("touser", users), ("toparty", parties), ("totag", tags)].map(|(name, list)| (name, list.join("|")))
    }
}

/// The interval of a delivery's duplicate check, in seconds. It differs from delivery to delivery, so that two of the
/// same words are two requests to WeCom, which compares them whole. They differ as far as WeCom lets them, which is by 12,541 values
/// for replies and 3541 for pushes: two that meet by chance are taken for one another's repeat.
fn interval(known_for: Duration, delivery_id: &str) -> u64 {
    let digest = Sha256::digest(delivery_id);
    let least = known_for + SLACK;
    let values = MOST_INTERVAL.saturating_sub(least).as_secs() + 1;
    least.as_secs() + u64::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])) % values
}

#[async_trait]
impl Channel for AppMessage {
    fn kind(&self) -> ChannelKind {
        ChannelKind::AppMessage
    }

    fn limits(&self) -> &Limits {
        &APP_MESSAGE
    }

    fn body(&self, message: Value, delivery_id: &str) -> Value {
        let mut body = json!({});
        for (name, list) in self.addressed().into_iter().filter(|(_, list)| !list.is_empty()) {
            body[name] = list.into();
        }
        body["agentid"] = self.api.agent_id.into();
        super::extend(&mut body, message);
        if let Some(known_for) = self.known_for {
            body["enable_duplicate_check"] = 1.into();
            body["duplicate_check_interval"] = interval(known_for, delivery_id).into();
        }
        body
    }

    fn knows_repeats_for(&self) -> Option<Duration> {
        self.known_for
    }

    fn most(&self) -> Option<Pace> {
        Some(MOST)
    }

    async fn send(&self, wire: &Wire, body: &Value) -> Reply {
        api::post(wire, &self.api, "message/send", body).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;
    use crate::wecom::message::text;

    fn to(member: &str, on_unknown: OnUnknown) -> Option<AppMessage> {
        let api = Api { corp_id: "ww1".into(), agent_id: 7, secret: Secret::new("s3cret"), ask_contacts: false };
        AppMessage::new(Arc::new(api), member, on_unknown)
    }

    #[test]
    fn nobody_is_taken_for_everybody() {
        for member in ["@all", "@ALL", "u1|u2", "|", ""] {
            assert!(to(member, OnUnknown::Hold).is_none(), "{member:?}");
        }
        let one = to("u1", OnUnknown::Hold).unwrap();
        let body = json!({"touser": "u1", "agentid": 7, "msgtype": "text", "text": {"content": "hi"}});
        assert_eq!(one.body(text("hi"), "r.0"), body);
        assert_eq!(one.knows_repeats_for(), None);
        assert!(!format!("{one:?}").contains("s3cret"));
    }

    #[test]
    fn a_repeat_is_the_same_bytes_and_equal_words_are_not() {
        let one = to("u1", OnUnknown::Retry).unwrap();
        let body = |id: &str| one.body(text("ok"), id);
        assert_eq!(body("r1.0"), body("r1.0"));
        assert_ne!(body("r1.0"), body("r2.0"));
        let intervals = (0..1000).map(|n| body(&format!("r{n}.0"))["duplicate_check_interval"].as_u64().unwrap());
        let intervals: std::collections::BTreeSet<u64> = intervals.collect();
        assert!(intervals.iter().all(|interval| (1801..=14400).contains(interval)), "{intervals:?}");
        assert!(intervals.len() > 900 && intervals.last() > Some(&14000), "spread over all of it: {}", intervals.len());
        assert_eq!(body("r1.0")["enable_duplicate_check"], 1);
    }

    #[test]
    fn a_set_is_addressed_as_one_and_known_by_what_it_names() {
        let api = Arc::new(to("u1", OnUnknown::Hold).unwrap().api.as_ref().clone());
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let set = |users, parties, tags| {
            let set = MemberSet { users: list(users), parties: list(parties), tags: list(tags) };
            AppMessage::to_set(api.clone(), set, OnUnknown::Retry)
        };
        let body = set("a b", "", "7").body(text("hi"), "t.0");
        assert_eq!((&body["touser"], &body["totag"], body.get("toparty")), (&json!("a|b"), &json!("7"), None));
        let interval = body["duplicate_check_interval"].as_u64().unwrap();
        assert!((3 * 3600 + 1..=14400).contains(&interval), "{interval}");
        let digests = [set("a b", "", ""), set("a", "b", ""), set("a", "", "b"), set("", "a", "b"), set("a", "", "")];
        for (n, one) in digests.iter().enumerate() {
            assert!(digests[..n].iter().all(|other| other.digest() != one.digest()), "{:?}", one.to);
        }
        // A member alone is the same member, whoever they are sent to by.
        assert_eq!(set("u1", "", "").digest(), to("u1", OnUnknown::Hold).unwrap().digest());
    }

    #[test]
    fn members_and_apps_have_routes_of_their_own() {
        let digest = |member| to(member, OnUnknown::Hold).unwrap().digest();
        assert_eq!(digest("u1"), digest("u1"));
        assert_ne!(digest("u1"), digest("u2"));
    }
}
