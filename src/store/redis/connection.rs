//! The connection: one multiplexed connection for commands, one for those that wait for replicas (where that is asked for)
//! and one for wake-ups, remade together whenever one breaks. What leads to it is `address`'s.
//!
//! A keeper task owns them. While there is no connection, calls fail at once; while one is being made, they wait for it,
//! no longer than connecting may take. Every command has a time limit, after which it may or may not have been applied.
//! A connection is given up on I/O errors, on a command that got no answer (a silent server keeps its socket open) and
//! on a server that only reads (a failover left us on the old master). That to a Cluster finds its way by itself at first, because
//! one node's trouble is not the others', and is given up where that takes long. Reconnecting backs off up to a second, with jitter.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::{MultiplexedConnection, PubSubStream};
use redis::{AsyncCommands, ErrorKind, RedisError, Value};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::address::{Address, Connection, Reached, config};
use super::keys::{META, SHARDS, WAKE};
use super::replicas::Replicas;
use super::scripts::Verb;
use crate::model::Secret;
use crate::store::{Result, Side, StoreError, Wakeups};

/// How long connecting may take, handshake and first command included.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// How long a command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(2);
/// The waits between attempts to connect.
const BACK_OFF: std::ops::RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(1);
/// How long a connection to a Cluster is kept at least: it finds its way around a node that went, but not around a silent one, and
/// is not to be remade for every call that meets one meanwhile.
const CLUSTER_KEPT: Duration = Duration::from_secs(3);
/// After so long without traffic the kernel asks whether the other end still lives.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(15);

/// Where the connection stands.
enum State {
    /// It is being made.
    Connecting,
    /// It works.
    Up(Up),
    /// The last attempt failed; the next one is due within the back-off.
    Down(Down),
}

impl State {
    /// Whether a call need not wait for another one.
    fn is_settled(&self) -> bool {
        match self {
            Self::Connecting => false,
            Self::Up(up) => !up.broken.is_cancelled(),
            Self::Down(_) => true,
        }
    }
}

/// A working connection.
#[derive(Clone)]
struct Up {
    connection: Connection,
    /// For steps that wait for replicas.
    waiting: MultiplexedConnection,
    /// Trouble is no reason to give it up before.
    kept_until: Instant,
    /// Cancelled by the call that finds it broken; nobody takes it from then on.
    broken: CancellationToken,
}

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq)]
enum Down {
    /// The server is away.
    Unavailable(String),
    /// The server belongs to a store of another shape, or does not let us in.
    Refused(String),
}

impl fmt::Display for Down {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unavailable(why) | Self::Refused(why)) = self;
        f.write_str(why)
    }
}

impl From<RedisError> for Down {
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some("NOAUTH" | "WRONGPASS") => Self::Refused(
                "redis asks for another password: write redis://[user]:password@host:port in store.redis".into(),
            ),
            // Without a user, an old server answers a password that it does not want by ERR.
            _ if error.kind() == ErrorKind::AuthenticationFailed => {
                Self::Refused("redis does not take the password of store.redis: mend it there".into())
            }
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<Down> for StoreError {
    fn from(down: Down) -> Self {
        match down {
            Down::Unavailable(why) => Self::Unavailable(why),
            Down::Refused(why) => Self::Refused(why),
        }
    }
}

/// The shard count that the data there is laid out for; none where there is no data. It is asked as a store would connect, and
/// nothing is changed.
///
/// # Errors
/// As a store's that can't connect.
pub async fn shards_at(url: &Secret) -> Result<Option<u16>> {
    let address = address(url)?;
    let asked = timeout(CONNECT_LIMIT, async { address.reach().await?.connection.hget(META, SHARDS).await });
    match asked.await {
        Ok(answer) => answer.map_err(|error| Down::from(error).into()),
        Err(_) => Err(StoreError::Unavailable("connecting takes too long".into())),
    }
}

fn address(url: &Secret) -> Result<Address> {
    Address::parse(url.expose()).map_err(|why| StoreError::Refused(format!("store.redis: {why}")))
}

/// What a store says whose shards are not those of the data.
pub fn laid_out_otherwise(wanted: u16, there: u16) -> StoreError {
    StoreError::Refused(format!(
        "store.shards is {wanted}, but the data in redis was laid out for {there}: set it back"
    ))
}

/// The store's link to its server.
pub(super) struct Link {
    state: watch::Receiver<State>,
    shards: u16,
    replicas: Replicas,
    _keeper: AbortOnDropHandle<()>,
}

impl Link {
    /// Starts connecting in the background. Fails only when the URL can't be read.
    pub fn open(url: &Secret, shards: u16, replicas: u32, wakeups: Arc<Wakeups>) -> Result<Self> {
        let address = address(url)?;
        let (changes, state) = watch::channel(State::Connecting);
        let keeper = Keeper { address, shards, replicas, wakeups, has_agreed: false, changes };
        let replicas = Replicas::new(replicas);
        Ok(Self { state, shards, replicas, _keeper: AbortOnDropHandle::new(tokio::spawn(keeper.run())) })
    }

    /// Runs a script on the shard that `prefix` names.
    pub async fn run(&self, verb: &'static Verb, prefix: &str, args: &[String]) -> Result<Value> {
        if verb.waits_for_replicas && self.replicas.are_wanted() {
            return self.run_and_wait(verb, prefix, args).await;
        }
        let mut invocation = verb.script.prepare_invoke();
        invocation.key(prefix).arg(args);
        let mut up = self.up().await?;
        let answer = timeout(COMMAND_LIMIT, invocation.invoke_async(&mut up.connection)).await;
        up.judge(verb.name, answer)
    }

    async fn run_and_wait(&self, verb: &'static Verb, prefix: &str, args: &[String]) -> Result<Value> {
        let mut step = redis::cmd("EVALSHA");
        step.arg(verb.script.get_hash()).arg(1).arg(prefix).arg(args);
        let mut turn = self.replicas.turn().await;
        let mut up = self.up().await?;
        let answer = timeout(COMMAND_LIMIT, turn.run(&mut up.waiting, verb, step)).await;
        Ok(up.judge(verb.name, answer)??)
    }

    /// Whether the server takes writes and is ours, and has the replicas that are asked for.
    pub async fn ping(&self) -> Result<()> {
        let mut up = self.up().await?;
        let written = timeout(COMMAND_LIMIT, remember_shards(&mut up.connection, self.shards)).await;
        up.judge("ping", written)?;
        if self.replicas.are_wanted() {
            let mut turn = self.replicas.turn().await;
            let enough = timeout(COMMAND_LIMIT, turn.look(&mut up.waiting)).await;
            up.judge("ping", enough)??;
        }
        Ok(())
    }

    /// The connection, or why there is none.
    async fn up(&self) -> Result<Up> {
        let mut state = self.state.clone();
        let settled = timeout(CONNECT_LIMIT, state.wait_for(State::is_settled)).await;
        match settled.as_ref().map(|state| state.as_deref()) {
            Ok(Ok(State::Up(up))) => Ok(up.clone()),
            Ok(Ok(State::Down(why))) => Err(why.clone().into()),
            Ok(Ok(State::Connecting) | Err(_)) | Err(_) => {
                Err(StoreError::Unavailable("connecting takes too long".into()))
            }
        }
    }
}

impl Up {
    /// Has the connection remade, unless it may still find its way by itself.
    fn give_up(&self) {
        if Instant::now() >= self.kept_until {
            self.broken.cancel();
        }
    }

    /// Maps what a command brought, and gives the connection up where that speaks against it.
    fn judge<T>(
        &self,
        name: &str,
        answer: std::result::Result<redis::RedisResult<T>, tokio::time::error::Elapsed>,
    ) -> Result<T> {
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => {
                if error.is_io_error() || error.is_unrecoverable_error() || error.code() == Some("READONLY") {
                    self.give_up();
                }
                Err(of_redis(name, &error))
            }
            Err(_) => {
                self.give_up();
                Err(StoreError::Unavailable(format!("{name}: no answer within {COMMAND_LIMIT:?}")))
            }
        }
    }
}

/// What an error says about the store.
fn of_redis(name: &str, error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => of_server(name, code, error.detail().unwrap_or_default()),
        None => StoreError::Unavailable(format!("{name}: {error}")),
    }
}

/// What an error that the server answered says about the store: trouble that passes, or nonsense.
pub(super) fn of_server(name: &str, code: &str, detail: &str) -> StoreError {
    let hint = if code == "MOVED" { " (it is a node of a Cluster: write redis+cluster:// in store.redis)" } else { "" };
    let text = format!("{name}: {code} {detail}{hint}");
    match code {
        "LOADING" | "BUSY" | "OOM" | "MISCONF" | "READONLY" | "NOREPLICAS" | "MASTERDOWN" | "CLUSTERDOWN"
        | "TRYAGAIN" | "MOVED" | "ASK" | "NOAUTH" | "NOPERM" | "WRONGPASS" | "NOSCRIPT" => {
            StoreError::Unavailable(text)
        }
        _ => StoreError::Corrupt(text),
    }
}

/// Sets the shard count where there is none yet. A write, so it also tells whether the server takes writes; it changes nothing
/// once the count stands.
async fn remember_shards(connection: &mut Connection, shards: u16) -> redis::RedisResult<()> {
    connection.hset_nx::<_, _, _, bool>(META, SHARDS, shards).await.map(drop)
}

/// The shard count that holds; `shards` where there is none yet. A server that only reads is told here. One that is full refuses
/// the write and serves all the same: nothing but the work that waits there makes room.
async fn agreed_shards(connection: &mut Connection, shards: u16) -> redis::RedisResult<u16> {
    // One after the other: an error of a pipeline hides the server's own word.
    let remembered = remember_shards(connection, shards).await;
    let kept: Option<u16> = connection.hget(META, SHARDS).await?;
    match (kept, remembered) {
        (Some(kept), Err(error)) if error.code() == Some("OOM") => Ok(kept),
        // A server that was emptied between the two holds nothing that is laid out otherwise.
        (kept, remembered) => remembered.map(|()| kept.unwrap_or(shards)),
    }
}

/// Logs what an ack outlives under the server's own settings. Hosted servers may not tell them.
async fn say_what_it_survives(connection: &mut MultiplexedConnection, replicas: u32) {
    if replicas > 0 {
        tracing::info!(
            replicas,
            "acks and sends wait for replicas: they survive a master whose place one of those takes"
        );
    }
    let names = ["appendonly", "appendfsync", "maxmemory-policy"];
    let asked = redis::cmd("CONFIG").arg("GET").arg(&names).query_async::<HashMap<String, String>>(connection).await;
    let Ok(settings) = asked else {
        tracing::warn!("redis does not tell its settings: what an ack survives depends on them");
        return;
    };
    let setting = |name: &str| settings.get(name).map_or("", String::as_str);
    match (setting("appendonly"), setting("appendfsync")) {
        ("yes", "always") => tracing::info!("redis syncs before it answers: an ack survives a crash of redis"),
        ("yes", "everysec") => tracing::warn!("redis syncs each second: its crash may lose the last second's acks"),
        ("yes", _) => tracing::warn!("redis leaves syncing to the system: a crash of the machine may lose acks"),
        _ => tracing::warn!("redis keeps no append-only file: its crash loses acks; set appendonly yes"),
    }
    match setting("maxmemory-policy") {
        "" | "noeviction" => {}
        policy => tracing::warn!(policy, "redis may evict queues and marks; set maxmemory-policy noeviction"),
    }
}

/// Makes and remakes the connection.
struct Keeper {
    address: Address,
    shards: u16,
    replicas: u32,
    wakeups: Arc<Wakeups>,
    /// Whether a server said that the data there is laid out as it should be.
    has_agreed: bool,
    changes: watch::Sender<State>,
}

impl Keeper {
    async fn run(mut self) {
        let mut back_off = *BACK_OFF.start();
        loop {
            let started = Instant::now();
            let connected = timeout(CONNECT_LIMIT, self.connect()).await;
            match connected.unwrap_or_else(|_| Err(Down::Unavailable("connecting takes too long".into()))) {
                Ok((up, signals)) => {
                    tracing::info!("connected to redis");
                    self.watch(up, signals).await;
                    tracing::warn!("the connection to redis broke");
                    self.changes.send_replace(State::Connecting);
                }
                Err(why) => self.tell(why),
            }
            // A connection that lasted says that the server is well: no need to wait.
            if started.elapsed() > *BACK_OFF.end() {
                back_off = *BACK_OFF.start();
            }
            sleep(back_off.mul_f64(rand::random_range(0.5..1.0))).await;
            back_off = (back_off * 2).min(*BACK_OFF.end());
        }
    }

    /// Tells why there is no connection; an outage is logged once, not at every attempt.
    fn tell(&self, why: Down) {
        let known = matches!(&*self.changes.borrow(), State::Down(known) if *known == why);
        if !known {
            tracing::warn!(%why, "redis can't be used");
            self.changes.send_replace(State::Down(why));
        }
    }

    /// Lends a connection out until a call or the end of the signals says that it is broken.
    async fn watch(&self, up: Up, mut signals: PubSubStream) {
        let broken = up.broken.clone();
        self.changes.send_replace(State::Up(up));
        // What was signalled while we were away is lost: look at everything once.
        self.wakeups.wake(Side::In);
        self.wakeups.wake(Side::Out);
        loop {
            tokio::select! {
                () = broken.cancelled() => return,
                signal = signals.next() => match signal {
                    Some(signal) if signal.get_payload_bytes() == b"in" => self.wakeups.wake(Side::In),
                    Some(_) => self.wakeups.wake(Side::Out),
                    None => return,
                },
            }
        }
    }

    async fn connect(&mut self) -> std::result::Result<(Up, PubSubStream), Down> {
        let Reached { mut connection, node, mut asked, mends_itself } = self.address.reach().await?;
        // The node of a Cluster that knows may be the one that is away: then what was agreed on before holds.
        if !(mends_itself && self.has_agreed) {
            let agreed = agreed_shards(&mut connection, self.shards).await?;
            if agreed != self.shards {
                return Err(Down::Refused(laid_out_otherwise(self.shards, agreed).to_string()));
            }
            self.has_agreed = true;
        }
        say_what_it_survives(&mut asked, self.replicas).await;
        let waiting = match self.replicas {
            0 => asked,
            _ => node.get_multiplexed_async_connection_with_config(&config()).await?,
        };
        let mut signals = node.get_async_pubsub().await?;
        signals.subscribe(WAKE).await?;
        let kept_until = Instant::now() + if mends_itself { CLUSTER_KEPT } else { Duration::ZERO };
        Ok((Up { connection, waiting, kept_until, broken: CancellationToken::new() }, signals.into_on_message()))
    }
}
