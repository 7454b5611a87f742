//! Helpers that several suites share: places in which a store can be, functions that open a store
//! there, a numbered history of writes, and a comparator.
#![allow(dead_code, reason = "other programs include this file, too, and use a part")]
use std::{
    cmp::Ordering,
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;
use terrace::{
    Comparator, Db, DurabilityMode, Error, LevelInfo, Options, ReadOptions, TableForm, WriteBatch, WriteOptions,
};
use terrace_sim::{Medium, Rng, Rules, ScrambleFs};
use terrace_storage::{
    Memory,
    backends::{
        files::{fs::FileSystem, real::RealFs},
        raw::{self, RawFs, Sizes, split::SplitFs},
    },
    open_files,
    placement::{OpenMode, Storage},
};

pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;
pub type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A place where a test can have one store, with its file system.
pub struct Place {
    pub name: &'static str,
    pub fs: Arc<dyn FileSystem>,
    folder: Option<TempDir>,
}

impl Place {
    pub fn memory() -> Place {
        Place { name: "memory", fs: Arc::new(Memory::new()), folder: None }
    }

    /// Returns the place for tests that must pass in every place. By default the place is memory.
    /// The environment variable `TERRACE_TEST_PLACE` can select `device`, a raw device without a
    /// file system, or `split`, a directory in memory together with a raw device.
    pub fn any() -> Place {
        let place = |name, fs| Place { name, fs, folder: None };
        match medium() {
            Medium::Directory(_) => Place::memory(),
            Medium::Device => place("device", large_device()),
            Medium::Split(_) => place("split", Arc::new(SplitFs::new(Arc::new(Memory::new()), large_device()))),
        }
    }

    pub fn scrambled() -> Place {
        Place { name: "scrambled memory", fs: Arc::new(ScrambleFs::new(Arc::new(Memory::new()))), folder: None }
    }

    pub fn directory() -> Place {
        let folder = tempfile::tempdir().expect("a temporary directory");
        Place { name: "directory", fs: Arc::new(RealFs::new(folder.path().join("store"))), folder: Some(folder) }
    }

    /// Returns a raw device in memory, without a file system.
    pub fn device() -> Place {
        Place { name: "device", fs: Medium::Device.recorder().file_system(), folder: None }
    }

    /// Returns a directory in memory together with a raw device in memory.
    pub fn split() -> Place {
        Place { name: "split", fs: Medium::Split(Rules::Ext4).recorder().file_system(), folder: None }
    }

    /// Returns the path of the store if it is in a real file system.
    pub fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.path().join("store"))
    }

    /// Returns why a store in this place cannot have the table form or the durability mode that
    /// `options` sets. Returns `None` if it can.
    pub fn refuses(&self, options: &Options) -> Option<String> {
        refusal(&*self.fs, options).map(|why| format!("{}: {why}", self.name))
    }

    /// Opens the store. If `manual` is set, the caller runs the background jobs step by step.
    pub fn open(&self, options: &Options, manual: bool) -> terrace::Result<Db> {
        open(&self.fs, options, manual)
    }
}

const SMALL_SLOTS: Sizes = Sizes { slot_bytes: 64 << 10, unit_slots: 16 };

/// Makes a raw device in memory that is large enough for every suite. Unlike [`Place::device`] it
/// does not record its writes. Its slots are small, so that even small files fill several of them.
fn large_device() -> Arc<RawFs> {
    let device = Arc::new(terrace_device::Memory::new(1 << 30).expect("memory is taken where it is written to"));
    raw::format(&*device, SMALL_SLOTS, 1).expect("a device in memory takes what it is given");
    RawFs::new(device, "(device in memory)")
}

/// Makes a file at `path` and formats it as a raw device for a store. Its slots are small, as in
/// [`large_device`].
pub fn device_file(path: &Path, bytes: u64) {
    raw::make_file(path, bytes).expect("room for a file");
    raw::prepare(path, |_| Ok::<_, terrace_storage::Error>(SMALL_SLOTS), false).expect("a new file is free");
}

/// Returns the problems that `terrace raw check` reports for the device at `path`.
pub fn problems_of_device(path: &Path) -> Vec<String> {
    let setup = Options::default().setup();
    raw::open(path, OpenMode::ReadOnly, &setup)
        .expect("a device that is not in use")
        .problems()
        .expect("a device that reads")
}

/// Returns the simulated medium (a directory, a device, or both) on which [`Place::any`] creates
/// stores. It records every write, so that suites can cut the power after any of them.
pub fn medium() -> Medium {
    match env::var("TERRACE_TEST_PLACE").as_deref() {
        Err(_) | Ok("memory") => Medium::Directory(Rules::Ext4),
        Ok("device") => Medium::Device,
        Ok("split") => Medium::Split(Rules::Ext4),
        Ok(other) => panic!("TERRACE_TEST_PLACE is memory, device or split, not {other}"),
    }
}

/// Returns whether the [`medium`] refuses these options, so that the test must be skipped. A
/// directory refuses no options.
pub fn is_refused(options: &Options) -> bool {
    let why = refusal(&*medium().recorder().file_system(), options);
    why.as_ref().inspect(|why| println!("skipped: {why}"));
    assert!(why.is_none() || medium() != Medium::Directory(Rules::Ext4), "{why:?}");
    why.is_some()
}

/// Returns why no store on `fs` can have the table form or the durability mode that `options`
/// sets. Returns `None` if a store can have both.
fn refusal(fs: &dyn FileSystem, options: &Options) -> Option<String> {
    if options.tables == Some(TableForm::Directory) && fs.folders().is_none() {
        return Some("there can be no folders".into());
    }
    options.durability.tracker(fs, &options.setup()).err().map(|error| error.to_string())
}

/// Returns the file system of [`Place::any`].
pub fn anywhere() -> Arc<dyn FileSystem> {
    Place::any().fs
}

/// Opens a store in the file system of [`anywhere`].
pub fn store(options: Options) -> Db {
    Place::any().open(&options, false).expect("a fresh place")
}

pub fn storage(fs: &Arc<dyn FileSystem>, mode: OpenMode, options: &Options) -> terrace::Result<Box<dyn Storage>> {
    let setup = options.setup();
    Ok(open_files(fs.clone(), mode, options.durability.tracker(&**fs, &setup)?, &setup)?)
}

pub fn open(fs: &Arc<dyn FileSystem>, options: &Options, manual: bool) -> terrace::Result<Db> {
    let storage = storage(fs, OpenMode::Create, options)?;
    if manual { Db::open_manual(storage, options.clone()) } else { Db::open_on(storage, options.clone()) }
}

/// Returns the options of the preset `leveldb` with `changes`, which are in text form. The
/// environment variable `TERRACE_TEST_PRESET` can name another preset. If `changes` contains no
/// table form, `TERRACE_TEST_TABLES` can name one; it is used only where it is possible, because
/// directory tables cannot be used with a value log or on a device.
pub fn options(changes: &[(&str, &str)]) -> Options {
    let separated = changes.contains(&("values", "log")) || medium() != Medium::Directory(Rules::Ext4);
    if separated { in_files(changes) } else { formed(form().as_deref(), changes) }
}

/// Returns [`options`] for tests that need tables in files. The table form is never directory
/// tables.
pub fn in_files(changes: &[(&str, &str)]) -> Options {
    formed(form().as_deref().filter(|form| *form != "directory"), changes)
}

/// Returns the preset `leveldb` with `changes`, and ignores the environment variables. Some tests
/// need this because they examine LevelDB's own tables, their count or their cost. Some suites
/// need it because they choose the table form themselves.
pub fn plain(changes: &[(&str, &str)]) -> Options {
    changed(Options::leveldb_compatible(), None, changes)
}

fn formed(form: Option<&str>, changes: &[(&str, &str)]) -> Options {
    let base = match env::var("TERRACE_TEST_PRESET") {
        Ok(name) => numbers_of(Options::preset(&name).unwrap_or_else(|e| panic!("TERRACE_TEST_PRESET: {e}"))),
        Err(_) => Options::leveldb_compatible(),
    };
    changed(base, form, changes)
}

/// Adapts a preset for raw devices, so that it can be used in directories: some suites store data
/// in directories whatever the preset. A durability mode that only a device has is replaced by one
/// that a directory supports.
fn numbers_of(mut preset: Options) -> Options {
    if preset.device || preset.durability == DurabilityMode::Inherit {
        (preset.device, preset.durability) = (false, DurabilityMode::Auto);
    }
    preset
}

fn changed(mut options: Options, form: Option<&str>, changes: &[(&str, &str)]) -> Options {
    for (name, value) in form.map(|form| ("tables", form)).into_iter().chain(changes.iter().copied()) {
        options.set(name, value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
    }
    options
}

fn form() -> Option<String> {
    env::var("TERRACE_TEST_TABLES").ok()
}

/// Changes to options: small memtables and tables, and a compaction of level 0 as early as
/// possible. A few writes then use every component of the engine.
pub const TIGHT: &[(&str, &str)] = &[
    ("write_buffer_size", "64KiB"),
    ("target_file_size", "64KiB"),
    ("max_bytes_for_level_base", "64KiB"),
    ("level0_file_num_compaction_trigger", "2"),
    ("level0_slowdown_writes_trigger", "6"),
    ("level0_stop_writes_trigger", "8"),
    ("max_manifest_file_size", "4KiB"),
    ("max_background_compactions", "2"),
];

pub fn scan(db: &Db, options: ReadOptions) -> terrace::Result<Pairs> {
    db.scan(options).collect()
}

/// Returns all pairs of a forward scan, and checks that a backward scan returns the same.
pub fn contents(db: &Db) -> terrace::Result<Pairs> {
    let forward = scan(db, ReadOptions::new().verify_checksums(true))?;
    let backward: Pairs = db.scan_reverse(ReadOptions::new().verify_checksums(true)).collect::<terrace::Result<_>>()?;
    assert!(forward.iter().eq(backward.iter().rev()), "forward and backward differ");
    Ok(forward)
}

/// Checks that levels below level 0 are sorted and without overlap, that no table is in two
/// levels, and that no table is empty.
pub fn check_layout(layout: &[LevelInfo], order: &terrace_format::KeyOrder) -> Result<(), String> {
    let mut numbers: Vec<u64> = layout.iter().flat_map(|level| &level.tables).map(|table| table.number).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("a table is in two places: {numbers:?}"));
    }
    for level in layout {
        let upside_down = |table: &terrace::TableInfo| order.user(&table.smallest, &table.largest).is_gt();
        let overlap = |pair: &[terrace::TableInfo]| {
            let met = order.user(&pair[0].largest, &pair[1].smallest);
            pair[0].run == pair[1].run && (met.is_gt() || met.is_eq() && !pair[0].largest_excluded)
        };
        if level.tables.iter().any(|table| table.bytes == 0 || upside_down(table)) {
            return Err(format!("a table without bytes or bounds: {level:?}"));
        }
        if level.level > 0 && level.tables.windows(2).any(overlap) {
            return Err(format!("tables overlap: {level:?}"));
        }
    }
    Ok(())
}

/// Returns whether all cases of each campaign are run, as in `make full`, and not only a sample.
pub fn is_full() -> bool {
    std::env::var_os("TERRACE_FULL").is_some()
}

/// Returns the distance between two cases of a campaign that are run: `full` in a full run,
/// otherwise `sample`.
pub fn stride(sample: usize, full: usize) -> usize {
    if is_full() { full } else { sample }
}

/// A comparator: the reverse of the bytewise order.
pub struct Backwards;

impl Comparator for Backwards {
    fn name(&self) -> &str {
        "test.Backwards"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

/// The key whose value counts the batches of a numbered history that were written so far.
pub const COUNT_KEY: &[u8] = b"\x00count";

/// Returns batch `number`, counted from 1, of the history of `seed`. The batch is a list of keys
/// with their new values; `None` deletes the key.
pub fn batch(seed: u64, number: usize) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut rng = Rng::of(seed, number as u64);
    let mut ops = vec![(COUNT_KEY.to_vec(), Some((number as u64).to_le_bytes().to_vec()))];
    for _ in 0..rng.below(4) {
        let key = format!("key{:02}", rng.below(60)).into_bytes();
        let bytes = if rng.chance(1, 12) { rng.below(9000) } else { rng.below(60) };
        let value = (!rng.chance(1, 4)).then(|| {
            let noise: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
            noise[..bytes].to_vec()
        });
        ops.push((key, value));
    }
    ops
}

pub fn apply(model: &mut Model, ops: &[(Vec<u8>, Option<Vec<u8>>)]) {
    for (key, value) in ops {
        match value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(key)),
        }
    }
}

/// Returns the expected contents of the store after 0, 1, 2, … batches of the history of `seed`.
pub fn states(seed: u64, batches: usize) -> Vec<Model> {
    let mut states = vec![Model::new()];
    for number in 1..=batches {
        let mut next = states[number - 1].clone();
        apply(&mut next, &batch(seed, number));
        states.push(next);
    }
    states
}

/// Writes a batch and returns its last sequence number.
pub fn write(db: &Db, ops: &[(Vec<u8>, Option<Vec<u8>>)], sync: bool) -> terrace::Result<u64> {
    let mut batch = WriteBatch::new();
    for (key, value) in ops {
        match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        };
    }
    db.write(batch, WriteOptions { sync, ..WriteOptions::default() })
}

/// Returns after how many batches of a numbered history a store has the contents `pairs`.
/// `states[n]` has the contents after n batches. Returns an error if `pairs` equals none of them.
pub fn prefix(pairs: Pairs, states: &[Model]) -> Result<usize, String> {
    let found: Model = pairs.into_iter().collect();
    let count = found
        .get(COUNT_KEY)
        .map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("the count has eight bytes")) as usize);
    match states.get(count) {
        Some(state) if *state == found => Ok(count),
        Some(_) => Err(format!("these are not the contents after {count} batches")),
        None => Err(format!("the count is {count}")),
    }
}

/// Returns whether `error`, an error of the operating system, states its operation and its file.
pub fn names_operation_and_file(error: &Error) -> bool {
    match error {
        Error::Io { op, object, .. } | Error::NoSpace { op, object, .. } => !op.is_empty() && !object.is_empty(),
        Error::FailStopped(first) => names_operation_and_file(first),
        _ => false,
    }
}

/// Returns every file below `folder`, with its bytes. No process may change files there during the
/// call.
pub fn files_below(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    names_below(folder).into_iter().map(|path| (path.clone(), std::fs::read(&path).expect("read"))).collect()
}

/// Returns the paths of all files below `folder`, or `folder` itself if it is a file. An open
/// store may remove files during the call.
pub fn names_below(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let listed = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Vec::new(),
        listed => listed.expect("list"),
    };
    let paths = listed.map(|entry| entry.expect("list").path());
    paths.flat_map(|path| if path.is_dir() { names_below(&path) } else { vec![path] }).collect()
}
