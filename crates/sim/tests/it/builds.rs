//! Builds hold the descriptors of what they have made until they end, but only so many, however many there are.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};
use terrace_format::{SeqNo, TableId};
use terrace_sim::{CrashFs, Rules};
use terrace_storage::{
    DurabilityHandle, Error, IoStats, Result, StorageConfig,
    backends::files::fs::FileSystem,
    durability::{DurabilityTracker, Finished},
    open_files,
    placement::{EntryRef, Hint, Lifetime, OpenMode, Origin, Storage, TableSink},
};

/// Files that a store may hold in its builds: an eighth of what the process may have open.
const HELD_MAX: usize = 16;

/// Counts what it is given, or will not have it.
#[derive(Default)]
struct Counting {
    files: AtomicUsize,
    refuses: AtomicBool,
}

impl DurabilityTracker for Counting {
    fn durability_mode(&self) -> &'static str {
        "counting"
    }
    fn watch(&self, _: &dyn FileSystem, files: Vec<Finished>, _: &IoStats) -> Result<DurabilityHandle> {
        if self.refuses.load(Relaxed) {
            return Err(Error::Unsupported("it is refused".into()));
        }
        self.files.fetch_add(files.len(), Relaxed);
        Ok(DurabilityHandle::pending().0)
    }
    fn advance(&self, _: &dyn FileSystem, _: &IoStats) -> Result<bool> {
        Ok(true)
    }
    fn commit(&self, _: &dyn FileSystem, _: &IoStats) -> Result<()> {
        Ok(())
    }
}

fn begun(storage: &dyn Storage) -> Box<dyn TableSink> {
    storage.begin(Hint { level: 1, expected_bytes: 100, lifetime: Lifetime::Compaction }).unwrap()
}

fn add_table(build: &mut dyn TableSink, id: usize) {
    build.begin_table(TableId(id as u64)).unwrap();
    let key = terrace_format::key::lookup(b"key", SeqNo(id as u64));
    build.keep(EntryRef { key: &key, stored: &[7; 100], origin: Origin::Memory }).unwrap();
    build.end_table().unwrap();
}

/// As many tables as a build that is alone keeps for itself; nothing of it is handed over, so builds before it hold nothing.
fn is_kept(storage: &dyn Storage, tracker: &Counting, id: usize) {
    let before = tracker.files.load(Relaxed);
    let mut alone = begun(storage);
    (1..HELD_MAX / 4).for_each(|at| add_table(&mut *alone, id + at));
    assert_eq!(tracker.files.load(Relaxed), before, "table {id} and behind it");
}

#[test]
fn many_builds_hold_no_more_than_few_do() {
    let fs = CrashFs::new(Rules::Ext4).with_open_files_max(8 * HELD_MAX as u64);
    let tracker = Arc::new(Counting::default());
    let setup = StorageConfig { max_open_files: 0, ..StorageConfig::default() };
    let storage = open_files(Arc::new(fs), OpenMode::Create, tracker.clone(), &setup).unwrap();
    let handed = || tracker.files.load(Relaxed);
    (0..HELD_MAX).for_each(|round| is_kept(&*storage, &tracker, 10 * round)); // and given up

    let mut builds: Vec<_> = (0..40).map(|_| begun(&*storage)).collect();
    let mut made = 0;
    for _ in 0..3 {
        for build in &mut builds {
            made += 1;
            add_table(&mut **build, 1000 + made);
            assert!(made - handed() < HELD_MAX, "{made} made, {} handed over", handed());
        }
    }
    builds.into_iter().for_each(|build| assert_eq!(build.finish().unwrap().0.len(), 3));
    assert_eq!(handed(), made, "each once");
    is_kept(&*storage, &tracker, 2000);

    tracker.refuses.store(true, Relaxed);
    for round in 0..HELD_MAX {
        let mut build = begun(&*storage);
        add_table(&mut *build, 3000 + round);
        assert!(build.finish().is_err());
    }
    is_kept(&*storage, &tracker, 4000);
}
