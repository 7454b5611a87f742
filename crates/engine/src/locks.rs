//! The lock table of pessimistic transactions: exclusive locks on keys, with a timeout and the
//! detection of deadlocks.
//!
//! ```text
//! lock order: shard → waits
//! ```
//! No I/O is done under either lock.
use crate::{Error, Result, clock::Clock};
use parking_lot::{Condvar, Mutex};
use std::{collections::BTreeMap, time::Duration};
use terrace_format::FamilyId;

const SHARDS: usize = 16;

/// A key of a column family.
pub type LockKey = (FamilyId, Vec<u8>);

/// The locks of one store.
#[derive(Default)]
pub struct LockTable {
    shards: [Shard; SHARDS],
    /// The transactions that wait. Each waits for one lock at a time.
    waits: Mutex<BTreeMap<u64, Wait>>,
}

#[derive(Default)]
struct Shard {
    /// The owner of each locked key.
    owners: Mutex<BTreeMap<LockKey, u64>>,
    released: Condvar,
}

struct Wait {
    /// The owner of the lock.
    on: u64,
    key: Vec<u8>,
}

impl LockTable {
    fn shard(&self, key: &LockKey) -> &Shard {
        let sum = key.1.iter().fold(key.0.0, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
        &self.shards[sum as usize % SHARDS]
    }

    /// Locks `key` for transaction `owner`, and waits at most `timeout` for another owner. Returns
    /// false if `owner` had the lock already.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], and [`Error::Deadlock`] if the other owner waits, directly or
    /// through
    /// other transactions, for `owner`.
    pub fn lock(&self, owner: u64, key: &LockKey, timeout: Duration) -> Result<bool> {
        let (shard, clock) = (self.shard(key), Clock::start());
        let mut owners = shard.owners.lock();
        loop {
            match owners.get(key).copied() {
                None => {
                    owners.insert(key.clone(), owner);
                    return Ok(true);
                }
                Some(own) if own == owner => return Ok(false),
                Some(other) => {
                    self.begin_wait(owner, other, &key.1)?;
                    let left = timeout.saturating_sub(clock.now());
                    let timed_out = shard.released.wait_for(&mut owners, left).timed_out();
                    self.waits.lock().remove(&owner);
                    if timed_out && owners.get(key).is_some_and(|other| *other != owner) {
                        return Err(Error::LockTimeout { key: key.1.clone() });
                    }
                }
            }
        }
    }

    /// Notes that `owner` waits for a lock of `other`, unless this closes a cycle.
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

    /// Releases locks of one transaction.
    pub fn release(&self, keys: &[LockKey]) {
        for key in keys {
            let shard = self.shard(key);
            shard.owners.lock().remove(key);
            shard.released.notify_all();
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
        table.release(&[key("a")]);
        assert!(waiting.join().unwrap().unwrap());
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
        table.release(&[key("c"), key("b")]);
        for wait in waits {
            assert!(wait.join().unwrap().unwrap());
        }
    }
}
