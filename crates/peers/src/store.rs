//! An open store of a library with LevelDB's C API. The code serves both LevelDB and RocksDB,
//! whose C APIs have these functions in common.
use crate::{
    Result,
    ffi::{
        Handle,
        common::{self, Common, Db, ReadOptions, WriteOptions},
    },
};
use std::ffi::CString;

/// A library with LevelDB's C API: its marker type, and the objects that only the stores of this
/// library have.
pub trait PeerLibrary: 'static {
    /// Objects that an open database borrows. They are dropped after the database is closed.
    type Parts: Send + Sync;
}

/// An open store, which any thread may use. Dropping it waits for running background work and
/// closes the store. The newest writes remain in the WAL, because a close does not flush the
/// memtable. Errors are those of the library.
pub struct Store<L: PeerLibrary> {
    // This field must be the first one. Fields are dropped in their order, and the database must be
    // closed before `parts` is dropped, because it borrows objects in `parts`.
    pub(crate) db: Handle<Db<L>>,
    pub(crate) read: Handle<ReadOptions<L>>,
    write: [Handle<WriteOptions<L>>; 2], // not synced, synced
    pub(crate) common: &'static Common<L>,
    pub(crate) parts: L::Parts,
}

impl<L: PeerLibrary> Store<L> {
    /// Creates a store from an open database. `parts` owns the objects that the database borrows.
    pub(crate) fn new(
        common: &'static Common<L>,
        db: Handle<Db<L>>,
        verify_checksums: bool,
        parts: L::Parts,
    ) -> Store<L> {
        Store {
            db,
            read: common.read_options(verify_checksums),
            write: [common.write_options(false), common.write_options(true)],
            common,
            parts,
        }
    }

    /// Puts an entry. If `sync`, the entry survives a power cut once this call has returned.
    ///
    /// # Errors
    /// The library's errors. All methods of a store have the same errors.
    pub fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.common.put(&self.db, &self.write[usize::from(sync)], key, value)
    }

    /// Deletes a key. The key may be absent.
    ///
    /// # Errors
    /// The library's errors.
    pub fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.common.delete(&self.db, &self.write[usize::from(sync)], key)
    }

    /// Returns an empty batch for a store of this library.
    pub fn batch(&self) -> Batch<L> {
        Batch { batch: self.common.batch(), common: self.common }
    }

    /// Applies a batch atomically. If `sync`, the batch survives a power cut once this call has
    /// returned.
    ///
    /// # Errors
    /// The library's errors.
    pub fn write(&self, batch: &mut Batch<L>, sync: bool) -> Result<()> {
        self.common.write(&self.db, &self.write[usize::from(sync)], &mut batch.batch)
    }

    /// Flushes the memtable and compacts the keys from `from` to `to`, both included. `None` means
    /// that the range is unbounded at this end.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) {
        self.common.compact_range(&self.db, from, to);
    }

    /// Returns the value of a property such as `leveldb.stats` or `rocksdb.num-files-at-level0`.
    /// Returns `None` for an unknown name.
    pub fn property(&self, name: &str) -> Option<String> {
        self.common.property(&self.db, &CString::new(name).ok()?)
    }
}

/// A batch of changes, which are applied atomically. [`Store::batch`] creates it.
pub struct Batch<L: 'static> {
    batch: Handle<common::Batch<L>>,
    common: &'static Common<L>,
}

impl<L> Batch<L> {
    /// Adds the put of an entry to the batch.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.common.batch_put(&mut self.batch, key, value);
    }

    /// Adds the delete of a key to the batch.
    pub fn delete(&mut self, key: &[u8]) {
        self.common.batch_delete(&mut self.batch, key);
    }

    /// Clears the batch for reuse.
    pub fn clear(&mut self) {
        self.common.batch_clear(&mut self.batch);
    }
}
