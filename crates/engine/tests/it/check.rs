//! Tests of `check`, which verifies several invariants of a store. Each test violates one
//! invariant and expects that `check` reports it.
use crate::common::{files, kit};
use files::{Files, Writer, framed, holding, manifest_of, records};
use std::sync::Arc;
use terrace::{CheckReport, Options, check_on};
use terrace_format::{Edit, LogId, SeqNo, names::encode_current};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

fn layout() -> Options {
    let mut options = kit::in_files(kit::TIGHT);
    options.level0_file_num_compaction_trigger = 1000;
    options.level_compaction_dynamic_level_bytes = false;
    (options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger) = (1000, 1000);
    options
}

/// Makes a store with three versions of the same keys, in level 2, level 1 and level 0, and a WAL.
fn store() -> Files {
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &layout(), true).unwrap();
    for round in 0..3 {
        for key in 0..50 {
            db.put(format!("key{key:02}"), format!("value {round} of {key}").repeat(20)).unwrap();
        }
        db.flush().unwrap();
        while db.step(0).is_some() {}
    }
    db.put("last", "in the log").unwrap();
    let levels: Vec<usize> = db.layout().iter().map(|level| level.tables.len()).collect();
    assert_eq!(levels[..3], [1, 1, 1]);
    drop(db);
    // Opens the store once more, so that its manifest is a single edit.
    drop(kit::open(&fs, &layout(), true).unwrap());
    files::files(&*fs)
}

/// Returns a copy of `files` whose manifest has only one edit: the original edit after the closure
/// `change` has modified it.
fn with_manifest(files: &Files, change: impl FnOnce(&mut Edit)) -> Files {
    let (mut files, name) = (files.clone(), manifest_of(files));
    let mut edit = Edit::decode(&records(&files[&name])[0]).unwrap();
    change(&mut edit);
    files.insert(name, framed(Writer::Ours, &[edit.encode()]));
    files
}

fn check(files: &Files, options: &Options) -> Result<CheckReport, String> {
    let place =
        kit::storage(&holding(kit::anywhere(), files), OpenMode::ReadOnly, options).map_err(|e| e.to_string())?;
    check_on(&*place, options, true).map_err(|e| e.to_string())
}

/// Runs `check` on the store and returns all problems that it reports, as one text.
#[track_caller]
fn wrong(files: &Files) -> String {
    match check(files, &layout()) {
        Err(error) => error,
        Ok(report) => {
            assert!(!report.problems.is_empty(), "nothing was found");
            report.problems.join("\n")
        }
    }
}

#[track_caller]
fn says(found: String, words: &[&str]) {
    assert!(words.iter().all(|word| found.contains(word)), "{words:?} in: {found}");
}

/// Returns the index of the table in `level` in the edit's list of added tables.
fn at(edit: &Edit, level: usize) -> usize {
    edit.added.iter().position(|(found, _)| *found == level).unwrap()
}

fn table_of(files: &Files, level: usize) -> String {
    let edit = Edit::decode(&records(&files[&manifest_of(files)])[0]).unwrap();
    format!("{}.ldb", edit.added[at(&edit, level)].1.id)
}

#[test]
fn an_intact_store_has_no_problems() {
    let files = store();
    let report = check(&files, &layout()).unwrap();
    assert_eq!((report.problems, report.leftovers, report.torn_wals), (vec![], vec![], vec![]));
    assert!(report.entries >= 150, "{}", report.entries);
    assert!(check(&with_manifest(&files, |_| ()), &layout()).unwrap().problems.is_empty());
}

#[test]
fn order_of_versions() {
    let files = store();
    let swapped = with_manifest(&files, |edit| {
        let (one, two) = (at(edit, 1), at(edit, 2));
        (edit.added[one].0, edit.added[two].0) = (2, 1);
    });
    let found = wrong(&swapped);
    says(found.clone(), &["key 'key00'", "level 1", "is in a newer run than the newer sequence", "level 2", "40 more"]);
    assert_eq!(found.lines().count(), 11, "{found}");
}

#[test]
fn sequences() {
    let files = store();
    let low = with_manifest(&files, |edit| edit.last_sequence = Some(SeqNo(120)));
    says(wrong(&low), &["holds sequence", "above the manifest's base 120"]);
}

#[test]
fn overlapping_and_duplicate_tables() {
    let files = store();
    says(
        wrong(&with_manifest(&files, |edit| {
            let two = at(edit, 2);
            edit.added[two].0 = 1;
        })),
        &["overlap in level 1"],
    );
    says(
        wrong(&with_manifest(&files, |edit| {
            let twice = (3, edit.added[at(edit, 2)].1.clone());
            edit.added.push(twice);
        })),
        &["occurs twice"],
    );
}

#[test]
fn bounds_and_sizes() {
    let files = store();
    says(
        wrong(&with_manifest(&files, |edit| {
            let one = at(edit, 1);
            edit.added[one].1.smallest = b"aaa\x01\x02\0\0\0\0\0\0".to_vec();
        })),
        &["its first key is key00, the manifest says aaa"],
    );
    let name = table_of(&files, 1);
    let mut short = files.clone();
    short.get_mut(&name).unwrap().pop();
    says(wrong(&short), &[&name, "where the manifest says"]);
}

#[test]
fn references() {
    let files = store();
    let name = table_of(&files, 2);
    let mut without = files.clone();
    without.remove(&name);
    says(wrong(&without), &[&name, "of level 2", "missing"]);
    let mut without = files.clone();
    without.retain(|name, _| !name.ends_with(".log"));
    says(wrong(&without), &["missing WAL that the manifest names"]);
    let mut astray = files.clone();
    astray.insert("CURRENT".into(), encode_current(LogId(77)).into_bytes());
    says(wrong(&astray), &["MANIFEST-000077", "missing"]);
    astray.insert("CURRENT".into(), vec![0; 16]);
    says(wrong(&astray), &["CURRENT", "zero bytes"]);
}

#[test]
fn checksums() {
    let files = store();
    for (name, at) in [(table_of(&files, 2), 40), (manifest_of(&files), 30)] {
        let mut damaged = files.clone();
        damaged.get_mut(&name).unwrap()[at] ^= 4;
        says(wrong(&damaged), &[&name, "checksum"]);
    }
}

#[test]
fn comparator_and_features() {
    let files = store();
    says(wrong(&with_manifest(&files, |edit| edit.comparator = Some("other".into()))), &["comparator", "other"]);
    says(wrong(&with_manifest(&files, |edit| edit.requires = vec!["lz4".into()])), &["lz4", "TERRACE"]);
    says(wrong(&with_manifest(&files, |edit| edit.requires = vec!["time-travel".into()])), &["time-travel"]);
    let mut asked = layout();
    asked.set("compression", "lz4").unwrap();
    says(check(&files, &asked).unwrap_err(), &["lz4", "refused"]);
}

#[test]
fn obsolete_files_are_listed_and_are_no_problem() {
    let mut files = store();
    let table = files[&table_of(&files, 1)].clone();
    files.insert("000999.ldb".into(), table);
    files.insert("000998.dbtmp".into(), vec![1]);
    let report = check(&files, &layout()).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.leftovers.len(), 2, "{:?}", report.leftovers);
}

/// Tests that `check` reports a missing WAL that LevelDB's manifest names. Fixed bug: `check` did
/// not report it.
#[test]
fn a_missing_wal_of_a_leveldb_manifest() {
    let files = store();
    let leveldbs = |log: u64| {
        let mut changed = files.clone();
        let name = manifest_of(&files);
        let mut edit = Edit::decode(&records(&files[&name])[0]).unwrap();
        (edit.log_number, edit.prev_log_number) = (Some(log), Some(0));
        changed.insert(name, framed(Writer::LevelDb, &[edit.encode()]));
        changed
    };
    let (_, log) = files::newest_log(&files);
    assert_eq!(check(&leveldbs(log.0), &layout()).unwrap().problems, Vec::<String>::new());
    assert_eq!(check(&leveldbs(0), &layout()).unwrap().problems, Vec::<String>::new());
    says(wrong(&leveldbs(log.0 - 1)), &["log", "which the manifest names, is missing"]);
}
