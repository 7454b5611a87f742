//! What is done to a whole store from outside.
use super::Db;
use crate::{
    Error, Options, RepairReport, Result,
    recover::{self, repair::build, survey::Survey},
    version::{files, set::Start},
};
use std::{collections::BTreeSet, path::Path};
use terrace_format::{Layout, SeqNo};
use terrace_storage::{
    DurabilityMode, Location, StorageConfig, TableFile, lies_in,
    placement::{ObjectId, OpenMode, Storage},
};

/// A copy of a store as of one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// It holds every write up to this sequence, and no other.
    pub sequence: u64,
    /// Files of tables, and of segments they point into, that are links to the store's own files, which take no space as long as the store has them too.
    pub linked: u64,
    /// Those that had to be copied, because the checkpoint is on another file system or there are no links.
    pub copied: u64,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Db {
    /// Salvages what can be read of the damaged store in directory `from`, whatever is left of it, into a new store in
    /// directory `to`, which must be absent or empty and outside of `from`. Changes nothing in `from`, which nobody may be
    /// writing. Try [`Db::open`] first: a store that opens needs no repair.
    ///
    /// Of each key the newest readable version counts, out of every table and log, unless a whole manifest says that a file was
    /// no longer in use. `options` say how the new store is made; its order of keys must be that of the old one.
    ///
    /// # Errors
    /// Damage is no error: it is told in [`RepairReport::lost`]. [`Error::Missing`] where `from` is not there or holds no table, WAL or
    /// manifest, [`Error::Io`] where a file of it may not be read (permissions), [`Error::Invalid`] where `to` will not do or the comparator
    /// is another: then nothing was made. After any other error what was made in `to` is removed.
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
                false => format!("{to} lies in {from}, in which a repair writes nothing"),
            }));
        }
        let open = |mode| terrace_storage::open(&Location::at(to), mode, options.durability, &options.setup());
        if to.exists() {
            recover::check_empty(&*open(OpenMode::Salvage)?, "repair")?;
        }
        // All refusals come before anything is made.
        let survey = Survey::of(&*damaged, options)?;
        let fresh = open(OpenMode::Create)?;
        recover::check_empty(&*fresh, "repair")?;
        let built = build(&*damaged, &survey, &*fresh, options);
        drop(fresh);
        built.inspect_err(|_| {
            let _ = Db::destroy(to); // best effort: the first error is the news
        })
    }

    /// Makes a copy of the store as it is now in directory `to`, which must be absent or empty: a store of its own, which may be
    /// opened, changed and destroyed without harm to this one. Finished tables are linked, or copied to another file system;
    /// what is in memory is flushed first. Writes and reads go on meanwhile; those that come after this call may be left out.
    ///
    /// The copy survives a power cut once this returns, whatever the store's tier promises. Cut short by one, it is no store
    /// yet, and opening it says so.
    ///
    /// # Errors
    /// [`Error::Invalid`] or [`Error::Unsupported`] where `to` will not do; [`Error::Io`] or [`Error::NoSpace`] where the copy cannot be
    /// written. The store itself goes on.
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

    /// As [`checkpoint`](Db::checkpoint), in any placement that is open for writing and empty. If it promises nothing at a power
    /// cut, neither does the copy.
    ///
    /// # Errors
    /// As of [`checkpoint`](Db::checkpoint); [`Error::Invalid`] if the placement is made of other parts than this store.
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
            let text = format!("{} is made of other parts than {}", to.name(), shared.storage.name());
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
        let (_pinned, start, _checkpoint) = captured.expect("waited for");
        // Its tables may be on their way to the device still. One that never gets there must not be copied as if it had.
        shared.storage.commit()?;
        shared.state.lock().versions.releasable()?;
        let objects: BTreeSet<ObjectId> = start.version.tables().flat_map(|(_, table)| files(table)).collect();
        let file = |object| Ok((shared.storage.file_of(object)?, object));
        let files = objects.into_iter().map(file).collect::<Result<Vec<_>>>()?;
        let copied = self.adopt_into(to, &files, start);
        copied.inspect_err(|_| files.iter().for_each(|(_, object)| drop(to.remove(*object))))
    }

    fn adopt_into(&self, to: &dyn Storage, files: &[(TableFile, ObjectId)], start: Start) -> Result<Checkpoint> {
        let shared = self.shared();
        let sequence = start.base.0;
        let requires = recover::create_alike(to, &*shared.storage, &shared.requires)?;
        to.settle(&[])?;
        let adopted = to.adopt(files)?;
        recover::begin(to, &shared.options, start, requires, &[])?;
        Ok(Checkpoint { sequence, linked: adopted.linked, copied: adopted.copied, bytes: adopted.bytes })
    }
}
