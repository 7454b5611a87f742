//! Write groups: whoever comes first leads, takes the others' batches along, and tells them how it went.
//!
//! Source of the idea: LevelDB's `DBImpl::Write`. One append and one sync serve the whole group.
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex};
use std::{collections::VecDeque, sync::Arc};
use terrace_format::{SeqNo, batch::Batch};

/// A group grows to this many bytes …
const GROUP_BYTES_MAX: usize = 1 << 20;
/// … but a small write waits for no more than this much beyond its own size.
const SMALL_BYTES: usize = 128 << 10;

/// Writers in line; the first one leads.
#[derive(Default)]
pub struct Queue {
    line: Mutex<VecDeque<Arc<Writer>>>, // leaf lock; no I/O under it
}

struct Writer {
    sync: bool,
    batch: Mutex<Option<Batch>>,
    outcome: Mutex<Option<Result<SeqNo>>>,
    turn: Condvar, // with the line's lock
}

/// What a leader writes for itself and others.
pub struct Group {
    /// The batches of all members, in line order.
    pub batch: Batch,
    /// Whether to make it durable.
    pub sync: bool,
}

/// The leader's claim on the line, before it has room and takes others along.
pub struct Leader<'a> {
    queue: &'a Queue,
    members: &'a mut usize,
}

impl Queue {
    /// Joins the line. The caller at its front runs `lead`; the others wait for their leader's outcome.
    pub fn write(&self, batch: Batch, sync: bool, lead: impl FnOnce(Leader<'_>) -> Result<SeqNo>) -> Result<SeqNo> {
        let me =
            Arc::new(Writer { sync, batch: Mutex::new(Some(batch)), outcome: Mutex::default(), turn: Condvar::new() });
        let mut line = self.line.lock();
        line.push_back(me.clone());
        while !Arc::ptr_eq(&line[0], &me) {
            me.turn.wait(&mut line);
            if let Some(outcome) = me.outcome.lock().take() {
                return outcome;
            }
        }
        drop(line);

        let mut duty = Duty { queue: self, members: 1, outcome: None };
        let outcome = lead(Leader { queue: self, members: &mut duty.members });
        duty.outcome = Some(outcome.clone());
        outcome
    }

    /// Tells the first `members` of the line how it went and gives the lead to the next.
    fn dismiss(&self, members: usize, outcome: &Result<SeqNo>) {
        let mut line = self.line.lock();
        for writer in line.drain(..members) {
            *writer.outcome.lock() = Some(outcome.clone());
            writer.turn.notify_one();
        }
        if let Some(next) = line.front() {
            next.turn.notify_one();
        }
    }
}

/// A leader's duty to its members: dropped, it tells them the outcome, and that it panicked if it has none.
struct Duty<'a> {
    queue: &'a Queue,
    /// The leader itself, and whom it takes along; if it fails before it collects, it fails alone.
    members: usize,
    outcome: Option<Result<SeqNo>>,
}

impl Drop for Duty<'_> {
    fn drop(&mut self) {
        let bug = || Err(Error::Bug("the leader of a write group panicked".into()));
        self.queue.dismiss(self.members, &self.outcome.take().unwrap_or_else(bug));
    }
}

impl Leader<'_> {
    /// Whether the leader only wants what was written before to be durable. Then it needs no room, and takes along only
    /// those who want the same.
    pub fn adds_nothing(&self) -> bool {
        self.queue.line.lock()[0].batch.lock().as_ref().is_none_or(Batch::is_empty)
    }

    /// Takes along those who wait behind the leader, in order, up to the first that wants more durability than the
    /// leader does or that would make the group too large.
    pub fn collect(self) -> Group {
        let line = self.queue.line.lock();
        let take = |writer: &Writer| writer.batch.lock().take().expect("a batch is taken once, by its leader");
        let mut batch = take(&line[0]);
        let sync = line[0].sync;
        let own = batch.byte_len();
        let max = match own {
            _ if batch.is_empty() => own, // not even one operation more
            0..=SMALL_BYTES => own + SMALL_BYTES,
            _ => GROUP_BYTES_MAX,
        };
        for writer in line.iter().skip(1) {
            let bytes =
                writer.batch.lock().as_ref().map_or(0, |batch| if batch.is_empty() { 0 } else { batch.byte_len() });
            if (writer.sync && !sync) || batch.byte_len() + bytes > max {
                break;
            }
            batch.append(&take(writer));
            *self.members += 1;
        }
        Group { batch, sync }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn every_writer_is_written_once_and_hears_of_it() {
        let (queue, written, groups) = (Queue::default(), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for writer in 0..8u32 {
                let (queue, written, groups) = (&queue, &written, &groups);
                scope.spawn(move || {
                    for n in 0..200u32 {
                        let mut batch = Batch::new();
                        batch.put(&writer.to_le_bytes(), &n.to_le_bytes());
                        let outcome = queue.write(batch, n % 3 == 0, |leader| {
                            let group = leader.collect();
                            groups.fetch_add(1, Relaxed);
                            let before = written.fetch_add(u64::from(group.batch.len()), Relaxed);
                            if before % 7 == 0 { Err(Error::Closed) } else { Ok(SeqNo(before)) }
                        });
                        assert!(outcome.is_ok() || matches!(outcome, Err(Error::Closed)));
                    }
                });
            }
        });
        assert_eq!(written.load(Relaxed), 1600);
        assert!(groups.load(Relaxed) <= 1600);
        assert!(queue.line.lock().is_empty());
    }

    #[test]
    fn a_panicking_leader_does_not_block_the_line() {
        let queue = Queue::default();
        let blown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            queue.write(Batch::new(), false, |_| panic!("on purpose"))
        }));
        assert!(blown.is_err());
        assert!(queue.write(Batch::new(), false, |leader| Ok(SeqNo(leader.collect().batch.len().into()))).is_ok());
    }
}
