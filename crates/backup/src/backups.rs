//! A set of backups at one place.
use crate::{
    directory::DirectoryTarget,
    error::{Error, Result},
    record::{self, MARKER, Record},
    target::{BackupTarget, StoredObject, TargetLock},
};
use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
    time::{Duration, SystemTime},
};

/// The content of the object [`MARKER`].
const MARKER_TEXT: &str = "terrace backups, format 1\n";

/// The end of the year 9999, in seconds since 1970: the latest time that programs can format.
const CREATED_MAX: u64 = 253_402_300_799;

/// The backups at one place. Other processes may use the same place at the same time. While one of
/// them changes it, a call that would change it too returns [`Error::InUse`].
pub struct Backups {
    pub(crate) target: Box<dyn BackupTarget>,
}

/// One backup, as [`Backups::list`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The number of the backup: one more than the highest number at the time of its creation.
    pub id: u64,
    /// The time at which the backup began.
    pub created: SystemTime,
    /// The backup contains every write up to this sequence number, and no other.
    pub sequence: u64,
    /// Number of files of the store.
    pub files: usize,
    /// Total size of these files, in bytes.
    pub bytes: u64,
    /// Bytes that this backup added. All other bytes were in earlier backups already.
    pub added_bytes: u64,
}

impl From<&Record> for Backup {
    fn from(record: &Record) -> Backup {
        Backup {
            id: record.id,
            created: SystemTime::UNIX_EPOCH + Duration::from_secs(record.created.min(CREATED_MAX)),
            sequence: record.sequence,
            files: record.files.len(),
            bytes: record.bytes(),
            added_bytes: record.added_bytes,
        }
    }
}

/// The objects at the place of the backups.
pub(crate) struct Contents {
    /// The size of each object with a content, by its name.
    pub objects: BTreeMap<String, u64>,
    /// The name of each record, by the number of its backup.
    pub records: BTreeMap<u64, String>,
}

impl Backups {
    /// Opens the backups in the directory `path`. The first [`create`](Backups::create) makes the
    /// directory if it does not exist.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `path` has files but no backups; [`Error::Io`] if it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Backups> {
        Backups::on(DirectoryTarget::at(path))
    }

    /// Opens the backups at any place.
    ///
    /// # Errors
    /// The errors of [`open`](Backups::open).
    pub fn on(target: impl BackupTarget + 'static) -> Result<Backups> {
        let backups = Backups { target: Box::new(target) };
        backups.check_marker()?;
        Ok(backups)
    }

    /// Lists the backups, the oldest first. A backup whose record is damaged is an
    /// [`Error::Damaged`] in the list.
    ///
    /// # Errors
    /// [`Error::Io`] if the place cannot be listed or a record cannot be read.
    pub fn list(&self) -> Result<Vec<Result<Backup>>> {
        let mut listed = Vec::new();
        for name in self.contents()?.records.values() {
            match self.record(name) {
                Ok(record) => listed.push(Ok(Backup::from(&record))),
                Err(damaged @ Error::Damaged { .. }) => listed.push(Err(damaged)),
                Err(error) if error.is_not_found() => {} // another process has removed the backup
                Err(error) => return Err(error),
            }
        }
        Ok(listed)
    }

    /// Returns the number of the newest backup; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Io`] if the place cannot be listed.
    pub fn newest(&self) -> Result<Option<u64>> {
        Ok(self.contents()?.records.into_keys().next_back())
    }

    /// Checks that the place has backups of a known format, or nothing.
    fn check_marker(&self) -> Result<()> {
        let place = self.target.name();
        let listed = self.listed()?;
        if listed.is_empty() {
            return Ok(());
        }
        if !listed.iter().any(|object| object.name == MARKER) {
            let text = format!("{place} has files but no file {MARKER}; name an empty directory, or one with backups");
            return Err(Error::Invalid(text));
        }
        if self.read(MARKER)? != MARKER_TEXT.as_bytes() {
            return Err(Error::Invalid(format!("{place}/{MARKER} was written by a newer version, or is damaged")));
        }
        Ok(())
    }

    /// Locks the place for changes, and marks it as a place for backups.
    pub(crate) fn lock(&self) -> Result<Box<dyn TargetLock>> {
        let place = self.target.name();
        let lock = self.target.lock().map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::InUse(place.clone()),
            _ => Error::io("lock", place.clone())(error),
        })?;
        if self.listed()?.is_empty() {
            self.put(MARKER, &mut MARKER_TEXT.as_bytes())?;
        }
        self.check_marker()?;
        Ok(lock)
    }

    pub(crate) fn contents(&self) -> Result<Contents> {
        let (mut objects, mut records) = (BTreeMap::new(), BTreeMap::new());
        for StoredObject { name, bytes } in self.listed()? {
            if record::is_object(&name) {
                objects.insert(name, bytes);
            } else if let Some((id, _)) = record::parse_name(&name)
                && let Some(other) = records.insert(id, name)
            {
                // Someone has copied records into the directory. If one of them were ignored, a
                // purge would remove its objects.
                let detail = format!("another record has number {id}, too; move one of them to another directory");
                return Err(Error::Damaged { object: self.path_of(&other), detail });
            }
        }
        Ok(Contents { objects, records })
    }

    /// Returns the record of backup `id`.
    pub(crate) fn record_of(&self, id: u64) -> Result<Record> {
        let records = self.contents()?.records;
        match records.get(&id) {
            Some(name) => self.record(name),
            None => Err(self.missing(id, &records)),
        }
    }

    pub(crate) fn missing(&self, id: u64, records: &BTreeMap<u64, String>) -> Error {
        Error::Missing { place: self.target.name(), id, existing: records.keys().copied().collect() }
    }

    /// Reads the record with the name `name`.
    pub(crate) fn record(&self, name: &str) -> Result<Record> {
        Record::decode(&self.target.name(), name, &self.read(name)?)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let mut content = Vec::new();
        let read = self.target.get(name).and_then(|mut object| object.read_to_end(&mut content));
        read.map_err(Error::io("read", self.path_of(name)))?;
        Ok(content)
    }

    pub(crate) fn put(&self, name: &str, content: &mut dyn Read) -> Result<()> {
        self.target.put(name, content).map_err(Error::io("write", self.path_of(name)))
    }

    pub(crate) fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.target.name())
    }

    fn listed(&self) -> Result<Vec<StoredObject>> {
        match self.target.list() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(Error::io("list", self.target.name())),
        }
    }
}
