//! What the cases share: a place under test, and short words for what must hold.
use crate::{
    Error, Result, StorageConfig,
    backends::open_files,
    durability::DurabilityTracker,
    placement::{Bytes, Hint, Lifetime, LogKind, OpenMode, ReadHow, Storage, TableMeta, TableSink},
};
use std::{fmt::Debug, sync::Arc};
use terrace_format::{Batch, FormatFile, Kind, Layout, LogId, SeqNo, TableId, Values, key, value_log::WAL_SIDECAR};
use terrace_vfs::FileSystem;

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

pub(super) type Case = fn(&Place);

/// A place under test.
pub(super) struct Place(pub Opener);

impl Place {
    pub fn open(&self, mode: OpenMode, setup: &StorageConfig) -> Result<Box<dyn Storage>> {
        (self.0)(mode, setup)
    }

    pub fn create(&self) -> Box<dyn Storage> {
        good(self.open(OpenMode::Create, &StorageConfig::default()))
    }

    /// A place that can be opened in every mode: it has a root, the manifest that the root names, and a marker if it is made
    /// of anything but what LevelDB's stores are.
    pub fn with_root(&self) -> Box<dyn Storage> {
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
pub(super) const HEAD: &[u8] = &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Whether the write-ahead log keeps the values.
pub(super) fn is_apart(placement: &dyn Storage) -> bool {
    placement.layout().values == Values::Log
}

/// A record for a log of this kind, of `bytes` bytes; a batch at sequence `first` where values are read out of it, with a few more if
/// need be.
pub(super) fn record(placement: &dyn Storage, kind: LogKind, bytes: usize, first: u64) -> Vec<u8> {
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
pub(super) fn good<T>(outcome: Result<T>) -> T {
    outcome.unwrap_or_else(|error| panic!("{error}"))
}

/// What must be refused, and how.
pub(super) fn refused<T>(outcome: Result<T>, expected: impl FnOnce(&Error) -> bool) {
    match outcome {
        Ok(_) => panic!("this should have been refused"),
        Err(error) => assert!(expected(&error), "refused, but with {error:?}"),
    }
}

pub(super) fn is_missing(error: &Error) -> bool {
    matches!(error, Error::Missing { .. })
}

pub(super) fn is_in_use(error: &Error) -> bool {
    matches!(error, Error::InUse { .. })
}

/// Where compactions of these tests put their tables.
pub(super) const COMPACTED_LEVEL: usize = 2;

pub(super) fn hint(lifetime: Lifetime) -> Hint {
    let level = if lifetime == Lifetime::Compaction { COMPACTED_LEVEL } else { 0 };
    Hint { level, expected_bytes: 1 << 20, lifetime }
}

/// What a reader is shown of an entry of which `stored` was found.
pub(super) fn shown(placement: &dyn Storage, internal: &[u8], stored: Bytes) -> Vec<u8> {
    let key::Parsed { user, seq, kind } = key::apart(internal);
    let how = ReadHow { verify: true, fill_cache: true };
    if kind == Kind::Put { good(placement.value(user, seq, stored, how)).to_vec() } else { stored.to_vec() }
}

/// Finishes a build and sees its ticket through.
pub(super) fn finish(placement: &dyn Storage, build: Box<dyn TableSink>) -> Vec<TableMeta> {
    let (metas, ticket) = good(build.finish());
    good(placement.commit());
    assert!(good(ticket.is_durable()), "commit decides every ticket handed out before it");
    metas
}

/// A build of one table, finished.
pub(super) fn one_table<'a>(
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
pub(super) fn same<T: PartialEq + Debug>(got: T, want: T, case: &str) {
    assert!(got == want, "{case}: got {}, want {}", brief(&got), brief(&want));
}

pub(super) fn brief(thing: &impl Debug) -> String {
    format!("{thing:?}").chars().take(200).collect()
}
