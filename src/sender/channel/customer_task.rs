//! `externalcontact/add_msg_template`: asks a member of the corp to send one message to customers, or into groups of them
//! (developer.work.weixin.qq.com/document/path/92135).
//!
//! WeCom's answer says that the member is asked, not that anybody got anything: what became of it is asked later
//! ([`crate::push::Awaiting`]). It knows no repeat, and a second task would be a second message to each customer, so a request
//! without an answer ends as `unknown`. A customer or group takes one message for each day of the month; who has had theirs
//! is told by the results.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Channel, Wire, api};
use crate::config::settings::Api;
use crate::model::RouteDigest;
use crate::task::{CustomerKind, CustomerSet};
use crate::wecom::message::{CUSTOMER_TASK, Limits};
use crate::wecom::verdict::{ChannelKind, Reply};

/// Customers or their groups, reached by an app that may use 客户联系.
#[derive(Clone)]
pub struct CustomerTask {
    api: Arc<Api>,
    to: CustomerSet,
}

impl std::fmt::Debug for CustomerTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomerTask").field("api", &self.api).field("kind", &self.to.kind).finish()
    }
}

impl CustomerTask {
    /// The way to these.
    pub fn new(api: Arc<Api>, to: CustomerSet) -> Self {
        Self { api, to }
    }

    /// Names it without telling it.
    pub fn digest(&self) -> RouteDigest {
        let Api { corp_id, agent_id, .. } = &*self.api;
        let (list, CustomerSet { ids, sender, .. }) = (self.list(), &self.to);
        let who = format!("{list}\0{}\0{}", sender.as_deref().unwrap_or_default(), ids.join("\0"));
        RouteDigest::of(ChannelKind::CustomerTask.as_str(), &format!("{corp_id}\0{agent_id}\0{who}"))
    }

    /// The request's list of them.
    fn list(&self) -> &'static str {
        match self.to.kind {
            CustomerKind::Customer => "external_userid",
            CustomerKind::Chat => "chat_id_list",
        }
    }
}

#[async_trait]
impl Channel for CustomerTask {
    fn kind(&self) -> ChannelKind {
        ChannelKind::CustomerTask
    }

    fn limits(&self) -> &Limits {
        &CUSTOMER_TASK
    }

    fn body(&self, message: Value, _delivery_id: &str) -> Value {
        let chat_type = match self.to.kind {
            CustomerKind::Customer => "single",
            CustomerKind::Chat => "group",
        };
        let mut body = json!({"chat_type": chat_type, self.list(): self.to.ids});
        if let Some(sender) = &self.to.sender {
            body["sender"] = sender.as_str().into();
        }
        super::extend(&mut body, message);
        body
    }

    async fn send(&self, wire: &Wire, body: &Value) -> Reply {
        api::post(wire, &self.api, "externalcontact/add_msg_template", body).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Secret;

    fn to(kind: CustomerKind, ids: &[&str], sender: Option<&str>) -> CustomerTask {
        let api = Api { corp_id: "ww1".into(), agent_id: 7, secret: Secret::new("s3cret"), ask_contacts: false };
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        CustomerTask::new(Arc::new(api), CustomerSet { kind, ids, sender: sender.map(str::to_owned) })
    }

    #[test]
    fn a_task_is_asked_of_one_member_or_of_whoever_spoke_last() {
        let text = json!({"text": {"content": "hi"}});
        let one = to(CustomerKind::Customer, &["wm1", "wm2"], None).body(text.clone(), "t.0");
        assert_eq!(one, json!({"chat_type": "single", "external_userid": ["wm1", "wm2"], "text": {"content": "hi"}}));
        let groups = to(CustomerKind::Chat, &["wr1"], Some("zhangsan"));
        let body =
            json!({"chat_type": "group", "chat_id_list": ["wr1"], "sender": "zhangsan", "text": {"content": "hi"}});
        assert_eq!(groups.body(text, "t.0"), body);
        assert_eq!(groups.knows_repeats_for(), None, "a repeat would be a second message");
        assert!(!format!("{groups:?}").contains("s3cret") && !format!("{groups:?}").contains("wr1"));
    }

    #[test]
    fn other_recipients_are_another_route() {
        use CustomerKind::{Chat, Customer};
        let digests = [
            to(Customer, &["a"], None),
            to(Customer, &["a"], Some("s")),
            to(Customer, &["a", "b"], None),
            to(Chat, &["a"], Some("s")),
        ]
        .map(|one| one.digest());
        for (n, digest) in digests.iter().enumerate() {
            assert!(!digests[..n].contains(digest), "{n}");
        }
    }
}
