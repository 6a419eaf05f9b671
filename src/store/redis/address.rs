//! Where Redis is (`store.redis`), and how to get there: a server by its address, the master that sentinels name, or the nodes of
//! a Cluster.
//!
//! What always holds: whoever is reached takes writes as far as it knows itself, and no error tells the password.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, select_ok};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, IntoConnectionInfo, Pipeline,
    RedisError, RedisFuture, RedisResult, Value,
};

use super::connection::KEEPALIVE;

/// The port of a sentinel that names none.
const SENTINEL_PORT: u16 = 26379;
/// How often a Cluster's client tries a command that another node has by now, or that met a broken connection. Repeats are
/// harmless: every script knows its own.
const TRIES: u32 = 4;
/// The longest pause between two of those, in ms.
const LONGEST_PAUSE: u64 = 200;
/// How long a Cluster's client waits for one node, to connect and to answer. While it finds its way around a node that is silent,
/// what is for the others waits too, so this is short: several tries fit into the time that a command has.
const NODE_CONNECTS: Duration = Duration::from_millis(300);
const NODE_ANSWERS: Duration = Duration::from_millis(500);

/// What `store.redis` says.
#[derive(Clone)]
pub struct Address(Place);

#[derive(Clone)]
enum Place {
    Server(ConnectionInfo),
    Sentinels {
        sentinels: Vec<ConnectionInfo>,
        /// The name of the master.
        master: String,
        /// How it is talked to, wherever it is.
        as_server: ConnectionInfo,
    },
    /// Some of its nodes.
    Cluster(Vec<ConnectionInfo>),
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Place::Server(_) => "a Redis server",
            Place::Sentinels { .. } => "a Redis master that sentinels name",
            Place::Cluster(_) => "a Redis Cluster",
        })
    }
}

/// Why a text is no address, and what to write; it never holds the text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAddress(&'static str);

const SERVER: NoAddress = NoAddress(
    "is no Redis address: write redis://host:port, or redis://:password@host:port/db with the password percent-encoded; rediss:// is \
     the same by TLS",
);
const CLUSTER: NoAddress = NoAddress(
    "is no address of a Redis Cluster: write redis+cluster://host:port,host:port, after // [user]:password@ where it asks for one \
     (percent-encoded), without a database; rediss+cluster:// is the same by TLS",
);
const SENTINEL: NoAddress = NoAddress(
    "is no address of Redis sentinels: write redis+sentinel://host:port,host:port/db?master=name, after // [user]:password@ where the \
     master asks for one (percent-encoded); rediss+sentinel:// is the same by TLS",
);

impl Address {
    /// Reads `redis[s]://[[user]:password@]host[:port][/db]`, `redis[s]+cluster://[…@]host[:port],…` or
    /// `redis[s]+sentinel://[…@]host[:port],…[/db]?master=name`.
    ///
    /// # Errors
    /// Where it is none of them.
    pub fn parse(text: &str) -> Result<Self, NoAddress> {
        let (scheme, rest) = text.split_once("://").ok_or(SERVER)?;
        match scheme {
            "redis" | "rediss" if rest.contains("?master=") => Err(SENTINEL),
            "redis" | "rediss" => server(text).map(Place::Server).ok_or(SERVER),
            "redis+cluster" | "rediss+cluster" => Hosts::of(scheme, rest).and_then(Hosts::cluster).ok_or(CLUSTER),
            "redis+sentinel" | "rediss+sentinel" => Hosts::of(scheme, rest).and_then(Hosts::sentinels).ok_or(SENTINEL),
            _ => Err(SERVER),
        }
        .map(Self)
    }

    /// Whether it is a Cluster, where each shard is on a node of its own choice.
    pub fn is_cluster(&self) -> bool {
        matches!(self.0, Place::Cluster(_))
    }

    /// Connects.
    pub(super) async fn reach(&self) -> RedisResult<Reached> {
        match &self.0 {
            Place::Server(server) => Reached::server(Client::open(server.clone())?).await,
            Place::Sentinels { sentinels, master, as_server } => {
                let (host, port) = first_of(sentinels, |sentinel| ask(sentinel, master).boxed()).await?;
                let address = match as_server.addr() {
                    ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                        ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
                    }
                    _ => ConnectionAddr::Tcp(host, port),
                };
                let mut reached = Reached::server(Client::open(as_server.clone().set_addr(address))?).await?;
                is_master(&mut reached.connection).await?;
                Ok(reached)
            }
            Place::Cluster(nodes) => {
                // First, because it says plainly what is wrong with a login.
                let (node, asked) = first_of(nodes, |node| talk_to(node).boxed()).await?;
                let client = ClusterClient::builder(nodes.clone())
                    .connection_timeout(NODE_CONNECTS)
                    .response_timeout(NODE_ANSWERS)
                    .retries(TRIES)
                    .max_retry_wait(LONGEST_PAUSE)
                    .tcp_settings(tcp_settings())
                    .build()?;
                let connection = Connection::Cluster(client.get_async_connection().await?);
                Ok(Reached { connection, node, asked, mends_itself: true })
            }
        }
    }
}

/// What an address led to.
pub(super) struct Reached {
    /// For scripts.
    pub connection: Connection,
    /// One server by itself: the only one, or any node of the Cluster.
    pub node: Client,
    /// A connection to it.
    pub asked: MultiplexedConnection,
    /// Whether the connection finds its way back by itself, so that trouble with one node is no reason to give it up.
    pub mends_itself: bool,
}

impl Reached {
    async fn server(node: Client) -> RedisResult<Self> {
        let asked = node.get_multiplexed_async_connection_with_config(&config()).await?;
        Ok(Self { connection: Connection::Server(asked.clone()), node, asked, mends_itself: false })
    }
}

/// Where scripts run.
#[derive(Clone)]
pub(super) enum Connection {
    Server(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(server) => server.req_packed_command(command),
            Self::Cluster(cluster) => cluster.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(commands, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(server) => server.get_db(),
            Self::Cluster(cluster) => cluster.get_db(),
        }
    }
}

/// Our own limits hold for a single server; the library's would hide which one it was.
pub(super) fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None)
}

/// Nagle's algorithm off: commands are small and each is waited for.
fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 3).with_retries(3);
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive)
}

fn server(url: &str) -> Option<ConnectionInfo> {
    Some(url.into_connection_info().ok()?.set_tcp_settings(tcp_settings()))
}

/// An address of several hosts, in its parts.
struct Hosts<'t> {
    /// `redis` or `rediss`.
    scheme: &'t str,
    /// With its `@`, or empty.
    login: &'t str,
    hosts: Vec<&'t str>,
    /// Without its `/`.
    database: &'t str,
    /// Without its `?`.
    query: &'t str,
}

impl<'t> Hosts<'t> {
    fn of(scheme: &'t str, rest: &'t str) -> Option<Self> {
        let (scheme, _) = scheme.split_once('+')?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (login, rest) = rest.split_at(rest.rfind('@').map_or(0, |at| at + 1));
        let (hosts, database) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).collect();
        let of_host = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
        let is_whole = hosts.iter().all(|host| !host.is_empty() && host.chars().all(of_host));
        // One login for all, in front of the first.
        (is_whole && !login.contains(',')).then_some(Self { scheme, login, hosts, database, query })
    }

    fn cluster(self) -> Option<Place> {
        if !self.database.is_empty() || !self.query.is_empty() {
            return None;
        }
        let node = |host: &&str| server(&format!("{}://{}{host}", self.scheme, self.login));
        self.hosts.iter().map(node).collect::<Option<_>>().map(Place::Cluster)
    }

    fn sentinels(self) -> Option<Place> {
        let mut pairs = url::form_urlencoded::parse(self.query.as_bytes());
        let master = match (pairs.next(), pairs.next()) {
            (Some((name, master)), None) if name == "master" && !master.is_empty() && !master.contains('?') => {
                master.into_owned()
            }
            _ => return None,
        };
        let sentinel = |host: &&str| {
            let names_port = host.rsplit(']').next().is_some_and(|end| end.contains(':'));
            let port = if names_port { String::new() } else { format!(":{SENTINEL_PORT}") };
            server(&format!("{}://{host}{port}", self.scheme))
        };
        let sentinels = self.hosts.iter().map(sentinel).collect::<Option<Vec<_>>>()?;
        let as_server = server(&format!("{}://{}{}/{}", self.scheme, self.login, self.hosts.first()?, self.database))?;
        Some(Place::Sentinels { sentinels, master, as_server })
    }
}

/// What the first of several answers; they are asked at once, for one that is away may take its time to say so.
async fn first_of<'a, T>(
    servers: &'a [ConnectionInfo],
    ask: impl Fn(&'a ConnectionInfo) -> BoxFuture<'a, RedisResult<T>>,
) -> RedisResult<T> {
    select_ok(servers.iter().map(ask)).await.map(|(answer, _)| answer)
}

async fn talk_to(server: &ConnectionInfo) -> RedisResult<(Client, MultiplexedConnection)> {
    let client = Client::open(server.clone())?;
    let connection = client.get_multiplexed_async_connection_with_config(&config()).await?;
    Ok((client, connection))
}

/// Where a sentinel says that the master is.
async fn ask(sentinel: &ConnectionInfo, master: &str) -> RedisResult<(String, u16)> {
    let (_, mut connection) = talk_to(sentinel).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(master);
    let answer: Option<(String, u16)> = question.query_async(&mut connection).await?;
    answer.ok_or_else(|| unusable("the sentinels of store.redis know no master of this name"))
}

/// What a sentinel says may be a moment old.
async fn is_master(connection: &mut Connection) -> RedisResult<()> {
    let role: Vec<Value> = redis::cmd("ROLE").query_async(connection).await?;
    match role.into_iter().next().map(redis::from_redis_value::<String>).transpose()?.as_deref() {
        Some("master") => Ok(()),
        _ => Err(unusable("the server that the sentinels of store.redis name is no master (any more)")),
    }
}

fn unusable(why: &'static str) -> RedisError {
    (ErrorKind::InvalidClientConfig, why).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> String {
        Address::parse(text).map_or_else(|why| why.to_string(), |address| format!("{address:?}"))
    }

    #[test]
    fn every_form_is_read() {
        for text in ["redis://h", "rediss://h:7", "redis://:p%40w@h:6379/2", "redis://u:p@[::1]:6379"] {
            assert_eq!(kind(text), "a Redis server", "{text}");
        }
        for text in ["redis+cluster://h1,h2:7", "rediss+cluster://:p@h1:1,h2:2, [::1]:3", "redis+cluster://u:p%2C@h"] {
            assert_eq!(kind(text), "a Redis Cluster", "{text}");
        }
        for text in [
            "redis+sentinel://h1,h2:7/?master=m",
            "redis+sentinel://:p@[::1]/3?master=m",
            "rediss+sentinel://h?master=m",
        ] {
            assert_eq!(kind(text), "a Redis master that sentinels name", "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused_by_its_kind_and_told_without_its_password() {
        for (texts, why) in [
            (&["", "h:6379", "http://h", "redis://", "redis://h:x", "valkey://h", "redis+other://h"][..], SERVER),
            (&["redis+cluster://", "redis+cluster://h1,,h2", "redis+cluster://h/1", "redis+cluster://h?a=b"], CLUSTER),
            (&["redis+cluster://h1;h2", "redis+cluster://h1:1,u:p@h2:1"], CLUSTER),
            (&["redis://h?master=m", "redis+sentinel://h?master=m?master=n"], SENTINEL),
            (
                &[
                    "redis+sentinel://h",
                    "redis+sentinel://h?master=",
                    "redis+sentinel://h/x?master=m",
                    "redis+sentinel://?master=m",
                ],
                SENTINEL,
            ),
        ] {
            for text in texts {
                assert_eq!(Address::parse(text).unwrap_err(), why, "{text}");
            }
        }
        assert!(!format!("{:?}", Address::parse("redis+cluster://:hush@h1,h2")).contains("hush"));
    }

    #[test]
    fn hosts_share_the_login_and_sentinels_get_none() {
        let Place::Cluster(nodes) = Address::parse("rediss+cluster://u:p%40@h1:1,h2").unwrap().0 else { panic!() };
        let login = |info: &ConnectionInfo| {
            (info.redis_settings().username().map(str::to_owned), info.redis_settings().password().map(str::to_owned))
        };
        assert_eq!(nodes.iter().map(|node| node.addr().to_string()).collect::<Vec<_>>(), ["h1:1", "h2:6379"]);
        assert!(nodes.iter().all(|node| login(node) == (Some("u".into()), Some("p@".into()))));
        let address = Address::parse("redis+sentinel://:p@h1,h2:7/3?master=my%20one").unwrap();
        let Place::Sentinels { sentinels, master, as_server } = address.0 else { panic!() };
        assert_eq!(sentinels.iter().map(|one| one.addr().to_string()).collect::<Vec<_>>(), ["h1:26379", "h2:7"]);
        assert!(sentinels.iter().all(|one| login(one) == (None, None)));
        assert_eq!(
            (master.as_str(), login(&as_server), as_server.redis_settings().db()),
            ("my one", (None, Some("p".into())), 3)
        );
    }
}
