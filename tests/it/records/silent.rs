//! A database server that is reached and gives no answer: whoever asks gives up, and nobody is held up by what was given up.

use std::time::Duration;

use serde_json::json;
use sqlx::Executor;
use sqlx::mysql::MySqlConnection;
use tokio::time::{interval, timeout};
use wecom_gateway::records::Records;
use wecom_gateway::sim::Options;

use super::care::{ended, look};
use super::life;
use crate::mariadb_server::MariaDb;
use crate::proxy::{Fault, Proxy};
use crate::world::{On, TEST, World};

/// A day in Unix ms.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// Records on a server of their own, behind a proxy; they have a connection that waits for work.
async fn behind_a_proxy() -> (MariaDb, Proxy, Records) {
    let database = MariaDb::alone().await;
    let proxy = Proxy::to(database.server()).await;
    let records = Records::open(&database.url_by(proxy.address())).await.expect("opens");
    records.write(life(1, "delivered")).await.expect("writes");
    (database, proxy, records)
}

/// Writes until it succeeds, as the flusher does.
async fn writes_again(records: &Records, n: i64) {
    let written = async {
        let mut again = interval(Duration::from_millis(100));
        while records.write(life(n, "delivered")).await.is_err() {
            again.tick().await;
        }
    };
    timeout(TEST + TEST, written).await.expect("it never writes again");
}

/// Nothing that writes is done before [`unlock`].
async fn lock(database: &MariaDb) -> MySqlConnection {
    let mut locking = database.connect().await;
    locking.execute("FLUSH TABLES WITH READ LOCK").await.expect("locks");
    locking
}

async fn unlock(mut locking: MySqlConnection) {
    locking.execute("UNLOCK TABLES").await.expect("unlocks");
}

/// No end of the connection reaches the server, as when the machine loses its power: it must end the transaction by itself.
#[tokio::test]
async fn a_gateway_that_dies_silently_in_a_flush_does_not_keep_the_others_from_writing() {
    let (database, proxy, dies) = behind_a_proxy().await;
    let lives = Records::open(&database.url()).await.expect("opens");
    // The first statement behind the lock of all who write; of two messages it is not prepared yet, so it is sent.
    proxy.arm(b"SELECT id, digest FROM messages", Fault::Hang);
    let flush = [life(2, "dead"), life(5, "dead")].concat();
    let (written, ()) = tokio::join!(dies.write(flush), async {
        proxy.struck(1).await;
        writes_again(&lives, 3).await;
    });
    assert!(written.is_err_and(|error| error.is_transient()));
    writes_again(&dies, 2).await;
}

#[tokio::test]
async fn a_connection_that_hangs_is_given_up_with_its_work() {
    let (_database, proxy, records) = behind_a_proxy().await;
    proxy.arm(b"START TRANSACTION", Fault::Hang);
    let hangs = tokio::spawn({
        let records = records.clone();
        async move { records.write(life(2, "delivered")).await }
    });
    proxy.struck(1).await;
    hangs.abort();
    writes_again(&records, 3).await;
    // As many questions as there are connections for them.
    for times in 2..=5 {
        proxy.arm(b"SELECT m.id, app", Fault::Hang);
        let hangs = tokio::spawn({
            let records = records.clone();
            async move { records.messages_by_id("m1", None, 1).await }
        });
        proxy.struck(times).await;
        hangs.abort();
    }
    let answered = timeout(TEST, records.messages_by_id("m1", None, 1)).await.expect("an answer");
    assert_eq!(answered.expect("reads").items.len(), 1);
}

/// The pool asks whether a connection is still there before it lends it again, and so may be the one who waits.
#[tokio::test]
async fn a_connection_that_hangs_after_its_work_is_given_up_too() {
    let (_database, proxy, records) = behind_a_proxy().await;
    proxy.arm(b"COMMIT\x01\0\0\0\x0e", Fault::Hang);
    records.write(life(2, "delivered")).await.expect("writes");
    proxy.struck(1).await;
    writes_again(&records, 3).await;
}

#[tokio::test]
async fn whoever_writes_gives_up_while_the_server_takes_nothing() {
    let database = MariaDb::alone().await;
    let open = async || Records::open(&database.url()).await.expect("opens").telling_results(true);
    let first = open().await;
    first.write([life(1, "delivered"), ended(0, 1000, "unknown"), ended(1, 2000, "unknown")].concat()).await.unwrap();
    let held = first.hold_unknown(1500, Duration::ZERO, Duration::from_secs(1), 1).await.expect("holds").remove(0);
    let untold = first.untold(1).await.expect("reads");
    let (prunes, stats, holds, looks, tells) = (open().await, open().await, open().await, open().await, open().await);
    let locking = lock(&database).await;
    let all = async {
        tokio::join!(
            async { first.write(life(2, "delivered")).await.expect_err("flush") },
            async { prunes.prune(i64::MAX, 9).await.expect_err("prune") },
            async { stats.prune_stats(10 * DAY).await.expect_err("prune_stats") },
            async { holds.hold_unknown(9000, Duration::ZERO, Duration::ZERO, 9).await.expect_err("hold") },
            async { looks.looked(&held, 1600, &look(0, json!({}))).await.expect_err("looked") },
            async { tells.told(&untold).await.expect_err("told") },
        )
    };
    timeout(TEST + TEST, all).await.expect("somebody waits for ever");
    // What was given up is not done behind anybody's back.
    unlock(locking).await;
    assert_eq!(first.messages_by_id("m2", None, 1).await.expect("reads").items, []);
    assert_eq!(first.messages_by_id("m1", None, 1).await.expect("reads").items.len(), 1);
    writes_again(&first, 2).await;
}

#[tokio::test]
async fn tables_that_cannot_be_made_now_are_made_later() {
    let database = MariaDb::alone().await;
    let locking = lock(&database).await;
    let records = timeout(TEST, Records::open(&database.url())).await.expect("it waits for ever").expect("opens");
    let asked = timeout(TEST, records.untold(1)).await.expect("it waits for ever");
    assert!(matches!(asked, Err(ref error) if error.is_transient()), "{asked:?}");
    unlock(locking).await;
    writes_again(&records, 1).await;
}

/// Messages flow, so the process must not be taken for one that is stuck.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_starts_and_is_alive_while_the_server_takes_nothing() {
    let test = async {
        let database = MariaDb::alone().await;
        Records::open(&database.url()).await.expect("opens").close().await;
        let locking = lock(&database).await;
        let world = World::with(On::Embedded, &["c1"], Options::default(), |_, scenario| {
            scenario.set("database", "url", database.url().expose())
        })
        .await;
        world.say("c1", "u1", "m1", "/echo [c1 u1 1]").await;
        world.fence("c1", "u1").await;
        assert_eq!(world.texts("c1"), ["[c1 u1 1]"]);
        // The flusher came back more than once.
        let mut look = interval(Duration::from_millis(100));
        while world.metric("alarms_total{kind=\"records_away\"}").await == 0 {
            look.tick().await;
            assert_eq!(world.livez().await.0, 200);
        }
        unlock(locking).await;
        world.ends("m1", "delivered").await;
        assert_eq!(world.livez().await.0, 200);
        world.end().await;
    };
    timeout(2 * TEST, test).await.expect("within its time");
}
