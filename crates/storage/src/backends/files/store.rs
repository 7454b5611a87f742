//! The shared state of a store in a directory: file system, file names, durability tracker, lock.
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

/// The state that a store shares with its logs and jobs. The lock is held until the last of them
/// is dropped.
pub(in crate::backends) struct Store {
    pub fs: Arc<dyn FileSystem>,
    pub tracker: Arc<dyn DurabilityTracker>,
    pub setup: StorageConfig,
    pub(super) layout: Layout,
    pub(super) bundles: Bundles,
    pub io_stats: IoStats,
    pub(super) mode: OpenMode,
    pub(super) unsettled: Unsettled,
    /// The limit for open tables, and for segments or directory-table values.
    pub share: Arc<Share>,
    /// The limit for open files, and for closed WALs, that wait to be durable.
    pub(super) waiting_max: usize,
    /// Finished files of jobs that the tracker does not have yet. A counter that orders nothing.
    pub(super) held: AtomicUsize,
    /// Tables that the last listing found under LevelDB's old name only.
    pub(super) old_names: Mutex<BTreeSet<TableId>>,
    pub(super) lock: Box<dyn DirectoryLock>,
}

impl Store {
    /// Whether the store was opened for salvage.
    pub fn salvages(&self) -> bool {
        self.mode == OpenMode::Salvage
    }

    /// The path of a file, for messages.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.fs.name())
    }

    pub fn io(&self, op: &'static str, name: &str) -> impl FnOnce(io::Error) -> Error {
        let object = self.path(name);
        move |source| Error::io(op, object, source)
    }

    /// Refuses to go on if another process may have opened the store. Called after a sync and
    /// before its promise, so that a later opener finds the synced bytes.
    pub fn check_lock(&self) -> Result<()> {
        let name = FileName::Lock.to_string();
        self.lock.check().map_err(self.io("keep the lock of", &name))
    }

    /// Refuses to change a store that was opened for reading.
    pub fn writable(&self, op: &str) -> Result<()> {
        if self.mode.writes() {
            return Ok(());
        }
        Err(Error::Unsupported(format!("{op}: {} is open read-only", self.fs.name())))
    }

    /// Opens a file; [`Error::Missing`] with the kind `what` if it does not exist.
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

    /// The possible file names of an object, the one for new files first.
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

    /// The name under which the object exists.
    pub fn name_there(&self, object: ObjectId) -> Option<String> {
        self.names(object).into_iter().find(|name| self.fs.open(name).is_ok())
    }

    /// The name for a new file of the object.
    pub fn name_of(&self, object: ObjectId) -> String {
        self.names(object).swap_remove(0)
    }

    /// The existing name for messages, without I/O: the old name of a table that the last listing
    /// found under that one only.
    pub fn name_on_disk(&self, object: ObjectId) -> String {
        match object {
            ObjectId::Table(id) if self.old_names.lock().contains(&id) => FileName::table_alternative(id),
            _ => self.name_of(object),
        }
    }

    pub fn log_name(&self, id: LogId, kind: LogKind) -> String {
        self.name_of(match kind {
            // The WAL sidecar
            LogKind::Wal if self.layout.values == Values::Log => ObjectId::WalSidecar(id),
            LogKind::Wal => ObjectId::Wal(id),
            LogKind::Manifest => ObjectId::Manifest(id),
        })
    }

    /// Removes a name; an absent one is fine.
    pub fn remove_name(&self, name: &str) -> Result<()> {
        match self.fs.remove(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove", name)(e)),
            _ => Ok(()),
        }
    }
}

/// The error for a refused lock on the store `path`.
pub(in crate::backends) fn lock_error(path: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => Error::InUse { path, detail: error.to_string() },
        _ => Error::io("lock", path, error),
    }
}
