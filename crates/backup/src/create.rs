//! Creates a backup.
use crate::{
    backups::{Backup, Backups, Contents},
    error::{Error, Result},
    hash::{Checked, Hash},
    pace::{Pace, Paced},
    record::{CURRENT, FORMAT, FileRecord, Record, object_name},
    scratch::Scratch,
    source::{Identity, Source},
};
use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};
use terrace::Db;
use terrace_storage::lies_in;

/// Options of [`Backups::create`].
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    bytes_per_second: u64,
    scratch: Option<PathBuf>,
}

impl CreateOptions {
    /// Limits the bytes per second that the backup reads from the checkpoint; 0, the default, means
    /// no limit.
    #[must_use]
    pub fn bytes_per_second(mut self, rate: u64) -> CreateOptions {
        self.bytes_per_second = rate;
        self
    }

    /// Sets the directory for the checkpoint, which must not exist and is removed at the end of
    /// the call. By default it is `backup.tmp` in the directory of the store, so that the
    /// checkpoint has hard links to the files of the store and takes no space. A store without a
    /// directory of its own (on a device, or in memory) needs this option, and space for a whole
    /// copy.
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
    /// example after the store was restored from a backup. The call does not verify the content
    /// that earlier backups have stored: see [`verify`](Backups::verify).
    ///
    /// Durability: when this call returns, the backup survives a power cut, and contains every
    /// write that ended before the call.
    ///
    /// # Errors
    /// [`Error::Store`] if the checkpoint fails; [`Error::Io`] if the target cannot be written,
    /// for example because it is full; [`Error::InUse`] if another call backs up the same store,
    /// or changes the same backups. After an error there is no new backup; only if the last sync
    /// of the target failed, it may exist, and is then complete. Objects that were written
    /// already stay, and the next call uses them.
    pub fn create(&self, db: &Db, options: &CreateOptions) -> Result<Backup> {
        self.create_with(db, options, |_| ())
    }

    /// Works like [`create`](Backups::create), and calls `watch` with the progress after each file.
    ///
    /// # Errors
    /// The errors of [`create`](Backups::create).
    pub fn create_with(&self, db: &Db, options: &CreateOptions, watch: impl FnMut(Progress)) -> Result<Backup> {
        if let (Some(place), Some(store)) = (self.target.directory(), db.directory())
            && lies_in(place, store).map_err(terrace::Error::from)?
        {
            let text = format!("{} lies within the store; name a directory outside of it", place.display());
            return Err(Error::Invalid(text));
        }
        let scratch = match &options.scratch {
            Some(path) => Scratch::create(path)?,
            None => Scratch::within(db)?,
        };
        let _lock = self.lock()?;
        let created = SystemTime::now();
        let checkpoint = scratch.checkpoint();
        let sequence = db.checkpoint(&checkpoint)?.sequence;
        self.add(&Source::at(&checkpoint), sequence, created, options, watch)
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
        if !names.iter().any(|name| name == CURRENT) {
            let text = format!("{} has no {CURRENT}, so it is not a checkpoint", source.path_of(""));
            return Err(Error::Invalid(text));
        }
        let sizes = names.iter().map(|name| Ok(source.stat(name)?.0)).collect::<Result<Vec<u64>>>()?;
        let mut progress = Progress { done: 0, total: sizes.iter().sum() };
        let mut files = Vec::new();
        for name in names {
            let file = copier.copy(name)?;
            progress.done += file.bytes;
            watch(progress);
            files.push(file);
        }
        let last = contents.records.keys().next_back().copied().unwrap_or(0);
        let record = Record {
            format: FORMAT,
            id: last.checked_add(1).ok_or_else(|| {
                Error::Invalid(format!("backup numbers are exhausted: backup {last} has the highest one"))
            })?,
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
            return Err(changed(&path));
        }
        let object_name = object_name(&object);
        if self.objects.get(&object_name) != Some(&bytes) {
            let mut failed = None;
            let content = Paced(Observed { content: self.source.open(&name)?, failed: &mut failed }, &mut self.pace);
            let mut content = Checked::new(content, object.clone());
            let put = self.backups.put(&object_name, &mut content);
            match (failed, put) {
                (Some(error), _) => return Err(Error::io("read", path)(error)),
                (None, Err(Error::Io { source, .. })) if source.kind() == io::ErrorKind::InvalidData => {
                    return Err(changed(&path));
                }
                (None, put) => put?,
            }
            self.objects.insert(object_name, bytes);
            self.added_bytes += bytes;
        }
        Ok(FileRecord { name, bytes, object, identity })
    }
}

fn changed(path: &str) -> Error {
    Error::Invalid(format!("{path} changed during the backup; back up only a checkpoint, which does not change"))
}

/// Forwards the data of a reader, and keeps the error of a failed read.
struct Observed<'a, R> {
    content: R,
    failed: &'a mut Option<io::Error>,
}

impl<R: Read> Read for Observed<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.content.read(buf).map_err(|error| {
            let kind = error.kind();
            *self.failed = Some(error);
            kind.into()
        })
    }
}
