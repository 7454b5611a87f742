//! A stage of a workload (one measured part of it), and its parameters.
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
    /// Returns the name of the stage's row: the name of the workload, followed by `/stage` if the
    /// workload has several stages.
    fn name(&self) -> String;
    /// Brings the store into the state that the stage needs. This is not measured.
    fn prepare(&self, store: &mut Store<'_>, job: &Job<'_>) -> Result<()>;
    /// Returns the number of operations that [`run`](Stage::run) will count, as far as known. It is
    /// used for progress reports.
    fn total(&self, store: &Store<'_>, job: &Job<'_>) -> u64;
    /// Performs the work. A wrong result of the store is an error. `progress` receives the number
    /// of finished operations.
    fn run(&self, store: &mut Store<'_>, job: &Job<'_>, progress: &mut dyn FnMut(u64)) -> Result<Outcome>;
    /// Returns whether the stage changes nothing. Only such a stage can have a memory limit, which
    /// then limits the page cache.
    fn only_reads(&self) -> bool {
        false
    }
    /// Returns whether the store is closed during the stage, so that the engine's counters before
    /// and after cannot be compared.
    fn reopens(&self) -> bool {
        false
    }
}

/// Parameters of a stage.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The description of the cell.
    pub spec: &'a CellSpec,
    /// Seed of this stage. Other stages of the cell draw other numbers.
    pub seed: u64,
}

impl<'a> Job<'a> {
    /// Creates the parameters of stage number `index` of a cell. The stage is called `name`.
    pub fn new(spec: &'a CellSpec, name: &str, index: usize) -> Job<'a> {
        Job { spec, seed: mix(spec.seed ^ label(name)).wrapping_add(index as u64) }
    }

    /// Returns the random numbers of one thread.
    pub fn rng(&self, thread: usize) -> Rng {
        Rng::new(self.seed, thread as u64)
    }

    /// Returns a plan in which all threads are in the foreground.
    pub fn plan(&self) -> ThreadPlan {
        ThreadPlan { foreground: self.spec.threads, background: 0, histogram: self.spec.histogram }
    }

    /// Returns the number of operations per thread in a workload that reads.
    pub fn reads(&self) -> u64 {
        self.spec.reads.unwrap_or(self.spec.num)
    }
}
