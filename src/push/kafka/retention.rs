//! Whether the topic keeps tasks longer than the gateway remembers them: then a replay from its beginning would send the oldest ones again.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::{KafkaError, KafkaResult};
use tracing::{debug, warn};

use super::client;
use crate::config::settings::Kafka;
use crate::config::units::show;
use crate::push::{KafkaFault, Retention};

/// How long the brokers have to say.
const PATIENCE: Duration = Duration::from_secs(10);

/// Warns where it does. Where the brokers don't say, nothing is said: they may be away, or keep it to themselves.
pub(super) async fn warn_if_longer(kafka: &Kafka, keep: Duration) {
    match ask(kafka, keep).await {
        Ok(Retention { kept, remembered, is_longer: true }) => {
            warn!(topic = kafka.topic, kept, remembered, "{}; {}", Retention::LONGER, Retention::MEND);
        }
        Ok(_) => {}
        Err(error) => debug!(topic = kafka.topic, %error, "how long the topic keeps tasks is not known"),
    }
}

/// Asks the brokers.
pub(super) async fn ask(kafka: &Kafka, keep: Duration) -> Result<Retention, KafkaFault> {
    let kept = kept(kafka).await.map_err(super::fault)?;
    Ok(Retention {
        kept: kept.map_or_else(|| "for ever".to_owned(), show),
        remembered: show(keep),
        is_longer: kept.is_none_or(|kept| kept > keep),
    })
}

/// How long the topic keeps a record; `None`: for ever.
async fn kept(kafka: &Kafka) -> KafkaResult<Option<Duration>> {
    let admin: AdminClient<DefaultClientContext> = client::inquirer(kafka).create()?;
    let options = AdminOptions::new().request_timeout(Some(PATIENCE));
    let mut answers = admin.describe_configs(&[ResourceSpecifier::Topic(&kafka.topic)], &options).await?;
    let topic = answers.pop().transpose().map_err(KafkaError::AdminOp)?;
    Ok(topic.as_ref().and_then(retention_ms).and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis))
}

/// −1 is for ever.
fn retention_ms(topic: &ConfigResource) -> Option<i64> {
    topic.get("retention.ms")?.value.as_deref()?.parse().ok()
}
