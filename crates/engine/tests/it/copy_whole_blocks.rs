//! Tests compactions that copy whole blocks without decoding them. Reads must return the same
//! results as without such copies, and the compactions must really copy blocks.
use crate::common::kit;
use kit::{Model, Place};
use std::{fs, path::Path};
use terrace::{Db, ReadOptions, Snapshot, WriteOptions};
use terrace_sim::Rng;

const KEYS: usize = 8000;

fn key(number: usize) -> Vec<u8> {
    format!("key{number:07}").into_bytes()
}

/// Returns all pairs that `snapshot` sees; without a snapshot, the current pairs.
fn shown(db: &Db, snapshot: Option<&Snapshot>) -> Model {
    let options = snapshot.map_or_else(ReadOptions::new, |snapshot| ReadOptions::new().snapshot(snapshot));
    db.scan(options).map(Result::unwrap).collect()
}

/// Makes puts, deletes and range deletes in a few narrow key ranges, so that most blocks of
/// different tables do not overlap.
fn change(db: &Db, model: &mut Model, rng: &mut Rng, value_max: usize) {
    for _ in 0..8 {
        let from = rng.below(KEYS);
        match rng.below(8) {
            0 => {
                let (first, last) = (key(from), key(from + rng.below(30)));
                db.delete_range(&first, &last, WriteOptions::default()).unwrap();
                model.retain(|key, _| !(&first..&last).contains(&key));
            }
            1 | 2 => {
                db.delete(key(from)).unwrap();
                model.remove(&key(from));
            }
            _ => {
                for number in from..from + rng.below(40) {
                    let value: Vec<u8> = (0..rng.below(2 * value_max)).map(|_| rng.below(256) as u8).collect();
                    db.put(key(number), &value).unwrap();
                    model.insert(key(number), value);
                }
            }
        }
    }
}

#[test]
fn copying_blocks_changes_no_read() {
    for seed in 0..24 {
        let rng = &mut Rng::new(seed);
        let pick = |rng: &mut Rng, all: &[&'static str]| all[rng.below(all.len())];
        // Most seeds use small blocks with few entries. Some seeds use blocks with more entries
        // than a cursor decodes in one step.
        let (block_size, value_max) = if seed % 4 == 0 { ("20KiB", 4) } else { ("1KiB", 100) };
        let options = kit::options(&[
            ("copy_whole_blocks", "on"),
            ("write_buffer_size", "64KiB"),
            ("target_file_size", "128KiB"),
            ("max_bytes_for_level_base", "64KiB"),
            ("block_size", block_size),
            ("range_tombstones", "on"),
            ("compression", pick(rng, &["none", "snappy", "zstd"])),
            ("bloom_bits", pick(rng, &["0", "10"])),
            ("filter_form", pick(rng, &["block", "table"])),
            ("max_subcompactions", pick(rng, &["1", "3"])),
            ("min_subcompaction_size", "16KiB"),
            ("compaction_pri", pick(rng, &["round_robin", "min_overlapping_ratio"])),
            ("durability", "none"),
        ]);
        let place = Place::any();
        let db = place.open(&options, false).unwrap();
        let (mut model, mut kept) = (Model::new(), None);
        for number in 0..KEYS {
            let value = vec![number as u8; value_max / 2 + rng.below(value_max)];
            db.put(key(number), &value).unwrap();
            model.insert(key(number), value);
        }
        for round in 0..12 {
            change(&db, &mut model, rng, value_max);
            db.flush().unwrap();
            if rng.below(3) == 0 {
                kept = Some((db.snapshot(), model.clone()));
            }
            let ends = [rng.below(KEYS), rng.below(KEYS)].map(key);
            let (from, to) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
            db.compact_range(Some(from), Some(to)).unwrap();
            assert!(shown(&db, None) == model, "seed {seed}, round {round}");
            if let Some((snapshot, then)) = &kept {
                assert!(shown(&db, Some(snapshot)) == *then, "seed {seed}, round {round}: the snapshot");
            }
        }
        drop(kept);
        db.compact_range(None, None).unwrap();
        assert!(shown(&db, None) == model, "seed {seed}: all merged");
        db.close().unwrap();
    }
}

/// Returns the bytes of all tables, oldest first.
fn tables(store: &Path) -> Vec<Vec<u8>> {
    let mut paths: Vec<_> = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ends| ends == "ldb"));
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Tests that a compaction copies blocks unchanged if they follow a block in which a longer value
/// replaced a shorter one. If the compaction encoded the later blocks again, they would have other
/// contents and end at other offsets.
#[test]
fn blocks_after_a_change_are_copied_unchanged() {
    for (wanted, stay) in [("on", true), ("off", false)] {
        let place = Place::directory();
        let layout = [
            ("copy_whole_blocks", wanted),
            ("compression", "none"),
            ("target_file_size", "4MiB"),
            ("durability", "none"),
        ];
        let db = place.open(&kit::plain(&layout), false).unwrap();
        let store = place.path().unwrap();
        for number in 0..KEYS {
            db.put(key(number), [number as u8; 100]).unwrap();
        }
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        let before = tables(&store);
        let db = place.open(&kit::plain(&layout), false).unwrap();
        db.put(key(KEYS / 2), [7; 150]).unwrap();
        db.put(key(KEYS / 2 + 1), [7; 150]).unwrap();
        db.compact_range(None, None).unwrap();
        db.close().unwrap();
        let after = tables(&store);
        assert_eq!((before.len(), after.len()), (1, 1));
        // A range of the old table that contains two blocks and their trailers.
        let late = &before[0][before[0].len() * 3 / 4..][..8 << 10];
        assert_eq!(after[0].windows(late.len()).any(|window| window == late), stay, "copy_whole_blocks {wanted}");
    }
}

#[test]
fn a_new_codec_applies_to_all_compacted_blocks() {
    let place = Place::directory();
    let layout = |codec| kit::in_files(&[("copy_whole_blocks", "on"), ("compression", codec), ("durability", "none")]);
    let db = place.open(&layout("none"), false).unwrap();
    (0..KEYS).for_each(|number| db.put(key(number), [7; 100]).unwrap());
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    let bytes = || tables(&place.path().unwrap()).iter().map(Vec::len).sum::<usize>();
    let before = bytes();
    let db = place.open(&layout("zstd"), false).unwrap();
    db.put(key(KEYS / 2), "changed").unwrap();
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    assert!(bytes() < before / 3, "{before} B before, {} B compressed", bytes());
}
