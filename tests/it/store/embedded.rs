//! The contract on the embedded store.

use std::sync::Arc;

use async_trait::async_trait;
use wecom_gateway::store::SharedStore;
use wecom_gateway::store::embedded::EmbeddedStore;

use super::Fixture;

const SHARDS: u16 = 16;

/// A store in a folder that goes with it.
struct Embedded {
    store: Arc<EmbeddedStore>,
    folder: tempfile::TempDir,
}

async fn open() -> Embedded {
    let folder = tempfile::tempdir().expect("a folder");
    Embedded { store: EmbeddedStore::open(folder.path(), SHARDS).expect("open"), folder }
}

#[async_trait]
impl Fixture for Embedded {
    fn store(&self) -> SharedStore {
        self.store.clone()
    }
    async fn reopen(&self) -> SharedStore {
        EmbeddedStore::open(self.folder.path(), SHARDS).expect("open again")
    }
    /// One file, one order of turns.
    fn shards(&self) -> u16 {
        1
    }
}

super::contract_suite!(open);
