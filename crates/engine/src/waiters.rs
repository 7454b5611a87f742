//! Tasks that wait for writes to become durable, without a thread each.
use parking_lot::Mutex;
use std::{collections::BTreeMap, task::Waker};

/// Who is to be woken when. A leaf lock; wakers are called without it. They are the users' code, and only schedule.
#[derive(Default)]
pub struct Waiters(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By waiter: the sequence, and whom to wake.
    tasks: BTreeMap<u64, (u64, Waker)>,
    /// Somebody has been asked to see to it, and has not begun.
    sync_requested: bool,
}

impl Waiters {
    /// A name for one waiter.
    pub fn new_id(&self) -> u64 {
        let mut waiting = self.0.lock();
        waiting.next += 1;
        waiting.next
    }

    /// Waiter `name` is to be woken once writes up to `sequence` are durable.
    pub fn wait(&self, id: u64, sequence: u64, waker: Waker) {
        self.0.lock().tasks.insert(id, (sequence, waker));
    }

    /// Waiter `name` waits no longer.
    pub fn remove(&self, id: u64) {
        self.0.lock().tasks.remove(&id);
    }

    /// Writes up to `sequence` are durable.
    pub fn wake(&self, sequence: u64) {
        let woken: Vec<_> = self.0.lock().tasks.extract_if(.., |_, (wanted, _)| *wanted <= sequence).collect();
        woken.into_iter().for_each(|(_, (_, waker))| waker.wake());
    }

    /// True for the first who asks since the last [`begin`](Waiters::begin): it is for him to have something done.
    pub fn request_sync(&self) -> bool {
        !std::mem::replace(&mut self.0.lock().sync_requested, true)
    }

    /// What was asked for is being done, for all who have asked until now.
    pub fn begin_sync(&self) {
        self.0.lock().sync_requested = false;
    }
}
