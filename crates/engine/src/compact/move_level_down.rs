//! How a store comes to have a level more: all levels go down by one, the last one first, and as nothing lies below it, without a
//! byte written.
use super::{
    leveled::complete,
    plan::{Plan, Situation},
    sizes,
};
use terrace_format::LEVELS;

/// A level as a whole goes down, as it is, if a level more is to be begun or if it is due and nothing is in the next one. So what
/// belongs a level deeper comes there without being written, the last level first. `held` are the bytes of each level.
pub fn move_level_down(situation: &Situation<'_>, held: &[u64; LEVELS]) -> Option<Plan> {
    let Situation { limits, version, .. } = situation;
    if !limits.fits() {
        return None;
    }
    let (sizes, last) = (limits.level_sizes(held), sizes::last(held));
    let begins = held[last] > 0 && sizes::last_needed(limits.max_bytes_for_level_base, held) > last;
    let due = |level: &usize| held[*level] >= sizes.of(*level) && held[level + 1] == 0;
    let level = if begins { last } else { (1..last).rev().find(due)? };
    let tables = version.levels[level].tables().cloned().collect();
    let plan = complete(situation, level, tables, false);
    plan.lower.is_empty().then_some(Plan { trivial_move: true, ..plan })
}

#[cfg(test)]
mod tests {
    use super::super::{plan::Limits, tests::Tree};

    #[test]
    fn levels_go_down_by_one_without_being_written() {
        let limits = Limits {
            target_file_size: 1000,
            max_bytes_for_level_base: 2000,
            level_compaction_dynamic_level_bytes: true,
            level0_file_num_compaction_trigger: 4,
            ..Limits::default()
        };
        for (before, after, is_written) in [
            ([0, 8, 0, 0, 0, 0, 0], [0, 8, 0, 0, 0, 0, 0], false), // four times the base is not too much …
            ([0, 9, 0, 0, 0, 0, 0], [0, 0, 9, 0, 0, 0, 0], false), // … but more is
            ([0, 0, 80, 0, 0, 0, 0], [0, 0, 80, 0, 0, 0, 0], false), // the last level is never due
            ([0, 8, 73, 0, 0, 0, 0], [0, 0, 8, 73, 0, 0, 0], false), // the last one first, so nothing is in anybody's way
            ([0, 8, 8, 73, 0, 0, 0], [0, 1, 8, 73, 0, 0, 0], true),  // nothing to begin: what is too much is merged
        ] {
            let mut tree = Tree::stacked(limits, before);
            let written = tree.settle();
            assert_eq!(tree.tables_held(), after, "of {before:?}");
            assert_eq!(written > 0, is_written, "{written} bytes written for {before:?}");
        }
    }
}
