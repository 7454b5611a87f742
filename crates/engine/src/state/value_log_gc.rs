//! What is done about garbage in the value log, beside what else is due.
use super::{DbInner, DbState};
use crate::{
    Error, GcMode, Result,
    compact::{
        plan::{Plan, Situation},
        shadow_estimate::{self, ShadowEstimate},
        value_log_gc::{self, Due, ValueLogGc},
    },
    version::{Level, segments::Segment},
    work::Lane,
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_storage::placement::ObjectId;

/// The value log at one moment.
struct ValueLogTotals {
    /// Its segments as one, without those that are spared.
    all: Segment,
    /// See [`DbInner::hiding_share`].
    share: f64,
    /// Bytes of live values that may be garbage in truth.
    hidden_at_most: u64,
}

/// What to do about garbage next.
enum GcStep {
    None,
    Compact(Plan),
    /// Segments are to be emptied.
    ChooseVictims,
}

impl DbInner {
    /// Looks which tables above the deepest level delete ranges, where that is for [`shadow_estimate::deleting`] to know. I/O; what cannot be read is
    /// told to whoever reads it.
    pub fn load_range_tombstone_flags(&self) {
        if !self.separates_values || !self.has_range_tombstones {
            return;
        }
        let view = self.view.load_full();
        for table in view.version.above_deepest().iter().flat_map(Level::tables) {
            let _ = table.look_for_range_deletes(&*self.storage);
        }
    }

    /// Does something about garbage in the value log, if there is too much: with one table at a time, so that it never has more than a
    /// thread, and whatever else is due comes first.
    pub(super) fn schedule_value_log_gc(self: &Arc<Self>, state: &mut DbState) {
        let off = self.options.collection == GcMode::Off || state.gc.starved;
        if !self.separates_values || off || state.compactions.collects() {
            return;
        }
        let mut victims = match self.options.collection {
            GcMode::Tail => self.tail_gc_victims(state),
            _ => self.remaining_victims(state),
        };
        let free = state.compactions.len() < self.options.max_background_compactions as usize;
        let mut step = GcStep::ChooseVictims;
        if victims.is_empty() {
            let log = self.measure_value_log(state);
            step = self.with_situation(state, |situation| self.next_step(state, situation, &log, free));
            if matches!(step, GcStep::ChooseVictims) && self.options.collection == GcMode::Segments {
                victims = self.choose_victims(state);
            }
        }
        let compact_victims = |situation: &Situation<'_>| {
            value_log_gc::plan(situation, &victims, |range| self.policy.plan_range(situation, 0, range))
        };
        let plan = match step {
            GcStep::Compact(plan) => Some(plan),
            GcStep::ChooseVictims if free => self.with_situation(state, compact_victims),
            GcStep::ChooseVictims | GcStep::None => None,
        };
        if let Some(plan) = plan
            .filter(|plan| state.compactions.admits(&self.order, plan) && !state.compactions.hinders(&self.order, plan))
        {
            self.start_compaction(state, plan);
        }
    }

    fn measure_value_log(&self, state: &mut DbState) -> ValueLogTotals {
        let all = state.versions.segments.sum_but(&state.gc.spared);
        let share = self.shadowed_share(state);
        let hidden_at_most = shadow_estimate::hidden_at_most(state.versions.live(), &all, share);
        state.gc.look(&all.but_hidden(hidden_at_most), self.options.value_log_gc_percent);
        ValueLogTotals { all, share, hidden_at_most }
    }

    /// How much of what lies above the deepest level is taken to hide something. Merges have found that; in a store at rest all of it may, and
    /// WiscKey's collector asks for it only then.
    fn shadowed_share(&self, state: &DbState) -> f64 {
        match self.options.collection {
            _ if state.compactions.lull.is_long() => 1.0,
            GcMode::Segments => state.gc.found.share(&self.limits()),
            _ => 0.0,
        }
    }

    /// How much of the log, in percent, may be garbage now. At rest, when moving values delays nobody, it is three fifths: so there is room within
    /// the limit for keys, pointers and heads of entries, a tenth of the space where values have 512 B. WiscKey's collector has one limit.
    fn garbage_limit_percent(&self, state: &DbState) -> u64 {
        let rests = state.compactions.lull.is_long() && self.options.collection == GcMode::Segments;
        if rests { (self.options.value_log_gc_percent * 3 / 5).max(1) } else { self.options.value_log_gc_percent }
    }

    /// What to do where no segment is being emptied, and, if one is `free`, there is a thread to merge.
    fn next_step(&self, state: &DbState, situation: &Situation<'_>, log: &ValueLogTotals, free: bool) -> GcStep {
        let ValueLogGc { refused, cramped, calm_bytes, .. } = &state.gc;
        let (percent, resting, merges) =
            (self.garbage_limit_percent(state), state.compactions.lull.is_long(), free && !cramped);
        if resting
            && merges
            && let Some((level, range)) = shadow_estimate::deleting(situation.version, refused)
        {
            let plan = self.policy.plan_range(situation, level, &range);
            return plan.map_or(GcStep::None, |plan| GcStep::Compact(Plan { only_collects: true, ..plan }));
        }
        let due = |hidden| value_log_gc::due(&log.all, hidden, percent, (!resting).then_some(*calm_bytes));
        if due(log.hidden_at_most) == Due::Nothing {
            return GcStep::None; // without a look at any table
        }
        let estimate = ShadowEstimate::of(situation, refused);
        let hidden = estimate.hidden(&log.all, log.share);
        match due(hidden) {
            Due::Nothing => GcStep::None,
            Due::Collect if self.options.collection == GcMode::Segments => GcStep::ChooseVictims,
            Due::Collect | Due::Reveal => {
                let reveals = merges && hidden > 0;
                reveals
                    .then(|| estimate.reveal(situation, &*self.policy))
                    .flatten()
                    .map_or(GcStep::ChooseVictims, GcStep::Compact)
            }
        }
    }

    /// A plan that only collects came to nothing. Nothing depended on it, so nothing stops. Where it met something that it could not read, or
    /// write, its tables and what they point into are left alone.
    pub(super) fn on_gc_compaction_failed(self: &Arc<Self>, plan: &Plan, error: Error) -> Result<()> {
        let mut state = self.state.lock();
        let reveals = plan.output_level > plan.level && state.gc.victims.is_empty();
        match &error {
            full if full.is_no_space() && reveals => state.gc.cramped = true,
            full if full.is_no_space() => self.suspend_gc(&mut state),
            failed if failed.is_input_or_output() => {
                state.gc.refused.extend(plan.upper.iter().map(|table| table.meta.id));
                let segments = plan.inputs().flat_map(|(_, table)| table.meta.segments());
                self.quarantine(&mut state, segments.map(|(object, _)| object).collect());
            }
            _ => return Err(error),
        }
        state.compactions.end(plan);
        self.schedule(&mut state);
        Ok(())
    }

    /// Nothing more is tried with those of `segments` that are being emptied.
    pub fn quarantine(&self, state: &mut DbState, segments: BTreeSet<ObjectId>) {
        if segments.is_empty() {
            return;
        }
        state.gc.spare(segments);
        if self.options.collection == GcMode::Segments {
            self.storage.condemn(state.gc.victims.clone());
        }
    }

    /// Whether compactions that begin now move values out of victims.
    pub fn relocates_values(&self, state: &DbState) -> bool {
        self.options.collection == GcMode::Segments && !state.gc.victims.is_empty()
    }

    /// There is no space for what is collected, so nothing is until some is given back. Compactions leave values where they are.
    pub fn suspend_gc(&self, state: &mut DbState) {
        state.gc.starved = true;
        if self.relocates_values(state) {
            state.gc.victims.clear();
            state.gc.sorts = false;
            self.storage.condemn(BTreeSet::new());
        }
    }

    /// From now on values are moved out of all logs that tables point into, if the collector is one that moves.
    pub fn relocate_from_wals(self: &Arc<Self>, state: &mut DbState) {
        if !self.separates_values || self.options.collection != GcMode::Segments || state.gc.starved {
            return;
        }
        let DbState { versions, gc, .. } = &mut *state;
        let logs = versions.segments.pointed_into().map(|(object, _)| object);
        let logs = logs.filter(|object| matches!(object, ObjectId::Wal(_)) && !gc.spared.contains(object));
        gc.victims.extend(logs);
        gc.sorts = !gc.victims.is_empty();
        self.storage.condemn(gc.victims.clone());
        self.schedule(state);
    }

    /// The victims of collector `segments`.
    fn remaining_victims(&self, state: &mut DbState) -> BTreeSet<ObjectId> {
        let DbState { versions, gc, .. } = state;
        gc.victims.retain(|victim| versions.segments.live(*victim) > 0);
        gc.sorts &= !gc.victims.is_empty();
        gc.victims.clone()
    }

    /// New ones.
    fn choose_victims(&self, state: &mut DbState) -> BTreeSet<ObjectId> {
        let percent = self.garbage_limit_percent(state);
        let DbState { versions, gc, .. } = state;
        gc.victims = value_log_gc::victims(&versions.segments, &gc.spared, percent);
        self.storage.condemn(gc.victims.clone());
        gc.victims.clone()
    }

    /// The victims of collector `tail`, once tables need not point to them any more.
    fn tail_gc_victims(self: &Arc<Self>, state: &mut DbState) -> BTreeSet<ObjectId> {
        let DbState { versions, gc, closing, .. } = state;
        if gc.putting {
            return BTreeSet::new();
        }
        gc.victims.retain(|victim| versions.segments.live(*victim) > 0);
        if gc.victims.is_empty() {
            gc.put_by = None;
            let ValueLogGc { spared, .. } = &*gc;
            gc.victims = value_log_gc::oldest(&versions.segments, spared, self.options.value_log_gc_percent);
        }
        if gc.put_by.is_none() && !gc.victims.is_empty() && !*closing {
            gc.putting = true;
            let job = |shared: &Arc<DbInner>| (shared.jobs.relocate)(shared);
            self.submit(Lane::Relocate, "put again", job, |state| state.gc.putting = false);
        }
        gc.spent(self.snapshots.oldest(|| self.visible()), versions.base())
    }
}
