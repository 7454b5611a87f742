//! What is merged when: a policy looks at a version and answers with a plan. Pure: no I/O, no clock, no locks.
use crate::version::{KeyRange, TableRef, Version};
use std::sync::Arc;
use terrace_format::{KeyOrder, LEVELS, TableId};

/// Sizes a policy goes by, in bytes unless said.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A compaction ends a table here.
    pub table_bytes: u64,
    /// What level 1 may hold.
    pub level_base_bytes: u64,
    /// Runs in level 0 that start its compaction.
    pub l0_compact_runs: u64,
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
    /// A table that has cost too many seeks, with its level.
    pub seek_hint: Option<(usize, TableId)>,
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
    /// Where this level's next compaction starts (an internal key).
    pub pointer: Vec<u8>,
    /// The version the plan was made from; it says which keys have older entries further down.
    pub version: Arc<Version>,
    /// The one input goes down as it is.
    pub trivial_move: bool,
}

impl Plan {
    /// Every input with its level.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Arc<TableRef>)> {
        let upper = self.upper.iter().map(|table| (self.level, table));
        upper.chain(self.lower.iter().map(|table| (self.output_level, table)))
    }

    /// Bytes of all inputs.
    pub fn bytes(&self) -> u64 {
        self.inputs().map(|(_, table)| table.meta.bytes).sum()
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

/// Compactions that are running: their inputs, and where their outputs will be.
#[derive(Debug, Default)]
pub struct Busy {
    jobs: Vec<BusyJob>,
}

#[derive(Debug)]
struct BusyJob {
    tables: Vec<TableId>,
    levels: (usize, usize),
    smallest: Vec<u8>,
    largest: Vec<u8>,
}

impl Busy {
    /// `plan` begins.
    pub fn begin(&mut self, order: &KeyOrder, plan: &Plan) {
        let (smallest, largest) = span(order, plan.inputs().map(|(_, table)| table)).expect("a plan has inputs");
        self.jobs.push(BusyJob {
            tables: plan.inputs().map(|(_, table)| table.meta.id).collect(),
            levels: (plan.level, plan.output_level),
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
        });
    }

    /// `plan` is over.
    pub fn end(&mut self, plan: &Plan) {
        let first = plan.inputs().map(|(_, table)| table.meta.id).next();
        self.jobs.retain(|job| job.tables.first() != first.as_ref());
    }

    /// Whether a running compaction reads `table`.
    pub fn has(&self, table: TableId) -> bool {
        self.jobs.iter().any(|job| job.tables.contains(&table))
    }

    /// Compactions running.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing runs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether `plan` may run beside the others: no common input, and no common level where the key ranges meet.
    pub fn admits(&self, order: &KeyOrder, plan: &Plan) -> bool {
        let (smallest, largest) = span(order, plan.inputs().map(|(_, table)| table)).expect("a plan has inputs");
        self.jobs.iter().all(|job| {
            let (a, b) = job.levels;
            let apart_in_depth = plan.output_level < a || plan.level > b;
            let apart_in_keys =
                order.user(largest, &job.smallest).is_lt() || order.user(smallest, &job.largest).is_gt();
            let shares_input = plan.inputs().any(|(_, table)| job.tables.contains(&table.meta.id));
            !shares_input && (apart_in_depth || apart_in_keys)
        })
    }
}

/// First and last user key of some tables.
pub fn span<'a>(order: &KeyOrder, tables: impl Iterator<Item = &'a Arc<TableRef>>) -> Option<(&'a [u8], &'a [u8])> {
    tables.map(|table| (table.smallest(), table.largest())).reduce(|(low, high), (smallest, largest)| {
        let low = if order.user(smallest, low).is_lt() { smallest } else { low };
        (low, if order.user(largest, high).is_gt() { largest } else { high })
    })
}
