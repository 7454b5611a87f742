//! What is on disk already: one JSON object a line, written as soon as a workload ends, so that a run that is
//! stopped goes on where it was.
use super::{Cell, Plan};
use crate::cell::Row;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

/// A row and its place in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`Plan::id`] of the plan it belongs to.
    pub plan: String,
    /// Which row of its cell, from 0.
    pub step: usize,
    /// 1, or 2 if the round was disturbed the first time.
    pub attempt: u32,
    /// Processors that others kept busy meanwhile; `None` where nobody can tell.
    pub others: Option<f64>,
    /// What the child reported.
    #[serde(flatten)]
    pub row: Row,
}

/// The records of one plan, and the file they are added to, if there is one.
#[derive(Debug)]
pub struct Results {
    file: Option<(File, PathBuf)>,
    records: Vec<Record>,
}

impl Results {
    /// Reads the records of `plan` in the file at `path`, which need not exist yet; none if `fresh`. Lines of other plans
    /// stay where they are. A last line that was cut short is removed; a line in the middle that is no record is an
    /// error, since the file may be something else.
    pub fn open(path: Option<&Path>, plan: &Plan, fresh: bool) -> Result<Results> {
        let Some(path) = path else { return Ok(Results { file: None, records: Vec::new() }) };
        let read = || -> Result<Results> {
            let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let whole = text.rfind('\n').map_or(0, |at| at + 1);
            let cut = &text[whole..];
            ensure!(cut.is_empty() || cut.starts_with('{'), "not a file of results: it ends with {cut:?}");
            let mut records = Vec::new();
            for (at, line) in text[..whole].lines().enumerate() {
                let record: Record = serde_json::from_str(line).with_context(|| format!("line {}", at + 1))?;
                if record.plan == plan.id() && !fresh {
                    records.push(record);
                }
            }
            file.set_len(whole as u64)?;
            file.seek(SeekFrom::End(0))?;
            Ok(Results { file: Some((file, path.to_owned())), records })
        };
        read().with_context(|| path.display().to_string())
    }

    /// Adds a record, on disk first.
    pub fn add(&mut self, record: Record) -> Result<()> {
        if let Some((file, path)) = &mut self.file {
            let mut line = serde_json::to_vec(&record).context("a record as JSON")?;
            line.push(b'\n');
            file.write_all(&line).with_context(|| format!("write results: {}", path.display()))?;
        }
        self.records.push(record);
        Ok(())
    }

    /// Whether every row of `cell` is there and none is an error.
    pub fn has(&self, plan: &Plan, cell: Cell<'_>) -> bool {
        let rows: Vec<_> = self.of(cell).collect();
        (0..plan.steps().len()).all(|step| {
            rows.iter().rev().find(|record| record.step == step).is_some_and(|record| record.row.error.is_none())
        })
    }

    /// Whether other processes disturbed a row of the round when it ran the first time.
    pub fn disturbed(&self, round: u32) -> bool {
        let first = self.records.iter().filter(|record| record.row.round == round && record.attempt == 1);
        first.into_iter().any(|record| record.row.disturbed == Some(true))
    }

    /// For every engine, row and round the record that counts: the last one.
    pub fn last(&self) -> Vec<&Record> {
        let key = |record: &Record| (record.row.name.clone(), record.step, record.row.round);
        let mut last: Vec<&Record> = Vec::new();
        for record in &self.records {
            match last.iter_mut().find(|known| key(known) == key(record)) {
                Some(known) => *known = record,
                None => last.push(record),
            }
        }
        last
    }

    fn of(&self, cell: Cell<'_>) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| {
            (record.row.name.as_str(), record.row.round, record.attempt) == (cell.engine, cell.round, cell.attempt)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CellSpec;
    use std::fs;

    fn plan(num: u64) -> Plan {
        let workloads = vec!["fillseq".into(), "readseq".into()];
        Plan::new(CellSpec { num, workloads, ..CellSpec::default() }, vec!["a".into()], 2, "", 0).unwrap()
    }

    fn record(plan: &Plan, step: usize, attempt: u32, seconds: f64) -> Record {
        let row = Row { name: "a".into(), round: 1, seconds: Some(seconds), ..Row::default() };
        Record { plan: plan.id().into(), step, attempt, others: None, row }
    }

    const CELL: Cell<'_> = Cell { engine: "a", round: 1, attempt: 1 };

    #[test]
    fn finished_cells_are_found_again_and_those_of_another_plan_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.jsonl");
        let (mine, other) = (plan(10), plan(11));
        let mut results = Results::open(Some(&path), &mine, false).unwrap();
        results.add(record(&mine, 0, 1, 1.5)).unwrap();
        assert!(!results.has(&mine, CELL), "half a cell is none");
        results.add(record(&mine, 1, 1, 2.5)).unwrap();
        assert!(results.has(&mine, CELL));

        let again = Results::open(Some(&path), &mine, false).unwrap();
        assert!(again.has(&mine, CELL) && !again.has(&mine, Cell { round: 2, ..CELL }));
        assert_eq!(again.records, results.records);
        assert!(!Results::open(Some(&path), &mine, true).unwrap().has(&mine, CELL), "fresh");
        assert!(!Results::open(Some(&path), &other, false).unwrap().has(&other, CELL));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_line_that_was_cut_is_dropped_and_foreign_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.jsonl");
        let plan = plan(10);
        Results::open(Some(&path), &plan, false).unwrap().add(record(&plan, 0, 1, 1.5)).unwrap();
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], b"{\"plan\":\"x"].concat()).unwrap();
        let mut results = Results::open(Some(&path), &plan, false).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
        results.add(record(&plan, 1, 1, 2.5)).unwrap();
        assert!(Results::open(Some(&path), &plan, false).unwrap().has(&plan, CELL));

        for foreign in ["my notes", "my notes\nand more\n"] {
            fs::write(&path, foreign).unwrap();
            let error = Results::open(Some(&path), &plan, false).unwrap_err();
            assert!(format!("{error:#}").contains("results.jsonl"), "{error:#}");
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }

    #[test]
    fn errors_do_not_finish_a_cell_and_the_last_record_counts() {
        let plan = plan(10);
        let mut results = Results::open(None, &plan, false).unwrap();
        let mut failed = record(&plan, 1, 1, 1.0);
        failed.row.error = Some("disk full".into());
        failed.row.disturbed = Some(true);
        results.add(record(&plan, 0, 1, 1.0)).unwrap();
        results.add(failed).unwrap();
        assert!(!results.has(&plan, CELL) && results.disturbed(1) && !results.disturbed(2));
        results.add(record(&plan, 1, 1, 2.0)).unwrap();
        assert!(results.has(&plan, CELL));
        results.add(record(&plan, 1, 2, 3.0)).unwrap();
        let seconds: Vec<_> = results.last().iter().map(|record| record.row.seconds.unwrap()).collect();
        assert_eq!(seconds, [1.0, 3.0]);
    }
}
