//! The contract on a Redis Cluster: the same steps, each shard on the node that has its slot. And what a node that goes away
//! costs: its own shards, until it is back.

use std::sync::Weak;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::*;
use crate::redis_cluster::RedisCluster;

/// As few as a Cluster may have.
const SHARDS: u16 = 16;

/// One for all cases, which take turns: to start one takes longer than most of them.
static SHARED: Mutex<Weak<Shared>> = Mutex::const_new(Weak::new());

struct Shared {
    cluster: RedisCluster,
    turn: Arc<Mutex<()>>,
}

/// A store on the Cluster, which is empty at first and nobody else's meanwhile.
struct OnCluster {
    store: SharedStore,
    shared: Arc<Shared>,
    _turn: OwnedMutexGuard<()>,
}

fn open_at(cluster: &RedisCluster, options: impl Into<Options>) -> SharedStore {
    RedisStore::open(&cluster.url(), options).expect("open")
}

async fn make() -> OnCluster {
    let mut known = SHARED.lock().await;
    let shared = match known.upgrade() {
        Some(shared) => shared,
        None => Arc::new(Shared { cluster: RedisCluster::start().await, turn: Arc::default() }),
    };
    *known = Arc::downgrade(&shared);
    drop(known);
    let turn = shared.turn.clone().lock_owned().await;
    for node in &shared.cluster.nodes {
        let _: () = node.command(&["FLUSHALL"]).await;
    }
    OnCluster { store: open_at(&shared.cluster, SHARDS), shared, _turn: turn }
}

#[async_trait]
impl Fixture for OnCluster {
    fn store(&self) -> SharedStore {
        self.store.clone()
    }
    async fn reopen_as(&self, options: Options) -> SharedStore {
        open_at(&self.shared.cluster, Options { shards: SHARDS, ..options })
    }
    async fn turn_back(&self, by: Duration) {
        for node in &self.shared.cluster.nodes {
            let _: () = node.command(&["EVAL", TURN_BACK, "0", &by.as_millis().to_string()]).await;
        }
    }
    fn shards(&self) -> u16 {
        SHARDS
    }
}

crate::store::suite::contract_suite!(make);

/// A chat of each node, by where the Cluster has the slot of its shard.
async fn chat_of_each(cluster: &RedisCluster) -> Vec<String> {
    let mut chats = vec![None; cluster.nodes.len()];
    for chat in (0..).map(|i| format!("chat{i:05}")) {
        let key = format!("wg:{{{:02}}}:", Lane::of_chat(APP, &chat).shard(SHARDS));
        let slot: u32 = cluster.nodes[0].command(&["CLUSTER", "KEYSLOT", &key]).await;
        chats[usize::from(slot > 5460) + usize::from(slot > 10922)].get_or_insert(chat);
        if chats.iter().all(Option::is_some) {
            break;
        }
    }
    chats.into_iter().flatten().collect()
}

#[tokio::test]
async fn a_node_that_goes_away_takes_its_own_shards_along_until_it_is_back() {
    let mut cluster = RedisCluster::start().await;
    let store = open_at(&cluster, SHARDS);
    let chats = chat_of_each(&cluster).await;
    for (n, chat) in chats.iter().enumerate() {
        enqueue(&store, arrival(chat, "u", &format!("m{n}"), &format!("r{n}"))).await;
    }
    let claimed = patiently(store.claim_messages(10, LONG)).await.expect("claims");
    assert_eq!(claimed.items.len(), 3);
    // The signals come by the first node: another one is taken.
    cluster.nodes[2].kill();
    for (chat, works) in chats.iter().zip([true, true, false]) {
        let answer = patiently(store.enqueue(vec![arrival(chat, "v", "later", chat)])).await;
        match answer {
            Ok(answers) => assert!(works && answers == [Enqueued::Stored], "{chat}: {answers:?}"),
            Err(error) => assert!(!works && error.is_transient(), "{chat}: {error:?}"),
        }
    }
    cluster.nodes[2].restart();
    // Without a log of its own that node is empty now.
    patiently(async {
        while store.enqueue(vec![arrival(&chats[2], "v", "later", "r-later")]).await.is_err() {
            pass(Duration::from_millis(20)).await;
        }
    })
    .await;
    let commits = claimed.items.iter().map(|item| commit(item, vec![])).collect();
    let mut committed = store.commit(commits).await.expect("commits");
    committed.sort_by_key(|committed| *committed != Committed::Done);
    assert_eq!(committed, [Committed::Done, Committed::Done, Committed::Lost]);
}
