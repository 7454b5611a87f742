//! The results of a run on disk, one JSON object per line. A result is written as soon as its
//! workload ends, so that a stopped run can resume.
use super::{Cell, Plan};
use crate::cell::Row;
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// A row (the result of one engine in one workload and round), and its position in the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The [identifier](Plan::id) of the plan.
    pub plan: String,
    /// Index of the row in its cell, from 0.
    pub step: usize,
    /// 1 for the first attempt, 2 for the repetition of a disturbed round.
    pub attempt: u32,
    /// Mean number of processors that other processes used; `None` if unknown.
    pub others: Option<f64>,
    /// The row that the child process reported.
    #[serde(flatten)]
    pub row: Row,
}

/// The records of one plan in memory, and the file to which new records are appended, if there is
/// one.
#[derive(Debug, Default)]
pub struct Results {
    file: Option<(File, PathBuf)>,
    records: Vec<Record>,
}

impl Results {
    /// Reads the records of `plan` from the file at `path`, and opens the file for appending. The
    /// file may not exist yet. Lines of other plans remain in the file. An incomplete last line is
    /// removed. Any other invalid line is an error, because the file may not be a file of results.
    pub fn open(path: Option<&Path>, plan: &Plan) -> Result<Results> {
        let Some(path) = path else { return Ok(Results::default()) };
        let read = || -> Result<Results> {
            let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let whole = whole_lines(&text)?;
            if whole.len() < text.len() {
                file.set_len(whole.len() as u64)?;
            }
            Ok(Results { records: records(whole, plan)?, file: Some((file, path.to_owned())) })
        };
        read().with_context(|| path.display().to_string())
    }

    /// Reads the records of `plan` from the file at `path`. The file is not changed, because
    /// another process may be appending to it.
    pub fn read(path: &Path, plan: &Plan) -> Result<Results> {
        let read = || -> Result<Results> {
            let text = read_if_exists(path)?;
            Ok(Results { records: records(whole_lines(&text)?, plan)?, file: None })
        };
        read().with_context(|| path.display().to_string())
    }

    /// Removes the records of `plan` from the file at `path`, for the engines of `plan` only, so
    /// that old results are not mixed with new ones. The file may be missing.
    pub fn forget(path: &Path, plan: &Plan) -> Result<()> {
        let forget = || -> Result<()> {
            let text = read_if_exists(path)?;
            let mut kept = String::new();
            for (at, line) in whole_lines(&text)?.lines().enumerate() {
                let record = record(at, line)?;
                if record.plan != plan.id() || !plan.engines().contains(&record.row.name) {
                    kept += line;
                    kept.push('\n');
                }
            }
            if kept.len() < text.len() {
                let fresh = path.with_added_extension("new");
                fs::write(&fresh, kept).and_then(|()| fs::rename(&fresh, path))?;
            }
            Ok(())
        };
        forget().with_context(|| path.display().to_string())
    }

    /// Appends a record to the file, then adds it to the records in memory.
    pub fn add(&mut self, record: Record) -> Result<()> {
        if let Some((file, path)) = &mut self.file {
            let mut line = serde_json::to_vec(&record).context("a record as JSON")?;
            line.push(b'\n');
            file.write_all(&line).with_context(|| format!("write results: {}", path.display()))?;
        }
        put(&mut self.records, record);
        Ok(())
    }

    /// Returns whether the records contain every row of `cell`, each without an error.
    pub fn has(&self, plan: &Plan, cell: Cell<'_>) -> bool {
        let rows: Vec<_> = self.of(cell).collect();
        (0..plan.steps().len()).all(|step| {
            rows.iter().rev().find(|record| record.step == step).is_some_and(|record| record.row.error.is_none())
        })
    }

    /// Returns whether other processes disturbed a row in the first attempt at the round.
    pub fn disturbed(&self, round: u32) -> bool {
        let first = self.records.iter().filter(|record| record.row.round == round && record.attempt == 1);
        first.into_iter().any(|record| record.row.disturbed == Some(true))
    }

    /// Returns the valid record for every engine, row and round of `plan`. A round that other
    /// processes disturbed has a second attempt. The records of the second attempt are valid if all
    /// engines have finished it; otherwise the records of the first attempt are valid. All valid
    /// records of a round are therefore from the same attempt, and engines are compared within one
    /// attempt.
    pub fn last(&self, plan: &Plan) -> Vec<&Record> {
        let attempt = |round| if self.is_repeated(plan, round) { 2 } else { 1 };
        let key = |record: &Record| (record.row.name.clone(), record.step, record.row.round);
        let mut last: Vec<&Record> = Vec::new();
        for record in self.records.iter().filter(|record| record.attempt == attempt(record.row.round)) {
            match last.iter_mut().find(|known| key(known) == key(record)) {
                Some(known) => *known = record,
                None => last.push(record),
            }
        }
        last
    }

    /// Returns whether all engines have finished the second attempt at a round. An engine that
    /// failed in the second attempt has finished it. An engine that failed in its first workload is
    /// not run again; if it also has no complete result in the first attempt, the second attempt is
    /// complete without it.
    fn is_repeated(&self, plan: &Plan, round: u32) -> bool {
        let is_over = |engine: &String| {
            let cell = Cell { engine, round, attempt: 2 };
            let is_abandoned =
                |record: &Record| record.row.name == *engine && record.step == 0 && record.row.error.is_some();
            let has = |step| self.of(cell).any(|record| record.step == step);
            self.of(cell).any(|record| record.row.error.is_some())
                || (0..plan.steps().len()).all(has)
                || self.records.iter().any(is_abandoned) && !self.has(plan, Cell { attempt: 1, ..cell })
        };
        self.records.iter().any(|record| record.row.round == round && record.attempt == 2)
            && plan.engines().iter().all(is_over)
    }

    fn of(&self, cell: Cell<'_>) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |record| {
            (record.row.name.as_str(), record.row.round, record.attempt) == (cell.engine, cell.round, cell.attempt)
        })
    }
}

/// Returns `text` without its last line if that line is incomplete.
fn whole_lines(text: &str) -> Result<&str> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let cut = &text[whole..];
    ensure!(cut.is_empty() || cut.starts_with('{'), "not a results file: it ends with {cut:?}");
    Ok(&text[..whole])
}

/// Returns the contents of the file at `path`. Returns an empty text if the file does not exist.
fn read_if_exists(path: &Path) -> io::Result<String> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read,
    }
}

fn record(at: usize, line: &str) -> Result<Record> {
    serde_json::from_str(line).with_context(|| format!("line {}", at + 1))
}

fn records(text: &str, plan: &Plan) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let record = record(at, line)?;
        if record.plan == plan.id() {
            put(&mut records, record);
        }
    }
    Ok(records)
}

/// Adds a record to `records`. The first row of a cell removes earlier rows of the same cell,
/// because all rows of a cell must come from one store.
fn put(records: &mut Vec<Record>, record: Record) {
    let cell = |record: &Record| (record.row.name.clone(), record.row.round, record.attempt);
    if record.step == 0 {
        records.retain(|known| cell(known) != cell(&record));
    }
    records.push(record);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::CellSpec;

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
    fn finished_cells_of_the_same_plan_are_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.jsonl");
        let (mine, other) = (plan(10), plan(11));
        let mut results = Results::open(Some(&path), &mine).unwrap();
        results.add(record(&mine, 0, 1, 1.5)).unwrap();
        assert!(!results.has(&mine, CELL), "half a cell does not count");
        results.add(record(&mine, 1, 1, 2.5)).unwrap();
        assert!(results.has(&mine, CELL));

        let again = Results::open(Some(&path), &mine).unwrap();
        assert!(again.has(&mine, CELL) && !again.has(&mine, Cell { round: 2, ..CELL }));
        assert_eq!(again.records, results.records);
        assert!(!Results::open(Some(&path), &other).unwrap().has(&other, CELL));
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);

        Results::open(Some(&path), &other).unwrap().add(record(&other, 0, 1, 3.5)).unwrap();
        let others = Plan::new(mine.cell.clone(), vec!["b".into()], 2, "", 0).unwrap();
        Results::forget(&path, &others).unwrap();
        assert!(Results::open(Some(&path), &mine).unwrap().has(&mine, CELL), "only other engines were removed");
        Results::forget(&path, &mine).unwrap();
        assert!(!Results::open(Some(&path), &mine).unwrap().has(&mine, CELL), "it starts again");
        assert_eq!(Results::open(Some(&path), &other).unwrap().records.len(), 1, "others stay");
        Results::forget(&directory.path().join("none"), &mine).unwrap();
    }

    #[test]
    fn an_incomplete_line_is_dropped_and_foreign_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.jsonl");
        let plan = plan(10);
        Results::open(Some(&path), &plan).unwrap().add(record(&plan, 0, 1, 1.5)).unwrap();
        let whole = fs::read(&path).unwrap();
        let cut = [&whole[..], b"{\"plan\":\"x"].concat();
        fs::write(&path, &cut).unwrap();
        assert_eq!(Results::read(&path, &plan).unwrap().records.len(), 1);
        assert_eq!(fs::read(&path).unwrap(), cut, "reading does not truncate: another process may be appending a row");
        let mut results = Results::open(Some(&path), &plan).unwrap();
        assert_eq!(fs::read(&path).unwrap(), whole);
        results.add(record(&plan, 1, 1, 2.5)).unwrap();
        assert!(Results::open(Some(&path), &plan).unwrap().has(&plan, CELL));

        for foreign in ["my notes", "my notes\nand more\n"] {
            fs::write(&path, foreign).unwrap();
            let error = Results::open(Some(&path), &plan).unwrap_err();
            assert!(format!("{error:#}").contains("results.jsonl"), "{error:#}");
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }

    #[test]
    fn errors_do_not_finish_a_cell_and_the_last_record_counts() {
        let plan = plan(10);
        let mut results = Results::open(None, &plan).unwrap();
        let mut failed = record(&plan, 1, 1, 1.0);
        failed.row.error = Some("disk full".into());
        failed.row.disturbed = Some(true);
        results.add(record(&plan, 0, 1, 1.0)).unwrap();
        results.add(failed).unwrap();
        assert!(!results.has(&plan, CELL) && results.disturbed(1) && !results.disturbed(2));
        results.add(record(&plan, 1, 1, 2.0)).unwrap();
        assert!(results.has(&plan, CELL));
        let seconds = |results: &Results| -> Vec<f64> {
            results.last(&plan).iter().map(|record| record.row.seconds.unwrap()).collect()
        };
        assert_eq!(seconds(&results), [1.0, 2.0]);
        results.add(record(&plan, 0, 1, 4.0)).unwrap();
        assert_eq!(seconds(&results), [4.0], "the cell began again");
    }

    #[test]
    fn all_records_of_a_round_come_from_one_attempt() {
        let plan = Plan::new(plan(10).cell, vec!["a".into(), "b".into()], 2, "", 0).unwrap();
        let mut results = Results::open(None, &plan).unwrap();
        let of = |name: &str, step, attempt, error: Option<&str>| {
            let mut record = record(&plan, step, attempt, f64::from(attempt));
            (record.row.name, record.row.error) = (name.into(), error.map(String::from));
            record
        };
        let attempts = |results: &Results| -> Vec<u32> {
            let last = results.last(&plan);
            let mut all: Vec<u32> = last.iter().filter(|record| record.row.round == 1).map(|it| it.attempt).collect();
            all.dedup();
            all
        };
        for (name, attempt) in [("a", 1), ("b", 1), ("a", 2)] {
            results.add(of(name, 0, attempt, None)).unwrap();
            results.add(of(name, 1, attempt, None)).unwrap();
            assert_eq!(attempts(&results), [1], "after {name}{attempt}");
        }
        results.add(of("b", 0, 2, None)).unwrap();
        assert_eq!(attempts(&results), [1], "half of the last cell is there");
        results.add(of("b", 1, 2, Some("too long"))).unwrap();
        assert_eq!(attempts(&results), [2], "a failure ends it");

        // From here on, engine `b` has failed in the first workload of another round, so it is not
        // run again.
        results.add(of("b", 0, 2, None)).unwrap();
        assert_eq!(attempts(&results), [1]);
        let mut abandoned = of("b", 0, 1, Some("no such library"));
        abandoned.row.round = 2;
        results.add(abandoned).unwrap();
        assert_eq!(attempts(&results), [1], "it has the first attempt at this round");
        results.records.retain(|record| record.row.name != "b" || record.row.round == 2);
        assert_eq!(attempts(&results), [2]);
    }
}
