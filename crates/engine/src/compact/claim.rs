//! What a compaction holds while it runs, and which compactions may run at once.
use super::{
    idle::IdleDetector,
    plan::{Amount, Plan, span},
};
use crate::Error;
use terrace_format::{KeyOrder, TableId};

/// The tables that a compaction reads, and the keys and levels that its outputs may come to lie in.
#[derive(Clone, Debug)]
pub struct Claim {
    tables: Vec<TableId>,
    levels: (usize, usize),
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// What leaves the upper level.
    leaving: Amount,
    /// Only garbage asks for it.
    only_collects: bool,
}

impl Claim {
    /// What `plan` needs.
    pub fn of(order: &KeyOrder, plan: &Plan) -> Claim {
        let (smallest, largest) = span(order, plan.inputs().map(|(_, table)| table)).expect("a plan has inputs");
        Claim {
            tables: plan.inputs().map(|(_, table)| table.meta.id).collect(),
            levels: (plan.level, plan.output_level),
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            leaving: Amount::of(&plan.upper),
            only_collects: plan.only_collects,
        }
    }

    /// Whether a table is written anew in its own place.
    fn renews(&self) -> bool {
        self.levels.0 == self.levels.1 && self.levels.0 > 0
    }

    /// Whether both may run at once: no common input, and no common level where their key ranges meet. In level 0
    /// tables overlap anyway, so a merge within it only has to leave other merges' inputs alone.
    pub fn is_apart(&self, order: &KeyOrder, other: &Claim) -> bool {
        let apart_in_depth = self.levels.1 < other.levels.0 || self.levels.0 > other.levels.1;
        let apart_in_keys =
            order.user(&self.largest, &other.smallest).is_lt() || order.user(&self.smallest, &other.largest).is_gt();
        // What is apart in depth or keys has no table in common, and need not be searched for one.
        let within_level_0 = self.levels.1 == 0 || other.levels.1 == 0;
        let has_common = || self.tables.iter().any(|table| other.tables.contains(table));
        apart_in_depth || apart_in_keys || within_level_0 && !has_common()
    }
}

/// Compactions that are running.
#[derive(Debug, Default)]
pub struct Busy {
    jobs: Vec<Claim>,
    /// Compactions that have met damage, and what it is. Nothing begins in their way any more: what they could not read would have to be
    /// read again, and what lies over it must not sink below it.
    damaged: Vec<(Claim, Error)>,
    /// What a user's own compaction waits for.
    wanted: Option<Claim>,
    /// Whether anybody writes meanwhile.
    pub lull: IdleDetector,
}

impl Busy {
    /// `plan` begins.
    pub fn begin(&mut self, order: &KeyOrder, plan: &Plan) {
        self.jobs.push(Claim::of(order, plan));
    }

    /// `plan` is over.
    pub fn end(&mut self, plan: &Plan) {
        let first = plan.inputs().map(|(_, table)| table.meta.id).next();
        self.jobs.retain(|job| job.tables.first() != first.as_ref());
    }

    /// `plan` has met damage, which `error` tells of, and is over.
    pub fn end_damaged(&mut self, order: &KeyOrder, plan: &Plan, error: Error) {
        self.end(plan);
        self.damaged.push((Claim::of(order, plan), error));
    }

    /// The damage that keeps `plan` from beginning, if any does.
    pub fn damage(&self, order: &KeyOrder, plan: &Plan) -> Option<&Error> {
        if self.damaged.is_empty() {
            return None; // as nearly always
        }
        let claim = Claim::of(order, plan);
        self.damaged.iter().find(|(damaged, _)| !damaged.is_apart(order, &claim)).map(|(_, error)| error)
    }

    /// The damage that a compaction of `table` has met, if one has.
    pub fn damage_of(&self, table: TableId) -> Option<&Error> {
        self.damaged.iter().find(|(claim, _)| claim.tables.contains(&table)).map(|(_, error)| error)
    }

    /// The first damage that compactions have met, if any has.
    pub fn first_damage(&self) -> Option<&Error> {
        self.damaged.first().map(|(_, error)| error)
    }

    /// The first damage that keeps compactions of `level` from beginning, if any does.
    pub fn damage_in(&self, level: usize) -> Option<&Error> {
        let met = |(claim, _): &&(Claim, Error)| (claim.levels.0..=claim.levels.1).contains(&level);
        self.damaged.iter().find(met).map(|(_, error)| error)
    }

    /// A user's own compaction waits until it may begin, or no longer does: until then nothing begins in its way.
    pub fn want(&mut self, claim: Option<Claim>) {
        self.wanted = claim;
    }

    /// What waits to begin.
    pub fn wanted(&self) -> Option<&Claim> {
        self.wanted.as_ref()
    }

    /// Whether `plan` would be in the way of a user's own compaction.
    pub fn hinders(&self, order: &KeyOrder, plan: &Plan) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| !wanted.is_apart(order, &Claim::of(order, plan)))
    }

    /// Whether a running compaction reads `table`.
    pub fn has(&self, table: TableId) -> bool {
        self.jobs.iter().any(|job| job.tables.contains(&table))
    }

    /// Whether a table is being written anew in its own place, for instance to move its values, or merged for the sake of garbage.
    pub fn collects(&self) -> bool {
        self.jobs.iter().any(|job| job.renews() || job.only_collects)
    }

    /// Whether something moves down, or makes level 0 shorter.
    pub fn merges(&self) -> bool {
        !self.jobs.iter().all(Claim::renews)
    }

    /// One input of each compaction that runs.
    pub fn marks(&self) -> Vec<TableId> {
        self.jobs.iter().filter_map(|job| job.tables.first().copied()).collect()
    }

    /// Compactions running.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether nothing runs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// What of `level` is on its way down.
    pub fn leaving(&self, level: usize) -> Amount {
        let jobs = self.jobs.iter().filter(|job| job.levels.0 == level);
        jobs.fold(Amount::default(), |sum, job| sum.plus(&job.leaving))
    }

    /// Whether `plan` may run beside what is running, and meets no known damage.
    pub fn admits(&self, order: &KeyOrder, plan: &Plan) -> bool {
        let claim = Claim::of(order, plan);
        let apart = |other: &Claim| other.is_apart(order, &claim);
        self.jobs.iter().all(apart) && self.damaged.iter().all(|(damaged, _)| apart(damaged))
    }
}
