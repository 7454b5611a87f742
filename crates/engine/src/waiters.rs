//! Asynchronous tasks that wait for writes to become durable, without a thread each.
use parking_lot::Mutex;
use std::{collections::BTreeMap, task::Waker};

/// The wakers of all waiting tasks. A leaf lock. Wakers are user code that only schedules; they
/// are called without the lock.
#[derive(Default)]
pub struct Waiters(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By waiter: its sequence number and its waker.
    tasks: BTreeMap<u64, (u64, Waker)>,
    /// A sync was requested and has not begun.
    sync_requested: bool,
}

impl Waiters {
    /// Returns a new id for a waiter.
    pub fn new_id(&self) -> u64 {
        let mut waiting = self.0.lock();
        waiting.next += 1;
        waiting.next
    }

    /// Registers waiter `id`, to be woken once writes up to `sequence` are durable.
    pub fn wait(&self, id: u64, sequence: u64, waker: Waker) {
        self.0.lock().tasks.insert(id, (sequence, waker));
    }

    /// Removes waiter `id`.
    pub fn remove(&self, id: u64) {
        self.0.lock().tasks.remove(&id);
    }

    /// Wakes the waiters of writes up to `sequence`.
    pub fn wake(&self, sequence: u64) {
        let woken: Vec<_> = self.0.lock().tasks.extract_if(.., |_, (wanted, _)| *wanted <= sequence).collect();
        woken.into_iter().for_each(|(_, (_, waker))| waker.wake());
    }

    /// Requests a sync. Returns true for the first request since the last
    /// [`begin_sync`](Waiters::begin_sync): its caller has to submit the sync.
    pub fn request_sync(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().sync_requested, true)
    }

    /// Marks the requested sync as begun: it serves all requests so far.
    pub fn begin_sync(&self) {
        self.0.lock().sync_requested = false;
    }
}
