//! Which trace something belongs to: W3C Trace Context as header `traceparent` carries it (w3.org/TR/trace-context, version `00`).
//!
//! It is stored with messages and deliveries, so that whichever process has one goes on with its trace. Where nothing is traced there
//! is none, and what is stored is what would be stored without any of this.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The header, and the field of Kafka's records.
pub const TRACEPARENT: &str = "traceparent";

/// A trace, and the span in it that comes before whatever this stands with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// Never 0.
    pub trace: u128,
    /// Never 0.
    pub span: u64,
    /// Whether its spans are kept, as was decided where the trace began.
    pub sampled: bool,
}

/// What is no trace context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no traceparent of W3C Trace Context")]
pub struct NoTraceContext;

impl FromStr for TraceContext {
    type Err = NoTraceContext;

    /// Of a version after `00` the part is read that every version begins with, as the standard asks.
    fn from_str(text: &str) -> Result<Self, NoTraceContext> {
        let mut parts = text.split('-');
        let mut part = |length| parts.next().filter(|part| part.len() == length && is_hex(part)).ok_or(NoTraceContext);
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        if version == "ff" || (version == "00" && parts.next().is_some()) {
            return Err(NoTraceContext);
        }
        let trace = u128::from_str_radix(trace, 16).map_err(|_| NoTraceContext)?;
        let span = u64::from_str_radix(span, 16).map_err(|_| NoTraceContext)?;
        let flags = u8::from_str_radix(flags, 16).map_err(|_| NoTraceContext)?;
        if trace == 0 || span == 0 { Err(NoTraceContext) } else { Ok(Self { trace, span, sampled: flags & 1 == 1 }) }
    }
}

/// Lower case alone, says the standard.
fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_well_formed_is_read_and_written_as_it_was() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let read: TraceContext = text.parse().expect("the standard's own example");
        let want = TraceContext {
            trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span: 0x00f0_67aa_0ba9_02b7,
            sampled: true,
        };
        assert_eq!((read, read.to_string().as_str()), (want, text));
        assert_eq!(serde_json::to_value(read).expect("a text"), text);
        assert_eq!(serde_json::from_value::<TraceContext>(text.into()).expect("a context"), want);
        let unsampled: TraceContext = text.replace("-01", "-00").parse().expect("a context");
        assert!(!unsampled.sampled);
        // Other flags, and a later version that says more.
        for other in [text.replace("-01", "-ff"), text.replacen("00-", "cc-", 1) + "-what-the-future-will-be"] {
            assert_eq!(other.parse(), Ok(want), "{other}");
        }
    }

    #[test]
    fn what_is_not_well_formed_is_none() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";
        let bad = [
            String::new(),
            good.to_uppercase(),
            good.replacen("00-", "ff-", 1),
            format!("{good}-more"),
            format!(" {good}"),
            good.replace("-01", ""),
            good.replace("-01", "-1"),
            good.replace("-01", "-+1"),
            good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            good.replace("00f067aa0ba902b7", &"0".repeat(16)),
            good.replace("0af765", "0ag765"),
            good.replace("0af765", "af765"),
        ];
        for text in bad {
            assert_eq!(text.parse::<TraceContext>(), Err(NoTraceContext), "{text}");
        }
    }
}
