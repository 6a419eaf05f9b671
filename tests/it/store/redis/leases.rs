//! Leases that a process holds are renewed through an outage of the store; one that another took meanwhile is left to it.

use std::net::SocketAddr;

use tokio_util::sync::CancellationToken;
use wecom_gateway::model::Secret;
use wecom_gateway::store::redis::RedisStore;

use super::*;
use crate::proxy::{Fault, Proxy};
use crate::redis_server::RedisServer;

/// Short, so that renewals come soon; whether it ends meanwhile changes nothing as long as nobody else claims.
const BRIEF: Duration = Duration::from_millis(300);

/// Until when the lane is leased, by the server.
async fn lease_end(server: &RedisServer, lease: &Lease) -> f64 {
    let end: Option<f64> = server.command(&["ZSCORE", "wg:{00}:in:leases", lease.lane.as_str()]).await;
    end.unwrap_or_default()
}

#[tokio::test]
async fn renewals_go_on_after_an_outage_and_leave_a_lost_lease_alone() {
    let server = RedisServer::spawn(&[]);
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], server.port()))).await;
    let url = Secret::new(format!("redis://{}", proxy.address()));
    let store: SharedStore = RedisStore::open(&url, 1).expect("open");
    let other = open(&server, 1);
    for sender in ["kept", "taken"] {
        enqueue(&store, arrival("chat", sender, sender, sender)).await;
    }
    let mut claimed = store.claim_messages(2, BRIEF).await.expect("claim").items;
    claimed.sort_by_key(|item| item.message.request_id.clone());
    let [kept, taken] = &claimed[..] else { panic!("{claimed:?}") };
    let held = HeldLeases::new(store.clone(), Side::In, BRIEF);
    let (_one, _two) = (held.hold(kept.lease.clone()), held.hold(taken.lease.clone()));
    let stop = CancellationToken::new();
    let renewing = tokio::spawn({
        let (held, stop) = (held.clone(), stop.clone());
        async move { held.renew_until(&stop).await }
    });

    // A renewal, and with it the store: it can't be reached until both leases are over.
    proxy.refuse(true);
    proxy.arm(kept.lease.id.as_bytes(), Fault::CutRequest(0));
    proxy.struck(1).await;
    // Another gateway takes one of the lanes meanwhile; the other one is given back, as found.
    let theirs = patiently(async {
        loop {
            for item in other.claim_messages(1, LONG).await.expect("claim").items {
                if item.message.request_id == "taken" {
                    return item;
                }
                // Put back as it was: ended, and still its first holder's.
                let _: u64 =
                    server.command(&["HSET", "wg:{00}:in:holders", kept.lease.lane.as_str(), &kept.lease.id]).await;
                let _: u64 = server.command(&["ZADD", "wg:{00}:in:leases", "1", kept.lease.lane.as_str()]).await;
            }
            pass(Duration::from_millis(5)).await;
        }
    })
    .await;
    let before = lease_end(&server, &kept.lease).await;
    let theirs_until = lease_end(&server, &theirs.lease).await;
    proxy.refuse(false);
    patiently(async {
        while lease_end(&server, &kept.lease).await <= before {
            pass(Duration::from_millis(5)).await;
        }
    })
    .await;

    // Both were in one batch, so by now the lost one was refused; it neither commits nor costs its new holder anything.
    assert_eq!(lease_end(&server, &theirs.lease).await, theirs_until);
    assert_eq!(finish(&store, commit(taken, vec![reply("taken", "chat", 0, "late")])).await, Committed::Lost);
    assert_eq!(finish(&store, commit(kept, vec![])).await, Committed::Done);
    assert_eq!(finish(&other, commit(&theirs, vec![])).await, Committed::Done);
    stop.cancel();
    renewing.await.expect("it stops");
}
