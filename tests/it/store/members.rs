//! What a store keeps of members: profiles, rates; and what a claim tells of mutes.

use std::time::Duration;

use futures_util::future::join_all;
use wecom_gateway::member::{BoundUser, MemberKey, Profile};
use wecom_gateway::model::MessageKey;
use wecom_gateway::store::*;

use super::operators::tuning;
use super::{APP, Fixture, LONG, SHORT, arrival, changed, enqueue, entries, finish, pass, take};

fn member(sender: &str) -> MemberKey {
    MemberKey::new(APP, sender)
}

fn contact(sender: &str, fields: &[(&str, FieldChange)]) -> ProfileChange {
    let contact = fields.iter().map(|(field, change)| (field.to_string(), change.clone())).collect();
    ProfileChange { member: member(sender), user: None, contact, upon: None, change: None }
}

fn user(sender: &str, change: UserChange) -> ProfileChange {
    ProfileChange { member: member(sender), user: Some(change), contact: Vec::new(), upon: None, change: None }
}

fn bind(sender: &str, id: &str, ttl: Duration) -> ProfileChange {
    user(sender, UserChange::Bind { id: id.into(), ttl, renew: None })
}

fn set(value: &str) -> FieldChange {
    FieldChange::Set(value.into())
}

fn fill(value: &str) -> FieldChange {
    FieldChange::Fill(value.into())
}

async fn change(store: &SharedStore, change: ProfileChange) {
    assert!(store.members().change_profile(change).await.expect("changes"));
}

/// A member of whom nothing is known, as a store that was asked says it.
fn nobody() -> Profile {
    Profile { forgotten: Some(0), ..Profile::default() }
}

async fn profile(store: &SharedStore, sender: &str) -> Profile {
    store.members().read_profile(&member(sender)).await.expect("reads")
}

async fn fields(store: &SharedStore, sender: &str) -> Vec<(String, String)> {
    profile(store, sender).await.contact.into_iter().collect()
}

fn said(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    fields.iter().map(|(field, value)| (field.to_string(), value.to_string())).collect()
}

pub async fn a_profile_is_its_members_alone(fixture: &dyn Fixture) {
    let store = fixture.store();
    assert_eq!(profile(&store, "u").await, nobody());
    change(&store, contact("u", &[("name", set("王五")), ("phone", set("13800138000"))])).await;
    change(&store, bind("u", "u-7", LONG)).await;
    let elsewhere = fixture.reopen().await;
    let known = profile(&elsewhere, "u").await;
    let Some(BoundUser { id, left, renew: None }) = &known.user else { panic!("{known:?}") };
    assert!(id == "u-7" && *left > Duration::ZERO && *left <= LONG, "{left:?}");
    assert_eq!(fields(&elsewhere, "u").await, said(&[("name", "王五"), ("phone", "13800138000")]));
    for stranger in ["u:", "U", "", "u%3A"] {
        assert_eq!(profile(&elsewhere, stranger).await, nobody(), "{stranger:?}");
    }
    let foreign = elsewhere.members().read_profile(&MemberKey::new("other", "u")).await.expect("reads");
    assert_eq!(foreign, nobody());
}

pub async fn a_contact_changes_field_by_field(fixture: &dyn Fixture) {
    let store = fixture.store();
    change(&store, contact("u", &[("name", set("甲")), ("remark", set("x"))])).await;
    change(&store, contact("u", &[("name", set("乙")), ("email", set("a@b.c"))])).await;
    change(&store, contact("u", &[("remark", FieldChange::Remove), ("phone", FieldChange::Remove)])).await;
    assert_eq!(fields(&store, "u").await, said(&[("email", "a@b.c"), ("name", "乙")]));
    change(&store, contact("u", &[])).await;
    assert_eq!(fields(&store, "u").await.len(), 2);
}

pub async fn what_people_set_is_not_filled_in(fixture: &dyn Fixture) {
    let store = fixture.store();
    for name in ["甲", "乙"] {
        change(&store, contact("u", &[("name", fill(name))])).await;
        assert_eq!(fields(&store, "u").await, said(&[("name", name)]));
    }
    change(&store, contact("u", &[("name", set("王五"))])).await;
    change(&store, contact("u", &[("name", fill("丙"))])).await;
    assert_eq!(fields(&store, "u").await, said(&[("name", "王五")]));
    // What was filled in before and set to the same is set.
    change(&store, contact("v", &[("name", fill("甲"))])).await;
    change(&store, contact("v", &[("name", set("甲"))])).await;
    change(&store, contact("v", &[("name", fill("乙"))])).await;
    assert_eq!(fields(&store, "v").await, said(&[("name", "甲")]));
    change(&store, contact("v", &[("name", FieldChange::Remove)])).await;
    change(&store, contact("v", &[("name", fill("乙"))])).await;
    assert_eq!(fields(&store, "v").await, said(&[("name", "乙")]));
}

pub async fn a_binding_ends_with_its_ttl(fixture: &dyn Fixture) {
    let store = fixture.store();
    change(&store, bind("u", "u-7", SHORT)).await;
    change(&store, bind("v", "u-8", LONG)).await;
    change(&store, user("v", UserChange::Renew(LONG * 2))).await;
    assert!(profile(&store, "v").await.user.expect("bound").left > LONG);
    change(&store, user("v", UserChange::Renew(SHORT))).await;
    change(&store, contact("u", &[("name", set("甲"))])).await;
    pass(SHORT).await;
    assert_eq!(profile(&store, "u").await.user, None);
    assert_eq!(profile(&store, "v").await.user, None);
    assert_eq!(fields(&store, "u").await, said(&[("name", "甲")]), "a contact stays");
    // One that is over can't be renewed.
    change(&store, user("u", UserChange::Renew(LONG))).await;
    assert_eq!(profile(&store, "u").await.user, None);
}

pub async fn a_binding_is_replaced_and_undone(fixture: &dyn Fixture) {
    let store = fixture.store();
    change(&store, user("u", UserChange::Bind { id: "u-7".into(), ttl: LONG, renew: Some(LONG) })).await;
    assert_eq!(profile(&store, "u").await.user.and_then(|user| user.renew), Some(LONG));
    assert_eq!(fields(&store, "u").await, []);
    change(&store, bind("u", "u-8", LONG)).await;
    let bound = profile(&store, "u").await.user.expect("bound");
    assert_eq!((bound.id.as_str(), bound.renew), ("u-8", None));
    change(&store, contact("u", &[("name", set("甲"))])).await;
    for _ in 0..2 {
        change(&store, user("u", UserChange::Unbind)).await;
        assert_eq!(profile(&store, "u").await.user, None);
    }
    assert_eq!(fields(&store, "u").await, said(&[("name", "甲")]));
}

pub async fn a_member_is_forgotten_whole(fixture: &dyn Fixture) {
    let store = fixture.store();
    let forget = async |sender| {
        store.members().forget_profile(&member(sender), LONG, Some(changed("forgotten"))).await.expect("forgets")
    };
    change(&store, user("u", UserChange::Bind { id: "u-7".into(), ttl: LONG, renew: Some(LONG) })).await;
    change(&store, contact("v", &[("name", fill("甲"))])).await;
    change(&store, bind("w", "u-9", LONG)).await;
    assert_eq!((forget("u").await, forget("v").await, forget("u").await), (true, true, false));
    for sender in ["u", "v"] {
        let left = profile(&store, sender).await;
        assert!(left.forgotten > Some(0), "{left:?}");
        assert_eq!(left, Profile { forgotten: left.forgotten, ..Profile::default() });
    }
    assert_eq!(profile(&store, "w").await.user_id(), Some("u-9"));
    // What is known since stays, whatever becomes of the mark.
    change(&store, contact("u", &[("name", fill("甲"))])).await;
    change(&store, bind("u", "u-8", LONG)).await;
    assert_eq!(
        (profile(&store, "u").await.user_id(), fields(&store, "u").await),
        (Some("u-8"), said(&[("name", "甲")]))
    );
}

pub async fn what_was_under_way_when_a_member_was_forgotten_is_not_kept(fixture: &dyn Fixture) {
    let store = fixture.store();
    let before = profile(&store, "u").await.forgotten;
    store.members().forget_profile(&member("u"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    let late = ProfileChange { upon: before, contact: vec![("name".into(), set("甲"))], ..bind("u", "u-7", LONG) };
    assert!(!store.members().change_profile(late).await.expect("answers"));
    let known = profile(&store, "u").await;
    assert_eq!((known.user_id(), known.contact.len()), (None, 0));
    // Who read it after that, or did not ask, changes it; a second time is a later one.
    change(&store, ProfileChange { upon: known.forgotten, ..bind("u", "u-8", LONG) }).await;
    assert_eq!(profile(&store, "u").await.user_id(), Some("u-8"));
    store.members().forget_profile(&member("u"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    assert!(profile(&store, "u").await.forgotten > known.forgotten);
    change(&store, user("u", UserChange::Renew(LONG))).await;
    change(&store, user("u", UserChange::Unbind)).await;
    assert_eq!(profile(&store, "u").await.user, None);
    let late = ProfileChange { upon: known.forgotten, ..bind("u", "u-9", LONG) };
    assert!(!store.members().change_profile(late).await.expect("answers"));
}

pub async fn that_a_member_was_forgotten_ends_and_what_is_known_since_does_not(fixture: &dyn Fixture) {
    let store = fixture.store();
    for sender in ["u", "v"] {
        store.members().forget_profile(&member(sender), SHORT, Some(changed("forgotten"))).await.expect("forgets");
    }
    change(&store, contact("u", &[("name", set("甲"))])).await;
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(fields(&store, "u").await, said(&[("name", "甲")]));
    assert_eq!(profile(&store, "v").await, nobody());
}

pub async fn an_operators_change_of_a_member_leaves_its_line(fixture: &dyn Fixture) {
    let store = fixture.store();
    change(&store, contact("u", &[("name", fill("甲"))])).await;
    assert_eq!(entries(&store).await, [], "what is told by messages is no operator's");
    let put = ProfileChange { contact: vec![("name".into(), set("乙"))], ..bind("u", "u-7", LONG) };
    change(&store, ProfileChange { change: Some(changed("put")), ..put }).await;
    store.members().forget_profile(&member("u"), LONG, Some(changed("forgotten"))).await.expect("forgets");
    let left: Vec<_> = entries(&fixture.reopen().await).await.into_iter().map(|entry| entry.line).collect();
    assert_eq!(left, [changed("put"), changed("forgotten")]);
}

pub async fn a_members_own_word_goes_and_what_others_said_shows_again(fixture: &dyn Fixture) {
    let store = fixture.store();
    let word = |text: &str| FieldChange::Say(text.into());
    change(&store, contact("u", &[("name", fill("甲"))])).await;
    assert!(profile(&store, "u").await.told.contains("name"));
    change(&store, contact("u", &[("name", set("乙"))])).await;
    change(&store, contact("u", &[("name", word("丙")), ("phone", word("1"))])).await;
    // Neither the word nor what was set is touched by what callbacks tell.
    change(&store, contact("u", &[("name", fill("丁"))])).await;
    assert_eq!(fields(&store, "u").await, said(&[("name", "丙"), ("phone", "1")]));
    assert!(profile(&store, "u").await.told.is_empty());
    let unsay = [("name", FieldChange::Unsay), ("phone", FieldChange::Unsay)];
    change(&store, contact("u", &unsay)).await;
    assert_eq!(fields(&store, "u").await, said(&[("name", "乙")]));
    // What is set stands above what the member said before, and what goes goes whole.
    change(&store, contact("u", &[("name", word("丙"))])).await;
    change(&store, contact("u", &[("name", set("戊"))])).await;
    assert_eq!(fields(&store, "u").await, said(&[("name", "戊")]));
    change(&store, contact("u", &[("name", FieldChange::Remove)])).await;
    assert_eq!(fields(&store, "u").await, []);
}

async fn knock(store: &SharedStore, chat: &str, sender: &str, request_id: &str, rate: Pace) -> Admitted {
    let key = MessageKey::new(APP, chat, sender, request_id);
    store.members().admit(Knock { key, request_id: request_id.into(), rate }).await.expect("counts")
}

pub async fn a_member_is_admitted_at_a_rate(fixture: &dyn Fixture) {
    let (store, elsewhere) = (fixture.store(), fixture.reopen().await);
    let rate = Pace { limit: 2, window: LONG };
    let mut got = Vec::new();
    for (n, store) in [&store, &elsewhere, &store, &elsewhere].into_iter().enumerate() {
        got.push(knock(store, "c", "u", &format!("r{n}"), rate).await);
    }
    assert_eq!(got, [Admitted::Yes, Admitted::Yes, Admitted::TooFastFirst, Admitted::TooFast]);
    // A repeat is answered as before.
    for (request, want) in [("r0", Admitted::Yes), ("r2", Admitted::TooFastFirst), ("r3", Admitted::TooFast)] {
        assert_eq!(knock(&store, "c", "u", request, rate).await, want, "{request}");
    }
    // Others, and the same member elsewhere, have a rate of their own.
    assert_eq!(knock(&store, "c", "v", "r4", rate).await, Admitted::Yes);
    assert_eq!(knock(&store, "d", "u", "r5", rate).await, Admitted::Yes);
}

pub async fn a_rate_counts_exactly_however_many_come_at_once(fixture: &dyn Fixture) {
    let (store, elsewhere) = (fixture.store(), fixture.reopen().await);
    let rate = Pace { limit: 7, window: LONG };
    let knocks = (0..40).map(|n| {
        let store = if n % 2 == 0 { store.clone() } else { elsewhere.clone() };
        async move { knock(&store, "c", "u", &format!("r{n}"), rate).await }
    });
    let got = join_all(knocks).await;
    let count = |wanted| got.iter().filter(|admitted| **admitted == wanted).count();
    assert_eq!((count(Admitted::Yes), count(Admitted::TooFastFirst), count(Admitted::TooFast)), (7, 1, 32));
}

pub async fn a_rate_opens_again_with_its_window(fixture: &dyn Fixture) {
    let store = fixture.store();
    let rate = Pace { limit: 1, window: SHORT };
    assert_eq!(knock(&store, "c", "u", "r0", rate).await, Admitted::Yes);
    pass(SHORT).await;
    assert_eq!(knock(&store, "c", "u", "r1", rate).await, Admitted::Yes);
}

pub async fn a_claim_tells_whether_its_chat_is_muted(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mute = async |chat: &str, muted| {
        store.tune(Tuning { muted: Some(muted), ..tuning(chat) }).await.expect("mutes");
    };
    let mut n = 0;
    let mut muted = async |chat: &str| {
        n += 1;
        enqueue(&store, arrival(chat, "u", &format!("m{n}"), &format!("r{n}"))).await;
        let claimed = take(&store).await;
        assert_eq!(finish(&store, super::commit(&claimed, Vec::new())).await, Committed::Done);
        claimed.muted
    };
    assert!(!muted("c:1").await);
    for _ in 0..2 {
        mute("c:1", true).await;
        assert!(muted("c:1").await);
    }
    assert!(!muted("c").await && !muted("c%3A1").await);
    for _ in 0..2 {
        mute("c:1", false).await;
        assert!(!muted("c:1").await);
    }
}
