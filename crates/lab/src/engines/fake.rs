//! An engine with known costs, for tests of the lab. Each call takes a fixed time. Each change
//! writes a fixed number of bytes to one file. Every n-th write syncs the file. The entries of a
//! store are in memory. A test can also configure the engine to fail or to return wrong results.
use crate::target::{Change, Engine, EngineBuild, EngineCounts, Result, Settings, SyncCount, Target};
use anyhow::{Context, bail};
use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    ops::Bound,
    path::Path,
    sync::{Mutex, MutexGuard},
    time::{Duration, Instant},
};

/// An engine whose costs are known, because its fields determine them.
#[derive(Clone, Debug, Default)]
pub struct Fake {
    /// Duration of a write call.
    pub write_time: Duration,
    /// Duration of a point lookup call.
    pub read_time: Duration,
    /// Bytes written to the file `fake.log` per change.
    pub bytes_per_change: usize,
    /// Number of writes between two syncs; 0 for no such syncs. A write with `sync` performs a
    /// further sync.
    pub writes_per_sync: u64,
    /// Stall time that each write adds to the engine's counter.
    pub stall: Duration,
    /// Whether the engine reports its own counters.
    pub counts: bool,
    /// Number of writes that succeed before a write fails. `None` if no write fails.
    pub fails_after: Option<u64>,
    /// Number of writes that the fake engine stores before it loses a write without an error.
    /// `None` if it loses no write.
    pub forgets_after: Option<u64>,
}

struct FakeTarget {
    costs: Fake,
    state: Mutex<FakeState>,
}

struct FakeState {
    file: File,
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    writes: u64,
    bytes: u64,
    syncs: SyncCount,
    unsynced: u64,
}

impl Engine for Fake {
    fn name(&self) -> String {
        "fake".into()
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        Ok(EngineBuild { version: "1".into(), source: "this repository".into(), hardware_crc: None, assertions: None })
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        vec!["keeps everything in memory".into()]
    }

    fn open(&self, dir: &Path, _: &Settings) -> Result<Box<dyn Target>> {
        let file = File::create(dir.join("fake.log")).context("create fake.log")?;
        let (pairs, syncs) = (BTreeMap::new(), SyncCount { bytes: Some(0), ..SyncCount::default() });
        let state = Mutex::new(FakeState { file, pairs, writes: 0, bytes: 0, syncs, unsynced: 0 });
        Ok(Box::new(FakeTarget { costs: self.clone(), state }))
    }
}

impl FakeTarget {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl FakeState {
    fn sync(&mut self) -> Result<()> {
        let start = Instant::now();
        self.file.sync_data().context("sync fake.log")?;
        let bytes = std::mem::take(&mut self.unsynced);
        self.syncs = SyncCount {
            count: self.syncs.count + 1,
            blocking: self.syncs.blocking + 1,
            bytes: self.syncs.bytes.map(|sum| sum + bytes),
            seconds: self.syncs.seconds + start.elapsed().as_secs_f64(),
        };
        Ok(())
    }
}

/// Waits in a loop, without sleeping, until `time` has passed since `start`.
fn wait(start: Instant, time: Duration) {
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

impl Target for FakeTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let start = Instant::now();
        let mut state = self.state();
        state.writes += 1;
        if self.costs.fails_after.is_some_and(|last| state.writes > last) {
            bail!("the fake engine fails as configured");
        }
        let bytes = changes.len() * self.costs.bytes_per_change;
        if bytes > 0 {
            state.file.write_all(&vec![b'x'; bytes]).context("write fake.log")?;
        }
        state.bytes += bytes as u64;
        state.unsynced += bytes as u64;
        let forgets = self.costs.forgets_after.is_some_and(|last| state.writes == last + 1);
        for change in changes.iter().filter(|_| !forgets) {
            match *change {
                Change::Put(key, value) => drop(state.pairs.insert(key.into(), value.into())),
                Change::Delete(key) => drop(state.pairs.remove(key)),
            }
        }
        let due = self.costs.writes_per_sync > 0 && state.writes.is_multiple_of(self.costs.writes_per_sync);
        if sync || due {
            state.sync()?;
        }
        wait(start, self.costs.write_time);
        Ok(())
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let start = Instant::now();
        value.clear();
        let found = self.state().pairs.get(key).map(|held| value.extend_from_slice(held)).is_some();
        wait(start, self.costs.read_time);
        Ok(found)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let state = self.state();
        let bound = from.map_or(Bound::Unbounded, Bound::Included);
        if reverse {
            let _ = state.pairs.range::<[u8], _>((Bound::Unbounded, bound)).rev().all(|(key, value)| visit(key, value));
        } else {
            let _ = state.pairs.range::<[u8], _>((bound, Bound::Unbounded)).all(|(key, value)| visit(key, value));
        }
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        Ok(())
    }

    fn counters(&self) -> EngineCounts {
        if !self.costs.counts {
            return EngineCounts::default();
        }
        let state = self.state();
        EngineCounts {
            bytes_by_purpose: Some([("wal".to_string(), state.bytes)].into()),
            syncs: Some([("log".to_string(), state.syncs)].into()),
            stall: Some(self.costs.stall * state.writes as u32),
            ..EngineCounts::default()
        }
    }
}
