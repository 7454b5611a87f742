//! Group commit: one writer is the leader. It writes the batches of its followers together with
//! its own batch, and passes the result to each follower.
//!
//! Source of the idea: LevelDB's `DBImpl::Write`. One append and one sync are enough for the whole
//! write group.
//!
//! - The *leader state* is the data that only a leader may use. While no writer leads, the queue
//!   has the leader state. Otherwise each leader passes it to the next leader, in queue order.
//! - A writer that finds the leader state in the queue leads immediately and allocates nothing.
//! - A writer that waits, but not for a sync, spins for a while before it sleeps. To wake a
//!   sleeping writer takes about 50 µs, and the store would write nothing during this time.
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

/// Upper bound of the bytes of a write group.
const GROUP_BYTES_MAX: usize = 1 << 20;
/// If the leader's own write is small, its followers may add at most this many bytes. The limit
/// bounds the latency of the small write.
const SMALL_BYTES: usize = 128 << 10;

/// A write that is about to join the queue.
pub enum WriteRequest<'a> {
    /// One operation that is not encoded as a batch yet.
    Single(Op<'a>),
    /// Any number of operations, possibly none.
    Batch(Batch),
    /// Operations that are written only if a condition is true at their position in the history.
    Conditional(Box<ConditionalWrite>),
    /// No operation: the caller needs the leader state for itself and accepts no followers.
    Exclusive,
}

impl WriteRequest<'_> {
    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        match self {
            WriteRequest::Single(_) => false,
            WriteRequest::Batch(batch) => batch.is_empty(),
            WriteRequest::Conditional(write) => write.batch.is_empty(),
            WriteRequest::Exclusive => true,
        }
    }

    /// Returns the request as it waits in the queue.
    pub fn into_queued(self, sync: bool) -> QueuedWrite {
        match self {
            WriteRequest::Single(op) => {
                let mut batch = Batch::new();
                batch.add(op);
                QueuedWrite { batch, condition: None, sync, exclusive: false }
            }
            WriteRequest::Batch(batch) => QueuedWrite { batch, condition: None, sync, exclusive: false },
            WriteRequest::Conditional(write) => {
                QueuedWrite { batch: write.batch, condition: Some(write.condition), sync, exclusive: false }
            }
            WriteRequest::Exclusive => QueuedWrite { batch: Batch::new(), condition: None, sync, exclusive: true },
        }
    }
}

/// The condition of a conditional write. An example: since the snapshot of a transaction, no other
/// write has changed a key that the transaction has read.
pub trait WriteCondition: Send + Sync {
    /// Decides whether a batch may be written directly after the operations in `group`, which the
    /// current write group has so far. The writes of every earlier group are in the memtables.
    /// Returns false if the decision needs I/O and `may_read` is false.
    ///
    /// # Errors
    /// The reason why the batch must not be written.
    fn check(&self, group: &Batch, may_read: bool) -> Result<bool>;
}

/// A batch with its condition. The request contains it in a box, so that other requests stay
/// small.
pub struct ConditionalWrite {
    pub batch: Batch,
    pub condition: Arc<dyn WriteCondition>,
}

/// The request of a writer that waits in the queue.
pub struct QueuedWrite {
    pub batch: Batch,
    pub condition: Option<Arc<dyn WriteCondition>>,
    sync: bool,
    exclusive: bool,
}

/// The queue of writers. It holds the leader state while no writer leads.
pub struct Queue<T> {
    // No other lock is taken under this lock, with one exception: a thread that has it may lock the
    // `status` of a writer. No I/O is done under it.
    list: Mutex<WriterList<T>>,
    queue_len: AtomicUsize, // length of the list, as a hint without the lock
}

struct WriterList<T> {
    leader_state: Option<T>,
    writers: VecDeque<Arc<QueuedWriter<T>>>,
}

struct QueuedWriter<T> {
    status: Mutex<Status<T>>,
    changed: Condvar,
    ready: AtomicBool, // `status` is `Leader` or `Done`
}

enum Status<T> {
    Waiting(QueuedWrite),
    Joined,
    Leader(T, QueuedWrite),
    Done(Result<SeqNo>),
}

/// The result of joining the writer queue.
pub enum JoinResult<'a, T> {
    /// The caller is the leader. The guard is its leadership, and the request is its own.
    Leader(LeaderGuard<'a, T>, WriteRequest<'a>),
    /// A leader has written the request of the caller.
    Done(Result<SeqNo>),
}

/// A guard: the leadership, with the duty to complete the followers. If a leader drops the guard
/// without [`complete`](LeaderGuard::complete), for instance in a panic, the drop hands the
/// leadership over and returns an error to the followers.
pub struct LeaderGuard<'a, T> {
    queue: &'a Queue<T>,
    leader_state: Option<T>,
    followers: Vec<Arc<QueuedWriter<T>>>,
}

impl<T> Queue<T> {
    /// Makes an empty writer queue, which holds the leader state.
    pub fn new(leader_state: T) -> Queue<T> {
        let list = WriterList { leader_state: Some(leader_state), writers: VecDeque::new() };
        Queue { list: Mutex::new(list), queue_len: AtomicUsize::new(0) }
    }

    /// Adds the caller to the queue. If no other writer leads, the caller becomes the leader
    /// immediately. Otherwise it waits until it becomes the leader, or until a leader has written
    /// its request.
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
            Status::Leader(leader_state, QueuedWrite { batch, condition, .. }) => {
                let request = match condition {
                    Some(condition) => WriteRequest::Conditional(Box::new(ConditionalWrite { batch, condition })),
                    None => WriteRequest::Batch(batch),
                };
                JoinResult::Leader(self.lead(leader_state), request)
            }
            Status::Done(outcome) => JoinResult::Done(outcome),
            Status::Waiting(_) | Status::Joined => unreachable!("`ready` is set only with `Leader` or `Done`"),
        }
    }

    fn lead(&self, leader_state: T) -> LeaderGuard<'_, T> {
        LeaderGuard { queue: self, leader_state: Some(leader_state), followers: Vec::new() }
    }

    /// Returns whether no writer leads.
    pub fn is_idle(&self) -> bool {
        self.list.lock().leader_state.is_some()
    }

    /// Returns the approximate number of waiting writers.
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
    /// Returns the leader state.
    ///
    /// # Panics
    /// Panics after [`hand_over`](LeaderGuard::hand_over).
    pub fn state(&mut self) -> &mut T {
        self.leader_state.as_mut().expect("a leader does not use the state after handing it over")
    }

    /// Returns the approximate number of waiting writers.
    pub fn queue_len(&self) -> usize {
        self.queue.queue_len()
    }

    /// Returns the number of followers in this write group.
    pub fn followers(&self) -> usize {
        self.followers.len()
    }

    /// Adds waiting writers to the write group, in queue order, and appends their operations to
    /// `batch`. Stops at the first writer that cannot join: it needs a sync that the leader does
    /// not make, it is exclusive, or it would make the group too large. `admits` decides whether a
    /// write may join the group so far. If `admits` returns an error, the write is completed with
    /// this error. If `admits` returns false, the write waits and leads the next group.
    #[inline]
    pub fn collect_followers(
        &mut self,
        batch: &mut Batch,
        sync: bool,
        admits: impl Fn(&QueuedWrite, &Batch) -> Result<bool>,
    ) {
        // If a writer arrives after this check, it waits for the next write group.
        if self.queue_len() > 0 {
            self.collect_queued(batch, sync, admits);
        }
    }

    #[inline(never)] // the common case, without waiting writers, stays small
    fn collect_queued(&mut self, batch: &mut Batch, sync: bool, admits: impl Fn(&QueuedWrite, &Batch) -> Result<bool>) {
        let max = match batch.byte_len() {
            bytes if batch.is_empty() => bytes, // no follower's operation fits
            bytes @ 0..=SMALL_BYTES => bytes + SMALL_BYTES,
            _ => GROUP_BYTES_MAX,
        };
        let mut list = self.queue.list.lock();
        while let Some(writer) = list.writers.front() {
            let mut status = writer.status.lock();
            let Status::Waiting(queued) = &*status else { unreachable!("a queued writer waits") };
            let bytes = if queued.batch.is_empty() { 0 } else { queued.batch.byte_len() };
            if queued.exclusive || (queued.sync && !sync) || batch.byte_len() + bytes > max {
                break;
            }
            match admits(queued, batch) {
                Ok(true) => {}
                Ok(false) => break,
                Err(refused) => {
                    drop(status);
                    let writer = list.writers.pop_front().expect("the loop looks at the front");
                    writer.wake(|_| Status::Done(Err(refused)));
                    continue;
                }
            }
            batch.append(&queued.batch);
            *status = Status::Joined;
            drop(status);
            self.followers.extend(list.writers.pop_front());
        }
        self.queue.queue_len.store(list.writers.len(), Relaxed);
    }

    /// Hands the leadership to the next writer in the queue. The followers of this leader still
    /// wait for [`complete`](LeaderGuard::complete).
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
                    _ => unreachable!("a queued writer waits"),
                });
            }
        }
    }

    /// Completes all followers with `outcome`. Hands the leadership over first, unless this leader
    /// has already done so.
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

    /// Writes `op` through the queue. If the caller becomes the leader, it hands the leadership
    /// over before it completes its followers, as the write path may do.
    fn write(queue: &Queue<u64>, op: Op<'_>, sync: bool) -> Result<SeqNo> {
        match queue.join(WriteRequest::Single(op), sync) {
            JoinResult::Done(outcome) => outcome,
            JoinResult::Leader(mut leader, request) => {
                let mut batch = request.into_queued(sync).batch;
                leader.collect_followers(&mut batch, sync, |_, _| Ok(true));
                let written = leader.state();
                let before = *written;
                *written += u64::from(batch.len());
                leader.hand_over();
                leader.complete(if before % 7 == 0 { Err(Error::Closed) } else { Ok(SeqNo(before)) })
            }
        }
    }

    #[test]
    fn every_write_is_committed_once_and_every_writer_gets_its_result() {
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

    /// Tests that a writer with an exclusive request joins no write group, but leads alone.
    #[test]
    fn an_exclusive_request_joins_no_group() {
        let queue = Queue::new(0);
        let JoinResult::Leader(mut leader, _) = queue.join(WriteRequest::Exclusive, false) else {
            panic!("no other writer leads")
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
            leader.collect_followers(&mut batch, true, |_, _| Ok(true));
            assert_eq!(leader.followers(), 0);
            drop(leader);
            assert!(exclusive.join().expect("it does not panic"));
        });
    }

    #[test]
    fn a_panicking_leader_fails_its_followers_and_hands_the_leadership_over() {
        let queue = Queue::new(0);
        let JoinResult::Leader(mut leader, request) = queue.join(WriteRequest::Batch(Batch::new()), false) else {
            panic!("no writer leads")
        };
        let mut batch = request.into_queued(false).batch;
        batch.delete(b"k");
        thread::scope(|scope| {
            let follower = scope.spawn(|| write(&queue, Op::Delete(b"member"), false));
            while leader.followers() == 0 {
                leader.collect_followers(&mut batch, false, |_, _| Ok(true));
                thread::yield_now();
            }
            let blown = catch_unwind(AssertUnwindSafe(move || {
                let _held = leader;
                panic!("on purpose")
            }));
            assert!(blown.is_err());
            assert!(matches!(follower.join().expect("it does not panic"), Err(Error::Bug(_))));
        });
        assert!(write(&queue, Op::Delete(b"next"), false).is_err_and(|error| matches!(error, Error::Closed)));
    }
}
