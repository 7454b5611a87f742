//! A future that waits until a write is durable, so that no thread has to block.
use super::{Db, make_durable};
use crate::{Result, state::DbInner, work::Lane, write::WritePath};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A future that resolves when a write and all writes before it survive a power cut.
/// [`Db::when_durable`] makes it.
///
/// The future works with every async runtime, because the store's own threads wake it. If it
/// resolves to an error, the write will not become durable, because the store has failed or was
/// closed. The future may be dropped at any time.
#[must_use = "a future does nothing unless it is polled"]
pub struct Durable {
    shared: Arc<DbInner>,
    writes: Arc<WritePath>,
    sequence: u64,
    waiter: u64,
}

impl Db {
    /// Works like [`wait_durable`](Db::wait_durable), for asynchronous code. Returns a future. When
    /// the future is first polled, it requests a sync from one of the store's threads. All futures
    /// that wait at the same time share one sync.
    ///
    /// # Errors
    /// [`Error::Invalid`](crate::Error::Invalid) if `sequence` has not been written yet;
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) in a store opened for reading only. The future
    /// returns all later errors.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let db = Db::open_in_memory(Options::default())?;
    /// async fn keep(db: &Db) -> terrace::Result<()> {
    ///     db.put("key", "value")?;
    ///     db.when_durable(db.last_sequence())?.await
    /// }
    /// # let mut kept = std::pin::pin!(keep(&db));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while kept.as_mut().poll(&mut context)?.is_pending() {
    /// #     std::thread::yield_now();
    /// # }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn when_durable(&self, sequence: u64) -> Result<Durable> {
        let shared = self.shared().clone();
        shared.check_process()?;
        self.check_written(sequence)?;
        let writes = self.inner.writes.clone().ok_or(crate::Error::ReadOnly)?;
        let waiter = shared.waiters.new_id();
        Ok(Durable { shared, writes, sequence, waiter })
    }
}

impl Durable {
    fn outcome(&self) -> Poll<Result<()>> {
        if let Err(forked) = self.shared.check_process() {
            return Poll::Ready(Err(forked));
        }
        if self.shared.safe_sequence() >= self.sequence {
            return Poll::Ready(Ok(()));
        }
        match self.shared.check_writable(&self.shared.state.lock()) {
            Ok(()) => Poll::Pending,
            refused => Poll::Ready(refused),
        }
    }

    fn request_sync(&self) {
        if self.shared.waiters.request_sync() {
            let (shared, writes) = (self.shared.clone(), self.writes.clone());
            self.shared.work.submit(Lane::Idle, "sync", move || {
                shared.waiters.begin_sync();
                // An error of the sync is ignored here: the failure has stopped the store, and
                // `wake_failed` reports it to the waiting tasks.
                let _ = make_durable(&shared, &writes);
                shared.wake_durable();
                shared.wake_failed();
            });
        }
    }
}

impl Future for Durable {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Poll::Ready(outcome) = self.outcome() {
            return Poll::Ready(outcome);
        }
        self.shared.waiters.wait(self.waiter, self.sequence, context.waker().clone());
        self.request_sync();
        self.shared.work.start_missing_threads(); // the sync may wait for a thread
        // The future checks a second time, because the write may have become durable after the
        // first check and before the waker was registered.
        self.outcome()
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        if self.shared.process.is_current() {
            self.shared.waiters.remove(self.waiter);
            return;
        }
        std::mem::forget((self.shared.clone(), self.writes.clone())); // leaked, like a forked `Db`
    }
}
