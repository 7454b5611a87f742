//! An engine that answers as the fake does and keeps account of what it was asked.
use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};
use terrace_lab::{
    cell::CellSpec,
    engines::fake::Fake,
    target::{Build, Change, Engine, Own, Result, Settings, Target},
    workload::{self, Job, rng::mix, store::Store},
};

/// What one stage asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// A sum of all of it, in order.
    pub sum: u64,
    pub puts: u64,
    pub deletes: u64,
    /// How often each key was read.
    pub gets: BTreeMap<Vec<u8>, u64>,
    /// How many pairs each scan was shown.
    pub scans: Vec<u64>,
}

impl Asked {
    fn hear(&mut self, kind: u64, parts: [&[u8]; 2]) {
        self.sum = mix(self.sum ^ kind);
        for part in parts {
            self.sum = part.iter().fold(mix(self.sum ^ part.len() as u64), |sum, byte| mix(sum ^ u64::from(*byte)));
        }
    }
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Asked>>);

impl Listener {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl Engine for Listener {
    fn name(&self) -> String {
        "listener".into()
    }

    fn build(&self) -> std::result::Result<Build, String> {
        Ok(Build::default())
    }

    fn departures(&self, _: &Settings) -> Vec<String> {
        Vec::new()
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Target>> {
        Ok(Box::new(Heard { fake: Fake::default().open(dir, settings)?, listener: self.clone() }))
    }
}

struct Heard {
    fake: Box<dyn Target>,
    listener: Listener,
}

impl Target for Heard {
    fn write(&self, changes: &[Change<'_>], sync: bool) -> Result<()> {
        let mut asked = self.listener.asked();
        for change in changes {
            match change {
                Change::Put(key, value) => {
                    asked.puts += 1;
                    asked.hear(1 + u64::from(sync), [key, value]);
                }
                Change::Delete(key) => {
                    asked.deletes += 1;
                    asked.hear(3, [key, b""]);
                }
            }
        }
        self.fake.write(changes, sync)
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut asked = self.listener.asked();
        asked.hear(4, [key, b""]);
        *asked.gets.entry(key.to_vec()).or_default() += 1;
        self.fake.get(key, value)
    }

    fn scan(&self, from: Option<&[u8]>, reverse: bool, visit: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.listener.asked().hear(5 + u64::from(reverse), [from.unwrap_or_default(), b""]);
        let mut pairs = 0;
        self.fake.scan(from, reverse, &mut |key, value| {
            pairs += 1;
            visit(key, value)
        })?;
        self.listener.asked().scans.push(pairs);
        Ok(())
    }

    fn compact(&self) -> Result<()> {
        self.fake.compact()
    }

    fn own(&self) -> Own {
        self.fake.own()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.fake.close()
    }
}

/// What each stage of a cell's workloads asks.
pub fn asked(spec: CellSpec, workloads: &[&str]) -> Vec<Asked> {
    let dir = tempfile::tempdir().expect("a directory for the store");
    let workloads: Vec<String> = workloads.iter().map(|name| name.to_string()).collect();
    let (spec, listener) = (CellSpec { dir: dir.path().into(), workloads, ..spec }, Listener::default());
    let mut store = Store::create(&listener, &spec).expect("a store");
    let mut all = Vec::new();
    for (index, name) in spec.workloads.iter().enumerate() {
        for stage in workload::stages(name).expect("it is listed") {
            *listener.asked() = Asked::default();
            let job = Job::new(&spec, &stage.name(), index);
            stage.prepare(&mut store, &job).expect("it can be prepared");
            stage.run(&mut store, &job, &mut |_| ()).expect("it runs");
            all.push(listener.asked().clone());
        }
    }
    all
}
