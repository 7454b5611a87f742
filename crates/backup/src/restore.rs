//! Restores a store from a backup.
use crate::{
    backups::Backups,
    error::{Error, Result},
    hash::Checked,
    pieces::each_piece,
    record::{CURRENT, FileRecord},
};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{self, Path, PathBuf},
};
use terrace_vfs::{FileSystem, RealFs, parent, rename, sync_directory};

/// The name of `CURRENT` while it is written. A store removes files with such names.
const TEMPORARY: &str = "000000.dbtmp";

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The number of the backup.
    pub id: u64,
    /// The store contains every write up to this sequence number, and no other.
    pub sequence: u64,
    /// Number of files.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
}

impl Backups {
    /// Restores backup `id` to the directory `to`, which must be absent or empty. The call verifies
    /// the SHA-256 of every file that it copies.
    ///
    /// If `to` is absent, the call writes to the directory `TO.restoring` and renames it at the
    /// end. A kill or a power cut during the call leaves that directory. If `to` is an empty
    /// directory, the call writes into it, `CURRENT` last; after a kill or a power cut it has
    /// other files, but is not a store.
    ///
    /// Durability: when this call returns, the store survives a power cut.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such backup; [`Error::Damaged`] if a file of the backup is
    /// damaged; [`Error::Invalid`] if `to` is not empty, or `TO.restoring` exists. After an error
    /// the call removes the files that it has created.
    pub fn restore(&self, id: u64, to: impl AsRef<Path>) -> Result<Restored> {
        self.restore_with(id, to, |_| ())
    }

    /// Works like [`restore`](Backups::restore), and calls `watch` with the number of restored
    /// bytes after each file.
    ///
    /// # Errors
    /// The errors of [`restore`](Backups::restore).
    pub fn restore_with(&self, id: u64, to: impl AsRef<Path>, watch: impl FnMut(u64)) -> Result<Restored> {
        let failed = |error| Error::io("restore", to.as_ref().display().to_string())(error);
        let to: &PathBuf = &path::absolute(&to).map_err(failed)?.components().collect();
        match fs::read_dir(to).map(|mut entries| entries.next().is_none()) {
            Ok(true) => return self.restore_into(id, &RealFs::new(to), watch),
            Ok(false) => {
                let text = format!("{} is not empty; restore into an absent or empty directory", to.display());
                return Err(Error::Invalid(text));
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Err(_) => {}
        }
        let mut temporary = to.clone().into_os_string();
        temporary.push(".restoring");
        let temporary = PathBuf::from(temporary);
        fs::create_dir(&temporary).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::Invalid(format!(
                "{} exists, perhaps left by a restore that was killed; remove it, then try again",
                temporary.display()
            )),
            _ => failed(error),
        })?;
        let restored = self.restore_into(id, &RealFs::new(&temporary), watch);
        let renamed = restored.and_then(|restored| {
            rename(&temporary, to).and_then(|()| sync_directory(parent(to))).map_err(failed)?;
            Ok(restored)
        });
        renamed.inspect_err(|_| drop(fs::remove_dir_all(&temporary)))
    }

    /// Restores backup `id` into an empty directory of any file system. Writes `CURRENT` last, so
    /// before the end of the call the directory is not a store.
    ///
    /// # Errors
    /// The errors of [`restore`](Backups::restore).
    pub fn restore_into(&self, id: u64, fs: &dyn FileSystem, watch: impl FnMut(u64)) -> Result<Restored> {
        let record = self.record_of(id)?;
        let bytes = record.bytes();
        let mut restore = Restore { backups: self, id, fs, folders: BTreeSet::new(), created: Vec::new() };
        let restored = restore.all(&record.files, watch);
        restored.inspect_err(|_| restore.undo())?;
        Ok(Restored { id, sequence: record.sequence, files: record.files.len(), bytes })
    }
}

/// A restore that is running.
struct Restore<'a> {
    backups: &'a Backups,
    id: u64,
    fs: &'a dyn FileSystem,
    folders: BTreeSet<String>,
    /// The names of the files that were created.
    created: Vec<String>,
}

impl Restore<'_> {
    fn all(&mut self, files: &[FileRecord], mut watch: impl FnMut(u64)) -> Result<()> {
        self.fs.make_directory().map_err(Error::io("restore", self.fs.name()))?;
        let mut restored = 0;
        let (last, first): (Vec<&FileRecord>, Vec<_>) = files.iter().partition(|file| file.name == CURRENT);
        for group in [first, last] {
            for file in group {
                self.make_folders(&file.name)?;
                self.file(file)?;
                restored += file.bytes;
                watch(restored);
            }
            self.sync_names()?;
        }
        Ok(())
    }

    fn file(&mut self, file: &FileRecord) -> Result<()> {
        let (from, to) = (self.backups.path_of(&file.object_name()), format!("{}/{}", self.fs.name(), file.name));
        let object = self.backups.target.get(&file.object_name());
        let object = object.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                // Another process may have removed the whole backup meanwhile.
                let missing = Error::Damaged { object: from.clone(), detail: "it is missing".into() };
                self.backups.record_of(self.id).err().unwrap_or(missing)
            }
            _ => Error::io("read", from.clone())(error),
        })?;
        let mut content = Checked::new(object, file.object.clone());
        // A new CURRENT appears with its content: an empty one would be a damaged store.
        let name = if file.name == CURRENT { TEMPORARY } else { &file.name };
        let mut written = self.fs.create(name).map_err(Error::io("restore", to.clone()))?;
        self.created.push(name.into());
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::InvalidData => Error::Damaged { object: from.clone(), detail: error.to_string() },
            _ => Error::io("read", from.clone())(error),
        };
        each_piece(&mut content, failed, |piece| written.append(piece).map_err(Error::io("restore", to.clone())))?;
        written.sync().map_err(Error::io("restore", to.clone()))?;
        if name != file.name {
            self.fs.rename(name, &file.name).map_err(Error::io("restore", to))?;
            self.created.push(file.name.clone());
        }
        Ok(())
    }

    /// Creates the folders of the file `name`.
    fn make_folders(&mut self, name: &str) -> Result<()> {
        for (end, _) in name.match_indices('/') {
            let folder = &name[..end];
            if self.folders.insert(folder.into()) {
                let made = self.fs.folders().ok_or_else(|| io::ErrorKind::Unsupported.into());
                let made = made.and_then(|folders| folders.make_folder(folder));
                made.map_err(Error::io("restore", format!("{}/{folder}", self.fs.name())))?;
            }
        }
        Ok(())
    }

    fn sync_names(&self) -> Result<()> {
        let folders: Vec<String> = self.folders.iter().cloned().collect();
        let synced = match self.fs.folders() {
            Some(inside) if !folders.is_empty() => inside.sync_folders(&folders),
            _ => Ok(()),
        };
        synced.and_then(|()| self.fs.sync_directory()).map_err(Error::io("restore", self.fs.name()))
    }

    /// Removes everything that was created. Ignores errors, because the caller gets the error that
    /// ended the restore.
    fn undo(&self) {
        for name in self.created.iter().rev() {
            let _ = self.fs.remove(name);
        }
        if let Some(folders) = self.fs.folders() {
            self.folders.iter().rev().for_each(|folder| drop(folders.remove_folder(folder)));
        }
    }
}
