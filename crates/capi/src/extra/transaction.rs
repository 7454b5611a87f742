//! `terrace_transaction_t` and `terrace_transaction_options_t`: the begin and the end of
//! transactions.
#![expect(unsafe_code, reason = "exported functions keep their C names")]
use crate::{db::Db, error::Failure, options::WriteOptions};
use libc::c_int;
use std::{
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Duration,
};
use terrace::{Error, Isolation, Locking, Result, TransactionOptions, TransactionScan};

/// A scan of a transaction. The scan ends when the transaction ends.
pub type Slot = Mutex<Option<TransactionScan<'static>>>;

/// `terrace_transaction_t`.
pub struct Transaction(pub Arc<Active>);

/// A transaction until its end. Its iterators share it.
pub struct Active {
    transaction: RwLock<Option<terrace::Transaction>>,
    scans: Mutex<Vec<Weak<Slot>>>,
}

impl Active {
    /// Calls `act` with the transaction, or fails if the transaction has ended.
    pub fn with<T>(&self, act: impl FnOnce(&terrace::Transaction) -> Result<T>) -> Result<T> {
        let transaction = self.transaction.read().unwrap_or_else(PoisonError::into_inner);
        act(transaction.as_ref().ok_or_else(ended)?)
    }

    /// Returns the place for the scans of a new iterator.
    pub fn slot(&self) -> Arc<Slot> {
        let slot = Arc::default();
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.retain(|slot| slot.strong_count() > 0);
        scans.push(Arc::downgrade(&slot));
        slot
    }

    /// Ends the transaction and all of its scans. A serializable transaction then watches the
    /// ranges that they have read.
    fn end(&self) -> Result<terrace::Transaction> {
        let mut transaction = self.transaction.write().unwrap_or_else(PoisonError::into_inner);
        let transaction = transaction.take().ok_or_else(ended)?;
        let scans = std::mem::take(&mut *self.scans.lock().unwrap_or_else(PoisonError::into_inner));
        for slot in scans.iter().filter_map(Weak::upgrade) {
            drop(slot.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        Ok(transaction)
    }
}

/// Returns the error of a call after the end of the transaction.
pub fn ended() -> Error {
    Error::Invalid("the transaction was committed or rolled back".into())
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_options_create() -> Box<TransactionOptions> {
    Box::default()
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_options_destroy(options: Option<Box<TransactionOptions>>) {
    drop(options);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_options_set_isolation(options: &mut TransactionOptions, isolation: c_int) {
    options.isolation = if isolation == 1 { Isolation::Snapshot } else { Isolation::Serializable };
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_options_set_locking(options: &mut TransactionOptions, locking: c_int) {
    options.locking = if locking == 1 { Locking::Pessimistic } else { Locking::Optimistic };
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_options_set_lock_timeout(options: &mut TransactionOptions, milliseconds: u64) {
    options.lock_timeout = Duration::from_millis(milliseconds);
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_begin(db: &Db, options: Option<&TransactionOptions>) -> Box<Transaction> {
    let transaction = db.0.begin(options.copied().unwrap_or_default());
    let active = Active { transaction: RwLock::new(Some(transaction)), scans: Mutex::default() };
    Box::new(Transaction(Arc::new(active)))
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_commit(
    transaction: &Transaction,
    options: &WriteOptions,
    errptr: &mut Failure,
) -> u64 {
    errptr.of(transaction.0.end().and_then(|transaction| transaction.commit(options.0))).unwrap_or(0)
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_rollback(transaction: &Transaction, errptr: &mut Failure) {
    errptr.of(transaction.0.end().map(terrace::Transaction::rollback));
}

/// Iterators of the transaction may still exist, so the end is explicit.
#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_destroy(transaction: Option<Box<Transaction>>) {
    if let Some(transaction) = transaction {
        let _ = transaction.0.end(); // an error means that it has ended already
    }
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_set_savepoint(transaction: &Transaction, errptr: &mut Failure) {
    errptr.of(transaction.0.with(|transaction| {
        transaction.set_savepoint();
        Ok(())
    }));
}

#[unsafe(no_mangle)]
extern "C" fn terrace_transaction_rollback_to_savepoint(transaction: &Transaction, errptr: &mut Failure) {
    errptr.of(transaction.0.with(terrace::Transaction::rollback_to_savepoint));
}
