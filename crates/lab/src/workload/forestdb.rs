//! ForestDB-Benchmark as the LevelDB-Raw paper uses it. The workload loads `num` documents, then
//! updates and reads documents with a Zipfian distribution. Each write contains a fixed number of
//! updates and is synced.
//!
//! This workload differs from the original in two points. The original draws the lengths of keys
//! and values from normal distributions around 32 and 512 bytes. Here all keys and values have the
//! fixed sizes of the run, as in the paper. The original's Zipfian distribution is over groups of
//! eight adjacent keys. Here popularity is spread over all keys (YCSB's scrambled Zipfian), so
//! that no block cache profits from adjacent keys.
use super::{
    Job, Stage,
    deletes::share_of,
    ops::{Batch, Driver},
    rng::{Permutation, label},
    store::{Content, Store},
    zipf::Scrambled,
};
use crate::measure::{self, Outcome};
use anyhow::{Context, Result, ensure};

/// Names and descriptions of the workloads.
pub const LIST: [(&str, &str); 4] = [
    ("forestdb-load", "puts num keys in random order into an empty store, 1024 per write, not synced"),
    ("forestdb-update", "puts `reads` zipfian keys, each synced"),
    ("forestdb-update:", "the same with so many per write, as in forestdb-update:1024"),
    ("forestdb-read", "reads zipfian keys"),
];

/// Number of documents per write of the load. This is the original's default.
const LOAD_BATCH: usize = 1024;

/// One of the workloads of this module.
#[derive(Debug)]
pub struct ForestDb {
    name: String,
    kind: ForestDbKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ForestDbKind {
    Load,
    Update { batch: usize },
    Read,
}

/// Returns the stage of the workload called `name`, if this module has it. An invalid batch size
/// is an error.
pub fn stage(name: &str) -> Result<Option<ForestDb>> {
    let kind = match name.split_once(':') {
        None if name == "forestdb-load" => ForestDbKind::Load,
        None if name == "forestdb-read" => ForestDbKind::Read,
        None if name == "forestdb-update" => ForestDbKind::Update { batch: 1 },
        Some(("forestdb-update", batch)) => {
            let batch = batch.parse().ok().filter(|batch| (1..=LOAD_BATCH).contains(batch));
            ForestDbKind::Update {
                batch: batch.with_context(|| format!("workload {name}: 1 to {LOAD_BATCH} changes per write"))?,
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(ForestDb { name: name.into(), kind }))
}

impl ForestDb {
    fn count(&self, job: &Job<'_>) -> u64 {
        if self.kind == ForestDbKind::Load { job.spec.num } else { job.reads() }
    }
}

impl Stage for ForestDb {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()> {
        if self.kind == ForestDbKind::Load {
            store.fresh(Content::decimal(job.spec, job.spec.value_size)?)?;
        } else {
            ensure!(store.content.model.live().next().is_some(), "{} needs forestdb-load before it", self.name);
        }
        store.set_threads(job.spec.threads);
        Ok(())
    }

    fn total(&self, _: &Store<'_>, job: &Job<'_>) -> u64 {
        self.count(job)
    }

    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome> {
        let (target, content, count) = (store.target(), &store.content, self.count(job));
        let order = Permutation::new(job.spec.num, job.seed ^ label("load"));
        let zipf = Scrambled::new(job.spec.num);
        measure::run(job.plan(), progress, &|worker| {
            let mut driver = Driver::new(target, content, matches!(self.kind, ForestDbKind::Update { .. }));
            let mut rng = job.rng(worker.index);
            let share = share_of(count, worker.index as u64, job.spec.threads as u64);
            let batch = match self.kind {
                ForestDbKind::Load => LOAD_BATCH,
                ForestDbKind::Update { batch } => batch,
                ForestDbKind::Read => 1,
            };
            let (mut room, mut start) = (Batch::default(), share.start);
            while start < share.end {
                let end = (start + batch as u64).min(share.end);
                match self.kind {
                    ForestDbKind::Load => {
                        driver.batch(worker, true, (start..end).map(|index| order.at(index)), &mut room)?
                    }
                    ForestDbKind::Update { .. } => {
                        driver.batch(worker, true, (start..end).map(|_| zipf.draw(&mut rng)), &mut room)?;
                    }
                    ForestDbKind::Read => driver.get(worker, zipf.draw(&mut rng))?,
                }
                if !worker.did(end - start) {
                    break;
                }
                start = end;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_batches() {
        assert_eq!(stage("forestdb-update:1024").unwrap().unwrap().kind, ForestDbKind::Update { batch: 1024 });
        assert_eq!(stage("forestdb-update").unwrap().unwrap().kind, ForestDbKind::Update { batch: 1 });
        assert!(stage("forestdb").unwrap().is_none() && stage("forestdb-load:7").unwrap().is_none());
        for bad in ["forestdb-update:0", "forestdb-update:x", "forestdb-update:4096"] {
            assert!(stage(bad).unwrap_err().to_string().contains("1 to 1024"), "{bad}");
        }
    }
}
