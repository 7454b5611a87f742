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
        ready_soon,
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
    One(Op<'a>),
    /// Any number of them, or none.
    Many(Batch),
    /// Nothing to write: the caller wants the baton for itself, and takes nobody along.
    Alone,
}

impl WriteRequest<'_> {
    fn into_wish(self, sync: bool) -> QueuedWrite {
        match self {
            WriteRequest::One(op) => {
                let mut batch = Batch::new();
                batch.add(op);
                QueuedWrite { batch, sync, alone: false }
            }
            WriteRequest::Many(batch) => QueuedWrite { batch, sync, alone: false },
            WriteRequest::Alone => QueuedWrite { batch: Batch::new(), sync, alone: true },
        }
    }
}

/// What somebody in line waits for.
struct QueuedWrite {
    batch: Batch,
    sync: bool,
    alone: bool,
}

/// The baton, or the line of those who wait for it.
pub struct Queue<T> {
    line: Mutex<Line<T>>, // leaf lock, but for a writer's own; no I/O under it
    waiting: AtomicUsize, // as many as the line has; a hint for who does not hold the lock
}

struct Line<T> {
    baton: Option<T>,
    writers: VecDeque<Arc<Writer<T>>>,
}

struct Writer<T> {
    state: Mutex<State<T>>,
    turn: Condvar,
    ready: AtomicBool, // the state is `LeaderGuard` or `Done`
}

enum State<T> {
    Waiting(QueuedWrite),
    Taken,
    LeaderGuard(T, QueuedWrite),
    Done(Result<SeqNo>),
}

/// How joining the line ended.
pub enum JoinResult<'a, T> {
    /// The caller leads, with what it brought.
    LeaderGuard(LeaderGuard<'a, T>, WriteRequest<'a>),
    /// Another leader has written the batch.
    Done(Result<SeqNo>),
}

/// A leader's hold on the baton, and its duty to its members. Dropped, it passes the baton on and tells the members that
/// their leader panicked, unless it told them otherwise.
pub struct LeaderGuard<'a, T> {
    queue: &'a Queue<T>,
    baton: Option<T>,
    members: Vec<Arc<Writer<T>>>,
}

impl<T> Queue<T> {
    /// Nobody in line.
    pub fn new(baton: T) -> Queue<T> {
        let line = Line { baton: Some(baton), writers: VecDeque::new() };
        Queue { line: Mutex::new(line), waiting: AtomicUsize::new(0) }
    }

    /// Leads if nobody else does; else waits to lead or to be taken along.
    pub fn join<'a>(&'a self, own: WriteRequest<'a>, sync: bool) -> JoinResult<'a, T> {
        let mut line = self.line.lock();
        if let Some(baton) = line.baton.take() {
            return JoinResult::LeaderGuard(self.lead(baton), own);
        }
        let me = Arc::new(Writer {
            state: Mutex::new(State::Waiting(own.into_wish(sync))),
            turn: Condvar::new(),
            ready: AtomicBool::new(false),
        });
        line.writers.push_back(me.clone());
        self.waiting.store(line.writers.len(), Relaxed);
        drop(line);
        match me.wait(!sync) {
            State::LeaderGuard(baton, QueuedWrite { alone: true, .. }) => {
                JoinResult::LeaderGuard(self.lead(baton), WriteRequest::Alone)
            }
            State::LeaderGuard(baton, wish) => {
                JoinResult::LeaderGuard(self.lead(baton), WriteRequest::Many(wish.batch))
            }
            State::Done(outcome) => JoinResult::Done(outcome),
            State::Waiting(_) | State::Taken => unreachable!("`ready` says otherwise"),
        }
    }

    fn lead(&self, baton: T) -> LeaderGuard<'_, T> {
        LeaderGuard { queue: self, baton: Some(baton), members: Vec::new() }
    }

    /// Whether nobody leads.
    pub fn is_idle(&self) -> bool {
        self.line.lock().baton.is_some()
    }

    /// Writers in line, about.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }
}

impl<T> Writer<T> {
    fn wait(&self, awake: bool) -> State<T> {
        if awake {
            ready_soon(|| self.ready.load(Acquire));
        }
        let mut state = self.state.lock();
        while !self.ready.load(Relaxed) {
            self.turn.wait(&mut state);
        }
        std::mem::replace(&mut state, State::Taken)
    }

    fn wake(&self, change: impl FnOnce(State<T>) -> State<T>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut *state, State::Taken);
        *state = change(before);
        self.ready.store(true, Release);
        self.turn.notify_one();
    }
}

impl<T> LeaderGuard<'_, T> {
    /// What only a leader may touch.
    ///
    /// # Panics
    /// If the baton was passed on.
    pub fn baton(&mut self) -> &mut T {
        self.baton.as_mut().expect("a leader works before it passes the baton on")
    }

    /// How many wait for the baton, about.
    pub fn awaited(&self) -> usize {
        self.queue.waiting()
    }

    /// How many came along.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Takes along those who wait, in order, up to the first that wants more durability than the leader does or that would
    /// make the group too large; their operations go behind those of `batch`.
    #[inline]
    pub fn collect(&mut self, batch: &mut Batch, sync: bool) {
        // Who comes this very moment waits for the next group.
        if self.awaited() > 0 {
            self.collect_some(batch, sync);
        }
    }

    fn collect_some(&mut self, batch: &mut Batch, sync: bool) {
        let max = match batch.byte_len() {
            own if batch.is_empty() => own, // not even one operation more
            own @ 0..=SMALL_BYTES => own + SMALL_BYTES,
            _ => GROUP_BYTES_MAX,
        };
        let mut line = self.queue.line.lock();
        while let Some(writer) = line.writers.front() {
            let mut state = writer.state.lock();
            let State::Waiting(wish) = &*state else { unreachable!("who stands in line waits") };
            let bytes = if wish.batch.is_empty() { 0 } else { wish.batch.byte_len() };
            if wish.alone || (wish.sync && !sync) || batch.byte_len() + bytes > max {
                break;
            }
            batch.append(&wish.batch);
            *state = State::Taken;
            drop(state);
            self.members.extend(line.writers.pop_front());
        }
        self.queue.waiting.store(line.writers.len(), Relaxed);
    }

    /// Lets the next in line lead. The members still wait for [`tell`](LeaderGuard::tell).
    pub fn pass_on(&mut self) {
        let Some(baton) = self.baton.take() else { return };
        let mut line = self.queue.line.lock();
        let next = line.writers.pop_front();
        self.queue.waiting.store(line.writers.len(), Relaxed);
        match next {
            None => line.baton = Some(baton),
            Some(next) => {
                drop(line);
                next.wake(|state| match state {
                    State::Waiting(wish) => State::LeaderGuard(baton, wish),
                    _ => unreachable!("who stands in line waits"),
                });
            }
        }
    }

    /// Passes the baton on if that is yet to be done, and tells the members how it went.
    #[inline]
    pub fn tell(mut self, outcome: Result<SeqNo>) -> Result<SeqNo> {
        self.pass_on();
        self.dismiss(|| outcome.clone());
        outcome
    }

    #[inline]
    fn dismiss(&mut self, outcome: impl Fn() -> Result<SeqNo>) {
        while let Some(member) = self.members.pop() {
            member.wake(|_| State::Done(outcome()));
        }
    }
}

impl<T> Drop for LeaderGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.baton.is_some() || !self.members.is_empty() {
            self.pass_on();
            self.dismiss(|| Err(Error::Bug("the leader of a write group panicked".into())));
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
        match queue.join(WriteRequest::One(op), sync) {
            JoinResult::Done(outcome) => outcome,
            JoinResult::LeaderGuard(mut lead, own) => {
                let mut batch = own.into_wish(sync).batch;
                lead.collect(&mut batch, sync);
                let written = lead.baton();
                let before = *written;
                *written += u64::from(batch.len());
                lead.pass_on();
                lead.tell(if before % 7 == 0 { Err(Error::Closed) } else { Ok(SeqNo(before)) })
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
        let line = queue.line.lock();
        assert_eq!((line.baton, line.writers.len(), queue.waiting()), (Some(1600), 0, 0));
    }

    /// Who wants the baton alone gets it between two groups, and is in none.
    #[test]
    fn alone_is_alone() {
        let queue = Queue::new(0);
        let JoinResult::LeaderGuard(mut lead, _) = queue.join(WriteRequest::Alone, false) else {
            panic!("nobody else is there")
        };
        thread::scope(|scope| {
            let alone = scope.spawn(|| {
                matches!(queue.join(WriteRequest::Alone, false), JoinResult::LeaderGuard(_, WriteRequest::Alone))
            });
            while queue.waiting() == 0 {
                thread::yield_now();
            }
            let mut batch = Batch::new();
            batch.delete(b"k");
            lead.collect(&mut batch, true);
            assert_eq!(lead.members(), 0);
            drop(lead);
            assert!(alone.join().expect("it does not panic"));
        });
    }

    #[test]
    fn a_panicking_leader_blocks_nobody_and_its_members_hear_of_it() {
        let queue = Queue::new(0);
        let JoinResult::LeaderGuard(mut lead, own) = queue.join(WriteRequest::Many(Batch::new()), false) else {
            panic!("nobody leads")
        };
        let mut batch = own.into_wish(false).batch;
        batch.delete(b"k");
        thread::scope(|scope| {
            let member = scope.spawn(|| write(&queue, Op::Delete(b"member"), false));
            while lead.members() == 0 {
                lead.collect(&mut batch, false);
                thread::yield_now();
            }
            let blown = catch_unwind(AssertUnwindSafe(move || {
                let _held = lead;
                panic!("on purpose")
            }));
            assert!(blown.is_err());
            assert!(matches!(member.join().expect("it hears"), Err(Error::Bug(_))));
        });
        assert!(write(&queue, Op::Delete(b"next"), false).is_err_and(|error| matches!(error, Error::Closed)));
    }
}
