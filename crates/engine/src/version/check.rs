//! Invariants of a version. A version that breaks one is refused before any read uses it.
use super::{Level, TableRef, Version};
use std::collections::HashSet;
use terrace_format::{KeyOrder, TableId, edit::Edit, key};

/// Checks a version: bounds are valid internal keys in order, tables of a run do not overlap, no
/// table occurs twice.
pub fn version(order: &KeyOrder, version: &Version) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (number, found) in version.tables() {
        if !seen.insert(found.meta.id) {
            return Err(format!("table {} occurs twice, the second time in level {number}", found.meta.id));
        }
        table(order, found)?;
    }
    version.levels.iter().enumerate().try_for_each(|(number, level)| runs(order, number, level))
}

/// Checks the result of applying `edit` to a valid version: the added tables, that each occurs
/// once, and the runs of the levels that got one.
pub fn edited(order: &KeyOrder, version: &Version, edit: &Edit) -> Result<(), String> {
    let mut added: Vec<TableId> = edit.added.iter().map(|(_, table)| table.id).collect();
    added.sort_unstable();
    let found: Vec<_> = version.tables().filter(|(_, found)| added.binary_search(&found.meta.id).is_ok()).collect();
    if found.len() != added.len() || added.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("the edit adds one of the tables {added:?} twice"));
    }
    found.iter().try_for_each(|(_, found)| table(order, found))?;
    let changed = |number: &usize| edit.added.iter().any(|(level, _)| level == number);
    (0..version.levels.len()).filter(changed).try_for_each(|number| runs(order, number, &version.levels[number]))
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
        for pair in run.windows(2) {
            // Compared by internal key: LevelDB may let two neighbours share a user key.
            if order.internal(&pair[0].meta.largest, &pair[1].meta.smallest).is_ge() {
                return Err(format!("tables {} and {} overlap in level {number}", pair[0].meta.id, pair[1].meta.id));
            }
        }
    }
    Ok(())
}
