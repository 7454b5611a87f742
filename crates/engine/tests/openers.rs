//! Several openers of one directory: one writer or many readers, who is kept out and how he is told, and that reading
//! changes nothing, on a read-only file system neither (that test needs root, to mount one).
#[path = "common/kit.rs"]
mod kit;

use kit::{Place, TIGHT, contents, options};
use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};
use terrace::{Db, Error, ReadOptions, WriteBatch, WriteOptions};
use terrace_peers::require;

fn filled() -> (Place, PathBuf) {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, options(TIGHT)).unwrap();
    (0..400).for_each(|n| db.put(format!("{n:04}"), vec![n as u8; 300]).unwrap());
    drop(db); // not closed: readers find a log to replay
    (place, path)
}

fn is_in_use(opened: terrace::Result<Db>) -> bool {
    matches!(&opened.map(drop), Err(Error::InUse { detail, .. }) if !detail.is_empty())
}

#[test]
fn one_writer_or_many_readers() {
    let (_place, path) = filled();
    let writer = Db::open(&path, options(TIGHT)).unwrap();
    assert!(is_in_use(Db::open(&path, options(TIGHT))), "a second writer");
    assert!(is_in_use(Db::open_read_only(&path, options(TIGHT))), "a reader beside a writer");
    assert!(matches!(Db::destroy(&path), Err(Error::InUse { .. })));
    let scan = writer.scan(ReadOptions::new());
    writer.close().unwrap();
    assert!(is_in_use(Db::open(&path, options(TIGHT))), "a scan of the closed store still reads its files");
    assert_eq!(scan.count(), 400);
    let readers = [(); 2].map(|()| Db::open_read_only(&path, options(TIGHT)).unwrap());
    assert!(is_in_use(Db::open(&path, options(TIGHT))), "a writer beside readers");
    readers.iter().for_each(|reader| assert_eq!(contents(reader).unwrap().len(), 400));
    drop(readers);
    Db::open(&path, options(TIGHT)).unwrap().close().unwrap();
}

/// A child that is being started shares its parent's descriptors until it runs its program; the lock must not wait for
/// that. A user sees it as a reopen that is refused now and then, because something else in his process starts children.
#[test]
fn a_closed_store_is_free_even_while_the_process_starts_children() {
    let (_place, path) = filled();
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
            let db = Db::open(&path, options(TIGHT)).unwrap_or_else(|e| panic!("opening {n}: {e}"));
            if n % 2 == 0 { db.close().unwrap() } else { drop(db) }
        }
    });
}

/// Ends the scope's other threads also when a test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Everything that a reader may and may not do; the directory must not change by a byte.
fn read_everything(path: &Path) {
    let before = kit::files_below(path);
    let db = Db::open_read_only(path, options(TIGHT)).unwrap();
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
    assert!(kit::files_below(path) == before, "reading changed the directory");
}

#[test]
fn a_reader_changes_nothing() {
    let (_place, path) = filled();
    read_everything(&path);
    std::fs::remove_file(path.join("LOCK")).unwrap();
    read_everything(&path);
}

/// A directory mounted read-only elsewhere; unmounted when dropped.
struct Mounted(tempfile::TempDir);

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
        let _ = Command::new("umount").arg(self.0.path()).output(); // not mounted, if mounting is what failed
    }
}

#[test]
fn a_read_only_file_system_is_enough_for_readers() {
    let (_place, path) = filled();
    let Some(mounted) = require("root", Mounted::read_only(&path)) else { return };
    let at = mounted.0.path();
    assert_eq!(std::fs::write(at.join("probe"), "").unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
    read_everything(at);
    let text = Db::open(at, options(TIGHT)).map(drop).expect_err("nobody can write here").to_string();
    assert!(text.contains("LOCK") || text.contains(at.to_str().unwrap()), "{text}");
}
