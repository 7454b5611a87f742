//! Reads: point lookups, scans, cursors and snapshots.
use super::Db;
use crate::{
    Error, Result,
    read::{
        get::{self, PointLookup, Value},
        merge::Merge,
        pinned::PinnedValue,
        range_tombstone_iter::RangeTombstoneIter,
        run::RunCursor,
        scan::{Cursor, ReadOptions, ReadRange, ReadSampler, ReadTrigger, Scan},
        separated_values::SeparatedValues,
        snapshot::Snapshot,
        snapshot_iter::SnapshotIter,
        source::{Source, Sources},
        view::{TreeView, View},
    },
    state::DbInner,
};
use std::sync::{Arc, Weak};
use terrace_format::{
    FamilyId, SeqNo,
    key::{self, Lookup},
};
use terrace_storage::{is_sample, placement::TableReadOptions};

/// The read options of a plain [`Db::get`].
static READ_OPTIONS: ReadOptions = ReadOptions::DEFAULT;

/// Returns an iterator over the pairs that a reader at `seq` sees in `view`.
#[inline(always)] // inlined because the iterator is large: a call would move it
fn snapshot_iter(shared: &Arc<DbInner>, view: TreeView<'_>, seq: SeqNo, how: TableReadOptions) -> SnapshotIter {
    let runs = view.version.runs();
    let mut sources = Sources::new();
    sources.extend(view.memtables().map(|mem| Source::Mem(mem.cursor())));
    sources.extend(
        runs.iter().map(|(_, run)| {
            Source::Run(RunCursor::new(shared.storage.clone(), shared.order.clone(), run.clone(), how))
        }),
    );
    let order = || shared.order.clone();
    let covers =
        shared.has_range_tombstones.then(|| RangeTombstoneIter::new(shared.storage.clone(), order(), view, seq));
    SnapshotIter::new(order(), Merge::new(order(), sources), covers, seq)
}

/// Returns the data that a cursor needs to read values from the value log, in a store with value
/// separation.
#[inline(never)] // most stores do not separate values
fn separated_values(
    shared: &Arc<DbInner>,
    view: &Arc<View>,
    family: FamilyId,
    seq: SeqNo,
    how: TableReadOptions,
    options: &ReadOptions,
) -> Box<SeparatedValues> {
    let bounds = ReadRange::new(shared.order.clone(), options.clone());
    let again = {
        let (shared, view) = (shared.clone(), view.clone());
        move || snapshot_iter(&shared, view.tree(family).expect("the cursor reads this family"), seq, how)
    };
    let (storage, order) = (shared.storage.clone(), shared.order.clone());
    let ahead_bytes = shared.options.value_readahead_bytes;
    Box::new(SeparatedValues::new(storage, order, ahead_bytes, again, move |key| bounds.hold(key)))
}

/// Returns the part of `view` that belongs to column family `family`.
#[inline]
fn tree_of(view: &View, family: FamilyId) -> Result<TreeView<'_>> {
    view.tree(family).ok_or_else(|| Error::family_dropped(family))
}

/// Number of keys whose blocks `multi_get` prefetches before it reads the first block. So many
/// reads fill the queue of any device, and they are so few that the first blocks are still in
/// memory when they are read.
const PREFETCH_KEYS_MAX: usize = 128;

impl Db {
    /// Returns the value of `key`, or `None` if the store does not have the key.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Missing`] or
    /// [`Error::Io`] if a file that may hold the key cannot be read;
    /// [`Error::Invalid`] for a snapshot of another store.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.get("key")?, Some(b"value".to_vec()));
    /// assert_eq!(db.get("other")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, &READ_OPTIONS)
    }

    /// Works like [`get`](Db::get), with read options, for instance a snapshot. Key bounds in the
    /// options have no effect.
    ///
    /// # Errors
    /// The errors of [`get`](Db::get).
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "old")?;
    /// let before = ReadOptions::new().snapshot(&db.snapshot());
    /// db.put("key", "new")?;
    /// assert_eq!(db.get_with("key", &before)?, Some(b"old".to_vec()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        self.look_up_now(FamilyId::DEFAULT, key.as_ref(), options, |value| value.into_vec())
    }

    /// Works like [`get_with`](Db::get_with), but copies the value only if it is read through the
    /// mapping of an SSTable. Otherwise the result refers to the value in a cached block or a
    /// memtable, and pins this memory. Clones of the result share the bytes.
    ///
    /// # Errors
    /// The errors of [`get`](Db::get).
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "a long value")?;
    /// let value = db.get_pinned("key", &ReadOptions::new())?;
    /// assert!(value.is_some_and(|value| value.starts_with(b"a long")));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn get_pinned(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<PinnedValue>> {
        self.look_up_now(FamilyId::DEFAULT, key.as_ref(), options, |value| value.pin())
    }

    pub(crate) fn look_up_now<T>(
        &self,
        family: FamilyId,
        key: &[u8],
        options: &ReadOptions,
        take: impl Fn(Value<'_>) -> T,
    ) -> Result<Option<T>> {
        // A point lookup loads the view before the sequence number. In the opposite order, a
        // compaction between the two loads could drop an entry that the sequence number sees. If
        // the commit leader seals the memtable and replaces the view directly after the load, the
        // old view shows an earlier prefix of the history. This prefix has every write that was
        // acknowledged before the lookup began.
        let view = self.shared().view.load();
        let lookup = Lookup::new(key, self.read_sequence(options)?);
        Ok(self.look_up(tree_of(&view, family)?, &lookup, self.how(options))?.map(take))
    }

    fn look_up<'a>(&self, view: TreeView<'a>, lookup: &[u8], how: TableReadOptions) -> Result<Option<Value<'a>>> {
        self.look_up_stored(view, lookup, self.shared().separates_values, how)
    }

    /// Returns the value of a key as it is stored. If values are separated and `resolve` is false,
    /// the result is the value pointer instead of the value.
    #[inline]
    fn look_up_stored<'a>(
        &self,
        view: TreeView<'a>,
        lookup: &[u8],
        resolve: bool,
        how: TableReadOptions,
    ) -> Result<Option<Value<'a>>> {
        let shared = self.shared();
        let (storage, order, ranges) = (&*shared.storage, &shared.order, shared.has_range_tombstones);
        let point_lookup = PointLookup { storage, order, lookup, ranges, resolve, how };
        if is_sample() {
            return self.look_up_counted(&point_lookup, view);
        }
        get::get(&point_lookup, view, |_| {}, |level, table| shared.on_seek_budget_spent(view.family, level, table))
    }

    /// Looks up a key and counts the lookup in the statistics. The first pass of `multi_get` only
    /// prefetches and is not counted.
    #[cold]
    fn look_up_counted<'a>(&self, point: &PointLookup<'_>, view: TreeView<'a>) -> Result<Option<Value<'a>>> {
        let shared = self.shared();
        let on_search = |tables| {
            if point.resolve == shared.separates_values {
                shared.stats.looked_up(tables);
            }
        };
        get::get(point, view, on_search, |level, table| shared.on_seek_budget_spent(view.family, level, table))
    }

    /// Returns the values of `keys`, each as [`get`](Db::get) returns it. All values are from the
    /// same moment.
    ///
    /// The call looks the keys up in sorted order, so that neighbouring keys share blocks. It
    /// prefetches the blocks of many keys before it waits for the first one, so that the device or
    /// the memory serves several reads at a time.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("b", "2")?;
    /// let found: terrace::Result<Vec<_>> = db.multi_get(&["a", "b"]).into_iter().collect();
    /// assert_eq!(found?, [None, Some(b"2".to_vec())]);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<Result<Option<Vec<u8>>>> {
        self.multi_get_with(keys, &ReadOptions::default())
    }

    /// Works like [`multi_get`](Db::multi_get), with read options, for instance a snapshot. Key
    /// bounds in the options have no effect.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let empty = ReadOptions::new().snapshot(&db.snapshot());
    /// db.put("b", "2")?;
    /// assert!(db.multi_get_with(&["a", "b"], &empty).into_iter().all(|found| matches!(found, Ok(None))));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn multi_get_with<K: AsRef<[u8]>>(&self, keys: &[K], options: &ReadOptions) -> Vec<Result<Option<Vec<u8>>>> {
        self.multi_get_in(FamilyId::DEFAULT, keys, options)
    }

    pub(super) fn multi_get_in<K: AsRef<[u8]>>(
        &self,
        family: FamilyId,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Vec<u8>>>> {
        let shared = self.shared();
        let view = shared.view.load_full(); // before the sequence number, as in `look_up_now`
        let (view, seq) = match tree_of(&view, family).and_then(|tree| Ok((tree, self.read_sequence(options)?))) {
            Ok(found) => found,
            Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
        };
        let mut sorted: Vec<usize> = (0..keys.len()).collect();
        sorted.sort_by(|&a, &b| shared.order.user(keys[a].as_ref(), keys[b].as_ref()));
        let mut answers: Vec<_> = keys.iter().map(|_| Ok(None)).collect();
        for window in sorted.chunks(PREFETCH_KEYS_MAX) {
            let lookup = |at: usize| Lookup::new(keys[at].as_ref(), seq);
            if window.len() > 1 {
                // A failed prefetch is ignored: the read of the same block fails again below, and
                // that read returns the error.
                let (storage, order, how) = (&*shared.storage, &shared.order, self.how(options));
                window.iter().for_each(|&at| drop(get::expect(storage, order, view, &lookup(at), how)));
            }
            if window.len() > 1 && shared.separates_values {
                for &at in window {
                    if let Ok(Some(stored)) = self.look_up_stored(view, &lookup(at), false, self.how(options)) {
                        shared.storage.prefetch_value(stored.bytes());
                    }
                }
            }
            for &at in window {
                let found = self.look_up(view, &lookup(at), self.how(options));
                answers[at] = found.map(|value| value.map(Value::into_vec));
            }
        }
        answers
    }

    /// Returns the pairs of a range in key order.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["ant", "bee", "bug", "cat"].iter().try_for_each(|key| db.put(key, ""))?;
    /// for pair in db.scan(ReadOptions::new().from("bee").to("cat")) {
    ///     let (key, _value) = pair?;
    ///     assert!(key.starts_with(b"b"));
    /// }
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn scan(&self, options: ReadOptions) -> Scan {
        Scan::new(self.cursor(options), false)
    }

    /// Returns the pairs of a range in reverse key order.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["ant", "bee", "cat"].iter().try_for_each(|key| db.put(key, ""))?;
    /// let last = db.scan_reverse(ReadOptions::new()).next().transpose()?;
    /// assert!(last.is_some_and(|(key, _)| key == b"cat"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn scan_reverse(&self, options: ReadOptions) -> Scan {
        Scan::new(self.cursor(options), true)
    }

    /// Returns a cursor over a key range. The cursor has no position yet. It sees the current
    /// state of the store, or the state at the snapshot in `options`.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// ["ant", "bee", "cat"].iter().try_for_each(|key| db.put(key, "1"))?;
    /// let mut cursor = db.cursor(ReadOptions::new());
    /// cursor.seek(b"bat")?;
    /// assert_eq!(cursor.key(), b"bee");
    /// cursor.prev()?;
    /// assert_eq!((cursor.key(), cursor.value()), (&b"ant"[..], &b"1"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn cursor(&self, options: ReadOptions) -> Cursor {
        self.cursor_in(FamilyId::DEFAULT, options)
    }

    pub(crate) fn cursor_in(&self, family: FamilyId, options: ReadOptions) -> Cursor {
        let shared = self.shared();
        let view = shared.view.load_full();
        let tree = tree_of(&view, family);
        let position = self.read_sequence(&options).and_then(|seq| tree.as_ref().map(|_| seq).map_err(Clone::clone));
        let seq = position.as_ref().map_or(SeqNo::ZERO, |seq| *seq);
        let how = self.how(&options);
        let walked = snapshot_iter(shared, tree.unwrap_or_else(|_| view.main()), seq, how);
        let apart = shared.separates_values.then(|| separated_values(shared, &view, family, seq, how, &options));
        let store: Weak<dyn ReadTrigger> = Arc::<DbInner>::downgrade(shared);
        let seek_bytes = shared.options.level0_seek_compaction_bytes;
        let sampler = ReadSampler::new((view, family), store, shared.process, seek_bytes);
        let fetches = shared.storage.separates_values();
        Cursor::new(shared.order.clone(), walked, apart, sampler, options, fetches, position.err())
    }

    /// Returns the sequence number at which a read sees the store.
    fn read_sequence(&self, options: &ReadOptions) -> Result<SeqNo> {
        let shared = self.shared();
        shared.check_process()?;
        options.snapshot.as_ref().map_or_else(|| Ok(shared.visible()), |snapshot| snapshot.seq_in(&shared.snapshots))
    }

    fn how(&self, options: &ReadOptions) -> TableReadOptions {
        let verify = options.verify_checksums || self.shared().options.paranoid_checks;
        TableReadOptions { verify, fill_cache: options.fill_cache }
    }

    /// Returns a snapshot of the current state of the store, for reads with
    /// [`ReadOptions::snapshot`]. Until the snapshot is dropped, the store keeps the old versions
    /// of keys that the snapshot sees.
    ///
    /// ```
    /// # use terrace::{Db, Options, ReadOptions};
    /// let db = Db::open_in_memory(Options::default())?;
    /// let before = db.snapshot();
    /// db.put("key", "value")?;
    /// assert_eq!(db.scan(ReadOptions::new().snapshot(&before)).count(), 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        shared.snapshots.hold(|| shared.visible())
    }

    /// Returns the approximate number of bytes that SSTables use for each key range (start
    /// inclusive, end exclusive). Memtables are not included.
    ///
    /// # Errors
    /// The errors of an open of an SSTable.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// (0..1000).try_for_each(|n| db.put(format!("key{n:04}"), [0; 100]))?;
    /// db.flush()?;
    /// let sizes = db.approximate_sizes(&[(b"key0000", b"key0500"), (b"a", b"b")])?;
    /// assert!(sizes[0] > 0 && sizes[1] == 0);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        self.approximate_sizes_in(FamilyId::DEFAULT, ranges)
    }

    pub(super) fn approximate_sizes_in(&self, family: FamilyId, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        self.shared().check_process()?;
        let view = self.shared().view.load_full();
        let tree = tree_of(&view, family)?;
        let before = |user: &[u8]| self.bytes_before(tree, &key::lookup(user, SeqNo::MAX));
        ranges.iter().map(|(from, to)| Ok(before(to)?.saturating_sub(before(from)?))).collect()
    }

    fn bytes_before(&self, view: TreeView<'_>, target: &[u8]) -> Result<u64> {
        let shared = self.shared();
        let mut sum = 0;
        for (_, table) in view.version.tables() {
            if shared.order.internal(&table.meta.largest, target).is_lt() {
                sum += table.meta.bytes;
            } else if shared.order.internal(&table.meta.smallest, target).is_lt() {
                sum += table.open(&*shared.storage)?.offset_of(target)?;
            }
        }
        Ok(sum)
    }
}
