//! The face: opens and closes a store, checks arguments, hands each call to the part that does it.
use crate::{
    Error, Options, Result, WriteOptions,
    clock::Clock,
    compact::leveled::Leveled,
    jobs::{compact, flush, release},
    mem::MemTable,
    read::{
        get,
        merge::{Merge, Source},
        run::RunCursor,
        scan::{Cursor, ReadOptions, Sampler, Scan},
        snapshot::Snapshot,
        view::View,
        visible::Visible,
    },
    recover,
    state::{Control, Jobs, Shared},
    stats::{Counters, LevelStatistics, Statistics},
    version::KeyRange,
    work::{Executor, Work},
    write::Writes,
};
use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use std::{
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use terrace_format::{LEVELS, SeqNo, batch, key};
use terrace_storage::{
    Location, Memory,
    placement::{Mode, Placement, ReadHow},
};

/// An open store. Clones are handles on the same one; use it from any thread.
///
/// Dropping the last handle without [`close`](Db::close) is as killing the process: nothing acknowledged is lost, but
/// what was not synced would not survive a power cut.
#[derive(Clone)]
pub struct Db {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    /// `None` in a store opened for reading only.
    writes: Option<Arc<Writes>>,
}

impl Inner {
    /// Ends background work. Whoever still waits for some of it hears that the store is closed.
    fn end(&self) {
        self.shared.control.lock().closed = true;
        self.shared.changed.notify_all();
        self.shared.work.stop();
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end();
    }
}

/// Makes every visible write durable, unless nothing is promised here. A free function, because a tick must not keep the
/// store open: it would have to close it.
fn make_durable(shared: &Arc<Shared>, writes: &Writes) -> Result<()> {
    let durable = shared.durable.load(Ordering::Acquire) >= shared.visible().0;
    if durable || !shared.placement.promises() {
        return Ok(());
    }
    writes.write(shared, batch::Batch::new(), true).map(drop)
}

/// Puts and deletes that are applied together or not at all, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteBatch {
    batch: batch::Batch,
    /// The longest key and value so far, for the check against the placement's limits.
    key_bytes: u64,
    value_bytes: u64,
    /// What does not even fit the format; the batch is refused as a whole.
    oversized: Option<String>,
}

impl WriteBatch {
    /// Nothing yet.
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Sets `key` to `value`. Sizes are checked when the batch is written.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut WriteBatch {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.fits(key.len() as u64, value.len() as u64) {
            self.batch.put(key, value);
        }
        self
    }

    /// Removes `key`, if it is there.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut WriteBatch {
        let key = key.as_ref();
        if self.fits(key.len() as u64, 0) {
            self.batch.delete(key);
        }
        self
    }

    /// Forgets all operations.
    pub fn clear(&mut self) {
        *self = WriteBatch::default();
    }

    /// Operations.
    pub fn len(&self) -> usize {
        self.batch.len() as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Bytes of the batch as the log stores it.
    pub fn byte_len(&self) -> usize {
        self.batch.byte_len()
    }

    fn fits(&mut self, key_bytes: u64, value_bytes: u64) -> bool {
        self.key_bytes = self.key_bytes.max(key_bytes);
        self.value_bytes = self.value_bytes.max(value_bytes);
        let fits = key_bytes <= u64::from(u32::MAX) - key::TRAILER_BYTES as u64 && value_bytes <= u64::from(u32::MAX);
        if !fits {
            let text = format!(
                "a key of {key_bytes} or a value of {value_bytes} bytes: LevelDB's format ends at {}",
                u32::MAX
            );
            self.oversized.get_or_insert(text);
        }
        fits
    }
}

/// One level of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelInfo {
    /// 0 is the newest.
    pub level: usize,
    /// Level 0 newest first, deeper levels in key order.
    pub tables: Vec<TableInfo>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// Its number, which names its file.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// First user key.
    pub smallest: Vec<u8>,
    /// Last user key.
    pub largest: Vec<u8>,
}

impl Db {
    /// Opens the store in directory `path` for reading and writing; makes it if `options` say so.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.validate()?;
        let location = Location::Directory(path.as_ref().into());
        let mode = if options.create_if_missing { Mode::Create } else { Mode::Write };
        let placement = terrace_storage::open(&location, mode, options.durability, &options.setup())?;
        Db::open_on(placement, options)
    }

    /// Opens the store in directory `path` for reading only, together with other readers but no writer. Replays logs in
    /// memory; creates, changes and removes nothing, and works on a read-only file system.
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Db> {
        options.validate()?;
        let location = Location::Directory(path.as_ref().into());
        let placement = terrace_storage::open(&location, Mode::ReadOnly, options.durability, &options.setup())?;
        Db::build(placement.into(), options, Executor::Threads, true)
    }

    /// A new store in memory; it ends with its last handle.
    pub fn open_in_memory(options: Options) -> Result<Db> {
        options.validate()?;
        let location = Location::Memory(Memory::new());
        Db::open_on(terrace_storage::open(&location, Mode::Create, options.durability, &options.setup())?, options)
    }

    /// Opens the store that `placement`, which is open for writing, holds. `options.durability` is the placement's matter.
    pub fn open_on(placement: Box<dyn Placement>, options: Options) -> Result<Db> {
        options.validate()?;
        Db::build(placement.into(), options, Executor::Threads, false)
    }

    /// As [`open_on`](Db::open_on), but nothing happens in the background: the caller runs it by [`step`](Db::step).
    /// For tests that need to know what happens when.
    pub fn open_manual(placement: Box<dyn Placement>, options: Options) -> Result<Db> {
        options.validate()?;
        Db::build(placement.into(), options, Executor::Manual, false)
    }

    fn build(placement: Arc<dyn Placement>, options: Options, executor: Executor, read_only: bool) -> Result<Db> {
        let found = recover::open(&*placement, &options, read_only)?;
        let order = options.order().clone();
        let mem = found.writer.as_ref().map(|writer| Arc::new(MemTable::new(order.clone(), writer.log)));
        let view = View { mem, sealed: found.memtables, version: found.versions.live().clone() };
        let (manifest, writes, orphans) = match found.writer {
            Some(w) => (Some(w.manifest), Some(Arc::new(Writes::new(w.wal, found.last))), w.orphans),
            None => (None, None, Vec::new()),
        };
        let control = Control {
            versions: found.versions,
            busy: Default::default(),
            flushing: false,
            releasing: false,
            seek_hint: None,
            failed: None,
            closed: false,
        };
        let shared = Arc::new(Shared {
            order,
            requires: found.requires,
            clock: Clock::start(),
            work: Work::new(executor),
            jobs: Jobs { flush: flush::run, compact: compact::run, release: release::run },
            policy: Box::new(Leveled),
            stats: Counters::default(),
            snapshots: Arc::default(),
            view: ArcSwap::from_pointee(view),
            visible: AtomicU64::new(found.last.0),
            durable: AtomicU64::new(0),
            manifest: Mutex::new(manifest),
            control: Mutex::new(control),
            changed: Condvar::new(),
            placement,
            options,
        });
        let db = Db { inner: Arc::new(Inner { shared, writes }) };
        if !read_only {
            db.start(&orphans)?;
        }
        Ok(db)
    }

    fn start(&self, orphans: &[terrace_storage::placement::ObjectId]) -> Result<()> {
        let shared = self.shared();
        release::remove(shared, orphans);
        shared.durable_up_to(shared.visible()); // recovery made the whole history durable
        let interval = Duration::from_millis(shared.options.durability_interval_ms);
        let period = if interval.is_zero() { Duration::from_secs(3600) } else { interval / 2 };
        let weak = (Arc::downgrade(shared), self.inner.writes.as_ref().map(Arc::downgrade));
        let last_seen = AtomicU64::new(0);
        let tick = move || {
            let (Some(shared), Some(writes)) = (weak.0.upgrade(), weak.1.as_ref().and_then(Weak::upgrade)) else {
                return;
            };
            let visible = shared.visible().0;
            let quiet = last_seen.swap(visible, Ordering::Relaxed) == visible;
            if quiet && !interval.is_zero() {
                let _ = make_durable(&shared, &writes); // a failure has stopped the store, and its next writer hears of it
            }
        };
        let started = shared.work.start(shared.options.compactions_max as usize, period, tick);
        started.map_err(|source| Error::Io {
            op: "start threads for",
            object: shared.placement.name(),
            source: source.into(),
        })?;
        shared.schedule(&mut shared.control.lock());
        Ok(())
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    fn writes(&self) -> Result<&Writes> {
        self.inner.writes.as_deref().ok_or(Error::ReadOnly)
    }

    /// Makes everything written durable and ends background work. Other handles then refuse to write; the directory stays
    /// locked until they, and cursors and scans that are still alive, are dropped.
    pub fn close(self) -> Result<()> {
        let shared = self.shared();
        if let Some(writes) = &self.inner.writes {
            writes.write(shared, batch::Batch::new(), true)?;
            shared.placement.commit()?;
            shared.wait_until(|control| control.versions.pending() == 0)?;
        }
        self.inner.end();
        Ok(())
    }

    /// Removes the store in directory `path`: its own files and nothing else. Fine if there is none; refused while it is
    /// open.
    pub fn destroy(path: impl AsRef<Path>) -> Result<()> {
        Ok(terrace_storage::destroy(&Location::Directory(path.as_ref().into()))?)
    }

    /// Sets `key` to `value`. Survives the end of this process, not a power cut: see [`put_with`](Db::put_with).
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`put`](Db::put), with a choice.
    pub fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.put(key, value);
        self.write(batch, options).map(drop)
    }

    /// Removes `key`. Fine if it is not there.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`delete`](Db::delete), with a choice.
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete(key);
        self.write(batch, options).map(drop)
    }

    /// Applies `batch` atomically and returns the sequence of its last operation, for
    /// [`wait_durable`](Db::wait_durable). Keys up to 4 GiB − 17 and values up to 4 GiB − 1 bytes; more is refused.
    pub fn write(&self, batch: WriteBatch, options: WriteOptions) -> Result<u64> {
        let limits = self.shared().placement.limits();
        if let Some(oversized) = batch.oversized {
            return Err(Error::Invalid(oversized));
        }
        if batch.key_bytes > limits.key_bytes_max || batch.value_bytes > limits.value_bytes_max {
            return Err(Error::Invalid(format!(
                "a key of {} or a value of {} bytes: this store ends at {} and {}",
                batch.key_bytes, batch.value_bytes, limits.key_bytes_max, limits.value_bytes_max
            )));
        }
        Ok(self.writes()?.write(self.shared(), batch.batch, options.sync)?.0)
    }

    /// The value of `key` now, if it has one.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_with(key, &ReadOptions::default())
    }

    /// As [`get`](Db::get), as of a snapshot or with other choices. Bounds do not apply.
    pub fn get_with(&self, key: impl AsRef<[u8]>, options: &ReadOptions) -> Result<Option<Vec<u8>>> {
        let shared = self.shared();
        let view = shared.view.load_full(); // before the sequence: a view may have more than it needs, never less
        let seq = options.snapshot.as_ref().map_or_else(|| shared.visible(), Snapshot::seq);
        let lookup = key::lookup(key.as_ref(), seq);
        let got = get::get(&*shared.placement, &shared.order, &view, &lookup, self.how(options))?;
        if let Some((level, table)) = got.worn {
            shared.note_worn(level, table);
        }
        Ok(got.value)
    }

    /// The pairs of a range in key order.
    pub fn scan(&self, options: ReadOptions) -> Scan {
        Scan::new(self.cursor(options), false)
    }

    /// The pairs of a range in reverse key order.
    pub fn scan_reverse(&self, options: ReadOptions) -> Scan {
        Scan::new(self.cursor(options), true)
    }

    /// A cursor over a range, standing nowhere yet. It sees the store as it is now, or as of the snapshot.
    pub fn cursor(&self, options: ReadOptions) -> Cursor {
        let shared = self.shared();
        let view = shared.view.load_full();
        let seq = options.snapshot.as_ref().map_or_else(|| shared.visible(), Snapshot::seq);
        let how = self.how(&options);
        let mut sources: Vec<Source> = view.memtables().map(|mem| Source::Mem(mem.cursor())).collect();
        sources.extend(
            view.version.levels.iter().flat_map(|level| &level.runs).map(|run| {
                Source::Run(RunCursor::new(shared.placement.clone(), shared.order.clone(), run.clone(), how))
            }),
        );
        let visible = Visible::new(shared.order.clone(), Merge::new(shared.order.clone(), sources), seq);
        let weak = Arc::downgrade(shared);
        let sampler = Sampler::new(view, move |view, internal| {
            if let Some(shared) = weak.upgrade()
                && let Some((level, table)) = get::sample(&shared.order, view, internal)
            {
                shared.note_worn(level, table);
            }
        });
        Cursor::new(shared.order.clone(), visible, sampler, &options)
    }

    fn how(&self, options: &ReadOptions) -> ReadHow {
        let verify = options.verify_checksums || self.shared().options.paranoid_checks;
        ReadHow { verify, fill_cache: options.fill_cache }
    }

    /// Holds the store as it is now, for reads through [`ReadOptions::snapshot`].
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        shared.snapshots.hold(|| shared.visible())
    }

    /// Moves what is in memory into tables. Returns when they serve reads; see [`wait_durable`](Db::wait_durable) for
    /// when they survive a power cut.
    pub fn flush(&self) -> Result<()> {
        self.writes()?.seal(self.shared())?;
        self.shared().wait_until(|_| self.shared().view.load().sealed.is_empty())
    }

    /// Merges all tables that hold keys from `from` to `to`, both included, down the tree: deleted and overwritten data
    /// goes, unless a snapshot holds it. `None` is unbounded.
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        let shared = self.shared();
        let range = KeyRange { from, to };
        let deepest = {
            let version = shared.view.load().version.clone();
            let held =
                |level: &usize| version.levels[*level].tables().any(|table| table.overlaps(&shared.order, &range));
            (1..LEVELS).rev().find(held).unwrap_or(1)
        };
        for level in 0..deepest {
            let mut from = from.map(<[u8]>::to_vec);
            while let Some(largest) = self.compact_some(level, &KeyRange { from: from.as_deref(), to })? {
                from = Some(largest);
            }
        }
        Ok(())
    }

    /// One compaction of `level`, from the start of `range`. Returns the last key it took from the level if there may be
    /// more behind it.
    fn compact_some(&self, level: usize, range: &KeyRange<'_>) -> Result<Option<Vec<u8>>> {
        let shared = self.shared();
        let mut started = None;
        shared.wait_until(|control| {
            let plan = shared.situated(control, |situation| shared.policy.plan_range(situation, level, range));
            match plan {
                Some(plan) if !control.busy.admits(&shared.order, &plan) => false,
                plan => {
                    started = plan.inspect(|plan| shared.start_compaction(control, plan.clone()));
                    true
                }
            }
        })?;
        let Some(plan) = started else { return Ok(None) };
        let first = plan.upper[0].meta.id;
        shared.wait_until(|control| !control.busy.has(first))?;
        let more = level > 0; // in level 0 everything that overlaps goes at once
        let taken = || key::user_key(&plan.pointer).to_vec();
        let past_end = range.to.is_some_and(|to| shared.order.user(&taken(), to).is_ge());
        Ok((more && !past_end).then(taken))
    }

    /// About how many bytes of tables the keys from the first (included) to the second (excluded) of each pair take up.
    /// Memtables do not count.
    pub fn approximate_sizes(&self, ranges: &[(&[u8], &[u8])]) -> Result<Vec<u64>> {
        let view = self.shared().view.load_full();
        let before = |user: &[u8]| self.bytes_before(&view, &key::lookup(user, SeqNo::MAX));
        ranges.iter().map(|(from, to)| Ok(before(to)?.saturating_sub(before(from)?))).collect()
    }

    fn bytes_before(&self, view: &View, target: &[u8]) -> Result<u64> {
        let shared = self.shared();
        let mut sum = 0;
        for (_, table) in view.version.tables() {
            if shared.order.internal(&table.meta.largest, target).is_lt() {
                sum += table.meta.bytes;
            } else if shared.order.internal(&table.meta.smallest, target).is_lt() {
                sum += shared.placement.open_table(&table.meta)?.offset_of(target)?;
            }
        }
        Ok(sum)
    }

    /// Sequence of the newest visible write; 0 before the first.
    pub fn last_sequence(&self) -> u64 {
        self.shared().visible().0
    }

    /// Every write up to here survives a power cut. Always 0 where nothing is promised (tier `none`).
    pub fn durable_sequence(&self) -> u64 {
        self.shared().durable.load(Ordering::Acquire)
    }

    /// Returns once every write up to `sequence` survives a power cut, and sees to it that it happens. Under tier `none`
    /// it returns at once, without that promise.
    pub fn wait_durable(&self, sequence: u64) -> Result<()> {
        let shared = self.shared();
        if sequence > self.last_sequence() {
            return Err(Error::Invalid(format!(
                "sequence {sequence} has not been written; the last is {}",
                self.last_sequence()
            )));
        }
        if self.durable_sequence() >= sequence { Ok(()) } else { make_durable(shared, self.writes()?) }
    }

    /// Returns when no background work is left: nothing to flush, nothing due for compaction, no edit unreleased.
    pub fn wait_idle(&self) -> Result<()> {
        let shared = self.shared();
        self.writes()?;
        shared.wait_until(|control| {
            let quiet = !control.flushing && !control.releasing && control.busy.is_empty();
            quiet && control.versions.pending() == 0 && shared.view.load().sealed.is_empty()
        })?;
        let mut control = shared.control.lock();
        let removable = control.versions.removable(); // readers may have let go of something since the last release
        drop(control);
        release::remove(shared, &removable);
        Ok(())
    }

    /// Runs one waiting background job of a store opened by [`open_manual`](Db::open_manual), the `pick`-th modulo their
    /// number, and tells its name; `None` if none waits.
    pub fn step(&self, pick: u64) -> Option<&'static str> {
        self.shared().work.step(pick)
    }

    /// What an idle store does every `durability_interval_ms`: makes durable what is not.
    pub fn tick(&self) -> Result<()> {
        self.wait_durable(self.last_sequence())
    }

    /// The levels and their tables.
    pub fn layout(&self) -> Vec<LevelInfo> {
        let version = self.shared().view.load().version.clone();
        let info = |table: &Arc<crate::version::TableRef>| TableInfo {
            number: table.meta.id.0,
            bytes: table.meta.bytes,
            smallest: table.smallest().to_vec(),
            largest: table.largest().to_vec(),
        };
        let levels = version.levels.iter().enumerate();
        levels.map(|(level, l)| LevelInfo { level, tables: l.tables().map(info).collect() }).collect()
    }

    /// The state of the store and what it did since it was opened.
    pub fn statistics(&self) -> Statistics {
        let shared = self.shared();
        let view = shared.view.load_full();
        let level = |level: &crate::version::Level| LevelStatistics {
            tables: level.tables().count() as u64,
            bytes: level.bytes(),
            ..LevelStatistics::default()
        };
        let (pending_edits, awaiting_removal) = {
            let control = shared.control.lock();
            (control.versions.pending() as u64, control.versions.retire.waiting() as u64)
        };
        let statistics = Statistics {
            place: shared.placement.name(),
            durability: shared.placement.tier(),
            preset: shared.options.preset_name(),
            last_sequence: self.last_sequence(),
            durable_sequence: self.durable_sequence(),
            levels: view.version.levels.iter().map(level).collect(),
            memtable_bytes: view.memtables().map(|mem| mem.charged_bytes()).sum(),
            sealed_memtables: view.sealed.len() as u64,
            snapshots: shared.snapshots.len() as u64,
            pending_edits,
            awaiting_removal,
            ..Statistics::default()
        };
        statistics.counted(&shared.stats, shared.placement.traffic())
    }
}
