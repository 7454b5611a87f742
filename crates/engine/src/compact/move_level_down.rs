//! Moves whole levels down by trivial moves. In this way the store gets a new last level without a
//! rewrite of any table. The last level moves first, because no table is below it. Then the levels
//! above it move, one by one.
use super::{inputs::expand_inputs, level_targets, plan::Plan, situation::Situation};
use terrace_format::LEVELS;

/// Picks the trivial move of a whole level. The last level moves when the store needs a new level.
/// Another level moves when it is due and the next level is empty. `level_bytes` are the bytes of
/// each level.
pub fn move_level_down(ctx: &Situation<'_>, level_bytes: &[u64; LEVELS]) -> Option<Plan> {
    let Situation { limits, version, .. } = ctx;
    if !limits.is_dynamic() {
        return None;
    }
    let (sizes, last) = (limits.level_targets(level_bytes), level_targets::last(level_bytes));
    let needs_new_level =
        level_bytes[last] > 0 && level_targets::last_needed(limits.max_bytes_for_level_base, level_bytes) > last;
    let due = |level: &usize| level_bytes[*level] >= sizes.of(*level) && level_bytes[level + 1] == 0;
    let level = if needs_new_level { last } else { (1..last).rev().find(due)? };
    if version.levels[level].runs.len() > 1 {
        return None; // the runs would overlap each other in the next level
    }
    let tables = version.levels[level].tables().cloned().collect();
    let plan = expand_inputs(ctx, level, tables, false);
    plan.lower.is_empty().then_some(Plan { trivial_move: true, ..plan })
}

#[cfg(test)]
mod tests {
    use super::super::{limits::Limits, tests::Tree};

    #[test]
    fn levels_move_down_by_one_without_a_rewrite() {
        let limits = Limits {
            target_file_size: 1000,
            max_bytes_for_level_base: 2000,
            level_compaction_dynamic_level_bytes: true,
            level0_file_num_compaction_trigger: 4,
            ..Limits::default()
        };
        for (before, after, is_written) in [
            // Level 1 with exactly four times the base size stays.
            ([0, 8, 0, 0, 0, 0, 0], [0, 8, 0, 0, 0, 0, 0], false),
            ([0, 9, 0, 0, 0, 0, 0], [0, 0, 9, 0, 0, 0, 0], false), // above four times the base size
            ([0, 0, 80, 0, 0, 0, 0], [0, 0, 80, 0, 0, 0, 0], false), // the last level is never due
            // The last level moves first, so that the level below level 1 becomes empty.
            ([0, 8, 73, 0, 0, 0, 0], [0, 0, 8, 73, 0, 0, 0], false),
            // The store needs no new level, so compactions move the excess bytes down, table by
            // table.
            ([0, 8, 8, 73, 0, 0, 0], [0, 1, 8, 73, 0, 0, 0], true),
        ] {
            let mut tree = Tree::stacked(limits, before);
            let written = tree.settle();
            assert_eq!(tree.tables_held(), after, "of {before:?}");
            assert_eq!(written > 0, is_written, "{written} bytes written for {before:?}");
        }
    }
}
