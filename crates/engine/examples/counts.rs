//! Repeats one kind of operation of a store many times. `cargo xtask counts` runs this program
//! under callgrind, counts the cost of the operation, and compares it with earlier counts.
//!
//! `counts PRESET KIND` prints three counts: operations, allocations, and system calls that read
//! or write. Callgrind counts the instructions of [`measured`] and of all functions that it calls.
//! Everything runs on one thread, in a fixed order.
#[path = "../tests/it/common/counting.rs"]
mod counting;

use std::{env, fs, hint::black_box};
use terrace::{Db, DurabilityMode, Options, ReadOptions, Result};
use terrace_storage::{Location, placement::OpenMode};

/// Number of pairs in the store.
const PAIRS: u64 = 20_000;
const VALUE_BYTES: usize = 100;

/// A kind of operation. It has a preparation, which is not counted, and a part whose cost is
/// counted. The latter returns the count of operations that it made.
struct Kind {
    name: &'static str,
    prepare: fn(&Db, &Keys) -> Result<()>,
    run: fn(&Db, &Keys) -> Result<u64>,
}

const KINDS: &[Kind] = &[
    Kind { name: "fillseq", prepare: nothing, run: |db, keys| fill(db, &keys.ascending) },
    Kind { name: "fillrandom", prepare: nothing, run: |db, keys| fill(db, &keys.scattered) },
    Kind { name: "flush", prepare: filled, run: |db, _| db.flush().map(|()| PAIRS) },
    Kind { name: "compact", prepare: two_runs, run: |db, _| db.compact_range(None, None).map(|()| 2 * PAIRS) },
    Kind { name: "compact-sparse", prepare: sparse, run: |db, _| db.compact_range(None, None).map(|()| PAIRS) },
    Kind { name: "get", prepare: settled, run: |db, keys| gets(db, &keys.scattered, true) },
    Kind { name: "get-absent", prepare: settled, run: |db, keys| gets(db, &keys.absent, false) },
    Kind { name: "seek", prepare: settled, run: |db, keys| seeks(db, &keys.scattered) },
    Kind { name: "next", prepare: settled, run: |db, _| walk(db, false) },
    Kind { name: "prev", prepare: settled, run: |db, _| walk(db, true) },
    Kind { name: "next-memtable", prepare: filled, run: |db, _| walk(db, false) },
    Kind { name: "prev-memtable", prepare: filled, run: |db, _| walk(db, true) },
    Kind { name: "multi-get", prepare: settled, run: |db, keys| many_gets(db, &keys.scattered) },
    Kind { name: "get-runs", prepare: five_runs, run: |db, keys| gets(db, &keys.scattered, true) },
    Kind { name: "seek-runs", prepare: five_runs, run: |db, keys| seeks(db, &keys.scattered) },
    Kind { name: "next-runs", prepare: five_runs, run: |db, _| walk(db, false) },
];

/// Keys that are made before counting starts.
struct Keys {
    ascending: Vec<[u8; 16]>,
    scattered: Vec<[u8; 16]>,
    /// Absent keys. Each is between two existing keys.
    absent: Vec<[u8; 16]>,
}

impl Keys {
    fn new() -> Keys {
        let key = |n: u64| <[u8; 16]>::try_from(format!("{n:016}").as_bytes()).expect("sixteen digits");
        let scattered: Vec<_> = (0..PAIRS).map(|n| key(n * 7919 % PAIRS)).collect();
        let absent = scattered.iter().map(|key| {
            let mut key = *key;
            key[15] = b'.';
            key
        });
        Keys { ascending: (0..PAIRS).map(key).collect(), absent: absent.collect(), scattered }
    }
}

fn nothing(_: &Db, _: &Keys) -> Result<()> {
    Ok(())
}

fn filled(db: &Db, keys: &Keys) -> Result<()> {
    fill(db, &keys.scattered).map(drop)
}

/// Writes two versions of every key. Each of the two generations is in its own SSTable.
fn two_runs(db: &Db, keys: &Keys) -> Result<()> {
    for _ in 0..2 {
        filled(db, keys)?;
        db.flush()?;
    }
    Ok(())
}

/// Writes a run of all keys, and a run of every 200th key.
fn sparse(db: &Db, keys: &Keys) -> Result<()> {
    filled(db, keys)?;
    db.compact_range(None, None)?;
    keys.ascending.iter().step_by(200).try_for_each(|key| db.put(key, [7; VALUE_BYTES]))?;
    db.flush()
}

/// Flushes and compacts until there is one run, an empty memtable and no background work. Then
/// reads every block once.
fn settled(db: &Db, keys: &Keys) -> Result<()> {
    two_runs(db, keys)?;
    db.compact_range(None, None)?;
    gets(db, &keys.scattered, true).map(drop)
}

/// Leaves five runs and an empty memtable, and then reads every block once. Each run has every
/// fifth of the scattered keys; most of the runs are in level 0.
fn five_runs(db: &Db, keys: &Keys) -> Result<()> {
    const RUNS: usize = 5;
    for run in 0..RUNS {
        keys.scattered.iter().skip(run).step_by(RUNS).try_for_each(|key| db.put(key, [7; VALUE_BYTES]))?;
        db.flush()?;
    }
    let tables: Vec<_> = db.layout().iter().map(|level| level.tables.len()).collect();
    assert!(tables[0] >= RUNS - 2 && tables[1..].iter().all(|tables| *tables <= 1), "{tables:?}");
    assert_eq!(tables.iter().sum::<usize>(), RUNS);
    gets(db, &keys.scattered, true).map(drop)
}

fn fill(db: &Db, keys: &[[u8; 16]]) -> Result<u64> {
    keys.iter().try_for_each(|key| db.put(key, [7; VALUE_BYTES]))?;
    Ok(PAIRS)
}

fn gets(db: &Db, keys: &[[u8; 16]], there: bool) -> Result<u64> {
    for key in keys {
        assert_eq!(black_box(db.get(key)?).is_some(), there);
    }
    Ok(PAIRS)
}

/// Looks up sixteen keys in each call.
fn many_gets(db: &Db, keys: &[[u8; 16]]) -> Result<u64> {
    for keys in keys.chunks(16) {
        for found in black_box(db.multi_get(keys)) {
            assert!(found?.is_some());
        }
    }
    Ok(PAIRS)
}

fn seeks(db: &Db, keys: &[[u8; 16]]) -> Result<u64> {
    for key in keys {
        let mut cursor = db.cursor(ReadOptions::new());
        cursor.seek(key)?;
        assert_eq!(black_box(cursor.key()), key);
    }
    Ok(PAIRS)
}

fn walk(db: &Db, reverse: bool) -> Result<u64> {
    let mut cursor = db.cursor(ReadOptions::new());
    if reverse {
        cursor.seek_to_last()?
    } else {
        cursor.seek_to_first()?
    }
    let mut seen = 0;
    while cursor.valid() {
        seen += u64::from(black_box(cursor.value()).len() == VALUE_BYTES);
        if reverse { cursor.prev()? } else { cursor.next()? }
    }
    assert_eq!(seen, PAIRS);
    Ok(seen)
}

/// Runs the counted part. callgrind finds this function by its name.
#[inline(never)]
fn measured(kind: &Kind, db: &Db, keys: &Keys) -> Result<u64> {
    (kind.run)(db, keys)
}

/// Returns the number of system calls of this process so far that read or write.
fn calls() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    text.lines().filter_map(|line| line.strip_prefix("sysc")?.split_once(": ")?.1.parse::<u64>().ok()).sum()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let names: Vec<_> = KINDS.iter().map(|kind| kind.name).collect();
    if arguments == ["kinds"] {
        println!("{}", names.join(" "));
        return Ok(());
    }
    let kind = arguments.get(1).and_then(|name| KINDS.iter().find(|kind| kind.name == name));
    let (Some(preset), Some(kind)) = (arguments.first(), kind) else {
        eprintln!("usage: counts kinds | counts PRESET {}", names.join("|"));
        std::process::exit(2);
    };
    let directory = tempfile::tempdir().expect("create a directory for the store");
    let mut options = Options::preset(preset)?;
    // Fixed sizes make the work the same for every preset. No sync is part of the work.
    for (name, value) in [("write_buffer_size", "64MiB"), ("block_cache_size", "64MiB"), ("bloom_bits", "10")] {
        options.set(name, value)?;
    }
    options.set("compression", "none")?;
    options.durability = DurabilityMode::None;
    let location = Location::Directory(directory.path().join("store"));
    let storage = terrace_storage::open(&location, OpenMode::Create, options.durability, &options.setup())?;
    let db = Db::open_manual(storage, options)?;
    let keys = Keys::new();
    (kind.prepare)(&db, &keys)?;
    let (allocations, calls_before) = (counting::of_process(), calls());
    let operations = measured(kind, &db, &keys)?;
    let (calls_after, allocations) = (calls(), counting::of_process() - allocations);
    // Reading the counters itself allocates and reads. This cost is constant, and negligible when
    // it is divided by the count of operations.
    let calls = calls_after - calls_before;
    println!("{operations} {allocations} {calls}");
    db.close()
}
