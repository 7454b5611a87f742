//! Tests of space reclamation: deleted and overwritten entries may take at most a fixed fraction
//! of the size of the live data. This must be true both when the store is idle and under load, for
//! every kind of history that creates garbage: queues, truncated logs, rolling time series, prefix
//! deletes, expiring entries, and shrinking values.
//!
//! All sizes are a small fraction of the sizes in the presets, in the same proportions. The test
//! runs background jobs step by step, so the same history takes the same space on any machine.
//! *Under load* means that the test measures between operations, after the due jobs have run. *At
//! rest* means that it measures after [`Db::wait_idle`], which also runs optional jobs.
mod histories;

use crate::common::kit;
use histories::{HISTORIES, History, overwriting};
use kit::{Model, Place};
use std::collections::VecDeque;
use terrace::{Db, Options, WriteBatch, WriteOptions};
use terrace_sim::Rng;

const MEMTABLE: u64 = 128 << 10;
/// The count of memtables that may be written before garbage has to be dropped. In this time the
/// garbage is first in the active memtable and then in level 0.
const LAG: usize = 6;
/// The bytes that a store at rest may take in addition to its live data, whatever the size of this
/// data. The value is for the sizes in the presets; the tests scale it down.
const SLACK: u64 = 64 << 20;

/// How a history deletes several keys in one call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Deletes {
    Points,
    Ranges,
}

/// A store, its expected contents, and its measurements.
struct Store {
    place: Place,
    db: Db,
    model: Model,
    noise: Vec<u8>,
    rng: Rng,
    deletes: Deletes,
    written: u64,
    looked: u64,
    /// The bytes that are allowed at rest in addition to the live bytes; see [`SLACK`].
    slack: u64,
    /// The live bytes at the last measurements. One memtable is written between two measurements.
    lived: VecDeque<u64>,
    /// The largest amount, measured under load, by which the tables exceeded twice the live bytes.
    excess: u64,
    name: String,
}

/// Returns the options of `preset` with small sizes, and the scaled slack in bytes.
fn small(preset: &str, changes: &[(&str, &str)]) -> (Options, u64) {
    let mut options = Options::preset(preset).expect("a preset").resolved();
    let part = options.write_buffer_size / MEMTABLE;
    options.device = false;
    options.write_buffer_size = MEMTABLE;
    options.target_file_size = (options.target_file_size / part).max(64 << 10);
    options.max_bytes_for_level_base = (options.max_bytes_for_level_base / part).max(64 << 10);
    options.value_log_segment_size = 256 << 10;
    options.block_cache_size = 1 << 20;
    options.memory_budget = 0;
    options.reserve_bytes = 0;
    for (name, value) in [("durability", "sync"), ("wal_write_mode", "write")].iter().chain(changes) {
        options.set(name, value).unwrap_or_else(|e| panic!("{name}={value}: {e}"));
    }
    (options, SLACK / part)
}

impl Store {
    fn open(preset: &str, changes: &[(&str, &str)], deletes: Deletes) -> Store {
        let mut changes = changes.to_vec();
        if deletes == Deletes::Ranges {
            changes.push(("range_tombstones", "on"));
        }
        let (options, slack) = small(preset, &changes);
        let place = Place::any();
        let db = place.open(&options, true).expect("open");
        let mut rng = Rng::new(1);
        let noise = (0..8192).flat_map(|_| rng.next_u64().to_le_bytes()).collect();
        let name = format!("{preset} {changes:?}");
        let (model, lived, written, looked, excess) = (Model::new(), VecDeque::new(), 0, 0, 0);
        Store { place, db, model, noise, rng, deletes, written, looked, slack, lived, excess, name }
    }

    /// Closes the store and opens it with `preset`.
    fn reopen(mut self, preset: &str) -> Store {
        let (options, _) = small(preset, &[]);
        self.db.close().expect("close");
        self.db = self.place.open(&options, true).expect("open");
        self
    }

    /// Puts a value of `bytes` bytes that does not compress and whose first bytes are unique.
    fn put(&mut self, key: String, bytes: usize) {
        let from = self.rng.below(self.noise.len() - bytes);
        let value = self.noise[from..from + bytes].to_vec();
        self.db.put(&key, &value).expect("put");
        self.written += (key.len() + value.len()) as u64;
        self.model.insert(key.into_bytes(), value);
        self.step();
    }

    fn delete(&mut self, key: &str) {
        self.db.delete(key).expect("delete");
        self.written += key.len() as u64;
        self.model.remove(key.as_bytes());
        self.step();
    }

    /// Deletes all keys from `from` up to but not including `to`.
    fn delete_all(&mut self, from: &str, to: &str) {
        let keys = |model: &Model| -> Vec<Vec<u8>> {
            model.range(from.as_bytes().to_vec()..to.as_bytes().to_vec()).map(|(key, _)| key.clone()).collect()
        };
        let gone = keys(&self.model);
        match self.deletes {
            Deletes::Ranges => self.db.delete_range(from, to, WriteOptions::default()).expect("delete a range"),
            Deletes::Points => {
                let mut batch = WriteBatch::new();
                gone.iter().for_each(|key| _ = batch.delete(key));
                self.db.write(batch, WriteOptions::default()).expect("write");
            }
        }
        gone.iter().for_each(|key| drop(self.model.remove(key)));
        self.step();
    }

    /// Runs all due background jobs. From time to time it measures the sizes.
    fn step(&mut self) {
        while self.db.step(0).is_some() {}
        if self.written >= self.looked + MEMTABLE {
            self.looked = self.written;
            self.lived.push_front(self.live());
            self.lived.truncate(LAG);
            let live = self.lived.iter().max().expect("just now");
            self.excess = self.excess.max(self.taken().saturating_sub(2 * live + self.slack));
        }
    }

    fn live(&self) -> u64 {
        self.model.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }

    /// Returns the number of bytes that tables and separated values take.
    fn taken(&self) -> u64 {
        let tables: u64 = self.db.layout().iter().flat_map(|level| &level.tables).map(|table| table.bytes).sum();
        tables + self.db.statistics().value_log.bytes
    }

    fn compacted(&self) -> u64 {
        self.db.statistics().levels.iter().map(|level| level.compactions.bytes_written).sum()
    }

    fn rest(&self) {
        self.db.flush().expect("flush");
        self.db.wait_idle().expect("wait");
    }

    /// Compares the measurements with the promised limits. Returns a text for each violation.
    fn judge(mut self, history: &str) -> Vec<String> {
        let under_load = self.excess;
        self.rest();
        let (taken, live) = (self.taken(), self.live());
        let layout: Vec<u64> =
            self.db.layout().iter().map(|level| level.tables.iter().map(|table| table.bytes >> 10).sum()).collect();
        let report = format!(
            "{history}, {}: {} KiB written, compactions wrote {}; live {}, at rest {} in {layout:?}; under load {} beyond",
            self.name,
            self.written >> 10,
            self.compacted() >> 10,
            live >> 10,
            taken >> 10,
            under_load >> 10,
        );
        println!("{report}");
        let held = kit::contents(&self.db).expect("read");
        assert!(held.iter().map(|(key, value)| (key, value)).eq(&self.model), "other contents: {report}");
        self.model.clear();
        let mut broken = Vec::new();
        if taken > live * 3 / 2 + self.slack {
            broken.push(format!("at rest: {report}"));
        }
        // Under load, the bytes that level 0 may have are added to the limit.
        if under_load > 4 * MEMTABLE {
            broken.push(format!("under load: {report}"));
        }
        broken
    }
}

fn all_keep_within(preset: &str, changes: &[(&str, &str)]) {
    let mut broken = Vec::new();
    for (name, history) in HISTORIES {
        let deletes_many = ["append and truncate", "time series", "prefixes"].contains(name);
        let ways = if deletes_many { &[Deletes::Points, Deletes::Ranges][..] } else { &[Deletes::Points] };
        for deletes in ways {
            let mut store = Store::open(preset, changes, *deletes);
            history(&mut store);
            broken.extend(store.judge(&format!("{name} by {deletes:?}")));
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn space_is_reclaimed_in_preset_default() {
    all_keep_within("default", &[]);
}

#[test]
fn space_is_reclaimed_in_preset_bundled() {
    all_keep_within("bundled", &[]);
}

#[test]
fn space_is_reclaimed_in_preset_device() {
    all_keep_within("device", &[]);
}

#[test]
fn space_is_reclaimed_with_separated_values() {
    all_keep_within("default", &[("values", "log")]);
}

/// Tests that a snapshot pins only one version of each key. All other readers need only the
/// newest, so the store must keep at most two versions of a key.
#[test]
fn a_snapshot_pins_one_version_of_a_key() {
    for deletes in [Deletes::Points, Deletes::Ranges] {
        for changes in [&[][..], &[("tables", "bundled")], &[("copy_whole_blocks", "on")]] {
            let mut store = Store::open("default", changes, deletes);
            (0..200).for_each(|n| store.put(format!("key{n:05}"), 1000));
            let snapshot = store.db.snapshot();
            let before = kit::contents(&store.db).expect("read");
            for round in 0..10 {
                if round % 3 == 2 {
                    store.delete_all("key00100", "key00200");
                }
                (0..200).for_each(|n| store.put(format!("key{n:05}"), 1000));
            }
            store.db.flush().expect("flush");
            store.db.compact_range(None, None).expect("compact");
            store.db.wait_idle().expect("wait");
            let (taken, live) = (store.taken(), store.live());
            assert!(taken * 10 <= live * 23, "{deletes:?}, {}: {taken} bytes for {live}", store.name);
            let seen = kit::scan(&store.db, terrace::ReadOptions::new().snapshot(&snapshot)).expect("read");
            assert!(seen == before, "the snapshot sees something else");
            drop(snapshot);
            store.db.compact_range(None, None).expect("compact");
            assert!(store.judge("released").is_empty());
        }
    }
}

/// Tests histories without tombstones, in which the store does not know which entries are
/// shadowed. It must compact levels as usual: the option `tombstone_compaction_percent` must
/// hardly increase write amplification.
#[test]
fn without_tombstones_write_amplification_hardly_grows() {
    let filling = |store: &mut Store| {
        for _ in 0..12_000 {
            let n = store.rng.below(1 << 20);
            store.put(format!("key{n:08}"), 400);
        }
    };
    let histories: [History; 2] = [("filling", filling), ("overwriting", overwriting)];
    for preset in ["default", "bundled"] {
        for (name, history) in histories {
            let written = |percent: &str| {
                let mut store = Store::open(preset, &[("tombstone_compaction_percent", percent)], Deletes::Points);
                history(&mut store);
                store.db.flush().expect("flush");
                store.step();
                let under_load = store.compacted();
                store.rest();
                [under_load, store.compacted()]
            };
            let (with, without) = (written("50"), written("0"));
            println!("{name}, {preset}: compactions wrote {with:?}, without {without:?}");
            assert!(with[0] * 100 <= without[0] * 103, "{name}, {preset}: {with:?} instead of {without:?} under load");
        }
    }
}

/// Tests that garbage which an earlier session wrote is reclaimed. To find it, the idle store must
/// examine its tables.
#[test]
fn garbage_of_an_earlier_session_is_reclaimed() {
    for (name, history) in [HISTORIES[0], HISTORIES[1], HISTORIES[4]] {
        let mut store = Store::open("default", &[("tombstone_compaction_percent", "0")], Deletes::Points);
        history(&mut store);
        store.rest();
        let (before, live) = (store.taken(), store.live());
        let store = store.reopen("default");
        store.db.wait_idle().expect("wait");
        println!("{name}: {before} before, {} after, for {live} live", store.taken());
        assert!(store.taken() <= live * 3 / 2, "{name}: {} for {live}, {before} before", store.taken());
        let broken = store.judge(name);
        assert!(!broken.iter().any(|what| what.starts_with("at rest")), "{broken:?}");
    }
}

/// Tests that an idle store drops the entries that a snapshot had pinned, once the snapshot is
/// released.
#[test]
fn entries_pinned_by_a_snapshot_are_dropped_after_its_release() {
    for (preset, deletes) in [("default", Deletes::Points), ("default", Deletes::Points), ("default", Deletes::Ranges)]
    {
        for (name, history) in [HISTORIES[0], HISTORIES[1], HISTORIES[4], HISTORIES[6]] {
            let mut store = Store::open(preset, &[], deletes);
            let empty = store.db.snapshot();
            history(&mut store);
            let snapshot = store.db.snapshot();
            drop(empty);
            let keys: Vec<_> = store.model.keys().cloned().collect();
            keys.iter().step_by(2).for_each(|key| store.delete(std::str::from_utf8(key).expect("ASCII")));
            store.rest();
            assert!(store.taken() > store.live() * 3 / 2, "{name}: the snapshot holds nothing");
            drop(snapshot);
            store.rest();
            let (taken, live) = (store.taken(), store.live());
            assert!(taken <= live * 3 / 2 + 4096, "{name}, {preset}, {deletes:?}: {taken} for {live}");
        }
    }
}
