//! `[store] path` belongs to one process: a second one is refused, the next one after a `kill -9` is not.

use super::fleet::{Fleet, Setup};
use super::process::Gateway;
use crate::on_both_stores;
use crate::world::On;

on_both_stores!(a_folder_has_one_process_and_a_dead_one_leaves_it_free);

async fn a_folder_has_one_process_and_a_dead_one_leaves_it_free(on: On) {
    let mut fleet = Fleet::started(Setup::new(on)).await;
    for _ in 0..3 {
        let second = Gateway::start(fleet.config(0), None).await.err().expect("it does not start");
        assert_eq!(second.status.code(), Some(2), "{second:?}");
        let said: Vec<&str> = second.said.lines().collect();
        assert!(
            matches!(said[..], [line] if line.contains("belongs to another gateway process; give this one its own [store] path")),
            "{second:?}"
        );
        fleet.kill(0);
        fleet.start(0, None).await;
    }
    fleet.end().await;
}
