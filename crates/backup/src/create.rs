//! Creates a backup.
use crate::{
    backups::{Backup, Backups, Contents},
    error::{Error, Result},
    hash::{Checked, Hash},
    pace::{Pace, Paced},
    record::{FORMAT, FileRecord, Record, object_name},
    source::{Identity, Source},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};
use terrace::{Db, Medium};

/// The name of the directory for the checkpoint within the store.
const SCRATCH: &str = "backup.tmp";

/// Options of [`Backups::create`].
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    bytes_per_second: u64,
    scratch: Option<PathBuf>,
}

impl CreateOptions {
    /// Limits the bytes per second that the backup reads from the store; 0, the default, means no
    /// limit.
    #[must_use]
    pub fn bytes_per_second(mut self, rate: u64) -> CreateOptions {
        self.bytes_per_second = rate;
        self
    }

    /// Sets the directory for the checkpoint, which exists only during the call and must not exist
    /// before it. By default it is `backup.tmp` in the directory of the store, so that the
    /// checkpoint has hard links to the files of the store and takes no space. A store without a
    /// directory (on a raw device, or in memory) needs this option, and space for a whole copy.
    #[must_use]
    pub fn scratch(mut self, path: impl Into<PathBuf>) -> CreateOptions {
        self.scratch = Some(path.into());
        self
    }
}

/// The progress of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the files that are in the backup already.
    pub done: u64,
    /// Bytes of all files.
    pub total: u64,
}

impl Backups {
    /// Backs up the present state of the store. Reads and writes of the store continue. The call
    /// makes a checkpoint of the store, copies the files that no earlier backup has, and removes
    /// the checkpoint.
    ///
    /// A file that an earlier backup has is recognized by its name, size, modification time and
    /// inode, and is not read again. Other files are read and recognized by their content, for
    /// example after the store was restored from a backup.
    ///
    /// Durability: when this call returns, the backup survives a power cut, and contains every
    /// write that ended before the call.
    ///
    /// # Errors
    /// [`Error::Store`] if the checkpoint fails; [`Error::Io`] if the target cannot be written, for
    /// example because it is full. After an error there is no new backup. Objects that were written
    /// already stay, and the next call uses them.
    pub fn create(&self, db: &Db, options: &CreateOptions) -> Result<Backup> {
        self.create_with(db, options, |_| ())
    }

    /// Works like [`create`](Backups::create), and calls `watch` with the progress after each file.
    ///
    /// # Errors
    /// The errors of [`create`](Backups::create).
    pub fn create_with(&self, db: &Db, options: &CreateOptions, watch: impl FnMut(Progress)) -> Result<Backup> {
        let _lock = self.lock()?;
        let scratch = match &options.scratch {
            Some(scratch) => scratch.clone(),
            None => default_scratch(db)?,
        };
        let created = SystemTime::now();
        let backed_up = db
            .checkpoint(&scratch)
            .map_err(Error::from)
            .and_then(|made| self.add(&Source::at(&scratch), made.sequence, created, options, watch));
        let removed = remove_all(&scratch);
        let backup = backed_up?;
        removed?;
        Ok(backup)
    }

    /// Backs up the checkpoint in `source`, which contains every write up to `sequence`.
    ///
    /// # Errors
    /// The errors of [`create`](Backups::create).
    pub fn create_from(&self, source: &Source, sequence: u64) -> Result<Backup> {
        let _lock = self.lock()?;
        self.add(source, sequence, SystemTime::now(), &CreateOptions::default(), |_| ())
    }

    fn add(
        &self,
        source: &Source,
        sequence: u64,
        created: SystemTime,
        options: &CreateOptions,
        mut watch: impl FnMut(Progress),
    ) -> Result<Backup> {
        let contents = self.contents()?;
        let mut copier = Copier {
            known: self.known_files(&contents),
            objects: contents.objects,
            pace: Pace::new(options.bytes_per_second),
            added_bytes: 0,
            backups: self,
            source,
        };
        let names = source.files()?;
        let sizes = names.iter().map(|name| Ok(source.stat(name)?.0)).collect::<Result<Vec<u64>>>()?;
        let mut progress = Progress { done: 0, total: sizes.iter().sum() };
        let mut files = Vec::new();
        for name in names {
            let file = copier.copy(name)?;
            progress.done += file.bytes;
            watch(progress);
            files.push(file);
        }
        let record = Record {
            format: FORMAT,
            id: contents.records.keys().next_back().map_or(1, |last| last.saturating_add(1)),
            created: created.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            sequence,
            added_bytes: copier.added_bytes,
            files,
        };
        let (name, content) = record.encode();
        // If only the sync of the name failed, the record exists.
        self.put(&name, &mut &content[..]).inspect_err(|_| drop(self.target.remove(&name)))?;
        Ok(Backup::from(&record))
    }

    /// Returns the files of earlier backups that have an identity, with the names of their objects.
    /// A damaged record is left out: its files are then read again.
    fn known_files(&self, contents: &Contents) -> BTreeMap<(String, u64, Identity), Hash> {
        let records = contents.records.values().filter_map(|name| self.record(name).ok());
        let files = records.flat_map(|record| record.files);
        files.filter_map(|file| Some(((file.name, file.bytes, file.identity?), file.object))).collect()
    }
}

/// Copies files into a backup.
struct Copier<'a> {
    backups: &'a Backups,
    source: &'a Source,
    known: BTreeMap<(String, u64, Identity), Hash>,
    objects: BTreeMap<String, u64>,
    pace: Pace,
    added_bytes: u64,
}

impl Copier<'_> {
    /// Copies the file `name`, unless an object with its content exists.
    fn copy(&mut self, name: String) -> Result<FileRecord> {
        let (bytes, identity) = self.source.stat(&name)?;
        let known = identity.and_then(|identity| self.known.get(&(name.clone(), bytes, identity)));
        if let Some(object) = known.filter(|object| self.objects.get(&object_name(object)) == Some(&bytes)) {
            return Ok(FileRecord { object: object.clone(), name, bytes, identity });
        }
        let path = self.source.path_of(&name);
        let mut content = Paced(self.source.open(&name)?, &mut self.pace);
        let (object, read) = Hash::of_all(&mut content).map_err(Error::io("read", path.clone()))?;
        if read != bytes {
            let text = format!("{path} changed during the backup; back up only a checkpoint, which does not change");
            return Err(Error::Invalid(text));
        }
        let object_name = object_name(&object);
        if self.objects.get(&object_name) != Some(&bytes) {
            let content = Paced(self.source.open(&name)?, &mut self.pace);
            self.backups.put(&object_name, &mut Checked::new(content, object.clone()))?;
            self.objects.insert(object_name, bytes);
            self.added_bytes += bytes;
        }
        Ok(FileRecord { name, bytes, object, identity })
    }
}

/// Returns the directory for the checkpoint within the directory of the store. Removes the
/// checkpoint of a killed process.
fn default_scratch(db: &Db) -> Result<PathBuf> {
    let store = db.statistics();
    let directory = Path::new(&store.place);
    if store.layout.medium != Medium::Directory || !directory.join("CURRENT").is_file() {
        let text = format!("{} is not in a directory, so its checkpoint needs one: set `scratch`", store.place);
        return Err(Error::Invalid(text));
    }
    let scratch = directory.join(SCRATCH);
    remove_all(&scratch)?;
    Ok(scratch)
}

/// Removes the directory `path` if it exists.
fn remove_all(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", path.display().to_string())(error))
        }
        _ => Ok(()),
    }
}
