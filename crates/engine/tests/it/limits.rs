//! Tests of the limits of sizes. Empty and huge keys and values must be either accepted and
//! returned intact, or refused. They must never be truncated.
//!
//! The largest value (4 GiB − 1 bytes) is tested only with `TERRACE_BIG=1`, because that takes 20
//! GiB of memory.
use crate::common::kit;
use kit::{Pairs, Place, options};
use terrace::{Db, Error, Options, ReadOptions, WriteBatch, WriteOptions, check_on};
use terrace_peers::require;
use terrace_sim::Rng;
use terrace_storage::placement::OpenMode;

#[test]
fn the_empty_key_and_the_empty_value_are_ordinary() {
    for manual in [true, false] {
        let place = Place::any();
        let mut db = place.open(&Options::default(), manual).unwrap();
        let pairs: Pairs = vec![
            (vec![], vec![]),
            (vec![0], b"zero".to_vec()),
            (vec![0, 0], vec![]),
            (vec![0xff], vec![0]),
            (vec![0xff; 300], vec![0xff; 300]),
        ];
        pairs.iter().for_each(|(key, value)| db.put(key, value).unwrap());
        for stage in ["log", "table", "deeper table", "reopened"] {
            match stage {
                "table" => db.flush().unwrap(),
                "deeper table" => db.compact_range(Some(b""), Some(b"")).unwrap(),
                "reopened" => {
                    db.close().unwrap();
                    db = place.open(&Options::default(), manual).unwrap();
                }
                _ => {}
            }
            assert_eq!(kit::contents(&db).unwrap(), pairs, "{stage}");
            assert_eq!(db.get(b"").unwrap(), Some(vec![]), "{stage}");
            assert_eq!(kit::scan(&db, ReadOptions::new().to("")).unwrap(), vec![], "{stage}");
            assert_eq!(kit::scan(&db, ReadOptions::new().from("").to([0])).unwrap(), pairs[..1], "{stage}");
            assert_eq!(db.get([0, 0, 0]).unwrap(), None, "{stage}");
        }
        db.delete(b"").unwrap();
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get(b"").unwrap(), None);
        assert_eq!(kit::contents(&db).unwrap(), pairs[1..]);
    }
}

#[test]
fn an_empty_batch_is_written_and_takes_no_sequence() {
    let db = kit::store(Options::default());
    assert_eq!(db.write(WriteBatch::new(), WriteOptions::default()).unwrap(), 0);
    db.put("a", "b").unwrap();
    assert_eq!(db.write(WriteBatch::new(), WriteOptions::synced()).unwrap(), 1);
    assert_eq!((db.last_sequence(), db.durable_sequence()), (1, 1));
}

/// Tests that keys and values that are too large are refused together with the whole batch in
/// which they are. The huge slices are zero pages that were never written. A refusal that copied
/// them would need much memory.
#[test]
fn oversized_entries_are_refused_with_their_batch() {
    let db = kit::store(Options::default());
    let huge = vec![0u8; 1 << 32];
    let attempts: [fn(&mut WriteBatch, &[u8]) -> usize; 3] = [
        |batch, huge| batch.put("key", huge).len(),
        |batch, huge| batch.put(huge, "value").len(),
        |batch, huge| batch.delete(huge).len(),
    ];
    for attempt in attempts {
        let mut batch = WriteBatch::new();
        batch.put("before", "1");
        assert_eq!(attempt(&mut batch, &huge), 1);
        batch.put("after", "1");
        assert!(batch.byte_len() < 100, "a refused pair was copied");
        let error = db.write(batch, WriteOptions::default()).expect_err("too large");
        assert!(matches!(&error, Error::Invalid(text) if text.contains("4294967296")), "{error}");
        assert_eq!((db.get("before").unwrap(), db.get("after").unwrap(), db.last_sequence()), (None, None, 0));
    }
    db.put("next", "works").unwrap();
    assert_eq!(db.get("next").unwrap(), Some(b"works".to_vec()));
}

/// Asserts that `key` has the value `wanted`. The failure message does not contain the value,
/// which has several megabytes.
fn assert_value(db: &Db, key: &str, wanted: &[u8], stage: &str) {
    let found =
        db.get(key).unwrap_or_else(|e| panic!("{stage}: {e}")).unwrap_or_else(|| panic!("{stage}: {key} is missing"));
    assert_eq!(found.len(), wanted.len(), "{stage}: {key}");
    assert!(found == wanted, "{stage}: {key} has other bytes");
}

#[test]
fn values_of_64_mib_pass_through_wal_flush_compaction_and_reopen() {
    let mut rng = Rng::new(64);
    let noise: Vec<u8> = (0..8 << 20).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
    let dull = vec![b'x'; (64 << 20) + 1];
    for codec in ["none", "snappy", "zstd"] {
        let (place, options) = (Place::any(), options(&[("compression", codec)]));
        let mut db = place.open(&options, false).unwrap();
        db.put("noise", &noise).unwrap();
        db.put("dull", &dull).unwrap();
        for stage in ["log", "killed", "flushed", "compacted", "closed"] {
            match stage {
                "flushed" => db.flush().unwrap(),
                "compacted" => db.compact_range(None, None).unwrap(),
                "killed" | "closed" => {
                    if stage == "closed" {
                        db.close().unwrap()
                    } else {
                        drop(db)
                    }
                    db = place.open(&options, false).unwrap();
                }
                _ => {}
            }
            assert_value(&db, "noise", &noise, &format!("{codec}, {stage}"));
            assert_value(&db, "dull", &dull, &format!("{codec}, {stage}"));
        }
        assert_eq!(
            db.scan(ReadOptions::new()).map(|pair| pair.unwrap().1.len()).sum::<usize>(),
            noise.len() + dull.len()
        );
        db.close().unwrap();
        let storage = kit::storage(&place.fs, OpenMode::ReadOnly, &options).unwrap();
        assert_eq!(check_on(&*storage, &options, true).unwrap().problems, Vec::<String>::new(), "{codec}");
    }
}

/// Tests keys of one megabyte. They make index entries, key bounds in the manifest, and WAL
/// records large too.
#[test]
fn keys_of_a_megabyte_work_everywhere() {
    let (place, options) = (Place::any(), options(&[("bloom_bits", "10"), ("max_manifest_file_size", "4KiB")]));
    let db = place.open(&options, true).unwrap();
    let key = |n: u8| [vec![b'k'; 1 << 20], vec![n]].concat();
    for round in 0..3u8 {
        (0..6).for_each(|n| db.put(key(n), [round, n]).unwrap());
        db.flush().unwrap();
    }
    db.delete(key(3)).unwrap();
    db.compact_range(Some(&key(0)), Some(&key(5))).unwrap();
    db.wait_idle().unwrap();
    drop(db);
    let db = place.open(&options, true).unwrap();
    let found = kit::contents(&db).unwrap();
    let wanted: Pairs = [0, 1, 2, 4, 5].into_iter().map(|n| (key(n), vec![2, n])).collect();
    assert!(found == wanted, "{} pairs", found.len());
    let prefixed = kit::scan(&db, ReadOptions::new().prefix(vec![b'k'; 1 << 20])).unwrap();
    assert!(prefixed == wanted, "{} pairs by prefix", prefixed.len());
}

/// Returns the number of bytes of memory that this process can still allocate.
fn available() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo: {e}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).ok_or("no MemAvailable")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().map_err(|_| "MemAvailable is no number")?;
    Ok(kib << 10)
}

#[test]
fn the_largest_value_is_read_intact() {
    if std::env::var("TERRACE_BIG").as_deref() != Ok("1") {
        println!("skipped: TERRACE_BIG=1 is not set");
        return;
    }
    let enough =
        available().and_then(|bytes| if bytes >= 20 << 30 { Ok(()) } else { Err(format!("{bytes} B of memory")) });
    let Some(()) = require("big", enough) else { return };
    let place = Place::directory();
    let options = options(&[("compression", "none"), ("block_cache_size", "1")]);
    let mut db = place.open(&options, false).unwrap();
    let bytes = u32::MAX as usize;
    // Four bytes at the start of each page identify the page, so the test detects a missing or
    // misplaced page.
    let at_page = |page: usize| (page as u32).wrapping_mul(2_654_435_761).to_le_bytes();
    let mut value = vec![0u8; bytes];
    value.chunks_exact_mut(4096).enumerate().for_each(|(page, chunk)| chunk[..4].copy_from_slice(&at_page(page)));
    db.put("largest", &value).unwrap();
    drop(value);
    for stage in ["log", "killed", "compacted"] {
        match stage {
            "killed" => {
                drop(db);
                db = place.open(&options, false).unwrap();
            }
            "compacted" => db.compact_range(None, None).unwrap(),
            _ => {}
        }
        let found = db.get("largest").unwrap().expect("there");
        assert_eq!(found.len(), bytes, "{stage}");
        let wrong = found.chunks_exact(4096).enumerate().find(|(page, chunk)| chunk[..4] != at_page(*page));
        assert!(wrong.is_none(), "{stage}: page {:?} differs", wrong.map(|(page, _)| page));
    }
}
