//! The plan of a compaction: a policy makes the plan, and a compaction job executes it.
use crate::version::{TableRef, Version};
use std::sync::Arc;
use terrace_format::{FamilyId, KeyOrder, TableId};

/// The plan of a compaction: it merges the inputs and places the outputs in `output_level`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The column family of the inputs.
    pub family: FamilyId,
    /// Level of the upper inputs.
    pub level: usize,
    /// Level of the outputs.
    pub output_level: usize,
    /// Inputs from `level`.
    pub upper: Vec<Arc<TableRef>>,
    /// Inputs from `output_level`.
    pub lower: Vec<Arc<TableRef>>,
    /// Inputs from levels between `level` and `output_level`, each with its level. Only the
    /// universal policy has such inputs.
    pub between: Vec<(usize, Arc<TableRef>)>,
    /// The number of the sorted run in `output_level` that the outputs belong to; see
    /// [`TableMeta::run`].
    ///
    /// [`TableMeta::run`]: terrace_storage::placement::TableMeta::run
    pub output_run: u64,
    /// Whether the outputs become a new sorted run that consists of these outputs only. Such a
    /// compaction conflicts with another one only if the two share an input.
    pub own_run: bool,
    /// Tables of the level below the output level that overlap the inputs. A later compaction of
    /// the outputs will read these tables.
    pub grandparents: Vec<Arc<TableRef>>,
    /// The internal key after which the next compaction of `level` picks its first table. An
    /// intra-L0 compaction does not use this field.
    pub pointer: Vec<u8>,
    /// The version from which the policy made the plan. The compaction job uses it to check which
    /// keys have older entries in deeper levels. The field is a copy of the version that pins no
    /// files. Pins are not necessary: the inputs stay live until the job installs its edit, and of
    /// the tables that are no inputs the job uses only the key ranges.
    pub version: Arc<Version>,
    /// Whether the compaction is a trivial move: all inputs are in one level, and they move down
    /// without a rewrite.
    pub trivial_move: bool,
    /// For an intra-L0 compaction, the table number of its one output. With this number the output
    /// takes the position of the inputs in level 0.
    pub number: Option<TableId>,
    /// Whether only value-log GC needs this compaction. Such a compaction has one of two purposes.
    /// Either it rewrites tables in place to relocate their values, or it merges shadowed entries
    /// away, so that GC can see that the values to which they point are garbage.
    pub gc_only: bool,
}

impl Plan {
    /// Returns every input with its level.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let upper = self.upper.iter().map(|table| (self.level, table));
        let between = self.between.iter().map(|(level, table)| (*level, table));
        upper.chain(between).chain(self.lower.iter().map(|table| (self.output_level, table)))
    }

    /// Returns the bytes of all inputs.
    pub fn bytes(&self) -> u64 {
        self.inputs().map(|(_, table)| table.meta.bytes).fold(0, u64::saturating_add)
    }
}

/// Returns the first and the last user key of `tables`; `None` if there are no tables.
pub fn span<'a>(order: &KeyOrder, tables: impl Iterator<Item = &'a Arc<TableRef>>) -> Option<(&'a [u8], &'a [u8])> {
    tables.map(|table| (table.smallest(), table.largest())).reduce(|(low, high), (smallest, largest)| {
        let low = if order.user(smallest, low).is_lt() { smallest } else { low };
        (low, if order.user(largest, high).is_gt() { largest } else { high })
    })
}
