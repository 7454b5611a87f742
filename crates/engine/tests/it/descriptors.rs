//! Tests that a store with very many SSTables and WALs needs only few file descriptors. The tests
//! limit the process to `LIMIT` descriptors.
use crate::common::{alone::in_own_process, kit, loop_fs};
use kit::{TIGHT, options};
use loop_fs::LoopFs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use terrace::{Db, SortedTableWriter, TableForm};
use terrace_peers::require;

const LIMIT: u64 = 150;
/// The number of tables and of WALs in each test. It is far above the limit of descriptors.
const MANY: usize = 300;
const FEW_OPEN: &[(&str, &str)] = &[("max_open_files", "16"), ("wal_size_limit", "1GiB")];

/// Sets the limit of descriptors of this process. A child process may raise the limit again.
fn allow(descriptors: u64) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("ask");
    setrlimit(Resource::RLIMIT_NOFILE, descriptors.min(most), most).expect("set");
}

/// Writes many SSTables with two keys each, and returns their paths.
fn tables(folder: &Path) -> Vec<PathBuf> {
    let table = |number: usize| {
        let path = folder.join(format!("{number}.ldb"));
        let mut writer = SortedTableWriter::create(&path, &options(TIGHT)).unwrap();
        ["a", "b"].iter().for_each(|key| writer.put(format!("{number:04}{key}"), [number as u8; 70_000]).unwrap());
        writer.finish().unwrap();
        path
    };
    (0..MANY).map(table).collect()
}

#[test]
fn many_tables_are_ingested() {
    in_own_process(|| {
        allow(LIMIT);
        let folder = tempfile::tempdir().unwrap();
        let paths = tables(folder.path());
        let options = options(&[TIGHT, FEW_OPEN, &[("compression", "none")]].concat());
        for durability_mode in ["sync", "background"] {
            let mut options = options.clone();
            options.set("durability", durability_mode).unwrap();
            let db = Db::open(folder.path().join(durability_mode), options).unwrap();
            let made = db.ingest(&paths).unwrap();
            assert_eq!((made.entries as usize, made.tables as usize), (2 * MANY, 2 * MANY), "{durability_mode}");
            assert!(kit::contents(&db).unwrap().len() == 2 * MANY);
            db.close().unwrap();
        }
    });
}

#[test]
fn links_to_tables_are_ingested() {
    let folder = tempfile::tempdir().unwrap();
    let path = tables(folder.path()).swap_remove(7);
    let link = folder.path().join("link.ldb");
    std::os::unix::fs::symlink(path.file_name().unwrap(), &link).unwrap();
    let db = Db::open(folder.path().join("store"), options(TIGHT)).unwrap();
    assert_eq!(db.ingest(&[&link]).unwrap().entries, 2);
    fs::remove_file(path).unwrap();
    assert!(db.get("0007b").unwrap().is_some());
    assert!(db.ingest(&[&link]).unwrap_err().to_string().contains("link.ldb"), "it leads nowhere now");
}

#[test]
fn many_wals_are_followed() {
    in_own_process(|| {
        allow(LIMIT);
        let folder = tempfile::tempdir().unwrap();
        let db = Db::open(folder.path().join("store"), options(&[TIGHT, FEW_OPEN].concat())).unwrap();
        for number in 0..MANY as u64 {
            db.put(number.to_be_bytes(), "").unwrap();
            db.flush().unwrap();
        }
        let followed: Vec<_> = db.updates_since(0).unwrap().map(|update| update.unwrap().sequence).collect();
        assert!(followed.into_iter().eq(1..=MANY as u64));
        db.close().unwrap();
    });
}

/// Tests that few tables and few WALs keep their file descriptors open, even if tables become
/// durable very late.
#[test]
fn unsynced_tables_need_few_descriptors() {
    in_own_process(|| {
        allow(LIMIT);
        let Some(ext4) = require("loop", LoopFs::with(&[], "defaults")) else { return };
        for (durability_mode, values) in ["background", "group", "journal", "journal-bpf"]
            .into_iter()
            .flat_map(|durability_mode| [(durability_mode, "table"), (durability_mode, "log")])
        {
            let late = [
                ("durability", durability_mode),
                ("values", values),
                ("durability_interval_ms", "60000"),
                ("unsynced_bytes_limit", "1GiB"),
            ];
            let runs = [
                ("level0_file_num_compaction_trigger", "1000"),
                ("level0_slowdown_writes_trigger", "2000"),
                ("level0_stop_writes_trigger", "3000"),
            ];
            let options = kit::in_files(&[TIGHT, FEW_OPEN, &late, &runs].concat());
            let place = ext4.mount.join(format!("{durability_mode}-{values}"));
            let opened = Db::open(&place, options.clone());
            let opened = if durability_mode == "journal-bpf" { require("bpf", opened) } else { Some(opened.unwrap()) };
            let Some(db) = opened else { continue };
            for number in 0..MANY as u64 {
                db.put(number.to_be_bytes(), [7; 1000]).unwrap();
                db.flush()
                    .unwrap_or_else(|error| panic!("{durability_mode}, values in {values}, flush {number}: {error}"));
            }
            db.close().unwrap();
            assert_eq!(
                kit::contents(&Db::open(&place, options).unwrap()).unwrap().len(),
                MANY,
                "{durability_mode}, {values}"
            );
        }
    });
}

/// Tests that a compaction with many output tables passes finished tables to the durability
/// tracker before they take too many descriptors.
#[test]
fn a_compaction_into_many_tables_needs_few_descriptors() {
    in_own_process(|| {
        allow(LIMIT);
        let Some(ext4) = require("loop", LoopFs::with(&[], "defaults")) else { return };
        for durability_mode in ["sync", "background", "group", "journal"].into_iter().step_by(kit::stride(3, 1)) {
            let changes = [
                ("durability", durability_mode),
                ("write_buffer_size", "8MiB"),
                ("compression", "none"),
                ("durability_interval_ms", "60000"),
            ];
            let options = kit::in_files(&[TIGHT, FEW_OPEN, &changes].concat());
            let place = ext4.mount.join(durability_mode);
            let db = Db::open(&place, options.clone()).unwrap();
            for number in (0..MANY as u64).flat_map(|number| [number, MANY as u64 - 1 - number]) {
                db.put(number.to_be_bytes(), [7; 70_000]).unwrap();
            }
            db.compact_range(None, None).unwrap_or_else(|error| panic!("{durability_mode}: {error}"));
            let tables: usize = db.layout().iter().map(|level| level.tables.len()).sum();
            assert!(
                tables > 2 * LIMIT as usize - 10 || options.tables == Some(TableForm::Bundled),
                "{durability_mode}: {tables} tables"
            );
            db.close().unwrap();
            assert_eq!(kit::contents(&Db::open(&place, options).unwrap()).unwrap().len(), MANY, "{durability_mode}");
        }
    });
}

const STORE: &str = "TERRACE_TEST_MANY_FILES";
/// The usual limit of descriptors of a process. The tests exceed it.
const USUAL: u64 = 1024;
const MORE: u64 = 1200;

/// Not a test: the child process of the test `open_files_stay_below_the_process_limit`. It reads
/// all data of many tables and many segments.
#[test]
fn child_that_reads_many_files() {
    let Some(folder) = std::env::var_os(STORE) else { return };
    allow(USUAL);
    for values in ["table", "log"] {
        let changes = [
            ("values", values),
            ("value_log_segment_size", "64KiB"),
            ("compression", "none"),
            ("durability", "none"),
            ("max_open_files", "100000"),
        ];
        let db = Db::open(Path::new(&folder).join(values), kit::in_files(&[TIGHT, &changes].concat())).unwrap();
        for number in 0..MORE {
            db.put(number.to_be_bytes(), [number as u8; 70_000]).unwrap(); // one memtable each
        }
        db.flush().unwrap();
        db.wait_idle().unwrap();
        for number in (0..MORE).chain(0..MORE) {
            assert_eq!(db.get(number.to_be_bytes()).unwrap().unwrap(), [number as u8; 70_000], "{values}");
        }
        db.close().unwrap();
    }
}

/// Tests that a process with a low limit of descriptors opens few files, whatever the option
/// `max_open_files` permits.
#[test]
fn open_files_stay_below_the_process_limit() {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::child_that_reads_many_files", "--nocapture"])
        .env(STORE, folder.path())
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
    assert!(fs::read_dir(folder.path().join("table")).unwrap().count() > USUAL as usize);
    assert!(fs::read_dir(folder.path().join("log")).unwrap().count() > USUAL as usize);
}

/// Tests several stores that share the process's limit of descriptors. The open of a further store
/// must take unused descriptors from the other stores.
#[test]
fn stores_share_the_descriptors_of_a_process() {
    in_own_process(|| {
        let forms = [("block", "table"), ("block", "log"), ("bundled", "table"), ("directory", "table")];
        for (tables, values) in forms.into_iter().step_by(kit::stride(3, 1)) {
            let folder = tempfile::tempdir().unwrap();
            let runs = [
                ("level0_file_num_compaction_trigger", "1000"),
                ("level0_slowdown_writes_trigger", "2000"),
                ("level0_stop_writes_trigger", "3000"),
            ];
            let form = [("tables", tables), ("values", values), ("durability", "sync")];
            let options = kit::in_files(&[TIGHT, &runs, &form].concat());
            let at = |number: usize| folder.path().join(number.to_string());
            allow(u64::MAX);
            for number in 0..4 {
                let db = Db::open(at(number), options.clone()).unwrap();
                for key in 0..100u64 {
                    db.put(key.to_be_bytes(), [7; 1000]).unwrap();
                    db.flush().unwrap();
                }
                db.close().unwrap();
            }
            allow(LIMIT);
            let mut open = Vec::new();
            for number in 0..4 {
                let db = Db::open(at(number), options.clone());
                let db = db.unwrap_or_else(|error| panic!("{tables}, {values}: store {number}: {error}"));
                // Reads all data of this store and of the stores that were opened before.
                open.push(db);
                for (earlier, db) in open.iter().enumerate() {
                    let found = kit::contents(db);
                    assert_eq!(
                        found.unwrap_or_else(|e| panic!("{tables}, {values}: {earlier} of {number}: {e}")).len(),
                        100
                    );
                    (0..100u64).for_each(|key| assert!(db.get(key.to_be_bytes()).unwrap().is_some()));
                }
            }
            let idle = || fs::read_dir("/proc/self/fd").unwrap().count();
            let with = idle();
            assert!(with < LIMIT as usize, "{tables}, {values}: {with}");
            drop(open);
        }
    });
}
