//! A task's JSON as the API describes it. Tasks are read by hand, so that a fault names its field; so they are described by hand too, with
//! the reader's own fields and bounds.

use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, SchemaFormat, Type,
};
use utoipa::openapi::{Object, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::read::{FIELDS, MOST_ID};
use super::target::{MOST_CHAT_ID, MOST_CHATS, MOST_CUSTOMERS, MOST_MEMBER_ID, MOST_OF, SENDER};
use super::task::Task;

impl ToSchema for Task {
    fn name() -> std::borrow::Cow<'static, str> {
        "PushTask".into()
    }
}

impl PartialSchema for Task {
    fn schema() -> RefOr<Schema> {
        let task = FIELDS.into_iter().fold(closed(), |task, name| task.property(name, field(name)));
        let task = ["app", "target", "message"].into_iter().fold(task, ObjectBuilder::required);
        task.description(Some("What goes out with no message before it.")).into()
    }
}

/// The schema of a field of a task.
fn field(name: &str) -> RefOr<Schema> {
    let time = || text().format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)));
    let (schema, what) = match name {
        "task_id" => (label(), "Names it over all apps; derived from what it says where it is not there."),
        "type" => (label(), "The producer's own word for what it is, for trails."),
        "created_at" => (time(), "Needed where there is no `task_id`."),
        "app" => (text(), "The app that sends it."),
        "target" => return target().into(),
        "message" => (
            ObjectBuilder::new().schema_type(Type::Object),
            "WeCom's own message JSON: `msgtype` and that one body; to customers a `text` and `attachments`.",
        ),
        "expires_at" => (time(), "Not sent after this."),
        _ => (
            text().enum_values(Some(["retry", "hold"])),
            "What happens where nobody knows whether it arrived: it is repeated where that is safe, or waits for a person.",
        ),
    };
    schema.description(Some(what)).into()
}

/// To whom: one of four forms.
fn target() -> OneOfBuilder {
    let chats = closed().property("chats", ids(MOST_CHATS, MOST_CHAT_ID)).required("chats");
    let members =
        MOST_OF.into_iter().fold(closed(), |members, (name, most)| members.property(name, ids(most, MOST_MEMBER_ID)));
    let forms = OneOfBuilder::new()
        .description(Some("To whom: a chat, chats, members of the corp, customers or their groups."))
        .item(closed().property("chat", bounded(MOST_CHAT_ID)).required("chat"))
        .item(chats)
        .item(members.min_properties(Some(1)));
    MOST_CUSTOMERS.into_iter().fold(forms, |forms, (name, _, most)| {
        let form = closed().property(name, ids(most, MOST_CHAT_ID)).property(SENDER, bounded(MOST_MEMBER_ID));
        forms.item(form.required(name))
    })
}

fn ids(most: usize, bytes: usize) -> ArrayBuilder {
    ArrayBuilder::new().items(bounded(bytes)).min_items(Some(1)).max_items(Some(most)).unique_items(true)
}

fn label() -> ObjectBuilder {
    text().min_length(Some(1)).max_length(Some(MOST_ID))
}

fn bounded(bytes: usize) -> Object {
    text().min_length(Some(1)).max_length(Some(bytes)).build()
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// An object with no other fields than those it names.
fn closed() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(AdditionalProperties::FreeForm(false)))
}
