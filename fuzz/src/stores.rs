//! Fuzz targets for an SSTable and for a whole store with arbitrary bytes.
use super::{
    damage::{self, BATCHES, FLUSHED, Verdict, judge, layout},
    files::{self, Files},
    heal,
    kit::{self, Model},
};
use std::sync::{Arc, LazyLock};
use terrace::{Options, ReadOptions, WriteOptions};
use terrace_format::{KeyOrder, SeqNo, TableId, filter::Bloom, key};
use terrace_storage::{
    Memory, Result, StorageConfig,
    backends::files::fs::FileSystem,
    durability::NoTracker,
    open_files,
    placement::{OpenMode, Table, TableMeta, TableReadOptions},
};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Fuzz target for SSTables. An SSTable that passes verification must give the same entries
/// through every interface. For any other SSTable, reads must terminate and return sorted entries.
pub fn table(input: &[u8]) {
    for file in [input.to_vec(), heal::table(input)] {
        let memory = Memory::new();
        memory.create("000001.ldb").and_then(|mut writer| writer.append(&file)).expect("memory takes all");
        let setup = StorageConfig { filter: Some(Arc::new(Bloom::new(10))), ..StorageConfig::default() };
        let placement =
            open_files(Arc::new(memory), OpenMode::Create, Arc::new(NoTracker), &setup).expect("memory opens");
        let meta = TableMeta::unbounded(TableId(1), file.len() as u64);
        let Ok(table) = placement.open_table(&meta) else { continue };
        let verified = table.verify();
        for verify in [true, false] {
            let how = TableReadOptions { verify, fill_cache: false };
            let (forward, backward) = (walk(&table, how, false), walk(&table, how, true));
            let _ = (table.get(&key::lookup(&input[..input.len().min(9)], SeqNo(9)), how), table.anchors(3));
            if let Ok(facts) = &verified {
                let (forward, mut backward) = (forward.expect("it was verified"), backward.expect("it was verified"));
                backward.reverse();
                assert_eq!(forward, backward, "backward is forward reversed");
                assert_eq!(facts.entries, forward.len() as u64);
                for (key, value) in &forward {
                    let found = table.get(key, how).expect("it was verified").expect("it is there");
                    assert_eq!(found.value[..], value[..], "the value of {}", key.escape_ascii());
                }
            }
        }
    }
}

/// Maximum count of pairs in a small SSTable. Each pair needs at least one byte.
const PAIRS_MAX: usize = 1 << 16;

fn walk(table: &Arc<dyn Table>, how: TableReadOptions, back: bool) -> Result<Entries> {
    let (mut cursor, mut entries) = (table.cursor(how)?, Entries::new());
    if back {
        cursor.seek_last()?
    } else {
        cursor.seek_first()?
    }
    while cursor.valid() && entries.len() < PAIRS_MAX {
        let order = |last: &(Vec<u8>, Vec<u8>)| KeyOrder::Bytewise.internal(&last.0, cursor.key());
        let moves = entries.last().map(order).is_none_or(|order| if back { order.is_gt() } else { order.is_lt() });
        assert!(moves, "backward {back}: {} does not follow", cursor.key().escape_ascii());
        entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
        if back { cursor.prev()? } else { cursor.next()? }
    }
    Ok(entries)
}

/// Two fixed stores, one without and one with a format file.
static STORES: LazyLock<[(Files, Vec<Model>); 2]> = LazyLock::new(|| [false, true].map(damage::store));

/// A store with range tombstones in SSTables of several levels.
static RANGED: LazyLock<(Files, Vec<Model>)> = LazyLock::new(|| (ranged(), Vec::new()));

/// Number of pairs that were ever written to that store.
const RANGED_PAIRS: usize = 300;

fn ranged_shape() -> Options {
    let own = [("range_tombstones", "on"), ("block_size", "1KiB"), ("compression", "none")];
    kit::options(&[&own, kit::TIGHT].concat())
}

fn ranged() -> Files {
    let fs: Arc<dyn FileSystem> = Arc::new(Memory::new());
    let db = kit::open(&fs, &ranged_shape(), true).expect("memory opens");
    for round in 0..3 {
        for number in (round..RANGED_PAIRS).step_by(round + 1) {
            db.put(format!("key{number:03}"), "value ".repeat(round + 1)).expect("memory takes all");
        }
        db.flush().expect("memory takes all");
        let (from, to) = (format!("key{:03}", 90 * round + 10), format!("key{:03}", 90 * round + 60));
        db.delete_range(from, to, WriteOptions::default()).expect("memory takes all");
        db.flush().expect("memory takes all");
        while round == 1 && db.step(0).is_some() {}
    }
    drop(db);
    files::files(&*fs)
}

/// Scans a damaged store in both directions. The scans must terminate and return sorted pairs.
/// Unless checksums were recomputed, both directions must return the same pairs.
fn walk_both_ways(damaged: &Files, healed: bool) {
    let Ok(db) = kit::open(&files::directory(damaged), &ranged_shape(), true) else { return };
    let options = || ReadOptions::new().verify_checksums(true).fill_cache(false);
    let [forward, mut backward] = [db.scan(options()), db.scan_reverse(options())].map(|scan| {
        let mut pairs = Vec::new();
        for pair in scan {
            pairs.push(pair?);
            assert!(pairs.len() <= 1 << 16, "a scan of {RANGED_PAIRS} pairs does not end");
        }
        Ok::<_, terrace::Error>(pairs)
    });
    let ascends = |pairs: &[(Vec<u8>, Vec<u8>)]| pairs.windows(2).all(|two| two[0].0 < two[1].0);
    backward.iter_mut().for_each(|pairs| pairs.reverse());
    for pairs in [&forward, &backward].into_iter().flatten() {
        assert!(ascends(pairs), "a scan shows pairs out of order");
    }
    if let (false, Ok(forward), Ok(backward)) = (healed, &forward, &backward) {
        assert_eq!(forward, backward, "backward is forward reversed");
    }
}

/// Fuzz target for whole stores: damages a fixed store and checks the result. The first byte of
/// the input selects the store, and whether checksums are recomputed. Each further group of seven
/// bytes describes one damage: file, kind, position (three bytes), and a number (two bytes).
pub fn store(input: &[u8]) {
    let Some((&how, damages)) = input.split_first() else { return };
    let (marked, healed, ranged) = (how & 1 != 0, how & 2 != 0, how & 4 != 0);
    let (files, states) = if ranged { &*RANGED } else { &STORES[usize::from(marked)] };
    let mut damaged = files.clone();
    for damage in damages.chunks_exact(7) {
        let &[file, kind, a, b, c, d, e] = damage else { unreachable!("seven bytes") };
        let at = u32::from_le_bytes([a, b, c, 0]) as usize;
        let file = usize::from(file) % damaged.len();
        let bytes = damaged.values_mut().nth(file).expect("within the files");
        harm(bytes, kind, at % bytes.len().max(1), usize::from(u16::from_le_bytes([d, e])));
    }
    if healed {
        damaged
            .iter_mut()
            .for_each(|(name, bytes)| *bytes = if is_table(name) { heal::table(bytes) } else { heal::log(bytes) });
    }
    if ranged {
        return walk_both_ways(&damaged, healed);
    }
    if healed {
        // With valid checksums the contents are arbitrary, so any result or error is allowed.
        let _ = judge(&damaged, &layout(marked), states);
        return;
    }
    let changed =
        |log: bool| files.iter().any(|(name, bytes)| name.ends_with(".log") == log && damaged[name] != *bytes);
    let legal = match judge(&damaged, &layout(marked), states) {
        Ok(Verdict::Holds(count)) => count == BATCHES || changed(true) && count >= FLUSHED,
        Ok(Verdict::Refused | Verdict::PartlyReadable) => changed(false), // damage to an unsynced log is what power cuts do
        Err(why) => panic!("{why}"),
    };
    assert!(legal, "{:?}", judge(&damaged, &layout(marked), states));
}

fn is_table(name: &str) -> bool {
    name.ends_with(".ldb")
}

/// Applies one damage to a file, which may be empty.
fn harm(bytes: &mut Vec<u8>, kind: u8, at: usize, number: usize) {
    let end = bytes.len().min(at + number);
    match kind % 6 {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= number as u8),
        1 => bytes.truncate(at),
        2 => bytes[at.min(end)..end].fill(0),
        3 => bytes.extend(std::iter::repeat_n(number as u8, number >> 8)),
        4 => drop(bytes.drain(at.min(end)..end)),
        _ => bytes.iter_mut().skip(at).take(2).zip(number.to_le_bytes()).for_each(|(byte, new)| *byte = new),
    }
}
