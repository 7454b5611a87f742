//! The location under test and helpers for assertions, shared by all cases of the suite.
use crate::{
    Error, Result, StorageConfig,
    backends::open_files,
    durability::DurabilityTracker,
    placement::{Bytes, Hint, Lifetime, LogKind, OpenMode, Storage, TableMeta, TableSink},
};
use std::{fmt::Debug, sync::Arc};
use terrace_format::{Batch, FormatFile, Kind, Layout, LogId, SeqNo, TableId, Values, key, value_log::WAL_SIDECAR};
use terrace_vfs::FileSystem;

/// A function that opens a store at one fixed location. It may be called several times.
pub type Opener = Box<dyn Fn(OpenMode, &StorageConfig) -> Result<Box<dyn Storage>>>;

/// Returns an opener for stores in the file system `fs`. `tracker` completes their durability
/// handles.
pub fn on_files(fs: Arc<dyn FileSystem>, tracker: Arc<dyn DurabilityTracker>) -> Opener {
    Box::new(move |mode, setup| open_files(fs.clone(), mode, tracker.clone(), setup))
}

/// Returns an opener as [`on_files`] does, for stores with the layout `layout`.
pub fn on_files_of(layout: Layout, fs: Arc<dyn FileSystem>, tracker: Arc<dyn DurabilityTracker>) -> Opener {
    Box::new(move |mode, setup| {
        open_files(fs.clone(), mode, tracker.clone(), &StorageConfig { layout, ..setup.clone() })
    })
}

pub(super) type Case = fn(&Fixture);

/// The store location that a case tests.
pub(super) struct Fixture(pub Opener);

impl Fixture {
    pub fn open(&self, mode: OpenMode, setup: &StorageConfig) -> Result<Box<dyn Storage>> {
        (self.0)(mode, setup)
    }

    pub fn create(&self) -> Box<dyn Storage> {
        good(self.open(OpenMode::Create, &StorageConfig::default()))
    }

    /// Creates a store that can be opened in every mode (create, write, read only, salvage). The
    /// store has a root (LevelDB's `CURRENT`), the manifest that the root names, and a format file
    /// unless its layout is LevelDB's.
    pub fn with_root(&self) -> Box<dyn Storage> {
        let storage = self.create();
        if storage.layout() != Layout::default() {
            let sidecar = separates_values(&*storage).then_some(WAL_SIDECAR);
            good(storage.publish_format_file(&FormatFile::new(storage.layout(), sidecar).encode()));
        }
        good(good(storage.create_log(LogId(1), LogKind::Manifest, HEAD)).sync());
        good(storage.publish_root(LogId(1)));
        storage
    }
}

/// The first record that the cases write to a WAL or manifest: an empty batch with sequence number
/// 7.
pub(super) const HEAD: &[u8] = &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Returns whether the store separates values from keys, in a value log.
pub(super) fn separates_values(storage: &dyn Storage) -> bool {
    storage.layout().values == Values::Log
}

/// Returns a record of `bytes` bytes for a log of `kind`. With key-value separation the record is
/// a batch with first sequence number `first`, and it may be a few bytes longer than `bytes`.
pub(super) fn record(storage: &dyn Storage, kind: LogKind, bytes: usize, first: u64) -> Vec<u8> {
    let contents: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    if kind == LogKind::Manifest || !separates_values(storage) {
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

/// Unwraps the result of a call that must succeed.
#[track_caller]
pub(super) fn good<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that a call failed with an error for which `expected` returns true.
#[track_caller]
pub(super) fn refused<T>(outcome: Result<T>, expected: impl FnOnce(&Error) -> bool) {
    match outcome {
        Ok(_) => panic!("the call should have failed"),
        Err(error) => assert!(expected(&error), "the call failed with another error: {error:?}"),
    }
}

pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Missing { .. })
}

pub(super) fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::InUse { .. })
}

/// The level for which compaction jobs of the suite write tables.
pub(super) const COMPACTED_LEVEL: usize = 2;

pub(super) fn hint(lifetime: Lifetime) -> Hint {
    let level = if lifetime == Lifetime::Compaction { COMPACTED_LEVEL } else { 0 };
    Hint { level, expected_bytes: 1 << 20, lifetime }
}

/// Returns the user's value of the entry with the key `internal`. `stored` is the stored form of
/// the value, as a lookup returned it.
pub(super) fn shown(storage: &dyn Storage, internal: &[u8], stored: Bytes) -> Vec<u8> {
    let key::Parsed { user, seq, kind } = key::apart(internal);
    if kind == Kind::Put { good(storage.value(user, seq, stored)).to_vec() } else { stored.to_vec() }
}

/// Finishes the tables that `build` has written, forces a batch sync, and checks that their
/// durability handle is durable.
pub(super) fn finish(storage: &dyn Storage, build: Box<dyn TableSink>) -> Vec<TableMeta> {
    let (metas, handle) = good(build.finish());
    good(storage.commit());
    assert!(good(handle.is_durable()), "commit completes every earlier durability handle");
    metas
}

/// Builds one table.
pub(super) fn one_table<'a>(
    storage: &dyn Storage,
    id: u64,
    lifetime: Lifetime,
    entries: impl IntoIterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
) -> TableMeta {
    let mut build = good(storage.begin(hint(lifetime)));
    good(build.begin_table(TableId(id)));
    for (key, value) in entries {
        good(build.add(key, value));
    }
    good(build.end_table());
    finish(storage, build).remove(0)
}

/// Like `assert_eq`, but names the case and prints at most 200 bytes of each side.
pub(super) fn same<T: PartialEq + Debug>(got: T, want: T, case: &str) {
    assert!(got == want, "{case}: got {}, want {}", brief(&got), brief(&want));
}

pub(super) fn brief(thing: &impl Debug) -> String {
    format!("{thing:?}").chars().take(200).collect()
}
