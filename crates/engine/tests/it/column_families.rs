//! Tests of column families as a caller sees them. `crash.rs` tests them with power cuts.
use crate::common::kit;
use kit::{TIGHT, plain};
use std::{collections::BTreeMap, time::Instant};
use terrace::{
    ColumnFamily, Db, DurabilityMode, Error, Options, ReadOptions, TransactionOptions, WriteBatch, WriteOptions, check,
    check_on, repair_on,
};
use terrace_sim::Rng;
use terrace_storage::{Location, Memory, placement::OpenMode};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn pairs(family: &ColumnFamily) -> Pairs {
    family.scan(ReadOptions::new()).collect::<terrace::Result<_>>().expect("the family can be read")
}

fn pair(key: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (key.into(), value.into())
}

#[test]
fn families_are_separate_and_survive_a_reopen() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let (db, families) = Db::open_cf(&path, Options::default(), &["users", "orders"]).unwrap();
    let [users, orders] = &families[..] else { panic!("two families") };
    db.put("1", "default").unwrap();
    users.put("1", "ann").unwrap();
    orders.put("1", "a bicycle").unwrap();
    orders.delete("1").unwrap();
    db.flush().unwrap();
    users.put_with("2", "bob", WriteOptions::synced()).unwrap();
    drop((db, families)); // like a kill

    let db = Db::open(&path, Options::default()).unwrap();
    assert_eq!(db.cf_names(), ["default", "users", "orders"]);
    assert_eq!(pairs(&db.cf("users").unwrap()), [pair("1", "ann"), pair("2", "bob")]);
    assert_eq!(pairs(&db.cf("orders").unwrap()), []);
    assert_eq!(pairs(&db.cf("default").unwrap()), [pair("1", "default")]);
    db.wait_idle().unwrap();
    db.close().unwrap();
    let reader = Db::open_read_only(&path, Options::default()).unwrap();
    assert_eq!(reader.cf("users").unwrap().get("2").unwrap().as_deref(), Some(&b"bob"[..]));
    assert!(matches!(reader.create_cf("new"), Err(Error::ReadOnly)));
    drop(reader);
    let report = check(&path, &Options::default(), true).unwrap();
    assert!(report.problems.is_empty() && report.leftovers.is_empty(), "{report:?}");
    assert_eq!(report.tables, 3, "one of each flush and family with writes");
}

/// Tests that a read-only open of a killed store returns the writes that are only in the WAL, in
/// all column families.
#[test]
fn a_read_only_open_replays_all_families() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let (db, families) = Db::open_cf(&path, Options::default(), &["users"]).unwrap();
    db.put("1", "default").unwrap();
    families[0].put("1", "ann").unwrap();
    drop((db, families));
    let reader = Db::open_read_only(&path, Options::default()).unwrap();
    assert_eq!(pairs(&reader.cf("users").unwrap()), [pair("1", "ann")]);
    assert_eq!(pairs(&reader.cf("default").unwrap()), [pair("1", "default")]);
}

/// Tests that a store is a LevelDB directory as long as it has only the default family, and that
/// the first other family ends this. `interop.rs` tests that LevelDB then refuses the store.
#[test]
fn only_a_store_with_families_has_the_feature() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let features = || std::fs::read_to_string(path.join("TERRACE")).unwrap_or_default();
    let db = Db::open(&path, Options::leveldb_compatible()).unwrap();
    db.put("k", "v").unwrap();
    assert!(!features().contains("column-families"));
    db.create_cf("users").unwrap();
    assert!(features().contains("column-families"), "{}", features());
    drop(db);
}

#[test]
fn wrong_calls_are_refused_and_change_nothing() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let other = Db::open_in_memory(Options::default()).unwrap();
    let (users, foreign) = (db.create_cf("users").unwrap(), other.create_cf("users").unwrap());
    for (refused, what) in [
        (db.create_cf("users").map(drop), "exists already"),
        (db.create_cf("default").map(drop), "exists already"),
        (db.drop_cf("default"), "cannot be dropped"),
    ] {
        assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains(what)), "{refused:?}");
    }
    for missing in [db.cf("none").map(drop), db.drop_cf("none")] {
        assert!(matches!(&missing, Err(Error::Missing { object, .. }) if object.contains("none")), "{missing:?}");
    }
    let mut batch = WriteBatch::new();
    batch.put("k", "v").put_cf(&foreign, "k", "v");
    assert!(matches!(db.write(batch.clone(), WriteOptions::default()), Err(Error::Invalid(_))));
    batch.put_cf(&users, "k", "v");
    assert!(matches!(db.write(batch, WriteOptions::default()), Err(Error::Invalid(_))));
    assert_eq!((db.get("k").unwrap(), users.get("k").unwrap(), db.last_sequence()), (None, None, 0));
    let log = Options::preset("wisckey").unwrap();
    let separated = Db::open_in_memory(log).unwrap();
    assert!(matches!(separated.create_cf("users"), Err(Error::Unsupported(_))));
    assert!(matches!(db.copy_into(&separated, |_| ()), Err(Error::Unsupported(_))));
    other.create_cf("only there").unwrap();
    assert!(matches!(db.copy_into(&other, |_| ()), Err(Error::Invalid(text)) if text.contains("only there")));
}

/// Tests that every call on the handle of a dropped family returns an error, even after a family
/// with the same name was created. Iterators that were opened before the drop must still work, and
/// the files that they read must stay.
#[test]
fn a_dropped_family_is_gone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let options = plain(TIGHT);
    let (db, families) = Db::open_cf(&path, options.clone(), &["users", "orders"]).unwrap();
    let (users, orders) = (&families[0], &families[1]);
    for n in 0..2000 {
        users.put(format!("key{n:05}"), vec![7; 100]).unwrap();
    }
    orders.put("1", "a bicycle").unwrap();
    let mut scan = users.scan(ReadOptions::new());
    assert!(scan.next().unwrap().is_ok());
    db.drop_cf("users").unwrap();
    assert_eq!(scan.map(|pair| drop(pair.unwrap())).count(), 1999, "the iterator still reads its files");
    let again = db.create_cf("users").unwrap();
    for refused in [
        users.get("key00001").map(drop),
        users.put("k", "v"),
        users.delete("k"),
        users.delete_range("a", "b", WriteOptions::default()),
        users.compact_range(None, None),
        users.scan(ReadOptions::new()).next().expect("an error").map(drop),
        users.multi_get(&["k"]).remove(0).map(drop),
    ] {
        assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("dropped")), "{refused:?}");
    }
    orders.put_with("2", "a boat", WriteOptions::synced()).unwrap();
    assert_eq!(pairs(&again), []);
    db.wait_idle().unwrap();
    drop((again, families, db));

    let db = Db::open(&path, options.clone()).unwrap();
    assert_eq!(pairs(&db.cf("users").unwrap()), []);
    assert_eq!(pairs(&db.cf("orders").unwrap()), [pair("1", "a bicycle"), pair("2", "a boat")]);
    db.close().unwrap();
    let report = check(&path, &options, true).unwrap();
    assert!(report.problems.is_empty() && report.leftovers.is_empty(), "{report:?}");
}

/// Tests that a batch which was made before the drop of its family, and is written after it, is
/// refused and changes nothing. If it were accepted, no memtable would have its sequence numbers,
/// so no flush could cover them.
#[test]
fn a_late_write_to_a_dropped_family_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("store");
    let (db, families) = Db::open_cf(&path, plain(TIGHT), &["kept", "dropped"]).unwrap();
    let (kept, dropped) = (&families[0], &families[1]);
    let mut late = WriteBatch::new();
    late.put_cf(kept, "late", "v").put_cf(dropped, "late", "v");
    let transaction = db.begin(TransactionOptions::default());
    transaction.put_cf(dropped, "late", "v").unwrap();
    db.drop_cf("dropped").unwrap();
    kept.put("1", "before").unwrap();
    for refused in [
        db.write(late.clone(), WriteOptions::default()),
        db.write(late.clone(), WriteOptions::synced()),
        db.write(late, WriteOptions::without_wal()),
        transaction.commit(WriteOptions::default()),
    ] {
        assert!(matches!(&refused, Err(Error::Invalid(text)) if text.contains("dropped")), "{refused:?}");
    }
    assert_eq!(db.last_sequence(), 1);
    db.flush().unwrap();
    db.checkpoint(place.path().join("copy")).unwrap();
    kept.put_with("2", "after", WriteOptions::synced()).unwrap();
    drop((families, db)); // like a kill
    let db = Db::open(&path, plain(TIGHT)).unwrap();
    assert_eq!(pairs(&db.cf("kept").unwrap()), [pair("1", "before"), pair("2", "after")]);
}

/// Tests writers that wait for the commit leader while another thread drops the family of their
/// writes. Every write must succeed or return an error that names the drop, and the store must
/// open again.
#[test]
fn drops_race_with_writes() {
    let place = tempfile::tempdir().unwrap();
    let (db, families) = Db::open_cf(place.path(), plain(TIGHT), &["kept"]).unwrap();
    let kept = &families[0];
    let ends = std::sync::atomic::AtomicBool::new(false);
    let done = || ends.load(std::sync::atomic::Ordering::Relaxed);
    let written: u64 = std::thread::scope(|scope| {
        let writers = [0, 1].map(|writer| {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut number = 0u64;
                while !done() {
                    let Ok(family) = db.cf("short") else { continue };
                    let mut batch = WriteBatch::new();
                    batch.put_cf(&family, number.to_be_bytes(), [7; 300]);
                    batch.put_cf(kept, format!("{writer}/{number:08}"), "v");
                    match db.write(batch, WriteOptions::default()) {
                        Ok(_) => number += 1,
                        Err(Error::Invalid(text)) => assert!(text.contains("dropped"), "{text}"),
                        Err(other) => panic!("{other}"),
                    }
                }
                number
            })
        });
        for _ in 0..60 {
            db.create_cf("short").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(3));
            db.drop_cf("short").unwrap();
        }
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        writers.map(|writer| writer.join().unwrap()).iter().sum()
    });
    assert!(written > 0, "no write came between a creation and a drop");
    db.checkpoint(place.path().join("copy")).unwrap();
    drop((families, db)); // like a kill
    let db = Db::open(place.path(), plain(TIGHT)).unwrap();
    assert_eq!(pairs(&db.cf("kept").unwrap()).len() as u64, written);
}

/// Tests that the id of a dropped family is never assigned to another family, even if the dropped
/// family was the youngest and the manifest was rewritten. A WAL or an archive may still contain
/// the id.
#[test]
fn numbers_of_families_are_not_used_twice() {
    let place = tempfile::tempdir().unwrap();
    let number = |family: &ColumnFamily| format!("{family:?}");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let db = Db::open(place.path(), Options::default()).unwrap();
        let family = db.create_cf("youngest").unwrap();
        assert!(!seen.contains(&number(&family)), "{seen:?}");
        seen.push(number(&family));
        db.drop_cf("youngest").unwrap();
        db.close().unwrap();
    }
}

/// Tests a random history of several column families and compares each family with a model.
/// Deletes, compactions, snapshots and size estimates of one family must not affect the others.
#[test]
fn a_random_history_of_families_equals_its_model() {
    let mut options = plain(TIGHT);
    options.range_tombstones = true;
    let storage = Memory::new();
    let open = |mode| {
        let place = Location::Memory(storage.clone());
        terrace_storage::open(&place, mode, DurabilityMode::Sync, &options.setup()).unwrap()
    };
    let names = ["default", "a", "b", "c"];
    let mut rng = Rng::new(0xfa_417);
    let mut models = [const { BTreeMap::<Vec<u8>, Vec<u8>>::new() }; 4];
    for round in 0..6 {
        let db = Db::open_on(open(OpenMode::Create), options.clone()).unwrap();
        let families = names.map(|name| db.cf(name).or_else(|_| db.create_cf(name)).unwrap());
        for _ in 0..1500 {
            let mut batch = WriteBatch::new();
            for _ in 0..1 + rng.below(4) {
                let (of, key) = (rng.below(4), format!("key{:03}", rng.below(300)).into_bytes());
                match rng.below(10) {
                    0 => {
                        let to = format!("key{:03}", rng.below(300)).into_bytes();
                        batch.delete_range_cf(&families[of], &key, &to);
                        models[of].retain(|found, _| *found < key || *found >= to);
                    }
                    1 | 2 => {
                        batch.delete_cf(&families[of], &key);
                        models[of].remove(&key);
                    }
                    _ => {
                        let value = vec![rng.below(256) as u8; rng.below(400)];
                        batch.put_cf(&families[of], &key, &value);
                        models[of].insert(key, value);
                    }
                }
            }
            db.write(batch, WriteOptions::default()).unwrap();
        }
        let snapshot = db.snapshot();
        families[2].put("after", "the snapshot").unwrap();
        families[round % 4].compact_range(None, None).unwrap();
        for (family, model) in families.iter().zip(&models) {
            let at = ReadOptions::new().snapshot(&snapshot);
            let found: terrace::Result<BTreeMap<_, _>> = family.scan(at.clone()).collect();
            assert_eq!(&found.unwrap(), model, "round {round}, {family:?}");
            let keys: Vec<_> = (0..300).map(|n| format!("key{n:03}")).collect();
            let found = family.multi_get_with(&keys, &at);
            assert!(keys.iter().zip(found).all(|(key, value)| value.unwrap().as_ref() == model.get(key.as_bytes())));
        }
        families[2].delete("after").unwrap();
        drop((snapshot, families, db));
    }
    let report = check_on(&*open(OpenMode::ReadOnly), &options, true).unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    let place = Location::Memory(Memory::new());
    let fresh = || terrace_storage::open(&place, OpenMode::Create, DurabilityMode::Sync, &options.setup()).unwrap();
    let repaired = repair_on(&*open(OpenMode::Salvage), &*fresh(), &options).unwrap();
    assert_eq!(repaired.lost, []);
    assert_eq!(repaired.pairs, models.iter().map(|model| model.len() as u64).sum::<u64>());
    let db = Db::open_on(fresh(), options.clone()).unwrap();
    for (name, model) in names.iter().zip(models) {
        let found: terrace::Result<BTreeMap<_, _>> = db.cf(name).unwrap().scan(ReadOptions::new()).collect();
        assert_eq!(found.unwrap(), model, "{name} after a repair");
    }
}

/// Tests that a repair loses only the entries of damaged blocks, and puts the other entries into
/// their own families. If the newest manifest is damaged, the repair must use an older one.
/// Without any manifest the repair must be refused.
#[test]
fn a_repair_keeps_families_apart() {
    let place = tempfile::tempdir().unwrap();
    let (path, mut options) = (place.path().join("store"), plain(TIGHT));
    options.range_tombstones = true;
    let (db, families) = Db::open_cf(&path, options.clone(), &["gone", "users", "orders"]).unwrap();
    for n in 0..300 {
        db.put(format!("key{n:03}"), "default").unwrap();
    }
    families[2].delete_range("key", "kez", WriteOptions::default()).unwrap();
    for n in 0..300 {
        families[1].put(format!("key{n:03}"), "a user").unwrap();
        families[2].put(format!("key{n:03}"), "an order").unwrap();
    }
    db.drop_cf("gone").unwrap();
    db.flush().unwrap();
    families[1].put("key000", "in the WAL").unwrap();
    families[1].delete("key001").unwrap();
    let damaged = families[2].layout().unwrap().into_iter().flat_map(|level| level.tables).next().unwrap().number;
    drop((families, db)); // like a kill
    let table = path.join(format!("{damaged:06}.ldb"));
    let mut bytes = std::fs::read(&table).unwrap();
    // An obsolete table of this family, whose range tombstone must not delete pairs of the others.
    std::fs::write(path.join("000999.ldb"), &bytes).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&table, bytes).unwrap();
    std::fs::remove_file(path.join("CURRENT")).unwrap();
    let to = place.path().join("repaired");
    let report = Db::repair(&path, &to, &options).unwrap();
    let lost: Vec<_> = report.lost.iter().map(|lost| lost.file.rsplit('/').next().unwrap()).collect();
    assert_eq!(lost, ["CURRENT", &format!("{damaged:06}.ldb")], "{report:?}");
    let db = Db::open(&to, options.clone()).unwrap();
    assert_eq!(db.cf_names(), ["default", "users", "orders"]);
    let users = pairs(&db.cf("users").unwrap());
    assert_eq!((users.len(), &users[0]), (299, &pair("key000", "in the WAL")));
    assert!(users[1..].iter().all(|(_, value)| value == b"a user"));
    let default = pairs(&db.cf("default").unwrap());
    assert!(default.len() == 300 && default.iter().all(|(_, value)| value == b"default"), "{}", default.len());
    let orders = pairs(&db.cf("orders").unwrap());
    assert!(orders.len() < 300 && orders.iter().all(|(_, value)| value == b"an order"), "{}", orders.len());
    assert!(db.create_cf("new").unwrap().put("k", "v").is_ok());
    drop(db);
    for file in std::fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()) {
        if file.file_name().unwrap().to_string_lossy().starts_with("MANIFEST") {
            std::fs::remove_file(file).unwrap();
        }
    }
    let refused = Db::repair(&path, place.path().join("none"), &options);
    assert!(matches!(&refused, Err(Error::Unsupported(text)) if text.contains("no manifest")), "{refused:?}");
    assert!(!place.path().join("none").exists());
}

#[test]
fn a_checkpoint_has_all_families() {
    let place = tempfile::tempdir().unwrap();
    let (path, copy) = (place.path().join("store"), place.path().join("copy"));
    let (db, families) = Db::open_cf(&path, plain(&[]), &["users"]).unwrap();
    families[0].put("1", "ann").unwrap();
    db.checkpoint(&copy).unwrap();
    families[0].put("2", "bob").unwrap();
    let copy = Db::open(&copy, plain(&[])).unwrap();
    assert_eq!(pairs(&copy.cf("users").unwrap()), [pair("1", "ann")]);
}

/// Tests that the copy of a store has all column families. If a copy was interrupted, the next run
/// must continue in the family in which it stopped.
#[test]
fn a_copy_has_all_families() {
    let from = Db::open_in_memory(plain(TIGHT)).unwrap();
    let to = Db::open_in_memory(plain(TIGHT)).unwrap();
    let families = ["a", "b", "c"].map(|name| from.create_cf(name).unwrap());
    for n in 0..100 {
        from.put(format!("key{n:03}"), "default").unwrap();
        families.iter().for_each(|family| family.put(format!("key{n:03}"), family.name()).unwrap());
    }
    for (key, value) in &pairs(&from.cf("default").unwrap()) {
        to.put(key, value).unwrap();
    }
    let begun = to.create_cf("a").unwrap();
    pairs(&families[0])[..50].iter().for_each(|(key, value)| begun.put(key, value).unwrap());
    let copied = from.copy_into(&to, |_| ()).unwrap();
    assert_eq!((copied.pairs, copied.resumed_after.as_deref()), (250, Some(&b"key049"[..])));
    for name in from.cf_names() {
        assert_eq!(pairs(&to.cf(&name).unwrap()), pairs(&from.cf(&name).unwrap()), "{name}");
    }
}

/// Tests that a follower sees to which family each update belongs, and cannot apply it to a wrong
/// family.
#[test]
fn the_feed_of_updates_names_families() {
    let place = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.wal_size_limit = 1 << 20;
    let (db, families) = Db::open_cf(place.path(), options, &["users"]).unwrap();
    families[0].put("1", "ann").unwrap();
    let update = db.updates_since(0).unwrap().next().unwrap().unwrap();
    let op = update.batch.ops().next().unwrap();
    assert_eq!((op.split().0.0, op.split().1), (1, terrace::Op::Put(b"1", b"ann")));
    // The store must refuse the batch of an update, both alone and together with operations on
    // families of the open store.
    let (mut before, mut after) = (WriteBatch::new(), update.batch.clone());
    before.put_cf(&families[0], "position", "1").append(&update.batch);
    after.put_cf(&families[0], "position", "1");
    for batch in [update.batch, before, after] {
        assert!(matches!(db.write(batch, WriteOptions::default()), Err(Error::Invalid(_))));
    }
}

/// Tests that statistics and properties count the tables of all families.
#[test]
fn statistics_cover_all_families() {
    let db = Db::open_in_memory(plain(TIGHT)).unwrap();
    let family = db.create_cf("users").unwrap();
    family.put("1", "ann").unwrap();
    db.flush().unwrap();
    let levels = db.statistics().levels;
    assert_eq!(levels.iter().map(|level| level.tables).sum::<u64>(), 1);
    assert!(levels.iter().map(|level| level.bytes).sum::<u64>() > 0);
    let tables = |levels: Vec<terrace::LevelInfo>| levels.iter().map(|level| level.tables.len()).sum::<usize>();
    assert_eq!((tables(db.layout()), tables(family.layout().unwrap())), (0, 1));
    assert!(db.property("leveldb.sstables").unwrap().contains("of users"));
}

/// Tests that writes to one family alone can fill the memory budget for memtables and are then
/// flushed, although the default family receives no write.
#[test]
fn writes_to_one_family_are_flushed() {
    let options = plain(TIGHT);
    let db = Db::open_in_memory(options.clone()).unwrap();
    let family = db.create_cf("only").unwrap();
    for n in 0..20_000 {
        family.put(format!("key{n:06}"), vec![1; 100]).unwrap();
    }
    let held = db.statistics().memtable_bytes;
    let allowed = (options.max_write_buffer_number + 1) * options.write_buffer_size;
    assert!(held <= allowed, "{held} bytes in memtables, {allowed} allowed");
    db.wait_idle().unwrap();
    assert_eq!(pairs(&family).len(), 20_000);
}

/// Tests that a store with a thousand families opens fast, and that an idle family takes little
/// memory.
#[test]
fn a_thousand_families_open_fast() {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..1000).map(|n| format!("family {n:04}")).collect();
    let mut options = plain(&[]);
    options.durability = DurabilityMode::None;
    let (db, families) = Db::open_cf(place.path(), options.clone(), &names).unwrap();
    for family in &families {
        family.put("key", family.name()).unwrap();
    }
    drop(families);
    db.close().unwrap();
    let started = Instant::now();
    let db = Db::open(place.path(), options).unwrap();
    let took = started.elapsed();
    println!("1000 families opened in {took:?}");
    assert!(took.as_secs() < 10, "{took:?}"); // about 0.1 s on a quiet machine
    let families: Vec<_> = names.iter().map(|name| db.cf(name).unwrap()).collect();
    assert!(families.iter().all(|family| family.get("key").unwrap().as_deref() == Some(family.name().as_bytes())));
}
