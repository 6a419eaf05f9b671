//! The questions themselves, of contacts and customer groups.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::config::settings::Api;
use crate::externalcontact::{ExternalContact, Refusal};

/// What WeCom tells of a person.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    /// Their id, which is their sender_key.
    pub id: String,
    pub name: Option<String>,
    /// How the first colleague who follows them calls them.
    pub remark: Option<String>,
    pub phone: Option<String>,
}

/// What WeCom tells of a customer group.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Group {
    pub name: Option<String>,
    pub members: Vec<Person>,
}

/// Asks WeCom.
pub(super) struct Asker(Arc<ExternalContact>);

impl Asker {
    pub fn new(wecom: Arc<ExternalContact>) -> Self {
        Self(wecom)
    }

    /// `externalcontact/get`
    pub async fn contact(&self, api: &Arc<Api>, external_userid: &str) -> Result<Person, Refusal> {
        let answer = self.0.get(api, "get", &[("external_userid", external_userid)]).await?;
        let text = |value: &Value| value.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        let followers = || answer["follow_user"].as_array().into_iter().flatten();
        let name = text(&answer["external_contact"]["name"]);
        let remark = followers().find_map(|follower| text(&follower["remark"]));
        let phone = followers().find_map(|follower| text(&follower["remark_mobiles"][0]));
        Ok(Person { id: external_userid.to_owned(), name, remark, phone })
    }

    /// `externalcontact/groupchat/get`
    pub async fn group(&self, api: &Arc<Api>, chat_id: &str) -> Result<Group, Refusal> {
        let answer = self.0.post(api, "groupchat/get", &json!({"chat_id": chat_id, "need_name": 1})).await?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let group = &answer["group_chat"];
        let members = group["member_list"].as_array().into_iter().flatten().filter_map(|member| {
            Some(Person { id: text(&member["userid"])?, name: text(&member["name"]), ..Person::default() })
        });
        Ok(Group { name: text(&group["name"]), members: members.collect() })
    }
}
