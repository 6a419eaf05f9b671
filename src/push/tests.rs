//! What a task must be: a row for each fault, by its field; and what it becomes.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::delivery::{Maker, request_id};
use super::read::Reader;
use super::round::{Place, Round};
use super::*;
use crate::config;
use crate::config::settings::{OnUnknown, Settings};
use crate::model::{Lane, Outcome};
use crate::sender::route::Routes;
use crate::store::{NewPush, Opened, Pushed, Stage};
use crate::task::Recipient;

const GROUPS: &str = r#"
kind = "group_robot"
token = "token"
encoding_aes_key = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
chats = [{ id = "c1", webhook = "k-1", weight = 7 }, { id = "c2", webhook = "k-2" }, { id = "mute" }]
"#;
const MEMBERS: &str = r#"
kind = "app"
token = "token"
encoding_aes_key = "jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C"
corp_id = "ww1"
agent_id = 7
secret = "s3cret"
chats = [{ id = "made", appchat = true }, { id = "hook", webhook = "k-3" }]
"#;
const GATEWAY: &str = r#"
kind = "json"
auth = { type = "none" }
gateway = { url = "http://127.0.0.1/send" }
"#;
/// 2026-11-29T08:00:00Z
const NOW: i64 = 1_795_939_200_000;
const DAY: i64 = 86_400_000;

/// A gateway with a robot's app, an app of members and a JSON gateway.
struct World {
    settings: Settings,
    routes: Routes,
    _folder: TempDir,
}

impl World {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("apps")).unwrap();
        let path = folder.path().join("gateway.toml");
        fs::write(&path, "").unwrap();
        for (id, text) in [("groups", GROUPS), ("members", MEMBERS), ("gw", GATEWAY)] {
            fs::write(folder.path().join(format!("apps/{id}.toml")), text).unwrap();
        }
        let settings = config::load(&path).unwrap();
        Self { routes: Routes::new(&settings), settings, _folder: folder }
    }

    fn read(&self, task: &Value) -> Result<Task, TaskFault> {
        let reader = Reader { settings: &self.settings, routes: &self.routes, now: NOW };
        reader.read(task.to_string().as_bytes())
    }

    fn pushes(&self, task: &Task, now: i64) -> Vec<NewPush> {
        let maker = Maker { settings: &self.settings, routes: &self.routes, now };
        (0..task.total()).map(|n| maker.push(task, &http(), n)).collect()
    }
}

fn http() -> Source {
    Source::Http { by: "shop".to_owned() }
}

fn text(content: &str) -> Value {
    json!({"msgtype": "text", "text": {"content": content}})
}

/// A good task to a robot's chat, but for these fields (null: not there).
fn task(fields: Value) -> Value {
    let mut task = json!({"task_id": "t1", "app": "groups", "target": {"chat": "c1"}, "message": text("hi")});
    task.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
    task
}

#[test]
fn every_fault_names_its_field() {
    let world = World::new();
    let many = |n: usize| (0..n).map(|n| format!("u{n}")).collect::<Vec<_>>();
    let members = |target: Value| json!({"app": "members", "target": target});
    let rows = [
        (json!({"taskid": "x"}), "taskid", "task_id"),
        (json!({"task_id": 7}), "task_id", "must be a text"),
        (json!({"task_id": ""}), "task_id", "is empty"),
        (json!({"task_id": "长".repeat(43)}), "task_id", "has 129 bytes, at most 128"),
        (json!({"task_id": "a\nb"}), "task_id", "control character"),
        (json!({"task_id": null}), "created_at", "makes the key"),
        (json!({"type": "x".repeat(129)}), "type", "at most 128"),
        (json!({"app": null}), "app", "is missing"),
        (json!({"app": "nobody"}), "app", "no app of this id"),
        (json!({"created_at": 1_795_939_200}), "created_at", "RFC 3339"),
        (json!({"created_at": "yesterday"}), "created_at", "RFC 3339"),
        (json!({"created_at": "2026-11-29T08:06:00Z"}), "created_at", "in the future"),
        (json!({"expires_at": "2026-12-06T08:00:01Z"}), "expires_at", "[push] keep"),
        (json!({"expires_at": "2026-11-29"}), "expires_at", "RFC 3339"),
        (json!({"on_unknown": "again"}), "on_unknown", "\"retry\" or \"hold\""),
        (json!({"target": null}), "target", "is missing"),
        (json!({"target": "c1"}), "target", "must be an object"),
        (json!({"target": {}}), "target", "names nobody"),
        (json!({"target": {"chat": "c1", "users": ["u"]}}), "target", "mixes forms"),
        (json!({"target": {"group": "c1"}}), "target.group", "is no field here"),
        (json!({"target": {"chat": ""}}), "target.chat", "is empty"),
        (json!({"target": {"chat": 7}}), "target.chat", "a text"),
        (json!({"target": {"chats": []}}), "target.chats", "is empty"),
        (json!({"target": {"chats": ["c1", "c2", "c1"]}}), "target.chats[2]", "is there twice"),
        (json!({"target": {"chats": ["c1", "c\u{7}"]}}), "target.chats[1]", "control character"),
        (json!({"target": {"chats": many(10_001)}}), "target.chats", "at most 10000"),
        (json!({"target": {"users": ["u1"]}}), "target", "reaches no members"),
        (members(json!({"users": []})), "target", "names nobody"),
        (members(json!({"users": many(1001)})), "target.users", "at most 1000"),
        (members(json!({"parties": many(101)})), "target.parties", "at most 100"),
        (members(json!({"tags": many(101)})), "target.tags", "at most 100"),
        (members(json!({"users": ["u1", "u2|u3"]})), "target.users[1]", "somebody else"),
        (members(json!({"users": ["@ALL"]})), "target.users[0]", "somebody else"),
        (members(json!({"users": ["@all"], "tags": ["1"]})), "target.users", "write it alone"),
        (members(json!({"users": ["@all", "u1"]})), "target.users", "write it alone"),
        (members(json!({"users": ["u1", "u1"]})), "target.users[1]", "is there twice"),
        (members(json!({"users": [["u1"]]})), "target.users[0]", "a text"),
        (members(json!({"parties": [-1]})), "target.parties[0]", "a text"),
        (json!({"target": {"customers": ["wm1"]}}), "target", "reaches no customers"),
        (members(json!({"customers": []})), "target.customers", "is empty"),
        (members(json!({"customers": ["wm1", "wm1"]})), "target.customers[1]", "is there twice"),
        (members(json!({"customers": many(10_001)})), "target.customers", "at most 10000"),
        (members(json!({"customers": ["wm1"], "sender": "@all"})), "target.sender", "one member"),
        (members(json!({"customers": ["wm1"], "users": ["u1"]})), "target", "mixes forms"),
        (members(json!({"customers": ["wm1"], "customer_chats": ["wr1"]})), "target", "mixes forms"),
        (members(json!({"customer_chats": many(2001), "sender": "z"})), "target.customer_chats", "at most 2000"),
        (members(json!({"customer_chats": ["wr1"]})), "target.sender", "owns these groups"),
        (members(json!({"users": ["u1"], "sender": "z"})), "target.sender", "customer_chats alone"),
        (json!({"message": null}), "message", "is missing"),
        (json!({"message": "hi"}), "message.msgtype", "msgtype"),
        (json!({"message": {"msgtype": "poem"}}), "message.msgtype", "unknown msgtype"),
        (json!({"message": {"msgtype": "video", "video": {"media_id": "m"}}}), "message.msgtype", "takes no msgtype"),
        (json!({"message": {"msgtype": "text", "text": {"content": " "}}}), "message.text.content", "is empty"),
        (
            json!({"message": {"msgtype": "text", "text": {"content": "hi"}, "safe": 1}}),
            "message.safe",
            "no field here",
        ),
        (json!({"message": text(&"x".repeat(2049))}), "message.text.content", "has 2049 bytes, at most 2048"),
    ];
    for (fields, field, words) in rows {
        let fault = world.read(&task(fields.clone())).expect_err(&fields.to_string());
        assert_eq!((fault.field.as_str(), fault.kind), (field, FaultKind::Malformed), "{fields}: {fault}");
        assert!(fault.to_string().contains(words), "{fields}: {fault}");
    }
    let reader = Reader { settings: &world.settings, routes: &world.routes, now: NOW };
    for (raw, words) in
        [("", "no JSON"), ("[]", "a JSON object"), ("{\"task_id\":\"x\",", "no JSON"), ("\u{0}", "no JSON")]
    {
        let fault = reader.read(raw.as_bytes()).unwrap_err();
        assert!(fault.field.is_empty() && fault.to_string().contains(words), "{fault}");
    }
}

#[test]
fn a_message_is_held_against_the_channel_of_each_target() {
    let world = World::new();
    let markdown = |n: usize| json!({"msgtype": "markdown", "markdown": {"content": "x".repeat(n)}});
    let of = |target: Value, message: Value| {
        world.read(&task(json!({"app": "members", "target": target, "message": message})))
    };
    // Half as much by the app as by a robot.
    assert!(of(json!({"chat": "hook"}), markdown(4096)).is_ok());
    for target in [json!({"chat": "made"}), json!({"chats": ["hook", "made"]}), json!({"users": ["u1"]})] {
        let fault = of(target, markdown(2049)).unwrap_err();
        assert_eq!(fault.field, "message.markdown.content", "{fault}");
        assert!(fault.message.contains("2049 bytes, at most 2048"), "{fault}");
    }
    let image = json!({"msgtype": "image", "image": {"base64": "eA==", "md5": "d41d8cd98f00b204e9800998ecf8427e"}});
    assert_eq!(of(json!({"users": ["u1"]}), image.clone()).unwrap_err().field, "message.image.media_id");
    assert!(of(json!({"chat": "hook"}), image).is_ok());
    let customers = |message: Value| of(json!({"customers": ["wm1"]}), message);
    assert!(customers(text(&"x".repeat(4000))).is_ok());
    let fault = customers(text(&"x".repeat(4001))).unwrap_err();
    assert!(fault.field == "message.text.content" && fault.message.contains("at most 4000"), "{fault}");
    assert_eq!(customers(markdown(1)).unwrap_err().field, "message.markdown");
    // What has no way out is dropped later, and its message need only be one.
    assert!(of(json!({"chat": "foreign"}), markdown(4097)).is_ok());
    let gateway = task(json!({"app": "gw", "target": {"chat": "any"}, "message": markdown(1)}));
    assert_eq!(world.read(&gateway).unwrap_err().field, "message.msgtype");
    let huge = json!({"msgtype": "image", "image": {"base64": "A".repeat(2 << 20), "md5": "d41d8cd98f00b204e9800998ecf8427e"}});
    let chats: Vec<String> = (0..200).map(|n| format!("c{n}")).collect();
    let fault = world.read(&task(json!({"target": {"chats": chats}, "message": huge}))).unwrap_err();
    assert!(fault.field == "message" && fault.message.contains("200 chats"), "{fault}");
}

#[test]
fn a_task_without_an_id_is_known_by_what_it_says() {
    let world = World::new();
    let read = |fields: Value| world.read(&task(fields)).unwrap();
    let derived = |fields: Value| {
        let mut all = json!({"task_id": null, "created_at": "2026-11-29T08:00:00Z"});
        all.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        read(all).id
    };
    let one = derived(json!({}));
    assert_eq!(one.len(), 64);
    assert_eq!(one, derived(json!({"expires_at": "2026-11-30T00:00:00Z", "on_unknown": "hold"})), "not part of it");
    for other in [
        json!({"created_at": "2026-11-29T08:00:01Z"}),
        json!({"type": "x"}),
        json!({"target": {"chat": "c2"}}),
        json!({"message": text("ho")}),
        json!({"app": "members", "target": {"chat": "hook"}}),
    ] {
        assert_ne!(one, derived(other.clone()), "{other}");
    }
    // Under a given id, other recipients or another message are another task; other times are not.
    let digest = |fields| read(fields).digest;
    assert_eq!(
        digest(json!({})),
        digest(json!({"created_at": "2026-11-29T08:00:01Z", "expires_at": "2026-11-30T00:00:00Z"}))
    );
    for other in [json!({"target": {"chat": "c2"}}), json!({"message": text("ho")})] {
        assert_ne!(digest(json!({})), digest(other));
    }
}

#[test]
fn nothing_is_sent_once_its_task_is_not_known_any_more() {
    let world = World::new();
    let expires = |fields: Value| world.read(&task(fields)).unwrap().expires_at;
    assert_eq!(expires(json!({})), NOW + 7 * DAY);
    assert_eq!(expires(json!({"created_at": "2026-11-28T08:00:00Z"})), NOW + 6 * DAY);
    assert_eq!(expires(json!({"created_at": "2026-11-29T08:04:00Z"})), NOW + 7 * DAY, "a clock that is a little ahead");
    assert_eq!(
        expires(json!({"created_at": "2026-11-29T16:00:00+08:00", "expires_at": "2026-11-29T09:00:00Z"})),
        NOW + DAY / 24
    );
    // A repeat that comes when nobody knows it any more is too late to be sent.
    assert!(expires(json!({"created_at": "2026-11-20T08:00:00Z"})) < NOW);
    let told = world.read(&task(json!({"expires_at": "2026-11-29T09:00:00Z"}))).unwrap();
    let late = &world.pushes(&told, NOW + DAY)[0];
    let end = late.fate.as_ref().unwrap_err();
    assert_eq!((end.state, end.reason.as_deref()), (Outcome::Dropped, Some("expired")));
    let stages: Vec<Stage> = late.lines.iter().map(|line| line.stage).collect();
    assert_eq!(stages, [Stage::Pushed, Stage::Settled]);
    assert!(late.keep.as_millis() > 7 * 86_400_000 + 300_000, "longer than it may be sent, by any clock");
}

#[test]
fn deliveries_are_named_the_same_whenever_their_task_comes() {
    let world = World::new();
    let read = world.read(&task(json!({"target": {"chats": ["c1", "mute", "c2"]}}))).unwrap();
    let (first, again) = (world.pushes(&read, NOW), world.pushes(&read, NOW + 1));
    let request = request_id("t1");
    assert!(request.len() == 32 && request.starts_with('t'));
    for (n, (one, other)) in first.iter().zip(&again).enumerate() {
        assert_eq!((one.delivery_id.as_str(), &one.lane), (other.delivery_id.as_str(), &other.lane));
        assert_eq!(one.delivery_id, format!("{request}.{n}"));
    }
    let delivery = first[0].fate.as_ref().unwrap();
    assert_eq!(
        (delivery.key.task_id().as_deref(), delivery.push.as_ref().map(|push| &push.to)),
        (Some("t1"), Some(&Recipient::Chat))
    );
    assert_eq!((first[0].turn.weight, delivery.repeat_until, delivery.bound), (7, None, false));
    assert_eq!(first[1].fate.as_ref().unwrap_err().reason.as_deref(), Some("route_missing"));
}

#[test]
fn members_have_lanes_by_whom_the_set_names() {
    let world = World::new();
    let push = |target: Value| {
        let read = world.read(&task(json!({"app": "members", "target": target}))).unwrap();
        world.pushes(&read, NOW).remove(0)
    };
    let chat = |target: Value| push(target).lane.app_and_chat().1;
    assert_eq!(chat(json!({"users": ["u1"]})), "u1", "the lane of their replies");
    let set = chat(json!({"users": ["u1"], "tags": ["1"]}));
    assert!(set.starts_with("to:") && set.len() == 19, "{set}");
    assert_eq!(set, chat(json!({"tags": [1], "users": ["u1"], "parties": []})), "the same set");
    assert_ne!(set, chat(json!({"users": ["u1"], "parties": ["1"]})));
    assert!(chat(json!({"users": ["@all"]})).starts_with("to:"));
    let delivery = push(json!({"users": ["u1", "u2"], "parties": ["3"]})).fate.unwrap();
    let body = &delivery.message;
    assert_eq!((&body["touser"], &body["toparty"], &body["agentid"]), (&json!("u1|u2"), &json!("3"), &json!(7)));
    assert_eq!(body["enable_duplicate_check"], 1, "from the first attempt on");
    assert_eq!(delivery.repeat_until, Some(NOW + 3 * 3_600_000));
    let delivery = push(json!({"customers": ["wm1"], "sender": "z"})).fate.unwrap();
    assert!(delivery.chat_id.starts_with("to:") && delivery.repeat_until.is_none(), "a repeat is a second message");
    assert_ne!(delivery.chat_id, chat(json!({"customer_chats": ["wm1"], "sender": "z"})));
    let body = json!({"chat_type": "single", "external_userid": ["wm1"], "sender": "z", "text": {"content": "hi"}});
    assert_eq!(delivery.message, body);
    let held = task(json!({"app": "members", "target": {"users": ["u1"]}, "on_unknown": "hold"}));
    let held = world.read(&held).unwrap();
    assert_eq!(held.on_unknown, OnUnknown::Hold);
    let held = world.pushes(&held, NOW).remove(0).fate.unwrap();
    assert_eq!((held.repeat_until, held.message.get("enable_duplicate_check")), (None, None));
}

/// What a walk asked of the store, `<task>><chat>`; which cursors it moved, and whether to the end; what it came to.
type Walked = (Vec<String>, Vec<(String, u64, bool)>, Vec<Taken>);

/// A walk over these tasks, where `room` answers for each chat.
fn walk(world: &World, tasks: &[(Task, Source)], opened: &[Opened], mut room: impl FnMut(&str) -> Pushed) -> Walked {
    let maker = Maker { settings: &world.settings, routes: &world.routes, now: NOW };
    let mut round = Round::new(tasks, opened);
    let (mut asked, mut moved) = (Vec::new(), Vec::new());
    while let Some(page) = round.page(&maker) {
        assert!(page.len() <= 64);
        let pushed: Vec<Pushed> = page.iter().map(|(_, push)| room(&push.lane.app_and_chat().1)).collect();
        asked.extend(page.iter().map(|(_, push)| format!("{}>{}", push.task_id, push.lane.app_and_chat().1)));
        let page: Vec<(Place, Lane)> = page.into_iter().map(|(place, push)| (place, push.lane)).collect();
        let progress = round.note(page, &pushed);
        moved.extend(progress.into_iter().map(|task| (task.task_id, task.cursor, task.done)));
    }
    (asked, moved, round.taken())
}

fn tasks(world: &World, tasks: &[(&str, Value)]) -> Vec<(Task, Source)> {
    let read = |(id, target): &(&str, Value)| world.read(&task(json!({"task_id": id, "target": target}))).unwrap();
    tasks.iter().map(|task| (read(task), http())).collect()
}

#[test]
fn a_full_lane_holds_up_its_own_chat_alone() {
    let world = World::new();
    let both = json!({"chats": ["c1", "c2"]});
    let batch = tasks(
        &world,
        &[("a", json!({"chat": "c1"})), ("b", both), ("c", json!({"chat": "c1"})), ("d", json!({"chat": "c2"}))],
    );
    let mut first = true;
    let room = |chat: &str| match chat {
        // Full just once: what follows must not get in front of what was refused.
        "c1" if std::mem::take(&mut first) => Pushed::LaneFull,
        _ => Pushed::Queued,
    };
    let (asked, moved, taken) = walk(&world, &batch, &[Opened::Open(0); 4], room);
    assert_eq!(asked, ["a>c1", "b>c1", "b>c2", "c>c1", "d>c2"], "one page: the store answers for all of it");
    assert_eq!(taken[0], Taken::Full);
    assert!(moved.contains(&("d".into(), 1, true)) && taken[3] == Taken::Owned, "{moved:?}");

    let many: Vec<String> = (0..250).map(|n| format!("x{n}")).collect();
    let mut chats = many.clone();
    chats.insert(0, "c1".into());
    let batch = tasks(&world, &[("a", json!({"chats": chats})), ("b", json!({"chat": "c1"}))]);
    let (asked, moved, taken) =
        walk(
            &world,
            &batch,
            &[Opened::Open(0); 2],
            |chat| if chat == "c1" { Pushed::LaneFull } else { Pushed::Queued },
        );
    assert_eq!((asked.len(), asked.contains(&"b>c1".to_owned())), (251, false), "asked for no more in the same walk");
    assert_eq!((moved, taken), (vec![], vec![Taken::Full, Taken::Full]), "the cursor stands before the gap");
}

#[test]
fn a_walk_goes_on_where_each_task_stands_and_ends_with_the_store() {
    let world = World::new();
    let chats: Vec<String> = (0..450).map(|n| format!("x{n}")).collect();
    let batch =
        tasks(&world, &[("a", json!({"chats": chats})), ("b", json!({"chat": "c1"})), ("c", json!({"chat": "c1"}))]);
    let opened = [Opened::Open(100), Opened::Done, Opened::Conflict];
    let (asked, moved, taken) = walk(&world, &batch, &opened, |_| Pushed::Known);
    assert_eq!((asked.len(), asked[0].as_str()), (350, "a>x100"));
    let cursors: Vec<u64> = moved.iter().map(|(_, cursor, _)| *cursor).collect();
    assert_eq!((cursors, moved[5].2), (vec![164, 228, 292, 356, 420, 450], true));
    assert_eq!(taken, [Taken::Owned, Taken::Repeat, Taken::Refused(TaskFault::conflict())]);
    let mut left = 250;
    let room = |_: &str| {
        left -= 1;
        if left < 0 { Pushed::StoreFull } else { Pushed::Queued }
    };
    let (asked, moved, taken) = walk(&world, &batch, &[Opened::Open(0); 3], room);
    assert_eq!((asked.len(), moved.last()), (256, Some(&("a".into(), 250, false))));
    assert_eq!(taken, [Taken::Full, Taken::Full, Taken::Full]);
}
