//! The asynchronous tasks that wait until writes are durable. They block no thread.
use parking_lot::Mutex;
use std::{collections::BTreeMap, task::Waker};

/// The wakers of all waiting tasks, under a leaf lock (a lock under which no other lock is taken).
/// A waker is user code that schedules a task, so the store calls it only after it has released
/// the lock.
#[derive(Default)]
pub struct Waiters(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    /// For each waiter id: the sequence number that must become durable, and the waker.
    tasks: BTreeMap<u64, (u64, Waker)>,
    /// Whether a sync was requested that has not begun yet.
    sync_requested: bool,
}

impl Waiters {
    /// Returns a new id for a waiter.
    pub fn new_id(&self) -> u64 {
        let mut waiting = self.0.lock();
        waiting.next += 1;
        waiting.next
    }

    /// Registers the waiter `id`, which is woken once writes up to `sequence` are durable.
    pub fn wait(&self, id: u64, sequence: u64, waker: Waker) {
        self.0.lock().tasks.insert(id, (sequence, waker));
    }

    /// Removes the waiter `id`.
    pub fn remove(&self, id: u64) {
        self.0.lock().tasks.remove(&id);
    }

    /// Wakes the waiters of writes up to `sequence`, which are durable now.
    pub fn wake(&self, sequence: u64) {
        let woken: Vec<_> = self.0.lock().tasks.extract_if(.., |_, (wanted, _)| *wanted <= sequence).collect();
        woken.into_iter().for_each(|(_, (_, waker))| waker.wake());
    }

    /// Requests a sync. Returns true for the first request since the last
    /// [`begin_sync`](Waiters::begin_sync). The caller of this first request must submit the sync.
    pub fn request_sync(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().sync_requested, true)
    }

    /// Records that the requested sync has begun. This sync serves all requests so far, so the next
    /// request must submit a new sync.
    pub fn begin_sync(&self) {
        self.0.lock().sync_requested = false;
    }
}
