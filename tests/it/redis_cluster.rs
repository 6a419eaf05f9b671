//! A Redis Cluster of three real servers, gone with its handle.

use std::time::Duration;

use wecom_gateway::model::Secret;

use crate::redis_server::{FREE_PORT, RedisServer};

/// The slots of each node.
const SLOTS: [(&str, &str); 3] = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
/// How long it may take to come together.
const PATIENCE: Duration = Duration::from_secs(60);

/// Masters without replicas; one that is away takes its own slots along and no others.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one and waits until all of its nodes know each other.
    pub async fn start() -> Self {
        let node = |_: &_| {
            RedisServer::spawn(&[
                "--cluster-enabled",
                "yes",
                "--cluster-port",
                FREE_PORT,
                "--cluster-node-timeout",
                "2000",
                "--cluster-require-full-coverage",
                "no",
            ])
        };
        let nodes: Vec<RedisServer> = SLOTS.iter().map(node).collect();
        for (node, (first, last)) in nodes.iter().zip(SLOTS) {
            let _: () = node.command(&["CLUSTER", "ADDSLOTSRANGE", first, last]).await;
            let (port, bus) = (node.port().to_string(), node.free_port(0).to_string());
            let _: () = nodes[0].command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).await;
        }
        let cluster = Self { nodes };
        let comes_together = async { while !cluster.is_whole().await {} };
        tokio::time::timeout(PATIENCE, comes_together).await.expect("its nodes know each other");
        cluster
    }

    /// Whether every node knows a place for every slot, and where it is.
    pub async fn is_whole(&self) -> bool {
        for node in &self.nodes {
            let info: String = node.command(&["CLUSTER", "INFO"]).await;
            let has = |line: &str| info.lines().any(|found| found.trim() == line);
            if !has("cluster_state:ok") || !has("cluster_slots_ok:16384") || !has("cluster_size:3") {
                tokio::time::sleep(Duration::from_millis(20)).await;
                return false;
            }
        }
        true
    }

    /// Its address, as `store.redis` has it.
    pub fn url(&self) -> Secret {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        Secret::new(format!("redis+cluster://{}", hosts.join(",")))
    }
}
