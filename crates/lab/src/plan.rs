//! Which cell when: rounds that alternate the engines, cells that are already on disk, disturbed rounds once more.
//!
//! | module | question |
//! |---|---|
//! | `run` | how is a plan carried out? |
//! | `child` | how does one cell run in a process of its own? |
//! | `others` | what did everyone else do meanwhile? |
//! | `results` | what is on disk already? |
//! | `stop` | how does a run end early? |
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

/// An operation takes about as long as so many bytes of its pair do beside it.
const OPERATION_BYTES: usize = 500;

/// A comparison: every engine, as many rounds, one store for each.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What all cells have in common. Engine, round and place are filled in for each.
    cell: CellSpec,
    engines: Vec<String>,
    rounds: u32,
    steps: Vec<String>,
    id: String,
}

/// One engine in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell<'a> {
    /// As `--engine` spells it.
    pub engine: &'a str,
    /// From 1.
    pub round: u32,
    /// 1, or 2 if the round was disturbed the first time.
    pub attempt: u32,
}

impl Plan {
    /// Compares `engines`. `place`, all that says where stores live, and `program`, a number that differs between builds, make
    /// results of another place or build results of another plan.
    pub fn new(cell: CellSpec, engines: Vec<String>, rounds: u32, place: &str, program: u64) -> Result<Plan> {
        let id = Plan::id_of(&cell, place, program)?;
        Plan::called(id, cell, engines, rounds)
    }

    /// The name of what is the same in all cells of a plan.
    pub fn id_of(cell: &CellSpec, place: &str, program: u64) -> Result<String> {
        let common = CellSpec { engine: String::new(), round: 0, dir: PathBuf::new(), device: None, ..cell.clone() };
        let text = serde_json::to_string(&common).context("the plan as JSON")?;
        Ok(format!("{:016x}", label(&format!("{text} {place} {program}"))))
    }

    /// The plan with an [id](Self::id_of) that is known, from whichever machine.
    pub fn called(id: String, cell: CellSpec, engines: Vec<String>, rounds: u32) -> Result<Plan> {
        ensure!(rounds > 0, "rounds begin at 1");
        ensure!(!engines.is_empty(), "no engine is given");
        for (at, engine) in engines.iter().enumerate() {
            ensure!(!engines[..at].contains(engine), "engine {engine} is given twice");
        }
        workload::validate(&cell)?;
        let steps = workload::rows(&cell.workloads)?;
        Ok(Plan { cell, engines, rounds, steps, id })
    }

    /// Whether this machine can carry it out.
    ///
    /// # Errors
    /// It has not the processors, or gives nobody the control group, that its cells ask for.
    pub fn check(&self) -> Result<()> {
        self.cell.processors.map_or(Ok(()), processors::check)?;
        self.cell.memory.map_or(Ok(()), |_| memory::check())
    }

    /// A name for everything that must be equal for two results to be compared, engine and round apart.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The engines, in the order given; the first is the one that others are compared with.
    pub fn engines(&self) -> &[String] {
        &self.engines
    }

    /// How often each engine runs.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// The names of the rows of a cell, in order.
    pub fn steps(&self) -> &[String] {
        &self.steps
    }

    /// How much there is to do, in proportion to the time that plans take as far as their sizes tell: which engines, and whether they read
    /// or write, is left out.
    pub fn work(&self) -> f64 {
        let CellSpec { num, writes, key_size, value_size, .. } = self.cell;
        let operations = writes.unwrap_or(num) as f64 * self.steps.len() as f64;
        let cells = self.engines.len() as f64 * f64::from(self.rounds);
        cells * operations * (key_size + value_size + OPERATION_BYTES) as f64
    }

    /// The cells of a round. Each round begins with another engine, so that none always runs on a machine that the
    /// same neighbour has warmed.
    pub fn round(&self, round: u32, attempt: u32) -> impl Iterator<Item = Cell<'_>> {
        let count = self.engines.len();
        let first = (round as usize - 1) % count;
        (0..count).map(move |at| Cell { engine: &self.engines[(first + at) % count], round, attempt })
    }

    /// What the child of `cell` is told.
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
    fn what_must_be_equal_is_in_the_id_and_nothing_else() {
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
        assert!(refused(&["a", "b", "a"], 1).contains("a is given twice"));
    }
}
