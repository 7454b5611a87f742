//! Tests the creation of a store in a directory that is not empty. Files left by an interrupted
//! creation or removal must do no harm. A store that has lost its root file (`CURRENT`) must not
//! be overwritten.
use crate::common::kit;
use kit::{files_below, open};
use std::{collections::BTreeSet, fs, path::Path, sync::Arc};
use terrace::{Db, Error, Options, WriteOptions};
use terrace_sim::{CrashFs, Rules};
use terrace_storage::backends::files::fs::FileSystem;

/// Options for stores of different layouts. Only the first layout has no format file.
const VARIANTS: &[&[(&str, &str)]] = &[
    &[],
    &[("values", "log"), ("value_log_threshold", "0")],
    &[("tables", "bundled")],
    &[("range_tombstones", "on")],
    &[("compression", "lz4")],
    &[("compaction_style", "universal")],
];

/// Asserts that a store can be created on `fs` with `options`, and that a write is still there
/// after a reopen.
fn is_usable(fs: &Arc<dyn FileSystem>, options: &Options, what: &str) {
    for opening in 0..2 {
        let db = open(fs, options, true).unwrap_or_else(|e| panic!("{what}: STUCK at opening {opening}: {e}"));
        if opening == 0 {
            db.put_with("key", "value", WriteOptions::synced()).unwrap();
        }
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]), "{what}: opening {opening}");
    }
}

/// Tests that an interrupted creation does not harm the next one. A creation writes the format
/// file before the root (`CURRENT`). Fixed bug: if it was interrupted between the two, the next
/// store in the directory used the leftover format file, and later lost acknowledged writes.
#[test]
fn an_interrupted_creation_does_not_hinder_the_next_one() {
    for first in VARIANTS {
        let disk = CrashFs::new(Rules::Ext4);
        let fs: Arc<dyn FileSystem> = Arc::new(disk.clone());
        drop(open(&fs, &kit::plain(first), true).unwrap());
        for cut in 0..=disk.steps() {
            for second in VARIANTS.iter().filter(|second| *second != first) {
                let fs = disk.power_loss(cut, cut as u64).file_system();
                if fs.open("CURRENT").is_err() {
                    is_usable(&fs, &kit::plain(second), &format!("{first:?} cut at {cut}, then {second:?}"));
                }
            }
        }
    }
}

/// Tests the creation of a store where an interrupted removal has left only the format file. (A
/// removal deletes the format file after `CURRENT`.)
#[test]
fn an_interrupted_removal_does_not_hinder_the_next_store() {
    let presets = ["leveldb", "default", "delsm", "bolt", "wisckey"];
    for first in presets {
        for second in presets {
            let folder = tempfile::tempdir().unwrap();
            let (made, path) = (folder.path().join("made"), folder.path().join("store"));
            Db::open(&made, Options::preset(first).unwrap()).unwrap().close().unwrap();
            fs::create_dir(&path).unwrap();
            if made.join("TERRACE").exists() {
                fs::copy(made.join("TERRACE"), path.join("TERRACE")).unwrap();
            }
            for _ in 0..2 {
                let db = Db::open(&path, Options::preset(second).unwrap())
                    .unwrap_or_else(|e| panic!("format file of {first}, then {second}: {e}"));
                db.put("key", "value").unwrap();
                db.close().unwrap();
            }
        }
    }
}

/// Tests that a creation does not replace a format file whose contents are unknown.
#[test]
fn an_unknown_format_file_without_a_root_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("TERRACE"), "version = 2\n").unwrap();
    let refused = Db::open(folder.path(), Options::default()).map(drop);
    assert!(matches!(&refused, Err(Error::Unsupported(text)) if text.contains("version")), "{refused:?}");
    assert_eq!(fs::read_to_string(folder.path().join("TERRACE")).unwrap(), "version = 2\n");
}

fn names(path: &Path) -> BTreeSet<String> {
    let names = files_below(path).into_keys().map(|path| path.display().to_string());
    names.filter(|name| !name.ends_with("LOCK")).collect()
}

/// Tests the open of a directory without `CURRENT` and format file, as after an incomplete copy,
/// if a WAL of another layout has the writes. The open must be refused. Fixed bug: it created a
/// new store over these files and removed the old manifest.
#[test]
fn writes_in_a_wal_of_another_kind_are_not_overwritten() {
    for (first, second) in [("wisckey", "leveldb"), ("leveldb", "wisckey"), ("wisckey", "bolt"), ("delsm", "wisckey")] {
        for (written, manifest) in [(true, true), (true, false), (false, true), (false, false)] {
            let what = format!("{first}, then {second}; written {written}, manifest {manifest}");
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("store");
            let db = Db::open(&path, Options::preset(first).unwrap()).unwrap();
            if written {
                db.put("k", "v").unwrap();
            }
            drop(db); // like a kill
            for name in names(&path) {
                let lost = ["CURRENT", "TERRACE"].iter().any(|lost| name.ends_with(lost));
                if lost || !manifest && name.contains("MANIFEST") {
                    fs::remove_file(path.join(name)).unwrap();
                }
            }
            let before = names(&path);
            match Db::open(&path, Options::preset(second).unwrap()) {
                Ok(_) => assert!(!written, "{what}: WRITTEN OVER"),
                Err(Error::Missing { what: "CURRENT file", object }) => {
                    assert!(written && object.contains("00"), "{what}: {object}");
                    assert_eq!(names(&path), before, "{what}");
                }
                Err(other) => panic!("{what}: {other}"),
            }
        }
    }
}

/// Tests a directory without `CURRENT` and format file in which the WAL is empty and the data is
/// in directory tables. The creation of any store must be refused there. A store of another layout
/// does not search for directory tables, and would not find this data later.
#[test]
fn directory_tables_are_not_overwritten() {
    for second in ["leveldb", "bolt", "wisckey", "delsm"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let db = Db::open(&path, Options::preset("delsm").unwrap()).unwrap();
        db.put("k", "v").unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        ["CURRENT", "TERRACE"].iter().for_each(|lost| fs::remove_file(path.join(lost)).unwrap());
        let before = names(&path);
        match Db::open(&path, Options::preset(second).unwrap()).map(drop) {
            Err(Error::Missing { what: "CURRENT file", object }) => {
                assert!(object.contains("/L"), "{second}: {object}");
                assert_eq!(names(&path), before, "{second}");
            }
            other => panic!("{second}: WRITTEN OVER, {other:?}"),
        }
        let fresh = folder.path().join("fresh");
        let report = Db::repair(&path, &fresh, &Options::preset(second).unwrap()).unwrap();
        assert_eq!((report.tables, report.pairs), (1, 1), "{second}: {report:?}");
    }
}
