//! Interoperability tests, in which LevelDB and Terrace use one directory in turn. LevelDB must
//! read everything that Terrace writes, and Terrace everything that LevelDB writes. The tests run
//! random histories in which either engine is opened often and killed sometimes. LevelDB must
//! refuse a store that it cannot read.
//!
//! Every random choice is derived from a seed, and a failure prints the seed. `TERRACE_SEED=n`
//! runs only that seed.
use crate::common::leveldb;
use leveldb::{Layout, Op, Pairs, Random, Side, Store, child, child_argument, is_child, side_name, side_named};
use std::{
    collections::BTreeMap,
    env,
    fs::{self, File},
    io::{self, Read, Write},
    ops::RangeInclusive,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};
use terrace::Db;
use terrace_peers::{leveldb::Library, require};

/// The expected contents of the store.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// The number of distinct keys of a history. The number is small, so most writes overwrite or
/// delete a key.
const KEYS: u64 = 2500;

#[test]
fn either_engine_reads_what_the_other_closed() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    for seed in seeds(1..=6) {
        let _printed = OnFailure(seed);
        let (dir, mut random) = (tempfile::tempdir().unwrap(), Random::new(seed));
        let (mut model, mut side, mut written) = (Model::new(), Side::Ours, 0);
        for _ in 0..10 {
            // Every earlier close was clean, so the open must not tolerate damage.
            let store = Store::open(side, dir.path(), &Layout { paranoid: true, ..any_layout(&mut random) });
            assert_holds(&store, &model, &mut random);
            for _ in 0..random.below(400) {
                let ops = batch(seed, written);
                store.apply(&ops, random.one_in(16));
                apply(&mut model, &ops);
                written += 1;
            }
            if random.one_in(3) {
                store.compact();
            }
            if random.one_in(2) {
                assert_holds(&store, &model, &mut random);
            }
            store.close();
            // The next open mostly uses the other engine, and sometimes the same engine.
            side = if random.one_in(4) { side } else { side.other() };
        }
        for side in [Side::Theirs, Side::Ours] {
            let store = Store::open(side, dir.path(), &Layout { paranoid: true, ..Layout::default() });
            assert_holds(&store, &model, &mut random);
            store.close();
        }
        assert!(!dir.path().join("TERRACE").exists(), "a store that LevelDB can read has no format file");
    }
}

#[test]
fn a_kill_of_either_engine_loses_nothing_acknowledged_to_the_other() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    for seed in seeds(11..=13) {
        let _printed = OnFailure(seed);
        let (dir, mut random) = (tempfile::tempdir().unwrap(), Random::new(seed));
        let (store_dir, acks) = (dir.path().join("store"), dir.path().join("acks"));
        let (mut model, mut written) = (Model::new(), 0);
        for round in 0..40 {
            let victim = if random.one_in(2) { Side::Ours } else { Side::Theirs };
            let acknowledged = kill_while_writing(victim, &store_dir, &acks, seed, written, &mut random);

            let survivor = victim.other();
            let store = Store::open(survivor, &store_dir, &any_layout(&mut random));
            let found = store.forward();
            for index in written..written + acknowledged {
                apply(&mut model, &batch(seed, index));
            }
            written += acknowledged;
            // A batch that was being written when the process was killed may be in the WAL although
            // it was not acknowledged.
            if difference(&model, &found).is_some() {
                apply(&mut model, &batch(seed, written));
                written += 1;
            }
            if let Some(text) = difference(&model, &found) {
                panic!("round {round}, {victim:?} killed after {acknowledged} batches, {survivor:?} found: {text}");
            }
            assert_holds(&store, &model, &mut random);
            for _ in 0..random.below(60) {
                let ops = batch(seed, written);
                store.apply(&ops, random.one_in(16));
                apply(&mut model, &ops);
                written += 1;
            }
            store.close();
        }
    }
}

/// Not a test: the child process that [`kill_while_writing`] starts and kills. It acknowledges
/// each batch by appending a byte to a file.
#[test]
fn child_that_writes_until_killed() {
    if !is_child("interop::child_that_writes_until_killed") {
        return;
    }
    let number = |name| child_argument(name).parse::<u64>().expect("a number");
    let (seed, from) = (number("SEED"), number("FROM"));
    let mut random = Random::new(seed ^ from);
    let store_dir = child_argument("STORE");
    let mut acks = File::create(child_argument("ACKS")).unwrap();
    let store = Store::open(side_named(&child_argument("SIDE")), Path::new(&store_dir), &any_layout(&mut random));
    for index in from..from + 3000 {
        store.apply(&batch(seed, index), random.one_in(16));
        acks.write_all(b"!").unwrap();
    }
    // Waits until the parent kills this process or exits.
    io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn each_engine_respects_the_lock_of_the_other() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    for side in [Side::Ours, Side::Theirs] {
        let dir = tempfile::tempdir().unwrap();
        let holder = Store::open(side, dir.path(), &Layout::default());
        let refusal = Store::try_open(side.other(), dir.path(), &Layout::default()).err();
        let refusal = refusal.unwrap_or_else(|| panic!("{side:?} has it open, the other one opened it too"));
        assert!(refusal.contains("lock") || refusal.contains("in use"), "{refusal}");
        holder.close();
        Store::open(side.other(), dir.path(), &Layout::default()).close();
    }
}

#[test]
fn leveldb_refuses_a_store_with_unknown_features() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    for (option, value, feature) in [
        ("compression", "lz4", "lz4"),
        ("values", "log", "value-log"),
        ("compaction_style", "universal", "sorted-runs"),
    ] {
        is_refused(option, value, feature);
    }
}

#[test]
fn leveldb_refuses_a_store_with_column_families() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), Layout::default().ours()).unwrap();
    db.put("k", "v").unwrap();
    db.create_cf("users").unwrap().put("k", "v").unwrap();
    db.close().unwrap();
    let refusal = Store::try_open(Side::Theirs, dir.path(), &Layout::default()).err().expect("LevelDB opened it");
    assert!(refusal.contains("unknown tag"), "{refusal}");
}

fn is_refused(option: &str, value: &str, feature: &str) {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Layout::default().ours();
    options.set(option, value).unwrap();
    let open = || Db::open(dir.path(), options.clone()).unwrap();
    open().close().unwrap();
    for round in 0..3u8 {
        let refusal = Store::try_open(Side::Theirs, dir.path(), &Layout::default()).err().expect("LevelDB opened it");
        assert!(refusal.contains("unknown tag"), "{refusal}");
        let db = open();
        assert_eq!(db.scan(terrace::ReadOptions::new()).count(), usize::from(round), "the refused opening harmed it");
        db.put([round], vec![round; 10_000]).unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
    }
    let format_file = fs::read_to_string(dir.path().join("TERRACE")).expect("such a store has a format file");
    assert!(format_file.contains(feature), "the format file names the required feature:\n{format_file}");
}

#[test]
fn a_leveldb_store_remains_a_leveldb_store() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(Side::Theirs, dir.path(), &Layout::default());
    store.put(b"theirs", b"1");
    store.close();

    let mut options = Layout::default().ours();
    options.set("compression", "lz4").unwrap();
    let refusal = Db::open(dir.path(), options).err().expect("lz4 needs a store created with it").to_string();
    assert!(refusal.to_lowercase().contains("lz4"), "{refusal}");

    for preset in ["leveldb", "volatile"] {
        let db = Db::open(dir.path(), terrace::Options::preset(preset).unwrap()).unwrap();
        db.put(preset, "2").unwrap();
        db.close().unwrap();
    }
    assert!(!dir.path().join("TERRACE").exists());
    let store = Store::open(Side::Theirs, dir.path(), &Layout { paranoid: true, ..Layout::default() });
    let keys: Vec<_> = store.forward().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, [&b"leveldb"[..], b"theirs", b"volatile"]);
}

/// Tests that LevelDB opens a store that was created with the default preset. The store's format
/// file, which records a durability mode, must not prevent this.
#[test]
fn leveldb_opens_a_store_created_by_default() {
    let Some(_) = require("leveldb", Library::load()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut modes = Vec::new();
    for key in ["first", "second"] {
        let db = Db::open(dir.path(), terrace::Options::default()).unwrap();
        db.put(key, "ours").unwrap();
        modes.push(db.statistics().durability);
        db.close().unwrap();
        let store = Store::open(Side::Theirs, dir.path(), &Layout { paranoid: true, ..Layout::default() });
        assert_eq!(store.get(key.as_bytes()).as_deref(), Some(&b"ours"[..]));
        store.put(b"theirs", key.as_bytes());
        store.close();
    }
    assert!(dir.path().join("TERRACE").exists() && modes[0] != "sync" && modes[0] == modes[1], "{modes:?}");
    let db = Db::open_read_only(dir.path(), terrace::Options::default()).unwrap();
    assert_eq!(db.get("theirs").unwrap().as_deref(), Some(&b"second"[..]));
}

/// Tests blocks compressed with Zstd, the only part of a store without format file that LevelDB
/// 1.23 cannot read. Terrace must write such blocks only on explicit request, and must always read
/// them.
#[test]
fn zstd_is_used_on_request_only_and_leveldb_refuses_it() {
    let Some(library) = require("leveldb", Library::load()) else { return };
    for (codec, readable) in [("snappy", true), ("zstd", false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = Layout::default().ours();
        if codec != "snappy" {
            options.set("compression", codec).unwrap();
        }
        let db = Db::open(dir.path(), options).unwrap();
        for n in 0..2000u32 {
            db.put(n.to_be_bytes(), b"compressible ".repeat(20)).unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.close().unwrap();

        let answer = library.open(dir.path(), &Layout::default().theirs()).and_then(|store| store.forward());
        match answer {
            Ok(pairs) => assert!(readable && pairs.len() == 2000, "{codec}: {} entries", pairs.len()),
            Err(e) => assert!(!readable && e.to_string().contains("bad block type"), "{codec}: {e}"),
        }
        let store = Store::open(Side::Ours, dir.path(), &Layout::default());
        assert_eq!(store.forward().len(), 2000, "{codec}");
    }
}

/// Starts a child process that continues the history from batch `from`, and kills it (SIGKILL) at
/// a random moment. Returns how many batches the child acknowledged.
fn kill_while_writing(side: Side, store: &Path, acks: &Path, seed: u64, from: u64, random: &mut Random) -> u64 {
    let _ = fs::remove_file(acks); // an earlier round may have left it
    let arguments = [
        ("SIDE", side_name(side)),
        ("STORE", store.display().to_string()),
        ("ACKS", acks.display().to_string()),
        ("SEED", seed.to_string()),
        ("FROM", from.to_string()),
    ];
    let mut writer =
        child(&[], "interop::child_that_writes_until_killed", &arguments).spawn().expect("start the writer");
    let acknowledged = || fs::metadata(acks).map_or(0, |file| file.len());
    // One child in four is killed near its start, during recovery. The others are killed after some
    // batches.
    let (batches, pause) = if random.one_in(4) {
        (0, Duration::from_micros(random.below(30_000)))
    } else {
        (random.below(300), Duration::from_micros(random.below(2000)))
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while acknowledged() < batches {
        fail_if_ended(&mut writer);
        assert!(Instant::now() < deadline, "{side:?} acknowledged {} batches in a minute", acknowledged());
        thread::sleep(Duration::from_micros(200));
    }
    thread::sleep(pause);
    fail_if_ended(&mut writer);
    writer.kill().expect("kill the writer");
    writer.wait().expect("bury the writer");
    acknowledged()
}

fn fail_if_ended(writer: &mut Child) {
    if let Some(status) = writer.try_wait().expect("ask for the writer") {
        let mut text = String::new();
        let _ = writer.stderr.take().expect("stderr is a pipe").read_to_string(&mut text);
        panic!("the writer ended on its own with {status}: {text}");
    }
}

/// Returns batch `index` of the history of `seed`. The batch is the same in every process.
fn batch(seed: u64, index: u64) -> Vec<Op> {
    let mut random = Random::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ index);
    let count = if random.one_in(50) { random.below(200) } else { 1 + random.below(6) };
    (0..count)
        .map(|_| {
            let key = key(random.below(KEYS));
            if random.one_in(5) { Op::Delete(key) } else { Op::Put(key, any_value(&mut random)) }
        })
        .collect()
}

/// Returns the key number `n`. The keys include the empty key, binary keys, keys with a long
/// common prefix, decimal keys, and runs of 0xff.
fn key(n: u64) -> Vec<u8> {
    match n % 8 {
        0 if n == 0 => Vec::new(),
        0..=2 => Random::new(n).bytes(1 + n as usize % 24),
        3 | 4 => format!("{}/{n:05}", "a/long/shared/beginning".repeat(6)).into_bytes(),
        5 if n < 400 => vec![0xff; n as usize],
        _ => format!("{n:08}").into_bytes(),
    }
}

/// Returns a random value. Values are mostly small and rarely up to 300 KiB; half of them compress
/// well.
fn any_value(random: &mut Random) -> Vec<u8> {
    let len = match random.below(200) {
        0 => random.below(300 << 10),
        1..=20 => random.below(8 << 10),
        _ => random.below(200),
    } as usize;
    if random.one_in(2) { random.bytes(len) } else { vec![random.next() as u8; len] }
}

/// Returns random options for an open. Memtables are small, so that a few hundred batches fill
/// several levels.
fn any_layout(random: &mut Random) -> Layout {
    Layout {
        snappy: random.one_in(2),
        write_buffer_size: 64 << (10 + random.below(3)),
        bloom_bits: if random.one_in(2) { 10 } else { 0 },
        paranoid: false,
        mapped_log: random.one_in(2),
    }
}

fn apply(model: &mut Model, ops: &[Op]) {
    for op in ops {
        match op {
            Op::Put(key, value) => model.insert(key.clone(), value.clone()),
            Op::Delete(key) => model.remove(key),
        };
    }
}

/// Asserts that the store equals the model. It compares a forward scan, a backward scan, and point
/// lookups of present and absent keys.
fn assert_holds(store: &Store, model: &Model, random: &mut Random) {
    if let Some(text) = difference(model, &store.forward()) {
        panic!("forward: {text}");
    }
    let mut backward = store.backward();
    backward.reverse();
    if let Some(text) = difference(model, &backward) {
        panic!("backward: {text}");
    }
    for _ in 0..500 {
        let key = key(random.below(KEYS + 50)); // the last fifty keys were never written
        assert_eq!(store.get(&key).as_ref(), model.get(&key), "get {}", key.escape_ascii());
    }
}

/// Describes the first difference between `model` and `found`. The whole contents would be
/// megabytes of text.
fn difference(model: &Model, found: &Pairs) -> Option<String> {
    let same = model.iter().zip(found).take_while(|(want, have)| *want.0 == have.0 && *want.1 == have.1).count();
    let describe = |entry: Option<(&Vec<u8>, &Vec<u8>)>| match entry {
        Some((key, value)) => format!("{} = {} bytes", key.escape_ascii(), value.len()),
        None => "the end".to_string(),
    };
    let (want, have) = (model.iter().nth(same), found.get(same).map(|(key, value)| (key, value)));
    (want.is_some() || have.is_some()).then(|| {
        let (want, have) = (describe(want), describe(have));
        format!("entry {same} of {}: expected {want}, found {have}; found {} in all", model.len(), found.len())
    })
}

/// Returns the seeds to run: `usual`, or the seed that `TERRACE_SEED` names.
fn seeds(usual: RangeInclusive<u64>) -> Vec<u64> {
    match env::var("TERRACE_SEED") {
        Ok(text) => vec![text.parse().expect("TERRACE_SEED is a number")],
        Err(_) => usual.collect(),
    }
}

/// A drop guard that prints the seed if the test fails while the guard exists.
struct OnFailure(u64);

impl Drop for OnFailure {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("reproduce with TERRACE_SEED={}", self.0);
        }
    }
}
