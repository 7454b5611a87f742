//! The lock table of pessimistic transactions: exclusive locks on keys, with a timeout and the
//! detection of deadlocks.
//!
//! ```text
//! lock order: shard → waits
//! ```
//! `shard` guards a part of the lock table, and `waits` guards the list of waiting transactions.
//! No thread does I/O while it holds one of these two locks.
use crate::{Error, Result, clock::Clock};
use parking_lot::{Condvar, Mutex};
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use terrace_format::FamilyId;

const SHARDS: usize = 16;

/// A key of a column family.
pub type LockKey = (FamilyId, Vec<u8>);

/// The locks of one store.
#[derive(Default)]
pub struct LockTable {
    shards: [Shard; SHARDS],
    /// The transactions that wait, each with the lock that it waits for. If several threads of one
    /// transaction wait, the map has only the newest wait. A deadlock of the other threads is not
    /// detected and ends with their timeout.
    waits: Mutex<BTreeMap<u64, Wait>>,
}

#[derive(Default)]
struct Shard {
    locks: Mutex<BTreeMap<LockKey, Lock>>,
    passed_on: Condvar,
}

/// A lock that a transaction has.
struct Lock {
    owner: u64,
    /// The transactions that wait for the lock, in order. A release passes the lock directly to the
    /// first of them. If the release only woke that transaction, the old owner could run again,
    /// take the lock first, and end in the same deadlock again.
    waiting: VecDeque<u64>,
}

struct Wait {
    /// The transaction that owns the lock.
    on: u64,
    key: Vec<u8>,
}

impl LockTable {
    fn shard(&self, key: &LockKey) -> &Shard {
        let sum = key.1.iter().fold(key.0.0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        &self.shards[sum as usize % SHARDS]
    }

    /// Locks `key` for transaction `owner`. If another transaction owns the lock, waits at most
    /// `timeout` for its release. Returns false if `owner` had the lock already.
    ///
    /// # Errors
    /// [`Error::LockTimeout`]; [`Error::Deadlock`] if the other owner waits, directly or through
    /// other transactions, for `owner`.
    pub fn lock(&self, owner: u64, key: &LockKey, timeout: Duration) -> Result<bool> {
        let (shard, clock) = (self.shard(key), Clock::start());
        let mut locks = shard.locks.lock();
        match locks.get_mut(key) {
            None => {
                locks.insert(key.clone(), Lock { owner, waiting: VecDeque::new() });
                return Ok(true);
            }
            Some(lock) if lock.owner == owner => return Ok(false),
            Some(lock) => {
                self.begin_wait(owner, lock.owner, &key.1)?;
                lock.waiting.push_back(owner);
            }
        }
        loop {
            let timed_out = shard.passed_on.wait_for(&mut locks, timeout.saturating_sub(clock.now())).timed_out();
            let lock = locks.get_mut(key).expect("a lock with waiting transactions has an owner");
            if lock.owner == owner {
                return Ok(true);
            }
            if timed_out {
                // The timeout of this thread ends the wait. Another thread of this transaction may
                // wait for the same lock, so only one element is removed.
                if let Some(at) = lock.waiting.iter().position(|waiting| *waiting == owner) {
                    lock.waiting.remove(at);
                }
                self.waits.lock().remove(&owner);
                return Err(Error::LockTimeout { key: key.1.clone() });
            }
        }
    }

    /// Records that transaction `owner` waits for a lock that transaction `other` owns. Returns a
    /// deadlock error if the wait would close a cycle of waits.
    fn begin_wait(&self, owner: u64, other: u64, key: &[u8]) -> Result<()> {
        let mut waits = self.waits.lock();
        let (mut cycle, mut at) = (vec![(owner, key.to_vec())], other);
        while let Some(wait) = waits.get(&at) {
            cycle.push((at, wait.key.clone()));
            at = wait.on;
            if at == owner {
                let step = |(id, key): &(u64, Vec<u8>)| format!("transaction {id} waits for '{}'", key.escape_ascii());
                let cycle = cycle.iter().map(step).collect::<Vec<_>>().join(", ");
                return Err(Error::Deadlock { cycle });
            }
        }
        waits.insert(owner, Wait { on: other, key: key.to_vec() });
        Ok(())
    }

    /// Releases locks of transaction `owner`. Each lock passes to the transaction that has waited
    /// longest for it. A key may be twice in `keys`, if two threads of the transaction locked it.
    pub fn release(&self, owner: u64, keys: &[LockKey]) {
        for key in keys {
            let shard = self.shard(key);
            let mut locks = shard.locks.lock();
            let Some(lock) = locks.get_mut(key).filter(|lock| lock.owner == owner) else { continue };
            let Some(next) = lock.waiting.pop_front() else {
                locks.remove(key);
                continue;
            };
            lock.owner = next;
            lock.waiting.retain(|waiting| *waiting != next); // other threads of that transaction
            let mut waits = self.waits.lock();
            waits.remove(&next);
            for waiting in &lock.waiting {
                if let Some(wait) = waits.get_mut(waiting) {
                    wait.on = next;
                }
            }
            shard.passed_on.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::Arc, thread};

    fn key(name: &str) -> LockKey {
        (FamilyId::DEFAULT, name.into())
    }

    #[test]
    fn a_lock_is_exclusive_until_its_release() {
        let table = Arc::new(LockTable::default());
        assert!(table.lock(1, &key("a"), Duration::ZERO).unwrap());
        assert!(!table.lock(1, &key("a"), Duration::ZERO).unwrap(), "the owner has it already");
        assert!(matches!(table.lock(2, &key("a"), Duration::from_millis(5)), Err(Error::LockTimeout { .. })));
        assert!(table.lock(2, &key("b"), Duration::ZERO).unwrap());
        let waiting = thread::spawn({
            let table = table.clone();
            move || table.lock(2, &key("a"), Duration::from_secs(60))
        });
        while table.waits.lock().is_empty() {
            thread::yield_now();
        }
        table.release(1, &[key("a")]);
        assert!(waiting.join().unwrap().unwrap());
    }

    /// Tests that a released lock passes to the transaction that waits for it. The transaction that
    /// released the lock must not be able to take it again first.
    #[test]
    fn a_released_lock_passes_to_the_transaction_that_waits() {
        let table = Arc::new(LockTable::default());
        table.lock(1, &key("a"), Duration::ZERO).unwrap();
        let waiting = thread::spawn({
            let table = table.clone();
            move || table.lock(2, &key("a"), Duration::from_secs(60))
        });
        while table.waits.lock().is_empty() {
            thread::yield_now();
        }
        table.release(1, &[key("a")]);
        assert!(matches!(table.lock(1, &key("a"), Duration::ZERO), Err(Error::LockTimeout { .. })));
        assert!(waiting.join().unwrap().unwrap());
        table.release(2, &[key("a")]);
        assert!(table.lock(1, &key("a"), Duration::ZERO).unwrap() && table.waits.lock().is_empty());
    }

    /// Tests two threads of one transaction that wait for the same lock. If the first thread gives
    /// up, the second must still get the lock. The release of this lock must not pass it to a
    /// transaction that has ended.
    #[test]
    fn two_threads_of_a_transaction_may_wait_for_one_lock() {
        let table = Arc::new(LockTable::default());
        for gives_up in [true, false] {
            table.lock(1, &key("a"), Duration::ZERO).unwrap();
            let wait = |time| {
                let own = table.clone();
                thread::spawn(move || own.lock(2, &key("a"), time))
            };
            let (first, second) =
                (wait(Duration::from_millis(if gives_up { 20 } else { 60_000 })), wait(Duration::from_secs(60)));
            let waiting = || table.shard(&key("a")).locks.lock()[&key("a")].waiting.len();
            while waiting() != if gives_up { 1 } else { 2 } || (gives_up && !first.is_finished()) {
                thread::yield_now();
            }
            table.release(1, &[key("a")]);
            assert_eq!(first.join().unwrap().is_ok(), !gives_up);
            assert!(second.join().unwrap().is_ok());
            assert!(matches!(table.lock(3, &key("a"), Duration::ZERO), Err(Error::LockTimeout { .. })));
            table.release(2, &[key("a"), key("a")]);
            assert!(table.lock(3, &key("a"), Duration::ZERO).unwrap(), "the lock has an owner that has ended");
            table.release(2, &[key("a")]); // not its lock
            assert!(matches!(table.lock(1, &key("a"), Duration::ZERO), Err(Error::LockTimeout { .. })));
            table.release(3, &[key("a")]);
        }
    }

    #[test]
    fn a_deadlock_is_found_and_named() {
        let table = Arc::new(LockTable::default());
        for (owner, name) in [(1, "a"), (2, "b"), (3, "c")] {
            table.lock(owner, &key(name), Duration::ZERO).unwrap();
        }
        let waits = [(1, "b"), (2, "c")].map(|(owner, name)| {
            let waiting = table.clone();
            let thread = thread::spawn(move || waiting.lock(owner, &key(name), Duration::from_secs(60)));
            while !table.waits.lock().contains_key(&owner) {
                thread::yield_now();
            }
            thread
        });
        let Err(Error::Deadlock { cycle }) = table.lock(3, &key("a"), Duration::from_secs(60)) else {
            panic!("the cycle is not found")
        };
        assert_eq!(cycle, "transaction 3 waits for 'a', transaction 1 waits for 'b', transaction 2 waits for 'c'");
        table.release(3, &[key("c")]);
        table.release(2, &[key("c"), key("b")]);
        for wait in waits {
            assert!(wait.join().unwrap().unwrap());
        }
    }
}
