//! The sorted runs of one level.
use super::{
    run::{Run, TableSlice, Tables},
    table_ref::{KeyRange, TableRef, run_number},
    totals::LevelTotals,
};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::KeyOrder;

/// Groups the tables of level `level` by the number of their sorted run.
fn by_run(level: usize, tables: Vec<Arc<TableRef>>) -> BTreeMap<u64, Vec<Arc<TableRef>>> {
    let mut runs = BTreeMap::<u64, Vec<Arc<TableRef>>>::new();
    tables.into_iter().for_each(|table| runs.entry(run_number(level, &table)).or_default().push(table));
    runs
}

/// Makes a run of `tables`, which may be in any order.
fn new_run(order: &KeyOrder, mut tables: Vec<Arc<TableRef>>) -> Run {
    tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
    Arc::new(Tables::new(order, tables))
}

/// The sorted runs of one level.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The runs, newest first.
    pub runs: Vec<Run>,
    totals: LevelTotals,
}

impl Level {
    /// Makes a level of `tables`, which may be in any order. In level 0 each table is a run. In
    /// deeper levels the run number in a table's metadata determines its run.
    pub fn new(order: &KeyOrder, number: usize, tables: Vec<Arc<TableRef>>) -> Level {
        let by_run = by_run(number, tables);
        Level::of(by_run.into_values().rev().map(|tables| new_run(order, tables)).collect())
    }

    fn of(runs: Vec<Run>) -> Level {
        let totals = runs.iter().fold(LevelTotals::default(), |sum, run| sum.plus(run.totals()));
        Level { runs, totals }
    }

    /// Returns the tables of the level.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableRef>> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// Returns the sums of bytes and entries over the tables of the level.
    pub fn totals(&self) -> &LevelTotals {
        &self.totals
    }

    /// Returns the bytes of the tables.
    pub fn bytes(&self) -> u64 {
        self.totals.bytes
    }

    /// Returns level `number` without the tables `removed` and with the tables `added`.
    pub fn replaced(
        &self,
        order: &KeyOrder,
        number: usize,
        removed: Vec<Arc<TableRef>>,
        added: Vec<Arc<TableRef>>,
    ) -> Level {
        if removed.is_empty() && added.is_empty() {
            return self.clone(); // the versions share the runs
        }
        let (mut removed, mut added) = (by_run(number, removed), by_run(number, added));
        let mut runs = Vec::with_capacity(self.runs.len() + added.len());
        for run in &self.runs {
            let at = run.first().map_or(0, |first| run_number(number, first));
            // Added tables whose run number is larger than that of `run` are newer than `run`. They
            // form new runs of this level, before `run`.
            let newer = at.checked_add(1).map(|above| added.split_off(&above)).unwrap_or_default();
            runs.extend(newer.into_values().rev().map(|tables| new_run(order, tables)));
            match (removed.remove(&at).unwrap_or_default(), added.remove(&at).unwrap_or_default()) {
                (gone, come) if gone.is_empty() && come.is_empty() => runs.push(run.clone()),
                (gone, come) => runs.push(Arc::new(run.replaced(order, gone, come))),
            }
        }
        runs.extend(added.into_values().rev().map(|tables| new_run(order, tables)));
        runs.retain(|run| !run.is_empty());
        Level::of(runs)
    }

    /// Returns the tables that may contain keys of `range`, in the order of the level.
    pub fn overlapping(&self, order: &KeyOrder, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
        self.overlap_slices(order, range).flatten().cloned().collect()
    }

    /// Returns, for each run, the tables that may contain keys of `range`.
    pub fn overlap_slices<'a>(
        &'a self,
        order: &'a KeyOrder,
        range: &'a KeyRange<'_>,
    ) -> impl Iterator<Item = TableSlice<'a>> {
        self.runs.iter().map(move |run| TableSlice::new(run, run.overlapping(order, range)))
    }

    /// Returns the bytes of the tables that may contain keys of any of `ranges`. Each table counts
    /// once.
    pub fn overlapping_bytes(&self, order: &KeyOrder, ranges: &[KeyRange<'_>]) -> u128 {
        let of_run = |run: &Run| {
            let mut slices: Vec<_> = ranges.iter().map(|range| run.overlapping(order, range)).collect();
            slices.sort_unstable_by_key(|slice| slice.start);
            let (mut counted, mut bytes) = (0, 0);
            for slice in slices.into_iter().filter(|slice| slice.end > 0) {
                let rest = slice.start.max(counted)..slice.end.max(counted);
                counted = rest.end;
                bytes += run.range(rest).map(|table| u128::from(table.meta.bytes)).sum::<u128>();
            }
            bytes
        };
        self.runs.iter().map(of_run).sum()
    }
}
