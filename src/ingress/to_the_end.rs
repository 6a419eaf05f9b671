//! A future that is finished even where nobody waits for it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::runtime::Handle;

/// Runs in the task of whoever waits for it; dropped before its end, it goes on in a task of its own, as long as there is a
/// runtime. One that panics is over.
pub(super) fn to_the_end<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> ToTheEnd<T> {
    ToTheEnd(Some(work.boxed()))
}

/// See [`to_the_end`].
pub(super) struct ToTheEnd<T: Send + 'static>(Option<BoxFuture<'static, T>>);

impl<T: Send + 'static> Future for ToTheEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Some(mut work) = self.0.take() else { return Poll::Pending };
        let done = work.as_mut().poll(context);
        if done.is_pending() {
            self.0 = Some(work);
        }
        done
    }
}

impl<T: Send + 'static> Drop for ToTheEnd<T> {
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
