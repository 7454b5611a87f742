//! A random history of writes, derived from a seed, and the oracle that judges crash states of it.
//! The test runs the background jobs of the store step by step. In every crash state the contents
//! of the store must equal a prefix of the history, and the prefix must include every batch that
//! was acknowledged as durable.
#![allow(dead_code, reason = "other programs include this file, too, and use a part")]
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use terrace::{Db, Options, ReadOptions, WalWriteMode, WriteBatch, WriteOptions};
use terrace_sim::{LateTracker, LyingTracker, Medium, Rng, Rules};
use terrace_storage::{
    backends::files::fs::FileSystem,
    durability::{BatchTracker, DurabilityTracker, Evidence, JournalTracker, NoTracker, SyncTracker, Way},
    open_files,
    placement::{OpenMode, Storage},
};

/// The key whose value counts the applied batches. Every batch increments it.
pub const COUNT_KEY: &[u8] = b"\x00count";

/// The column families of a history with several families. All other keys are in the default
/// family.
const FAMILIES: [&str; 2] = ["odd", "even"];

pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Returns the column family of `key` in a history with families; `None` for the default family.
fn family_of(key: &[u8]) -> Option<&'static str> {
    let number: usize = std::str::from_utf8(key.strip_prefix(b"key")?).ok()?.parse().ok()?;
    [None, Some(FAMILIES[0]), Some(FAMILIES[1])][number % 3]
}

/// The durability tracker that a run uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracker {
    Sync,
    Group,
    Background,
    Journal,
    JournalBpf,
    Late,
    /// Tables become durable late, and some table builds fail.
    LateFailing,
    /// Never syncs a table. This is a control with a deliberate fault: the test must detect that
    /// data is lost.
    Never,
    /// Reports tables as durable that are not. This too is a control: the test must detect that
    /// data is lost.
    Lying,
}

impl Tracker {
    /// The trackers that must not lose data.
    pub const PROMISING: [Tracker; 7] = [
        Tracker::Sync,
        Tracker::Group,
        Tracker::Background,
        Tracker::Journal,
        Tracker::JournalBpf,
        Tracker::Late,
        Tracker::LateFailing,
    ];

    /// Returns the trackers of `PROMISING` with which no table build fails.
    pub fn without_failures() -> impl Iterator<Item = Tracker> {
        Tracker::PROMISING.into_iter().filter(|tracker| *tracker != Tracker::LateFailing)
    }

    /// Returns whether the tracker depends on ext4's journal.
    pub fn needs_journal(self) -> bool {
        matches!(self, Tracker::Group | Tracker::Journal | Tracker::JournalBpf)
    }

    /// Returns whether the tracker can keep its promise on `medium`. A raw device has no journal,
    /// but one device flush makes all its writes durable.
    pub fn goes_with(self, medium: Medium) -> bool {
        match medium {
            Medium::Directory(Rules::Ext4) => true,
            Medium::Directory(Rules::Posix) | Medium::Split(_) => !self.needs_journal(),
            Medium::Device => !matches!(self, Tracker::Journal | Tracker::JournalBpf),
        }
    }

    /// Makes the tracker. With every third seed, the tracker may keep no descriptor open for a file
    /// that waits to become durable.
    pub fn make(self, seed: u64) -> Arc<dyn DurabilityTracker> {
        let files_max = if seed.is_multiple_of(3) { 0 } else { usize::MAX };
        let journal = |evidence| {
            let tracker = JournalTracker::new(evidence, Duration::ZERO, Duration::from_secs(3600));
            Arc::new(tracker.with_files_max(files_max))
        };
        let batched = |way| Arc::new(BatchTracker::new(way, Duration::ZERO).with_files_max(files_max));
        match self {
            Tracker::Sync => Arc::new(SyncTracker),
            Tracker::Group => batched(Way::Group),
            Tracker::Background => batched(Way::Background),
            Tracker::Journal => journal(Evidence::Count),
            Tracker::JournalBpf => journal(Evidence::Transactions),
            Tracker::Late => Arc::new(LateTracker::new(seed)),
            Tracker::LateFailing => Arc::new(LateTracker::failing(seed, 60)),
            Tracker::Never => Arc::new(NoTracker),
            Tracker::Lying => Arc::new(LyingTracker),
        }
    }
}

/// Returns the default options, changed by [`tight`].
pub fn tight_options() -> Options {
    tight(Options::default())
}

/// Changes `options` so that even a few writes use every component of the engine. Tables are
/// small, and level 0 is due for a compaction as soon as it has two tables.
pub fn tight(mut options: Options) -> Options {
    options.write_buffer_size = 64 << 10;
    options.target_file_size = 64 << 10;
    options.max_bytes_for_level_base = 64 << 10;
    options.level0_file_num_compaction_trigger = 2;
    options.level0_slowdown_writes_trigger = 1000;
    options.level0_stop_writes_trigger = 1000;
    options.max_manifest_file_size = 4 << 10;
    options.max_write_buffer_number = 4;
    options.max_background_compactions = 2;
    options
}

/// Changes `options` as [`tight`] does, and enables subcompactions and intra-L0 compactions.
fn parallel(options: Options) -> Options {
    let mut options = tight(options);
    options.max_background_compactions = 4;
    options.max_subcompactions = 3;
    options.min_subcompaction_size = 1 << 10;
    options.intra_l0_compaction_trigger = 2;
    options.compaction_pri = terrace::CompactionPri::MinOverlappingRatio;
    options.copy_whole_blocks = true;
    options.range_tombstones = true;
    options
}

pub fn storage(
    fs: &Arc<dyn FileSystem>,
    tracker: Arc<dyn DurabilityTracker>,
    options: &Options,
) -> terrace::Result<Box<dyn Storage>> {
    Ok(open_files(fs.clone(), OpenMode::Create, tracker, &options.setup())?)
}

/// A run of the history: its writes, their times, and the durability promises that the store made.
/// A time is the count of steps that the file system has made until then; `clock` returns it.
pub struct History<'a> {
    /// Whether the keys are in several column families.
    families: bool,
    /// The drops of a column family. The key is the count of batches before the drop.
    drops: BTreeMap<usize, Dropped>,
    pub seed: u64,
    rng: Rng,
    options: Options,
    tracker: Tracker,
    fs: Arc<dyn FileSystem>,
    clock: &'a dyn Fn() -> usize,
    db: Option<Db>,
    opened: u64,
    /// `states[k]` has the expected contents of the store after the first k batches.
    pub states: Vec<Model>,
    /// For each batch, the step at which its write began. The batch must not be visible in a crash
    /// state of an earlier step.
    pub began: Vec<usize>,
    /// For each batch, the sequence number of its last operation.
    last_sequences: Vec<u64>,
    /// The promises of the store as pairs (step, count): after a power cut at this step or later,
    /// at least the first `count` batches survive.
    pub promises: Vec<(usize, usize)>,
    /// Snapshots, each with the contents that it must show.
    snapshots: Vec<(terrace::Snapshot, Model)>,
    /// The work of value-log GC, and tables that were never made durable.
    pub collected: Collected,
}

/// A drop of a column family.
struct Dropped {
    /// The steps at which the drop of a column family began and ended. A crash state of a step
    /// between them may show the family or not.
    begun: usize,
    ended: usize,
    /// The contents of the store after the drop.
    state: Model,
}

/// What garbage collection and compactions did in a history: the bytes of values that compactions
/// relocated, the bytes that tail GC re-appended, and the count of tables that a compaction
/// consumed before they were synced.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collected {
    pub moved_bytes: u64,
    pub relocated_bytes: u64,
    pub tables_never_synced: u64,
}

impl<'a> History<'a> {
    /// Makes a run on a store with the layout of `options`. The other options depend on the seed:
    /// the sizes, the parallelism, and how the WAL is written.
    pub fn new(
        (options, families): (Options, bool),
        seed: u64,
        tracker: Tracker,
        fs: Arc<dyn FileSystem>,
        clock: &'a dyn Fn() -> usize,
    ) -> History<'a> {
        let mut options = if (seed / 2).is_multiple_of(2) { tight(options) } else { parallel(options) };
        (options.pipelined_writes, options.group_commit_wait_us) = if seed % 2 == 1 { (true, 10) } else { (false, 0) };
        options.sync_flushes = seed % 3 == 2;
        options.wal_write_mode = if (seed / 4).is_multiple_of(2) { WalWriteMode::Write } else { WalWriteMode::Map };
        History {
            families,
            drops: BTreeMap::new(),
            seed,
            rng: Rng::new(seed),
            options,
            tracker,
            fs,
            clock,
            db: None,
            opened: 0,
            states: vec![Model::new()],
            began: Vec::new(),
            last_sequences: Vec::new(),
            promises: Vec::new(),
            snapshots: Vec::new(),
            collected: Collected::default(),
        }
    }

    /// Runs `actions` random actions. If the store stops after an injected failure, the run opens
    /// it again, as a user would do.
    pub fn run(&mut self, actions: usize) {
        for _ in 0..actions {
            if let Err(error) = self.act() {
                assert!(self.tracker == Tracker::LateFailing, "seed {}: {error}", self.seed);
                self.forget_db();
            }
        }
        self.forget_db();
    }

    fn db(&mut self) -> terrace::Result<Db> {
        if self.db.is_none() {
            self.opened += 1;
            let tracker = self.tracker.make(self.seed.wrapping_mul(31).wrapping_add(self.opened));
            let db = Db::open_manual(storage(&self.fs, tracker, &self.options)?, self.options.clone())?;
            let applied = applied(&db)?;
            // If the write of a batch was refused, the batch may still be in the WAL. Except for
            // this batch, the contents must be as expected.
            assert!(
                applied == self.states.len() - 1 || applied == self.states.len() - 2,
                "seed {}: a kill lost something",
                self.seed
            );
            self.forget_after(applied);
            let found = contents(&db).expect("the contents can be read");
            self.settle_drop(applied, &found);
            assert_eq!(&found, self.newest(), "seed {}: after a kill", self.seed);
            for name in FAMILIES.into_iter().filter(|name| self.families && db.cf(name).is_err()) {
                db.create_cf(name)?;
            }
            self.promise(db.durable_sequence());
            self.db = Some(db);
        }
        Ok(self.db.clone().expect("just opened"))
    }

    /// Returns the contents that the store should have now.
    fn newest(&self) -> &Model {
        let batches = self.states.len() - 1;
        self.drops.get(&batches).map_or(&self.states[batches], |dropped| &dropped.state)
    }

    /// Called after an open. If an earlier drop of a column family returned an error, decides from
    /// the contents `found` whether the drop has happened.
    fn settle_drop(&mut self, applied: usize, found: &Model) {
        let now = (self.clock)();
        let Some(dropped) = self.drops.get_mut(&applied).filter(|dropped| dropped.ended == usize::MAX) else { return };
        if *found == dropped.state {
            dropped.ended = now;
        } else {
            self.drops.remove(&applied);
        }
    }

    /// Removes from the expected history the refused batches after the first `batches`, because
    /// they did not reach the WAL.
    fn forget_after(&mut self, batches: usize) {
        self.states.truncate(batches + 1);
        self.drops.retain(|before, _| *before <= batches);
        self.began.truncate(batches);
        self.last_sequences.truncate(batches);
    }

    fn forget_db(&mut self) {
        self.snapshots.clear();
        if let Some(db) = self.db.take() {
            let did = db.statistics();
            let moved = did.bytes_written.iter().find(|(purpose, _)| *purpose == "collection");
            self.collected.moved_bytes += moved.map_or(0, |(_, bytes)| *bytes);
            self.collected.relocated_bytes += did.value_log.relocated_bytes;
            self.collected.tables_never_synced += did.tables_never_synced;
        }
    }

    fn act(&mut self) -> terrace::Result<()> {
        let db = self.db()?;
        let fate = self.rng.below(1000);
        match fate {
            0..=559 => self.write(&db, fate < 112)?,
            560..=639 => db.flush()?,
            640..=859 => {
                for _ in 0..self.rng.below(4) {
                    db.step(self.rng.next_u64());
                }
            }
            860..=879 => {
                for name in db.cf_names() {
                    db.cf(&name)?.compact_range(None, None)?;
                }
            }
            880..=886 if self.families && !self.drops.contains_key(&(self.states.len() - 1)) => {
                self.drop_family(&db)?
            }
            880..=909 => db.wait_durable(db.last_sequence())?,
            910..=939 => self.snapshots.push((db.snapshot(), self.newest().clone())),
            940..=969 => self.read_snapshot(&db),
            970..=984 => db.wait_idle()?,
            985..=991 => {
                self.forget_db();
                db.close()?;
                self.promises.push(((self.clock)(), self.states.len() - 1));
                return Ok(());
            }
            _ => {
                self.forget_db(); // like a kill: writes stop, but no written byte is lost
                return Ok(());
            }
        }
        self.promise(db.durable_sequence());
        Ok(())
    }

    /// Drops a column family and creates it again.
    fn drop_family(&mut self, db: &Db) -> terrace::Result<()> {
        let (batches, name, begun) = (self.states.len() - 1, FAMILIES[self.rng.below(2)], (self.clock)());
        let mut state = self.newest().clone();
        state.retain(|key, _| family_of(key) != Some(name));
        self.snapshots.clear(); // they do not keep the pairs of a dropped family
        self.drops.insert(batches, Dropped { begun, ended: usize::MAX, state });
        db.drop_cf(name)?;
        let now = (self.clock)();
        self.drops.get_mut(&batches).expect("just inserted").ended = now;
        self.promises.push((now, batches));
        db.create_cf(name).map(drop)
    }

    fn write(&mut self, db: &Db, sync: bool) -> terrace::Result<()> {
        let number = self.states.len();
        let mut state = self.newest().clone();
        let family = |key: &[u8]| match family_of(key).filter(|_| self.families) {
            Some(name) => db.cf(name),
            None => db.cf("default"),
        };
        let mut batch = WriteBatch::new();
        let count = (number as u64).to_le_bytes();
        batch.put(COUNT_KEY, count);
        state.insert(COUNT_KEY.to_vec(), count.to_vec());
        for _ in 0..self.rng.below(4) {
            let key = format!("key{:02}", self.rng.below(40)).into_bytes();
            if self.rng.chance(1, 4) {
                batch.delete_cf(&family(&key)?, &key);
                state.remove(&key);
            } else {
                let bytes = if self.rng.chance(1, 12) { self.rng.below(9000) } else { self.rng.below(40) };
                let value = vec![number as u8; bytes];
                batch.put_cf(&family(&key)?, &key, &value);
                state.insert(key, value);
            }
        }
        if self.options.range_tombstones && self.rng.chance(1, 6) {
            let [from, to] = [self.rng.below(40), self.rng.below(40)].map(|n| format!("key{n:02}").into_bytes());
            if from < to {
                state.retain(|key, _| !(&from..&to).contains(&key));
                for name in db.cf_names() {
                    batch.delete_range_cf(&db.cf(&name)?, &from, &to);
                }
            }
        }
        self.began.push((self.clock)());
        self.states.push(state);
        self.last_sequences.push(u64::MAX); // until the batch is acknowledged
        let last = db.write(batch, WriteOptions { sync, ..WriteOptions::default() })?;
        self.last_sequences[number - 1] = last;
        if sync {
            self.promises.push(((self.clock)(), number));
        }
        Ok(())
    }

    fn read_snapshot(&mut self, db: &Db) {
        if !self.snapshots.is_empty() {
            let (snapshot, wanted) = self.snapshots.swap_remove(self.rng.below(self.snapshots.len()));
            let mut pairs = Model::new();
            for name in db.cf_names() {
                let scan = db.cf(&name).expect("it is listed").scan(ReadOptions::new().snapshot(&snapshot));
                pairs.extend(scan.collect::<terrace::Result<Vec<_>>>().expect("scan"));
            }
            assert_eq!(pairs, wanted, "seed {}: a snapshot changed", self.seed);
        }
    }

    fn promise(&mut self, durable_sequence: u64) {
        let batches = self.last_sequences.partition_point(|last| *last <= durable_sequence);
        self.promises.push(((self.clock)(), batches));
    }

    /// Judges the crash state of a power cut right after `step`. `db` is the store as opened in
    /// that state. Returns the count of batches that survived, or an error that describes the
    /// broken promise.
    pub fn judge(&self, step: usize, db: &Db) -> Result<usize, String> {
        let applied = applied(db).map_err(|e| format!("cannot read: {e}"))?;
        let promised =
            self.promises.iter().filter(|(when, _)| *when <= step).map(|(_, count)| *count).max().unwrap_or(0);
        let begun = self.began.partition_point(|when| *when <= step);
        if applied < promised || applied > begun {
            return Err(format!("LOST: {applied} batches are there, {promised} were promised, {begun} had begun"));
        }
        let found = contents(db)?;
        let dropped = self.drops.get(&applied);
        let may_be_dropped = dropped.is_some_and(|dropped| dropped.begun <= step && dropped.state == found);
        let may_be_whole = dropped.is_none_or(|dropped| dropped.ended > step);
        if !(may_be_dropped || may_be_whole && found == self.states[applied]) {
            return Err(format!(
                "HOLE: the contents are not those after {applied} batches: {}",
                difference(&found, &self.states[applied])
            ));
        }
        Ok(applied)
    }
}

/// Returns the number of batches in the store.
pub fn applied(db: &Db) -> terrace::Result<usize> {
    let count = db.get(COUNT_KEY)?;
    Ok(count.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")) as usize))
}

/// Returns all pairs of all column families. Reads them forward and compares them with a backward
/// scan.
pub fn contents(db: &Db) -> Result<Model, String> {
    let read = |scan: terrace::Scan| scan.collect::<terrace::Result<Vec<_>>>().map_err(|e| format!("cannot scan: {e}"));
    let mut all = Model::new();
    for name in db.cf_names() {
        let family = db.cf(&name).map_err(|e| e.to_string())?;
        let forward = read(family.scan(ReadOptions::new()))?;
        let mut backward = read(family.scan_reverse(ReadOptions::new()))?;
        backward.reverse();
        if forward != backward {
            return Err("forward and backward scans differ".into());
        }
        let stray = |key: &[u8]| db.cf_names().len() > 1 && family_of(key).unwrap_or("default") != name;
        if let Some((key, _)) = forward.iter().find(|(key, _)| stray(key)) {
            return Err(format!("column family {name} has {:?} of another", key.escape_ascii().to_string()));
        }
        all.extend(forward);
    }
    Ok(all)
}

fn difference(found: &Model, wanted: &Model) -> String {
    let wrong = wanted.iter().find(|(key, value)| found.get(*key) != Some(value)).map(|(key, _)| key);
    let extra = found.keys().find(|key| !wanted.contains_key(*key));
    format!(
        "first missing or wrong key {:?}, first extra key {:?}",
        wrong.map(|k| k.escape_ascii().to_string()),
        extra.map(|k| k.escape_ascii().to_string())
    )
}
