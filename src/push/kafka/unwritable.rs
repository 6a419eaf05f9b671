//! Topics that nothing can be written to: where that lasts, somebody has to know. Each topic is looked at for itself, for one that
//! takes records says nothing of another.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::outage::{News, Outage};
use crate::alarms::{Alarm, Alarms, Kind};
use crate::config::units::show;

/// Whoever wants something written tries again sooner; where nobody has tried for so long, it begins anew.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// See the module.
pub(super) struct Unwritable {
    alarms: Alarms,
    topics: Mutex<BTreeMap<String, Failing>>,
}

/// A topic that took nothing the last time.
struct Failing {
    outage: Outage,
    last: Instant,
}

impl Unwritable {
    /// None is.
    pub(super) fn new(alarms: Alarms) -> Self {
        Self { alarms, topics: Mutex::default() }
    }

    /// A topic took nothing, and why.
    pub(super) fn fails(&self, topic: &str, why: &str, now: Instant) {
        let mut topics = self.topics.lock().unwrap_or_else(PoisonError::into_inner);
        let known = topics.remove(topic).filter(|failing| now - failing.last < FORGOTTEN);
        let mut outage = known.map(|failing| failing.outage).unwrap_or_default();
        let news = outage.look(true, now);
        topics.insert(topic.to_owned(), Failing { outage, last: now });
        self.tell(topic, why, news);
    }

    /// A topic took something.
    pub(super) fn takes(&self, topic: &str, now: Instant) {
        let failing = self.topics.lock().unwrap_or_else(PoisonError::into_inner).remove(topic);
        self.tell(topic, "", failing.and_then(|mut failing| failing.outage.look(false, now)));
    }

    fn tell(&self, topic: &str, why: &str, news: Option<News>) {
        let whole = |lasted: Duration| show(Duration::from_secs(lasted.as_secs()));
        let (kind, detail) = match news {
            None => return,
            Some(News::Lasts(lasts)) => (Kind::KafkaUnwritable, format!("{topic}: {why}, {}", whole(lasts))),
            Some(News::Over(lasted)) => (Kind::KafkaBack, format!("{topic}, {}", whole(lasted))),
        };
        self.alarms.raise(Alarm::of_process(kind, &detail));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn each_topic_is_told_of_for_itself() {
        let metrics = Arc::new(Metrics::default());
        let (topics, start) = (Unwritable::new(Alarms::unheard(metrics.clone())), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let raised = |kind: &str| metrics.render().contains(&format!("alarms_total{{kind=\"{kind}\"}} 1"));
        topics.fails("dead", "too small", after(0));
        topics.takes("results", after(5));
        assert!(!raised("kafka_unwritable"));
        topics.fails("dead", "too small", after(10));
        assert!(raised("kafka_unwritable"), "whatever others take");
        topics.takes("results", after(11));
        assert!(!raised("kafka_back"));
        topics.takes("dead", after(12));
        assert!(raised("kafka_back"));
        // What nobody tried to write for long is no outage.
        topics.fails("results", "away", after(20));
        topics.fails("results", "away", after(500));
        assert!(raised("kafka_unwritable"));
    }
}
