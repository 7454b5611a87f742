//! Values in the log: each is written once, segments go when they are garbage, and what is alive in them survives that.
#[path = "common/kit.rs"]
mod kit;

use kit::{Model, Place, contents, options};
use terrace::{Db, Options, ReadOptions, check_on};
use terrace_sim::Rng;
use terrace_storage::placement::Mode;

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
    let (place, options) = (Place::memory(), options(SMALL));
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

/// Uniform overwrites and deletes, many times the size of the store.
#[test]
fn garbage_is_collected_and_nothing_else() {
    let (place, options) = (Place::memory(), options(SMALL));
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
        "overwrites of 1 KiB: WA1 {:.2} since the kill, {by_purpose:?}; space {space:.2}",
        all as f64 / user as f64
    );
    assert!(space < 1.35, "{space} times the live data");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "the contents are the map's");
    db.close().expect("close");
    check(&place, &options);
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

#[test]
fn bundles_and_directories_are_refused_by_name() {
    for tables in ["bundled", "directory"] {
        let place = Place::memory();
        let refused = place.open(&options(&[("values", "log"), ("tables", tables)]), true).map(drop).expect_err(tables);
        let text = refused.to_string();
        assert!(text.contains("values=log") && text.contains(&format!("tables={tables}")), "{text}");
        assert_eq!(place.fs.list().expect("list").len(), 0, "nothing is made of what is refused");
    }
}
