//! Tests of processes that fork while a store is open, such as `multiprocessing` in Python,
//! prefork servers and daemons. In the child, every call on the store must return an error, and a
//! drop of the store must do nothing. The parent must lose no data. Once the parent has exited,
//! the child must not keep the store locked.
use crate::common::{alone::in_own_process, fork, kit};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::Duration,
};
use terrace::{
    Db, DurabilityMode, Error, Options, PAPER_PRESETS, PRESETS, ReadOptions, SortedTableWriter, WriteBatch,
    WriteOptions,
};
use terrace_storage::backends::raw::split;

/// Returns a path for a store and its options, for every preset. If the file system does not
/// support the durability mode of a preset, the options have another mode.
fn stores(folder: &Path) -> Vec<(&'static str, PathBuf, Options)> {
    let store = |(name, _): &(&'static str, &str)| {
        let mut options = Options::preset(name).unwrap();
        let path = folder.join(name);
        if options.split {
            let device = folder.join(format!("{name}.device"));
            kit::device_file(&device, 64 << 20);
            split::join(&path, &device).unwrap();
            options.write_buffer_size = 1 << 20;
        } else if options.device {
            kit::device_file(&path, 64 << 20);
            options.write_buffer_size = 1 << 20;
        }
        if options.durability.refusal(folder).is_some() {
            options.durability = DurabilityMode::Background;
        }
        (*name, path, options)
    };
    PRESETS.iter().chain(PAPER_PRESETS).map(store).collect()
}

fn is_forked<T>(outcome: Result<T, Error>) -> bool {
    matches!(&outcome, Err(Error::Forked { object, pid, own }) if !object.is_empty() && pid != own)
}

/// Calls every function of the store that could write, wait or take a lock.
fn call_everything(db: &Db, other: &Path) {
    let mut batch = WriteBatch::new();
    batch.put("child", "1");
    let range = [(&b"a"[..], &b"z"[..])];
    let writes = [
        db.put("child", "1"),
        db.put_with("child", "1", WriteOptions::synced()),
        db.delete("before"),
        db.delete_range("a", "z", WriteOptions::default()),
        db.write(batch.clone(), WriteOptions::default()).map(drop),
        db.write(batch, WriteOptions::without_wal()).map(drop),
        db.flush(),
        db.resume(),
        db.wait_idle(),
        db.wait_durable(db.last_sequence()),
        db.when_durable(db.last_sequence()).map(drop),
        db.compact_range(None, None),
        db.checkpoint(other).map(drop),
        db.ingest(&[other]).map(drop),
        db.updates_since(0).map(drop),
    ];
    writes.into_iter().enumerate().for_each(|(n, outcome)| assert!(is_forked(outcome), "write {n}"));
    let reads = [
        db.get("before").map(drop),
        db.get_pinned("before", &ReadOptions::new()).map(drop),
        db.multi_get(&["before"]).pop().unwrap().map(drop),
        db.get_with("before", &ReadOptions::new().snapshot(&db.snapshot())).map(drop),
        db.cursor(ReadOptions::new()).seek_to_first(),
        kit::scan(db, ReadOptions::new()).map(drop),
        db.approximate_sizes(&range).map(drop),
        db.export(other, ReadOptions::new()).map(drop),
    ];
    reads.into_iter().enumerate().for_each(|(n, outcome)| assert!(is_forked(outcome), "read {n}"));
    assert!(db.property("leveldb.stats").is_none());
    assert_eq!(db.statistics().last_sequence, db.last_sequence());
    assert!(is_forked(db.clone().close()));
}

#[test]
fn a_child_is_refused_and_its_parent_loses_nothing() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        for (name, path, options) in stores(folder.path()) {
            let db = Db::open(&path, options.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
            db.put("before", "0").unwrap();
            let other = folder.path().join(format!("{name}.other"));
            let mut cursor = db.cursor(ReadOptions::new());
            cursor.seek_to_first().unwrap();
            let table = SortedTableWriter::create(&other, &options).unwrap();
            let mut inherited = Some((cursor, db.snapshot(), db.updates_since(0).unwrap(), table, db));
            fork::start(|| {
                let (cursor, snapshot, updates, table, db) = inherited.as_mut().unwrap();
                assert_eq!(
                    (cursor.key(), cursor.value()),
                    (&b"before"[..], &b"0"[..]),
                    "unsynced writes are still readable"
                );
                assert!(is_forked(cursor.next()) && is_forked(updates.next().unwrap()));
                assert!(is_forked(table.put("a", "b")));
                assert!(snapshot.sequence() <= db.last_sequence());
                call_everything(db, &other);
                let opened = Db::open(&path, options.clone()).map(drop);
                assert!(matches!(opened, Err(Error::InUse { .. })), "{name}: {opened:?}");
                drop(inherited.take()); // like the exit of an interpreter
            })
            .wait();
            let (cursor, snapshot, updates, mut table, db) = inherited.unwrap();
            table.put("a", "b").unwrap();
            table.finish().unwrap();
            drop((cursor, snapshot, updates));
            let value = |n: usize| vec![n as u8; if n.is_multiple_of(10) { 5000 } else { 100 }];
            for n in 0..100 {
                db.put_with(format!("{n:03}"), value(n), WriteOptions::synced()).unwrap();
            }
            db.close().unwrap_or_else(|e| panic!("{name}: {e}"));
            let db = Db::open(&path, options).unwrap_or_else(|e| panic!("{name}: {e}"));
            let there = (0..100).filter(|n| db.get(format!("{n:03}")).unwrap() == Some(value(*n))).count();
            assert_eq!((there, db.get("child").unwrap()), (100, None), "{name}");
        }
    });
}

/// Tests a parent process that forks children at any moment of its work, whatever locks its other
/// threads have taken. Each child must exit without a hang and must not harm the store.
#[test]
fn forked_children_of_a_busy_process_neither_hang_nor_do_harm() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::preset("bundled").unwrap();
        options.write_buffer_size = 64 << 10;
        options.durability = DurabilityMode::Background;
        let path = folder.path().join("store");
        let db = Db::open(&path, options.clone()).unwrap();
        let stop = AtomicBool::new(false);
        let written = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut written = 0u32;
                while !stop.load(Relaxed) {
                    db.put(format!("{written:06}"), [7; 500]).unwrap();
                    let _ = (db.get("000000").unwrap(), db.snapshot(), db.statistics());
                    kit::scan(&db, ReadOptions::new().from(format!("{written:06}"))).unwrap();
                    written += 1;
                }
                written
            });
            for _ in 0..60 {
                let mut inherited = Some((db.snapshot(), db.cursor(ReadOptions::new()), db.clone()));
                let _ = inherited.as_mut().unwrap().1.seek_to_first();
                let other = folder.path().join("other");
                fork::start(|| {
                    call_everything(&db, &other);
                    drop(inherited.take());
                })
                .wait();
                thread::sleep(Duration::from_millis(3));
            }
            stop.store(true, Relaxed);
            writer.join().unwrap()
        });
        db.close().unwrap();
        assert_eq!(kit::contents(&Db::open(&path, options).unwrap()).unwrap().len() as u32, written);
    });
}

/// Tests that the lock of a store ends with the process that took it. A forked child that outlives
/// its killed parent does not use the store, so another process must be able to open it.
#[test]
fn a_lock_ends_with_the_process_that_took_it() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        for (name, path, options) in stores(folder.path()) {
            // Each store has its own two signal files, because the orphaned child of the previous
            // store may still be waiting for its file `ended`.
            let [orphan, ended] = ["orphan", "ended"].map(|file| folder.path().join(format!("{name} {file}")));
            let wait_for =
                |file: &Path| (0..4000).any(|_| file.exists() || (thread::sleep(Duration::from_millis(5)), false).1);
            fork::start(|| {
                let db = Db::open(&path, options.clone()).unwrap();
                db.put("a", "b").unwrap();
                fork::start(|| {
                    std::fs::write(&orphan, "").unwrap();
                    wait_for(&ended);
                });
                assert!(wait_for(&orphan));
                std::mem::forget(db); // as a kill does
            })
            .wait();
            let opened = Db::open(&path, options.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(opened.get("a").unwrap().as_deref(), Some(&b"b"[..]), "{name}");
            std::fs::write(&ended, "").unwrap();
            drop(opened);
        }
    });
}

/// Tests the refused open of a store that another process has open. The error must name that
/// process.
#[test]
fn a_refused_open_names_the_holder() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let db = Db::open(&path, Options::default()).unwrap();
        let own = std::process::id();
        let reported = |what: String| match Db::open(&path, Options::default()).map(drop) {
            Err(Error::InUse { detail, .. }) => assert!(detail.contains(&what), "{detail}, not {what}"),
            other => panic!("{other:?}"),
        };
        reported("another handle in this process".into());
        fork::start(|| reported(format!("process {own} holds"))).wait();
        assert_eq!(std::fs::read_to_string(path.join("LOCK")).unwrap(), format!("{own}\n"));
        drop(db);
        assert_eq!(std::fs::read(path.join("LOCK")).unwrap(), b"", "as LevelDB leaves it");
        // A killed writer left its process id in the lock file, and a reader writes none there. The
        // error must not name the writer's id as that of the reader.
        fork::start(|| std::mem::forget(Db::open(&path, Options::default()).unwrap())).wait();
        let _reader = Db::open_read_only(&path, Options::default()).unwrap();
        fork::start(|| reported("another process".into())).wait();
    });
}
