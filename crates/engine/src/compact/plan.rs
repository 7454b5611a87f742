//! What is merged when: a policy looks at a version and answers with a plan. Pure: no I/O, no clock, no locks.
use super::{claim::Busy, sizes::LevelSizes};
use crate::version::{KeyRange, TableRef, Version};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, SeqNo, TableId};
use terrace_storage::placement::TableMeta;

/// Sizes a policy goes by, in bytes unless said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// A compaction ends a table here.
    pub target_file_size: u64,
    /// What level 1 may hold …
    pub max_bytes_for_level_base: u64,
    /// … at least, if levels are sized from the last one.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Entries that level 0 may hold, each deeper level ten times its upper neighbour; 0 if levels hold bytes.
    pub max_entries_for_level_base: u64,
    /// Runs in level 0 that start its compaction.
    pub level0_file_num_compaction_trigger: u64,
    /// Runs in level 0 with which it waits no longer …
    pub l0_pressing_runs: u64,
    /// … for as many bytes, in percent of what they meet in level 1, as are worth writing that anew; 0 if any are.
    pub level0_min_overlap_percent: u64,
    /// Fewest runs of level 0 that are merged among themselves; 0 for never.
    pub intra_l0_compaction_trigger: u64,
    /// A level gives away what meets least below, not what comes next.
    pub least_overlap: bool,
    /// Share of what a merge rewrites, in percent, that tombstones must hide to pay for it; 0 for never.
    pub tombstone_compaction_percent: u64,
}

impl Limits {
    /// Whether levels of bytes are sized from the last one.
    pub fn fits(&self) -> bool {
        self.level_compaction_dynamic_level_bytes && self.max_entries_for_level_base == 0
    }

    /// What levels may hold that hold so much now.
    pub fn level_sizes(&self, held: &[u64; LEVELS]) -> LevelSizes {
        if self.fits() {
            LevelSizes::from_last(self.max_bytes_for_level_base, held)
        } else {
            LevelSizes::from_first(self.max_bytes_for_level_base)
        }
    }

    /// Bytes that lie above the limits of levels 1 and deeper: what compactions have yet to move. What goes down without being written
    /// is no debt, nor is what another way of sizing levels had left there.
    pub fn debt(&self, held: &[u64; LEVELS]) -> u64 {
        let (sizes, from_first) = (self.level_sizes(held), LevelSizes::from_first(self.max_bytes_for_level_base));
        let sinks = |level: usize| self.fits() && held.get(level + 1).is_none_or(|below| *below == 0);
        let over = |level: usize| held[level].saturating_sub(sizes.of(level).max(from_first.of(level)));
        (1..LEVELS).filter(|level| !sinks(*level)).map(over).sum()
    }
}

/// How much there is of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tables; in level 0, each is a run.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Their entries, as far as known.
    pub entries: u64,
    /// Bytes of those whose entries are not known: of tables that were entered without.
    pub uncounted: u64,
}

impl Amount {
    /// Of `tables`.
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableRef>>) -> Amount {
        tables.into_iter().fold(Amount::default(), |sum, table| {
            let TableMeta { bytes, entries, .. } = table.meta;
            sum.plus(&Amount { tables: 1, bytes, entries, uncounted: if entries == 0 { bytes } else { 0 } })
        })
    }

    /// Both. What a manifest says of bytes and entries may be anything.
    pub fn plus(&self, other: &Amount) -> Amount {
        Amount {
            tables: self.tables + other.tables,
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
            uncounted: self.uncounted.saturating_add(other.uncounted),
        }
    }

    /// What is left without `other`.
    pub fn minus(&self, other: &Amount) -> Amount {
        Amount {
            tables: self.tables.saturating_sub(other.tables),
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
            uncounted: self.uncounted.saturating_sub(other.uncounted),
        }
    }
}

/// What a policy looks at.
pub struct Situation<'a> {
    /// The order of user keys.
    pub order: &'a KeyOrder,
    /// What is live.
    pub version: &'a Arc<Version>,
    /// What is being compacted.
    pub busy: &'a Busy,
    /// Where each level's last compaction ended (internal keys).
    pub pointers: &'a [Vec<u8>; LEVELS],
    /// Sizes.
    pub limits: &'a Limits,
    /// Numbers kept free, each right above that of a table in level 0.
    pub spares: &'a BTreeSet<TableId>,
    /// A table that has cost too many seeks, with its level.
    pub seek_hint: Option<(usize, TableId)>,
    /// Nobody reads at a lower position.
    pub oldest_reader: SeqNo,
    /// Of what comes from above, so much is taken to hide something; see [`Found::share`](super::shadow_estimate::Found::share).
    pub hiding_share: f64,
}

impl Situation<'_> {
    /// The version, for a plan.
    pub fn copied(&self) -> Arc<Version> {
        Arc::new(Version::clone(self.version))
    }
}

/// Merge `inputs` and put what remains into `output_level`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The level that is relieved.
    pub level: usize,
    /// Where outputs go.
    pub output_level: usize,
    /// Inputs from `level`.
    pub upper: Vec<Arc<TableRef>>,
    /// Inputs from `output_level`.
    pub lower: Vec<Arc<TableRef>>,
    /// Tables one level below the output, which a later compaction of the output will meet.
    pub grandparents: Vec<Arc<TableRef>>,
    /// Where this level's next compaction starts (an internal key). Of no meaning in a merge within level 0.
    pub pointer: Vec<u8>,
    /// Of the version that the plan was made from; it says which keys have older entries further down. A copy, which
    /// keeps nobody from removing a file: the inputs are live until the plan's own edit, and of the others only keys are looked at.
    pub version: Arc<Version>,
    /// The inputs, of one level, go down as they are.
    pub trivial_move: bool,
    /// In a merge within level 0: the number of its one output, which puts it in the place of its inputs.
    pub number: Option<TableId>,
    /// It is for garbage of the value log only: a table written anew in its place for where the values are that it points to, or merged down
    /// for those that it hides. Nothing depends on that.
    pub only_collects: bool,
}

impl Plan {
    /// Writes neighbours of one level anew where they are. Behind the last, the level has no older versions of its keys: the
    /// caller sees to that.
    pub fn in_place(situation: &Situation<'_>, level: usize, tables: Vec<Arc<TableRef>>) -> Plan {
        Plan {
            level,
            output_level: level,
            pointer: tables.last().expect("a plan has inputs").meta.largest.clone(),
            upper: tables,
            lower: Vec::new(),
            grandparents: Vec::new(),
            version: situation.copied(),
            trivial_move: false,
            number: None,
            only_collects: false,
        }
    }

    /// Every input with its level.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let upper = self.upper.iter().map(|table| (self.level, table));
        upper.chain(self.lower.iter().map(|table| (self.output_level, table)))
    }

    /// Bytes of all inputs.
    pub fn bytes(&self) -> u64 {
        self.inputs().map(|(_, table)| table.meta.bytes).fold(0, u64::saturating_add)
    }
}

/// Decides what to merge.
pub trait Policy: Send + Sync {
    /// The most urgent compaction that does not meet a running one; `None` if the tree is in shape.
    fn plan(&self, situation: &Situation<'_>) -> Option<Plan>;
    /// A compaction of `level`'s tables that hold keys of `range`, from its start; `None` if there are none.
    /// The caller checks it against what is running.
    fn plan_range(&self, situation: &Situation<'_>, level: usize, range: &KeyRange<'_>) -> Option<Plan>;
}

/// First and last user key of some tables.
pub fn span<'a>(order: &KeyOrder, tables: impl Iterator<Item = &'a Arc<TableRef>>) -> Option<(&'a [u8], &'a [u8])> {
    tables.map(|table| (table.smallest(), table.largest())).reduce(|(low, high), (smallest, largest)| {
        let low = if order.user(smallest, low).is_lt() { smallest } else { low };
        (low, if order.user(largest, high).is_gt() { largest } else { high })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debt_is_what_lies_above_the_levels() {
        let mut limits = Limits { max_bytes_for_level_base: 10, ..Limits::default() };
        assert_eq!(limits.debt(&[500, 10, 99, 1000, 0, 0, 0]), 0);
        assert_eq!(limits.debt(&[500, 12, 101, 1001, 0, 0, 0]), 4);
        limits.level_compaction_dynamic_level_bytes = true;
        for (held, want) in [
            ([500, 40, 301, 2999, 0, 0, 0], 2), // a hundredth of all 3840 is 38
            ([0, 9, 90, 500, 0, 0, 0], 0),      // more than a tenth of all, but not more than LevelDB's 100
            ([0, 0, 4000, 0, 0, 0, 0], 0),
            ([0, 40, 400, 0, 3600, 0, 0], 30), // level 2 will go down as it is
        ] {
            assert_eq!(limits.debt(&held), want, "{held:?}");
        }
    }
}
