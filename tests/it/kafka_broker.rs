//! A real Kafka broker on free ports of 127.0.0.1: Apache Kafka's own, one node in KRaft mode, in a folder of its own, gone
//! with its last handle. Tests that run at once share one and have topics of their own: a JVM takes seconds to start.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use tempfile::TempDir;

use crate::redis_server::{free_port, said_in};

/// Where `scripts/test` puts the jars of `tests/kafka/pom.xml`.
const JARS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/target/kafka");
/// Tries to find ports that nobody takes between our look and the broker's start.
const PORT_TRIES: usize = 5;

/// The one that runs now.
static SHARED: Mutex<Weak<KafkaBroker>> = Mutex::new(Weak::new());

/// A running (or killed) broker.
pub struct KafkaBroker {
    child: Option<Child>,
    port: u16,
    /// Where it is spoken to with TLS and a password, too.
    secured: Option<u16>,
    folder: TempDir,
}

/// Who may come in by the secured port of a broker, by PLAIN and by SCRAM.
pub const USER: &str = "gateway";
/// Their password.
pub const PASSWORD: &str = "let me in";

impl KafkaBroker {
    /// The broker that all tests share. A test without one fails.
    pub async fn shared() -> Arc<Self> {
        let shared = tokio::task::spawn_blocking(|| {
            let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
            shared.upgrade().unwrap_or_else(|| {
                let broker = Arc::new(Self::spawn(false));
                *shared = Arc::downgrade(&broker);
                broker
            })
        });
        shared.await.expect("a broker")
    }

    /// A broker that nobody else uses: it may be killed.
    pub async fn alone() -> Self {
        tokio::task::spawn_blocking(|| Self::spawn(false)).await.expect("a broker")
    }

    /// As [`KafkaBroker::alone`], with a secured port besides.
    pub async fn secured() -> Self {
        tokio::task::spawn_blocking(|| Self::spawn(true)).await.expect("a broker")
    }

    fn spawn(secured: bool) -> Self {
        assert!(Path::new(JARS).is_dir(), "these tests need Kafka's jars in {JARS}: scripts/test fetches them");
        let mut log = String::new();
        for _ in 0..PORT_TRIES {
            let folder = tempfile::tempdir().expect("a folder for the broker");
            let mut broker = Self { child: None, port: free_port(), secured: secured.then(free_port), folder };
            broker.format();
            match broker.start() {
                Ok(()) => return broker,
                Err(said) => log = said,
            }
        }
        panic!("the Kafka broker does not start:\n{log}");
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its secured address.
    pub fn secured_address(&self) -> String {
        format!("localhost:{}", self.secured.expect("a secured broker"))
    }

    /// The certificate that its secured port shows.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("certificate.pem")
    }

    /// Its process, while it runs.
    #[allow(dead_code, reason = "benches ask for its CPU time")]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it without a warning (`SIGKILL`).
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("kill the broker");
            child.wait().expect("the broker ends");
        }
    }

    /// Starts it again, on the same ports and folder.
    pub fn start_again(&mut self) {
        if let Err(log) = self.start() {
            panic!("the Kafka broker does not start again:\n{log}");
        }
    }

    /// Makes topics of so many partitions.
    pub async fn create_topics(&self, topics: &[&str], partitions: i32) {
        let topics: Vec<_> =
            topics.iter().map(|topic| NewTopic::new(topic, partitions, TopicReplication::Fixed(1))).collect();
        let results = self.admin().create_topics(&topics, &AdminOptions::new()).await.expect("an answer");
        results.into_iter().for_each(|result| drop(result.expect("a topic")));
    }

    /// Bounds what a topic takes at once.
    pub async fn limit_records(&self, topic: &str, bytes: &str) {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic)).set("max.message.bytes", bytes);
        let results = self.admin().alter_configs(&[change], &AdminOptions::new()).await.expect("an answer");
        results.into_iter().for_each(|result| drop(result.expect("it is set")));
    }

    /// A client for what operators do.
    pub fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", self.address()).create().expect("a client")
    }

    /// Writes its configuration and makes its folder a node's.
    fn format(&self) {
        let controller = free_port();
        let (port, logs) = (self.port, self.folder.path().join("data"));
        let more = self.secured.map_or_else(String::new, |secured| format!(",SASL_SSL://127.0.0.1:{secured}"));
        let settings = format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}{more}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL\n\
             controller.listener.names=CONTROLLER\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             log.dirs={}\n\
             auto.create.topics.enable=false\n\
             offsets.topic.replication.factor=1\n\
             offsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\n\
             group.initial.rebalance.delay.ms=0\n\
             group.min.session.timeout.ms=1000\n\
             log.cleaner.enable=false\n",
            logs.display()
        );
        let (secured, users) = self.secured.map_or_else(Default::default, |secured| self.secure(secured));
        std::fs::write(self.settings(), settings + &secured).expect("its configuration");
        let format = java("kafka.tools.StorageTool")
            .args(["format", "--cluster-id", "d2Vjb20tZ2F0ZXdheSEhIQ", "--config"])
            .arg(self.settings())
            .args(users)
            .output()
            .unwrap_or_else(|error| panic!("these tests need java on the PATH: {error}"));
        assert!(format.status.success(), "{}", String::from_utf8_lossy(&format.stderr));
    }

    /// What its configuration says of a secured port, and how its folder gets to know who may come in by SCRAM.
    fn secure(&self, secured: u16) -> (String, Vec<String>) {
        let store = self.folder.path().join("keys.p12");
        let keytool = |args: &[&str]| {
            let keys = ["-keystore", store.to_str().expect("UTF-8"), "-storepass", PASSWORD, "-alias", "broker"];
            let run = Command::new("keytool").args(args).args(keys).output();
            let run = run.unwrap_or_else(|error| panic!("these tests need keytool on the PATH: {error}"));
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        };
        let ours = ["-dname", "CN=localhost", "-ext", "san=dns:localhost", "-ext", "bc=ca:true"];
        keytool(&[&["-genkeypair", "-keyalg", "EC", "-validity", "30", "-storetype", "PKCS12"][..], &ours].concat());
        keytool(&["-exportcert", "-rfc", "-file", self.certificate().to_str().expect("UTF-8")]);
        let port = self.port;
        let jaas = "org.apache.kafka.common.security";
        let settings = format!(
            "advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL_SSL://localhost:{secured}\n\
             inter.broker.listener.name=PLAINTEXT\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n\
             listener.name.sasl_ssl.plain.sasl.jaas.config={jaas}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";\n\
             listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={jaas}.scram.ScramLoginModule required;\n\
             ssl.keystore.location={}\n\
             ssl.keystore.type=PKCS12\n\
             ssl.keystore.password={PASSWORD}\n",
            store.display()
        );
        (settings, vec!["--add-scram".into(), format!("SCRAM-SHA-512=[name={USER},password={PASSWORD}]")])
    }

    fn settings(&self) -> PathBuf {
        self.folder.path().join("server.properties")
    }

    /// Starts the process and reads its log until it says that it is ready; `Err` is the log of one that ended.
    fn start(&mut self) -> Result<(), String> {
        let mut child = java("kafka.Kafka")
            .arg(self.settings())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("these tests need java on the PATH: {error}"));
        let log = BufReader::new(child.stderr.take().expect("its log"));
        self.child = Some(child);
        said_in(log, "Kafka Server started")
    }
}

impl Drop for KafkaBroker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A small JVM that starts fast and says little, with Kafka's jars.
fn java(main: &str) -> Command {
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"])
        .args(["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
        .args(["-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info"])
        .args(["-cp", &format!("{JARS}/*")])
        .arg(main);
    java
}
