//! The shared state of a store in a directory: file system, file names, durability tracker, and
//! the lock on the store.
use super::{bundles::Bundles, input::Input, unsettled::Unsettled};
use crate::{
    Error, IoStats, Result, StorageConfig,
    backends::shares::Share,
    durability::DurabilityTracker,
    placement::{LogKind, ObjectId, OpenMode},
};
use parking_lot::Mutex;
use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, atomic::AtomicUsize},
};
use terrace_format::{Layout, LogId, TableId, Values, names::FileName};
use terrace_vfs::{DirectoryLock, FileSystem};

/// The state that a store shares with its logs and jobs. When the last of these owners is dropped,
/// the lock on the store is released.
pub(in crate::backends) struct Store {
    pub fs: Arc<dyn FileSystem>,
    pub tracker: Arc<dyn DurabilityTracker>,
    pub setup: StorageConfig,
    pub(super) layout: Layout,
    pub(super) bundles: Bundles,
    pub io_stats: IoStats,
    pub(super) mode: OpenMode,
    pub(super) unsettled: Unsettled,
    /// The maximum number of open tables. The same number separately limits open segments, or open
    /// value files of directory tables.
    pub share: Arc<Share>,
    /// The maximum number of files that stay open because they wait to become durable. The same
    /// number separately limits closed WALs.
    pub(super) waiting_max: usize,
    /// Number of files that jobs have finished but not passed to the durability tracker yet. The
    /// counter needs no memory ordering.
    pub(super) held: AtomicUsize,
    /// Tables that the last listing found only under the name that old versions of LevelDB use.
    pub(super) old_names: Mutex<BTreeSet<TableId>>,
    pub(super) lock: Box<dyn DirectoryLock>,
}

impl Store {
    /// Returns whether tables are mapped. A store that is open for reading only may belong to
    /// another user, and the kernel then does not tell which pages are in memory.
    pub fn maps(&self) -> bool {
        self.setup.allow_mmap_reads && self.mode.writes()
    }

    /// Returns whether the store was opened for salvage.
    pub fn salvages(&self) -> bool {
        self.mode == OpenMode::Salvage
    }

    /// Returns whether another process may write the store.
    pub fn follows(&self) -> bool {
        self.mode == OpenMode::Follow
    }

    /// The path of a file, for messages.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.fs.name())
    }

    pub fn io(&self, op: &'static str, name: &str) -> impl FnOnce(io::Error) -> Error {
        let object = self.path(name);
        move |source| Error::io(op, object, source)
    }

    /// Returns an error if another process may have opened the store. The caller makes this check
    /// after a sync and before it reports success. So if another process opens the store later, it
    /// finds the synced bytes.
    pub fn check_lock(&self) -> Result<()> {
        let name = FileName::Lock.to_string();
        self.lock.check().map_err(self.io("keep the lock of", &name))
    }

    /// Returns an error if the store was opened read-only. `op` names the operation, for the error
    /// text.
    pub fn writable(&self, op: &str) -> Result<()> {
        if self.mode.writes() {
            return Ok(());
        }
        Err(Error::Unsupported(format!("{op}: {} is open read-only", self.fs.name())))
    }

    /// Opens a file. Returns [`Error::Missing`] with the kind `what` if the file does not exist.
    pub fn open_file(&self, what: &'static str, name: &str) -> Result<Input> {
        match self.fs.open(name) {
            Ok(file) => {
                let bytes = file.bytes().map_err(self.io("read size of", name))?;
                Ok(Input::new(file, bytes, self.path(name)))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Err(Error::Missing { what, object: self.path(name) }),
            Err(e) => Err(self.io("open", name)(e)),
        }
    }

    /// Returns the possible file names of an object. New files get the first name.
    pub fn names(&self, object: ObjectId) -> Vec<String> {
        match object {
            ObjectId::Table(id) => vec![FileName::Table(id).to_string(), FileName::table_alternative(id)],
            ObjectId::Bundle(id) => vec![FileName::Bundle(id).to_string()],
            ObjectId::Wal(id) if self.layout.values == Values::Log => vec![FileName::ValueLog(id).to_string()],
            ObjectId::WalSidecar(id) => vec![FileName::WalSidecar(id).to_string()],
            ObjectId::Wal(id) => vec![FileName::Log(id).to_string()],
            ObjectId::Manifest(id) => vec![FileName::Manifest(id).to_string()],
            ObjectId::Temporary(number) => vec![FileName::Temporary(number).to_string()],
            ObjectId::Segment(id) => vec![FileName::Values(id).to_string()],
        }
    }

    /// Returns the name under which the object exists; `None` if it does not exist.
    pub fn name_there(&self, object: ObjectId) -> Option<String> {
        self.names(object).into_iter().find(|name| self.fs.open(name).is_ok())
    }

    /// Returns the name for a new file of the object.
    pub fn name_of(&self, object: ObjectId) -> String {
        self.names(object).swap_remove(0)
    }

    /// Returns the name of the object's existing file, for messages, without I/O. For a table that
    /// the last listing found only under the name that old versions of LevelDB use, this is the old
    /// name.
    pub fn name_on_disk(&self, object: ObjectId) -> String {
        match object {
            ObjectId::Table(id) if self.old_names.lock().contains(&id) => FileName::table_alternative(id),
            _ => self.name_of(object),
        }
    }

    pub fn log_name(&self, id: LogId, kind: LogKind) -> String {
        self.name_of(match kind {
            // In a store with a value log, the WAL file in LevelDB's record format is the WAL
            // sidecar.
            LogKind::Wal if self.layout.values == Values::Log => ObjectId::WalSidecar(id),
            LogKind::Wal => ObjectId::Wal(id),
            LogKind::Manifest => ObjectId::Manifest(id),
        })
    }

    /// Removes a name. An absent name is no error.
    pub fn remove_name(&self, name: &str) -> Result<()> {
        match self.fs.remove(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove", name)(e)),
            _ => Ok(()),
        }
    }
}

/// Returns the error for a store at `path` whose lock was refused.
pub(in crate::backends) fn lock_error(path: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => Error::InUse { path, detail: error.to_string() },
        _ => Error::io("lock", path, error),
    }
}
