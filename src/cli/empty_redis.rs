//! A Redis database for a demo, taken only where it is empty.

use anyhow::{Context, bail};

/// A Redis database that held nothing when the demo began, so that all it holds at the end is the demo's.
pub(super) struct EmptyRedis {
    connection: redis::aio::MultiplexedConnection,
}

impl EmptyRedis {
    /// Refuses a database that holds anything: it may be a real gateway's.
    pub(super) async fn take(url: &str) -> anyhow::Result<Self> {
        // The address may hold a password and is not repeated.
        let client = redis::Client::open(url).map_err(|_| anyhow::anyhow!("--redis: not a redis:// address"))?;
        let mut connection =
            client.get_multiplexed_async_connection().await.context("--redis: the server can't be reached")?;
        let keys: u64 = redis::cmd("DBSIZE").query_async(&mut connection).await.context("--redis: DBSIZE failed")?;
        if keys > 0 {
            bail!("--redis: the database holds {keys} keys; name an empty one, such as redis://host:6379/9");
        }
        Ok(Self { connection })
    }

    /// Removes the gateway's keys.
    pub(super) async fn give_back(mut self) -> anyhow::Result<()> {
        let mut cursor: u64 = 0;
        loop {
            let scan = redis::cmd("SCAN").arg(cursor).arg("MATCH").arg("wg:*").arg("COUNT").arg(1000).to_owned();
            let (next, keys): (u64, Vec<String>) =
                scan.query_async(&mut self.connection).await.context("SCAN failed")?;
            if !keys.is_empty() {
                let unlink = redis::cmd("UNLINK").arg(keys).to_owned();
                let _: u64 = unlink.query_async(&mut self.connection).await.context("UNLINK failed")?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}
