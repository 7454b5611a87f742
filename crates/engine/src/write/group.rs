//! Write groups: whoever holds the baton leads, takes along the batches of those who wait, and tells them how it went.
//!
//! Source of the idea: LevelDB's `DBImpl::Write`. One append and one sync serve the whole group. The baton is what only
//! a leader may touch. It lies in the line while nobody leads; else it goes from leader to leader, in line order. A writer
//! who finds it there leads at once, and allocates nothing. Who waits for it without a sync stays awake for a while: waking
//! takes some 50 µs, in which nobody would write, as the baton waits for its new holder.
use crate::{
    Error, Result,
    sync::{
        Condvar, Mutex,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
        spin_until,
    },
};
use std::{collections::VecDeque, sync::Arc};
use terrace_format::{
    SeqNo,
    batch::{Batch, Op},
};

/// A group grows to this many bytes …
const GROUP_BYTES_MAX: usize = 1 << 20;
/// … but a small write waits for no more than this much beyond its own size.
const SMALL_BYTES: usize = 128 << 10;

/// What a writer brings.
pub enum WriteRequest<'a> {
    /// One operation, not encoded yet.
    Single(Op<'a>),
    /// Any number of them, or none.
    Batch(Batch),
    /// Nothing to write: the caller wants the baton for itself, and takes nobody along.
    Exclusive,
}

impl WriteRequest<'_> {
    fn into_queued(self, sync: bool) -> QueuedWrite {
        match self {
            WriteRequest::Single(op) => {
                let mut batch = Batch::new();
                batch.add(op);
                QueuedWrite { batch, sync, exclusive: false }
            }
            WriteRequest::Batch(batch) => QueuedWrite { batch, sync, exclusive: false },
            WriteRequest::Exclusive => QueuedWrite { batch: Batch::new(), sync, exclusive: true },
        }
    }
}

/// What somebody in line waits for.
struct QueuedWrite {
    batch: Batch,
    sync: bool,
    exclusive: bool,
}

/// The baton, or the line of those who wait for it.
pub struct Queue<T> {
    list: Mutex<WriterList<T>>, // leaf lock, but for a writer's own; no I/O under it
    queue_len: AtomicUsize,     // as many as the line has; a hint for who does not hold the lock
}

struct WriterList<T> {
    leader_state: Option<T>,
    writers: VecDeque<Arc<QueuedWriter<T>>>,
}

struct QueuedWriter<T> {
    status: Mutex<Status<T>>,
    changed: Condvar,
    ready: AtomicBool, // the state is `LeaderGuard` or `Done`
}

enum Status<T> {
    Waiting(QueuedWrite),
    Joined,
    Leader(T, QueuedWrite),
    Done(Result<SeqNo>),
}

/// How joining the line ended.
pub enum JoinResult<'a, T> {
    /// The caller leads, with what it brought.
    Leader(LeaderGuard<'a, T>, WriteRequest<'a>),
    /// Another leader has written the batch.
    Done(Result<SeqNo>),
}

/// A leader's hold on the baton, and its duty to its members. Dropped, it passes the baton on and tells the members that
/// their leader panicked, unless it told them otherwise.
pub struct LeaderGuard<'a, T> {
    queue: &'a Queue<T>,
    leader_state: Option<T>,
    followers: Vec<Arc<QueuedWriter<T>>>,
}

impl<T> Queue<T> {
    /// Nobody in line.
    pub fn new(leader_state: T) -> Queue<T> {
        let list = WriterList { leader_state: Some(leader_state), writers: VecDeque::new() };
        Queue { list: Mutex::new(list), queue_len: AtomicUsize::new(0) }
    }

    /// Leads if nobody else does; else waits to lead or to be taken along.
    pub fn join<'a>(&'a self, request: WriteRequest<'a>, sync: bool) -> JoinResult<'a, T> {
        let mut list = self.list.lock();
        if let Some(leader_state) = list.leader_state.take() {
            return JoinResult::Leader(self.lead(leader_state), request);
        }
        let me = Arc::new(QueuedWriter {
            status: Mutex::new(Status::Waiting(request.into_queued(sync))),
            changed: Condvar::new(),
            ready: AtomicBool::new(false),
        });
        list.writers.push_back(me.clone());
        self.queue_len.store(list.writers.len(), Relaxed);
        drop(list);
        match me.wait(!sync) {
            Status::Leader(leader_state, QueuedWrite { exclusive: true, .. }) => {
                JoinResult::Leader(self.lead(leader_state), WriteRequest::Exclusive)
            }
            Status::Leader(leader_state, queued) => {
                JoinResult::Leader(self.lead(leader_state), WriteRequest::Batch(queued.batch))
            }
            Status::Done(outcome) => JoinResult::Done(outcome),
            Status::Waiting(_) | Status::Joined => unreachable!("`ready` says otherwise"),
        }
    }

    fn lead(&self, leader_state: T) -> LeaderGuard<'_, T> {
        LeaderGuard { queue: self, leader_state: Some(leader_state), followers: Vec::new() }
    }

    /// Whether nobody leads.
    pub fn is_idle(&self) -> bool {
        self.list.lock().leader_state.is_some()
    }

    /// Writers in line, about.
    pub fn queue_len(&self) -> usize {
        self.queue_len.load(Relaxed)
    }
}

impl<T> QueuedWriter<T> {
    fn wait(&self, awake: bool) -> Status<T> {
        if awake {
            spin_until(|| self.ready.load(Acquire));
        }
        let mut status = self.status.lock();
        while !self.ready.load(Relaxed) {
            self.changed.wait(&mut status);
        }
        std::mem::replace(&mut status, Status::Joined)
    }

    fn wake(&self, change: impl FnOnce(Status<T>) -> Status<T>) {
        let mut status = self.status.lock();
        let before = std::mem::replace(&mut *status, Status::Joined);
        *status = change(before);
        self.ready.store(true, Release);
        self.changed.notify_one();
    }
}

impl<T> LeaderGuard<'_, T> {
    /// What only a leader may touch.
    ///
    /// # Panics
    /// If the baton was passed on.
    pub fn state(&mut self) -> &mut T {
        self.leader_state.as_mut().expect("a leader works before it passes the baton on")
    }

    /// How many wait for the baton, about.
    pub fn queue_len(&self) -> usize {
        self.queue.queue_len()
    }

    /// How many came along.
    pub fn followers(&self) -> usize {
        self.followers.len()
    }

    /// Takes along those who wait, in order, up to the first that wants more durability than the leader does or that would
    /// make the group too large; their operations go behind those of `batch`.
    #[inline]
    pub fn collect_followers(&mut self, batch: &mut Batch, sync: bool) {
        // Who comes this very moment waits for the next group.
        if self.queue_len() > 0 {
            self.collect_queued(batch, sync);
        }
    }

    fn collect_queued(&mut self, batch: &mut Batch, sync: bool) {
        let max = match batch.byte_len() {
            request if batch.is_empty() => request, // not even one operation more
            request @ 0..=SMALL_BYTES => request + SMALL_BYTES,
            _ => GROUP_BYTES_MAX,
        };
        let mut list = self.queue.list.lock();
        while let Some(writer) = list.writers.front() {
            let mut status = writer.status.lock();
            let Status::Waiting(queued) = &*status else { unreachable!("who stands in line waits") };
            let bytes = if queued.batch.is_empty() { 0 } else { queued.batch.byte_len() };
            if queued.exclusive || (queued.sync && !sync) || batch.byte_len() + bytes > max {
                break;
            }
            batch.append(&queued.batch);
            *status = Status::Joined;
            drop(status);
            self.followers.extend(list.writers.pop_front());
        }
        self.queue.queue_len.store(list.writers.len(), Relaxed);
    }

    /// Lets the next in line lead. The members still wait for [`tell`](LeaderGuard::tell).
    pub fn hand_over(&mut self) {
        let Some(leader_state) = self.leader_state.take() else { return };
        let mut list = self.queue.list.lock();
        let next = list.writers.pop_front();
        self.queue.queue_len.store(list.writers.len(), Relaxed);
        match next {
            None => list.leader_state = Some(leader_state),
            Some(next) => {
                drop(list);
                next.wake(|status| match status {
                    Status::Waiting(queued) => Status::Leader(leader_state, queued),
                    _ => unreachable!("who stands in line waits"),
                });
            }
        }
    }

    /// Passes the baton on if that is yet to be done, and tells the members how it went.
    #[inline]
    pub fn complete(mut self, outcome: Result<SeqNo>) -> Result<SeqNo> {
        self.hand_over();
        self.complete_followers(|| outcome.clone());
        outcome
    }

    #[inline]
    fn complete_followers(&mut self, outcome: impl Fn() -> Result<SeqNo>) {
        while let Some(follower) = self.followers.pop() {
            follower.wake(|_| Status::Done(outcome()));
        }
    }
}

impl<T> Drop for LeaderGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.leader_state.is_some() || !self.followers.is_empty() {
            self.hand_over();
            self.complete_followers(|| Err(Error::Bug("the leader of a write group panicked".into())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        thread,
    };

    /// Leads as the write path does, and passes the baton on before it tells.
    fn write(queue: &Queue<u64>, op: Op<'_>, sync: bool) -> Result<SeqNo> {
        match queue.join(WriteRequest::Single(op), sync) {
            JoinResult::Done(outcome) => outcome,
            JoinResult::Leader(mut leader, request) => {
                let mut batch = request.into_queued(sync).batch;
                leader.collect_followers(&mut batch, sync);
                let written = leader.state();
                let before = *written;
                *written += u64::from(batch.len());
                leader.hand_over();
                leader.complete(if before % 7 == 0 { Err(Error::Closed) } else { Ok(SeqNo(before)) })
            }
        }
    }

    #[test]
    fn every_writer_is_written_once_and_hears_of_it() {
        let queue = Queue::new(0);
        thread::scope(|scope| {
            for writer in 0..8u32 {
                let queue = &queue;
                scope.spawn(move || {
                    for n in 0..200u32 {
                        let op = Op::Put(&writer.to_le_bytes(), &n.to_le_bytes());
                        let outcome = write(queue, op, n % 3 == 0);
                        assert!(outcome.is_ok() || matches!(outcome, Err(Error::Closed)));
                    }
                });
            }
        });
        let list = queue.list.lock();
        assert_eq!((list.leader_state, list.writers.len(), queue.queue_len()), (Some(1600), 0, 0));
    }

    /// Who wants the baton alone gets it between two groups, and is in none.
    #[test]
    fn alone_is_alone() {
        let queue = Queue::new(0);
        let JoinResult::Leader(mut leader, _) = queue.join(WriteRequest::Exclusive, false) else {
            panic!("nobody else is there")
        };
        thread::scope(|scope| {
            let exclusive = scope.spawn(|| {
                matches!(queue.join(WriteRequest::Exclusive, false), JoinResult::Leader(_, WriteRequest::Exclusive))
            });
            while queue.queue_len() == 0 {
                thread::yield_now();
            }
            let mut batch = Batch::new();
            batch.delete(b"k");
            leader.collect_followers(&mut batch, true);
            assert_eq!(leader.followers(), 0);
            drop(leader);
            assert!(exclusive.join().expect("it does not panic"));
        });
    }

    #[test]
    fn a_panicking_leader_blocks_nobody_and_its_members_hear_of_it() {
        let queue = Queue::new(0);
        let JoinResult::Leader(mut leader, request) = queue.join(WriteRequest::Batch(Batch::new()), false) else {
            panic!("nobody leads")
        };
        let mut batch = request.into_queued(false).batch;
        batch.delete(b"k");
        thread::scope(|scope| {
            let follower = scope.spawn(|| write(&queue, Op::Delete(b"member"), false));
            while leader.followers() == 0 {
                leader.collect_followers(&mut batch, false);
                thread::yield_now();
            }
            let blown = catch_unwind(AssertUnwindSafe(move || {
                let _held = leader;
                panic!("on purpose")
            }));
            assert!(blown.is_err());
            assert!(matches!(follower.join().expect("it hears"), Err(Error::Bug(_))));
        });
        assert!(write(&queue, Op::Delete(b"next"), false).is_err_and(|error| matches!(error, Error::Closed)));
    }
}
