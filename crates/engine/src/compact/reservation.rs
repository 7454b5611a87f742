//! Reservations of running compactions. They decide which compactions may run at the same time.
use super::{
    idle::IdleDetector,
    plan::{Plan, span},
};
use crate::{Error, version::LevelTotals};
use terrace_format::{FamilyId, KeyOrder, TableId};

/// The inputs of a compaction, and the levels and the key range in which its outputs may be
/// placed.
#[derive(Clone, Debug)]
pub struct Reservation {
    family: FamilyId,
    tables: Vec<TableId>,
    /// Total bytes of the inputs.
    bytes: u64,
    levels: (usize, usize),
    /// Whether the outputs become a sorted run that has no other tables.
    own_run: bool,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    /// Sums over the inputs that the compaction takes out of the upper level.
    leaving: LevelTotals,
    /// Whether only value-log GC needs the compaction.
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

    /// Returns whether two compactions may run at the same time: they are in different column
    /// families, or they share no input, and there is
    /// no level in which their key ranges overlap. If the outputs of one of them become a separate
    /// sorted run, the key ranges may overlap, and only shared inputs are a conflict.
    pub fn is_disjoint(&self, order: &KeyOrder, other: &Reservation) -> bool {
        if self.family != other.family {
            return true;
        }
        let levels_disjoint = self.levels.1 < other.levels.0 || self.levels.0 > other.levels.1;
        let keys_disjoint =
            order.user(&self.largest, &other.smallest).is_lt() || order.user(&self.smallest, &other.largest).is_gt();
        // Compactions with disjoint levels or keys share no table, so no search for a shared one
        // is needed.
        let own_run = self.own_run || other.own_run;
        let shares_input = || self.tables.iter().any(|table| other.tables.contains(table));
        levels_disjoint || keys_disjoint || own_run && !shares_input()
    }
}

/// The running compactions, and other reservations that a new one must respect.
#[derive(Debug, Default)]
pub struct RunningCompactions {
    jobs: Vec<Reservation>,
    /// The reservations of compactions that met damaged tables, each with its error. No compaction
    /// starts any more that conflicts with one of these: it would read the damaged table again, or
    /// move newer entries below the damaged table.
    damaged: Vec<(Reservation, Error)>,
    /// The reservation of a manual compaction that waits to start.
    wanted: Option<Reservation>,
    /// The idle detector, which says whether the store receives writes.
    pub idle: IdleDetector,
}

impl RunningCompactions {
    /// Notes that the compaction of `plan` starts.
    pub fn begin(&mut self, order: &KeyOrder, plan: &Plan) {
        self.jobs.push(Reservation::of(order, plan));
    }

    /// Notes that the compaction of `plan` has ended.
    pub fn end(&mut self, plan: &Plan) {
        let first = plan.inputs().map(|(_, table)| table.meta.id).next();
        self.jobs.retain(|job| job.tables.first() != first.as_ref());
    }

    /// Returns the bytes of the inputs of all running compactions. Their outputs take at most this
    /// much space.
    pub fn bytes(&self) -> u64 {
        self.jobs.iter().map(|job| job.bytes).sum()
    }

    /// Notes that the compaction of `plan` has ended because of damage, which `error` describes.
    pub fn end_damaged(&mut self, order: &KeyOrder, plan: &Plan, error: Error) {
        self.end(plan);
        self.damaged.push((Reservation::of(order, plan), error));
    }

    /// Returns the error of the damage that keeps the compaction of `plan` from starting, if any.
    pub fn damage(&self, order: &KeyOrder, plan: &Plan) -> Option<&Error> {
        if self.damaged.is_empty() {
            return None; // the common case
        }
        let reservation = Reservation::of(order, plan);
        self.damaged.iter().find(|(damaged, _)| !damaged.is_disjoint(order, &reservation)).map(|(_, error)| error)
    }

    /// Returns the error that a compaction of `table` ended with because of damage, if any.
    pub fn damage_of(&self, table: TableId) -> Option<&Error> {
        self.damaged.iter().find(|(reservation, _)| reservation.tables.contains(&table)).map(|(_, error)| error)
    }

    /// Returns the error of the first damage that any compaction met.
    pub fn first_damage(&self) -> Option<&Error> {
        self.damaged.first().map(|(_, error)| error)
    }

    /// Returns the error of the first damage that keeps compactions of `level` from starting.
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

    /// Returns the inputs of running compactions and of compactions that met damaged tables.
    pub fn tables(&self) -> impl Iterator<Item = TableId> {
        let reservations = self.jobs.iter().chain(self.damaged.iter().map(|(reservation, _)| reservation));
        reservations.flat_map(|reservation| reservation.tables.iter().copied())
    }

    /// Returns whether `table` is an input of a running compaction.
    pub fn has(&self, table: TableId) -> bool {
        self.jobs.iter().any(|job| job.tables.contains(&table))
    }

    /// Returns whether a compaction is running that rewrites a table in place, or that only
    /// value-log GC needs.
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

    /// Returns whether `plan` conflicts with no running compaction and no known damage.
    pub fn admits(&self, order: &KeyOrder, plan: &Plan) -> bool {
        let reservation = Reservation::of(order, plan);
        let disjoint = |other: &Reservation| other.is_disjoint(order, &reservation);
        self.jobs.iter().all(disjoint) && self.damaged.iter().all(|(damaged, _)| disjoint(damaged))
    }
}
