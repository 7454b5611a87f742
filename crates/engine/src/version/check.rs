//! What must hold in every version, and why a version that breaks it is refused before anything reads through it.
use super::{Level, Version};
use std::collections::HashSet;
use terrace_format::{KeyOrder, key};

/// Checks one version: keys whole and in order, runs free of overlap, no table twice.
pub fn version(order: &KeyOrder, version: &Version) -> Result<(), String> {
    let mut seen = HashSet::new();
    for (number, table) in version.tables() {
        if !seen.insert(table.meta.id) {
            return Err(format!("table {} stands twice, the second time in level {number}", table.meta.id));
        }
        for bound in [&table.meta.smallest, &table.meta.largest] {
            key::parse(bound).map_err(|e| format!("table {}: {e}", table.meta.id))?;
        }
        if order.internal(&table.meta.smallest, &table.meta.largest).is_gt() {
            return Err(format!("table {} ends before it begins", table.meta.id));
        }
    }
    version.levels.iter().enumerate().try_for_each(|(number, level)| runs(order, number, level))
}

fn runs(order: &KeyOrder, number: usize, level: &Level) -> Result<(), String> {
    for run in &level.runs {
        for pair in run.windows(2) {
            // By internal key: LevelDB may let two neighbours share a user key.
            if order.internal(&pair[0].meta.largest, &pair[1].meta.smallest).is_ge() {
                return Err(format!("tables {} and {} overlap in level {number}", pair[0].meta.id, pair[1].meta.id));
            }
        }
    }
    Ok(())
}
