//! Contract: notes, which all processes share.

use std::time::Duration;

use futures_util::future::join_all;
use wecom_gateway::model::Secret;
use wecom_gateway::store::*;

use super::*;

fn note() -> Note {
    Note::token("ww:1", "digest")
}

async fn says(store: &SharedStore, note: &Note) -> Option<String> {
    let noted = store.read_notes(vec![note.clone()]).await.expect("read").remove(0);
    noted.map(|noted| noted.value.expose().to_owned())
}

async fn write(store: &SharedStore, value: &str, ttl: Duration, owner: Option<&str>) -> bool {
    let write = NoteWrite { note: note(), value: Secret::new(value), ttl, owner: owner.map(str::to_owned) };
    store.write_note(write).await.expect("write")
}

pub async fn a_note_is_the_same_from_everywhere_until_it_ends(fixture: &impl Fixture) {
    let store = fixture.store();
    let elsewhere = fixture.reopen().await;
    assert_eq!(says(&store, &note()).await, None);
    assert!(write(&store, "token 1", LONG, None).await);
    assert!(write(&store, "token 2", SHORT, None).await, "it is written over");
    let others = [Note::hold("ww:1"), Note::token("ww", "1:digest"), Note::no_token("ww:1", "digest")];
    let mut asked = vec![note()];
    asked.extend(others);
    let noted = elsewhere.read_notes(asked).await.expect("read");
    let first = noted[0].clone().expect("a note");
    assert!(first.value.expose() == "token 2" && first.left > Duration::ZERO && first.left <= SHORT, "{first:?}");
    assert!(noted[1..].iter().all(Option::is_none), "names are kept apart: {noted:?}");
    pass(SHORT + Duration::from_millis(5)).await;
    assert_eq!(says(&elsewhere, &note()).await, None);
}

pub async fn a_notes_lock_is_one_owners_until_it_ends(fixture: &impl Fixture) {
    let (store, elsewhere) = (fixture.store(), fixture.reopen().await);
    let tries = join_all((0..20).map(|n| {
        let store = if n % 2 == 0 { &store } else { &elsewhere };
        async move { store.lock_note(&note(), &n.to_string(), LONG).await.expect("lock") }
    }));
    let won: Vec<usize> = tries.await.iter().enumerate().filter(|(_, won)| **won).map(|(n, _)| n).collect();
    assert_eq!(won.len(), 1, "{won:?}");
    let owner = won[0].to_string();
    assert!(!store.lock_note(&note(), &owner, LONG).await.expect("lock"), "not even by its owner");
    assert!(store.lock_note(&Note::hold("x"), "a", LONG).await.expect("lock"), "another note has its own");
    store.unlock_note(&note(), "somebody else").await.expect("unlock");
    assert!(!store.lock_note(&note(), "b", LONG).await.expect("lock"));
    store.unlock_note(&note(), &owner).await.expect("unlock");
    assert!(store.lock_note(&note(), "b", SHORT).await.expect("lock"));
    pass(SHORT + Duration::from_millis(5)).await;
    assert!(store.lock_note(&note(), "c", LONG).await.expect("lock"), "a lock ends by itself");
}

pub async fn a_note_is_written_under_its_lock_once(fixture: &impl Fixture) {
    let store = fixture.store();
    assert!(!write(&store, "x", LONG, Some("a")).await, "nobody has the lock");
    assert!(store.lock_note(&note(), "a", SHORT).await.expect("lock"));
    pass(SHORT + Duration::from_millis(5)).await;
    assert!(store.lock_note(&note(), "b", LONG).await.expect("lock"));
    assert!(!write(&store, "late", LONG, Some("a")).await, "its lock ended, and another has it");
    assert_eq!(says(&store, &note()).await, None);
    assert!(write(&store, "new", LONG, Some("b")).await);
    assert_eq!(says(&store, &note()).await.as_deref(), Some("new"));
    assert!(store.lock_note(&note(), "c", LONG).await.expect("lock"), "the lock was given back with the write");
}

pub async fn a_note_is_dropped_by_compare(fixture: &impl Fixture) {
    let store = fixture.store();
    let drop_if = async |seen: Option<&str>| {
        let seen = seen.map(Secret::new);
        store.drop_note(&note(), seen.as_ref()).await.expect("drop")
    };
    assert!(!drop_if(Some("old")).await && !drop_if(None).await, "nothing there");
    write(&store, "new", LONG, None).await;
    assert!(!drop_if(Some("old")).await, "somebody wrote another since");
    assert_eq!(says(&store, &note()).await.as_deref(), Some("new"));
    assert!(drop_if(Some("new")).await);
    assert_eq!(says(&store, &note()).await, None);
    write(&store, "any", LONG, None).await;
    assert!(drop_if(None).await);
}
