//! Tests of ranges from both ends, counts, deletes of prefixes, and atomic changes of one pair.
use crate::common::kit;
use std::{collections::BTreeMap, ops::Bound, sync::Arc, thread};
use terrace::{Comparator, Db, Error, Options, ReadOptions, WriteOptions};
use terrace_sim::Rng;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: usize) -> Vec<u8> {
    format!("k{number:02}").into_bytes()
}

/// Returns a store and its contents: some pairs in SSTables, some in the memtable, some deleted.
fn filled(db: &Db, rng: &mut Rng) -> Model {
    let mut model = Model::new();
    for step in 0..120 {
        let key = key(rng.below(40));
        if rng.below(4) == 0 {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            db.put(&key, step.to_string()).unwrap();
            model.insert(key, step.to_string().into_bytes());
        }
        if step == 60 {
            db.flush().unwrap();
        }
    }
    model
}

fn bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    let key = key(rng.below(42));
    match rng.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(key),
        _ => Bound::Excluded(key),
    }
}

#[test]
fn a_range_from_both_ends_equals_that_of_a_map() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let db = Db::open_in_memory(Options::default()).unwrap();
        let model = filled(&db, &mut rng);
        for round in 0..100 {
            let range = (bound(&mut rng), bound(&mut rng));
            // A map panics for such a range; the store has no pairs in it.
            let is_empty = match &range {
                (Bound::Included(a), Bound::Included(b)) => a > b,
                (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
                _ => false,
            };
            let mut found = db.range::<Vec<u8>>((range.0.as_ref(), range.1.as_ref()));
            if is_empty {
                assert!(found.next().is_none() && found.next_back().is_none(), "seed {seed}, round {round}");
                continue;
            }
            let mut wanted = model.range(range);
            loop {
                let (a, b) = match rng.below(2) {
                    0 => (found.next(), wanted.next()),
                    _ => (found.next_back(), wanted.next_back()),
                };
                assert_eq!(
                    a.map(Result::unwrap),
                    b.map(|(key, value)| (key.clone(), value.clone())),
                    "seed {seed}, round {round}"
                );
                if b.is_none() {
                    break;
                }
            }
            assert!(found.next().is_none() && found.next_back().is_none());
        }
        assert_eq!(db.count(ReadOptions::new()).unwrap(), model.len() as u64);
        let pair = |(key, value): (&Vec<u8>, &Vec<u8>)| (key.clone(), value.clone());
        assert_eq!(db.first(ReadOptions::new()).unwrap(), model.first_key_value().map(pair));
        assert_eq!(db.last(ReadOptions::new()).unwrap(), model.last_key_value().map(pair));
    }
}

#[test]
fn a_range_sees_one_moment() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    ["a", "b", "c"].iter().try_for_each(|key| db.put(key, "1")).unwrap();
    let mut range = db.range::<str>(..);
    db.put("b", "2").unwrap();
    db.delete("c").unwrap();
    db.put("d", "2").unwrap();
    assert_eq!(range.next_back().unwrap().unwrap(), (b"c".to_vec(), b"1".to_vec()));
    assert_eq!(range.map(|pair| pair.unwrap().1).collect::<Vec<_>>(), [b"1", b"1"]);
}

#[test]
fn a_prefix_of_any_bytes_is_deleted_and_nothing_else() {
    for ranges in ["on", "off"] {
        let db = Db::open_in_memory(kit::options(&[("range_tombstones", ranges)])).unwrap();
        let family = db.create_cf("other").unwrap();
        for prefix in [&b"b"[..], b"b\xff", b"\xff", b"\xff\xff", b""] {
            let keys: [&[u8]; 9] =
                [b"a", b"b", b"b\x00", b"b\xff", b"b\xff\xff", b"c", b"\xfe", b"\xff", b"\xff\xff\xff"];
            keys.iter()
                .try_for_each(|key| db.put(key, "").and_then(|()| family.put(key, "").map(drop)).map(drop))
                .unwrap();
            family.delete_prefix(prefix, WriteOptions::default()).unwrap();
            let left = keys.iter().filter(|key| !key.starts_with(prefix)).count() as u64;
            assert_eq!(family.count(ReadOptions::new()).unwrap(), left, "{prefix:?}, {ranges}");
            assert_eq!(db.count(ReadOptions::new()).unwrap(), 9);
        }
        db.delete_prefix("none", WriteOptions::default()).unwrap();
        let both = WriteOptions { sync: true, ..WriteOptions::without_wal() };
        assert!(matches!(db.delete_prefix("a", both), Err(Error::Invalid(_))), "{ranges}");
        db.delete_prefix(b"\xff\xff\xff\xff", WriteOptions::default()).unwrap();
        assert_eq!(db.count(ReadOptions::new()).unwrap(), 9);
    }
}

/// Orders keys by their bytes from the last to the first.
struct Reversed;

impl Comparator for Reversed {
    fn name(&self) -> &str {
        "reversed"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

#[test]
fn ranges_follow_a_comparator_and_prefixes_are_refused() {
    let options = Options::default().comparator(Arc::new(Reversed));
    let db = Db::open_in_memory(options).unwrap();
    ["a", "b", "c", "d"].iter().try_for_each(|key| db.put(key, "")).unwrap();
    let keys = |range: terrace::Range| range.map(|pair| pair.unwrap().0).collect::<Vec<_>>();
    assert_eq!(keys(db.range("c"..="a")), [b"c", b"b", b"a"]);
    assert_eq!(keys(db.range::<str>((Bound::Excluded("d"), Bound::Excluded("b")))), [b"c"]);
    assert_eq!(db.range("c"..).next_back().unwrap().unwrap().0, b"a");
    let refused = db.delete_prefix("a", WriteOptions::default()).unwrap_err();
    assert!(matches!(refused, Error::Unsupported(_)) && refused.to_string().contains("reversed"), "{refused}");
}

#[test]
fn concurrent_updates_lose_nothing() {
    let db = Db::open_in_memory(Options::default()).unwrap();
    let number = |old: Option<&[u8]>| old.map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let add = |old: Option<Vec<u8>>| Some((number(old.as_deref()) + 1).to_le_bytes().to_vec());
                    while let Err(conflict) = db.update("n", WriteOptions::default(), add) {
                        assert!(conflict.is_retryable(), "{conflict}");
                    }
                }
            });
            scope.spawn(|| {
                for _ in 0..200 {
                    loop {
                        let old = db.get("n").unwrap();
                        let new = (number(old.as_deref()) + 1).to_le_bytes();
                        match db.compare_and_swap("n", old.as_deref(), Some(&new), WriteOptions::default()) {
                            Ok(true) => break,
                            Ok(false) => {}
                            Err(conflict) => assert!(conflict.is_retryable(), "{conflict}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(number(db.get("n").unwrap().as_deref()), 800);
    assert_eq!(db.update("n", WriteOptions::default(), |_| None).unwrap(), None);
    assert_eq!(db.get("n").unwrap(), None);
    assert!(!db.compare_and_swap("n", Some(b""), Some(b"1"), WriteOptions::default()).unwrap(), "absent is not empty");
}
