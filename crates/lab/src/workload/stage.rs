//! The interface to a stage of a workload, and the parameters of a stage. A stage is a part of the
//! workload that is measured separately.
use super::{
    rng::{Rng, label, mix},
    store::Store,
};
use crate::{
    cell::CellSpec,
    measure::{Outcome, ThreadPlan},
};
use anyhow::Result;

/// One measured part of a workload.
pub trait Stage: Send + Sync {
    /// Returns the name of the stage's row in the results. It is the name of the workload. If the
    /// workload has several stages, `/` and the name of the stage follow.
    fn name(&self) -> String;
    /// Brings the store into the state that the stage needs. The lab does not measure this work.
    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()>;
    /// Returns the number of operations that [`run`](Stage::run) will count, as far as it is known.
    /// The number serves for progress reports.
    fn total(&self, store: &Store<'_>, job: &Job<'_>) -> u64;
    /// Performs the work of the stage. A wrong result of the store is an error. `progress` receives
    /// the number of finished operations.
    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome>;
    /// Returns whether the stage changes nothing in the store. Only such a stage can have a memory
    /// limit, because the limit includes the page cache.
    fn only_reads(&self) -> bool {
        false
    }
    /// Returns whether the stage closes and reopens the store. If it does, the engine's counters
    /// before and after the stage cannot be compared.
    fn reopens(&self) -> bool {
        false
    }
}

/// Parameters of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The description of the cell.
    pub spec: &'a CellSpec,
    /// Seed of the random numbers of this stage. Other stages of the cell have other seeds.
    pub seed: u64,
}

impl<'a> Job<'a> {
    /// Creates the parameters of stage number `index` of a cell. `name` is the name of the stage.
    pub fn new(spec: &'a CellSpec, name: &str, index: usize) -> Job<'a> {
        Job { spec, seed: mix(spec.seed ^ label(name)).wrapping_add(index as u64) }
    }

    /// Returns the random number generator of one thread.
    pub fn rng(&self, thread: usize) -> Rng {
        Rng::new(self.seed, thread as u64)
    }

    /// Returns the plan of a stage in which all threads are in the foreground.
    pub fn plan(&self) -> ThreadPlan {
        ThreadPlan { foreground: self.spec.threads, background: 0, histogram: self.spec.histogram }
    }

    /// Returns the number of operations per thread in a workload that reads.
    pub fn reads(&self) -> u64 {
        self.spec.reads.unwrap_or(self.spec.num)
    }
}
