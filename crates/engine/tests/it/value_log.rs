//! Tests of key-value separation. Each value must be written only once. A segment must be removed
//! when all its values are garbage, but not while it has live values.
use crate::common::{kit, separated};
use kit::{Model, Place, contents, options};
use separated::{SMALL, check, frames_of, key, segments, value, written, written_for};
use std::{fs, path::Path, sync::Arc};
use terrace::{Codec, Db, Options, ReadOptions, WriteBatch, WriteOptions};
use terrace_format::{Batch, SeqNo, value_log::Framer};
use terrace_sim::{Rng, SmallFs};
use terrace_storage::{Memory, backends::files::fs::FileSystem, placement::OpenMode};

/// Tests a load of pairs in random order, with keys of 16 bytes. The store must write hardly more
/// bytes than the values have.
#[test]
fn a_load_writes_values_once() {
    let (place, options) = (Place::any(), options(SMALL));
    let db = place.open(&options, true).expect("open");
    let (mut rng, mut user) = (Rng::new(1), 0);
    for _ in 0..8000 {
        let (key, value) = (key(rng.below(1 << 40)), value(&mut rng, 4096));
        user += (key.len() + value.len()) as u64;
        db.put(key, value).expect("put");
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let (by_purpose, all) = written(&db);
    let amplification = all as f64 / user as f64;
    println!("a fill with 4 KiB values: WA1 {amplification:.3}, {by_purpose:?}");
    assert!(amplification < 1.1, "{amplification}: {by_purpose:?}");
    db.close().expect("close");
    check(&place, &options);
}

/// Tests how compactions order values. The values in a WAL are in the order of writing. After a
/// manual compaction of all keys, no table may point into a WAL, and the next such compaction must
/// relocate no value. A compaction of a part of the keys may leave pointers into WALs.
#[test]
fn a_full_compaction_puts_values_in_key_order() {
    let (place, options) = (Place::any(), options(SMALL));
    let db = place.open(&options, true).expect("open");
    let (mut rng, mut model) = (Rng::new(10), Model::new());
    for _ in 0..2000 {
        let (key, value) = (key(rng.below(1 << 40)), value(&mut rng, 1024));
        db.put(&key, &value).expect("put");
        model.insert(key, value);
    }
    let moved = || written_for(&db, "collection");
    let middle = key(1 << 39);
    db.compact_range(None, Some(&middle)).expect("compact");
    assert_eq!(moved(), 0, "a part of the keys");
    db.compact_range(None, None).expect("compact");
    let once = moved();
    let all: usize = model.values().map(Vec::len).sum();
    assert!(once >= all as u64 && once < all as u64 / 10 * 12, "UNSORTED: {once} of {all} bytes were relocated");
    db.compact_range(None, None).expect("compact");
    assert_eq!(moved(), once, "they lie in order already");
    db.wait_idle().expect("idle");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "every value is found");
    db.close().expect("close");
    assert!(segments(&place)[0].len() <= 2, "logs stay: {:?}", segments(&place)[0]);
    check(&place, &options);
}

/// Tests that segments which compactions write are not longer than WALs.
#[test]
fn relocated_values_fill_many_segments() {
    const MAX: u64 = 64 << 10;
    let more = [
        ("value_log_segment_size", "64KiB"),
        ("value_log_gc_percent", "1"),
        ("write_buffer_size", "4MiB"),
        ("target_file_size", "4MiB"),
    ];
    let (place, options) = (Place::any(), options(&[SMALL, &more].concat()));
    let db = place.open(&options, true).expect("open");
    let (mut rng, mut model) = (Rng::new(9), Model::new());
    for number in (0..1000).chain((0..1000).step_by(2)) {
        let value = value(&mut rng, 1024);
        db.put(key(number), &value).expect("put");
        model.insert(key(number), value);
    }
    db.compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "every value is found");
    db.close().expect("close");
    let bytes = place.fs.list().expect("list").into_iter().filter(|entry| entry.name.ends_with(".vals"));
    let bytes: Vec<u64> = bytes.map(|entry| entry.bytes).collect();
    assert!(bytes.len() > 4 && bytes.iter().all(|bytes| *bytes <= MAX + 2048), "LONG {bytes:?}");
    check(&place, &options);
}

/// Makes a closed store in a directory and returns its contents. It has values above and below the
/// threshold for separation, and some of them were overwritten or deleted.
fn finished(place: &Place, options: &Options, seed: u64) -> Model {
    let db = place.open(options, true).expect("open");
    let (mut rng, mut model) = (Rng::new(seed), Model::new());
    for _ in 0..1500 {
        let (key, bytes) = (key(rng.below(400)), rng.below(3000));
        let value = value(&mut rng, bytes);
        db.put(&key, &value).expect("put");
        model.insert(key, value);
    }
    for number in 0..40 {
        db.delete(key(number)).expect("delete");
        model.remove(&key(number));
    }
    db.compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    db.close().expect("close");
    model
}

#[test]
fn a_checkpoint_includes_the_segments() {
    let (place, copy, options) = (Place::directory(), Place::directory(), options(SMALL));
    let model = finished(&place, &options, 3);
    let db = place.open(&options, false).expect("open");
    let made = db.checkpoint(copy.path().expect("a directory")).expect("checkpoint");
    db.close().expect("close");
    assert!(made.linked > 2 && segments(&copy)[1].len() == segments(&place)[1].len(), "{made:?}");
    Db::destroy(place.path().expect("a directory")).expect("destroy");
    let db = copy.open(&options, true).expect("open the copy");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "the copy stands alone");
    db.close().expect("close");
    check(&copy, &options);
}

/// Tests a repair of a store with a missing and a damaged segment. It must salvage all other
/// values, and report each loss with its file.
#[test]
fn a_repair_salvages_readable_values() {
    let (place, options) = (Place::directory(), options(SMALL));
    let model = finished(&place, &options, 4);
    let path = place.path().expect("a directory");
    let [_, moved] = segments(&place);
    let victim = path.join(&moved[0]);
    let mut bytes = std::fs::read(&victim).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&victim, bytes).expect("write");
    let found = terrace::check(&path, &options, true).expect("check").problems;
    assert!(found.iter().any(|problem| problem.contains(&moved[0]) && problem.contains("at byte")), "{found:?}");

    let repaired = Place::directory();
    let report = Db::repair(&path, repaired.path().expect("a directory"), &options).expect("repair");
    assert!(report.lost.iter().any(|lost| lost.file.contains(&moved[0]) && lost.bytes > 0), "{:?}", report.lost);
    let db = repaired.open(&options, true).expect("open");
    let saved = Model::from_iter(contents(&db).expect("scan"));
    db.close().expect("close");
    let wrong = saved.iter().filter(|(key, value)| model.get(*key) != Some(value)).count();
    assert!(saved.len() + 2 >= model.len() && wrong <= 1, "{} of {} pairs, {wrong} old", saved.len(), model.len());
    check(&repaired, &options);

    std::fs::remove_file(&victim).expect("remove");
    let refusal = place.open(&options, true).map(drop).expect_err("a segment is missing").to_string();
    assert!(refusal.contains(&moved[0]), "{refusal}");

    let repaired = Place::directory();
    let report = Db::repair(&path, repaired.path().expect("a directory"), &options).expect("repair");
    let of_it: Vec<_> = report.lost.iter().filter(|lost| lost.file.contains(&moved[0])).collect();
    assert!(of_it.len() == 1 && of_it[0].file.ends_with(&moved[0]) && of_it[0].bytes > 1000, "{:?}", report.lost);
}

#[test]
fn a_read_names_the_missing_segment_and_the_offset() {
    let (place, options) = (Place::directory(), options(SMALL));
    let model = finished(&place, &options, 14);
    let db = place.open(&options, true).expect("open");
    let gone = segments(&place).concat();
    gone.iter().for_each(|name| place.fs.remove(name).expect("remove"));
    let errors: Vec<String> = model.keys().filter_map(|key| db.get(key).err()).map(|e| e.to_string()).collect();
    assert!(errors.len() > 10, "only {errors:?}");
    for error in errors {
        let named = |name: &String| error.contains(&format!("{name}, of which a value needs "));
        assert!(gone.iter().any(named) && error.contains(" bytes from byte "), "{error}");
    }
}

/// Tests a repair of a store without the tables that point to relocated values. A segment stores
/// the key and the sequence number with each relocated value, so the repair must find these
/// values.
#[test]
fn a_repair_finds_relocated_values_of_lost_tables() {
    for with_manifest in [true, false] {
        let (place, options) = (Place::directory(), options(SMALL));
        let model = finished(&place, &options, 13);
        let path = place.path().expect("a directory");
        let lost = |name: &str| {
            name.ends_with(".ldb") || !with_manifest && (name == "CURRENT" || name.starts_with("MANIFEST"))
        };
        let missing = |saved: Model| {
            let large = model.iter().filter(|(_, value)| value.len() >= 512);
            large.filter(|(key, value)| saved.get(*key) != Some(value)).count()
        };
        let in_logs = missing(repaired_without(&path, &options, |name| lost(name) || name.ends_with(".vals")));
        assert!(in_logs > 10, "with manifest: {with_manifest}: only {in_logs} values were relocated");
        assert_eq!(missing(repaired_without(&path, &options, lost)), 0, "with manifest: {with_manifest}");
    }
}

/// Repairs a copy of the store in `path` without the files for which `lost` returns true. Returns
/// the contents of the repaired store.
fn repaired_without(path: &Path, options: &Options, lost: impl Fn(&str) -> bool) -> Model {
    let (copy, repaired) = (tempfile::tempdir().expect("a temporary directory"), Place::directory());
    for entry in fs::read_dir(path).expect("list") {
        let entry = entry.expect("list");
        if !lost(&entry.file_name().to_string_lossy()) {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).expect("copy");
        }
    }
    Db::repair(copy.path(), repaired.path().expect("a directory"), options).expect("repair");
    let db = repaired.open(options, true).expect("open");
    Model::from_iter(contents(&db).expect("scan"))
}

#[test]
fn tables_are_ingested_and_exported() {
    let (place, options) = (Place::directory(), options(SMALL));
    let mut model = finished(&place, &options, 5);
    let folder = tempfile::tempdir().expect("a temporary directory");
    let db = place.open(&options, false).expect("open");
    let exported = db.export(folder.path(), ReadOptions::new()).expect("export");
    let other = Place::directory();
    let taken = other.open(&options, false).expect("open");
    taken.put(key(399), "overwritten by the ingest").expect("put");
    taken.put(b"other", "kept").expect("put");
    let paths: Vec<_> = exported.iter().map(|table| table.path.clone()).collect();
    taken.ingest(&paths).expect("ingest");
    model.insert(b"other".to_vec(), b"kept".to_vec());
    assert!(Model::from_iter(contents(&taken).expect("scan")) == model);
    assert!(!segments(&other)[1].is_empty(), "long values are in a segment");
    taken.close().expect("close");
    check(&other, &options);
}

/// Tests a repair without an intact format file, so that nothing records that values are
/// separated. The repair must detect this from the other files, and must not return a pointer as a
/// value.
#[test]
fn a_repair_without_format_file_takes_no_pointer_for_a_value() {
    for damage in [|path: &Path| fs::remove_file(path), |path: &Path| fs::write(path, "nonsense")] {
        let (place, options) = (Place::directory(), options(SMALL));
        let model = finished(&place, &options, 8);
        let path = place.path().expect("a directory");
        damage(&path.join("TERRACE")).expect("damage");
        let repaired = Place::directory();
        let to = repaired.path().expect("a directory");
        Db::repair(&path, &to, &Options::default()).expect("repair");
        let db = repaired.open(&Options::default(), true).expect("open");
        assert!(Model::from_iter(contents(&db).expect("scan")) == model, "every pair is what it was");
    }
}

/// Tests a repair after a failed sync. The write of a batch returned an error, but the batch is at
/// the end of the WAL, and later writes have the same sequence numbers. The repair must not bring
/// the batch back. The WAL still exists, because SSTables point to values in it.
#[test]
fn a_repair_revives_no_refused_batch() {
    let (small, options) = (SmallFs::new(Arc::new(Memory::new()), 64 << 20), options(SMALL));
    let (fs, mut rng): (Arc<dyn FileSystem>, _) = (Arc::new(small.clone()), Rng::new(9));
    let db = kit::open(&fs, &options, true).expect("open");
    let kept = value(&mut rng, 4096);
    (0..20).for_each(|number| db.put(key(number), &kept).expect("put"));
    small.leave(100);
    let refused = db.put(key(20), &kept).expect_err("there is no space");
    assert!(refused.is_no_space(), "{refused}");
    small.leave(64 << 20);
    db.resume().expect("resume");
    db.put(key(21), &kept).expect("put");
    db.wait_idle().expect("idle");
    db.close().expect("close");
    // Makes the state in which the device has stored the whole frame and then reported a failure.
    let log =
        fs.list().expect("list").into_iter().map(|file| file.name).find(|name| name.ends_with(".vlog")).expect("a log");
    let file = fs.open(&log).expect("open");
    let mut bytes = file.read_at(0, file.bytes().expect("size") as usize).expect("read");
    let number = log.trim_end_matches(".vlog").parse().expect("a number");
    let places = frames_of(number, &bytes);
    bytes.truncate(places.last().expect("a frame").1.end as usize);
    let mut batch = Batch::new();
    batch.put(&key(20), &kept);
    batch.set_sequence(SeqNo(21));
    Framer::new(number, Codec::None, 1, 512).frame(&batch, &mut bytes, |_, _| {});
    fs.remove(&log).expect("remove");
    fs.create(&log).and_then(|mut file| file.append(&bytes)).expect("write");
    for with_manifest in [true, false] {
        if !with_manifest {
            fs.remove("CURRENT").expect("remove");
            let names: Vec<_> = fs.list().expect("list").into_iter().map(|file| file.name).collect();
            names.iter().filter(|name| name.starts_with("MANIFEST")).for_each(|name| fs.remove(name).expect("remove"));
        }
        let to: Arc<dyn FileSystem> = kit::anywhere();
        let from = kit::storage(&fs, OpenMode::Salvage, &options).expect("open");
        terrace::repair_on(&*from, &*kit::storage(&to, OpenMode::Create, &options).expect("create"), &options)
            .expect("repair");
        let repaired = kit::open(&to, &options, true).expect("open");
        let found: Vec<_> = contents(&repaired).expect("scan").into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = (0..20).chain([21]).map(key).collect();
        assert!(found == expected, "with manifest: {with_manifest}: {} keys", found.len());
    }
}

/// Tests that large values of writes without WAL are written to segments when they are flushed.
#[test]
fn values_written_without_wal_are_separated_too() {
    let (place, options) = (Place::any(), options(SMALL));
    let (db, mut rng, mut model) = (place.open(&options, true).expect("open"), Rng::new(12), Model::new());
    for number in 0..200 {
        let (key, value) = (key(number), value(&mut rng, 4096));
        let mut batch = WriteBatch::new();
        batch.put(&key, &value);
        db.write(batch, WriteOptions::without_wal()).expect("write");
        model.insert(key, value);
    }
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let tables: u64 = db.layout().iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
    assert!(tables < 40_000, "tables have {tables} bytes");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model);
    db.close().expect("close");
    check(&place, &options);
}

/// Tests that a WAL into which no table points keeps no descriptor open. It may still exist for
/// followers.
#[test]
fn wals_without_large_values_are_closed() {
    let (place, options) = (Place::directory(), options(&[SMALL, &[("wal_size_limit", "1GiB")]].concat()));
    let db = place.open(&options, true).expect("open");
    (0..20_000).for_each(|number| db.put(key(number), "small").expect("put"));
    db.flush().expect("flush");
    db.wait_idle().expect("idle");
    let logs = segments(&place)[0].len();
    let path = place.path().expect("a directory");
    let held = |entry: fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to.starts_with(&path));
    let open = fs::read_dir("/proc/self/fd")
        .expect("descriptors")
        .filter_map(Result::ok)
        .map(held)
        .filter(|held| *held)
        .count();
    assert!(logs > 10 && open < 10, "{open} descriptors, {logs} logs");
    db.close().expect("close");
}

#[test]
fn directories_are_refused_by_name() {
    let (place, asked) = (Place::any(), options(&[("values", "log"), ("tables", "directory")]));
    let refused = place.open(&asked, true).map(drop).expect_err("values have files of their own already").to_string();
    assert!(refused.contains("values=log") && refused.contains("tables=directory"), "{refused}");
    assert_eq!(place.fs.list().expect("list").len(), 0, "a refused creation leaves no file");
}
