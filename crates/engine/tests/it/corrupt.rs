//! Applies every kind of damage to every file of a store. The store must then either return
//! correct results or report the damage. It must never panic, hang or return a wrong value. After
//! damage to a WAL, any prefix of the history is a correct result. After damage to another file,
//! only the whole history is correct.
//!
//! The store is always the same, so a failure, which names the file and the damage, can be
//! reproduced.
use crate::common::{damage, files, kit};
use damage::{BATCHES, FLUSHED, PADDED, Verdict, judge, layout, store, store_on};
use files::{Files, bytes_of, files, holding};
use kit::{Model, prefix};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use terrace::{ReadOptions, check_on};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

/// The number of offsets that are tried in a file that is too large to try every offset.
const SAMPLES: usize = 300;

/// Judges a damaged store. `what` describes the damage. The test fails if the store panics or if
/// `legal` does not accept the verdict.
fn check(what: &str, files: &Files, with_format_file: bool, states: &[Model], legal: impl Fn(Verdict) -> bool) {
    let verdict = catch_unwind(AssertUnwindSafe(|| judge(files, &layout(with_format_file), states)));
    match verdict.unwrap_or_else(|_| panic!("{what}: a panic, see above")) {
        Ok(verdict) => assert!(legal(verdict), "{what}: {verdict:?}"),
        Err(reason) => panic!("{what}: {reason}"),
    }
}

/// Returns a function that accepts the allowed verdicts after damage to file `name`.
fn legal_for(name: &str) -> impl Fn(Verdict) -> bool + use<> {
    let is_log = name.ends_with(".log");
    move |verdict| match verdict {
        Verdict::Holds(count) => count == BATCHES || is_log && count >= FLUSHED,
        // The store never synced this WAL, so damage to it is a normal crash state.
        Verdict::Refused | Verdict::PartlyReadable => !is_log,
    }
}

/// Returns every offset of a small file, and a sample of the offsets of a large one. The first and
/// last offsets are always included.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let stride = (bytes.len() / SAMPLES).max(1);
    let mut offsets: Vec<usize> = (0..bytes.len()).step_by(stride).collect();
    offsets.extend(bytes.len().saturating_sub(160)..bytes.len());
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

/// Applies `damage` at each offset of each file of each store.
fn campaign(damage: impl Fn(&[u8], usize) -> Vec<u8>, name_of_damage: &str) {
    for with_format_file in [false, true] {
        let (files, states) = store(with_format_file);
        check("no damage", &files, with_format_file, &states, |verdict| verdict == Verdict::Holds(BATCHES));
        for name in files.keys() {
            for offset in offsets(&files[name]) {
                let mut damaged = files.clone();
                damaged.insert(name.clone(), damage(&files[name], offset));
                check(
                    &format!("{name} {name_of_damage} {offset}"),
                    &damaged,
                    with_format_file,
                    &states,
                    legal_for(name),
                );
            }
        }
    }
}

#[test]
fn a_flipped_byte_is_detected_or_harmless() {
    campaign(
        |bytes, at| {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1 << (at % 8);
            bytes
        },
        "with a flipped bit at",
    );
}

#[test]
fn a_truncated_file_is_detected_or_harmless() {
    campaign(|bytes, at| bytes[..at].to_vec(), "cut to");
}

#[test]
fn zeros_to_the_end_are_detected_or_harmless() {
    campaign(
        |bytes, at| {
            let mut bytes = bytes.to_vec();
            bytes[at..].fill(0);
            bytes
        },
        "with zeros from",
    );
}

#[test]
fn missing_and_exchanged_files_are_detected() {
    for with_format_file in [false, true] {
        let (files, states) = store(with_format_file);
        for name in files.keys() {
            let mut damaged = files.clone();
            damaged.remove(name);
            let newest_log = files.keys().rfind(|name| name.ends_with(".log")) == Some(name);
            let legal = |verdict| match verdict {
                Verdict::Refused => name != "LOCK",
                Verdict::PartlyReadable => false,
                // Without the newest WAL, the store looks as if a power cut had lost the name of
                // this WAL.
                Verdict::Holds(count) if newest_log => count == PADDED,
                Verdict::Holds(count) => name == "LOCK" && count == BATCHES,
            };
            check(&format!("{name} missing"), &damaged, with_format_file, &states, legal);
            for other in files.keys().filter(|other| *other > name) {
                let mut damaged = files.clone();
                damaged.insert(name.clone(), files[other].clone());
                damaged.insert(other.clone(), files[name].clone());
                let legal = |verdict| verdict != Verdict::Holds(BATCHES) || files[other] == files[name];
                check(&format!("{name} and {other} exchanged"), &damaged, with_format_file, &states, legal);
            }
        }
    }
}

/// Tests that a damaged end of a WAL is treated as a torn tail by default, and as an error with
/// paranoid checks.
#[test]
fn a_torn_wal_is_an_error_with_paranoid_checks() {
    let (files, _) = store_on(kit::anywhere(), false);
    let (name, bytes) = files.iter().find(|(name, _)| name.ends_with(".log")).expect("a log");
    let mut paranoid = layout(false);
    paranoid.paranoid_checks = true;
    kit::open(&holding(kit::anywhere(), &files), &paranoid, true).expect("nothing is damaged yet");
    let (mut torn, mut flipped) = (bytes[..bytes.len() - 3].to_vec(), bytes.clone());
    torn.extend([0; 3]);
    flipped[bytes.len() / 2] ^= 1;
    for damage in [bytes[..bytes.len() - 3].to_vec(), torn, flipped] {
        let mut damaged = files.clone();
        damaged.insert(name.clone(), damage);
        let error =
            kit::open(&holding(kit::anywhere(), &damaged), &paranoid, true).map(drop).expect_err("the paranoid refuse");
        assert!(matches!(&error, terrace::Error::Corrupt { object, .. } if object.contains(name.as_str())), "{error}");
        kit::open(&holding(kit::anywhere(), &damaged), &layout(false), true).expect("others take it for a power cut");
    }
}

/// Tests that an open copies WALs with records that are not part of the recovered history to
/// `lost/`, byte for byte. Later writes and opens must not change these copies.
#[test]
fn the_rest_of_a_damaged_wal_is_kept_in_lost() {
    let (mut files, states) = store_on(kit::anywhere(), false);
    let logs: Vec<String> = files.keys().filter(|name| name.ends_with(".log")).cloned().collect();
    let log = files.get_mut(&logs[0]).expect("there");
    let at = log.len() / 2;
    log[at] ^= 1;
    let fs = holding(kit::anywhere(), &files);
    for round in 0..3 {
        let db = kit::open(&fs, &layout(false), true).expect("open");
        let mut pairs = kit::contents(&db).expect("scan");
        pairs.retain(|(key, _)| key != b"round");
        let count = prefix(pairs, &states).expect("a prefix");
        assert!((FLUSHED..BATCHES).contains(&count), "{count} batches");
        for log in &logs {
            // The first WAL is copied because it is damaged. The second is copied because its
            // records do not follow the intact part of the first.
            assert_eq!(bytes_of(&*fs, &format!("lost/{log}")), files[log], "round {round}");
            assert!(fs.open(&format!("lost/{log}-2")).is_err(), "it is set aside once");
        }
        db.put("round", round.to_string()).unwrap();
        db.compact_range(None, None).unwrap();
        db.wait_idle().unwrap();
        db.close().unwrap();
    }
    assert!(logs.iter().all(|log| fs.open(log).is_err()), "the logs themselves are replaced");
}

/// Tests checks of a table that is damaged in a part which no read has reached yet. A shallow
/// check must find no problem; a deep check must name the table.
#[test]
fn a_deep_check_reads_everything() {
    let (mut files, _) = store_on(kit::anywhere(), false);
    let options = layout(false);
    let (name, table) =
        files.iter_mut().filter(|(name, _)| name.ends_with(".ldb")).max_by_key(|(_, b)| b.len()).expect("a table");
    let (name, at) = (name.clone(), table.len() / 3);
    table[at] ^= 1;
    let fs = holding(kit::anywhere(), &files);
    let check = |deep| check_on(&*kit::storage(&fs, OpenMode::ReadOnly, &options).unwrap(), &options, deep).unwrap();
    let (shallow, deep) = (check(false), check(true));
    assert_eq!((shallow.problems, shallow.wal_entries > 0), (vec![], true));
    assert_eq!(deep.problems.len(), 1, "{:?}", deep.problems);
    assert!(deep.problems[0].contains(&name), "{:?} does not name {name}", deep.problems);
}

/// Tests that a compaction does not copy a damaged block, because it would give the copy a correct
/// checksum. The block is not compressed here, so only the checksum reveals the damage.
#[test]
fn a_compaction_does_not_copy_damage() {
    merge_damage(false);
}

/// Tests that a compaction does not use a damaged block from the block cache. Fixed bug: a read
/// without checksum verification left such a block in the cache, and a compaction used it.
#[test]
fn a_compaction_does_not_copy_damage_from_the_cache() {
    merge_damage(true);
}

fn merge_damage(cached: bool) {
    let plain = kit::in_files(&[&[("compression", "none")], kit::TIGHT].concat());
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &plain, true).unwrap();
    let value = vec![b'v'; 3000];
    db.put("a", &value).unwrap();
    db.put("b", &value).unwrap();
    db.flush().unwrap();
    db.wait_idle().unwrap(); // so that the manifest names the table
    let newest = db.layout().into_iter().flat_map(|level| level.tables).map(|table| table.number).max();
    drop(db);
    let mut damaged = files(&*fs);
    let table = damaged.get_mut(&format!("{:06}.ldb", newest.expect("a table"))).expect("its file");
    let at = table.windows(8).position(|bytes| bytes == b"vvvvvvvv").expect("a value") + 100;
    table[at] ^= 1;
    let db = kit::open(&holding(kit::anywhere(), &damaged), &plain, true).expect("tables are not read through at open");
    if cached {
        let trusting = ReadOptions::new().verify_checksums(false);
        assert!(db.get_with("b", &trusting).unwrap().is_some());
    }
    db.put("a", "newer").unwrap(); // so that the compaction has an overlapping table
    let error = db.compact_range(None, None).expect_err("the compaction meets the damage");
    assert!(error.to_string().contains("checksum"), "{error}");
    let honest = |found: Option<Vec<u8>>| found.as_deref() == Some(&value[..]);
    assert!(db.get("b").map_or(true, honest), "a read gives the value or an error");
}
