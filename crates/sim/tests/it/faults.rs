//! Tests that fault injection makes the planned call fail and no other call.
use std::{collections::BTreeSet, io, sync::Arc, time::Duration};
use terrace_format::{Layout, TableForm, TableId};
use terrace_sim::{CrashFs, Fault, FaultFs, Plan, Rules};
use terrace_storage::{
    DurabilityHandle, StorageConfig,
    backends::files::fs::FileSystem,
    durability::{BatchTracker, DurabilityTracker, Evidence, JournalTracker, SyncTracker, Way},
    open_files,
    placement::{EntryRef, Hint, Lifetime, OpenMode, Origin, Storage, TableSink},
};

fn wrapped(plan: Plan) -> (CrashFs, FaultFs) {
    let inner = CrashFs::new(Rules::Ext4);
    (inner.clone(), FaultFs::new(Arc::new(inner), plan))
}

/// Makes one call of every kind, fourteen in all, and stops at the first failure.
fn workload(fs: &FaultFs) -> io::Result<()> {
    fs.make_directory()?;
    fs.exists()?;
    let _held = fs.lock(true)?;
    let mut file = fs.create("a")?;
    file.append(b"0123456789")?;
    file.sync()?;
    fs.link("a", "lost/a")?;
    fs.rename("a", "b")?;
    let reader = fs.open("b")?;
    reader.read_exact_at(&mut [0; 10], 0)?;
    reader.bytes()?;
    fs.list()?;
    fs.sync_directory()?;
    fs.remove("b")
}

#[test]
fn every_call_can_fail_by_plan_and_no_call_fails_otherwise() {
    let (_, fs) = wrapped(Plan::never());
    workload(&fs).unwrap();
    assert_eq!((fs.calls(), fs.failed()), (14, 0));
    for call in 0..14 {
        let (_, fs) = wrapped(Plan::once(call, Fault::Eio));
        workload(&fs).unwrap_err();
        assert_eq!((fs.calls(), fs.failed()), (call + 1, 1), "nothing ran after the failure");
        fs.heal();
        fs.exists().unwrap();
    }
}

#[test]
fn a_full_disk_fails_calls_that_need_space() {
    let hit_at = |call| {
        let (_, fs) = wrapped(Plan::once(call, Fault::Enospc));
        let error = workload(&fs).err()?;
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        Some(fs.calls() - 1)
    };
    let hits: Vec<_> = (0..14).map(hit_at).collect();
    let want = [0, 3, 3, 3, 4, 6, 6, 7].map(Some).into_iter().chain([None; 6]).collect::<Vec<_>>();
    assert_eq!(hits, want);
    let (_, fs) = wrapped(Plan::never());
    workload(&fs).unwrap();
    fs.arm(Plan::from_then_on(0, Fault::Enospc));
    assert!(fs.create("c").is_err() && fs.create("c").is_err());
    fs.remove("lost/a").unwrap();
}

#[test]
fn a_disconnected_device_fails_until_healed() {
    let (_, fs) = wrapped(Plan::from_then_on(5, Fault::Eio));
    workload(&fs).unwrap_err();
    assert!(fs.list().is_err() && fs.open("a").is_err() && fs.remove("a").is_err());
    fs.heal();
    fs.list().unwrap();
}

#[test]
fn a_short_write_leaves_a_proper_prefix() {
    let left_at = |call| {
        let (inner, fs) = wrapped(Plan::once(call, Fault::ShortWrite));
        fs.make_directory().unwrap();
        let mut file = fs.create("a").unwrap();
        while fs.calls() < call {
            fs.exists().unwrap();
        }
        assert_eq!(file.append(b"0123456789").unwrap_err().kind(), io::ErrorKind::StorageFull);
        let left = inner.state_after(inner.steps()).read("a").unwrap();
        assert!(b"0123456789".starts_with(&left) && left.len() < 10);
        left.len()
    };
    assert_eq!((2..102).map(left_at).collect::<BTreeSet<_>>(), (0..10).collect());
    assert_eq!(left_at(9), left_at(9));
}

#[test]
fn after_a_failed_sync_later_ones_succeed_and_write_nothing() {
    let (inner, fs) = wrapped(Plan::never());
    fs.make_directory().unwrap();
    let mut file = fs.create("a").unwrap();
    file.append(b"unsynced").unwrap();
    fs.sync_directory().unwrap();
    fs.arm(Plan::once(fs.calls(), Fault::Eio));
    file.sync().unwrap_err();
    file.sync().unwrap();
    let left = |seed| inner.power_loss(inner.steps(), seed).read("a").unwrap();
    assert!((0..100).any(|seed| left(seed).is_empty()), "the second sync wrote the bytes");
    // A control: after a sync that succeeded, the bytes must be durable.
    let mut other = fs.create("b").unwrap();
    other.append(b"safe").unwrap();
    other.sync().unwrap();
    assert!((0..100).all(|seed| inner.power_loss(inner.steps(), seed).read("b").unwrap() == b"safe"));
}

/// Tests a failed sync of several folders. The failure must be reported once, to the caller of
/// this sync. The unsynced data of all folders are then lost, even of folders that the failed call
/// did not name.
#[test]
fn a_failed_sync_of_folders_is_reported_once_and_loses_all_unsynced_folders() {
    let (inner, fs) = wrapped(Plan::never());
    fs.make_directory().unwrap();
    let folders = fs.folders().unwrap();
    let fill = |name: &str| {
        folders.make_folder(name).unwrap();
        fs.create(&format!("{name}/a")).unwrap().append(b"unsynced").unwrap();
    };
    ["one", "two"].into_iter().for_each(fill);
    fs.arm(Plan::once(fs.calls(), Fault::Eio));
    folders.sync_folders(&["one".into()]).unwrap_err();
    folders.sync_folders(&["two".into()]).unwrap();
    let whole =
        |name: &str, seed| inner.power_loss(inner.steps(), seed).read(name).is_some_and(|bytes| bytes == b"unsynced");
    assert!((0..100).any(|seed| !whole("two/a", seed)), "the second sync wrote the bytes");
    fill("three");
    folders.sync_folders(&["three".into()]).unwrap();
    assert!((0..100).all(|seed| whole("three/a", seed)), "the control, written after the failure");
}

/// Returns a build of one directory table that is complete but not finished or synced yet.
fn begin_build(storage: &dyn Storage, id: u64) -> Box<dyn TableSink> {
    let mut build = storage.begin(Hint { level: 0, expected_bytes: 100, lifetime: Lifetime::Flush }).unwrap();
    build.begin_table(TableId(id)).unwrap();
    let key = terrace_format::key::lookup(b"key", terrace_format::SeqNo(id));
    build.keep(EntryRef { key: &key, stored: &[7; 5000], origin: Origin::Memory }).unwrap();
    build.end_table().unwrap();
    build
}

/// Tests that one sync call makes all builds of a batch durable, however many there are.
#[test]
fn a_batch_of_directory_tables_is_synced_by_one_call() {
    let setup = StorageConfig {
        layout: Layout { tables: TableForm::Directory, ..Layout::default() },
        ..StorageConfig::default()
    };
    let batch = |way| Arc::new(BatchTracker::new(way, Duration::ZERO)) as Arc<dyn DurabilityTracker>;
    let journal = |evidence| Arc::new(JournalTracker::new(evidence, Duration::ZERO, Duration::from_secs(3600)));
    for tracker in [batch(Way::Background), batch(Way::Group), journal(Evidence::Count)] {
        let (inner, fs) = wrapped(Plan::never());
        let way = tracker.durability_mode();
        let storage = open_files(Arc::new(fs.clone()), OpenMode::Create, tracker, &setup).unwrap();
        for builds in [1, 5] {
            let ids: Vec<u64> = (0..builds).map(|n| 10 * builds + n).collect();
            let handles: Vec<DurabilityHandle> =
                ids.iter().map(|id| begin_build(&*storage, *id).finish().unwrap().1).collect();
            let before = fs.calls();
            storage.commit().unwrap();
            assert_eq!(fs.calls() - before, 1, "{way}, {builds} builds");
            assert!(handles.iter().all(|handle| matches!(handle.is_durable(), Ok(true))), "{way}, {builds} builds");
            let is_there =
                |id: &u64, seed| inner.power_loss(inner.steps(), seed).read(&format!("L0/{id:06}/META")).is_some();
            assert!((0..20).all(|seed| ids.iter().all(|id| is_there(id, seed))), "{way}: a build is not durable");
        }
    }
}

/// Tests the storage after a failed sync of directory tables. The failure does not report which
/// bytes were lost. Therefore no unsynced table may be reported as durable afterwards, whether it
/// was built earlier or later.
#[test]
fn after_a_failed_sync_of_folders_no_table_is_reported_durable() {
    let setup = StorageConfig {
        layout: Layout { tables: TableForm::Directory, ..Layout::default() },
        ..StorageConfig::default()
    };
    for way in [None, Some(Way::Background), Some(Way::Group)] {
        let tracker = || -> Arc<dyn DurabilityTracker> {
            match way {
                None => Arc::new(SyncTracker),
                Some(way) => Arc::new(BatchTracker::new(way, Duration::ZERO)),
            }
        };
        let (_, fs) = wrapped(Plan::never());
        let open = || open_files(Arc::new(fs.clone()), OpenMode::Create, tracker(), &setup).unwrap();
        let storage = open();
        let sync = |storage: &dyn Storage, builds: Vec<Box<dyn TableSink>>| -> Vec<bool> {
            let handles: Vec<Option<DurabilityHandle>> =
                builds.into_iter().map(|build| Some(build.finish().ok()?.1)).collect();
            // The error is ignored here, because the durability handles report the outcome.
            let _ = storage.commit();
            handles
                .iter()
                .map(|handle| handle.as_ref().is_some_and(|handle| matches!(handle.is_durable(), Ok(true))))
                .collect()
        };
        assert_eq!(sync(&*storage, vec![begin_build(&*storage, 1)]), [true], "{}", storage.durability_mode());
        let both = vec![begin_build(&*storage, 2), begin_build(&*storage, 3)];
        fs.arm(Plan::once(fs.calls(), Fault::Eio));
        assert_eq!(
            sync(&*storage, both),
            [false, false],
            "{}: the error belongs to the other build",
            storage.durability_mode()
        );
        assert_eq!(fs.failed(), 1);
        assert_eq!(
            sync(&*storage, vec![begin_build(&*storage, 4)]),
            [false],
            "{}: no later build is durable",
            storage.durability_mode()
        );
        drop(storage);
        let storage = open();
        assert_eq!(
            sync(&*storage, vec![begin_build(&*storage, 5)]),
            [true],
            "{}: after reopening",
            storage.durability_mode()
        );
    }
}
