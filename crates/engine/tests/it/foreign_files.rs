//! Tests of foreign objects under the file names of a store: links that point out of the
//! directory, FIFOs, devices, directories, huge files. The store must not follow such a link, must
//! not wait for a FIFO, and must not read a huge file whole. Other tests rename the directory of
//! an open store, or let its path lead to another directory.
use crate::common::{alone::in_own_process, kit};
use nix::{sys::stat::Mode, unistd::mkfifo};
use std::{
    env, fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    sync::mpsc::channel,
    thread,
    time::Duration,
};
use terrace::{Db, DurabilityMode, Error, Options, ReadOptions, TableForm, Values, WriteOptions};
use terrace_storage::backends::raw::split;

const FORMS: [(TableForm, Values); 4] = [
    (TableForm::Block, Values::Table),
    (TableForm::Bundled, Values::Table),
    (TableForm::Block, Values::Log),
    (TableForm::Directory, Values::Table),
];

fn options((tables, values): (TableForm, Values)) -> Options {
    let mut options = Options::default();
    (options.tables, options.values) = (Some(tables), Some(values));
    (options.write_buffer_size, options.durability) = (64 << 10, DurabilityMode::Sync);
    options
}

/// Makes a store that has files of all kinds.
fn fill(path: &Path, options: &Options) {
    let db = Db::open(path, options.clone()).unwrap();
    (0..300).for_each(|n| db.put(format!("{n:04}"), vec![n as u8; 500]).unwrap());
    db.compact_range(None, None).unwrap();
    db.wait_idle().unwrap(); // no obsolete file is left
    (300..400).for_each(|n| db.put(format!("{n:04}"), vec![n as u8; 500]).unwrap());
    db.put_with("last", "", WriteOptions::synced()).unwrap();
}

/// Returns the result of `work`. The test fails if `work` does not end within ten seconds.
fn within_ten_seconds<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (answer, answered) = channel();
    thread::spawn(move || answer.send(work()));
    answered.recv_timeout(Duration::from_secs(10)).unwrap_or_else(|_| panic!("{what}: it hangs"))
}

/// Opens the store, reads it and closes it, then opens it read-only, then destroys it. Returns the
/// results of the three steps.
fn open_read_destroy(what: &str, path: &Path, options: &Options) -> [terrace::Result<()>; 3] {
    let (path, options) = (path.to_owned(), options.clone());
    within_ten_seconds(what, move || {
        let writes = Db::open(&path, options.clone()).and_then(|db| {
            kit::scan(&db, ReadOptions::new())?;
            db.put_with("more", "", WriteOptions::synced())?;
            db.close()
        });
        let reads = Db::open_read_only(&path, options).and_then(|db| kit::scan(&db, ReadOptions::new()).map(drop));
        [writes, reads, Db::destroy(&path)]
    })
}

fn files(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn no_foreign_object_is_followed_or_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    for form in FORMS {
        let options = options(form);
        let whole = folder.path().join("whole");
        fill(&whole, &options);
        let others = ["RESERVE", "UNSYNCED", "TERRACE", "DATA", "LOCK", "000000.dbtmp", "000999.dbtmp"];
        let mut names = files(&whole);
        names.extend(
            others.iter().map(|name| name.to_string()).filter(|name| !names.contains(name)).collect::<Vec<_>>(),
        );
        for name in names {
            for kind in ["link", "FIFO"] {
                let what = format!("{form:?}, {name} is a {kind}");
                let path = folder.path().join("store");
                copy(&whole, &path);
                let there = path.join(&name);
                let own = fs::read(&there).ok();
                let _ = fs::remove_file(&there).or_else(|_| fs::remove_dir_all(&there));
                fs::write(&precious, own.as_deref().unwrap_or(b"precious")).unwrap();
                match kind {
                    "link" => symlink(&precious, &there).unwrap(),
                    _ => mkfifo(&there, Mode::S_IRUSR | Mode::S_IWUSR).unwrap(),
                }
                let [writes, reads, _] = open_read_destroy(&what, &path, &options);
                // An object with one of these names does no harm: a store never reads it, or
                // replaces it.
                let known = ["RESERVE", "DATA", "LOG", "LOG.old"].contains(&name.as_str()) || name.ends_with(".dbtmp");
                for outcome in [&writes, &reads].into_iter().take(if name == "UNSYNCED" { 1 } else { 2 }) {
                    assert!(known || outcome.is_err(), "{what}: {outcome:?}");
                    // If the object takes the place of a level's directory, that directory's
                    // contents are missing.
                    let is_level = form.0 == TableForm::Directory && name.starts_with('L');
                    let named = |error: &Error| is_level || error.to_string().contains(name.as_str());
                    assert!(outcome.as_ref().err().is_none_or(named), "{what}: {outcome:?}");
                }
                assert_eq!(fs::read(&precious).unwrap(), own.unwrap_or(b"precious".into()), "{what}");
                fs::remove_dir_all(&path).unwrap_or_default();
            }
        }
        fs::remove_dir_all(&whole).unwrap();
    }
}

/// Copies a directory with its subdirectories.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target)
        } else {
            drop(fs::copy(entry.path(), target))
        }
    }
}

#[test]
fn a_reserve_is_not_taken_from_another_file() {
    let folder = tempfile::tempdir().unwrap();
    for link in [|from: &Path, to: &Path| symlink(from, to), |from: &Path, to: &Path| fs::hard_link(from, to)] {
        let (precious, path) = (folder.path().join("precious"), folder.path().join("store"));
        fs::write(&precious, "precious").unwrap();
        fs::create_dir(&path).unwrap();
        link(&precious, &path.join("RESERVE")).unwrap();
        let mut options = Options::default();
        options.reserve_bytes = 4096;
        let error = Db::open(&path, options).map(drop).unwrap_err();
        assert!(error.to_string().contains("RESERVE"), "{error}");
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        fs::remove_dir_all(&path).unwrap();
    }
}

/// Tests that the copies of WALs that recovery makes stay within the store's directory. If that is
/// impossible, recovery must make no copy.
#[test]
fn copies_set_aside_stay_in_the_directory() {
    let folder = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (folder.path().join("store"), folder.path().join("elsewhere"));
    let options = options(FORMS[0]);
    fill(&path, &options);
    let log = files(&path).into_iter().rfind(|name| name.ends_with(".log")).unwrap();
    let mut bytes = fs::read(path.join(&log)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path.join(&log), bytes).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    symlink(&elsewhere, path.join("lost")).unwrap();
    let opened = Db::open(&path, options).map(drop);
    assert!(files(&elsewhere).is_empty(), "{opened:?}");
}

#[test]
fn a_fake_device_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let (path, device) = (folder.path().join("store"), folder.path().join("device"));
    kit::device_file(&device, 32 << 20);
    split::join(&path, &device).unwrap();
    fs::remove_file(&device).unwrap();
    mkfifo(&device, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let mut options = options(FORMS[0]);
    options.split = true;
    for outcome in open_read_destroy("the device is a FIFO", &path, &options) {
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("device"), "{error}");
    }
}

/// Tests sparse files, which take no disk space. A store that read such a file whole would need
/// all memory, so it must refuse the file unread.
#[test]
fn huge_files_are_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["CURRENT", "TERRACE", "DATA"] {
        let path = folder.path().join(name);
        fill(&path, &options(FORMS[1]));
        // This size is larger than the memory of any machine.
        fs::File::create(path.join(name)).unwrap().set_len(1 << 40).unwrap();
        let [writes, reads, _] = open_read_destroy(name, &path, &options(FORMS[1]));
        for error in [writes.unwrap_err(), reads.unwrap_err()] {
            assert!(matches!(&error, Error::Corrupt { object, .. } if object.ends_with(name)), "{error}");
        }
    }
}

/// Tests a hole of 200 GiB at the end of a WAL or manifest. The store must not read the hole, and
/// must have the same contents as without the hole.
#[test]
fn a_huge_hole_at_the_end_of_a_log_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    for form in FORMS {
        let options = options(form);
        let path = folder.path().join("store");
        fill(&path, &options);
        let wanted = kit::contents(&Db::open_read_only(&path, options.clone()).unwrap()).unwrap();
        let is_log = |name: &String| {
            name.starts_with("MANIFEST") || [".log", ".slog", ".vlog"].iter().any(|end| name.ends_with(end))
        };
        for name in files(&path).into_iter().filter(is_log) {
            let file = fs::File::options().write(true).open(path.join(&name)).unwrap();
            file.set_len(file.metadata().unwrap().len() + (200 << 30)).unwrap();
        }
        let (path, options) = (path.clone(), options.clone());
        let found = within_ten_seconds(&format!("{form:?}"), move || {
            let read = kit::contents(&Db::open_read_only(&path, options.clone()).unwrap()).unwrap();
            let db = Db::open(&path, options).unwrap();
            let pairs = kit::contents(&db).unwrap();
            db.close().unwrap();
            Db::destroy(&path).unwrap();
            [read, pairs]
        });
        assert!(found.iter().all(|pairs| *pairs == wanted), "{form:?}: {} pairs of {}", found[0].len(), wanted.len());
    }
}

/// Tests a process that changes its working directory, as daemons do. Then the directory of its
/// open store is renamed, and another store takes its old path. The open store must keep using its
/// own directory.
#[test]
fn a_store_follows_its_renamed_directory() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        for form in FORMS {
            env::set_current_dir(folder.path()).unwrap();
            fs::create_dir_all("above").unwrap();
            let options = options(form);
            let db = Db::open("above/store", options.clone()).unwrap();
            let put = |db: &Db, numbers: std::ops::Range<u32>| {
                numbers.for_each(|n| db.put(format!("{n:05}"), [7; 300]).unwrap());
                db.flush().unwrap();
            };
            put(&db, 0..1000);
            env::set_current_dir("/").unwrap();
            put(&db, 1000..2000);
            assert_eq!(kit::contents(&db).unwrap().len(), 2000);
            let at = |path: &str| folder.path().join(path);
            fs::rename(at("above"), at("moved")).unwrap();
            let other = Db::open(at("above/store"), options.clone()).unwrap();
            put(&db, 2000..3000);
            put(&other, 0..10);
            db.compact_range(None, None).unwrap();
            assert_eq!((kit::contents(&db).unwrap().len(), kit::contents(&other).unwrap().len()), (3000, 10));
            let copied = at("copied");
            db.checkpoint(&copied).unwrap();
            [db, other].into_iter().for_each(|db| db.close().unwrap());
            for (path, count) in [("moved/store", 3000), ("above/store", 10), ("copied", 3000)] {
                let db = Db::open(at(path), options.clone()).unwrap();
                assert_eq!(kit::contents(&db).unwrap().len(), count, "{form:?}, {path}");
                drop(db);
                Db::destroy(at(path)).unwrap();
            }
            ["moved", "above"].iter().for_each(|name| fs::remove_dir_all(at(name)).unwrap_or_default());
        }
    });
}

#[test]
fn a_store_at_a_symbolic_link_is_used_and_destroyed() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link): (PathBuf, PathBuf) = (folder.path().join("real"), folder.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    fill(&link, &options(FORMS[0]));
    assert!(real.join("CURRENT").exists());
    Db::destroy(&link).unwrap();
    assert_eq!((files(&real).len(), fs::symlink_metadata(&link).unwrap().is_symlink()), (0, true));
    assert!(fs::metadata(&real).unwrap().ino() > 0);
}

/// Tests a lock file that is removed or replaced while a store is open, so that it does not
/// exclude other writers any more. The first sync after that must fail, because another process
/// may open the store and drop the writes that this sync would make durable.
#[test]
fn a_removed_lock_stops_writes() {
    let folder = tempfile::tempdir().unwrap();
    for form in FORMS {
        for replaced in [false, true] {
            let path = folder.path().join("store");
            let db = Db::open(&path, options(form)).unwrap();
            db.put_with("a", "1", WriteOptions::synced()).unwrap();
            fs::remove_file(path.join("LOCK")).unwrap();
            if replaced {
                let second = Db::open(&path, options(form)).expect("nothing keeps it out");
                assert_eq!(second.get("a").unwrap().as_deref(), Some(&b"1"[..]));
                second.put_with("b", "2", WriteOptions::synced()).unwrap();
                second.close().unwrap();
            }
            let error = db.put_with("c", "3", WriteOptions::synced()).unwrap_err();
            assert!(error.to_string().contains("LOCK"), "{error}");
            assert!(matches!(db.put("d", "4"), Err(Error::FailStopped(_))), "writes go on");
            assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]), "reads do not");
            assert!(db.close().is_err());
            let third = Db::open(&path, options(form)).unwrap();
            assert_eq!(third.get("b").unwrap().is_some(), replaced, "{form:?}");
            drop(third);
            Db::destroy(&path).unwrap();
        }
    }
}

/// Tests a removed lock file of a store that makes no sync. The store must check the lock file
/// when it writes the manifest, before it removes any file that another writer may need.
#[test]
fn a_removed_lock_is_detected_before_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    for durability_mode in [DurabilityMode::Sync, DurabilityMode::None] {
        let path = folder.path().join(durability_mode.name());
        let mut options = options(FORMS[0]);
        options.durability = durability_mode;
        let db = Db::open(&path, options).unwrap();
        (0..300).for_each(|n| db.put(format!("{n:04}"), [7; 500]).unwrap());
        db.compact_range(None, None).unwrap();
        db.wait_idle().unwrap();
        let before: Vec<String> = files(&path).into_iter().filter(|name| name.ends_with(".ldb")).collect();
        fs::remove_file(path.join("LOCK")).unwrap();
        (0..300).for_each(|n| drop(db.put(format!("{n:04}"), [8; 500])));
        assert!(db.compact_range(None, None).is_err() || db.wait_idle().is_err(), "{durability_mode:?}");
        assert!(before.iter().all(|name| path.join(name).exists()), "{durability_mode:?}");
        drop(db);
    }
}
