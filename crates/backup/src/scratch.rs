//! The directory of the checkpoint that a backup copies.
use crate::error::{Error, Result};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use terrace::Db;
use terrace_vfs::CHECKPOINT_FOLDER;

/// The directories in use by backups of this process. Only one process can have a store open.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The directory of one checkpoint. The drop removes it.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Returns a directory within the directory of the store, so that the checkpoint consists of
    /// hard links. Removes the checkpoint of a killed process.
    pub fn within(db: &Db) -> Result<Scratch> {
        let Some(store) = db.directory() else {
            let text = format!(
                "the store {} is on a device or in memory, so its checkpoint needs a directory with space for a \
                 whole copy: set `scratch`",
                db.statistics().place
            );
            return Err(Error::Invalid(text));
        };
        let path = store.join(CHECKPOINT_FOLDER);
        if !in_use(|paths| paths.insert(path.clone())) {
            return Err(Error::InUse(store.display().to_string()));
        }
        let scratch = Scratch { path };
        match fs::remove_dir_all(&scratch.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", scratch.path.display().to_string())(error))
            }
            _ => Ok(scratch),
        }
    }

    /// Creates the directory `path`, which must not exist.
    pub fn create(path: &Path) -> Result<Scratch> {
        fs::create_dir(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::Invalid(format!("{} exists; `scratch` must be a new directory", path.display()))
            }
            _ => Error::io("create", path.display().to_string())(error),
        })?;
        Ok(Scratch { path: path.to_owned() })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    /// Ignores errors: the next backup, or the next open of the store, removes what is left.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        in_use(|paths| paths.remove(&self.path));
    }
}

fn in_use<T>(change: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    change(&mut IN_USE.lock().unwrap_or_else(PoisonError::into_inner))
}
