//! The order of the cells in a comparison. A cell is one engine in one round. A plan alternates
//! the engines in each round, reuses the results of finished cells, and repeats disturbed rounds
//! once.
//!
//! | module | contents |
//! |---|---|
//! | `run` | running a plan |
//! | `child` | running one cell in its own process |
//! | `others` | processor use of other processes |
//! | `results` | results of finished cells on disk |
//! | `stop` | early end of a run by the user |
pub mod child;
pub mod others;
pub mod results;
pub mod run;
pub mod stop;

use crate::{
    cell::{CellSpec, memory, processors},
    workload::{self, rng::label},
};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// Cost of an operation that does not depend on its bytes. The unit is bytes: the cost equals the
/// time for transferring this number of bytes.
const OPERATION_BYTES: usize = 500;

/// A comparison of engines. All engines run the same number of rounds, and each cell (one engine
/// in one round) has its own store.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The parameters that all cells have in common. Engine, round and device are set for each
    /// cell.
    cell: CellSpec,
    engines: Vec<String>,
    rounds: u32,
    steps: Vec<String>,
    id: String,
}

/// One engine in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// Name of the engine, in the form of `--engine`.
    pub engine: &'a str,
    /// Number of the round, from 1.
    pub round: u32,
    /// 1 for the first attempt, 2 for the repetition of a disturbed round.
    pub attempt: u32,
}

impl Plan {
    /// Creates a comparison of `engines`. `place` describes the device completely, and `program`
    /// identifies the build. Results with another device or build belong to another plan.
    pub fn new(cell: CellSpec, engines: Vec<String>, rounds: u32, place: &str, program: u64) -> Result<Plan> {
        let id = Plan::id_of(&cell, place, program)?;
        Plan::with_id(id, cell, engines, rounds)
    }

    /// Returns the identifier of a plan, computed from the settings that its cells have in common.
    pub fn id_of(cell: &CellSpec, place: &str, program: u64) -> Result<String> {
        let common = CellSpec { engine: String::new(), round: 0, dir: PathBuf::new(), device: None, ..cell.clone() };
        let text = serde_json::to_string(&common).context("the plan as JSON")?;
        Ok(format!("{:016x}", label(&format!("{text} {place} {program}"))))
    }

    /// Creates a plan whose [identifier](Self::id_of) is known. The identifier may come from
    /// another machine.
    pub fn with_id(id: String, cell: CellSpec, engines: Vec<String>, rounds: u32) -> Result<Plan> {
        ensure!(rounds > 0, "rounds must be at least 1");
        ensure!(!engines.is_empty(), "no engine given");
        for (at, engine) in engines.iter().enumerate() {
            ensure!(!engines[..at].contains(engine), "engine {engine} is listed twice");
        }
        workload::validate(&cell)?;
        let steps = workload::rows(&cell.workloads)?;
        Ok(Plan { cell, engines, rounds, steps, id })
    }

    /// Checks that this machine can run the plan.
    ///
    /// # Errors
    /// The machine lacks the processors or the control group that its cells require.
    pub fn check(&self) -> Result<()> {
        self.cell.processors.map_or(Ok(()), processors::check)?;
        self.cell.memory.map_or(Ok(()), |_| memory::check())
    }

    /// Returns the plan's identifier, which is computed from all settings except engine and round.
    /// Results of the same plan are comparable, because these settings are equal.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the engines in the order of the comparison. Reports compare the other engines with
    /// the first one.
    pub fn engines(&self) -> &[String] {
        &self.engines
    }

    /// Returns the number of rounds per engine.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Returns the names of a cell's rows (one per stage of a workload), in order.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// Returns an estimate of the amount of work, which is roughly proportional to the time of the
    /// plan. The estimate depends only on sizes. It ignores differences between engines, and
    /// between reads and writes.
    pub fn work(&self) -> f64 {
        let CellSpec { num, writes, key_size, value_size, .. } = self.cell;
        let operations = writes.unwrap_or(num) as f64 * self.steps.len() as f64;
        let cells = self.engines.len() as f64 * f64::from(self.rounds);
        cells * operations * (key_size + value_size + OPERATION_BYTES) as f64
    }

    /// Returns the cells of a round. Each round starts with another engine, so that an engine does
    /// not always run after the same other engine.
    pub fn round(&self, round: u32, attempt: u32) -> impl Iterator<Item = Cell<'_>> {
        let count = self.engines.len();
        let first = (round as usize - 1) % count;
        (0..count).map(move |at| Cell { engine: &self.engines[(first + at) % count], round, attempt })
    }

    /// Returns the description of `cell` that its child process receives.
    pub fn spec(&self, cell: Cell<'_>, dir: PathBuf, device: Option<PathBuf>) -> CellSpec {
        CellSpec { engine: cell.engine.into(), round: cell.round, dir, device, ..self.cell.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cell: CellSpec, device: &str, program: u64) -> Result<Plan> {
        let cell = CellSpec { workloads: vec!["fillseq".into()], ..cell };
        Plan::new(cell, vec!["a".into(), "b".into(), "c".into()], 3, device, program)
    }

    #[test]
    fn rounds_begin_with_another_engine() {
        let plan = plan(CellSpec::default(), "dir:/x", 1).unwrap();
        let order = |round| plan.round(round, 1).map(|cell| cell.engine).collect::<String>();
        assert_eq!([order(1), order(2), order(3), order(4)], ["abc", "bca", "cab", "abc"]);
    }

    #[test]
    fn the_id_covers_exactly_what_must_be_equal() {
        let id = |cell, device, program| plan(cell, device, program).unwrap().id;
        let same = id(CellSpec::default(), "dir:/x", 1);
        assert_eq!(same, id(CellSpec { round: 7, dir: "/y".into(), ..CellSpec::default() }, "dir:/x", 1));
        for other in [
            id(CellSpec { num: 7, ..CellSpec::default() }, "dir:/x", 1),
            id(CellSpec { reads: Some(7), ..CellSpec::default() }, "dir:/x", 1),
            id(CellSpec::default(), "dir:/z", 1),
            id(CellSpec::default(), "dir:/x", 2),
        ] {
            assert_ne!(same, other);
        }
    }

    #[test]
    fn a_plan_is_as_much_work_as_its_operations_and_cells() {
        let small = CellSpec { key_size: 16, value_size: 84, num: 10, ..CellSpec::default() };
        let work = |cell| plan(cell, "", 0).unwrap().work();
        assert_eq!(work(small.clone()), (3 * 3 * 10 * 600) as f64, "engines, rounds, operations, bytes");
        assert_eq!(work(CellSpec { writes: Some(20), ..small.clone() }), 2.0 * work(small.clone()));
        assert_eq!(work(CellSpec { value_size: 684, ..small.clone() }), 2.0 * work(small));
    }

    #[test]
    fn impossible_plans_are_refused() {
        let refused = |engines: &[&str], rounds| {
            let cell = CellSpec { workloads: vec!["fillseq".into()], ..CellSpec::default() };
            let engines = engines.iter().map(|&name| name.to_owned()).collect();
            Plan::new(cell, engines, rounds, "", 0).unwrap_err().to_string()
        };
        assert!(refused(&["a"], 0).contains("rounds"));
        assert!(refused(&[], 1).contains("no engine"));
        assert!(refused(&["a", "b", "a"], 1).contains("a is listed twice"));
    }
}
