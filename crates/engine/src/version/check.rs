//! The invariants of a version. A version that violates one of them is refused before any read
//! uses it.
use super::{
    level::Level,
    run::Run,
    table_ref::{TableRef, run_number},
};
use std::{collections::HashSet, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, key};

/// Checks the levels of a version: bounds are valid internal keys in order, tables of a run do not
/// overlap, no table occurs twice.
pub fn levels(order: &KeyOrder, levels: &[Level; LEVELS]) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (number, level) in levels.iter().enumerate() {
        for found in level.tables() {
            if !seen.insert(found.meta.id) {
                return Err(format!("table {} occurs twice, the second time in level {number}", found.meta.id));
            }
            table(order, found)?;
        }
        runs(order, number, level)?;
    }
    Ok(())
}

/// Checks the tables that an edit has added to levels that were valid before: each table by
/// itself, and that it overlaps no neighbour in its run.
pub fn added(order: &KeyOrder, levels: &[Level; LEVELS], added: &[(usize, Arc<TableRef>)]) -> Result<(), String> {
    for (level, new) in added {
        table(order, new)?;
        let is_own = |run: &&Run| run.first().is_some_and(|first| run_number(*level, first) == run_number(*level, new));
        for run in levels[*level].runs.iter().filter(is_own) {
            let [before, after] = run.neighbours(order, new);
            let pairs = [before.map(|before| (before, new)), after.map(|after| (new, after))];
            pairs.into_iter().flatten().try_for_each(|(first, second)| disjoint(order, *level, first, second))?;
        }
    }
    Ok(())
}

fn table(order: &KeyOrder, table: &TableRef) -> Result<(), String> {
    for bound in [&table.meta.smallest, &table.meta.largest] {
        key::parse(bound).map_err(|e| format!("table {}: {e}", table.meta.id))?;
    }
    if order.internal(&table.meta.smallest, &table.meta.largest).is_gt() {
        return Err(format!("the last key of table {} is before its first key", table.meta.id));
    }
    Ok(())
}

fn runs(order: &KeyOrder, number: usize, level: &Level) -> Result<(), String> {
    for run in &level.runs {
        run.iter().zip(run.iter().skip(1)).try_for_each(|(first, second)| disjoint(order, number, first, second))?;
    }
    Ok(())
}

/// Checks that two neighbouring tables do not overlap. The check compares internal keys, because
/// LevelDB allows that two neighbours share a user key.
fn disjoint(order: &KeyOrder, level: usize, first: &TableRef, second: &TableRef) -> Result<(), String> {
    if order.internal(&first.meta.largest, &second.meta.smallest).is_ge() {
        return Err(format!("tables {} and {} overlap in level {level}", first.meta.id, second.meta.id));
    }
    Ok(())
}
