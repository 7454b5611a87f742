//! Column families: key spaces of one store, each with an LSM-tree of its own.
use super::{
    Db,
    ingest::Ingested,
    report::{LevelInfo, layout},
};
use crate::{
    Cursor, Error, Options, PinnedValue, ReadOptions, Result, Scan, SortedTable, WriteBatch, WriteOptions, batch,
    jobs::change_family::{change_family, quiesce},
    recover::announce_families,
    state::DbInner,
    write::WriteRequest,
};
use std::{fmt, path::Path, sync::Arc};
use terrace_format::{FamilyId, Values, batch::Op, edit::FamilyChange};

/// The name of the column family that every store has. Methods of [`Db`] that take no column
/// family use this one.
const DEFAULT: &str = "default";

/// A column family: a key space of a store with its own memtables and SSTables. A clone is a
/// handle to the same family, and keeps the store open as a clone of [`Db`] does.
///
/// All families of a store share one WAL and one sequence of writes. A [`WriteBatch`] with
/// operations on several families is atomic, a [`Snapshot`](crate::Snapshot) shows all families at
/// the same moment, and a power cut leaves a prefix of the writes to all families together. The
/// options of the store apply to every family.
///
/// After [`Db::drop_cf`] every read of the family returns [`Error::Invalid`].
///
/// ```
/// # use terrace::{Db, Options, WriteBatch, WriteOptions};
/// let db = Db::open_in_memory(Options::default())?;
/// let users = db.create_cf("users")?;
/// let by_mail = db.create_cf("users by mail")?;
/// let mut batch = WriteBatch::new();
/// batch.put_cf(&users, "1", "ann@example.org").put_cf(&by_mail, "ann@example.org", "1");
/// db.write(batch, WriteOptions::default())?; // both or none
/// assert_eq!(by_mail.get("ann@example.org")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(db.get("1")?, None); // another key space
/// # Ok::<(), terrace::Error>(())
/// ```
#[derive(Clone)]
pub struct ColumnFamily {
    pub(super) db: Db,
    pub(super) id: FamilyId,
    name: Arc<str>,
}

impl Db {
    /// Opens the store in `path` as [`open`](Db::open) does, and the column families `names` in it.
    /// Families that do not exist are created if the options allow the creation of the store.
    ///
    /// # Errors
    /// The errors of [`open`](Db::open), of [`cf`](Db::cf) and of [`create_cf`](Db::create_cf).
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let place = tempfile::tempdir().unwrap();
    /// # let path = place.path().join("store");
    /// let (db, families) = Db::open_cf(&path, Options::default(), &["users", "orders"])?;
    /// families[1].put("1", "a bicycle")?;
    /// assert_eq!(db.cf_names(), ["default", "users", "orders"]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn open_cf(
        path: impl AsRef<Path>,
        options: Options,
        names: &[impl AsRef<str>],
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let creates = options.create_if_missing;
        let db = Db::open(path, options)?;
        let open = |name: &str| match db.cf(name) {
            Err(Error::Missing { .. }) if creates => db.create_cf(name),
            found => found,
        };
        let families = names.iter().map(|name| open(name.as_ref())).collect::<Result<_>>()?;
        Ok((db, families))
    }

    /// Creates the column family `name`. When the call returns, the family survives a power cut.
    ///
    /// The creation of the first family adds a feature flag to the store. From then on LevelDB
    /// refuses to open the store.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the family exists. [`Error::Unsupported`] in a store that separates
    /// values from keys (`values=log`). Otherwise the errors of [every write](Db#errors).
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.create_cf("users")?.put("1", "ann")?;
    /// assert!(matches!(db.create_cf("users"), Err(Error::Invalid(_))));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn create_cf(&self, name: &str) -> Result<ColumnFamily> {
        let (shared, writes) = (self.shared(), self.writes()?);
        if shared.storage.layout().values == Values::Log {
            let text = format!("{} has values=log, which cannot have column families yet", shared.storage.name());
            return Err(Error::Unsupported(text));
        }
        let _no_other_change = writes.family_changes.lock();
        shared.check_writable(&shared.state.lock())?;
        if self.find_cf(name).is_some() {
            return Err(Error::Invalid(format!("column family {name:?} exists already in {}", shared.storage.name())));
        }
        announce_families(&*shared.storage, &shared.requires)?;
        let id = shared.state.lock().versions.next_family();
        let comparator = shared.order.name().to_string();
        change_family(shared, FamilyChange::Created { id, name: name.into(), comparator })?;
        Ok(ColumnFamily { db: self.clone(), id, name: name.into() })
    }

    /// Returns the column family `name`. Every store has the family `default`, which is the key
    /// space of the methods of `Db`.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such family.
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.cf("default")?.put("key", "value")?;
    /// assert_eq!(db.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert!(matches!(db.cf("users"), Err(Error::Missing { .. })));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn cf(&self, name: &str) -> Result<ColumnFamily> {
        self.shared().check_process()?;
        self.find_cf(name).ok_or_else(|| Error::Missing {
            what: "column family",
            object: format!("{name:?} in {}", self.shared().storage.name()),
        })
    }

    fn find_cf(&self, name: &str) -> Option<ColumnFamily> {
        let of = |id| ColumnFamily { db: self.clone(), id, name: name.into() };
        if name == DEFAULT {
            return Some(of(FamilyId::DEFAULT));
        }
        let view = self.shared().view.load();
        view.version.families().iter().find(|(_, family)| &*family.name == name).map(|(id, _)| of(*id))
    }

    /// Returns the names of all column families in the order of their creation, `default` first.
    pub fn cf_names(&self) -> Vec<String> {
        let view = self.shared().view.load();
        let others = view.version.families().values().map(|family| family.name.to_string());
        std::iter::once(DEFAULT.to_string()).chain(others).collect()
    }

    /// Drops the column family `name` with all its pairs. The call deletes files and writes no
    /// tombstones. It waits for running compactions of the family, and for one flush. When it
    /// returns, the drop survives a power cut. Existing iterators of the family stay readable.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is no such family, [`Error::Invalid`] for the family `default`.
    /// Otherwise the errors of [every write](Db#errors).
    ///
    /// ```
    /// # use terrace::{Db, Error, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let users = db.create_cf("users")?;
    /// users.put("1", "ann")?;
    /// db.drop_cf("users")?;
    /// assert!(matches!(users.get("1"), Err(Error::Invalid(_))));
    /// assert_eq!(db.create_cf("users")?.get("1")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn drop_cf(&self, name: &str) -> Result<()> {
        let (shared, writes) = (self.shared(), self.writes()?);
        let _no_other_change = writes.family_changes.lock();
        let family = self.cf(name)?.id;
        if family == FamilyId::DEFAULT {
            return Err(Error::Invalid("the column family \"default\" cannot be dropped".into()));
        }
        let _dropping = Dropping::begin(shared, family);
        quiesce(shared, family)?;
        writes.settle_family(shared, family, || change_family(shared, FamilyChange::Dropped(family)))
    }
}

/// A guard: as long as it exists, no compaction of the column family that is being dropped starts.
struct Dropping<'a>(&'a Arc<DbInner>);

impl Dropping<'_> {
    fn begin(shared: &Arc<DbInner>, family: FamilyId) -> Dropping<'_> {
        Dropping::set(shared, Some(family));
        Dropping(shared)
    }

    fn set(shared: &Arc<DbInner>, family: Option<FamilyId>) {
        let mut state = shared.state.lock();
        state.dropping = family;
        shared.bump_stall_epoch(&state); // writers must not wait for compactions of this family
        shared.schedule(&mut state);
    }
}

impl Drop for Dropping<'_> {
    fn drop(&mut self) {
        Dropping::set(self.0, None);
    }
}

impl ColumnFamily {
    /// Returns the name of the family.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of the family. The operations of [`Db::updates_since`] name families by
    /// their numbers. A store never assigns a number twice.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// # let mut options = Options::default();
    /// # options.wal_size_limit = 1 << 20;
    /// # let db = Db::open_in_memory(options)?;
    /// let users = db.create_cf("users")?;
    /// users.put("1", "ann")?;
    /// let update = db.updates_since(0)?.next().expect("the put")?;
    /// assert!(update.batch.ops().all(|op| op.split().0 == users.id()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn id(&self) -> FamilyId {
        self.id
    }

    /// Returns the levels of the family and their SSTables.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the family was dropped.
    pub fn layout(&self) -> Result<Vec<LevelInfo>> {
        let view = self.db.shared().view.load();
        view.version.tree(self.id).map(layout).ok_or_else(|| Error::family_dropped(self.id))
    }

    /// Returns the store of the family.
    pub(crate) fn store(&self) -> &Db {
        &self.db
    }

    /// Returns the number of the family, and the number of the open store (see `DbInner::instance`)
    /// to which the family belongs.
    pub(crate) fn id_in_store(&self) -> (FamilyId, u64) {
        (self.id, self.db.shared().instance)
    }

    /// Sets `key` to `value`; see [`Db::put`].
    ///
    /// # Errors
    /// The errors of [`Db::put`].
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// Works like [`put`](ColumnFamily::put), with write options; see [`Db::put_with`].
    ///
    /// # Errors
    /// The errors of [`Db::put`].
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        self.write(Op::Put(key, value), (key.len() as u64, value.len() as u64), options)
    }

    /// Deletes `key`; see [`Db::delete`].
    ///
    /// # Errors
    /// The errors of [`Db::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// Works like [`delete`](ColumnFamily::delete), with write options.
    ///
    /// # Errors
    /// The errors of [`Db::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let key = key.as_ref();
        self.write(Op::Delete(key), (key.len() as u64, 0), options)
    }

    /// Deletes every key from `from` (inclusive) to `to` (exclusive); see [`Db::delete_range`].
    ///
    /// # Errors
    /// The errors of [`Db::delete_range`].
    pub fn delete_range(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        self.check_exists()?;
        self.db.delete_range_in(self.id, from.as_ref(), to.as_ref(), options)
    }

    fn write(&self, op: Op<'_>, longest: (u64, u64), options: WriteOptions) -> Result<()> {
        self.check_exists()?;
        self.db.write_checked(WriteRequest::Single(op.in_family(self.id)), longest, options).map(drop)
    }

    /// Returns an error if the family was dropped. A write that runs at the same time as the drop
    /// may still be accepted; it is then ordered before the drop.
    pub(super) fn check_exists(&self) -> Result<()> {
        let exists = self.db.shared().view.load().version.tree(self.id).is_some();
        if exists { Ok(()) } else { Err(Error::family_dropped(self.id)) }
    }

    /// Returns the value of `key`, or `None` if the family does not have the key; see [`Db::get`].
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, &ReadOptions::DEFAULT)
    }

    /// Works like [`get`](ColumnFamily::get), with read options; see [`Db::get_with`].
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.db.look_up_now(self.id, key.as_ref(), options, |value| value.into_vec())
    }

    /// Works like [`get_with`](ColumnFamily::get_with), without a copy; see [`Db::get_pinned`].
    ///
    /// # Errors
    /// The errors of [`Db::get`].
    pub fn get_pinned(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<PinnedValue>> {
        self.db.look_up_now(self.id, key.as_ref(), options, |value| value.pin())
    }

    /// Returns the values of `keys`, all from the same moment; see [`Db::multi_get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Vec<u8>>>> {
        self.db.multi_get_in(self.id, keys, &ReadOptions::DEFAULT)
    }

    /// Works like [`multi_get`](ColumnFamily::multi_get), with read options.
    pub fn multi_get_with<K: AsRef<[u8]>>(&self, keys: &[K], options: &ReadOptions) -> Vec<Result<Option<Vec<u8>>>> {
        self.db.multi_get_in(self.id, keys, options)
    }

    /// Returns the pairs of a range in key order; see [`Db::scan`].
    pub fn scan(&self, options: ReadOptions) -> Scan {
        Scan::new(self.cursor(options), false)
    }

    /// Returns the pairs of a range in reverse key order; see [`Db::scan_reverse`].
    pub fn scan_reverse(&self, options: ReadOptions) -> Scan {
        Scan::new(self.cursor(options), true)
    }

    /// Returns a cursor over a key range; see [`Db::cursor`].
    pub fn cursor(&self, options: ReadOptions) -> Cursor {
        self.db.cursor_in(self.id, options)
    }

    /// Compacts all SSTables of the family with keys from `from` to `to`; see
    /// [`Db::compact_range`].
    ///
    /// # Errors
    /// The errors of [`Db::compact_range`].
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.check_exists()?;
        self.db.compact_range_in(self.id, from, to)
    }

    /// Returns the approximate number of bytes that SSTables of the family use for each key range;
    /// see [`Db::approximate_sizes`].
    ///
    /// # Errors
    /// The errors of [`Db::approximate_sizes`].
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        self.db.approximate_sizes_in(self.id, ranges)
    }

    /// Adds the entries of SSTables to the family atomically; see [`Db::ingest`].
    ///
    /// # Errors
    /// The errors of [`Db::ingest`].
    pub fn ingest<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Ingested> {
        self.db.ingest_in(self.id, paths)
    }

    /// Writes pairs of the family as SSTables into the existing directory `to`; see [`Db::export`].
    ///
    /// # Errors
    /// The errors of [`Db::export`].
    pub fn export(&self, to: impl AsRef<Path>, options: ReadOptions) -> Result<Vec<SortedTable>> {
        self.db.export_in(self.id, to.as_ref(), options)
    }
}

impl fmt::Debug for ColumnFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnFamily").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

impl WriteBatch {
    /// Works like [`from_bytes`](WriteBatch::from_bytes), for a batch that names column families of
    /// an open store. The number of a family in `bytes` is its position in `families`, counted from
    /// 1, because a caller does not know the numbers in the store.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `bytes` do not encode a batch, or name a family that is not in
    /// `families`.
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteBatch, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let users = db.create_cf("users")?;
    /// let bytes = *b"\0\0\0\0\0\0\0\0\x01\0\0\0\x05\x01\x03key\x05value"; // a put in family 1
    /// db.write(WriteBatch::from_bytes_in(bytes, &[&users])?, WriteOptions::default())?;
    /// assert_eq!(users.get("key")?.as_deref(), Some(&b"value"[..]));
    /// assert!(WriteBatch::from_bytes_in(bytes, &[]).is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn from_bytes_in(bytes: impl Into<Vec<u8>>, families: &[&ColumnFamily]) -> Result<WriteBatch> {
        let mut batch = WriteBatch::new();
        for op in batch::decode(bytes.into())?.ops() {
            match op.split() {
                (FamilyId::DEFAULT, Op::Put(key, value)) => batch.put(key, value),
                (FamilyId::DEFAULT, Op::Delete(key)) => batch.delete(key),
                (FamilyId::DEFAULT, Op::DeleteRange(from, to)) => batch.delete_range(from, to),
                (number, op) => {
                    let family = families.get((number.0 as usize).wrapping_sub(1)).ok_or_else(|| {
                        Error::Invalid(format!("the batch names column family {number} of {} families", families.len()))
                    })?;
                    batch.add_in(family.id_in_store(), op)
                }
            };
        }
        Ok(batch)
    }

    /// Appends a put of `value` under `key` in `family`.
    ///
    /// ```
    /// # use terrace::{Db, Options, WriteBatch, WriteOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let users = db.create_cf("users")?;
    /// let mut batch = WriteBatch::new();
    /// batch.put("count", "1").put_cf(&users, "1", "ann").delete_cf(&users, "0");
    /// db.write(batch, WriteOptions::synced())?;
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn put_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.add_in(family.id_in_store(), Op::Put(key.as_ref(), value.as_ref()))
    }

    /// Appends a delete of `key` in `family`.
    pub fn delete_cf(&mut self, family: &ColumnFamily, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        self.add_in(family.id_in_store(), Op::Delete(key.as_ref()))
    }

    /// Appends a range tombstone in `family`; see [`delete_range`](WriteBatch::delete_range).
    pub fn delete_range_cf(
        &mut self,
        family: &ColumnFamily,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
    ) -> &mut WriteBatch {
        self.add_in(family.id_in_store(), Op::DeleteRange(from.as_ref(), to.as_ref()))
    }
}
