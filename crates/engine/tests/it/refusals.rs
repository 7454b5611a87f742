//! Tests of opens that must be refused because of wrong options, the directory of another engine,
//! or a store that has lost a part. The error must state the reason. Every file must stay as it
//! was, including files that do not belong to a store.
use crate::common::kit;
use kit::{Backwards, Place};
use std::{collections::BTreeSet, fs, sync::Arc};
use terrace::{Db, Error, FilterPolicy, Options, ReadOptions};
use terrace_format::{edit::Edit, format_file::FormatFile, log_record::Framer};

/// Asserts that an open fails with an error text that contains each string in `why`, and that
/// every file stays as it was.
fn refuses(place: &Place, options: &Options, why: &[&str]) {
    let path = place.path().expect("a directory");
    let before = path.exists().then(|| kit::files_below(&path));
    let error = Db::open(&path, options.clone()).map(drop).expect_err("must be refused").to_string();
    assert!(why.iter().all(|word| error.contains(word)), "{error:?} does not say {why:?}");
    let mut after = path.exists().then(|| kit::files_below(&path));
    let had_lock = before.as_ref().is_some_and(|files| files.contains_key(&path.join("LOCK")));
    after.iter_mut().filter(|_| !had_lock).for_each(|files| drop(files.remove(&path.join("LOCK"))));
    assert!(before == after, "a refused open changed something: {error}");
}

fn made(options: &Options) -> Place {
    let place = Place::directory();
    let db = Db::open(place.path().unwrap(), options.clone()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    place
}

#[test]
fn mismatched_options_are_refused() {
    let defaults = Options::default();
    let mut only_new = defaults.clone();
    only_new.error_if_exists = true;
    let mut only_old = defaults.clone();
    only_old.create_if_missing = false;
    let place = made(&defaults);
    let backwards = defaults.clone().comparator(Arc::new(Backwards));
    refuses(&place, &backwards, &["leveldb.BytewiseComparator", "test.Backwards"]);
    refuses(&made(&backwards), &defaults, &["leveldb.BytewiseComparator", "test.Backwards"]);
    refuses(&place, &only_new, &["error_if_exists"]);
    refuses(&place, &kit::plain(&[("compression", "lz4")]), &["compression=lz4", "LevelDB"]);
    refuses(&place, &kit::plain(&[("compaction_style", "universal")]), &["compaction_style=universal", "LevelDB"]);
    Db::open(place.path().unwrap(), only_old.clone()).expect("it is there");

    let nowhere = Place::directory();
    refuses(&nowhere, &only_old, &["missing", nowhere.path().unwrap().to_str().unwrap()]);
    assert!(Db::open_read_only(nowhere.path().unwrap(), defaults.clone()).is_err());
    assert!(!nowhere.path().unwrap().exists(), "a reader made a directory");
    let mut absurd = defaults;
    (absurd.block_size, absurd.max_write_buffer_number) = (1, 1000);
    refuses(&nowhere, &absurd, &["block_size", "max_write_buffer_number"]);
}

#[test]
fn a_store_without_root_or_format_file_is_not_created_again() {
    let place = made(&Options::default());
    fs::remove_file(place.path().unwrap().join("CURRENT")).unwrap();
    refuses(&place, &Options::default(), &["missing", "CURRENT"]);

    let lz4 = kit::plain(&[("compression", "lz4")]);
    let place = made(&lz4);
    let format_file = place.path().unwrap().join("TERRACE");
    let mut unknown: FormatFile = FormatFile::decode(&fs::read_to_string(&format_file).unwrap()).unwrap();
    unknown.features.push("time-travel".into());
    fs::write(&format_file, unknown.encode()).unwrap();
    refuses(&place, &lz4, &["time-travel"]);
    fs::remove_file(&format_file).unwrap();
    refuses(&place, &lz4, &["lz4", "TERRACE"]);
}

/// Tests that the directory of another engine is refused. The engine's manifest differs from
/// Terrace's: it has an unknown feature or an unknown record.
#[test]
fn a_foreign_manifest_is_refused() {
    let edit = Edit { requires: vec!["time-travel".into()], ..Edit::default() };
    let numbers =
        Edit { log_number: Some(0), next_file_number: Some(9), last_sequence: Some(Default::default()), ..edit };
    let known = Edit { comparator: Some("leveldb.BytewiseComparator".into()), ..numbers }.encode();
    for (record, why) in [(known.clone(), "time-travel"), ([&known[..0], &[200, 1, 0]].concat(), "tag")] {
        let place = Place::directory();
        let path = place.path().unwrap();
        fs::create_dir(&path).unwrap();
        let mut manifest = Vec::new();
        let emit = |piece: &[u8]| {
            manifest.extend_from_slice(piece);
            Ok::<_, ()>(())
        };
        Framer::new().frame(&record, emit).unwrap();
        fs::write(path.join("MANIFEST-000001"), manifest).unwrap();
        fs::write(path.join("CURRENT"), "MANIFEST-000001\n").unwrap();
        refuses(&place, &Options::default(), &[why]);
    }
}

#[test]
fn open_and_destroy_leave_foreign_files_alone() {
    let place = Place::directory();
    let path = place.path().unwrap();
    fs::create_dir_all(path.join("lost")).unwrap();
    let strangers = ["notes.txt", "5.ldb", "IDENTITY", "lost/photo.jpg", "MANIFEST-1"].map(|name| path.join(name));
    strangers.iter().for_each(|name| fs::write(name, "mine").unwrap());
    for round in 0..3 {
        let db = Db::open(&path, Options::default()).unwrap();
        db.put("key", round.to_string()).unwrap();
        assert!(matches!(Db::destroy(&path), Err(Error::InUse { .. })), "destroyed while open");
        db.close().unwrap();
    }
    Db::destroy(&path).unwrap();
    Db::destroy(&path).expect("a missing store is fine");
    let left = kit::files_below(&path);
    assert!(left.keys().eq(BTreeSet::from(strangers).iter()), "{:?}", left.keys());

    let file = path.join("notes.txt");
    let error = Db::open(&file, Options::default()).map(drop).expect_err("a file is no directory").to_string();
    assert!(error.contains("notes.txt"), "{error}");
}

/// A filter policy with a name of its own that matches every key.
struct AdmitAll;

impl FilterPolicy for AdmitAll {
    fn name(&self) -> &str {
        "test.AdmitAll"
    }
    fn create(&self, _: &[&[u8]], out: &mut Vec<u8>) {
        out.push(1);
    }
    fn may_match(&self, _: &[u8], filter: &[u8]) -> bool {
        filter == [1]
    }
}

#[test]
fn filters_of_another_policy_are_ignored() {
    let bloom = kit::plain(&[("bloom_bits", "10"), ("filter_form", "table")]);
    let other = Options::default().filter_policy(Arc::new(AdmitAll));
    let place = Place::any();
    for (round, options) in [&bloom, &other, &Options::default(), &other, &bloom].into_iter().enumerate() {
        let db = place.open(options, true).unwrap();
        (0..50).for_each(|n| db.put(format!("{round}/{n}"), "here").unwrap());
        db.flush().unwrap();
        for (earlier, n) in (0..=round).flat_map(|earlier| (0..50).map(move |n| (earlier, n))) {
            assert_eq!(db.get(format!("{earlier}/{n}")).unwrap().as_deref(), Some(&b"here"[..]), "{earlier}/{n}");
        }
        assert_eq!(db.get("absent").unwrap(), None);
        db.close().unwrap();
    }
}

/// Tests that a store refuses a snapshot of another store. A snapshot pins entries only in its own
/// store, and its sequence number has no meaning in another store.
#[test]
fn a_snapshot_of_another_store_is_refused() {
    let (here, there) = (kit::store(Options::default()), kit::store(Options::default()));
    here.put("key", "value").unwrap();
    let foreign = ReadOptions::new().snapshot(&there.snapshot());
    assert!(matches!(here.get_with("key", &foreign), Err(Error::Invalid(text)) if text.contains("snapshot")));
    assert!(matches!(here.scan(foreign.clone()).next(), Some(Err(Error::Invalid(_)))));
    assert!(matches!(here.cursor(foreign).seek_to_last(), Err(Error::Invalid(_))));
    assert_eq!(
        here.get_with("key", &ReadOptions::new().snapshot(&here.snapshot())).unwrap().as_deref(),
        Some(&b"value"[..])
    );
}
