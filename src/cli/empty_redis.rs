//! A Redis database for a demo, taken only where it is empty.

use anyhow::{anyhow, bail};

/// A Redis database that held nothing when the demo began, so that all it holds at the end is the demo's.
pub(super) struct EmptyRedis {
    connection: redis::aio::MultiplexedConnection,
}

impl EmptyRedis {
    /// Refuses a database that holds anything: it may be a real gateway's.
    pub(super) async fn take(url: &str) -> anyhow::Result<Self> {
        // The address may hold a password and is not repeated.
        let client = redis::Client::open(url).map_err(|_| anyhow!("--redis: not a redis:// address"))?;
        let mut connection = client
            .get_multiplexed_async_connection()
            .await
            .map_err(|error| failed("the server can't be reached", &error))?;
        let keys: u64 =
            redis::cmd("DBSIZE").query_async(&mut connection).await.map_err(|error| failed("DBSIZE failed", &error))?;
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
                scan.query_async(&mut self.connection).await.map_err(|error| failed("SCAN failed", &error))?;
            if !keys.is_empty() {
                let unlink = redis::cmd("UNLINK").arg(keys).to_owned();
                let _: u64 =
                    unlink.query_async(&mut self.connection).await.map_err(|error| failed("UNLINK failed", &error))?;
            }
            cursor = next;
            if cursor == 0 {
                return Ok(());
            }
        }
    }
}

/// An error of the client says what its source says, so that as a cause it would be told twice.
fn failed(what: &str, error: &redis::RedisError) -> anyhow::Error {
    anyhow!("--redis: {what} ({error})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_is_not_there_is_told_once() {
        // Bound and given up again: nobody listens there.
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let Err(error) = EmptyRedis::take(&format!("redis://{closed}")).await else { panic!("nobody is there") };
        let told = format!("{error:#}");
        assert!(
            told.starts_with("--redis: the server can't be reached (") && told.matches("os error").count() == 1,
            "{told}"
        );
    }
}
