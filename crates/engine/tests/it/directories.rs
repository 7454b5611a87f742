//! Tests of directory tables. A directory table is an SSTable that is stored as a directory with
//! one file for each pair. The tests examine the files, the cost of compactions, damage, and opens
//! by other engines. The suites that run with every table form test that reads return the right
//! results.
use crate::common::{kit, leveldb, loop_fs};
use kit::{Place, contents, names_below};
use leveldb::{Layout, Side, Store};
use loop_fs::{LoopFs, is_root};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace::{Db, Options, ReadOptions, WriteOptions};
use terrace_peers::{leveldb::Library, require};
use terrace_sim::{CrashFs, FaultFs, LimitedNamesFs, NameLimits, Plan, Rules};
use terrace_storage::{Memory, backends::files::fs::FileSystem};

/// Options with directory tables, small memtables and small tables. Files are synced only on
/// request.
fn directory_options(changes: &[(&str, &str)]) -> Options {
    let mut options = Options::preset("delsm").unwrap();
    let small = [("write_buffer_size", "64KiB"), ("target_file_size", "64KiB"), ("durability", "none")];
    small.iter().chain(changes).for_each(|(name, value)| options.set(name, value).unwrap());
    options
}

fn key(number: u32) -> String {
    format!("user{number:05}")
}

/// Writes `keys` pairs in an order in which the key ranges of the tables overlap.
fn fill(db: &Db, keys: u32, bytes: usize) {
    (0..keys).for_each(|n| db.put(key(n * 7919 % keys), vec![n as u8; bytes]).unwrap());
}

/// Returns the files of the pairs, grouped by the directory of their table.
fn pairs(store: &Path) -> BTreeMap<PathBuf, Vec<PathBuf>> {
    let mut found = BTreeMap::<PathBuf, Vec<PathBuf>>::new();
    for path in names_below(store) {
        let folder = path.parent().unwrap().to_path_buf();
        if folder.parent() != Some(store) && folder != store && !path.ends_with("META") {
            found.entry(folder).or_default().push(path);
        }
    }
    found
}

/// Returns the inodes of the files of pairs. All hard links to a file have the same inode.
fn inodes(store: &Path) -> BTreeSet<u64> {
    pairs(store).values().flatten().map(|file| fs::metadata(file).unwrap().ino()).collect()
}

#[test]
fn file_names_are_readable_and_compactions_link() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, directory_options(&[])).unwrap();
    fill(&db, 300, 1000);
    db.flush().unwrap();
    db.close().unwrap();
    let before = inodes(&path);
    let db = Db::open(&path, directory_options(&[])).unwrap();
    assert_eq!(before.len(), 300);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    // This open removes the obsolete files that no background job has removed.
    Db::open(&path, directory_options(&[])).unwrap().close().unwrap();
    assert_eq!(inodes(&path), before, "a compaction makes no file and loses none");
    assert!(
        pairs(&path).values().flatten().all(|file| fs::metadata(file).unwrap().nlink() == 1),
        "the old names are removed"
    );
    let name = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().to_string();
    let names: BTreeSet<String> = pairs(&path).values().flatten().map(name).collect();
    for (number, name) in names.iter().enumerate() {
        assert!(name.starts_with(&format!("{}.", key(number as u32))), "{name}");
    }
    Db::destroy(&path).unwrap();
    assert!(!path.exists(), "destroy left {:?}", names_below(&path));
}

#[test]
fn levels_hold_entries() {
    let db = Place::memory()
        .open(
            &directory_options(&[
                ("max_entries_for_level_base", "100"),
                ("level0_file_num_compaction_trigger", "1000"),
                ("level0_slowdown_writes_trigger", "1000"),
                ("level0_stop_writes_trigger", "1000"),
            ]),
            false,
        )
        .unwrap();
    // 10,000 keys are within the limit of level 2, so the first flush may write its table there
    // directly. Later flushes may not.
    for _ in 0..2 {
        fill(&db, 5000, 200);
        db.flush().unwrap();
        db.wait_idle().unwrap();
    }
    let tables = |level: usize| db.layout()[level].tables.len();
    assert!(tables(0) <= 1 && tables(1) > 0 && tables(2) > 0, "{:?}", [0, 1, 2, 3].map(tables));
    assert_eq!(contents(&db).unwrap().len(), 5000);
}

#[test]
fn leveldb_refuses_and_the_form_is_recorded() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, directory_options(&[])).unwrap();
    db.put("key", "value").unwrap();
    db.close().unwrap();
    for preset in ["leveldb", "default"] {
        let db = Db::open(&path, Options::preset(preset).unwrap()).unwrap();
        db.flush().unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    }
    assert!(names_below(&path).iter().all(|file| file.extension().is_none_or(|end| end != "ldb")));
    let mut other = Options::default();
    other.set("tables", "block").unwrap();
    let refused = Db::open(&path, other).map(drop).unwrap_err().to_string();
    assert!(refused.contains("tables=block") && refused.contains("tables=directory"), "{refused}");
    let Some(_) = require("leveldb", Library::load()) else { return };
    let Err(refusal) = Store::try_open(Side::Theirs, &path, &Layout::default()) else { panic!("LevelDB opened it") };
    assert!(refusal.contains("unknown tag"), "{refusal}");
}

#[test]
fn any_key_gets_a_file() {
    let place = Place::directory();
    let db = Db::open(place.path().unwrap(), directory_options(&[])).unwrap();
    let long = |byte: u8, bytes: usize| vec![byte; bytes];
    let mut keys =
        vec![vec![], b".".to_vec(), b"..".to_vec(), b"a/b".to_vec(), b"META".to_vec(), vec![0], vec![255; 5]];
    keys.extend([b"Case".to_vec(), b"case".to_vec(), "schlüssel".into()]);
    keys.extend([85, 228, 229, 300, 5000].into_iter().flat_map(|bytes| [long(b'k', bytes), long(b'/', bytes)]));
    keys.extend([[long(b'k', 300), b"1".to_vec()].concat(), [long(b'k', 300), b"2".to_vec()].concat()]);
    keys.iter().enumerate().for_each(|(n, key)| db.put(key, n.to_string()).unwrap());
    db.flush().unwrap();
    db.compact_range(None, None).unwrap();
    for (n, key) in keys.iter().enumerate() {
        assert_eq!(db.get(key).unwrap(), Some(n.to_string().into_bytes()), "{}", key.escape_ascii());
    }
    assert_eq!(contents(&db).unwrap().len(), keys.len());
}

#[test]
fn damage_is_reported_and_salvaged() {
    let place = Place::directory();
    let path = place.path().unwrap();
    let db = Db::open(&path, directory_options(&[])).unwrap();
    fill(&db, 100, 500);
    db.flush().unwrap();
    db.close().unwrap();
    let all: Vec<PathBuf> = pairs(&path).into_values().flatten().collect();
    let of = |number: u32| all.iter().find(|file| file.to_str().unwrap().contains(&key(number))).unwrap();
    let mut bytes = fs::read(of(1)).unwrap();
    bytes[7] ^= 1;
    fs::write(of(1), bytes).unwrap();
    fs::remove_file(of(2)).unwrap();
    fs::write(of(3), b"short").unwrap();
    let report = terrace::check(&path, &directory_options(&[]), true).unwrap();
    assert_eq!(report.problems.len(), 1, "the first of a table: {:?}", report.problems);
    let db = Db::open(&path, directory_options(&[])).unwrap();
    for (number, reported) in [(1, "checksum"), (2, "missing"), (3, "bytes")] {
        let error = db.get(key(number)).unwrap_err().to_string();
        assert!(error.contains(reported) && error.contains(&key(number)), "{error}");
    }
    assert!(db.get(key(4)).unwrap().is_some(), "the rest can be read");
    drop(db);
    // If a table has lost its META file, a repair still finds the pairs that the names of its other
    // files state.
    for folder in pairs(&path).keys() {
        fs::remove_file(folder.join("META")).unwrap();
    }
    let to = place.path().unwrap().with_file_name("repaired");
    let report = Db::repair(&path, &to, &directory_options(&[])).unwrap();
    assert_eq!(report.pairs, 97, "{report:?}");
    assert!(report.lost.iter().any(|lost| lost.from == Some(key(1).into_bytes())), "{:?}", report.lost);
    let db = Db::open(&to, directory_options(&[])).unwrap();
    assert_eq!(contents(&db).unwrap().len(), 97);
}

#[test]
fn checkpoints_share_files_across_compactions() {
    let place = Place::directory();
    let (path, copy) = (place.path().unwrap(), place.path().unwrap().with_file_name("copy"));
    let db = Db::open(&path, directory_options(&[])).unwrap();
    fill(&db, 200, 500);
    db.flush().unwrap();
    db.checkpoint(&copy).unwrap();
    assert!(pairs(&copy).values().flatten().all(|file| fs::metadata(file).unwrap().nlink() == 2));
    fill(&db, 200, 10);
    db.compact_range(None, None).unwrap();
    let copied = Db::open(&copy, directory_options(&[])).unwrap();
    assert!(contents(&copied).unwrap().iter().all(|(_, value)| value.len() == 500), "the copy stays as it was");
    let folder = place.path().unwrap().with_file_name("exported");
    fs::create_dir(&folder).unwrap();
    let exported = copied.export(&folder, Default::default()).unwrap();
    let files: Vec<PathBuf> = (1..=exported.len()).map(|n| folder.join(format!("{n:06}.ldb"))).collect();
    db.ingest(&files).unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(contents(&db).unwrap(), contents(&copied).unwrap());
}

/// Tests how many file system calls a read makes. The META files of the tables are cached. A
/// lookup that finds its pair needs three calls: an open, a stat and a read. If the pair's file is
/// still open, the lookup needs only the read. A lookup of an absent key needs no call. A range
/// scan needs the calls for the pairs that it returns. A backward scan also needs the calls for
/// the older versions of these pairs.
#[test]
fn reads_open_what_they_return() {
    let files = FaultFs::new(Arc::new(Memory::new()), Plan::never());
    let fs: Arc<dyn FileSystem> = Arc::new(files.clone());
    let db = kit::open(&fs, &directory_options(&[("max_open_files", "16")]), true).unwrap();
    fill(&db, 1000, 300);
    fill(&db, 500, 200);
    db.flush().unwrap();
    db.wait_idle().unwrap();
    let count = |read: &dyn Fn()| {
        let before = files.calls();
        read();
        files.calls() - before
    };
    let all = count(&|| drop(contents(&db).unwrap()));
    assert!(all >= 2 * 3 * 1000, "{all} calls for everything, twice");
    let get_all = || (0..1000).for_each(|n| assert!(db.get(key(n)).unwrap().is_some()));
    get_all();
    let found = count(&get_all);
    assert_eq!(found, 3 * 1000, "calls for pairs that are there");
    let get = || assert!(db.get(key(7)).unwrap().is_some());
    assert_eq!([count(&get), count(&get)], [3, 1], "calls for one that was read before");
    let missed = count(&|| (0..1000).for_each(|n| assert!(db.get(key(n) + "0").unwrap().is_none())));
    assert_eq!(missed, 0, "calls for pairs that are not");
    let ten = || ReadOptions::new().from(key(480)).to(key(490));
    assert_eq!(count(&|| assert_eq!(db.scan(ten()).count(), 10)), 3 * 10, "a range");
    get_all(); // other files are kept open now
    // A backward scan reaches the oldest version of a key first. To find out whether a version is
    // the newest of its key, the scan must read the entry before it.
    assert_eq!(count(&|| assert_eq!(db.scan_reverse(ten()).count(), 10)), 3 * 2 * (10 + 1), "a range backward");
    println!("3 calls a pair; {all} for all, forward and backward");
}

/// Tests file systems that truncate file names, ignore the case of letters, or refuse some names.
/// A pair whose key leads to such a name must be read as it was written, or its write must be
/// refused.
#[test]
fn any_key_gets_a_file_on_restrictive_file_systems() {
    let narrow = [
        NameLimits { folds_case: true, ..NameLimits::default() },
        NameLimits { folds_case: true, name_bytes_max: 143, links: false, ..NameLimits::default() },
        NameLimits { names_max: 20, ..NameLimits::default() },
        NameLimits { files_max: 1100, ..NameLimits::default() },
    ];
    for narrow in narrow {
        let fs: Arc<dyn FileSystem> = Arc::new(LimitedNamesFs::new(narrow.clone()));
        let db = kit::open(&fs, &directory_options(&[]), true).unwrap();
        let mut keys: Vec<Vec<u8>> =
            ["key", "Key", "kEY", "KEY", "meta", "META"].map(|key| key.as_bytes().to_vec()).to_vec();
        keys.extend((0..200).map(|n| [key(n).into_bytes(), vec![b'A' + (n % 2 * 32) as u8; n as usize]].concat()));
        for (n, key) in keys.iter().enumerate() {
            db.put(key, n.to_string()).unwrap();
            if n % 30 == 29 {
                db.flush().unwrap();
            }
        }
        for _ in 0..2 {
            for (n, key) in keys.iter().enumerate() {
                assert_eq!(
                    db.get(key).unwrap(),
                    Some(n.to_string().into_bytes()),
                    "{narrow:?}: {}",
                    key.escape_ascii()
                );
            }
            db.compact_range(None, None).unwrap();
        }
        drop(db);
        let db = kit::open(&fs, &directory_options(&[]), true).unwrap();
        assert_eq!(contents(&db).unwrap().len(), keys.len(), "{narrow:?}");
    }
    for (narrow, reported) in [
        (NameLimits { refused: "?*", ..NameLimits::default() }, "names with"),
        (NameLimits { name_bytes_max: 40, ..NameLimits::default() }, "40 bytes"),
    ] {
        let fs: Arc<dyn FileSystem> = Arc::new(LimitedNamesFs::new(narrow));
        let refused = kit::open(&fs, &directory_options(&[]), true).map(drop).unwrap_err().to_string();
        assert!(refused.contains("tables=directory is refused") && refused.contains(reported), "{refused}");
        kit::open(&fs, &kit::plain(&[]), true).expect("block tables need no such names, and no file remained");
    }
}

/// Tests that the WAL is synced when its memtable is sealed, even if the files of the pairs become
/// durable much later. A power cut can therefore lose only writes of the active memtable.
#[test]
fn sealed_memtables_are_durable_before_their_pairs() {
    let survivors = |sync_sealed_wals: &str| -> usize {
        let disk = CrashFs::new(Rules::Ext4);
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        let options = directory_options(&[
            ("durability", "background"),
            ("durability_interval_ms", "60000"),
            ("sync_sealed_wals", sync_sealed_wals),
        ]);
        let db = kit::open(&fs, &options, true).unwrap();
        fill(&db, 500, 100);
        db.wait_idle().unwrap(); // the first batch is due immediately
        for n in 500..1000 {
            db.put(key(n), [7; 100]).unwrap();
        }
        db.flush().unwrap();
        let left = |seed| {
            let fs = disk.power_loss(disk.steps(), seed).file_system();
            contents(&kit::open(&fs, &options, true).unwrap()).unwrap().len()
        };
        (0..20).map(left).min().unwrap()
    };
    assert_eq!(survivors("on"), 1000);
    assert!(survivors("off") < 1000, "the control: pairs and log are there without a sync");
}

/// Tests a compaction and a checkpoint of a file that has the maximum number of hard links. They
/// must copy the file instead of adding a link.
#[test]
fn a_file_at_its_link_limit_is_copied() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(disk) = require("loop", LoopFs::new()) else { return };
    let path = disk.mount.join("store");
    let db = Db::open(&path, directory_options(&[])).unwrap();
    fill(&db, 10, 5000);
    db.flush().unwrap();
    let file = pairs(&path).into_values().flatten().next().expect("a pair");
    let names = disk.mount.join("names");
    fs::create_dir(&names).unwrap();
    let full = (0u32..).find_map(|n| fs::hard_link(&file, names.join(n.to_string())).err()).expect("an end of names");
    assert_eq!(full.kind(), std::io::ErrorKind::TooManyLinks, "{full}");
    db.checkpoint(disk.mount.join("copy")).unwrap();
    fill(&db, 5, 100);
    db.compact_range(None, None).unwrap();
    let wanted = contents(&db).unwrap();
    assert_eq!(wanted.len(), 10);
    db.close().unwrap();
    assert_eq!(contents(&Db::open(&path, directory_options(&[])).unwrap()).unwrap(), wanted);
    assert_eq!(contents(&Db::open(disk.mount.join("copy"), directory_options(&[])).unwrap()).unwrap().len(), 10);
    disk.check().unwrap();
}

/// Tests a store with more pairs than the file system has inodes. The last values must then be
/// stored next to their keys. If other files take all inodes, writes must stop with an error that
/// names the reason, and no data may be lost.
#[test]
fn few_inodes_are_enough_and_none_stop_writes() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(disk) = require("loop", LoopFs::with(&["-N", "3000"], "defaults")) else { return };
    let path = disk.mount.join("store");
    let options = directory_options(&[("durability", "background"), ("durability_interval_ms", "0")]);
    let db = Db::open(&path, options.clone()).unwrap();
    let put = |db: &Db, n: u32| {
        db.put_with(key(n), "small", WriteOptions { sync: n.is_multiple_of(100), ..WriteOptions::default() })
    };
    (0..20_000).for_each(|n| put(&db, n).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    let db = Db::open(&path, options.clone()).unwrap();
    assert_eq!(contents(&db).unwrap().len(), 20_000);
    let files = pairs(&path).values().map(Vec::len).sum::<usize>();
    assert!((1000..3000).contains(&files), "{files} pairs have a file");

    let others = disk.mount.join("others");
    fs::create_dir(&others).unwrap();
    let full = (0u32..).find_map(|n| fs::write(others.join(n.to_string()), "").err()).expect("an end of inodes");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull, "{full}");
    let failing = |n: u32| put(&db, n).err().map(|error| (n, error));
    let (written, error) = (20_000..200_000).find_map(failing).expect("no file can be created, and no error came");
    assert!(error.is_no_space() && error.to_string().contains("inode"), "{error}");
    assert!(db.get(key(0)).unwrap().is_some(), "reads go on");
    drop(db);
    fs::remove_dir_all(&others).unwrap();
    let db = Db::open(&path, options).unwrap();
    assert_eq!(contents(&db).unwrap().len() as u32, written);
    db.close().unwrap();
    disk.check().unwrap();
}

/// Tests that a disk full of small tables has enough inodes. Small values are stored next to their
/// keys and need no file of their own, but each table needs files.
#[test]
fn small_pairs_leave_inodes_for_small_tables() {
    let Some(()) = require("root", is_root()) else { return };
    let Some(disk) = require("loop", LoopFs::with(&["-b", "1024", "-N", "16000"], "defaults")) else { return };
    let path = disk.mount.join("store");
    let db = Db::open(&path, directory_options(&[])).unwrap();
    (0..29_000).for_each(|n| db.put(key(n * 7919 % 29_000), [7; 3000]).unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    assert_eq!(contents(&Db::open(&path, directory_options(&[])).unwrap()).unwrap().len(), 29_000);
    let files = inodes(&path).len();
    assert!((12_000..14_000).contains(&files), "{files} pairs have a file");
    disk.check().unwrap();
}

/// Tests that files to which a compaction only makes a hard link do not count as unsynced bytes.
/// The files that the compaction makes obsolete do count, because they stay until the compaction
/// is durable.
#[test]
fn linked_files_do_not_count_as_unsynced() {
    let slow = [("durability", "background"), ("durability_interval_ms", "60000"), ("unsynced_bytes_limit", "1GiB")];
    let options = directory_options(&[&slow[..], &[("max_entries_for_level_base", "30")]].concat());
    let db = Place::memory().open(&options, true).unwrap();
    let mut reported = db.statistics();
    for n in 0..240u32 {
        db.put((n * 7 % 240).to_be_bytes(), [n as u8; 5000]).unwrap();
        while let Some(job) = db.step(0).filter(|job| *job != "commit edits") {
            reported = if job == "compact" { db.statistics() } else { reported };
        }
    }
    let merged: u64 = reported.levels.iter().map(|level| level.compactions.bytes_written).sum();
    assert!(
        merged > 500_000 && reported.shadow_bytes < merged / 10,
        "RETAINED: {} B, {merged} B merged",
        reported.shadow_bytes
    );
}
