//! An open store of a library with LevelDB's C API. LevelDB and RocksDB share this code.
use crate::{
    Result,
    ffi::{
        Handle,
        common::{self, Common, Db, ReadOptions, WriteOptions},
    },
};
use std::ffi::CString;

/// A library's marker type, and the parts that only its stores have.
pub trait PeerLibrary: 'static {
    /// Objects that the database borrows. They are dropped after the database is closed.
    type Parts: Send + Sync;
}

/// An open store that any thread may use. Dropping it waits for running background work and closes
/// the store. The newest writes stay in the WAL. Errors are the library's own.
pub struct Store<L: PeerLibrary> {
    // Must be the first field: the database is closed before `parts`, which it borrows from, is
    // dropped.
    pub(crate) db: Handle<Db<L>>,
    pub(crate) read: Handle<ReadOptions<L>>,
    write: [Handle<WriteOptions<L>>; 2], // not synced, synced
    pub(crate) common: &'static Common<L>,
    pub(crate) parts: L::Parts,
}

impl<L: PeerLibrary> Store<L> {
    /// Wraps an open database. `parts` owns the objects that the database borrows.
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

    /// Stores an entry. With `sync`, the entry survives a power cut once this call has returned.
    ///
    /// # Errors
    /// The library's errors. The same is true for all methods below.
    pub fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.common.put(&self.db, &self.write[usize::from(sync)], key, value)
    }

    /// Deletes a key, whether it is present or not.
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

    /// Applies a batch atomically.
    ///
    /// # Errors
    /// The library's errors.
    pub fn write(&self, batch: &mut Batch<L>, sync: bool) -> Result<()> {
        self.common.write(&self.db, &self.write[usize::from(sync)], &mut batch.batch)
    }

    /// Flushes the memtable and compacts the range, both ends included. `None` means unbounded.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) {
        self.common.compact_range(&self.db, from, to);
    }

    /// Returns a property such as `leveldb.stats` or `rocksdb.num-files-at-level0`; `None` for an
    /// unknown name.
    pub fn property(&self, name: &str) -> Option<String> {
        self.common.property(&self.db, &CString::new(name).ok()?)
    }
}

/// Changes that are applied atomically; made by [`Store::batch`].
pub struct Batch<L: 'static> {
    batch: Handle<common::Batch<L>>,
    common: &'static Common<L>,
}

impl<L> Batch<L> {
    /// Adds an entry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.common.batch_put(&mut self.batch, key, value);
    }

    /// Adds a tombstone.
    pub fn delete(&mut self, key: &[u8]) {
        self.common.batch_delete(&mut self.batch, key);
    }

    /// Clears the batch for reuse.
    pub fn clear(&mut self) {
        self.common.batch_clear(&mut self.batch);
    }
}
