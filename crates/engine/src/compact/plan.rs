//! A compaction, as a policy plans it and a job runs it.
use crate::version::{TableRef, Version};
use std::sync::Arc;
use terrace_format::{KeyOrder, TableId};

/// A compaction: merges the inputs and places the outputs in `output_level`.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Level of the upper inputs.
    pub level: usize,
    /// Level of the outputs.
    pub output_level: usize,
    /// Inputs from `level`.
    pub upper: Vec<Arc<TableRef>>,
    /// Inputs from `output_level`.
    pub lower: Vec<Arc<TableRef>>,
    /// Inputs from levels between the two, with their level: only the universal policy has any.
    pub between: Vec<(usize, Arc<TableRef>)>,
    /// The sorted run of the outputs in `output_level`; see [`TableMeta::run`].
    ///
    /// [`TableMeta::run`]: terrace_storage::placement::TableMeta::run
    pub output_run: u64,
    /// Whether the outputs are a sorted run by themselves, so that the compaction conflicts only
    /// with those that share an input.
    pub own_run: bool,
    /// Tables of the level below the output level that overlap the inputs. A later compaction of
    /// the outputs will read them.
    pub grandparents: Vec<Arc<TableRef>>,
    /// Where this level's next compaction starts (an internal key). Unused by an intra-L0
    /// compaction.
    pub pointer: Vec<u8>,
    /// The version of the plan, which says which keys have older entries in deeper levels. It is a
    /// copy that pins no files: the inputs stay live until the plan's own edit, and of other tables
    /// only the key ranges are read.
    pub version: Arc<Version>,
    /// Whether the inputs, all of one level, move down without a rewrite.
    pub trivial_move: bool,
    /// For an intra-L0 compaction: the table number of its one output, which gives it the position
    /// of its inputs.
    pub number: Option<TableId>,
    /// Whether only value-log GC needs this compaction: a rewrite in place that relocates values,
    /// or a compaction that exposes shadowed garbage. Nothing else depends on it.
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

/// Returns the first and the last user key of some tables.
pub fn span<'a>(order: &KeyOrder, tables: impl Iterator<Item = &'a Arc<TableRef>>) -> Option<(&'a [u8], &'a [u8])> {
    tables.map(|table| (table.smallest(), table.largest())).reduce(|(low, high), (smallest, largest)| {
        let low = if order.user(smallest, low).is_lt() { smallest } else { low };
        (low, if order.user(largest, high).is_gt() { largest } else { high })
    })
}
