//! An open store of a library with LevelDB's C API: what LevelDB and RocksDB do alike.
use crate::{
    Result,
    ffi::{
        Handle,
        common::{self, Common, Db, ReadOptions, WriteOptions},
    },
};
use std::ffi::CString;

/// A library's mark, and what its stores have beside those of others.
pub trait Library: 'static {
    /// Gone after the database is closed.
    type Own: Send + Sync;
}

/// An open store, usable from any thread. Dropping it waits for background work under way and closes it; the newest
/// writes stay in the log. Errors are the library's own.
pub struct Store<L: Library> {
    pub(crate) db: Handle<Db<L>>, // first: closed before what it borrows, which is in `own`, goes
    pub(crate) read: Handle<ReadOptions<L>>,
    write: [Handle<WriteOptions<L>>; 2], // not synced, synced
    pub(crate) common: &'static Common<L>,
    pub(crate) own: L::Own,
}

impl<L: Library> Store<L> {
    /// Of an open database; `own` keeps what that borrows.
    pub(crate) fn new(common: &'static Common<L>, db: Handle<Db<L>>, verify_checksums: bool, own: L::Own) -> Store<L> {
        Store {
            db,
            read: common.read_options(verify_checksums),
            write: [common.write_options(false), common.write_options(true)],
            common,
            own,
        }
    }

    /// Stores an entry; with `sync` it survives power loss once this returns.
    ///
    /// # Errors
    /// The library's, as for all that follows.
    pub fn put(&self, key: &[u8], value: &[u8], sync: bool) -> Result<()> {
        self.common.put(&self.db, &self.write[usize::from(sync)], key, value)
    }

    /// Removes an entry, present or not.
    ///
    /// # Errors
    /// The library's.
    pub fn delete(&self, key: &[u8], sync: bool) -> Result<()> {
        self.common.delete(&self.db, &self.write[usize::from(sync)], key)
    }

    /// An empty batch for a store of this library.
    pub fn batch(&self) -> Batch<L> {
        Batch { batch: self.common.batch(), common: self.common }
    }

    /// Applies a batch, whole or not at all.
    ///
    /// # Errors
    /// The library's.
    pub fn write(&self, batch: &mut Batch<L>, sync: bool) -> Result<()> {
        self.common.write(&self.db, &self.write[usize::from(sync)], &mut batch.batch)
    }

    /// Flushes the memtable and compacts the range, both ends included; `None` is without end.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) {
        self.common.compact_range(&self.db, from, to);
    }

    /// A property such as `leveldb.stats` or `rocksdb.num-files-at-level0`; `None` for an unknown name.
    pub fn property(&self, name: &str) -> Option<String> {
        self.common.property(&self.db, &CString::new(name).ok()?)
    }
}

/// Changes to be applied together; made by [`Store::batch`].
pub struct Batch<L: 'static> {
    batch: Handle<common::Batch<L>>,
    common: &'static Common<L>,
}

impl<L> Batch<L> {
    /// Adds an entry.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.common.batch_put(&mut self.batch, key, value);
    }

    /// Adds a removal.
    pub fn delete(&mut self, key: &[u8]) {
        self.common.batch_delete(&mut self.batch, key);
    }

    /// Empties the batch for reuse.
    pub fn clear(&mut self) {
        self.common.batch_clear(&mut self.batch);
    }
}
