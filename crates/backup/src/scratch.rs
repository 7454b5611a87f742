//! The directory of the checkpoint that a backup copies.
use crate::{
    error::{Error, Result},
    private,
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use terrace::Db;
use terrace_vfs::{CHECKPOINT_FOLDER, CHECKPOINT_MARKER};

/// The directories in use by backups of this process. Only one process can have a store open.
static IN_USE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The directory of one backup. It has a marker and the checkpoint. The drop removes it.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a directory within the directory of the store, so that the checkpoint consists of
    /// hard links. Removes the directory of a killed process first.
    pub fn within(db: &Db) -> Result<Scratch> {
        let Some(store) = db.directory() else {
            let text = format!(
                "the store {} has no directory of its own (it is on a device, split, in memory, or opened in another \
                 way than by its path for writing), so its checkpoint needs a directory with space for a whole copy: \
                 set `scratch`",
                db.statistics().place
            );
            return Err(Error::Invalid(text));
        };
        let path = store.join(CHECKPOINT_FOLDER);
        if !in_use(|paths| paths.insert(path.clone())) {
            return Err(Error::InUse(store.display().to_string()));
        }
        if path.join(CHECKPOINT_MARKER).is_file() {
            fs::remove_dir_all(&path).map_err(Error::io("remove", path.display().to_string()))?;
        }
        let created = Scratch::create(&path);
        if created.is_err() {
            in_use(|paths| paths.remove(&path));
        }
        created
    }

    /// Creates the directory `path`, which must not exist.
    pub fn create(path: &Path) -> Result<Scratch> {
        let io = |error| Error::io("create", path.display().to_string())(error);
        private::create(path).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Invalid(format!(
                "{} exists, perhaps left by a backup that was killed; the directory for the checkpoint must be new",
                path.display()
            )),
            _ => io(error),
        })?;
        let scratch = Scratch { path: path.to_owned() };
        fs::write(path.join(CHECKPOINT_MARKER), "").map_err(io)?;
        Ok(scratch)
    }

    /// Returns the path for the checkpoint. It does not exist yet.
    pub fn checkpoint(&self) -> PathBuf {
        self.path.join("checkpoint")
    }
}

impl Drop for Scratch {
    /// Ignores errors. The next backup removes leftover files in the directory of the store.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        in_use(|paths| paths.remove(&self.path));
    }
}

fn in_use<T>(change: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    change(&mut IN_USE.lock().unwrap_or_else(PoisonError::into_inner))
}
