//! Tests of WAL sidecars. In a store with key-value separation, a WAL consists of two files: a
//! segment, and a sidecar for the batches without a large value. The sidecar is removed with the
//! memtable. The two files have one common history. If a part of either file is lost, the
//! remaining history must be a prefix.
use crate::common::{files, kit};
use files::{Files, holding};
use kit::{Model, Place, contents, options, prefix, states};
use std::sync::Arc;
use terrace::{Db, Error, Options, WriteBatch, WriteOptions, check_on};
use terrace_sim::{Medium, Rng};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

const SEED: u64 = 0x5a;
const BATCHES: usize = 120;

/// Returns options with key-value separation in which a value is large from 100 bytes on.
fn layout(changes: &[(&str, &str)]) -> Options {
    options(&[&[("values", "log"), ("value_log_threshold", "100"), ("compression", "none")], changes].concat())
}

fn names(fs: &dyn FileSystem, ending: &str) -> Vec<String> {
    let names = fs.list().expect("list").into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(ending)).collect()
}

/// Makes a store with one WAL and kills it. Returns its files, including both files of the WAL,
/// and the expected contents after each batch.
fn killed() -> (Files, Vec<Model>) {
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &layout(&[]), true).expect("open");
    for number in 1..=BATCHES {
        kit::write(&db, &kit::batch(SEED, number), false).expect("write");
    }
    drop(db);
    assert_eq!((names(&*fs, ".vlog").len(), names(&*fs, ".slog").len()), (1, 1));
    (files::files(&*fs), states(SEED, BATCHES))
}

/// Returns how many offsets of a file are damaged in turn. The count is small if stores are on raw
/// devices, because each case then needs a device of its own.
fn samples() -> usize {
    if matches!(kit::medium(), Medium::Directory(_)) { 200 } else { 20 }
}

fn file<'a>(files: &'a Files, ending: &str) -> &'a String {
    files.keys().find(|name| name.ends_with(ending)).expect("there is one")
}

/// Asserts that the contents of the store with these files are a prefix of the history, that the
/// store accepts writes, and that its contents are still right afterwards. Returns the count of
/// batches in the store.
fn judge(files: &Files, states: &[Model], what: &str) -> usize {
    let fs = holding(kit::anywhere(), files);
    let db = kit::open(&fs, &layout(&[]), true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = prefix(contents(&db).expect("scan"), states).unwrap_or_else(|error| panic!("{what}: {error}"));
    let next = kit::batch(SEED, found + 1);
    kit::write(&db, &next, true).unwrap_or_else(|error| panic!("{what}: {error}"));
    drop(db);
    let db = kit::open(&fs, &layout(&[]), true).unwrap_or_else(|error| panic!("{what}, again: {error}"));
    if found < BATCHES {
        assert_eq!(prefix(contents(&db).expect("scan"), states), Ok(found + 1), "{what}");
    }
    found
}

#[test]
fn segment_and_sidecar_are_one_history() {
    let (files, states) = killed();
    assert_eq!(judge(&files, &states, "no damage"), BATCHES);
}

/// Tests a segment or a sidecar that ends early, as after a power cut. The remaining history must
/// be a prefix.
#[test]
fn a_truncated_segment_or_sidecar_leaves_a_prefix() {
    let (files, states) = killed();
    for ending in [".slog", ".vlog"] {
        let name = file(&files, ending);
        let (mut least, mut most) = (BATCHES, 0);
        let all = files[name].len();
        for bytes in (0..all).step_by((all / samples()).max(1)).chain([all - 1]) {
            let mut cut = files.clone();
            cut.get_mut(name).expect("there").truncate(bytes);
            let found = judge(&cut, &states, &format!("{name} cut to {bytes}"));
            (least, most) = (least.min(found), most.max(found));
        }
        assert!(least < 5 && most > BATCHES - 10, "{ending}: {least} to {most} batches");
    }
}

/// Tests a segment or sidecar of which one page never reached the disk or has other contents.
#[test]
fn damage_to_segment_or_sidecar_leaves_a_prefix() {
    let (files, states) = killed();
    for ending in [".slog", ".vlog"] {
        let name = file(&files, ending);
        let mut rng = Rng::new(SEED);
        for round in 0..samples() {
            let mut damaged = files.clone();
            let bytes = damaged.get_mut(name).expect("there");
            let at = rng.below(bytes.len());
            let end = (at + 512).min(bytes.len());
            if round % 2 == 0 {
                bytes[at..end].fill(0)
            } else {
                bytes[at] ^= 1 << (at % 8)
            }
            let found = judge(&damaged, &states, &format!("{name} damaged at {at}, round {round}"));
            assert!(found < BATCHES || round % 2 == 0, "{name}: a bit at {at} made no difference");
        }
    }
}

/// Tests a damaged last write, which no later record reveals. The open must copy both files of the
/// WAL to `lost/`.
#[test]
fn records_outside_the_history_are_set_aside_from_both_files() {
    let (mut files, _) = killed();
    let fs = holding(kit::anywhere(), &files);
    let db = kit::open(&fs, &layout(&[]), true).expect("open");
    db.put("large", vec![1; 1000]).expect("put");
    db.put("small", "s").expect("put");
    drop(db);
    files = files::files(&*fs);
    let [small, segment] = [".slog", ".vlog"].map(|ending| names(&*fs, ending).pop().expect("the newest"));
    *files.get_mut(&small).and_then(|bytes| bytes.last_mut()).expect("not empty") ^= 1;
    let fs = holding(kit::anywhere(), &files);
    let db = kit::open(&fs, &layout(&[]), true).expect("open");
    assert_eq!((db.get("small").expect("get"), db.get("large").expect("get").is_some()), (None, true));
    assert_eq!(db.statistics().torn_wals, 1, "nothing was set aside");
    for name in [small, segment] {
        assert_eq!(files::bytes_of(&*fs, &format!("lost/{name}")), files[&name], "{name} was set aside as it was");
    }
}

/// Tests a sidecar whose tail is torn. Paranoid checks must report this, and the error must name
/// the file.
#[test]
fn paranoid_checks_name_the_damaged_file() {
    let (mut files, _) = killed();
    let small = file(&files, ".slog").clone();
    let bytes = files[&small].len();
    files.get_mut(&small).expect("there").truncate(bytes - 1);
    let paranoid = layout(&[("paranoid_checks", "true")]);
    let error =
        kit::open(&holding(kit::anywhere(), &files), &paranoid, true).map(drop).expect_err("it is torn").to_string();
    assert!(error.contains(&small) && error.contains("ends within a record"), "{error}");
}

/// Tests a sidecar without its segment. A power cut may keep the name of the sidecar and lose that
/// of the segment, although the segment was created first. No write in either file was promised as
/// durable, so the open must succeed and copy the sidecar to `lost/`.
#[test]
fn a_sidecar_without_its_segment_is_set_aside() {
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &layout(&[("value_log_segment_size", "64KiB")]), true).expect("open");
    db.put("first", vec![1; 80 << 10]).expect("put");
    db.put("second", "in another log").expect("put");
    drop(db);
    let mut files = files::files(&*fs);
    let [segments, small] = [".vlog", ".slog"].map(|ending| names(&*fs, ending));
    assert_eq!((segments.len(), small.len()), (2, 1));
    files.remove(&segments[1]);
    let fs = holding(kit::anywhere(), &files);
    let paranoid =
        kit::open(&fs, &layout(&[("paranoid_checks", "true")]), true).map(drop).expect_err("paranoid checks refuse it");
    assert!(paranoid.to_string().contains("segment is missing"), "{paranoid}");
    let db = kit::open(&fs, &layout(&[]), true).expect("open");
    assert_eq!((contents(&db).expect("scan").len(), db.statistics().torn_wals), (1, 1));
    assert_eq!(files::bytes_of(&*fs, &format!("lost/{}", small[0])), files[&small[0]]);
}

/// Tests the loss of either file of a WAL all of whose writes were synced. This is corruption and
/// not the result of a power cut. A check must report it, and an open must refuse the store and
/// remove nothing.
#[test]
fn a_missing_file_with_durable_writes_is_refused() {
    for order in [["small", "large", "small"], ["large", "small", "large"]] {
        let fs: Arc<dyn FileSystem> = kit::anywhere();
        let db = kit::open(&fs, &layout(&[]), true).expect("open");
        for (number, size) in order.iter().enumerate() {
            let value = if *size == "large" { vec![7; 500] } else { vec![7; 5] };
            db.put_with([number as u8], value, WriteOptions::synced()).expect("put");
        }
        drop(db);
        let all = files::files(&*fs);
        for ending in [".vlog", ".slog"] {
            let mut left = all.clone();
            left.remove(&file(&all, ending).clone());
            let fs = holding(kit::anywhere(), &left);
            let what = format!("{order:?} without {ending}");
            let storage = kit::storage(&fs, OpenMode::ReadOnly, &layout(&[])).expect("storage");
            let found = check_on(&*storage, &layout(&[]), false);
            assert!(found.as_ref().map_or(true, |report| !report.problems.is_empty()), "{what}: UNSEEN {found:?}");
            drop(storage);
            let opened = kit::open(&fs, &layout(&[]), true).map(drop);
            assert!(matches!(opened, Err(Error::Corrupt { .. } | Error::Missing { .. })), "{what}: {opened:?}");
            assert_eq!(files::files(&*fs), left, "{what}: a refused open leaves the files");
        }
    }
}

/// Tests an open with another threshold for large values. A value that was small when it was
/// written may then be large when it is replayed, or the reverse. The history must be the same.
#[test]
fn another_threshold_replays_the_same_history() {
    let (files, states) = killed();
    for threshold in ["0", "5000", "1MiB"] {
        let (fs, options) = (holding(kit::anywhere(), &files), layout(&[("value_log_threshold", threshold)]));
        let reading = kit::storage(&fs, OpenMode::ReadOnly, &options).expect("open to read");
        let report = check_on(&*reading, &options, true).expect("check");
        drop(reading);
        let db = kit::open(&fs, &options, true).expect("open");
        assert_eq!((report.problems.len(), report.torn_wals.len(), report.last_sequence), (0, 0, db.last_sequence()));
        db.compact_range(None, None).expect("compact");
        assert_eq!(prefix(contents(&db).expect("scan"), &states), Ok(BATCHES), "{threshold}");
    }
}

/// Tests that the sidecar is removed with its memtable. Segments may contain only values to which
/// tables point.
#[test]
fn small_values_leave_no_file_after_a_flush() {
    let kept = |wal_sidecar: &str| {
        let sizes = [("write_buffer_size", "256KiB"), ("value_log_segment_size", "1MiB"), ("value_log_gc", "off")];
        let (place, options) = (Place::any(), layout(&[&sizes[..], &[("wal_sidecar", wal_sidecar)]].concat()));
        let db = place.open(&options, true).expect("open");
        for number in 0..20_000u32 {
            let bytes = if number % 50 == 0 { 4096 } else { 80 };
            db.put(number.to_be_bytes(), vec![number as u8; bytes]).expect("put");
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        let reported = db.statistics().value_log;
        assert!(names(&*place.fs, ".slog").len() <= 1, "{:?}", names(&*place.fs, ".slog"));
        db.close().expect("close");
        let db = place.open(&options, true).expect("open again");
        assert_eq!(contents(&db).expect("scan").len(), 20_000);
        reported.live_bytes as f64 / reported.bytes as f64
    };
    let [with, without] = ["true", "false"].map(kept);
    assert!(with > 0.98 && without < 0.5, "{with:.3} of the segments is alive, {without:.3} without a small part");
}

/// Tests which files a synced write syncs. A WAL has two files, the segment and the sidecar. The
/// write must sync the file that got its record, and the other one only if that file has unsynced
/// data.
#[test]
fn only_files_with_unsynced_data_are_synced() {
    let db = kit::store(layout(&[("durability", "sync")]));
    let syncs = || db.statistics().syncs.iter().find(|(kind, _)| *kind == "log").expect("a kind").1.count;
    let put = |bytes: usize, sync: bool| {
        db.put_with("key", vec![1; bytes], WriteOptions { sync, ..WriteOptions::default() }).expect("put")
    };
    [10, 1000].into_iter().for_each(|bytes| put(bytes, true));
    let begin = syncs();
    (0..10).for_each(|_| put(10, true));
    assert_eq!(syncs() - begin, 10, "small ones");
    (0..10).for_each(|_| put(1000, true));
    assert_eq!(syncs() - begin, 20, "large ones");
    put(1000, false);
    put(10, true);
    assert_eq!(syncs() - begin, 22, "what came before is owed, too");
}

#[test]
fn a_batch_with_small_and_large_values_is_in_the_segment() {
    let fs: Arc<dyn FileSystem> = kit::anywhere();
    let db = kit::open(&fs, &layout(&[]), true).expect("open");
    let mut both = WriteBatch::new();
    both.put("small", "s").put("large", vec![7; 1000]).delete("deleted");
    db.write(both, WriteOptions::default()).expect("write");
    assert_eq!(names(&*fs, ".slog"), Vec::<String>::new());
    db.delete("nothing").expect("delete");
    assert_eq!(names(&*fs, ".slog").len(), 1);
    let updates: Vec<_> =
        db.updates_since(0).expect("the history").map(|update| update.expect("it is there")).collect();
    assert_eq!(updates.iter().map(|update| update.sequence).collect::<Vec<_>>(), [1, 4]);
    drop(db);
    let db = kit::open(&fs, &layout(&[]), true).expect("open again");
    assert_eq!((db.get("small").expect("get"), contents(&db).expect("scan").len()), (Some(b"s".to_vec()), 2));
}

/// Tests that a follower finds the writes of both files of a WAL, even after they were flushed.
#[test]
fn followers_keep_both_files() {
    let (place, options) = (Place::any(), layout(&[]));
    let db = place.open(&options, true).expect("open");
    for number in 1..=BATCHES {
        kit::write(&db, &kit::batch(SEED, number), false).expect("write");
    }
    let mut updates = db.updates_since(0).expect("the history");
    let first = updates.next().expect("there is one").expect("it can be read");
    for round in 0..3 {
        db.put("round", [round]).expect("put");
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    }
    assert_eq!((names(&*place.fs, ".slog").len(), first.sequence), (3, 1), "the first, and what followed it");
    let rest = updates.collect::<terrace::Result<Vec<_>>>().expect("it can be read");
    assert_eq!(1 + rest.len(), BATCHES);
    db.put("round", "last").expect("put");
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    assert_eq!(names(&*place.fs, ".slog"), Vec::<String>::new());
}

/// Tests that a store which was created without sidecars never gets one, because readers of such a
/// store do not search for sidecars.
#[test]
fn a_store_created_without_sidecars_has_none() {
    let place = Place::any();
    place.open(&layout(&[("wal_sidecar", "false")]), true).expect("open").close().expect("close");
    let db = place.open(&layout(&[]), true).expect("open again");
    db.put("small", "s").expect("put");
    assert_eq!(names(&*place.fs, ".slog"), Vec::<String>::new());
    drop(db);
    assert_eq!(contents(&place.open(&layout(&[]), true).expect("open")).expect("scan").len(), 1);
}

/// Tests a repair of a store that has lost its root (`CURRENT`) and one of the two files of a WAL.
/// The repair must find the entries of the other file.
#[test]
fn a_repair_finds_entries_of_either_file() {
    let (files, states) = killed();
    for ending in [".slog", ".vlog"] {
        let (from, to) = (Place::directory(), Place::directory());
        let mut left = files.clone();
        left.remove(&file(&files, ending).clone());
        let path = from.path().expect("a directory");
        std::fs::create_dir(&path).expect("made");
        left.iter().for_each(|(name, bytes)| std::fs::write(path.join(name), bytes).expect("written"));
        Db::repair(&path, to.path().expect("a directory"), &layout(&[])).expect("repair");
        let saved = contents(&to.open(&layout(&[]), true).expect("open")).expect("scan");
        let ever = |pair: &&(Vec<u8>, Vec<u8>)| states.iter().any(|state| state.get(&pair.0) == Some(&pair.1));
        assert!(
            saved.len() > 10 && saved.iter().filter(ever).count() == saved.len(),
            "{ending}: {} pairs",
            saved.len()
        );
    }
}
