//! Transactions: all reads see one moment of the store, all writes become visible together, and
//! the commit fails if another write has changed a key that the transaction depends on.
//!
//! ```text
//!            first call            get, scan                put, delete       commit
//! snapshot ◄────┘        delta, then snapshot ◄──┘   delta, batch ◄──┘           │
//!                                                                               ▼
//!                                  writer queue: nothing watched was written since the snapshot?
//!                                        yes ─► batch into WAL and memtable      no ─► Conflict
//! ```
//! The commit is a conditional write in the writer queue: the commit leader checks the condition
//! of each transaction in its write group, so transactions share the group's sync as other writes
//! do. Usually this check needs no I/O, because memtables have all writes since the snapshot. If
//! they do not, the leader also searches SSTables, while it holds the leader state.
mod delta;
mod one_pair;
mod ranges;
mod scan;
mod watch;

use crate::{
    ColumnFamily, Db, Error, ReadOptions, Result, Snapshot, WriteOptions,
    locks::LockKey,
    write::{ConditionalWrite, WriteRequest},
};
use delta::{Delta, OrderedKey};
use parking_lot::Mutex;
pub use scan::TransactionScan;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use terrace_format::{FamilyId, SeqNo, batch::Op};
use watch::{Base, Unchanged, WatchSet};

/// The anomalies that a transaction prevents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All reads see one moment of the store. The commit fails if another write has changed a key
    /// that the transaction writes, or that it has read with [`Transaction::get_for_update`]. Write
    /// skew is possible: two transactions may each read a key that the other one writes.
    Snapshot,
    /// The commit also fails if another write has changed any key or range of keys that the
    /// transaction has read. Committed transactions have the same result as if they had run one
    /// after the other.
    #[default]
    Serializable,
}

/// The way in which a transaction handles other transactions that write the same keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// The transaction takes no locks. Conflicts are found at the commit.
    #[default]
    Optimistic,
    /// A write, or [`Transaction::get_for_update`], locks its key until the end of the transaction.
    /// It waits for other pessimistic transactions that have the lock. Writes outside of
    /// transactions, and optimistic transactions, take no locks; conflicts with them are found at
    /// the commit.
    Pessimistic,
}

/// Options of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// The isolation. Default: serializable.
    pub isolation: Isolation,
    /// Whether keys are locked. Default: optimistic.
    pub locking: Locking,
    /// Longest wait for a lock. Default: one second.
    pub lock_timeout: Duration,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::default(),
            locking: Locking::default(),
            lock_timeout: Duration::from_secs(1),
        }
    }
}

/// A transaction: reads that see one moment of the store and the transaction's own writes, and
/// writes that no other reader sees before the [`commit`](Transaction::commit).
///
/// The transaction reads the store as it was at the first call of a method of the transaction. A
/// drop without a commit discards all writes and releases all locks. Several threads may use the
/// transaction.
///
/// ```
/// # use terrace::{Db, Error, Options, TransactionOptions, WriteOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// db.put("ann", "60")?;
/// let (first, second) = (db.begin(TransactionOptions::default()), db.begin(TransactionOptions::default()));
/// for transaction in [&first, &second] {
///     let balance: u32 = String::from_utf8(transaction.get("ann")?.unwrap()).unwrap().parse().unwrap();
///     transaction.put("ann", (balance + 1).to_string())?;
/// }
/// first.commit(WriteOptions::default())?;
/// assert!(matches!(second.commit(WriteOptions::default()), Err(Error::Conflict { .. })));
/// assert_eq!(db.get("ann")?.as_deref(), Some(&b"61"[..])); // no update is lost
/// # Ok::<(), terrace::Error>(())
/// ```
pub struct Transaction {
    db: Db,
    options: TransactionOptions,
    /// The number of the transaction, under which it owns locks.
    id: u64,
    /// A scan of a serializable transaction shares the state: it adds the range that it has read to
    /// the watched ranges.
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The snapshot and the state that the transaction reads. The first call of the transaction
    /// sets them.
    start: Option<(Snapshot, Base)>,
    delta: Delta,
    watched: WatchSet,
    locks: Vec<LockKey>,
    savepoints: Vec<Delta>,
}

/// The number of transactions that were begun in this process.
static TRANSACTIONS: AtomicU64 = AtomicU64::new(1);

/// The maximum number of times that [`Db::transact`] runs a transaction.
const ATTEMPTS_MAX: usize = 100;

impl Db {
    /// Begins a transaction.
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        let id = TRANSACTIONS.fetch_add(1, Ordering::Relaxed);
        Transaction { db: self.clone(), options, id, state: Arc::default() }
    }

    /// Runs `body` in a transaction and commits it. If another transaction or write prevents the
    /// commit ([`Error::is_retryable`]), runs `body` again in a new transaction, at most 100 times.
    /// `body` must have no effect outside of the transaction.
    ///
    /// # Errors
    /// The errors of `body` and of [`Transaction::commit`].
    ///
    /// ```
    /// # use terrace::{Db, Options, TransactionOptions, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let next = db.transact(TransactionOptions::default(), WriteOptions::default(), |transaction| {
    ///     let last = transaction.get("counter")?.map_or(0, |bytes| bytes[0]);
    ///     transaction.put("counter", [last + 1])?;
    ///     Ok(last + 1)
    /// })?;
    /// assert_eq!(next, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn transact<T>(
        &self,
        options: TransactionOptions,
        write_options: WriteOptions,
        mut body: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = 1;
        loop {
            let transaction = self.begin(options);
            let outcome = body(&transaction).and_then(|value| transaction.commit(write_options).map(|_| value));
            match outcome {
                Err(conflict) if conflict.is_retryable() && attempts < ATTEMPTS_MAX => attempts += 1,
                outcome => return outcome,
            }
        }
    }
}

impl Transaction {
    /// Returns the value of `key` of the default column family: the value that the transaction has
    /// written, or else the value at the moment that the transaction reads.
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(FamilyId::DEFAULT, key.as_ref(), self.options.isolation == Isolation::Serializable)
    }

    /// Works like [`get`](Transaction::get), in a column family.
    ///
    /// # Errors
    /// The errors of [`Db::get`]; [`Error::Invalid`] for a family of another store.
    pub fn get_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(self.own(family)?, key.as_ref(), self.options.isolation == Isolation::Serializable)
    }

    /// Works like [`get`](Transaction::get). In addition, the commit fails if another write changes
    /// the key, even if this transaction does not write the key. A pessimistic transaction locks
    /// the key.
    ///
    /// # Errors
    /// The errors of [`Db::get`]. A pessimistic transaction also returns [`Error::LockTimeout`] and
    /// [`Error::Deadlock`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.lock(FamilyId::DEFAULT, key.as_ref())?;
        self.read(FamilyId::DEFAULT, key.as_ref(), true)
    }

    /// Works like [`get_for_update`](Transaction::get_for_update), in a column family.
    ///
    /// # Errors
    /// The errors of [`get_for_update`](Transaction::get_for_update) and of
    /// [`get_cf`](Transaction::get_cf).
    pub fn get_for_update_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let family = self.own(family)?;
        self.lock(family, key.as_ref())?;
        self.read(family, key.as_ref(), true)
    }

    fn read(&self, family: FamilyId, key: &[u8], watch: bool) -> Result<Option<Vec<u8>>> {
        let order = &self.db.shared().order;
        let snapshot = {
            let mut state = self.state.lock();
            let snapshot = self.snapshot(&mut state)?;
            if watch {
                state.watched.add_key(order, family, key);
            }
            let written = state.delta.family(family).and_then(|delta| delta.get(&OrderedKey::new(order, key)));
            if let Some(value) = written {
                return Ok(value.map(<[u8]>::to_vec));
            }
            snapshot
        };
        self.db.look_up_now(family, key, &ReadOptions::new().snapshot(&snapshot), |value| value.into_vec())
    }

    /// Sets `key` of the default column family to `value`.
    ///
    /// # Errors
    /// A pessimistic transaction returns [`Error::LockTimeout`] and [`Error::Deadlock`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(FamilyId::DEFAULT, Op::Put(key.as_ref(), value.as_ref()))
    }

    /// Works like [`put`](Transaction::put), in a column family.
    ///
    /// # Errors
    /// The errors of [`put`](Transaction::put); [`Error::Invalid`] for a family of another store.
    pub fn put_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(self.own(family)?, Op::Put(key.as_ref(), value.as_ref()))
    }

    /// Deletes `key` of the default column family.
    ///
    /// # Errors
    /// The errors of [`put`](Transaction::put).
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(FamilyId::DEFAULT, Op::Delete(key.as_ref()))
    }

    /// Works like [`delete`](Transaction::delete), in a column family.
    ///
    /// # Errors
    /// The errors of [`put_cf`](Transaction::put_cf).
    pub fn delete_cf(&self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(self.own(family)?, Op::Delete(key.as_ref()))
    }

    fn write(&self, family: FamilyId, op: Op<'_>) -> Result<()> {
        let shared = self.db.shared();
        if let Op::Put(key, _) | Op::Delete(key) = op {
            self.lock(family, key)?;
            let mut state = self.state.lock();
            self.snapshot(&mut state)?;
            state.watched.add_key(&shared.order, family, key);
        }
        self.state.lock().delta.add(&shared.order, (family, shared.instance), op);
        Ok(())
    }

    /// Sets a savepoint, to which [`rollback_to_savepoint`](Transaction::rollback_to_savepoint)
    /// returns.
    pub fn set_savepoint(&self) {
        let mut state = self.state.lock();
        let delta = state.delta.clone();
        state.savepoints.push(delta);
    }

    /// Discards the newest savepoint and all writes since it. The transaction keeps its locks, and
    /// still watches the keys that it has read since the savepoint.
    ///
    /// # Errors
    /// [`Error::Invalid`] if there is no savepoint.
    ///
    /// ```
    /// # use terrace::{Db, Options, TransactionOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let transaction = db.begin(TransactionOptions::default());
    /// transaction.put("a", "1")?;
    /// transaction.set_savepoint();
    /// transaction.put("b", "2")?;
    /// transaction.rollback_to_savepoint()?;
    /// assert_eq!((transaction.get("a")?, transaction.get("b")?), (Some(b"1".to_vec()), None));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn rollback_to_savepoint(&self) -> Result<()> {
        let mut state = self.state.lock();
        match state.savepoints.pop() {
            Some(delta) => state.delta = delta,
            None => return Err(Error::Invalid("the transaction has no savepoint".into())),
        }
        Ok(())
    }

    /// Writes the transaction. When the call returns, its writes are visible together, with the
    /// durability of [`Db::write`]. Returns the sequence number of the last write. A transaction
    /// without writes always commits.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another write has changed what the transaction depends on; nothing
    /// was written then. [`Error::Invalid`] if a scan of
    /// [`scan_detached`](Transaction::scan_detached) is not dropped yet. Otherwise the errors of
    /// [`Db::write`].
    pub fn commit(self, options: WriteOptions) -> Result<u64> {
        if Arc::strong_count(&self.state) > 1 {
            return Err(Error::Invalid("a scan of the transaction is open; drop it before the commit".into()));
        }
        // The drop of `self` releases the locks, also if the write panics.
        let state = {
            let mut own = self.state.lock();
            let mut state = std::mem::take(&mut *own);
            own.locks = std::mem::take(&mut state.locks);
            state
        };
        self.commit_state(state, options)
    }

    fn commit_state(&self, state: State, options: WriteOptions) -> Result<u64> {
        let State { start: Some((_snapshot, base)), delta, watched, .. } = state else {
            return self.db.writes().map(|_| self.db.last_sequence());
        };
        if delta.batch.is_empty() {
            return self.db.writes().map(|_| self.db.last_sequence());
        }
        let batch = self.db.checked_batch(delta.batch)?;
        let condition = Arc::new(Unchanged { shared: self.db.shared().clone(), watched, base });
        let longest = (batch.key_bytes, batch.value_bytes);
        let write = ConditionalWrite { batch: batch.batch, condition };
        self.db.write_checked(WriteRequest::Conditional(Box::new(write)), longest, options)
    }

    /// Discards the writes of the transaction and releases its locks.
    pub fn rollback(self) {}

    fn own(&self, family: &ColumnFamily) -> Result<FamilyId> {
        let (id, store) = family.id_in_store();
        if store == self.db.shared().instance {
            return Ok(id);
        }
        Err(Error::Invalid(format!("column family {:?} belongs to another open store", family.name())))
    }

    /// Returns the snapshot of the transaction. The first call of the transaction makes the
    /// snapshot.
    fn snapshot(&self, state: &mut State) -> Result<Snapshot> {
        let shared = self.db.shared();
        shared.check_process()?;
        if state.start.is_none() {
            // The view is loaded before the sequence number of the snapshot. So as long as the
            // memtable of this view is in use, memtables have every write after the snapshot.
            let view = shared.view.load_full();
            let snapshot = self.db.snapshot();
            let base = Base::of(&view, SeqNo(snapshot.sequence()));
            state.start = Some((snapshot, base));
        }
        Ok(state.start.as_ref().expect("just set").0.clone())
    }

    fn lock(&self, family: FamilyId, key: &[u8]) -> Result<()> {
        if self.options.locking == Locking::Optimistic {
            return Ok(());
        }
        let key: LockKey = (family, key.to_vec());
        if self.db.writes()?.locks.lock(self.id, &key, self.options.lock_timeout)? {
            self.state.lock().locks.push(key);
        }
        Ok(())
    }

    fn release(&self, locks: &[LockKey]) {
        if let Ok(writes) = self.db.writes() {
            writes.locks.release(self.id, locks);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let locks = std::mem::take(&mut self.state.lock().locks);
        if !locks.is_empty() {
            self.release(&locks);
        }
    }
}
