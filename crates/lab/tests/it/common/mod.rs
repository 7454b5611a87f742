//! An engine for tests that behaves like the fake engine and also records all operations that the
//! driver requests.
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};
use terrace_lab::{
    cell::CellSpec,
    engines::fake::Fake,
    target::{Change, Engine, EngineBuild, EngineCounts, Result, Settings, Target},
    workload::{self, Job, rng::mix, store::Store},
};

/// The operations that the driver requested in one stage.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// A checksum of all operations, in order.
    pub sum: u64,
    pub puts: u64,
    pub deletes: u64,
    /// Number of point lookups per key.
    pub gets: BTreeMap<Vec<u8>, u64>,
    /// Number of entries that each scan returned.
    pub scans: Vec<u64>,
}

impl Operations {
    fn record(&mut self, kind: u64, parts: [&[u8]; 2]) {
        self.sum = mix(self.sum ^ kind);
        for part in parts {
            self.sum = part.iter().fold(mix(self.sum ^ part.len() as u64), |sum, byte| mix(sum ^ u64::from(*byte)));
        }
    }
}

#[derive(Clone, Default)]
struct RecordingEngine(Arc<Mutex<Operations>>);

impl RecordingEngine {
    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.0.lock().expect("no panic while locked")
    }
}

impl Engine for RecordingEngine {
    fn name(&self) -> String {
        "engine".into()
    }

    fn build(&self) -> std::result::Result<EngineBuild, String> {
        Ok(EngineBuild::default())
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        Vec::new()
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        Ok(Box::new(RecordingTarget { fake: Fake::default().open(dir, settings)?, engine: self.clone() }))
    }
}

struct RecordingTarget {
    fake: Box<dyn Target>,
    engine: RecordingEngine,
}

impl Target for RecordingTarget {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let mut operations = self.engine.operations();
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    operations.puts += 1;
                    operations.record(1 + u64::from(sync), [key, value]);
                }
                Change::Delete(key) => {
                    operations.deletes += 1;
                    operations.record(3, [key, b""]);
                }
            }
        }
        self.fake.write(changes, sync)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut operations = self.engine.operations();
        operations.record(4, [key, b""]);
        *operations.gets.entry(key.to_vec()).or_default() += 1;
        self.fake.get(key, value)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.engine.operations().record(5 + u64::from(reverse), [from.unwrap_or_default(), b""]);
        let mut pairs = 0;
        self.fake.scan(from, reverse, &mut |key, value| {
            pairs += 1;
            visit(key, value)
        })?;
        self.engine.operations().scans.push(pairs);
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.fake.compact()
    }

    fn counters(&self) -> EngineCounts {
        self.fake.counters()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.fake.close()
    }
}

/// Runs the workloads of a cell with the recording engine, and returns the operations of each
/// stage.
pub fn operations(spec: CellSpec, workloads: &[&str]) -> Vec<Operations> {
    let dir = tempfile::tempdir().expect("a directory for the store");
    let workloads: Vec<String> = workloads.iter().map(|name| name.to_string()).collect();
    let (spec, engine) = (CellSpec { dir: dir.path().into(), workloads, ..spec }, RecordingEngine::default());
    let mut store = Store::create(&engine, &spec).expect("a store");
    let mut all = Vec::new();
    for (index, name) in spec.workloads.iter().enumerate() {
        for stage in workload::stages(name).expect("it is listed") {
            *engine.operations() = Operations::default();
            let job = Job::new(&spec, &stage.name(), index);
            stage.prepare(&mut store, &job).expect("it can be prepared");
            stage.run(&mut store, &job, &mut |_| ()).expect("it runs");
            all.push(engine.operations().clone());
        }
    }
    all
}
