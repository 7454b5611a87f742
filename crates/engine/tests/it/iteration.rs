//! Tests of cursors over many overlapping sorted runs, which step in both directions and change
//! direction. Their results are compared with sorted maps.
//!
//! Keys are written in clusters. In some parts of the key range, many neighbouring keys are in the
//! same sorted run. In other parts, every step of a cursor moves to another run. All versions and
//! tombstones of a key may be in one run or spread over several.
use crate::common::kit;
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};
use terrace::{Comparator, Cursor, Db, Options, ReadOptions, Snapshot};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A linear congruential generator. It produces the same numbers in every run of the test.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// A key order in which `B` equals `b`.
struct CaseInsensitive;

impl Comparator for CaseInsensitive {
    fn name(&self) -> &str {
        "test.CaseInsensitive"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
}

fn options(comparator: Option<Arc<dyn Comparator>>, bloom_bits: &str) -> Options {
    let preset = Options::preset("leveldb").unwrap();
    let mut options = comparator.into_iter().fold(preset, Options::comparator);
    for (name, value) in [("bloom_bits", bloom_bits), ("filter_form", "table")] {
        options.set(name, value).unwrap();
    }
    options.block_size = 1024;
    options.write_buffer_size = 64 << 20;
    (
        options.level0_file_num_compaction_trigger,
        options.level0_slowdown_writes_trigger,
        options.level0_stop_writes_trigger,
    ) = (100, 200, 300);
    options
}

/// Makes a store of several runs and a memtable, and a snapshot from the middle of its history.
/// Returns the contents of the store and of the snapshot.
fn store(dice: &mut Lcg, options: Options) -> (Db, Snapshot, [Model; 2]) {
    let db = kit::store(options);
    let (mut model, mut then) = (Model::new(), None);
    for round in 0..8 {
        for _ in 0..12 {
            let (start, stride) = (dice.below(3000), 1 + dice.below(3));
            for n in 0..dice.below(150) {
                let key = format!("key{:05}", start + n * stride).into_bytes();
                if dice.below(5) == 0 {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                } else {
                    let value = vec![round; dice.below(40) as usize];
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
            }
            if round == 3 && then.is_none() {
                then = Some((db.snapshot(), model.clone()));
            }
        }
        if round < 7 {
            db.flush().unwrap();
        }
        if round == 1 {
            db.compact_range(None, None).unwrap();
        }
    }
    let (snapshot, then) = then.expect("it is made in round 3");
    (db, snapshot, [model, then])
}

fn same(cursor: &Cursor, want: Option<&(Vec<u8>, Vec<u8>)>, walk: &str) {
    let found = cursor.valid().then(|| (cursor.key().to_vec(), cursor.value().to_vec()));
    assert!(found.as_ref() == want, "a wrong {walk}: {found:?} where {want:?} should be");
}

#[test]
fn cursors_over_many_runs_equal_a_sorted_map() {
    let custom: Arc<dyn Comparator> = Arc::new(CaseInsensitive);
    for (seed, comparator, bloom_bits) in [(1, None, "0"), (2, None, "10"), (3, Some(custom), "10")] {
        let mut dice = Lcg(seed);
        let (db, snapshot, models) = store(&mut dice, options(comparator, bloom_bits));
        for (model, read) in models.iter().zip([ReadOptions::new(), ReadOptions::new().snapshot(&snapshot)]) {
            let pairs: Vec<_> = model.clone().into_iter().collect();
            let mut cursor = db.cursor(read);
            cursor.seek_to_first().unwrap();
            for pair in &pairs {
                same(&cursor, Some(pair), "walk forward");
                cursor.next().unwrap();
            }
            same(&cursor, None, "walk forward");
            cursor.seek_to_last().unwrap();
            for pair in pairs.iter().rev() {
                same(&cursor, Some(pair), "walk backward");
                cursor.prev().unwrap();
            }
            same(&cursor, None, "walk backward");
            walk_back_and_forth(&mut dice, &mut cursor, &pairs);
        }
    }
}

/// Seeks to random positions. After each seek, steps several times forward or backward and changes
/// direction in between.
fn walk_back_and_forth(dice: &mut Lcg, cursor: &mut Cursor, pairs: &[(Vec<u8>, Vec<u8>)]) {
    for _ in 0..300 {
        let target = format!("key{:05}", dice.below(3300)).into_bytes();
        let mut at = pairs.partition_point(|(key, _)| *key < target);
        cursor.seek(&target).unwrap();
        for turn in 0..4 {
            for _ in 0..dice.below(40) {
                same(cursor, pairs.get(at), "walk to and fro");
                if at >= pairs.len() || at == 0 && turn % 2 == 1 {
                    break;
                }
                if turn % 2 == 0 {
                    at += 1;
                    cursor.next().unwrap();
                } else {
                    at -= 1;
                    cursor.prev().unwrap();
                }
            }
        }
    }
}

/// Tests seeks over 61 to 67 sorted runs. A seek records in a bit mask of 64 bits which sources it
/// has not searched yet, so the counts of runs are below and above 64.
#[test]
fn seeks_find_in_any_number_of_runs() {
    for runs in 61..68_u8 {
        let db = kit::store(options(None, "10"));
        for run in 0..runs {
            db.put("key", [run]).unwrap();
            db.put(format!("key{run:03}"), [run]).unwrap();
            db.flush().unwrap();
        }
        let tables: usize = db.layout().iter().map(|level| level.tables.len()).sum();
        assert_eq!(tables, usize::from(runs));
        let mut cursor = db.cursor(ReadOptions::new());
        cursor.seek(b"key").unwrap();
        assert_eq!(cursor.value(), [runs - 1]);
        for run in 0..runs {
            cursor.seek(format!("key{run:03}").as_bytes()).unwrap();
            assert_eq!(cursor.value(), [run], "of {runs}");
            cursor.next().unwrap();
            assert_eq!(cursor.valid().then(|| cursor.value()[0]), Some(run + 1).filter(|next| *next < runs));
        }
    }
}

/// Tests a key order that ignores case, in which keys that differ only in case are versions of one
/// key.
#[test]
fn different_bytes_can_be_equal_in_a_custom_order() {
    let db = kit::store(options(Some(Arc::new(CaseInsensitive)), "10"));
    for key in ["b", "B", "a", "C", "c", "A"] {
        db.put(key, key).unwrap();
    }
    db.flush().unwrap();
    let keys = |scan: terrace::Scan| scan.map(|pair| String::from_utf8(pair.unwrap().0).unwrap()).collect::<String>();
    assert_eq!(keys(db.scan(ReadOptions::new())), "ABc", "the walk forward");
    assert_eq!(keys(db.scan_reverse(ReadOptions::new())), "cBA", "the walk backward");
    db.put("C", "newer").unwrap();
    db.flush().unwrap();
    let mut cursor = db.cursor(ReadOptions::new());
    cursor.seek(b"c").unwrap(); // the filter of the newer table excludes this key
    assert_eq!((cursor.key(), cursor.value()), (&b"C"[..], &b"newer"[..]));
}

#[test]
fn an_equal_key_of_other_bytes_finds_its_separated_value() {
    let mut options = options(Some(Arc::new(CaseInsensitive)), "0");
    for (name, value) in [("values", "log"), ("value_log_threshold", "10")] {
        options.set(name, value).unwrap();
    }
    let db = kit::store(options);
    db.put("Key", [7; 1000]).unwrap();
    db.put("Other", [8; 1000]).unwrap();
    for place in ["a memtable", "a table"] {
        assert_eq!(db.get("KEY").unwrap().as_deref(), Some(&[7; 1000][..]), "in {place}");
        assert_eq!(db.multi_get(&["kEy", "other"]).remove(1).unwrap().unwrap(), [8; 1000], "in {place}");
        db.flush().unwrap();
    }
}
