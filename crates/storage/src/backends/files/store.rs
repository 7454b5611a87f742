//! What the parts of one store in a directory share: the file system, the names of its files, the durability tracker.
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

/// What the placement shares with the logs and builds it hands out. The lock is held until the last of them is gone.
pub(in crate::backends) struct Store {
    pub fs: Arc<dyn FileSystem>,
    pub tracker: Arc<dyn DurabilityTracker>,
    pub setup: StorageConfig,
    pub(super) layout: Layout,
    pub(super) bundles: Bundles,
    pub traffic: IoStats,
    pub(super) mode: OpenMode,
    pub(super) unsettled: Unsettled,
    /// How many tables may be open, and segments or pairs.
    pub share: Arc<Share>,
    /// Files, and logs, that may be open because they wait to be durable.
    pub(super) waiting_max: usize,
    /// Files that have ended in builds and that their tier has not got yet; a count that orders nothing.
    pub(super) held: AtomicUsize,
    /// Tables that the last listing found under LevelDB's old name only.
    pub(super) old_names: Mutex<BTreeSet<TableId>>,
    pub(super) lock: Box<dyn DirectoryLock>,
}

impl Store {
    /// Whether it was opened for what can be read of it.
    pub fn salvages(&self) -> bool {
        self.mode == OpenMode::Salvage
    }

    /// The whole name of a file, for messages.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.fs.name())
    }

    pub fn io(&self, op: &'static str, name: &str) -> impl FnOnce(io::Error) -> Error {
        let object = self.path(name);
        move |source| Error::io(op, object, source)
    }

    /// Refuses what another process may have taken over. After a sync, before what it promises: who comes later finds it.
    pub fn check_lock(&self) -> Result<()> {
        let name = FileName::Lock.to_string();
        self.lock.check().map_err(self.io("keep the lock of", &name))
    }

    /// Refuses to change a store that was opened to be read.
    pub fn writable(&self, op: &str) -> Result<()> {
        if self.mode.writes() {
            return Ok(());
        }
        Err(Error::Unsupported(format!("{op}: {} is open read-only", self.fs.name())))
    }

    /// Opens a file of which `what` is a kind; [`Error::Missing`] if it is not there.
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

    /// The names under which an object may be stored, the one we write first.
    pub fn names(&self, object: ObjectId) -> Vec<String> {
        match object {
            ObjectId::Table(id) => vec![FileName::Table(id).to_string(), FileName::table_alternative(id)],
            ObjectId::Bundle(id) => vec![FileName::Bundle(id).to_string()],
            ObjectId::Wal(id) if self.layout.values == Values::Log => vec![FileName::ValueLog(id).to_string()],
            ObjectId::SmallLog(id) => vec![FileName::SmallLog(id).to_string()],
            ObjectId::Wal(id) => vec![FileName::Log(id).to_string()],
            ObjectId::Manifest(id) => vec![FileName::Manifest(id).to_string()],
            ObjectId::Temporary(number) => vec![FileName::Temporary(number).to_string()],
            ObjectId::Segment(id) => vec![FileName::Values(id).to_string()],
        }
    }

    /// The one under which it is there.
    pub fn name_there(&self, object: ObjectId) -> Option<String> {
        self.names(object).into_iter().find(|name| self.fs.open(name).is_ok())
    }

    /// The first of them.
    pub fn name_of(&self, object: ObjectId) -> String {
        self.names(object).swap_remove(0)
    }

    /// For messages, without I/O: the old name of a table that the last listing found under that one.
    pub fn name_on_disk(&self, object: ObjectId) -> String {
        match object {
            ObjectId::Table(id) if self.old_names.lock().contains(&id) => FileName::table_alternative(id),
            _ => self.name_of(object),
        }
    }

    pub fn log_name(&self, id: LogId, kind: LogKind) -> String {
        self.name_of(match kind {
            LogKind::Wal if self.layout.values == Values::Log => ObjectId::SmallLog(id), // what is not in the segment
            LogKind::Wal => ObjectId::Wal(id),
            LogKind::Manifest => ObjectId::Manifest(id),
        })
    }

    /// Removes a name; absent is fine.
    pub fn remove_name(&self, name: &str) -> Result<()> {
        match self.fs.remove(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(self.io("remove", name)(e)),
            _ => Ok(()),
        }
    }
}

/// What a refused lock on the store `path` means.
pub(in crate::backends) fn lock_error(path: String, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock => Error::InUse { path, detail: error.to_string() },
        _ => Error::io("lock", path, error),
    }
}
