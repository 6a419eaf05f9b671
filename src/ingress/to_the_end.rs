//! A future that is finished even where nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// Runs in the task of whoever waits for it; dropped before its end, it goes on in a task of its own, as long as there is a
/// runtime. One that panics is over.
pub(super) fn to_the_end<F>(work: F) -> ToTheEnd<F>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    ToTheEnd(Some(Box::pin(work)))
}

/// See [`to_the_end`].
pub(super) struct ToTheEnd<F: Future<Output: Send + 'static> + Send + 'static>(Option<Pin<Box<F>>>);

impl<F: Future<Output: Send + 'static> + Send + 'static> Future for ToTheEnd<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(mut work) = self.0.take() else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_pending() {
            self.0 = Some(work);
        }
        done
    }
}

impl<F: Future<Output: Send + 'static> + Send + 'static> Drop for ToTheEnd<F> {
    fn drop(&mut self) {
        if let (Some(work), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn it_ends_whether_or_not_somebody_waits() {
        assert_eq!(to_the_end(async { 7 }).await, 7);
        for polled in [true, false] {
            let ((go, gone), (tell, told)) = (oneshot::channel::<()>(), oneshot::channel());
            let mut work = to_the_end(async move {
                let _ = gone.await;
                let _ = tell.send(());
            });
            if polled {
                assert!(timeout(Duration::ZERO, &mut work).await.is_err(), "it waits");
            }
            drop(work);
            go.send(()).expect("it goes on");
            told.await.expect("it came to its end");
        }
    }
}
