//! Tests of corruption of durable writes in WALs and manifests. (A torn tail, the end of a WAL
//! after a power cut, is no corruption.) An open must fail with an error that names the damaged
//! file. With `recovery=salvage` the open must succeed and lose only the damaged records. No
//! durable write may be lost without a report.
use crate::common::{files, kit};
use files::{Files, holding, leveldb_edit, leveldb_store, put};
use kit::{Pairs, contents};
use std::sync::{Arc, Mutex};
use terrace::{Db, Error, Event, Options, WriteOptions};
use terrace_sim::Medium;

const PUTS: usize = 60;

fn key(number: usize) -> String {
    format!("key{number:04}")
}

fn value(number: usize) -> Vec<u8> {
    // Every fifth value is long enough for the value log.
    vec![number as u8; if number.is_multiple_of(5) { 900 } else { 40 }]
}

fn pairs(numbers: impl Iterator<Item = usize>) -> Pairs {
    numbers.map(|number| (key(number).into_bytes(), value(number))).collect()
}

/// The options for the three forms of a WAL: one file, a segment with a sidecar, a segment alone.
const FORMS: [&[(&str, &str)]; 3] =
    [&[], &[("values", "log")], &[("values", "log"), ("wal_sidecar", "false"), ("value_log_threshold", "0")]];

fn options(form: &[(&str, &str)]) -> Options {
    kit::in_files(&[form, &[("write_buffer_size", "4MiB"), ("durability", "sync")]].concat())
}

/// Makes a store with `PUTS` synced puts in its WAL and then `unsynced` puts without a sync. If
/// `closed` is set, the store is closed, otherwise killed.
fn store(options: &Options, unsynced: usize, closed: bool) -> Files {
    let fs = kit::anywhere();
    let db = kit::open(&fs, options, true).expect("open");
    for number in 0..PUTS + unsynced {
        let how = WriteOptions { sync: number < PUTS, ..WriteOptions::default() };
        db.put_with(key(number), value(number), how).expect("put");
    }
    if closed {
        db.close().expect("close");
    } else {
        drop(db);
    }
    files::files(&*fs)
}

/// Returns the names of the files that contain writes.
fn logs(files: &Files) -> Vec<String> {
    files.keys().filter(|name| name.ends_with("log")).cloned().collect()
}

/// Opens `files`. Returns the result, and the damage that was reported as events.
fn open(files: &Files, options: &Options) -> (terrace::Result<Db>, Vec<String>) {
    let recorded = Arc::new(Mutex::new(Vec::new()));
    let into = recorded.clone();
    let options = options.clone().listener(Arc::new(move |event: &Event| {
        if let Event::Damaged { damage } = event {
            into.lock().unwrap().push(damage.file.clone());
        }
    }));
    let db = kit::open(&holding(kit::anywhere(), files), &options, true);
    let recorded = recorded.lock().unwrap().clone();
    (db, recorded)
}

/// Returns copies of the files. In each copy, one byte of one file is flipped; its file and offset
/// are returned too.
fn flipped(files: &Files) -> impl Iterator<Item = (String, usize, Files)> {
    // Each store on a device takes far more time than in a directory.
    let stride = if matches!(kit::medium(), Medium::Directory(_)) { 7 } else { kit::stride(43, 7) };
    let offsets = move |name: &String| (0..files[name].len()).step_by(stride);
    let places = logs(files).into_iter().flat_map(move |name| offsets(&name).map(move |at| (name.clone(), at)));
    places.map(|(name, at)| {
        let mut damaged = files.clone();
        damaged.get_mut(&name).expect("it is there")[at] ^= 1 << (at % 8);
        (name, at, damaged)
    })
}

#[test]
fn a_flipped_byte_in_durable_writes_is_never_silent() {
    for form in FORMS {
        let options = options(form);
        let intact = store(&options, 0, true);
        let (mut refused, mut tried) = (0, 0);
        for (name, at, damaged) in flipped(&intact) {
            tried += 1;
            match open(&damaged, &options).0 {
                Ok(db) => {
                    let found = contents(&db).expect("scan");
                    assert!(found == pairs(0..PUTS), "SILENT: {} pairs, {name} at {at}, {form:?}", found.len());
                }
                Err(Error::Corrupt { object, detail, .. }) => {
                    refused += 1;
                    assert!(object.contains("log"), "{object}");
                    assert!(detail.contains("recovery=salvage"), "{detail}");
                }
                Err(other) => panic!("{name} at {at}: {other}"),
            }
        }
        println!("{form:?}: {refused} of {tried} refused");
        assert!(refused > tried / 2, "{form:?}: {refused} of {tried}");
    }
}

#[test]
fn salvage_loses_only_the_damaged_record() {
    for form in FORMS {
        let refusing = options(form);
        let mut salvaging = refusing.clone();
        salvaging.set("recovery", "salvage").expect("an option");
        let intact = store(&refusing, 0, true);
        let (mut states, mut lost, mut most) = (0, 0, 0);
        for (name, at, damaged) in flipped(&intact) {
            let (db, recorded) = open(&damaged, &salvaging);
            let db = db.unwrap_or_else(|error| panic!("{name} at {at}: {error}"));
            let found = contents(&db).expect("scan");
            let all = pairs(0..PUTS);
            assert!(found.iter().all(|pair| all.contains(pair)), "{name} at {at}: a pair that was never put");
            let missing = PUTS - found.len();
            if missing > 0 {
                assert!(!recorded.is_empty() && db.statistics().lost_files > 0, "SILENT: {name} at {at}, {form:?}");
            }
            if missing > 2 {
                println!("{name} at {at}: {missing} lost");
            }
            (states, lost, most) = (states + 1, lost + missing, most.max(missing));
            db.put("another", "write").expect("it can be written");
        }
        println!("{form:?}: {lost} pairs lost in {states} states, {most} at most");
        // If the length of a record is damaged, all records up to the next durable mark are lost.
        assert!(most <= 2, "{form:?}: {most} pairs lost at once");
    }
}

/// Tests damage in unsynced writes, which a power cut may lose. It must end the history and must
/// not be an error. All durable writes must stay.
#[test]
fn a_torn_tail_is_dropped_and_durable_writes_stay() {
    for form in FORMS {
        let options = options(form);
        let intact = store(&options, 10, false);
        let mut torn = 0;
        for name in logs(&intact) {
            for cut in (1..400).step_by(13) {
                let mut damaged = intact.clone();
                let bytes = damaged.get_mut(&name).expect("it is there");
                bytes.truncate(bytes.len().saturating_sub(cut));
                if let Ok(db) = open(&damaged, &options).0 {
                    let found = contents(&db).expect("scan");
                    assert!(found == pairs(0..found.len()), "{name} cut by {cut}: {} pairs", found.len());
                    torn += usize::from(found.len() >= PUTS && found.len() < PUTS + 10);
                }
            }
        }
        assert!(torn > 0, "{form:?}");
    }
}

/// Tests a WAL that is empty although a later WAL records that all its writes were durable. This
/// must be reported as corruption.
#[test]
fn an_emptied_wal_between_others_is_corruption() {
    let options = kit::in_files(&[("write_buffer_size", "64KiB"), ("durability", "sync")]);
    let fs = kit::anywhere();
    let db = kit::open(&fs, &options, true).expect("open");
    for number in 0..3u8 {
        // Each put fills a memtable, and no flush runs.
        db.put_with([number], vec![number; 70 << 10], WriteOptions::synced()).expect("put");
        if number < 2 && db.statistics().sealed_memtables > 0 {
            break;
        }
    }
    db.put_with("last", "write", WriteOptions::synced()).expect("put");
    drop(db);
    let mut damaged = files::files(&*fs);
    let logs = logs(&damaged);
    assert!(logs.len() >= 2, "{logs:?}");
    damaged.get_mut(&logs[0]).expect("it is there").truncate(19);
    let error = open(&damaged, &options).0.map(drop).expect_err("durable writes are lost");
    assert!(matches!(&error, Error::Corrupt { what: "log", .. }), "{error}");
}

/// Tests that a bad record before the last record of a manifest is reported as corruption. Every
/// record was synced before the next one was appended, so this cannot be a torn tail.
#[test]
fn a_bad_record_within_a_manifest_is_corruption() {
    let options = kit::in_files(&[("durability", "sync")]);
    let fs = kit::anywhere();
    let db = kit::open(&fs, &options, false).expect("open");
    for number in 0..4u8 {
        db.put([number], "value").expect("put");
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    }
    db.close().expect("close");
    let intact = files::files(&*fs);
    let name = files::manifest_of(&intact);
    let (mut refused, tried) = (0, intact[&name].len());
    for at in 0..tried {
        let mut damaged = intact.clone();
        damaged.get_mut(&name).expect("it is there")[at] ^= 0x20;
        match open(&damaged, &options).0 {
            Ok(db) => assert_eq!(contents(&db).expect("scan").len(), 4, "SILENT at {at}"),
            Err(Error::Corrupt { .. } | Error::Missing { .. } | Error::Invalid(_) | Error::Unsupported(_)) => {
                refused += 1
            }
            Err(other) => panic!("at {at}: {other}"),
        }
    }
    assert!(refused > tried * 9 / 10, "{refused} of {tried}");
}

/// Tests damaged WALs of LevelDB, which have no durable marks. They must be replayed by LevelDB's
/// rules, and records that are skipped must be reported.
#[test]
fn a_hole_in_a_leveldb_wal_is_reported() {
    let records: Vec<_> = (1..=3000u64).map(|n| put(n, &format!("{n:05}"), "value")).collect();
    let mut files = leveldb_store(&leveldb_edit(), &records);
    let log = files.get_mut("000003.log").expect("it has one");
    log[40_000] ^= 1;
    let (db, recorded) = open(&files, &kit::plain(&[]));
    let db = db.expect("LevelDB opens it");
    let found = contents(&db).expect("scan").len();
    assert!((2000..3000).contains(&found), "{found}");
    assert!(recorded.iter().any(|file| file.contains("000003.log")), "{recorded:?}");
    assert_eq!((db.statistics().torn_wals, db.statistics().lost_files), (1, 1));
}
