//! The suite that every backend passes: what [`placement`](crate::placement) says, as assertions.
//!
//! Give [`run`] something that makes a new empty place each time; each case opens its place as often as it likes.
//! It panics where the contract is broken. Power cuts are not its business: `terrace-sim` has those.
//!
//! ```
//! use std::sync::Arc;
//! use terrace_storage::{Memory, contract, durability::SyncTracker};
//!
//! contract::run(&|| contract::on_files(Arc::new(Memory::new()), Arc::new(SyncTracker)));
//! ```
use crate::{
    Error, Result, StorageConfig,
    backends::open_files,
    durability::DurabilityTracker,
    placement::{Bytes, Hint, Lifetime, LogKind, OpenMode, ReadHow, Storage, TableMeta, TableSink},
};
use std::{fmt::Debug, sync::Arc};
use terrace_format::{Batch, FormatFile, Kind, Layout, LogId, SeqNo, TableId, Values, key, value_log::WAL_SIDECAR};
use terrace_vfs::FileSystem;

mod logs;
mod places;
mod tables;

/// Opens one and the same place, again and again.
pub type Opener = Box<dyn Fn(OpenMode, &StorageConfig) -> Result<Box<dyn Storage>>>;

/// Opens stores of files in `fs`, whose tickets `tracker` matures.
pub fn on_files(fs: Arc<dyn FileSystem>, tracker: Arc<dyn DurabilityTracker>) -> Opener {
    Box::new(move |mode, setup| open_files(fs.clone(), mode, tracker.clone(), setup))
}

/// As [`on_files`], with stores of this shape.
pub fn on_files_of(layout: Layout, fs: Arc<dyn FileSystem>, tracker: Arc<dyn DurabilityTracker>) -> Opener {
    Box::new(move |mode, setup| {
        open_files(fs.clone(), mode, tracker.clone(), &StorageConfig { layout, ..setup.clone() })
    })
}

/// Runs every case, each on a place of its own from `fresh`.
pub fn run(fresh: &dyn Fn() -> Opener) {
    for case in logs::CASES.iter().chain(tables::CASES).chain(places::CASES) {
        case(&Place(fresh()));
    }
}

type Case = fn(&Place);

/// A place under test.
struct Place(Opener);

impl Place {
    fn open(&self, mode: OpenMode, setup: &StorageConfig) -> Result<Box<dyn Storage>> {
        (self.0)(mode, setup)
    }

    fn create(&self) -> Box<dyn Storage> {
        good(self.open(OpenMode::Create, &StorageConfig::default()))
    }

    /// A place that can be opened in every mode: it has a root, the manifest that the root names, and a marker if it is made
    /// of anything but what LevelDB's stores are.
    fn with_root(&self) -> Box<dyn Storage> {
        let placement = self.create();
        if placement.layout() != Layout::default() {
            let parted = is_apart(&*placement).then_some(WAL_SIDECAR);
            good(placement.publish_marker(&FormatFile::new(placement.layout(), parted).encode()));
        }
        good(good(placement.create_log(LogId(1), LogKind::Manifest, HEAD)).sync());
        good(placement.publish_root(LogId(1)));
        placement
    }
}

/// A first record of a log, of either kind: a batch of nothing.
const HEAD: &[u8] = &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Whether the write-ahead log keeps the values.
fn is_apart(placement: &dyn Storage) -> bool {
    placement.layout().values == Values::Log
}

/// A record for a log of this kind, of `bytes` bytes; a batch at sequence `first` where values are read out of it, with a few more if
/// need be.
fn record(placement: &dyn Storage, kind: LogKind, bytes: usize, first: u64) -> Vec<u8> {
    let contents: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    if kind == LogKind::Manifest || !is_apart(placement) {
        return contents;
    }
    let mut batch = Batch::new();
    let mut value_bytes = bytes;
    loop {
        batch.clear();
        batch.put(b"", &contents[..value_bytes]);
        batch.set_sequence(SeqNo(first));
        match batch.byte_len().saturating_sub(bytes).min(value_bytes) {
            0 => break batch.into_bytes(),
            excess => value_bytes -= excess,
        }
    }
}

/// What must work.
fn good<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// What must be refused, and how.
fn refused<T>(outcome: Result<T>, expected: impl FnOnce(&Error) -> bool) {
    match outcome {
        Ok(_) => panic!("this should have been refused"),
        Err(error) => assert!(expected(&error), "refused, but with {error:?}"),
    }
}

fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Missing { .. })
}

fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::InUse { .. })
}

/// Where compactions of these tests put their tables.
const COMPACTED_LEVEL: usize = 2;

fn hint(lifetime: Lifetime) -> Hint {
    let level = if lifetime == Lifetime::Compaction { COMPACTED_LEVEL } else { 0 };
    Hint { level, expected_bytes: 1 << 20, lifetime }
}

/// What a reader is shown of an entry of which `stored` was found.
fn shown(placement: &dyn Storage, internal: &[u8], stored: Bytes) -> Vec<u8> {
    let key::Parsed { user, seq, kind } = key::apart(internal);
    let how = ReadHow { verify: true, fill_cache: true };
    if kind == Kind::Put { good(placement.value(user, seq, stored, how)).to_vec() } else { stored.to_vec() }
}

/// Finishes a build and sees its ticket through.
fn finish(placement: &dyn Storage, build: Box<dyn TableSink>) -> Vec<TableMeta> {
    let (metas, ticket) = good(build.finish());
    good(placement.commit());
    assert!(good(ticket.is_durable()), "commit decides every ticket handed out before it");
    metas
}

/// A build of one table, finished.
fn one_table<'a>(
    placement: &dyn Storage,
    id: u64,
    lifetime: Lifetime,
    entries: impl IntoIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> TableMeta {
    let mut build = good(placement.begin(hint(lifetime)));
    good(build.begin_table(TableId(id)));
    for (key, value) in entries {
        good(build.add(key, value));
    }
    good(build.end_table());
    finish(placement, build).remove(0)
}

/// `assert_eq` for long things: says which case, not what the bytes are.
fn same<T: PartialEq + Debug>(got: T, want: T, case: &str) {
    assert!(got == want, "{case}: got {}, want {}", brief(&got), brief(&want));
}

fn brief(thing: &impl Debug) -> String {
    format!("{thing:?}").chars().take(200).collect()
}
