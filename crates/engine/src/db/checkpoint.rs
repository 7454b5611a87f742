//! Operations on a whole store: repair and checkpoint.
use super::Db;
use crate::{
    Error, Options, RepairReport, Result,
    recover::{self, repair::StoreScan},
    version::{files, set::Start},
};
use std::{collections::BTreeSet, path::Path};
use terrace_format::{FamilyId, Layout, SeqNo, edit::COLUMN_FAMILIES};
use terrace_storage::{
    DurabilityMode, Location, StorageConfig, TableFile, lies_in,
    placement::{ObjectId, OpenMode, Storage},
    replace_directory,
};

/// The result of a checkpoint: a copy of a store at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The checkpoint contains every write up to this sequence number, and no other.
    pub sequence: u64,
    /// Number of files (SSTables and value-log segments) that are hard links to the store's own
    /// files. A linked file takes no space as long as the store has the file too.
    pub linked: u64,
    /// Number of files that were copied, because the checkpoint is on another file system or hard
    /// links are not supported.
    pub copied: u64,
    /// Total bytes of all files.
    pub bytes: u64,
}

impl Db {
    /// Salvages all readable data of the damaged store in directory `from` into a new store in
    /// directory `to`. `to` must be absent or empty, and outside of `from`. The call changes
    /// nothing in `from`; no process may write there during the call. Try [`Db::open`] first: a
    /// store that opens needs no repair.
    ///
    /// For each key, the new store has the newest version that is readable in any SSTable or WAL.
    /// Files that an intact manifest lists as no longer in use are ignored. `options` apply to the
    /// new store; their comparator must be that of the old store.
    ///
    /// # Errors
    /// Damage is not an error: the call reports it in [`RepairReport::lost`].
    ///
    /// - [`Error::Missing`]: `from` does not exist, or contains no SSTable, WAL or manifest.
    /// - [`Error::Io`]: the permissions of a file in `from` forbid a read.
    /// - [`Error::Invalid`]: `to` is not usable, or the comparator differs.
    ///
    /// After these three errors the call has created nothing. After any other error it removes the
    /// files that it created in `to`.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (damaged, fresh) = (place.path().join("damaged"), place.path().join("fresh"));
    /// # let db = Db::open(&damaged, Options::default())?;
    /// # db.put("key", "value")?;
    /// # db.close()?;
    /// std::fs::remove_file(damaged.join("CURRENT")).unwrap();
    /// assert!(Db::open(&damaged, Options::default()).is_err());
    /// let report = Db::repair(&damaged, &fresh, &Options::default())?;
    /// assert_eq!(Db::open(&fresh, Options::default())?.get("key")?, Some(b"value".to_vec()));
    /// assert_eq!(report.pairs, 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>, options: &Options) -> Result<RepairReport> {
        options.validate()?;
        let (from, to) = (from.as_ref(), to.as_ref());
        let damaged =
            terrace_storage::open(&Location::at(from), OpenMode::Salvage, options.durability, &options.setup())?;
        if lies_in(to, from)? {
            let (to, from, same) = (to.display(), from.display(), lies_in(from, to)?);
            return Err(Error::Invalid(match same {
                true => {
                    format!("{to} is the damaged store itself, in which a repair writes nothing; name another place")
                }
                false => format!(
                    "{to} is inside the damaged store {from}, in which a repair writes nothing; name another place"
                ),
            }));
        }
        let open = |mode| terrace_storage::open(&Location::at(to), mode, options.durability, &options.setup());
        if to.exists() {
            recover::check_empty(&*open(OpenMode::Salvage)?, "repair")?;
        }
        // Every check that may refuse the repair runs before any file is created.
        let options = &options.resolved();
        let scan = StoreScan::of(&*damaged, options)?;
        let fresh = open(OpenMode::Create)?;
        recover::check_empty(&*fresh, "repair")?;
        let built = scan.build(&*damaged, &*fresh, options);
        drop(fresh);
        built.inspect_err(|_| {
            let _ = Db::destroy(to); // best effort: the caller gets the first error
        })
    }

    /// Repairs the store in directory `path` in place. The new store is written to `PATH.repair`.
    /// Then the new store gets the name `path`, and the damaged store is kept as `PATH.damaged-1`,
    /// or under the next free number. On 64-bit Linux, if the file system can exchange names,
    /// `path` is a complete store at every moment: either the damaged or the new one.
    ///
    /// Elsewhere, `path` is missing for a moment. If the process ends in that moment, the new store
    /// is `PATH.repaired`, an open creates no store at `path`, and the next call of this function
    /// finishes the repair.
    ///
    /// # Errors
    /// The errors of [`repair`](Db::repair); [`Error::Io`] if a directory cannot be renamed.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// # let db = Db::open(&path, Options::default())?;
    /// # db.put("key", "value")?;
    /// # db.close()?;
    /// std::fs::remove_file(path.join("CURRENT")).unwrap();
    /// Db::repair_in_place(&path, &Options::default())?;
    /// assert_eq!(Db::open(&path, Options::default())?.get("key")?, Some(b"value".to_vec()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn repair_in_place(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        replace_directory(path.as_ref(), |damaged, fresh| Db::repair(damaged, fresh, options).map(drop))
    }

    /// Makes a copy of the current state of the store in directory `to`, which must be absent or
    /// empty. The copy is an independent store: it may be opened, changed and destroyed without
    /// effect on this store. The call flushes the memtables and then hard-links the SSTables, or
    /// copies them if `to` is on another file system. Reads and writes continue during the call;
    /// writes that begin after the start of the call may be missing in the copy.
    ///
    /// Durability: when this call returns, the copy survives a power cut, whatever the durability
    /// mode of the store is. A power cut during the call leaves a directory that is not a store
    /// yet, and an open of that directory returns an error.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::Unsupported`] if `to` is not usable; [`Error::Io`] or
    /// [`Error::NoSpace`] if the copy cannot be written. These errors do not affect this store.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (place.path().join("store"), place.path().join("copy"));
    /// let db = Db::open(&path, Options::default())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.checkpoint(&copy)?.sequence, 1);
    /// db.delete("key")?;
    /// assert_eq!(Db::open(&copy, Options::default())?.get("key")?, Some(b"value".to_vec()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn checkpoint(&self, to: impl AsRef<Path>) -> Result<Checkpoint> {
        let shared = self.shared();
        self.writes()?;
        let location = Location::at(to.as_ref());
        let setup = StorageConfig { layout: shared.storage.layout(), ..shared.options.setup() };
        let copy = terrace_storage::open(&location, OpenMode::Create, DurabilityMode::Sync, &setup)?;
        self.checkpoint_on(&*copy)
    }

    /// Works like [`checkpoint`](Db::checkpoint), but copies into any empty storage that is open
    /// for writing. If that storage has a durability mode that promises nothing at a power cut, the
    /// copy is not durable either.
    ///
    /// # Errors
    /// The errors of [`checkpoint`](Db::checkpoint), and [`Error::Invalid`] if the storage has
    /// another layout than this store.
    ///
    /// ```
    /// # use terrace::{Db, Options, DurabilityMode};
    /// use terrace_storage::{Location, Memory, placement::OpenMode};
    /// let options = Options::default();
    /// let db = Db::open_in_memory(options.clone())?;
    /// db.put("key", "value")?;
    /// let place = Location::Memory(Memory::new());
    /// let copy = terrace_storage::open(&place, OpenMode::Create, DurabilityMode::Sync, &options.setup())?;
    /// assert_eq!(db.checkpoint_on(&*copy)?.sequence, 1);
    /// assert_eq!(Db::open_on(copy, options)?.get("key")?, Some(b"value".to_vec()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn checkpoint_on(&self, to: &dyn Storage) -> Result<Checkpoint> {
        let (shared, writes) = (self.shared(), self.writes()?);
        recover::check_empty(to, "checkpoint")?;
        let alike = Layout { medium: to.layout().medium, ..shared.storage.layout() };
        if to.layout() != alike {
            let text = format!("{} has another layout than {}", to.name(), shared.storage.name());
            return Err(Error::Invalid(text));
        }
        let sequence = SeqNo(self.last_sequence());
        writes.seal(shared)?;
        let mut captured = None;
        shared.wait_until(|state| {
            let flushed = state.versions.base() >= sequence;
            let capture = || (state.versions.live().clone(), state.versions.live_start(), state.checkpoints.clone());
            captured = flushed.then(capture);
            flushed
        })?;
        let (_pinned, start, _checkpoint) = captured.expect("set by the wait above");
        // SSTables of the live version may not be durable yet. The checkpoint must not copy a table
        // that fails to become durable as if it were durable.
        shared.commit_storage()?;
        shared.state.lock().versions.committable()?;
        let objects: BTreeSet<ObjectId> = start.version.all_tables().flat_map(|(_, table)| files(table)).collect();
        let file = |object| Ok((shared.storage.file_of(object)?, object));
        let files = objects.into_iter().map(file).collect::<Result<Vec<_>>>()?;
        let copied = self.adopt_into(to, &files, start);
        copied.inspect_err(|_| files.iter().for_each(|(_, object)| drop(to.remove(*object))))
    }

    fn adopt_into(&self, to: &dyn Storage, files: &[(TableFile, ObjectId)], start: Start) -> Result<Checkpoint> {
        let shared = self.shared();
        let sequence = start.base.0;
        let mut features = shared.requires.clone();
        if start.next_family > FamilyId(1) && !features.iter().any(|feature| feature == COLUMN_FAMILIES) {
            features.push(COLUMN_FAMILIES.into()); // the first family was created after the open
        }
        let requires = recover::create_alike(to, &*shared.storage, &features)?;
        to.settle(&[])?;
        let adopted = to.adopt(files)?;
        recover::begin(to, &shared.options, start, requires, &[])?;
        Ok(Checkpoint { sequence, linked: adopted.linked, copied: adopted.copied, bytes: adopted.bytes })
    }
}
