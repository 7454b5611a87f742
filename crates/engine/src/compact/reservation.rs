//! Reservations: the inputs and key ranges that running compactions have reserved. Two compactions
//! may run at the same time only if their reservations do not conflict.
use super::{
    idle::IdleDetector,
    plan::{Plan, span},
};
use crate::{Error, version::LevelTotals};
use terrace_format::{FamilyId, KeyOrder, TableId};

/// The reservation of one compaction: its inputs, and the levels and the key range in which its
/// outputs may be placed.
#[derive(Clone, Debug)]
pub struct Reservation {
    family: FamilyId,
    tables: Vec<TableId>,
    /// Total bytes of the inputs.
    bytes: u64,
    levels: (usize, usize),
    /// Whether the outputs become a new sorted run that consists of these outputs only.
    own_run: bool,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// The total bytes and entries of the inputs that this compaction takes out of its upper level.
    leaving: LevelTotals,
    /// Whether only value-log GC needs the compaction (see [`Plan::gc_only`]).
    gc_only: bool,
}

impl Reservation {
    /// Makes the reservation of `plan`.
    pub fn of(order: &KeyOrder, plan: &Plan) -> Reservation {
        let (smallest, largest) = span(order, plan.inputs().map(|(_, table)| table)).expect("a plan has inputs");
        Reservation {
            family: plan.family,
            tables: plan.inputs().map(|(_, table)| table.meta.id).collect(),
            bytes: plan.bytes(),
            levels: (plan.level, plan.output_level),
            own_run: plan.own_run,
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            leaving: LevelTotals::of(&plan.upper),
            gc_only: plan.gc_only,
        }
    }

    /// Returns whether the compaction rewrites tables within their level.
    fn rewrites_in_place(&self) -> bool {
        self.levels.0 == self.levels.1 && !self.own_run
    }

    /// Returns whether two compactions may run at the same time. They may if they are in different
    /// column families. They also may if they share no input and there is no level in which their
    /// key ranges overlap. If the outputs of one of them become a separate sorted run, the key
    /// ranges may overlap, and only shared inputs are a conflict.
    pub fn is_disjoint(&self, order: &KeyOrder, other: &Reservation) -> bool {
        if self.family != other.family {
            return true;
        }
        let levels_disjoint = self.levels.1 < other.levels.0 || self.levels.0 > other.levels.1;
        let keys_disjoint =
            order.user(&self.largest, &other.smallest).is_lt() || order.user(&self.smallest, &other.largest).is_gt();
        // If the levels or the key ranges of two compactions are disjoint, the compactions share no
        // table, and it is not necessary to compare their inputs.
        let own_run = self.own_run || other.own_run;
        let shares_input = || self.tables.iter().any(|table| other.tables.contains(table));
        levels_disjoint || keys_disjoint || own_run && !shares_input()
    }
}

/// The reservations of the running compactions, and other reservations that a new compaction must
/// not conflict with.
#[derive(Debug, Default)]
pub struct RunningCompactions {
    jobs: Vec<Reservation>,
    /// The reservations of compactions that ended because of a damaged table, each with its error.
    /// A compaction that conflicts with one of these reservations does not start: it would read the
    /// damaged table again, or move newer entries to a level below the damaged table.
    damaged: Vec<(Reservation, Error)>,
    /// The reservation of a manual compaction that waits to start.
    wanted: Option<Reservation>,
    /// The idle detector, which says whether the store receives writes.
    pub idle: IdleDetector,
}

impl RunningCompactions {
    /// Adds the reservation of `plan`, whose compaction starts.
    pub fn begin(&mut self, order: &KeyOrder, plan: &Plan) {
        self.jobs.push(Reservation::of(order, plan));
    }

    /// Removes the reservation of `plan`, whose compaction has ended.
    pub fn end(&mut self, plan: &Plan) {
        let first = plan.inputs().map(|(_, table)| table.meta.id).next();
        self.jobs.retain(|job| job.tables.first() != first.as_ref());
    }

    /// Returns the total bytes of the inputs of all running compactions. The outputs of these
    /// compactions take at most this much space.
    pub fn bytes(&self) -> u64 {
        self.jobs.iter().map(|job| job.bytes).sum()
    }

    /// Moves the reservation of `plan` from the running compactions to the damaged ones: the
    /// compaction has ended because of damage in a table, which `error` describes.
    pub fn end_damaged(&mut self, order: &KeyOrder, plan: &Plan, error: Error) {
        self.end(plan);
        self.damaged.push((Reservation::of(order, plan), error));
    }

    /// Removes the reservations of the column family `family`, which was dropped.
    pub fn forget(&mut self, family: FamilyId) {
        self.damaged.retain(|(reservation, _)| reservation.family != family);
    }

    /// Returns the error of the damage that prevents the compaction of `plan`, if any.
    pub fn damage(&self, order: &KeyOrder, plan: &Plan) -> Option<&Error> {
        if self.damaged.is_empty() {
            return None; // the usual case
        }
        let reservation = Reservation::of(order, plan);
        self.damaged.iter().find(|(damaged, _)| !damaged.is_disjoint(order, &reservation)).map(|(_, error)| error)
    }

    /// If a compaction with the input `table` has ended because of damage, returns its error.
    pub fn damage_of(&self, table: TableId) -> Option<&Error> {
        self.damaged.iter().find(|(reservation, _)| reservation.tables.contains(&table)).map(|(_, error)| error)
    }

    /// Returns the first error of a compaction that ended because of damage, if any.
    pub fn first_damage(&self) -> Option<&Error> {
        self.damaged.first().map(|(_, error)| error)
    }

    /// Returns the first error of a compaction that took tables of `level` and ended because of
    /// damage, if any.
    pub fn damage_in(&self, level: usize) -> Option<&Error> {
        let covers_level =
            |(reservation, _): &&(Reservation, Error)| (reservation.levels.0..=reservation.levels.1).contains(&level);
        self.damaged.iter().find(covers_level).map(|(_, error)| error)
    }

    /// Sets or clears the reservation of a manual compaction that waits to start. While it waits,
    /// no conflicting compaction starts.
    pub fn reserve_manual(&mut self, reservation: Option<Reservation>) {
        self.wanted = reservation;
    }

    /// Returns the reservation of the waiting manual compaction.
    pub fn wanted(&self) -> Option<&Reservation> {
        self.wanted.as_ref()
    }

    /// Returns whether `plan` conflicts with the waiting manual compaction.
    pub fn blocks_manual(&self, order: &KeyOrder, plan: &Plan) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| !wanted.is_disjoint(order, &Reservation::of(order, plan)))
    }

    /// Returns the tables that a new compaction must not take: the inputs of running compactions,
    /// and the inputs of compactions that ended because of a damaged table.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        let reservations = self.jobs.iter().chain(self.damaged.iter().map(|(reservation, _)| reservation));
        reservations.flat_map(|reservation| reservation.tables.iter().copied())
    }

    /// Returns whether `table` is an input of a running compaction.
    pub fn has(&self, table: TableId) -> bool {
        self.jobs.iter().any(|job| job.tables.contains(&table))
    }

    /// Returns whether a compaction of value-log GC is running: a rewrite of tables in place, or a
    /// compaction that only value-log GC needs.
    pub fn runs_gc(&self) -> bool {
        self.jobs.iter().any(|job| job.rewrites_in_place() || job.gc_only)
    }

    /// Returns whether a compaction is running that moves tables down or reduces the number of
    /// runs in level 0.
    pub fn merges(&self) -> bool {
        !self.jobs.iter().all(Reservation::rewrites_in_place)
    }

    /// Returns one input of each running compaction.
    pub fn running_inputs(&self) -> Vec<TableId> {
        self.jobs.iter().filter_map(|job| job.tables.first().copied()).collect()
    }

    /// Returns the number of running compactions.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Returns whether a compaction of `family` runs.
    pub fn runs_in(&self, family: FamilyId) -> bool {
        self.jobs.iter().any(|job| job.family == family)
    }

    /// Returns whether no compaction runs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the sums over the tables that running compactions take out of `level` of `family`.
    pub fn leaving(&self, family: FamilyId, level: usize) -> LevelTotals {
        let jobs = self.jobs.iter().filter(|job| job.family == family && job.levels.0 == level);
        jobs.fold(LevelTotals::default(), |sum, job| sum.plus(&job.leaving))
    }

    /// Returns whether the compaction of `plan` may start now: it conflicts neither with a running
    /// compaction nor with a reservation of known damage.
    pub fn admits(&self, order: &KeyOrder, plan: &Plan) -> bool {
        let reservation = Reservation::of(order, plan);
        let disjoint = |other: &Reservation| other.is_disjoint(order, &reservation);
        self.jobs.iter().all(disjoint) && self.damaged.iter().all(|(damaged, _)| disjoint(damaged))
    }
}
