//! Reads a request's body: capped before anything is computed, and to its end within bounds, because a client that
//! is still writing when the connection closes never sees its answer.

use std::time::Instant;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

use super::refusal::Refusal;

/// How much of a body over the cap is read and thrown away.
const DRAIN: usize = 16 << 20;

/// The body, at most `max` bytes. One that is too large is called so, also when its end doesn't come in time.
pub(crate) async fn read(body: Body, max: usize, deadline: Instant) -> Result<Bytes, Refusal> {
    let mut stream = body.into_data_stream();
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    let mut read = 0_usize;
    while read <= max.saturating_add(DRAIN) {
        let chunk = match tokio::time::timeout_at(deadline.into(), stream.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => break,
            _ if read > max => break,
            Ok(Some(Err(error))) => return Err(Refusal::Body(error.to_string())),
            Err(_) => return Err(Refusal::Body("it took longer than server.deadline".into())),
        };
        read = read.saturating_add(chunk.len());
        if read > max {
            continue;
        }
        // Most bodies are one chunk: no copy then.
        if first.is_empty() && all.is_empty() {
            first = chunk;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&chunk);
        }
    }
    match read {
        _ if read > max => Err(Refusal::TooLarge),
        _ if all.is_empty() => Ok(first),
        _ => Ok(all.freeze()),
    }
}

/// Reads a body that nobody needs, within the same bounds.
pub(crate) async fn drain(body: Body, max: usize, deadline: Instant) {
    // Why it could not be read changes nothing: the request is refused for another reason.
    let _ = read(body, max, deadline).await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn read_chunks(chunks: Vec<&'static str>, max: usize) -> Result<Bytes, Refusal> {
        let stream = futures_util::stream::iter(chunks.into_iter().map(Ok::<_, std::io::Error>));
        read(Body::from_stream(stream), max, Instant::now() + Duration::from_secs(5)).await
    }

    #[tokio::test]
    async fn chunks_join_up_to_the_cap() {
        assert_eq!(read_chunks(vec!["ab", "c", "de"], 5).await.expect("a body"), "abcde");
        assert_eq!(read_chunks(vec!["abcde"], 5).await.expect("a body"), "abcde");
        assert!(matches!(read_chunks(vec!["ab", "cd", "ef"], 5).await, Err(Refusal::TooLarge)));
        assert_eq!(read_chunks(vec![], 5).await.expect("a body"), "");
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_given_up_at_the_deadline() {
        let body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
        assert!(matches!(read(body, 5, Instant::now()).await, Err(Refusal::Body(_))));
    }

    #[tokio::test]
    async fn what_is_too_large_already_is_called_so_without_its_end() {
        use futures_util::future::ready;
        use futures_util::stream::{once, pending};
        let chunk = |result| once(ready(result));
        let stalled = chunk(Ok("abcdef")).chain(pending::<Result<&str, std::io::Error>>());
        let cut = chunk(Ok("abcdef")).chain(chunk(Err(std::io::ErrorKind::ConnectionReset.into())));
        for body in [Body::from_stream(stalled), Body::from_stream(cut)] {
            let deadline = Instant::now() + Duration::from_millis(100);
            assert!(matches!(read(body, 5, deadline).await, Err(Refusal::TooLarge)));
        }
    }
}
