//! Tests of SSTables whose checksums are correct but which are damaged in another way: keys are
//! out of order, another table is in the place of a table, or a file has a wrong length. A read
//! that needs such a table must fail, and its error must name the table. All other reads must
//! succeed, and writes must continue. `check` and `repair` must report the damage.
use crate::common::{corrupt_entries, files, kit};
use corrupt_entries::FORMS;
use files::{Writer, framed, manifest_of, records};
use kit::{Model, Pairs};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};
use terrace::{Db, Error, Event, Options, ReadOptions, WriteOptions, check};
use terrace_format::{Edit, key::TRAILER_BYTES};

const PAIRS: usize = 60;

fn key(number: usize) -> Vec<u8> {
    format!("m{number:04}").into_bytes()
}

/// Returns the expected pairs of the tests' store. Values have `value_bytes` bytes.
fn model(value_bytes: usize) -> Model {
    (0..PAIRS)
        .map(|number| (key(number), number.to_string().into_bytes().repeat(value_bytes)[..value_bytes].to_vec()))
        .collect()
}

/// Returns the pairs that a scan returns up to its end or its error, and the error.
fn scanned(db: &Db, back: bool) -> (Pairs, Option<Error>) {
    let (mut pairs, options) = (Pairs::new(), ReadOptions::new().verify_checksums(true));
    let scan = if back { db.scan_reverse(options) } else { db.scan(options) };
    for pair in scan {
        match pair {
            Ok(pair) => pairs.push(pair),
            Err(error) => return (pairs, Some(error)),
        }
        assert!(pairs.len() <= 10 * PAIRS, "the scan does not end");
    }
    (pairs, None)
}

/// Repairs the store at `store`. Returns the salvaged pairs and the reported losses.
fn repaired(store: &Path, options: &Options) -> (Model, Vec<String>) {
    let to = tempfile::tempdir().unwrap();
    let report = Db::repair(store, to.path().join("new"), options).unwrap();
    let db = Db::open(to.path().join("new"), options.clone()).unwrap();
    let lost = report.lost.iter().map(|lost| format!("{}: {}", lost.file, lost.reason)).collect();
    (kit::contents(&db).unwrap().into_iter().collect(), lost)
}

fn problems(store: &Path, options: &Options) -> Vec<String> {
    check(store, options, true).map_or_else(|error| vec![error.to_string()], |report| report.problems)
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

type Change = fn(&mut corrupt_entries::Entry, Option<&corrupt_entries::Entry>);

/// Ways to change the key of an entry that keep the key's length.
const CHANGES: &[(&str, Change)] = &[
    ("a key after all others", |entry, _| entry.key[0] = b'z'),
    ("a key before all others", |entry, _| entry.key[0] = b'a'),
    ("the key before it", |entry, before| {
        if let Some(before) = before {
            entry.key.clone_from(&before.key);
        } else {
            entry.key[0] = b'z';
        }
    }),
    ("an empty user key", |entry, _| {
        let user: Vec<u8> = entry.key.drain(..entry.key.len() - TRAILER_BYTES).collect();
        entry.value.extend(user);
    }),
    ("a key shorter than its trailer", |entry, _| {
        let rest = entry.key.split_off(4);
        entry.value.extend(rest);
    }),
    ("an unknown kind", |entry, _| {
        let at = entry.key.len() - TRAILER_BYTES;
        entry.key[at] = 7;
    }),
];

/// Tests that a key out of order makes a scan fail, and that a repair loses only this one entry.
/// Fixed bugs: such a scan ended early without an error, and a repair lost all later entries or
/// failed.
#[test]
fn a_key_out_of_order_is_a_scan_error_and_costs_a_repair_one_entry() {
    for (form, chosen) in FORMS {
        for value_bytes in [20, 5000] {
            let (options, all) = (corrupt_entries::options(chosen), model(value_bytes));
            let intact = corrupt_entries::store(chosen, &all);
            for (what, change) in CHANGES {
                for at in [0, 1, PAIRS / 2, PAIRS - 1] {
                    let name = format!("{form}, values of {value_bytes}, {what} in place of entry {at}");
                    let place = tempfile::tempdir().unwrap();
                    let store = place.path().join("store");
                    corrupt_entries::copy(&intact.path().join("store"), &store);
                    let file = file_name(&corrupt_entries::change(&store, &key(at), change));
                    judge_order(&name, &store, &options, &all, at, &file);
                }
            }
        }
    }
}

fn judge_order(name: &str, store: &Path, options: &Options, all: &Model, at: usize, file: &str) {
    let db = Db::open_read_only(store, options.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
    for back in [false, true] {
        let (pairs, error) = scanned(&db, back);
        assert!(
            pairs.iter().all(|(key, value)| all.get(key) == Some(value)) || error.is_some(),
            "{name}: a wrong pair"
        );
        let error = error.unwrap_or_else(|| panic!("{name}: backward {back}: {} pairs and no error", pairs.len()));
        // In a directory table the name of a value's file is derived from the key.
        let named = match &error {
            Error::Corrupt { object, .. } => object.contains(file) || object.contains("/L"),
            Error::Missing { object, .. } => object.contains("/L"),
            _ => false,
        };
        assert!(named, "{name}: {error}");
    }
    drop(db);
    assert!(!problems(store, options).is_empty(), "{name}: check finds nothing");
    let (left, lost) = repaired(store, options);
    assert!(lost.iter().any(|lost| lost.contains(file) || lost.contains("L")), "{name}: {lost:?}");
    let wrong: Vec<_> = left.iter().filter(|(key, value)| all.get(*key) != Some(value)).map(|(key, _)| key).collect();
    let gone: Vec<_> = all.keys().filter(|key| !left.contains_key(*key)).collect();
    // A damaged key that is still in key order cannot be detected.
    let plausible = |wrong: &&Vec<u8>| at == 0 && **wrong < key(1) || at == PAIRS - 1 && **wrong > key(PAIRS - 2);
    assert!(wrong.iter().all(plausible), "{name}: wrong {wrong:?}, {lost:?}");
    let (lost_key, before) = (key(at), key(at.saturating_sub(1)));
    assert!(gone.iter().all(|gone| **gone == lost_key || **gone == before), "{name}: lost {gone:?}: {lost:?}");
}

/// Makes a store of three tables, one for each first letter that keys have. Returns its directory
/// and its pairs.
fn letters(chosen: &[(&str, &str)]) -> (tempfile::TempDir, Model) {
    let (folder, mut all) = (tempfile::tempdir().unwrap(), Model::new());
    let mut options = corrupt_entries::options(chosen);
    options.value_log_gc = terrace::GcMode::Off;
    let db = Db::open(folder.path().join("store"), options).unwrap();
    for letter in ["a", "b", "c"] {
        for number in 0..50 {
            let (key, value) = (format!("{letter}{number:03}").into_bytes(), b"value".repeat(10));
            db.put(&key, &value).unwrap();
            all.insert(key, value);
        }
        db.compact_range(Some(letter.as_bytes()), Some(format!("{letter}~").as_bytes())).unwrap();
    }
    db.close().unwrap();
    (folder, all)
}

/// Returns the file of the table that has `key`, and the byte range of the table in the file.
fn table_with(store: &Path, key: &[u8]) -> (PathBuf, std::ops::Range<usize>) {
    let holds = |(path, range): &(PathBuf, std::ops::Range<usize>)| {
        fs::read(path).unwrap()[range.clone()].windows(key.len()).any(|bytes| bytes == key)
    };
    corrupt_entries::tables(store).into_iter().find(holds).unwrap()
}

/// Tests a store in which two table files were exchanged. Reads of these tables must fail, and a
/// repair must report the loss. Fixed bug: the reads returned "not found", and a repair reported
/// no loss.
#[test]
fn an_exchanged_table_is_an_error_and_a_reported_loss() {
    for (form, chosen) in FORMS {
        let (folder, all) = letters(chosen);
        let (store, options) = (folder.path().join("store"), corrupt_entries::options(chosen));
        let [(a, in_a), (b, in_b)] = [b"a007", b"b007"].map(|key| table_with(&store, key));
        let (bytes_a, mut bytes_b) = (fs::read(&a).unwrap(), fs::read(&b).unwrap());
        assert_eq!(in_a.len(), in_b.len(), "{form}: they are of one length");
        bytes_b[in_b].copy_from_slice(&bytes_a[in_a]);
        fs::write(&b, bytes_b).unwrap();
        let db = Db::open_read_only(&store, options.clone()).unwrap();
        for (key, value) in &all {
            match db.get(key) {
                Ok(found) => assert!(key[0] != b'b' && found.as_ref() == Some(value), "{form}: {}", key.escape_ascii()),
                Err(error) => {
                    assert!(key[0] == b'b' && matches!(error, Error::Corrupt { .. }), "{form}: {error}");
                    let text = error.to_string();
                    assert!(text.contains("its first key is a000, the manifest says b000"), "{form}: {text}");
                }
            }
        }
        assert!(scanned(&db, false).1.is_some() && scanned(&db, true).1.is_some(), "{form}");
        drop(db);
        assert!(problems(&store, &options).iter().any(|problem| problem.contains("b000")), "{form}");
        let (left, lost) = repaired(&store, &options);
        assert!(left.keys().all(|key| all.contains_key(key)) && left.len() >= 100, "{form}: {}", left.len());
        let reported = |lost: &String| lost.contains("another table") || lost.contains("missing pair");
        assert!(lost.iter().any(reported), "{form}: {lost:?}");
    }
}

type Lengthen = fn(&mut Vec<u8>);

/// Ways to change the length of a file.
const LENGTHS: &[(&str, Lengthen)] = &[
    ("empty", |bytes| bytes.clear()),
    ("cut", |bytes| bytes.truncate(bytes.len() / 2)),
    ("with trailing zeros", |bytes| bytes.extend([0; 4096])),
];

/// Tests that a table file of a wrong length does not prevent the open. Fixed bug: the open of the
/// whole store was refused.
#[test]
fn a_table_of_a_wrong_length_does_not_prevent_the_open() {
    for (form, chosen) in FORMS {
        for (length, change) in LENGTHS {
            let name = format!("{form}, {length}");
            let (folder, all) = letters(chosen);
            let (store, options) = (folder.path().join("store"), corrupt_entries::options(chosen));
            let (file, range) = table_with(&store, b"b007");
            let mut bytes = fs::read(&file).unwrap();
            let others_in_file = range.len() + 200 < bytes.len();
            change(&mut bytes);
            fs::write(&file, bytes).unwrap();
            let reported = problems(&store, &options);
            assert!(!reported.is_empty(), "{name}: check finds nothing");
            let db = Db::open_read_only(&store, options.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
            served(&name, &db, &all, others_in_file);
            drop(db);
            let db = Db::open(&store, options.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
            served(&name, &db, &all, others_in_file);
            db.put("b007", "new").unwrap();
            db.put("d", "new").unwrap();
            db.flush().unwrap();
            let merged = db.compact_range(Some(b"b000"), Some(b"b999"));
            assert!(
                merged.is_err() || *length == "with trailing zeros",
                "{name}: it was merged with what cannot be read"
            );
            db.put("e", "new").unwrap();
            db.flush().unwrap();
            assert_eq!(db.get("b007").unwrap().as_deref(), Some(&b"new"[..]), "{name}");
            db.close().unwrap();
            let db = Db::open(&store, options.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(db.get("e").unwrap().as_deref(), Some(&b"new"[..]), "{name}");
            drop(db);
            let (left, lost) = repaired(&store, &options);
            let missing = all.keys().filter(|key| !left.contains_key(*key)).count();
            assert!(missing <= 50 || others_in_file, "{name}: {missing} are lost");
            assert!(missing == 0 || !lost.is_empty(), "{name}: {missing} are lost, and nothing is said");
            assert!(missing == 0 || *length != "with trailing zeros", "{name}: {missing} are lost, {lost:?}");
        }
    }
}

/// Asserts that reads which do not need the damaged file succeed, and that reads which need it
/// return the right result or an error.
fn served(name: &str, db: &Db, all: &Model, others_in_file: bool) {
    for (key, value) in all {
        match db.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{name}: {}", key.escape_ascii()),
            Err(error) => {
                assert!(key[0] == b'b' || others_in_file, "{name}: {}: {error}", key.escape_ascii());
                assert!(matches!(error, Error::Corrupt { .. } | Error::Missing { .. }), "{name}: {error}");
            }
        }
    }
    for back in [false, true] {
        let (pairs, error) = scanned(db, back);
        let right = pairs.iter().all(|(key, value)| all.get(key) == Some(value));
        assert!(right && (error.is_some() || pairs.len() == all.len()), "{name}: {} pairs, {error:?}", pairs.len());
    }
}

/// Tests that a compaction which reads damaged data is not retried endlessly, and that writes
/// continue in the meantime. Because of the damage, compactions cannot shrink level 0. When level
/// 0 is full, a write that waits for it must fail with the compaction's error instead of waiting
/// for ever.
#[test]
fn a_compaction_over_damage_reports_once_and_stops_writes_only_at_a_full_level_0() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let failures = Arc::new(Mutex::new(Vec::new()));
    let recorded = failures.clone();
    let tight = corrupt_entries::options(
        &[
            &[
                ("level0_file_num_compaction_trigger", "2"),
                ("level0_slowdown_writes_trigger", "4"),
                ("level0_stop_writes_trigger", "5"),
            ],
            kit::TIGHT,
        ]
        .concat(),
    );
    let mut tight = tight;
    (tight.level0_slowdown_writes_trigger, tight.level0_stop_writes_trigger) = (4, 5);
    let listening = tight.clone().listener(Arc::new(move |event: &Event| {
        if let Event::CompactionFailed { error, .. } = event {
            recorded.lock().unwrap().push(error.to_string());
        }
    }));
    let db = Db::open(&store, tight.clone()).unwrap();
    (0..50).for_each(|number| db.put(key(number), "old").unwrap());
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let (file, _) = table_with(&store, &key(7));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();

    let db = Db::open(&store, listening).unwrap();
    let (mut stopped, mut after_failure) = (None, 0);
    for round in 0..400 {
        let value = "new".repeat(10_000);
        let put = db.put(key(round % 50), value).and_then(|()| db.put(key(0), "first"));
        if let Err(error) = put {
            stopped = Some(error);
            break;
        }
        after_failure += usize::from(!failures.lock().unwrap().is_empty());
    }
    let error = stopped.expect("level 0 has an end").to_string();
    assert!(error.contains(&file_name(&file)) && after_failure >= 3, "{after_failure} rounds: {error}");
    assert_eq!(db.get(key(0)).unwrap().as_deref(), Some(&b"first"[..]), "reads go on");
    thread::sleep(Duration::from_millis(300));
    let failures = failures.lock().unwrap().clone();
    assert!((1..=3).contains(&failures.len()), "{failures:?}");
}

/// Tests that scans end if the manifest has a wrong key bound of a table. Fixed bug: a backward
/// scan then returned the same pairs endlessly.
#[test]
fn a_wrong_bound_in_the_manifest_ends_scans() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut options = corrupt_entries::options(&[]);
    options.range_tombstones = true;
    let db = Db::open(&store, options.clone()).unwrap();
    (0..100).for_each(|number| db.put(format!("k{number:02}"), "v").unwrap());
    db.flush().unwrap();
    db.delete_range("k10", "k95", WriteOptions::default()).unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    for bound in ["k05", "k50", "k09"] {
        let files = kit::files_below(&store).into_iter().map(|(path, bytes)| (file_name(&path), bytes)).collect();
        let manifest = store.join(manifest_of(&files));
        let whole = fs::read(&manifest).unwrap();
        let changed: Vec<Vec<u8>> = records(&whole).iter().map(|record| with_bound(record, bound)).collect();
        assert_ne!(changed, records(&whole));
        fs::write(&manifest, framed(Writer::Ours, &changed)).unwrap();
        let db = Db::open_read_only(&store, options.clone()).unwrap();
        for back in [false, true] {
            let (_, error) = scanned(&db, back);
            assert!(matches!(error, Some(Error::Corrupt { .. })), "{bound}, backward {back}: {error:?}");
        }
        drop(db);
        fs::write(&manifest, whole).unwrap();
    }
}

/// Returns the edit in `record` with `bound` in place of each largest key `k99`.
fn with_bound(record: &[u8], bound: &str) -> Vec<u8> {
    let mut edit = Edit::decode(record).unwrap();
    for (_, added) in &mut edit.added {
        if added.largest.starts_with(b"k99") {
            added.largest[..3].copy_from_slice(bound.as_bytes());
        }
    }
    edit.encode()
}

/// Tests a store whose current manifest is damaged and in which an intact older manifest names all
/// tables. A repair must use the older manifest. Fixed bug: the repair ignored it and read every
/// file, so deleted pairs returned.
#[test]
fn a_repair_prefers_an_older_manifest_to_every_file() {
    let (folder, all) = letters(&[]);
    let (store, options) = (folder.path().join("store"), corrupt_entries::options(&[]));
    // A table that was live earlier. It has pairs that were deleted later.
    let leftover = {
        let (other, _) = letters(&[]);
        let other = other.path().join("store");
        let db = Db::open(&other, options.clone()).unwrap();
        (0..50).for_each(|number| db.put(format!("x{number}"), "deleted since").unwrap());
        db.flush().unwrap();
        db.close().unwrap();
        fs::read(table_with(&other, b"x33").0).unwrap()
    };
    let db = Db::open(&store, options.clone()).unwrap();
    (0..100).for_each(|number| db.put(format!("y{number}"), "moves sequences on").unwrap());
    db.flush().unwrap();
    db.close().unwrap();
    fs::write(store.join("000001.ldb"), leftover).unwrap();
    let newer = store.join("MANIFEST-000900");
    for (damage, bytes) in [("empty", Vec::new()), ("torn", vec![7; 100])] {
        fs::write(&newer, bytes).unwrap();
        fs::write(store.join("CURRENT"), "MANIFEST-000900\n").unwrap();
        let (left, lost) = repaired(&store, &options);
        assert!(left.keys().all(|key| key[0] != b'x'), "{damage}: deleted pairs are back");
        assert_eq!(left.len(), all.len() + 100, "{damage}");
        assert!(lost.iter().any(|lost| lost.contains("which is intact, is used")), "{damage}: {lost:?}");
    }
}
