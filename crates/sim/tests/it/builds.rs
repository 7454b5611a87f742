//! Tests the limit of open files during builds. A build is the job that writes the SSTables of one
//! flush or compaction, and it keeps the files of its finished tables open until it ends. A store
//! bounds how many such files all its builds keep open together.
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

/// Maximum number of files that all builds of a store keep open together: an eighth of the
/// process's limit of open files.
const HELD_MAX: usize = 16;

/// A durability tracker that counts the files that builds give to it, or refuses them.
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
            return Err(Error::Unsupported("refused by the test".into()));
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

fn begin_build(storage: &dyn Storage) -> Box<dyn TableSink> {
    storage.begin(Hint { level: 1, expected_bytes: 100, lifetime: Lifetime::Compaction }).unwrap()
}

fn add_table(build: &mut dyn TableSink, id: usize) {
    build.begin_table(TableId(id as u64)).unwrap();
    let key = terrace_format::key::lookup(b"key", SeqNo(id as u64));
    build.keep(EntryRef { key: &key, stored: &[7; 100], origin: Origin::Memory }).unwrap();
    build.end_table().unwrap();
}

/// Builds as many tables as a single build may keep open. Asserts that the build gives none of
/// them to the tracker early, which proves that earlier builds keep no files open.
fn check_all_held(storage: &dyn Storage, tracker: &Counting, id: usize) {
    let before = tracker.files.load(Relaxed);
    let mut alone = begin_build(storage);
    (1..HELD_MAX / 4).for_each(|at| add_table(&mut *alone, id + at));
    assert_eq!(tracker.files.load(Relaxed), before, "table {id} and later ones");
}

#[test]
fn the_number_of_held_files_is_bounded_across_builds() {
    let fs = CrashFs::new(Rules::Ext4).with_open_files_max(8 * HELD_MAX as u64);
    let tracker = Arc::new(Counting::default());
    let setup = StorageConfig { max_open_files: 0, ..StorageConfig::default() };
    let storage = open_files(Arc::new(fs), OpenMode::Create, tracker.clone(), &setup).unwrap();
    let watched = || tracker.files.load(Relaxed);
    (0..HELD_MAX).for_each(|round| check_all_held(&*storage, &tracker, 10 * round)); // each build is abandoned

    let mut builds: Vec<_> = (0..40).map(|_| begin_build(&*storage)).collect();
    let mut made = 0;
    for _ in 0..3 {
        for build in &mut builds {
            made += 1;
            add_table(&mut **build, 1000 + made);
            assert!(made - watched() < HELD_MAX, "{made} made, {} given to the tracker", watched());
        }
    }
    builds.into_iter().for_each(|build| assert_eq!(build.finish().unwrap().0.len(), 3));
    assert_eq!(watched(), made, "each file is given to the tracker once");
    check_all_held(&*storage, &tracker, 2000);

    tracker.refuses.store(true, Relaxed);
    for round in 0..HELD_MAX {
        let mut build = begin_build(&*storage);
        add_table(&mut *build, 3000 + round);
        assert!(build.finish().is_err());
    }
    check_all_held(&*storage, &tracker, 4000);
}
