//! Tests of ingest and export. An ingest adds SSTables that a program built outside of the store.
//! Their entries must become visible atomically, newer than all earlier writes and older than all
//! later ones. This must also be true with concurrent work and after power cuts.
use crate::common::{history, kit, leveldb};
use history::{Tracker, tight_options};
use kit::{Model, Place, options, states};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};
use terrace::{Db, Error, Options, ReadOptions, SortedTableWriter, WriteOptions, check_on};
use terrace_peers::{leveldb::Library, require};
use terrace_sim::{Fault, FaultFs, Medium, Plan, Rng, Rules};
use terrace_storage::{backends::files::fs::FileSystem, placement::OpenMode};

const SEED: u64 = 0x169;

fn layout() -> Options {
    options(kit::TIGHT)
}

/// Writes an SSTable with `entries`. The value `None` is a tombstone.
fn table(path: PathBuf, entries: &[(Vec<u8>, Option<Vec<u8>>)]) -> PathBuf {
    let mut writer = SortedTableWriter::create(&path, &layout()).unwrap();
    for (key, value) in entries {
        match value {
            Some(value) => writer.put(key, value).unwrap(),
            None => writer.delete(key).unwrap(),
        }
    }
    let made = writer.finish().unwrap();
    assert_eq!((made.entries, made.bytes), (entries.len() as u64, fs::metadata(&path).unwrap().len()));
    path
}

/// Returns some keys of the numbered histories (see `kit`), with new values or tombstones.
fn some_entries(rng: &mut Rng) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut entries = Vec::new();
    for number in 0..60 {
        if rng.chance(1, 2) {
            let value = rng.chance(3, 4).then(|| vec![rng.below(256) as u8; rng.below(3000)]);
            entries.push((format!("key{number:02}").into_bytes(), value));
        }
    }
    entries
}

fn contents(db: &Db) -> Model {
    kit::contents(db).unwrap().into_iter().collect()
}

#[test]
fn ingested_tables_are_ordered_among_writes() {
    let folder = tempfile::tempdir().unwrap();
    for (seed, place) in (0..8).map(|seed| (seed, if seed < 6 { Place::any() } else { Place::directory() })) {
        let mut rng = Rng::new(seed);
        let mut options = layout();
        options.level0_file_num_compaction_trigger = [2, 1000][seed as usize % 2];
        (options.level0_slowdown_writes_trigger, options.level0_stop_writes_trigger) = (2000, 2000);
        let (mut db, mut model) = (place.open(&options, false).unwrap(), Model::new());
        let mut snapshots = Vec::new();
        for number in 1..=150 {
            let batch = kit::batch(seed, number);
            kit::write(&db, &batch, false).unwrap();
            kit::apply(&mut model, &batch);
            match rng.below(12) {
                0 => {
                    snapshots.push((db.snapshot(), model.clone()));
                    let entries = some_entries(&mut rng);
                    let middle = rng.below(entries.len() - 1) + 1;
                    let [a, b] = [&entries[..middle], &entries[middle..]];
                    let paths = [(b, "b"), (a, "a")].map(|(entries, name)| {
                        table(folder.path().join(format!("{seed}-{number}{name}.ldb")), entries)
                    });
                    let made = db.ingest(&paths).unwrap();
                    assert_eq!((made.entries, made.sequence), (entries.len() as u64, db.last_sequence()));
                    assert_eq!(db.durable_sequence(), made.sequence);
                    kit::apply(&mut model, &entries);
                    assert!(contents(&db) == model, "seed {seed}, batch {number}");
                }
                1 => db.flush().unwrap(),
                2 if number % 2 == 0 => {
                    snapshots.clear();
                    drop(db);
                    db = place.open(&options, false).unwrap();
                }
                3 if number % 3 == 0 => db.compact_range(None, None).unwrap(),
                _ => {}
            }
        }
        for (snapshot, then) in &snapshots {
            let pairs: Model = db.scan(ReadOptions::new().snapshot(snapshot)).collect::<terrace::Result<_>>().unwrap();
            assert!(pairs == *then, "seed {seed}: a snapshot changed");
        }
        drop((snapshots, db));
        let closed = kit::storage(&place.fs, OpenMode::ReadOnly, &options).unwrap();
        assert_eq!(check_on(&*closed, &options, true).unwrap().problems, Vec::<String>::new());
        drop(closed);
        assert!(contents(&place.open(&options, false).unwrap()) == model, "seed {seed}");
    }
}

#[test]
fn memtables_are_older_than_an_ingest_into_level_0() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = layout();
    (
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ) = (1000, 1000, 1000);
    let db = kit::store(options);
    for round in 0..5 {
        db.put("a", [round]).unwrap();
        db.put("z", [round]).unwrap();
        db.flush().unwrap();
    }
    db.put("k", "old").unwrap(); // its table gets a higher number than the ingested tables
    db.put("a", "old").unwrap();
    let path = table(folder.path().join("new.ldb"), &[(b"a".to_vec(), None), (b"k".to_vec(), Some(b"new".to_vec()))]);
    assert_eq!(db.ingest(&[path]).unwrap().level, 0);
    let found = (db.get("a").unwrap(), db.get("k").unwrap());
    assert_eq!(found, (None, Some(b"new".to_vec())), "HIDDEN by an older entry");
    db.put("k", "newer").unwrap();
    assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"newer"[..]));
}

/// Tests that an ingest of many tables into level 0 adds only one sorted run. Otherwise each table
/// would be a run of its own, which reads must search and which counts towards write stalls.
#[test]
fn an_ingest_into_level_0_is_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = layout();
    (
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ) = (1000, 1000, 1000);
    let db = kit::store(options);
    let noise = |number: u32| (0..250).flat_map(|n| Rng::of(u64::from(number), n).next_u64().to_le_bytes()).collect();
    let entry = |number: u32| (format!("key{number:04}").into_bytes(), Some(noise(number)));
    let entries: Vec<_> = (0..400).map(entry).collect(); // 13 tables of the usual size
    let path = table(folder.path().join("in.ldb"), &entries);
    let outer = || ["key0000", "key0399"].iter().for_each(|key| db.put(key, "old").unwrap());
    (0..3).for_each(|_| {
        outer();
        db.flush().unwrap(); // LevelDB puts them into levels 2, 1 and 0
    });
    let flushed = db.layout()[0].tables.len();
    assert!(flushed > 0);
    for runs in [1, 3] {
        let made = db.ingest(&[&path]).unwrap();
        assert_eq!((made.tables, made.level), (1, 0));
        assert_eq!(db.layout()[0].tables.len(), flushed + runs);
        assert!(contents(&db).into_iter().eq(entries.iter().map(|(key, value)| (key.clone(), value.clone().unwrap()))));
        outer(); // the next ingest flushes it
    }
    db.compact_range(None, None).unwrap();
    outer();
    let made = db.ingest(&[&path]).unwrap();
    assert_eq!((made.tables, made.level), (1, 0), "it turns out only when the memtable is flushed, into level 1");
}

#[test]
fn an_ingest_is_atomic_under_concurrent_writes() {
    let folder = tempfile::tempdir().unwrap();
    let db = kit::store(layout());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0u64.. {
                db.put(format!("other{:04}", number % 3000), vec![7; 100]).unwrap();
                if stop.load(SeqCst) {
                    break;
                }
            }
        });
        scope.spawn(|| {
            while !stop.load(SeqCst) {
                let pairs: Vec<_> = db.scan(ReadOptions::new().prefix("in")).map(|pair| pair.unwrap().1).collect();
                assert!(pairs.windows(2).all(|pair| pair[0] == pair[1]), "half of an ingest");
                assert!(pairs.is_empty() || pairs.len() == 400, "{} keys of an ingest", pairs.len());
            }
        });
        for round in 0..10u8 {
            let entries: Vec<_> =
                (0..400).map(|n| (format!("in{n:03}").into_bytes(), Some(vec![round; 300]))).collect();
            let [a, b] = [&entries[..150], &entries[150..]];
            let paths = [(a, "a"), (b, "b")]
                .map(|(entries, name)| table(folder.path().join(format!("{round}{name}.ldb")), entries));
            db.ingest(&paths).unwrap();
            assert_eq!(db.get("in399").unwrap(), Some(vec![round; 300]));
        }
        stop.store(true, SeqCst);
    });
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(files.len(), 20, "the tables stay where they were");
}

/// Tests a power cut after every step of the disk before, during and after an ingest. After the
/// cut, the store must contain either the whole ingest or nothing of it.
#[test]
fn a_power_cut_leaves_a_prefix_in_which_an_ingest_is_one_step() {
    let folder = tempfile::tempdir().unwrap();
    let entries = some_entries(&mut Rng::new(SEED));
    let path = table(folder.path().join("in.ldb"), &entries);
    let here = Tracker::without_failures().map(|tracker| (tracker, kit::medium()));
    let all = here.chain([(Tracker::Sync, Medium::Directory(Rules::Posix))]);
    for (tracker, medium) in all.filter(|(tracker, medium)| tracker.goes_with(*medium)) {
        let disk = medium.recorder();
        let fs = disk.file_system();
        let options = tight_options();
        let db = Db::open_manual(history::storage(&fs, tracker.make(4), &options).unwrap(), options.clone()).unwrap();
        let mut wanted = states(SEED, 20);
        (1..=20).for_each(|number| drop(kit::write(&db, &kit::batch(SEED, number), false)));
        let begin = disk.steps();
        let mut with = wanted[20].clone();
        kit::apply(&mut with, &entries);
        wanted.push(with);
        db.ingest(&[&path]).unwrap();
        let made = disk.steps();
        for number in 21..=30 {
            let mut state = wanted.last().unwrap().clone();
            kit::apply(&mut state, &kit::batch(SEED, number));
            wanted.push(state);
            kit::write(&db, &kit::batch(SEED, number), number == 25).unwrap();
        }
        let (end, mut seen) = (disk.steps(), [0, 0]);
        for step in begin..=end {
            for seed in 0..8 {
                let what = format!("{tracker:?} {medium:?} step {step} of {begin}, {made}, {end}, seed {seed}");
                let left = disk.power_loss(step, seed).file_system();
                let db =
                    Db::open_manual(history::storage(&left, Tracker::Sync.make(0), &options).unwrap(), options.clone());
                let pairs = contents(&db.unwrap_or_else(|e| panic!("{what}: {e}")));
                let least = if step >= made { 21 } else { 0 };
                let found = wanted[least..].iter().position(|state| *state == pairs);
                let found = found.unwrap_or_else(|| panic!("{what}: LOST: no state from {least} on"));
                seen[usize::from(found + least > 20)] += 1;
                if seed == 0 {
                    let place = kit::storage(&left, OpenMode::ReadOnly, &options).unwrap();
                    assert_eq!(check_on(&*place, &options, true).unwrap().problems, Vec::<String>::new());
                }
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

/// Tests ingests in which any file system call fails, or in which the disk is full from any call
/// on. The ingest must be atomic. Writes that the store accepts after it, or when there is space
/// again, must not be lost.
#[test]
fn a_failed_ingest_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let entries = some_entries(&mut Rng::new(SEED));
    let path = table(folder.path().join("in.ldb"), &entries);
    let before = states(SEED, 20).pop().unwrap();
    let mut with = before.clone();
    kit::apply(&mut with, &entries);
    let of_tier = |durability_mode: &str| {
        let mut options = tight_options();
        options.set("durability", durability_mode).unwrap();
        options
    };
    let run = |durability_mode: &str, fault: Option<(u64, Fault)>| {
        let options = of_tier(durability_mode);
        let disk = kit::medium().recorder();
        let faults = FaultFs::new(disk.file_system(), Plan::never());
        let fs: Arc<dyn FileSystem> = Arc::new(faults.clone());
        let db = kit::open(&fs, &options, true).unwrap();
        (1..=20).for_each(|number| drop(kit::write(&db, &kit::batch(SEED, number), false)));
        let begin = faults.calls();
        fault.inspect(|(call, fault)| {
            let plan = if *fault == Fault::Eio { Plan::once } else { Plan::from_then_on };
            faults.arm(plan(begin + call, *fault));
        });
        let made = db.ingest(&[&path]).is_ok();
        let calls = faults.calls() - begin;
        faults.heal();
        let put = || db.put_with("zz", "later", WriteOptions::synced());
        let accepted = put().is_ok() || db.resume().is_ok() && put().is_ok();
        // Runs jobs, which commit pending edits to the manifest.
        (0..100).take_while(|_| db.step(0).is_some()).count();
        let killed = disk.steps(); // the close of the store may write
        drop(db);
        let end = disk.steps();
        // Without an ingest or a later write that succeeded, nothing was promised as durable.
        let cut = (made || accepted).then(|| disk.power_loss(end, 1));
        for image in [disk.state_after(killed)].into_iter().chain(cut) {
            let mut found = contents(&kit::open(&image.file_system(), &options, true).unwrap());
            let later = found.remove(&b"zz"[..]).is_some();
            assert_eq!(later, accepted, "{durability_mode}, call {fault:?}: LOST a write accepted after an ingest");
            assert!(
                found == with || !made && found == before,
                "{durability_mode}, call {fault:?}: neither all nor nothing"
            );
        }
        (calls, made, accepted)
    };
    for durability_mode in
        ["sync", "group"].into_iter().filter(|durability_mode| !kit::is_refused(&of_tier(durability_mode)))
    {
        let (calls, ..) = run(durability_mode, None);
        let outcomes: Vec<_> = (0..calls).map(|call| run(durability_mode, Some((call, Fault::Eio)))).collect();
        let stopped = outcomes.iter().filter(|(_, made, accepted)| !made && !accepted).count();
        let refused = outcomes.iter().filter(|(_, made, accepted)| !made && *accepted).count();
        assert!(
            stopped > 3 && refused > 3,
            "{durability_mode}: {stopped} of {calls} stopped the store, {refused} the ingest only"
        );
        for full in [Fault::Enospc, Fault::EnospcAtSync] {
            let cured = (0..calls)
                .map(|call| run(durability_mode, Some((call, full))))
                .filter(|(_, made, accepted)| !made && *accepted);
            let cured = cured.count();
            assert!(cured > 3, "{durability_mode}, {full:?}: only {cured} of {calls} were cured");
        }
    }
}

#[test]
fn unsuitable_tables_are_refused_without_changes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let db = Db::open(at("store"), layout()).unwrap();
    db.put("k", "v").unwrap();
    let entry = |key: &str| (key.as_bytes().to_vec(), Some(vec![1; 2000]));
    let (a, b) = (table(at("a.ldb"), &[entry("a"), entry("m")]), table(at("b.ldb"), &[entry("m"), entry("z")]));
    let mut bytes = fs::read(&a).unwrap();
    bytes[100] ^= 1;
    fs::write(at("bad.ldb"), &bytes).unwrap();
    fs::write(at("text.ldb"), "no table at all, but some text that is long enough").unwrap();
    fs::write(at("empty.ldb"), "").unwrap();
    let text = |paths: &[PathBuf]| db.ingest(paths).unwrap_err().to_string();
    for (paths, words) in [
        (vec![], "no table"),
        (vec![a.clone(), b.clone()], "overlap"),
        (vec![at("absent.ldb")], "absent.ldb"),
        (vec![at("bad.ldb")], "bad.ldb"),
        (vec![at("text.ldb")], "text.ldb"),
        (vec![at("empty.ldb")], "empty.ldb"),
        (vec![at("store")], "store"),
        (vec![PathBuf::from("/")], "no file"),
    ] {
        let error = text(&paths);
        assert!(error.contains(words), "{paths:?}: {error}");
        assert_eq!(contents(&db).len(), 1);
    }
    db.ingest(&[a]).unwrap();
    db.close().unwrap();
    assert!(fs::read_dir(at("store")).unwrap().count() < 12, "nothing is left lying about");
    let reader = Db::open_read_only(at("store"), layout()).unwrap();
    assert!(matches!(reader.ingest(&[b]), Err(Error::ReadOnly)));
}

#[test]
fn the_table_writer_reports_misuse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.ldb");
    let mut writer = SortedTableWriter::create(&path, &layout()).unwrap();
    assert!(matches!(SortedTableWriter::create(&path, &layout()), Err(Error::Io { .. })), "no file is replaced");
    writer.put("b", "1").unwrap();
    for key in ["b", "a", ""] {
        assert!(matches!(writer.put(key, ""), Err(Error::Invalid(_))), "{key}");
    }
    drop(writer);
    assert!(!path.exists(), "an unfinished table is removed");
    let empty = SortedTableWriter::create(&path, &layout()).unwrap();
    assert!(matches!(empty.finish(), Err(Error::Invalid(_))));
    assert!(!path.exists());
}

#[test]
fn an_exported_range_can_be_ingested() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (from, to) = (kit::store(layout()), kit::store(layout()));
    for number in 0..3000u32 {
        let noise: Vec<u8> =
            (0..20).flat_map(|n| Rng::of(SEED, u64::from(number * 20 + n)).next_u64().to_le_bytes()).collect();
        from.put(format!("key{number:05}"), noise).unwrap();
    }
    from.delete("key01000").unwrap();
    fs::create_dir(at("out")).unwrap();
    let range = || ReadOptions::new().from("key00500").to("key02500");
    let tables = from.export(at("out"), range()).unwrap();
    assert!(tables.len() > 1 && tables.iter().map(|table| table.entries).sum::<u64>() == 1999, "{tables:?}");
    assert!(matches!(from.export(at("out"), range()), Err(Error::Io { .. })), "no file is replaced");
    let paths: Vec<&Path> = tables.iter().map(|table| table.path.as_path()).collect();
    let made = to.ingest(&paths).unwrap();
    // The deepest level into which an empty store writes the table of a flush.
    let deepest = if layout().level_compaction_dynamic_level_bytes { 1 } else { 2 };
    assert!((made.entries, made.tables > 1, made.level) == (1999, true, deepest), "{made:?}");
    assert!(kit::scan(&from, range()).unwrap() == kit::contents(&to).unwrap());
}

#[test]
fn leveldb_tables_are_ingested_and_leveldb_reads_exports() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (theirs, ours, plain) = (folder.path().join("theirs"), folder.path().join("ours"), leveldb::Layout::default());
    let store = leveldb::Store::open(leveldb::Side::Theirs, &theirs, &plain);
    for number in 0..500u32 {
        store.put(format!("key{number:03}").as_bytes(), &number.to_le_bytes());
    }
    store.compact();
    let all = store.forward();
    store.close();
    let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ldb" || extension == "sst");
    let tables: Vec<PathBuf> =
        fs::read_dir(&theirs).unwrap().map(|entry| entry.unwrap().path()).filter(is_table).collect();
    let db = Db::open(&ours, plain.ours()).unwrap();
    db.put("key003", "old").unwrap();
    db.ingest(&tables).unwrap();
    db.put("key004", "new").unwrap();
    db.close().unwrap();
    let store = leveldb::Store::open(leveldb::Side::Theirs, &ours, &leveldb::Layout { paranoid: true, ..plain });
    let wanted =
        all.into_iter().map(|(key, value)| if key == b"key004" { (key, b"new".to_vec()) } else { (key, value) });
    assert!(store.forward().into_iter().eq(wanted));
}

#[test]
fn followers_get_an_error_at_an_ingest() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = layout();
    options.set("wal_size_limit", "1MiB").unwrap();
    for flushed in [false, true] {
        let db = kit::store(options.clone());
        db.put("a", "1").unwrap();
        if flushed {
            db.flush().unwrap();
        }
        let before = db.last_sequence();
        let path = table(folder.path().join(format!("{flushed}.ldb")), &[(b"k".to_vec(), Some(b"v".to_vec()))]);
        let made = db.ingest(&[path]).unwrap();
        db.put("b", "2").unwrap();
        let follow = |from| db.updates_since(from).and_then(|updates| updates.collect::<terrace::Result<Vec<_>>>());
        assert!(matches!(follow(before), Err(Error::SequenceGone { .. })), "{:?}", follow(before));
        assert_eq!(follow(made.sequence).unwrap().len(), 1);
    }
}
