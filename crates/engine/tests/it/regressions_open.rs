//! Tests of fixed bugs in the open of a store. Each comment describes the former wrong behaviour.
//! `regressions.rs` has the fixed bugs in running stores.
use crate::common::{files, history};
use files::{
    Files, Writer, bytes_of, directory, files, framed, leveldb_edit, leveldb_store, manifest_of, newest_log, put,
    records, undecodable,
};
use history::{Model, Tracker, contents, storage};
use std::{collections::BTreeSet, path::Path, sync::Arc};
use terrace::{Db, DurabilityMode, Error, Options, SortedTableWriter, WriteOptions, check, check_on};
use terrace_format::{Edit, SeqNo, batch, log_record::HEADER_BYTES};
use terrace_sim::{CrashFs, Rules};
use terrace_storage::{Location, backends::files::fs::FileSystem, placement::OpenMode};

fn small() -> Options {
    let mut options = Options::default();
    options.write_buffer_size = 64 << 10;
    options
}

fn paranoid() -> Options {
    let mut options = small();
    options.paranoid_checks = true;
    options
}

fn open(fs: &Arc<dyn FileSystem>, tracker: Tracker, options: &Options) -> terrace::Result<Db> {
    Db::open_manual(storage(fs, tracker.make(0), options)?, options.clone())
}

/// Makes a store, runs `work` on it, and kills it. Returns the files that it leaves.
fn files_after(work: impl FnOnce(&Db)) -> Files {
    let fs = directory(&Files::new());
    let db = open(&fs, Tracker::Sync, &small()).unwrap();
    work(&db);
    drop(db);
    files(&*fs)
}

fn model(pairs: &[(&str, &str)]) -> Model {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

/// Opens `files`. Asserts that the store has the contents `wanted`, both now and after a kill.
/// Returns the directory of the store.
#[track_caller]
fn holds(files: &Files, wanted: &Model) -> Arc<dyn FileSystem> {
    let fs = directory(files);
    for opening in ["first", "second"] {
        let db = open(&fs, Tracker::Sync, &small()).unwrap_or_else(|e| panic!("{opening} opening: {e}"));
        assert_eq!(contents(&db).as_ref(), Ok(wanted), "{opening} opening");
    }
    fs
}

/// Asserts that an open of `files` is refused, and that the open changes no file. Returns the
/// error.
#[track_caller]
fn refused(files: &Files, options: &Options) -> Error {
    let fs = directory(files);
    let error = open(&fs, Tracker::Sync, options).err().expect("the open is refused");
    assert_eq!(files::files(&*fs), *files, "a refused open ({error}) changed something");
    error
}

/// Fixed bug: the open treated a bad record in any manifest as a torn tail. It ignored all later
/// edits and removed their tables as orphans. But LevelDB syncs each edit, so a bad record in
/// LevelDB's manifest is corruption, and the open must be refused.
#[test]
fn a_leveldb_manifest_with_a_bad_record_is_refused_and_nothing_is_removed() {
    let mut files = files_after(|db| {
        for (key, value) in [("a", "1"), ("b", "2")] {
            db.put(key, value).unwrap();
            db.flush().unwrap();
            db.wait_idle().unwrap();
        }
    });
    let name = manifest_of(&files);
    let edits: Vec<_> = records(&files[&name]).into_iter().filter(|edit| !edit.is_empty()).collect();
    assert!(edits.len() >= 3, "a snapshot and two flushes, and marks between them");
    let manifest = framed(Writer::LevelDb, &edits);
    files.insert(name.clone(), manifest.clone());
    holds(&files, &model(&[("a", "1"), ("b", "2")]));
    for record in 0..edits.len() {
        let mut damaged = manifest.clone();
        damaged[framed(Writer::LevelDb, &edits[..record]).len() + HEADER_BYTES] ^= 1;
        files.insert(name.clone(), damaged);
        let error = refused(&files, &small());
        assert!(matches!(error, Error::Corrupt { what: "manifest", .. }), "record {record}: {error}");
    }
}

/// Fixed bug: Terrace misread the `last_sequence` of a manifest to which LevelDB had appended,
/// which LevelDB does with the option `reuse_logs`. In LevelDB's records it is the newest sequence
/// number that was assigned; in Terrace's it is the newest sequence number in tables. Terrace
/// therefore treated entries of the WAL as flushed and dropped them.
#[test]
fn records_appended_by_leveldb_are_kept() {
    let mut files = files_after(|db| db.put("a", "1").unwrap());
    let (manifest, (log, number)) = (manifest_of(&files), newest_log(&files));
    let going_on = Edit {
        log_number: Some(number.0),
        prev_log_number: Some(0),
        next_file_number: Some(50),
        last_sequence: Some(SeqNo(2)),
        ..Edit::default()
    };
    for (name, record) in [(log, put(2, "b", "2")), (manifest, going_on.encode())] {
        let mut all = records(&files[&name]);
        assert_eq!(framed(Writer::Ours, &all), files[&name], "{name} is ours");
        all.push(record);
        files.insert(name, framed(Writer::Ours, &all));
    }
    holds(&files, &model(&[("a", "1"), ("b", "2")]));
}

/// Fixed bug: LevelDB appended records to Terrace's WAL after an ingest, and the open dropped all
/// writes after the gap in the sequence numbers. (An ingest takes a sequence number far ahead.) A
/// reader that does not use Terrace's manifest knows sequence numbers only from the WALs, so no
/// gap may be within one WAL.
#[test]
fn records_appended_by_leveldb_after_an_ingest_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("built.ldb");
    let mut table = SortedTableWriter::create(&path, &small()).unwrap();
    table.put("b", "2").unwrap();
    table.finish().unwrap();
    let mut sequence = 0;
    let mut files = files_after(|db| {
        db.put("a", "1").unwrap();
        sequence = db.ingest(&[&path]).unwrap().sequence;
        db.put_with("c", "3", WriteOptions::synced()).unwrap();
    });
    holds(&files, &model(&[("a", "1"), ("b", "2"), ("c", "3")]));
    let (manifest, (log, number)) = (manifest_of(&files), newest_log(&files));
    let head = batch::head(SeqNo(sequence + 1)).to_vec();
    let mark = batch::durable_mark(SeqNo(sequence + 2)).to_vec();
    assert_eq!(records(&files[&log]), [head, put(sequence + 1, "c", "3"), mark], "a log of its own");
    let going_on = Edit {
        log_number: Some(number.0),
        prev_log_number: Some(0),
        next_file_number: Some(50),
        last_sequence: Some(SeqNo(sequence + 2)),
        ..Edit::default()
    };
    for (name, record) in [(log, put(sequence + 2, "d", "4")), (manifest, going_on.encode())] {
        let mut all = records(&files[&name]);
        all.push(record);
        files.insert(name, framed(Writer::Ours, &all));
    }
    holds(&files, &model(&[("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]));
}

/// Fixed bug: the store assigned and acknowledged the last possible sequence number. After that,
/// every open was refused.
#[test]
fn a_store_without_sequences_refuses_writes_and_still_opens() {
    let edit = Edit { last_sequence: Some(SeqNo(SeqNo::MAX.0 - 2)), ..leveldb_edit() };
    let fs = directory(&leveldb_store(&edit, &[]));
    let db = open(&fs, Tracker::Sync, &small()).unwrap();
    db.put_with("a", "1", WriteOptions::synced()).unwrap();
    let error = db.put("b", "2").expect_err("none is left");
    assert!(matches!(&error, Error::Unsupported(text) if text.contains("used up")), "{error}");
    drop(db);
    holds(&files(&*fs), &model(&[("a", "1")]));
}

/// Fixed bug: the open in mode `sync` treated the tables of an earlier session in mode `none` as
/// durable, although that mode syncs nothing. Later promises depended on these tables, and a power
/// cut removed them. Now the open syncs these tables first.
#[test]
fn a_session_in_mode_sync_first_syncs_tables_of_mode_none() {
    for rules in [Rules::Ext4, Rules::Posix] {
        let recorder = CrashFs::new(rules);
        let fs: Arc<dyn FileSystem> = Arc::new(recorder.clone());
        let db = open(&fs, Tracker::Never, &small()).unwrap();
        let mut wanted = Model::new();
        for number in 0..300u32 {
            db.put(number.to_be_bytes(), vec![7; 1000]).unwrap();
            wanted.insert(number.to_be_bytes().to_vec(), vec![7; 1000]);
        }
        assert!(db.layout().iter().any(|level| !level.tables.is_empty()), "there are tables to lose");
        db.close().unwrap();

        let db = open(&fs, Tracker::Sync, &small()).unwrap();
        assert_eq!(db.durable_sequence(), 300);
        let opened = (recorder.steps(), wanted.clone());
        db.put_with("synced", "write", WriteOptions::synced()).unwrap();
        wanted.insert(b"synced".to_vec(), b"write".to_vec());
        let written = (recorder.steps(), wanted);
        for ((step, wanted), seed) in [&opened, &written].into_iter().flat_map(|at| (0..64).map(move |s| (at, s))) {
            let image = recorder.power_loss(*step, seed);
            let db = open(&image.file_system(), Tracker::Sync, &small());
            let db = db.unwrap_or_else(|e| panic!("{rules:?} step {step} seed {seed}: cannot open: {e}"));
            assert!(contents(&db).as_ref() == Ok(wanted), "{rules:?} step {step} seed {seed}: something is lost");
        }
    }
}

fn names(path: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Tests the file `UNSYNCED`, which records that the store was used in mode `none` and that its
/// tables may be unsynced. A later open in a mode that promises durability must sync the tables
/// and remove the file only after that. The file must have no other effect.
#[test]
fn the_file_unsynced_exists_from_mode_none_to_mode_sync() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let is_there = || names(&path).contains("UNSYNCED");
    let mut none = small();
    none.durability = DurabilityMode::None;

    let db = Db::open(&path, none.clone()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    assert!(is_there(), "during the session");
    db.close().unwrap();
    assert!(is_there(), "after it");

    let report = check(&path, &small(), true).unwrap();
    assert_eq!((report.problems, report.tables), (vec![], 1));
    let location = Location::Directory(path.clone());
    let storage = terrace_storage::open(&location, OpenMode::ReadOnly, DurabilityMode::Sync, &small().setup()).unwrap();
    let listed = storage.list().unwrap();
    assert_eq!(
        listed.len(),
        names(&path).len() - ["CURRENT", "LOCK", "LOG", "RESERVE", "UNSYNCED"].len(),
        "{listed:?}"
    );
    drop(storage);
    assert!(is_there(), "after a check and a list");

    let db = Db::open(&path, small()).unwrap();
    assert!(!is_there(), "its tables are synced");
    db.close().unwrap();
    assert!(!is_there());

    Db::open(&path, none).unwrap().close().unwrap();
    assert!(is_there());
    Db::destroy(&path).unwrap();
    assert!(!path.exists(), "destroy leaves {:?}", names(&path));
}

/// Fixed bug: when an open replaced a WAL, the torn tail of the WAL was lost without a report. A
/// torn tail may in fact be a damaged length field with many records after it. Therefore the open
/// now keeps an unchanged copy of the WAL. (If the writes were synced, this is corruption: see
/// `wal_corruption.rs`.)
#[test]
fn a_torn_wal_tail_is_set_aside() {
    let files = files_after(|db| (0..20u8).for_each(|key| db.put([key], "value").unwrap()));
    let (name, _) = newest_log(&files);
    let whole = &files[&name];
    let all = records(whole);
    let mut length_damaged = whole.clone();
    // Changes the high byte of the length of the third put.
    length_damaged[framed(Writer::Ours, &all[..3]).len() + 5] ^= 0x40;
    let mut cut_short = whole.clone();
    cut_short.pop();
    for (log, left) in [(length_damaged, 2), (cut_short, 19)] {
        let mut files = files.clone();
        files.insert(name.clone(), log.clone());
        let error = refused(&files, &paranoid());
        assert!(matches!(error, Error::Corrupt { what: "log", .. }), "{error}");
        let fs = holds(&files, &(0..left).map(|key| (vec![key], b"value".to_vec())).collect());
        assert_eq!(bytes_of(&*fs, &format!("lost/{name}")), log, "as it was");
    }
}

/// Fixed bug: sequence numbers and file numbers near their maximum, in a manifest with correct
/// checksums, overflowed. The result was a panic, or a store that could not be opened again.
#[test]
fn impossible_numbers_in_a_manifest_are_refused() {
    holds(&leveldb_store(&leveldb_edit(), &[put(1, "a", "1")]), &model(&[("a", "1")]));
    for edit in [
        Edit { next_file_number: Some(u64::MAX), ..leveldb_edit() },
        Edit { next_file_number: Some((1 << 62) + 1), ..leveldb_edit() },
        Edit { log_number: Some(u64::MAX), ..leveldb_edit() },
        Edit { last_sequence: Some(SeqNo::MAX), ..leveldb_edit() },
    ] {
        let error = refused(&leveldb_store(&edit, &[put(1, "a", "1")]), &small());
        let reported = matches!(&error, Error::Corrupt { what: "manifest", detail, .. } if detail.contains("number"));
        assert!(reported, "{edit:?}: {error}");
    }
}

/// Tests a directory with a file whose name contains a file number near the maximum. The open must
/// be refused, because the next file number would have to be larger.
#[test]
fn impossible_file_numbers_are_refused_by_name() {
    let store = leveldb_store(&leveldb_edit(), &[put(1, "a", "1")]);
    let nothing = Files::from([("LOCK".into(), Vec::new())]);
    for number in [u64::MAX, (1 << 62) + 1] {
        let names = [format!("{number}.ldb"), format!("{number}.log"), format!("{number}.dbtmp")];
        for name in names.into_iter().chain([format!("MANIFEST-{number}")]) {
            for mut files in [store.clone(), nothing.clone()] {
                files.insert(name.clone(), Vec::new());
                let error = refused(&files, &small());
                let reported = matches!(&error, Error::Unsupported(text) if text.contains(&number.to_string()));
                assert!(reported, "{name}: {error}");
            }
        }
    }
}

/// Fixed bug: a WAL record with a correct checksum that is not a batch prevented the open. Now the
/// open treats such a record as any other bad record. In a WAL of Terrace, the history ends before
/// the record. In a WAL of LevelDB, the history continues after it. In both cases the open keeps a
/// copy of the WAL in `lost/`.
#[test]
fn an_undecodable_batch_counts_as_a_bad_record() {
    let mut ours = files_after(|db| db.put("a", "1").unwrap());
    let (name, _) = newest_log(&ours);
    let head = batch::head(SeqNo(1)).to_vec();
    assert_eq!(records(&ours[&name]), [head.clone(), put(1, "a", "1")]);
    ours.insert(name, framed(Writer::Ours, &[head, put(1, "a", "1"), undecodable(2), put(2, "b", "2")]));
    let leveldbs = leveldb_store(&leveldb_edit(), &[put(1, "a", "1"), undecodable(2), put(3, "b", "2")]);
    for (files, wanted) in [(ours, model(&[("a", "1")])), (leveldbs, model(&[("a", "1"), ("b", "2")]))] {
        let error = refused(&files, &paranoid());
        assert!(matches!(error, Error::Corrupt { what: "log", .. }), "{error}");
        let (name, _) = newest_log(&files);
        let fs = holds(&files, &wanted);
        assert_eq!(bytes_of(&*fs, &format!("lost/{name}")), files[&name], "as it was");
    }
}

/// Fixed bug: if a LevelDB WAL had the same key and sequence number twice, the memtable accepted
/// both entries. The keys of a table must ascend strictly, so the flush could not write the table,
/// and the open failed.
#[test]
fn a_duplicate_sequence_in_a_leveldb_wal_opens() {
    let log = [put(1, "a", "1"), put(2, "twice", "first"), put(2, "twice", "second"), put(3, "z", "3")];
    let fs = directory(&leveldb_store(&leveldb_edit(), &log));
    let found = contents(&open(&fs, Tracker::Sync, &small()).unwrap()).unwrap();
    let either = ["first", "second"].map(|value| model(&[("a", "1"), ("twice", value), ("z", "3")]));
    assert!(either.contains(&found), "{found:?}");
    assert_eq!(contents(&open(&fs, Tracker::Sync, &small()).unwrap()), Ok(found), "after reopening");
    let report = check_on(&*storage(&fs, Tracker::Sync.make(0), &small()).unwrap(), &small(), true).unwrap();
    assert_eq!((report.problems, report.entries), (vec![], 3));
}
