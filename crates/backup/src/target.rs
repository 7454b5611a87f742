//! The interface of places where backups are stored.
use std::{io, path::Path};

/// A place for backups: a set of named objects, each written once. A directory is one
/// ([`DirectoryTarget`](crate::DirectoryTarget)); an object store can be another one.
pub trait BackupTarget: Send + Sync {
    /// Returns a name for messages, such as the path of the directory.
    fn name(&self) -> String;
    /// Returns the path if this is a directory of the operating system.
    fn directory(&self) -> Option<&Path> {
        None
    }
    /// Stores all bytes of `content` as the object `name`, and replaces an object of that name. The
    /// call is atomic: after an error or a power cut, there is no incomplete object `name`. When it
    /// returns, the object is durable.
    fn put(&self, name: &str, content: &mut dyn io::Read) -> io::Result<()>;
    /// Opens the object `name` for reading.
    fn get(&self, name: &str) -> io::Result<Box<dyn io::Read>>;
    /// Lists all objects, in any order. Returns `NotFound` if the place does not exist.
    fn list(&self) -> io::Result<Vec<StoredObject>>;
    /// Removes the object `name`. When the call returns, the removal is durable.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Creates the place if it is missing, and locks it for changes until the returned lock is
    /// dropped. Returns `WouldBlock` if another process has locked it.
    fn lock(&self) -> io::Result<Box<dyn TargetLock>>;
}

/// One object of a [`BackupTarget`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObject {
    /// The name of the object.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

/// The lock of a [`BackupTarget`], held until it is dropped.
pub trait TargetLock {}
