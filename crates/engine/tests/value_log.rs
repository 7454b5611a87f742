//! Values in the log: each is written once, segments go when they are garbage, and what is alive in them survives that.
#[path = "common/kit.rs"]
mod kit;

use kit::{Model, Place, contents, options};
use std::time::{Duration, Instant};
use std::{fs, ops::Range, path::Path, sync::Arc};
use terrace::{Codec, Db, Options, ReadOptions, WriteBatch, WriteOptions, check_on};
use terrace_format::{
    Batch, SeqNo,
    log_record::Event,
    value_log::{Framer, Frames},
};
use terrace_sim::{Rng, SmallFs};
use terrace_storage::{Memory, backends::files::fs::FileSystem, placement::Mode};

/// One hundredth of usual sizes.
const SMALL: &[(&str, &str)] = &[
    ("values", "log"),
    ("memtable_bytes", "64KiB"),
    ("table_bytes", "64KiB"),
    ("level_base_bytes", "128KiB"),
    ("segment_bytes", "512KiB"),
    ("durability", "background"),
    ("batch_interval_ms", "0"),
    ("compression", "none"),
];

fn key(number: usize) -> Vec<u8> {
    format!("{number:016}").into_bytes()
}

fn value(rng: &mut Rng, bytes: usize) -> Vec<u8> {
    (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

/// Bytes written for each purpose, and their sum.
fn written(db: &Db) -> (Vec<(&'static str, u64)>, u64) {
    let bytes = db.statistics().bytes_written;
    let sum = bytes.iter().map(|(_, bytes)| bytes).sum();
    (bytes, sum)
}

fn stored_bytes(place: &Place) -> u64 {
    place.fs.list().expect("list").iter().map(|entry| entry.bytes).sum()
}

fn check(place: &Place, options: &Options) {
    let placement = kit::placement(&place.fs, Mode::ReadOnly, options).expect("open read-only");
    let report = check_on(&*placement, options, true).expect("check");
    assert_eq!(report.problems, Vec::<String>::new());
    assert_eq!(report.leftovers, Vec::<String>::new());
}

/// 16-byte keys in a random order: what is written is the values and little more.
#[test]
fn a_fill_writes_values_once() {
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

#[test]
fn garbage_is_collected_and_nothing_else() {
    uniform_changes("segments", 1.35);
}

/// Behind a compaction by hand of everything no table points into a log, where values lie as they were written; the next one moves none.
/// One of a part leaves them.
#[test]
fn a_compaction_of_everything_puts_values_in_order() {
    let (place, options) = (Place::any(), options(SMALL));
    let db = place.open(&options, true).expect("open");
    let (mut rng, mut model) = (Rng::new(10), Model::new());
    for _ in 0..2000 {
        let (key, value) = (key(rng.below(1 << 40)), value(&mut rng, 1024));
        db.put(&key, &value).expect("put");
        model.insert(key, value);
    }
    let moved = || written(&db).0.into_iter().find(|(purpose, _)| *purpose == "collection").expect("a purpose").1;
    let middle = key(1 << 39);
    db.compact_range(None, Some(&middle)).expect("compact");
    assert_eq!(moved(), 0, "a part of the keys");
    db.compact_range(None, None).expect("compact");
    let once = moved();
    let all: usize = model.values().map(Vec::len).sum();
    assert!(once >= all as u64 && once < all as u64 / 10 * 12, "UNSORTED: {once} of {all} bytes were moved");
    db.compact_range(None, None).expect("compact");
    assert_eq!(moved(), once, "they lie in order already");
    db.wait_idle().expect("idle");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "every value is found");
    db.close().expect("close");
    assert!(segments(&place)[0].len() <= 2, "logs stay: {:?}", segments(&place)[0]);
    check(&place, &options);
}

/// Segments that compactions write are no longer than logs are.
#[test]
fn moved_values_fill_many_segments() {
    const MAX: u64 = 64 << 10;
    let more =
        [("segment_bytes", "64KiB"), ("garbage_percent", "1"), ("memtable_bytes", "4MiB"), ("table_bytes", "4MiB")];
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

/// What tables still point to after the tail was put again goes with the next look at them.
#[test]
fn so_it_is_from_the_tail() {
    uniform_changes("tail", 1.35);
}

/// Uniform overwrites and deletes, many times the size of the store, which settles at `space_max` times the live data.
fn uniform_changes(collection: &str, space_max: f64) {
    let (place, options) = (Place::any(), options(&[SMALL, &[("collection", collection)]].concat()));
    let (mut rng, mut model) = (Rng::new(2), Model::new());
    let mut db = place.open(&options, true).expect("open");
    let before = {
        for number in 0..2000 {
            let value = value(&mut rng, 1024);
            db.put(key(number), &value).expect("put");
            model.insert(key(number), value);
        }
        db.snapshot()
    };
    let first = model.clone();
    let mut user = 0;
    for round in 0..20_000 {
        let key = key(rng.below(2000));
        if rng.chance(1, 5) {
            db.delete(&key).expect("delete");
            model.remove(&key);
        } else {
            let value = value(&mut rng, 1024);
            user += (key.len() + value.len()) as u64;
            db.put(&key, &value).expect("put");
            model.insert(key, value);
        }
        if round == 3000 {
            let old = db.scan(ReadOptions::new().snapshot(&before)).collect::<terrace::Result<Model>>().expect("scan");
            assert!(old == first, "collection moves what a snapshot sees, and changes nothing of it");
        }
        if round == 6000 {
            drop(db);
            db = place.open(&options, true).expect("reopen after a kill");
            user = 0;
        }
        while rng.chance(1, 3) && db.step(rng.next_u64()).is_some() {}
    }
    drop(before);
    db.flush().expect("flush");
    db.compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    let (by_purpose, all) = written(&db);
    let live: u64 = model.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    let space = stored_bytes(&place) as f64 / live as f64;
    println!(
        "overwrites of 1 KiB, {collection}: WA1 {:.2} since the kill, {by_purpose:?}; space {space:.2}",
        all as f64 / user as f64
    );
    let did = db.statistics().value_log;
    assert_eq!(did.put_again_bytes > 0, collection == "tail", "{did:?}");
    assert!(space < space_max, "{space} times the live data");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "the contents are the map's");
    db.close().expect("close");
    check(&place, &options);
}

/// Whoever overwrites or deletes a key while the tail collector puts its value again has the last word.
#[test]
fn the_tail_collector_revives_nothing() {
    let (place, options) =
        (Place::any(), options(&[SMALL, &[("collection", "tail"), ("garbage_percent", "1")]].concat()));
    let db = place.open(&options, false).expect("open");
    let (mut rng, mut model) = (Rng::new(6), Model::new());
    let mut rounds = 0;
    while rounds < 3 || db.statistics().value_log.put_again_bytes < 16 << 20 {
        for _ in 0..4000 {
            let key = key(rng.below(1000));
            if rng.chance(1, 2) {
                db.delete(&key).expect("delete");
                model.remove(&key);
            } else {
                let value = value(&mut rng, 2048);
                db.put(&key, &value).expect("put");
                model.insert(key, value);
            }
        }
        // One scan: where something is undone, a second one would differ before this test could say what it is.
        let found = db.scan(ReadOptions::new()).collect::<terrace::Result<Model>>().expect("scan");
        let differs = |key: &&Vec<u8>| found.get(*key) != model.get(*key);
        let wrong = found.keys().chain(model.keys()).filter(differs).count();
        assert_eq!(wrong, 0, "keys whose last write was undone, round {rounds}");
        rounds += 1;
    }
    db.close().expect("close");
    // What was under way is gone with the next opening.
    place.open(&options, true).expect("open").close().expect("close");
    check(&place, &options);
}

/// The DeLSM paper's three stages with uniform keys: all are put, a share is deleted, all are put once more. Each stage settles.
#[test]
fn write_delete_write_costs_what_is_moved() {
    for (bytes, pairs, limit) in [(4096, 4000, 2.0), (512, 16_000, 2.6)] {
        for share in [10, 50, 90] {
            let [tail, segments] = ["tail", "segments"].map(|collection| three_stages(collection, bytes, pairs, share));
            let ratio = tail.stages[1] / segments.stages[1];
            println!(
                "{bytes} B, {share} % deleted: tail {tail:.2?}, segments {segments:.2?}; deletes {ratio:.1} times"
            );
            assert!(segments.overall <= limit && segments.space <= 1.25, "{segments:?}");
        }
    }
}

/// Bytes written for each of the user's, by stages and in all; and bytes stored for each that is alive in the end.
#[derive(Debug)]
struct Stages {
    stages: [f64; 3],
    overall: f64,
    space: f64,
}

fn three_stages(collection: &str, bytes: usize, pairs: usize, share: usize) -> Stages {
    let (place, options) = (Place::any(), options(&[SMALL, &[("collection", collection)]].concat()));
    let db = place.open(&options, true).expect("open");
    let mut rng = Rng::new(7);
    let (mut stages, mut user_bytes, mut before) = ([0.0; 3], 0, 0);
    for (stage, amplification) in stages.iter_mut().enumerate() {
        let mut order: Vec<usize> = (0..pairs).collect();
        (1..pairs).rev().for_each(|at| order.swap(at, rng.below(at + 1)));
        order.truncate(if stage == 1 { pairs * share / 100 } else { pairs });
        for number in &order {
            match stage {
                1 => db.delete(key(*number)).expect("delete"),
                _ => db.put(key(*number), value(&mut rng, bytes)).expect("put"),
            };
            while rng.chance(1, 2) && db.step(rng.next_u64()).is_some() {}
        }
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
        let (_, all) = written(&db);
        let user = order.len() * (16 + if stage == 1 { 0 } else { bytes });
        *amplification = (all - before) as f64 / user as f64;
        (user_bytes, before) = (user_bytes + user, all);
    }
    let space = stored_bytes(&place) as f64 / (pairs * (16 + bytes)) as f64;
    db.close().expect("close");
    check(&place, &options);
    Stages { stages, overall: before as f64 / user_bytes as f64, space }
}

/// Values above and below the threshold, overwritten and deleted, in a directory; closed.
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

/// Segments of each kind.
fn segments(place: &Place) -> [Vec<String>; 2] {
    let names: Vec<String> = place.fs.list().expect("list").into_iter().map(|entry| entry.name).collect();
    [".vlog", ".vals"].map(|kind| names.iter().filter(|name| name.ends_with(kind)).cloned().collect())
}

#[test]
fn a_checkpoint_has_the_segments_too() {
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

/// One segment is gone, another damaged: what lies elsewhere is there, what is lost is told with its file.
#[test]
fn a_repair_saves_what_can_be_read() {
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
fn a_read_names_the_segment_that_is_gone_and_the_place_in_it() {
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

/// Tables that point to moved values are gone; the values say themselves whose they are and since when.
#[test]
fn a_repair_finds_moved_values_whose_tables_are_lost() {
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
        assert!(in_logs > 10, "with manifest: {with_manifest}: only {in_logs} values were moved");
        assert_eq!(missing(repaired_without(&path, &options, lost)), 0, "with manifest: {with_manifest}");
    }
}

/// What a repair makes of a copy of the store in `path` that has lost some files.
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
fn tables_from_outside_come_in_and_go_out() {
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

/// A marker that is lost or damaged says nothing of pointers; the files do.
#[test]
fn a_repair_without_a_marker_takes_no_pointer_for_a_value() {
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

/// A refused batch lies at the end of a log, whose segment stays because tables point into it; its sequences were used again.
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
    // As if the device had taken the frame whole and failed then.
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
        let from = kit::placement(&fs, Mode::Salvage, &options).expect("open");
        terrace::repair_on(&*from, &*kit::placement(&to, Mode::Create, &options).expect("create"), &options)
            .expect("repair");
        let repaired = kit::open(&to, &options, true).expect("open");
        let found: Vec<_> = contents(&repaired).expect("scan").into_iter().map(|(key, _)| key).collect();
        let expected: Vec<_> = (0..20).chain([21]).map(key).collect();
        assert!(found == expected, "with manifest: {with_manifest}: {} keys", found.len());
    }
}

/// Sequence and place of each frame's entries.
fn frames_of(segment: u64, bytes: &[u8]) -> Vec<(SeqNo, Range<u64>)> {
    let mut frames = Frames::new(segment, bytes.len() as u64);
    let mut found = Vec::new();
    loop {
        let read = |offset: u64, buf: &mut [u8]| {
            buf.copy_from_slice(&bytes[offset as usize..offset as usize + buf.len()]);
            Ok::<_, terrace::Error>(())
        };
        let Ok(Event::Record { bytes, .. }) = frames.next(read) else { return found };
        let places = frames.places();
        let (Some(first), Some(last)) = (places.first(), places.last()) else { continue };
        found.push((Batch::decode(bytes).expect("a batch").sequence(), first.start..last.end));
    }
}

/// One value is damaged: whoever reads it is told where it lies, and neither writers nor the collector stop for it.
#[test]
fn a_value_that_cannot_be_read_stops_nobody() {
    for collection in ["segments", "tail"] {
        let (place, options) = (Place::directory(), options(&[SMALL, &[("collection", collection)]].concat()));
        let (mut rng, path) = (Rng::new(10), place.path().expect("a directory"));
        let db = place.open(&options, true).expect("open");
        (0..1000).for_each(|number| db.put(key(number), value(&mut rng, 2048)).expect("put"));
        db.wait_idle().expect("idle");
        db.close().expect("close");
        let log = segments(&place)[0][0].clone();
        let mut bytes = fs::read(path.join(&log)).expect("read");
        let (seq, at) = frames_of(log.trim_end_matches(".vlog").parse().expect("a number"), &bytes)[7].clone();
        bytes[at.end as usize - 9] ^= 1;
        fs::write(path.join(&log), &bytes).expect("write");
        let damaged = seq.0 as usize - 1;
        let db = place.open(&options, true).expect("open");
        for round in 0..4 {
            for number in (0..1000).filter(|number| *number != damaged && number % 4 == round) {
                db.put(key(number), value(&mut rng, 2048)).expect("put");
            }
            db.flush().expect("flush");
            db.wait_idle().expect("idle");
        }
        let told = db.get(key(damaged)).expect_err("it is damaged").to_string();
        assert!(told.contains(&log) && told.contains("at byte"), "{told}");
        let value_log = db.statistics().value_log;
        assert_eq!(value_log.spared, 1, "{value_log:?}");
        assert!(
            value_log.bytes < 5 * value_log.live_bytes / 4 + (512 << 10),
            "all others are collected: {value_log:?}"
        );
        db.close().expect("close");
    }
}

/// Collecting takes space before it gives some: where there is none nothing else stops, and where there is again it goes on.
#[test]
fn a_full_disk_starves_only_the_collector() {
    ["segments", "tail"].into_iter().for_each(starved_by_a_full_disk);
}

fn starved_by_a_full_disk(collection: &str) {
    let options = options(&[SMALL, &[("compactions_max", "2"), ("collection", collection)]].concat());
    let small = SmallFs::new(kit::anywhere(), 64 << 20);
    let (fs, mut rng): (Arc<dyn FileSystem>, _) = (Arc::new(small.clone()), Rng::new(11));
    let db = kit::open(&fs, &options, true).expect("open");
    (0..2000).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    (0..2000).step_by(2).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    db.flush().expect("flush");
    small.leave(if collection == "tail" { 150 << 10 } else { 300 << 10 });
    db.wait_idle().expect("idle");
    let garbage = || {
        let value_log = db.statistics().value_log;
        100 * (value_log.bytes - value_log.live_bytes) / value_log.bytes
    };
    assert!(garbage() > 20, "{collection}: {}", garbage());
    db.put(key(0), "small").expect("there is space for that");
    assert!(db.get(key(1)).expect("get").is_some_and(|value| value.len() == 1024));
    db.compact_range(None, None).expect("there is space for keys, and values stay where they are");
    small.leave(64 << 20);
    db.put(key(3), "small").expect("put");
    db.flush().expect("flush");
    db.compact_range(None, None).expect("compact");
    db.wait_idle().expect("idle");
    assert!(garbage() <= 20, "{collection}: {}", garbage());
    assert_eq!(contents(&db).expect("scan").len(), 2000);
    db.close().expect("close");
}

/// One entry hides them all, and lies above them where nothing else makes it sink: so a store at rest sees to it.
#[test]
fn a_deleted_range_is_garbage() {
    let changes: &[_] = &[("range_deletes", "true"), ("durability_interval_ms", "100")];
    let (place, options) = (Place::any(), options(&[SMALL, changes].concat()));
    let mut rng = Rng::new(16);
    let db = place.open(&options, false).expect("open");
    (0..2000).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    db.compact_range(None, None).expect("compact");
    db.delete_range(key(0), key(1600), WriteOptions::default()).expect("delete");
    db.close().expect("close"); // so that it has to be looked for in a table
    let db = place.open(&options, false).expect("open");
    let (begin, bytes) = (Instant::now(), || db.statistics().value_log.bytes);
    while bytes() > 600 << 10 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(bytes() <= 600 << 10, "400 KiB are alive, {} bytes are there", bytes());
    assert_eq!(contents(&db).expect("scan").len(), 400);
    db.close().expect("close");
}

/// What was written without a log is in segments once it is flushed.
#[test]
fn values_without_a_log_are_apart_too() {
    let (place, options) = (Place::any(), options(SMALL));
    let (db, mut rng, mut model) = (place.open(&options, true).expect("open"), Rng::new(12), Model::new());
    for number in 0..200 {
        let (key, value) = (key(number), value(&mut rng, 4096));
        let mut batch = WriteBatch::new();
        batch.put(&key, &value);
        db.write_unlogged(batch).expect("write");
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

/// A log that tables need not point into, but that is kept for those who follow the history, holds no descriptor.
#[test]
fn logs_without_large_values_are_closed() {
    let (place, options) = (Place::directory(), options(&[SMALL, &[("log_keep_bytes", "1GiB")]].concat()));
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
    assert_eq!(place.fs.list().expect("list").len(), 0, "nothing is made of what is refused");
}

/// Overwritten and put again, or moved: what a snapshot saw it sees still, however often everything is collected meanwhile.
#[test]
fn collection_takes_nothing_from_a_snapshot() {
    for collection in ["tail", "segments"] {
        let changes: &[_] = &[("collection", collection), ("garbage_percent", "1")];
        let (place, options) = (Place::any(), options(&[SMALL, changes].concat()));
        let (db, mut rng) = (place.open(&options, true).expect("open"), Rng::new(14));
        let mut put_all = |share: usize| {
            for number in 0..1000 {
                if number % share == 0 {
                    db.put(key(number), value(&mut rng, 1024)).expect("put");
                }
            }
            db.flush().expect("flush");
            db.wait_idle().expect("idle");
        };
        put_all(1);
        put_all(3);
        let (first, before) = (contents(&db).expect("scan"), db.snapshot());
        let collected = || {
            let moved =
                written(&db).0.iter().filter(|(purpose, _)| *purpose == "collection").map(|(_, bytes)| *bytes).sum();
            if collection == "tail" { db.statistics().value_log.put_again_bytes } else { moved }
        };
        let already = collected();
        [2, 5, 2, 7, 1, 3, 2].into_iter().for_each(&mut put_all);
        println!("{collection}: {already} bytes collected before the snapshot, {} in all", collected());
        assert!(collected() > already, "{collection}: nothing was collected under the snapshot");
        let seen: terrace::Result<Vec<_>> = db.scan(ReadOptions::new().snapshot(&before)).collect();
        assert!(seen.expect("scan") == first, "{collection}: a snapshot lost something");
    }
}

/// Its memtable points into a log that no table needs any more when the scan comes to read the values.
#[test]
fn collection_takes_nothing_from_a_scan_of_a_memtable() {
    let changes: &[_] = &[("garbage_percent", "1"), ("memtable_bytes", "1MiB")];
    let (place, options) = (Place::any(), options(&[SMALL, changes].concat()));
    let (db, mut rng) = (place.open(&options, true).expect("open"), Rng::new(15));
    let mut put_all = || (0..1000).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    put_all();
    let scan = db.scan(ReadOptions::new());
    let (expected, [first, _]) = (contents(&db).expect("scan"), segments(&place));
    for _ in 0..4 {
        put_all();
        db.flush().expect("flush");
        db.wait_idle().expect("idle");
    }
    println!("{first:?} at first, {:?} now", segments(&place));
    let seen: terrace::Result<Vec<_>> = scan.collect();
    assert!(seen.expect("scan") == expected, "the scan saw something else");
    db.wait_idle().expect("idle");
    assert!(!segments(&place)[0].contains(&first[0]), "nobody needs the first log now");
}
