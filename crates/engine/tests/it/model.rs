//! The model test: with random operations, options, places (memory, directory or device) and ways
//! to run jobs, a store must return the same results as a sorted map.
//!
//! Cases are generated from the seed `TERRACE_MODEL_SEED` (default 1). `TERRACE_MODEL_CASES` is
//! the number of cases. A failure prints the seed and the smallest case that fails.
use crate::common::{kit, ops};
use kit::{Backwards, Place, check_layout};
use ops::{Config, Key, Move, Op, Range, Value, any_config, any_op};
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config as Runs, RngAlgorithm, TestCaseResult, TestError, TestRng, TestRunner},
};
use std::{
    cmp::Ordering,
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace::{
    Cursor, Db, DurabilityMode, Error, Options, PinnedValue, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};

type Map = BTreeMap<Key, Value>;

/// A store and its expected contents.
struct Harness {
    config: Config,
    place: Place,
    openings: usize,
    db: Option<Db>,
    map: Map,
    snapshots: Vec<(Snapshot, Map)>,
    cursors: Vec<(Cursor, Walk)>,
    /// Pinned values, each with its expected bytes.
    pins: Vec<(PinnedValue, Value)>,
}

/// The expected state of a cursor: the pairs of its range in the cursor's order, and the position
/// of the cursor among them.
struct Walk {
    pairs: Vec<(Key, Value)>,
    backwards: bool,
    at: Option<usize>,
}

impl Walk {
    fn new(map: &Map, range: &Range, backwards: bool) -> Walk {
        let compare = |a: &[u8], b: &[u8]| order(backwards, a, b);
        let inside = |key: &Key| {
            range.from.as_ref().is_none_or(|from| compare(key, from).is_ge())
                && range.to.as_ref().is_none_or(|to| compare(key, to).is_lt())
                && range.prefix.as_ref().is_none_or(|prefix| key.starts_with(prefix))
        };
        let mut pairs: Vec<_> = map.iter().filter(|(key, _)| inside(key)).map(|(k, v)| (k.clone(), *v)).collect();
        pairs.sort_by(|a, b| compare(&a.0, &b.0));
        Walk { pairs, backwards, at: None }
    }

    fn step(&mut self, step: &Move) {
        let backwards = self.backwards;
        self.at = match step {
            Move::First => (!self.pairs.is_empty()).then_some(0),
            Move::Last => self.pairs.len().checked_sub(1),
            Move::Seek(to) => self.pairs.iter().position(|(key, _)| order(backwards, key, to).is_ge()),
            Move::SeekForPrev(to) => self.pairs.iter().rposition(|(key, _)| order(backwards, key, to).is_le()),
            Move::Next => self.at.map(|at| at + 1).filter(|at| *at < self.pairs.len()),
            Move::Prev => self.at.and_then(|at| at.checked_sub(1)),
        };
    }
}

/// The count of bytes that tail GC re-appended, summed over all cases.
static PUT_AGAIN_BYTES: AtomicU64 = AtomicU64::new(0);
static MOVED_BYTES: AtomicU64 = AtomicU64::new(0);

fn order(backwards: bool, a: &[u8], b: &[u8]) -> Ordering {
    if backwards { b.cmp(a) } else { a.cmp(b) }
}

fn fine<T>(outcome: terrace::Result<T>) -> Result<T, TestCaseError> {
    outcome.map_err(|error| TestCaseError::fail(format!("unexpected error: {error}")))
}

impl Harness {
    fn new(config: Config) -> Result<Harness, TestCaseError> {
        let place = match config.place {
            0 => Place::memory(),
            1 => Place::scrambled(),
            3 => Place::device(),
            4 => Place::split(),
            _ => Place::directory(),
        };
        let (map, snapshots, cursors, pins) = Default::default();
        let mut harness = Harness { config, place, openings: 0, db: None, map, snapshots, cursors, pins };
        harness.reopen()?;
        Ok(harness)
    }

    fn options(&self) -> Options {
        let mut options = Options::preset(self.config.preset).expect("a preset of that name");
        // The durability interval must be 0. Manual steps do not advance a clock, and with threads
        // every case would wait for the interval.
        options.durability_interval_ms = 0;
        if self.place.refuses(&options).is_some() {
            options.durability = DurabilityMode::Auto;
        }
        options.set("tables", self.config.tables).expect("a form of tables");
        if self.config.tables == "directory" && self.place.path().is_some() {
            // In any other durability mode each table build would sync the whole file system.
            options.durability = DurabilityMode::None;
        }
        for (name, value) in &self.config.option_sets[self.openings % 2] {
            options.set(name, value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
        }
        if self.config.backwards { options.comparator(Arc::new(Backwards)) } else { options }
    }

    fn reopen(&mut self) -> TestCaseResult {
        self.db = Some(fine(self.place.open(&self.options(), self.config.manual))?);
        self.openings += 1;
        Ok(())
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("open between operations")
    }

    fn read_options(&self, range: &Range) -> ReadOptions {
        let pairs = self.map.len(); // pseudo-random
        let mut options = ReadOptions::new().verify_checksums(pairs.is_multiple_of(2)).fill_cache(pairs % 3 > 1);
        let Range { from, to, prefix } = range.clone();
        if let Some(from) = from {
            options = options.from(from);
        }
        if let Some(to) = to {
            options = options.to(to);
        }
        if let Some(prefix) = prefix {
            options = options.prefix(prefix);
        }
        options
    }

    fn write(&mut self, ops: &[(Key, Option<Value>)], sync: bool) -> TestCaseResult {
        let mut batch = WriteBatch::new();
        for (key, value) in ops {
            match value {
                Some(value) => {
                    batch.put(key, value.expand());
                    self.map.insert(key.clone(), *value);
                }
                None => {
                    batch.delete(key);
                    self.map.remove(key);
                }
            }
        }
        fine(self.db().write(batch, WriteOptions { sync, ..WriteOptions::default() })).map(drop)
    }

    fn check_scan(&self, map: &Map, range: &Range, reverse: bool, snapshot: Option<&Snapshot>) -> TestCaseResult {
        let mut options = self.read_options(range);
        if let Some(snapshot) = snapshot {
            options = options.snapshot(snapshot);
        }
        let scan = if reverse { self.db().scan_reverse(options) } else { self.db().scan(options) };
        let found = fine(scan.collect::<terrace::Result<Vec<_>>>())?;
        let mut wanted = Walk::new(map, range, self.config.backwards).pairs;
        if reverse {
            wanted.reverse();
        }
        let keys = |pairs: &[Key]| format!("{pairs:?}");
        let (found_keys, found_values): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let (wanted_keys, wanted_values): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        prop_assert_eq!(keys(&found_keys), keys(&wanted_keys), "keys of {:?}, reverse {}", range, reverse);
        let same = found_values.iter().zip(&wanted_values).all(|(found, wanted)| *found == wanted.expand());
        prop_assert!(same, "a value of {:?} differs from {:?}", range, wanted_values);
        Ok(())
    }

    fn check_walk(cursor: &mut Cursor, walk: &mut Walk, moves: &[Move]) -> TestCaseResult {
        for step in moves {
            walk.step(step);
            fine(match step {
                Move::First => cursor.seek_to_first(),
                Move::Last => cursor.seek_to_last(),
                Move::Seek(key) => cursor.seek(key),
                Move::SeekForPrev(key) => cursor.seek_for_prev(key),
                Move::Next => cursor.next(),
                Move::Prev => cursor.prev(),
            })?;
            let found = cursor.valid().then(|| cursor.key().to_vec());
            let wanted = walk.at.map(|at| walk.pairs[at].0.clone());
            prop_assert_eq!(found, wanted, "after {:?} of {:?}", step, moves);
            if let Some(at) = walk.at {
                prop_assert!(cursor.value() == walk.pairs[at].1.expand(), "the value after {:?} of {:?}", step, moves);
            }
        }
        Ok(())
    }

    fn check_everything(&self) -> TestCaseResult {
        self.check_scan(&self.map, &Range::default(), false, None)?;
        self.check_scan(&self.map, &Range::default(), true, None)?;
        for (pinned, value) in &self.pins {
            prop_assert!(**pinned == value.expand(), "a pinned value changed");
        }
        let intact = check_layout(&self.db().layout(), self.options().order());
        prop_assert!(intact.is_ok(), "{:?}", intact);
        let statistics = self.db().statistics();
        prop_assert_eq!(statistics.snapshots, self.snapshots.len() as u64);
        prop_assert_eq!(statistics.failed_deletions, 0);
        Ok(())
    }

    fn close(&mut self, orderly: bool) -> TestCaseResult {
        self.snapshots.clear();
        self.cursors.clear();
        self.pins.drain(..self.pins.len().saturating_sub(4)); // some outlive their store
        let db = self.db.take().expect("open between operations");
        let did = db.statistics();
        let moved = did.bytes_written.iter().filter(|(purpose, _)| *purpose == "collection");
        PUT_AGAIN_BYTES.fetch_add(did.value_log.relocated_bytes, Relaxed);
        MOVED_BYTES.fetch_add(moved.map(|(_, bytes)| bytes).sum(), Relaxed);
        if orderly { fine(db.close()) } else { Ok(()) }
    }

    /// Opens two readers at the same time after a kill. Both must see all writes, an open for
    /// writing must be refused, and no file may change.
    fn read_only(&mut self) -> TestCaseResult {
        let Some(path) = self.place.path() else { return Ok(()) };
        let refused = Db::open_read_only(&path, self.options());
        prop_assert!(matches!(refused, Err(Error::InUse { .. })), "a reader during a write session");
        self.close(false)?;
        let before = kit::files_below(&path);
        let readers =
            [fine(Db::open_read_only(&path, self.options()))?, fine(Db::open_read_only(&path, self.options()))?];
        prop_assert!(
            matches!(Db::open(&path, self.options()), Err(Error::InUse { .. })),
            "a writer during read sessions"
        );
        for reader in readers {
            self.db = Some(reader);
            self.check_everything()?;
        }
        self.db = None;
        prop_assert!(before == kit::files_below(&path), "reading changed the directory");
        self.reopen()
    }

    fn run(&mut self, op: &Op) -> TestCaseResult {
        match op {
            Op::Put(key, value) => self.write(&[(key.clone(), Some(*value))], false)?,
            Op::Delete(key) => self.write(&[(key.clone(), None)], false)?,
            Op::DeleteRange(from, to) => {
                let backwards = self.config.backwards;
                let inside = |key: &Key| order(backwards, key, from).is_ge() && order(backwards, key, to).is_lt();
                self.map.retain(|key, _| !inside(key));
                fine(self.db().delete_range(
                    from,
                    to,
                    WriteOptions { sync: from.len() == 2, ..WriteOptions::default() },
                ))?;
            }
            Op::Batch(ops, sync) => self.write(ops, *sync)?,
            Op::Get(key) => {
                let wanted = self.map.get(key);
                let expanded = wanted.map(|value| value.expand());
                prop_assert!(fine(self.db().get(key))? == expanded, "get {:?}", key);
                let pinned = fine(self.db().get_pinned(key, &self.read_options(&Range::default())))?;
                prop_assert!(pinned.as_deref() == expanded.as_deref(), "get {:?} pinned", key);
                self.pins.extend(pinned.zip(wanted.copied()));
            }
            Op::Scan(range, reverse) => self.check_scan(&self.map, range, *reverse, None)?,
            Op::Walk(range, moves) => {
                let mut walk = Walk::new(&self.map, range, self.config.backwards);
                Self::check_walk(&mut self.db().cursor(self.read_options(range)), &mut walk, moves)?;
            }
            Op::TakeSnapshot => self.snapshots.push((self.db().snapshot(), self.map.clone())),
            Op::ReadSnapshot(which, range) if !self.snapshots.is_empty() => {
                let (snapshot, map) = &self.snapshots[which % self.snapshots.len()];
                self.check_scan(map, range, which % 3 == 0, Some(snapshot))?;
                for key in self.map.keys().chain(map.keys()).take(8) {
                    let found = fine(self.db().get_with(key, &ReadOptions::new().snapshot(snapshot)))?;
                    prop_assert!(found == map.get(key).map(|value| value.expand()), "get {:?} of a snapshot", key);
                }
            }
            Op::DropSnapshot(which) if !self.snapshots.is_empty() => {
                drop(self.snapshots.remove(which % self.snapshots.len()));
            }
            Op::HoldCursor(range, moves) => {
                let mut cursor = self.db().cursor(self.read_options(range));
                let mut walk = Walk::new(&self.map, range, self.config.backwards);
                Self::check_walk(&mut cursor, &mut walk, moves)?;
                self.cursors.push((cursor, walk));
            }
            Op::MoveCursor(which, moves) if !self.cursors.is_empty() => {
                let at = which % self.cursors.len();
                let (cursor, walk) = &mut self.cursors[at];
                Self::check_walk(cursor, walk, moves)?;
            }
            Op::DropCursor(which) if !self.cursors.is_empty() => drop(self.cursors.remove(which % self.cursors.len())),
            Op::Flush => fine(self.db().flush())?,
            Op::Compact(from, to) => {
                fine(self.db().compact_range(from.as_deref(), to.as_deref()))?;
                self.check_everything()?;
            }
            Op::Step(pick) => drop(self.db().step(*pick)),
            Op::Tick => fine(self.db().wait_durable(self.db().last_sequence()))?,
            Op::Idle => {
                fine(self.db().wait_idle())?;
                self.check_everything()?;
            }
            Op::Close | Op::Kill => {
                self.close(matches!(op, Op::Close))?;
                self.reopen()?;
                self.check_everything()?;
            }
            Op::ReadOnly => self.read_only()?,
            // The operation refers to a snapshot or cursor that does not exist in this case, so it
            // does nothing.
            Op::ReadSnapshot(..) | Op::DropSnapshot(_) | Op::MoveCursor(..) | Op::DropCursor(_) => {}
        }
        Ok(())
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
fn equals_a_sorted_map() {
    let seed = number("TERRACE_MODEL_SEED", 1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let cases = number("TERRACE_MODEL_CASES", 1500) as u32;
    let runs = Runs { cases, failure_persistence: None, max_shrink_iters: 2000, ..Runs::default() };
    let mut runner = TestRunner::new_with_rng(runs, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let outcome = runner.run(&(any_config(), vec(any_op(), 1..400)), |(config, ops)| {
        let mut harness = Harness::new(config)?;
        for op in &ops {
            harness.run(op)?;
        }
        harness.check_everything()
    });
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, (config, ops))) => panic!("seed {seed}: {reason}\n{config:#?}\n{ops:#?}"),
        Err(error) => panic!("seed {seed}: {error}"),
    }
    let collected = [&PUT_AGAIN_BYTES, &MOVED_BYTES].map(|bytes| bytes.load(Relaxed));
    println!("bytes re-appended and relocated by GC: {collected:?}");
    assert!(cases < 1000 || collected.iter().all(|bytes| *bytes > 100_000), "nothing was collected: {collected:?}");
}

/// Tests prefix scans in a custom key order. In bytewise order, the keys with a prefix begin with
/// the prefix itself, if it is a key. In another order, the prefix itself may be the last of these
/// keys or between them.
#[test]
fn a_prefix_finds_its_keys_in_a_custom_order() {
    let db = Db::open_in_memory(Options::default().comparator(Arc::new(Backwards))).unwrap();
    ["a", "b", "b1", "b2", "c"].iter().for_each(|key| db.put(key, "").unwrap());
    let keys = |scan: terrace::Scan| scan.map(|pair| String::from_utf8(pair.unwrap().0).unwrap()).collect::<Vec<_>>();
    assert_eq!(keys(db.scan(ReadOptions::new().prefix("b"))), ["b2", "b1", "b"]);
    assert_eq!(keys(db.scan_reverse(ReadOptions::new().prefix("b"))), ["b", "b1", "b2"]);
}
