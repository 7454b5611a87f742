//! Tests of value-log garbage collection (GC): its cost, the data that it must not change, and the
//! conditions under which it stops.
use crate::common::{kit, separated};
use kit::{Model, Place, contents, options};
use separated::{SMALL, check, frames_of, key, segments, value, written, written_for};
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use terrace::{ReadOptions, WriteOptions};
use terrace_sim::{Rng, SmallFs};
use terrace_storage::backends::files::fs::FileSystem;

fn stored_bytes(place: &Place) -> u64 {
    place.fs.list().expect("list").iter().map(|entry| entry.bytes).sum()
}

/// Makes a store of 2000 values in `place`, with GC switched off, and overwrites half of them.
fn leave_garbage(place: &Place, seed: u64) {
    let mut rng = Rng::new(seed);
    let db = place.open(&options(&[SMALL, &[("value_log_gc", "off")]].concat()), true).expect("open");
    for number in (0..2000).chain((0..2000).step_by(2)) {
        db.put(key(number), value(&mut rng, 1024)).expect("put");
    }
    db.flush().expect("flush");
    db.close().expect("close");
}

#[test]
fn gc_reclaims_garbage_and_nothing_else() {
    uniform_changes("segments", 1.35);
}

/// Tests a full compaction that adds GC victims (segments that GC empties) while a table is being
/// rewritten because of earlier victims. GC must not treat the values that are still in the new
/// victims as unreadable.
#[test]
fn a_full_compaction_collects_all_garbage() {
    let place = Place::any();
    leave_garbage(&place, 18);
    let slow = options(&[SMALL, &[("rate_bytes_per_sec", "2MiB")]].concat());
    let db = place.open(&slow, false).expect("open");
    let moved = || written_for(&db, "collection");
    std::thread::scope(|scope| {
        let idle = scope.spawn(|| db.wait_idle());
        let begin = Instant::now();
        while moved() == 0 && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        db.compact_range(None, None).expect("compact");
        idle.join().expect("joined").expect("idle");
    });
    db.wait_idle().expect("idle");
    let value_log = db.statistics().value_log;
    assert_eq!(value_log.spared, 0, "{value_log:?}");
    db.close().expect("close");
    assert!(segments(&place)[0].len() <= 2, "logs stay: {:?}", segments(&place)[0]);
    check(&place, &slow);
}

/// Tests that tail GC reclaims all garbage of a history of random overwrites and deletes. After
/// tail GC has re-appended a value, a table may still point to the old copy of the value. The next
/// pass of tail GC must then reclaim the space of the old copy.
#[test]
fn tail_gc_collects_all_garbage() {
    uniform_changes("tail", 1.35);
}

/// Overwrites and deletes random keys with the GC mode `collection`, until many times the size of
/// the store is written. Asserts that the store then takes at most `space_max` times the size of
/// the live data.
fn uniform_changes(collection: &str, space_max: f64) {
    let changes = [("value_log_gc", collection), ("reserve_bytes", "0")]; // it would count as space
    let (place, options) = (Place::any(), options(&[SMALL, &changes].concat()));
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
    assert_eq!(did.relocated_bytes > 0, collection == "tail", "{did:?}");
    assert!(space < space_max, "{space} times the live data");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "the contents are the map's");
    db.close().expect("close");
    check(&place, &options);
}

/// The count of pairs in the tests with LevelDB's level sizes. With so many pairs, at least half
/// of the data is above the deepest level.
const DEEP_PAIRS: usize = 40_000;
const DEEP: &[(&str, &str)] = &[
    ("max_bytes_for_level_base", "64KiB"),
    ("level_compaction_dynamic_level_bytes", "false"),
    ("value_log_threshold", "16"),
];

/// Tests that GC reclaims shadowed values under load. Old entries in deep levels refer to these
/// values, and newer entries in upper levels shadow the old ones. No reference count shows this
/// garbage until a compaction merges the two entries. So GC must start such compactions even in a
/// store that receives writes all the time.
#[test]
fn shadowed_values_are_collected_under_load() {
    let (place, options) = (Place::any(), options(&[SMALL, DEEP].concat()));
    let (db, mut rng, mut model) = (place.open(&options, true).expect("open"), Rng::new(20), Model::new());
    let (mut most, mut user) = (0.0_f64, 0);
    for round in 0..6 * DEEP_PAIRS {
        let reach = 1 + rng.below(DEEP_PAIRS);
        let number = if round < DEEP_PAIRS { round } else { rng.below(reach) };
        let value = value(&mut rng, 100);
        db.put(key(number), &value).expect("put");
        model.insert(key(number), value);
        user += 116;
        while round % 64 == 0 && db.step(0).is_some() {}
        if round > 3 * DEEP_PAIRS && round % 500 == 0 {
            most = most.max(stored_bytes(&place) as f64 / (DEEP_PAIRS * 116) as f64);
        }
    }
    let (by_purpose, all) = written(&db);
    let cost = all as f64 / f64::from(user);
    println!("skewed updates: {most:.2} times the live data at most, WA1 {cost:.2}, {by_purpose:?}");
    assert!(most < 2.4, "{most} times the live data");
    assert!(cost < 6.0, "{cost} bytes for each of the user's");
    assert!(Model::from_iter(contents(&db).expect("scan")) == model, "the contents are the map's");
    db.close().expect("close");
    check(&place, &options);
}

#[test]
fn tables_that_shadow_nothing_are_not_compacted_for_gc() {
    let compacted = |collection: &str| {
        let options = options(&[SMALL, DEEP, &[("value_log_gc", collection)]].concat());
        let (db, mut rng) = (Place::any().open(&options, true).expect("open"), Rng::new(21));
        for number in 0..DEEP_PAIRS {
            db.put(key(number * 7919 % DEEP_PAIRS), value(&mut rng, 100)).expect("put");
            while number % 64 == 0 && db.step(0).is_some() {}
        }
        written_for(&db, "compaction")
    };
    let [without, with] = ["off", "segments"].map(compacted);
    println!("a fill compacts {without} bytes, and {with} with a collector");
    assert!(without > 1 << 20 && with <= without + without / 10, "{with} bytes, and {without} without a collector");
}

/// Tests keys that are overwritten or deleted while tail GC re-appends their values. Readers must
/// see the overwrite or delete, not the re-appended value.
#[test]
fn tail_gc_revives_nothing() {
    let (place, options) =
        (Place::any(), options(&[SMALL, &[("value_log_gc", "tail"), ("value_log_gc_percent", "1")]].concat()));
    let db = place.open(&options, false).expect("open");
    let (mut rng, mut model) = (Rng::new(6), Model::new());
    let mut rounds = 0;
    while rounds < 3 || db.statistics().value_log.relocated_bytes < 16 << 20 {
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
        // Each round makes only one scan. A wrong state may be temporary, and a second scan could
        // then miss it.
        let found = db.scan(ReadOptions::new()).collect::<terrace::Result<Model>>().expect("scan");
        let differs = |key: &&Vec<u8>| found.get(*key) != model.get(*key);
        let wrong = found.keys().chain(model.keys()).filter(differs).count();
        assert_eq!(wrong, 0, "keys whose last write was undone, round {rounds}");
        rounds += 1;
    }
    db.close().expect("close");
    // The next open drops the state of a garbage collection that did not finish.
    place.open(&options, true).expect("open").close().expect("close");
    check(&place, &options);
}

/// Tests the cost of the three stages of the DeLSM paper's experiment, with random keys: all keys
/// are written, a part of them is deleted, and all are written again. After each stage the test
/// waits until the store is idle.
#[test]
fn write_delete_write_costs_only_relocation() {
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

/// The write amplification of each stage and of all stages together, and the space amplification
/// after the last stage.
#[derive(Debug)]
struct Stages {
    stages: [f64; 3],
    overall: f64,
    space: f64,
}

fn three_stages(collection: &str, bytes: usize, pairs: usize, share: usize) -> Stages {
    let (place, options) = (Place::any(), options(&[SMALL, &[("value_log_gc", collection)]].concat()));
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

/// Tests a store with one damaged value. A read of this value must report its location, and
/// neither writers nor GC may stop because of it.
#[test]
fn an_unreadable_value_stops_neither_writes_nor_gc() {
    for collection in ["segments", "tail"] {
        let (place, options) = (Place::directory(), options(&[SMALL, &[("value_log_gc", collection)]].concat()));
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
        let reported = db.get(key(damaged)).expect_err("it is damaged").to_string();
        assert!(reported.contains(&log) && reported.contains("at byte"), "{reported}");
        let value_log = db.statistics().value_log;
        assert_eq!(value_log.spared, 1, "{value_log:?}");
        assert!(
            value_log.bytes < 5 * value_log.live_bytes / 4 + (512 << 10),
            "all others are collected: {value_log:?}"
        );
        db.close().expect("close");
    }
}

/// Tests a damaged table that points into the oldest segments. Tail GC must skip these segments,
/// and no other work may stop.
#[test]
fn an_unreadable_table_does_not_stop_gc() {
    let place = Place::directory();
    let options = options(&[SMALL, &[("value_log_gc", "tail"), ("tables", "block")]].concat());
    let (mut rng, path) = (Rng::new(17), place.path().expect("a directory"));
    let db = place.open(&options, true).expect("open");
    for number in 0..5000 {
        db.put(key(number), value(&mut rng, 600)).expect("put");
        db.put(key(5000 + number), value(&mut rng, 600)).expect("put");
    }
    db.compact_range(None, None).expect("compact");
    let table = db.layout().iter().flat_map(|level| &level.tables).next().expect("a table").number;
    db.close().expect("close");
    damage(&path.join(format!("{table:06}.ldb")));
    let db = place.open(&options, true).expect("open");
    // The tables of these puts overlap tables that are intact.
    (7000..10_000).for_each(|number| db.put(key(number), value(&mut rng, 600)).expect("put"));
    db.compact_range(Some(&key(7000)), None).expect("compact");
    db.wait_idle().expect("idle");
    let reported = db.get(key(0)).expect_err("it is damaged").to_string();
    assert!(reported.contains("checksum"), "{reported}");
    db.put(key(0), "new").expect("writes continue");
    assert!(db.statistics().value_log.spared > 0, "{:?}", db.statistics().value_log);
    db.close().expect("close");
}

fn damage(file: &Path) {
    let mut bytes = fs::read(file).expect("read");
    bytes[200] ^= 1;
    fs::write(file, &bytes).expect("write");
}

/// Tests a damaged table whose entries are shadowed by newer entries. Reads of the newer entries
/// do not need the damaged table. Neither writes nor background work may stop because of it.
#[test]
fn damage_under_shadowing_entries_stops_nothing() {
    let place = Place::directory();
    let options = options(&[SMALL, DEEP, &[("value_log_gc_percent", "5"), ("tables", "block")]].concat());
    let (mut rng, path) = (Rng::new(22), place.path().expect("a directory"));
    let db = place.open(&options, true).expect("open");
    (0..10_000).for_each(|number| db.put(key(number), value(&mut rng, 100)).expect("put"));
    db.compact_range(None, None).expect("compact");
    let deep: Vec<u64> = db.layout().iter().flat_map(|level| &level.tables).map(|table| table.number).collect();
    db.close().expect("close");
    damage(&path.join(format!("{:06}.ldb", deep[0])));
    let db = place.open(&options, true).expect("open");
    (0..1500).for_each(|number| db.put(key(number), value(&mut rng, 100)).expect("put"));
    db.wait_idle().expect("idle");
    db.put(key(0), "new").expect("writes continue");
    let levels = db.layout();
    let above = levels.iter().flat_map(|level| &level.tables).filter(|table| !deep.contains(&table.number)).count();
    assert!(above > 0, "no entry shadows the damage: {levels:?}");
    assert_eq!(db.get(key(1400)).expect("get").map(|value| value.len()), Some(100));
    db.close().expect("close");
}

/// Tests GC on a full disk. GC needs space before it frees space. If there is too little, only GC
/// may stop. When there is space again, GC must continue.
#[test]
fn a_full_disk_stops_only_gc() {
    ["segments", "tail"].into_iter().for_each(starved_by_a_full_disk);
}

fn starved_by_a_full_disk(collection: &str) {
    let options = options(&[SMALL, &[("max_background_compactions", "2"), ("value_log_gc", collection)]].concat());
    let small = SmallFs::new(kit::anywhere(), 64 << 20);
    let (fs, mut rng): (Arc<dyn FileSystem>, _) = (Arc::new(small.clone()), Rng::new(11));
    let db = kit::open(&fs, &options, true).expect("open");
    (0..2000).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    (0..2000).step_by(2).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    db.flush().expect("flush");
    small.leave(612 << 10); // for one segment and little more
    db.wait_idle().expect("idle");
    let garbage = || {
        let value_log = db.statistics().value_log;
        100 * (value_log.bytes - value_log.live_bytes) / value_log.bytes
    };
    assert!(garbage() > 20, "{collection}: {}", garbage());
    (0..400).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("there is space for that"));
    assert_eq!(small.refused(), 0, "{collection}: a writer might have found it full");
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

/// Tests that GC in an idle store leaves less garbage than GC under load. It must also remove
/// garbage that no reference count shows yet.
#[test]
fn an_idle_store_keeps_less_garbage() {
    let (place, mut rng) = (Place::any(), Rng::new(24));
    let db = place.open(&options(&[SMALL, &[("value_log_gc", "off")]].concat()), true).expect("open");
    let mut put = |numbers: &mut dyn Iterator<Item = usize>| {
        numbers.for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
        db.flush().expect("flush");
        db.statistics().value_log.bytes
    };
    let alive = put(&mut (0..2000));
    let all = put(&mut (0..2000).step_by(6));
    assert_eq!(100 * (all - alive) / all, 14, "below the limit of 20");
    db.close().expect("close");
    let db = place.open(&options(SMALL), false).expect("open");
    db.wait_idle().expect("idle");
    let left = db.statistics().value_log.bytes;
    let known = left - db.statistics().value_log.live_bytes;
    assert!(100 * (left - alive) <= 12 * left, "RESTS with {left} bytes, of which {alive} are alive");
    assert!(100 * known <= 12 * left, "KNOWS of {known} bytes of garbage in {left}");
    assert_eq!(contents(&db).expect("scan").len(), 2000);
    db.close().expect("close");
}

/// Tests a store that cannot find out the free space of its disk. A compaction that runs out of
/// space for relocated values must start again without relocation.
#[test]
fn without_known_free_space_values_are_not_relocated() {
    let options = options(&[SMALL, &[("value_log_gc", "segments")]].concat());
    let small = SmallFs::new(kit::anywhere(), 64 << 20);
    let (fs, mut rng): (Arc<dyn FileSystem>, _) = (Arc::new(small.clone()), Rng::new(23));
    let db = kit::open(&fs, &options, true).expect("open");
    (0..2000).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    db.flush().expect("flush");
    small.hide_free_bytes();
    small.leave(256 << 10);
    db.compact_range(None, None).expect("values stay where they are");
    assert!(small.refused() > 0, "it was to find the disk full");
    small.leave(64 << 20);
    db.put(key(1), "new").expect("writes continue");
    assert_eq!(contents(&db).expect("scan").len(), 2000);
    db.close().expect("close");
}

/// Tests that the rate limit of compactions also limits GC.
#[test]
fn gc_respects_the_compaction_rate_limit() {
    for collection in ["segments", "tail"] {
        let place = Place::any();
        leave_garbage(&place, 19);
        let changes: &[_] = &[("rate_bytes_per_sec", "1MiB"), ("value_log_gc", collection)];
        let db = place.open(&options(&[SMALL, changes].concat()), true).expect("open");
        let begin = Instant::now();
        db.wait_idle().expect("idle");
        let moved = written_for(&db, "collection");
        let bytes = moved + db.statistics().value_log.relocated_bytes;
        let least = Duration::from_secs_f64(bytes as f64 / f64::from(1 << 20)) * 3 / 4;
        assert!(bytes > 400 << 10, "{collection}: only {bytes} bytes");
        assert!(begin.elapsed() > least, "FAST {collection}: {bytes} bytes in {:?}", begin.elapsed());
        db.close().expect("close");
    }
}

/// Tests a range tombstone in an upper level that shadows all values. No later write causes a
/// compaction of it, so the idle store must compact it. Only then can GC reclaim the values.
#[test]
fn a_range_delete_makes_garbage() {
    let changes: &[_] = &[("range_tombstones", "true"), ("idle_durability_ms", "100")];
    let (place, options) = (Place::any(), options(&[SMALL, changes].concat()));
    let mut rng = Rng::new(16);
    let db = place.open(&options, false).expect("open");
    (0..2000).for_each(|number| db.put(key(number), value(&mut rng, 1024)).expect("put"));
    db.compact_range(None, None).expect("compact");
    db.delete_range(key(0), key(1600), WriteOptions::default()).expect("delete");
    db.close().expect("close"); // so that the lookup must read a table
    let db = place.open(&options, false).expect("open");
    let (begin, bytes) = (Instant::now(), || db.statistics().value_log.bytes);
    while bytes() > 600 << 10 && begin.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(bytes() <= 600 << 10, "400 KiB are alive, {} bytes are there", bytes());
    assert_eq!(contents(&db).expect("scan").len(), 400);
    db.close().expect("close");
}

/// Tests that a snapshot sees the same values after overwrites, relocation and repeated GC.
#[test]
fn gc_keeps_values_of_a_snapshot() {
    for collection in ["tail", "segments"] {
        let changes: &[_] = &[("value_log_gc", collection), ("value_log_gc_percent", "1")];
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
            let moved = written_for(&db, "collection");
            if collection == "tail" { db.statistics().value_log.relocated_bytes } else { moved }
        };
        let already = collected();
        [2, 5, 2, 7, 1, 3, 2].into_iter().for_each(&mut put_all);
        println!("{collection}: {already} bytes collected before the snapshot, {} in all", collected());
        assert!(collected() > already, "{collection}: nothing was collected under the snapshot");
        let seen: terrace::Result<Vec<_>> = db.scan(ReadOptions::new().snapshot(&before)).collect();
        assert!(seen.expect("scan") == first, "{collection}: a snapshot lost something");
    }
}

/// Tests a scan of a memtable whose values are in a WAL. When the scan reads the last values, no
/// table needs this WAL any more. The WAL must exist until the scan ends.
#[test]
fn gc_keeps_values_of_a_memtable_scan() {
    let changes: &[_] = &[("value_log_gc_percent", "1"), ("write_buffer_size", "1MiB")];
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
    assert!(!segments(&place)[0].contains(&first[0]), "the first WAL is obsolete now");
}
