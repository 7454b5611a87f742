//! Tests of several opens of one store at the same time, in a directory or on a raw device. A
//! store may be open for one writer or for many readers. The tests check the error of a refused
//! open, and that a reader changes no file. A reader must also work on a read-only file system;
//! that test needs root for a mount.
use crate::common::kit;
use kit::{TIGHT, contents};
use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use tempfile::TempDir;
use terrace::{Db, Error, Options, ReadOptions, WriteBatch, WriteOptions};
use terrace_peers::require;

/// A store that was filled and then dropped without a close, so that readers find a WAL to replay.
struct Filled {
    folder: TempDir,
    path: PathBuf,
    options: Options,
}

impl Filled {
    fn with(options: Options, prepare: impl FnOnce(&Path)) -> Filled {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        prepare(&path);
        let filled = Filled { folder, path, options };
        let db = filled.open().unwrap();
        (0..400).for_each(|n| db.put(format!("{n:04}"), vec![n as u8; 300]).unwrap());
        filled
    }

    /// Makes two filled stores: one in a directory, and one in a file that is used as a raw device.
    fn both() -> [Filled; 2] {
        let in_directory = Filled::with(kit::options(TIGHT), |_| ());
        [in_directory, Filled::with(kit::plain(TIGHT), |path| kit::device_file(path, 32 << 20))]
    }

    fn open(&self) -> terrace::Result<Db> {
        Db::open(&self.path, self.options.clone())
    }

    fn open_read_only(&self) -> terrace::Result<Db> {
        Db::open_read_only(&self.path, self.options.clone())
    }
}

fn is_in_use(opened: terrace::Result<Db>) -> bool {
    matches!(&opened.map(drop), Err(Error::InUse { detail, .. }) if !detail.is_empty())
}

#[test]
fn one_writer_or_many_readers() {
    for store in Filled::both() {
        let writer = store.open().unwrap();
        assert!(is_in_use(store.open()), "a second writer");
        assert!(is_in_use(store.open_read_only()), "a reader during a write session");
        assert!(matches!(Db::destroy(&store.path), Err(Error::InUse { .. })));
        let scan = writer.scan(ReadOptions::new());
        writer.close().unwrap();
        assert!(is_in_use(store.open()), "a scan of the closed store still reads its files");
        assert_eq!(scan.count(), 400);
        let readers = [(); 2].map(|()| store.open_read_only().unwrap());
        assert!(is_in_use(store.open()), "a writer during read sessions");
        readers.iter().for_each(|reader| assert_eq!(contents(reader).unwrap().len(), 400));
        drop(readers);
        store.open().unwrap().close().unwrap();
    }
}

/// Tests that a close releases the lock of the store while another part of the process starts
/// child processes. A child shares the descriptors of its parent until it executes its program, so
/// the lock must not depend on these descriptors. Fixed bug: an open during that time was refused
/// at random.
#[test]
fn a_close_releases_the_lock_while_children_start() {
    for store in Filled::both() {
        reopened_beside_children(&store);
    }
}

fn reopened_beside_children(store: &Filled) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    Command::new("true").status().expect("start a child");
                }
            });
        }
        for n in 0..200 {
            let db = store.open().unwrap_or_else(|e| panic!("{}, opening {n}: {e}", store.path.display()));
            if n % 2 == 0 { db.close().unwrap() } else { drop(db) }
        }
    });
}

/// A drop guard that signals the other threads of the scope to end, even if the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Calls every operation that a reader may call, and then operations that a reader may not call.
/// Asserts that no byte at `path` changes.
fn read_everything(path: &Path, options: &Options) {
    let before = kit::files_below(path);
    let db = Db::open_read_only(path, options.clone()).unwrap();
    assert_eq!(contents(&db).unwrap().len(), 400);
    assert_eq!(db.get("0399").unwrap(), Some(vec![143; 300]));
    assert_eq!(kit::scan(&db, ReadOptions::new().snapshot(&db.snapshot()).prefix("01")).unwrap().len(), 100);
    let refusals = [
        db.put("a", "b"),
        db.delete_with("a", WriteOptions::synced()),
        db.write(WriteBatch::new(), WriteOptions::default()).map(drop),
        db.flush(),
        db.compact_range(None, None),
        db.wait_idle(),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Err(Error::ReadOnly)), "{refusal:?}");
    }
    db.close().unwrap();
    assert!(kit::files_below(path) == before, "reading changed {}", path.display());
}

#[test]
fn a_reader_changes_nothing() {
    let [in_directory, on_device] = Filled::both();
    [&in_directory, &on_device].iter().for_each(|store| read_everything(&store.path, &store.options));
    std::fs::remove_file(in_directory.path.join("LOCK")).unwrap();
    read_everything(&in_directory.path, &in_directory.options);
}

/// A directory that is mounted read-only at another path. When the value is dropped, it is
/// unmounted.
struct Mounted(TempDir);

impl Mounted {
    fn read_only(path: &Path) -> Result<Mounted, String> {
        let mounted = Mounted(tempfile::tempdir().map_err(|e| e.to_string())?);
        let at = mounted.0.path();
        let run = |arguments: &[&str]| match Command::new("mount").args(arguments).arg(at).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(format!("mount {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("mount: {error}")),
        };
        run(&["--bind", path.to_str().ok_or("a path in UTF-8")?])?;
        run(&["-o", "remount,bind,ro"])?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // If the mount failed, `umount` fails too, and its result is ignored.
        let _ = Command::new("umount").arg(self.0.path()).output();
    }
}

#[test]
fn a_reader_opens_on_a_read_only_file_system() {
    for store in Filled::both() {
        let Some(mounted) = require("root", Mounted::read_only(store.folder.path())) else { return };
        let at = mounted.0.path().join("store");
        let refused = std::fs::OpenOptions::new().append(true).create(true).open(mounted.0.path().join("probe"));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        read_everything(&at, &store.options);
        let text = Db::open(&at, store.options.clone()).map(drop).expect_err("no write is possible here").to_string();
        assert!(text.contains("LOCK") || text.contains(at.to_str().unwrap()), "{text}");
    }
}

/// Tests that a closed store can be opened again while other stores are opened and closed. These
/// opens and closes redistribute the file descriptors of the process, which must not keep the
/// closed store locked.
#[test]
fn a_closed_store_can_be_opened_again_while_other_stores_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let stop = AtomicBool::new(false);
    let options = Options::leveldb_compatible();
    thread::scope(|scope| {
        for other in ["b", "c", "d"] {
            let (path, options, stop) = (folder.path().join(other), options.clone(), &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    drop(Db::open(&path, options.clone()).unwrap());
                }
            });
        }
        let reopened = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..if kit::is_full() { 3000 } else { 500 } {
                let db = Db::open(folder.path().join("a"), options.clone());
                let db = db.unwrap_or_else(|error| panic!("round {round}: LOCKED: {error}"));
                db.put("key", [7; 100]).unwrap();
            }
        }));
        stop.store(true, Relaxed);
        reopened.unwrap();
    });
}
