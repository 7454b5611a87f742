//! Garbage collection (GC) of the value log: this module decides when GC runs, and on which
//! segments.
//!
//! ```text
//!  segments mode:
//!    garbage > limit? ──no──► nothing
//!         │ yes
//!         ├── much of it only suspected ──► compact the tables that shadow it, to count it
//!         ▼
//!    choose victims ──► storage.set_gc_victims ──► compactions move values out of the victims
//!         ▲                                              │
//!         └──── victim without live values: obsolete ◄───┘
//!
//!  tail mode (WiscKey):
//!    oldest segments ──► Lane::Relocate re-appends live values ──► flush ──► rewrite tables that
//!    still point into the victims, whose pointers are all shadowed by now ──► segments obsolete
//! ```
//!
//! Only one GC compaction runs at a time, so that GC never uses more than one thread. All other
//! compactions have priority.
use super::{DbInner, DbState};
use crate::{
    Error, GcMode, Result,
    compact::{
        plan::Plan,
        shadow_estimate::{self, ShadowEstimate},
        situation::Situation,
        value_log_gc::{self, GcAction, ValueLogGc},
    },
    version::{Level, segments::Segment},
    work::Lane,
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_storage::placement::ObjectId;

/// The totals of the value log at one moment.
struct ValueLogTotals {
    /// Sums over all segments that are not quarantined.
    all: Segment,
    /// The share of bytes that shadow older entries; see [`DbInner::shadowed_share`].
    share: f64,
    /// Upper bound of the bytes of values that count as live although newer entries shadow them.
    shadowed_at_most: u64,
}

/// The next step of GC.
enum GcStep {
    None,
    Compact(Plan),
    /// Choose segments as victims, whose live values GC then moves.
    ChooseVictims,
}

impl DbInner {
    /// Determines which SSTables above the deepest level have range tombstones. The estimate of
    /// shadowed garbage needs this knowledge ([`shadow_estimate::range_deleting_table`]). The call
    /// does I/O. It ignores a read error, because a later read of the table reports the error.
    pub fn load_range_tombstone_flags(&self) {
        if !self.separates_values || !self.has_range_tombstones {
            return;
        }
        let view = self.view.load_full();
        for table in view.version.above_deepest().iter().flat_map(Level::tables) {
            let _ = table.load_range_deletes(&*self.storage);
        }
    }

    /// Starts one GC compaction, or one pass of tail GC, if the value log has too much garbage and
    /// no other work is due.
    pub(super) fn schedule_value_log_gc(self: &Arc<Self>, state: &mut DbState) {
        let off = self.options.value_log_gc == GcMode::Off || state.gc.out_of_space;
        if !self.separates_values || off || state.compactions.runs_gc() {
            return;
        }
        let mut victims = match self.options.value_log_gc {
            GcMode::Tail => self.tail_gc_victims(state),
            _ => self.remaining_victims(state),
        };
        let free = state.compactions.len() < self.options.max_background_compactions as usize;
        let mut step = GcStep::ChooseVictims;
        if victims.is_empty() {
            let log = self.measure_value_log(state);
            step = self.with_situation(state, |situation| self.next_step(state, situation, &log, free));
            if matches!(step, GcStep::ChooseVictims) && self.options.value_log_gc == GcMode::Segments {
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
        if let Some(plan) = plan.filter(|plan| {
            state.compactions.admits(&self.order, plan) && !state.compactions.blocks_manual(&self.order, plan)
        }) {
            self.start_compaction(state, plan, false);
        }
    }

    fn measure_value_log(&self, state: &mut DbState) -> ValueLogTotals {
        let all = state.versions.segments.sum_except(&state.gc.quarantined);
        let share = self.shadowed_share(state);
        let shadowed_at_most = shadow_estimate::shadowed_at_most(state.versions.live(), &all, share);
        state.gc.update_baseline(&all.with_shadowed(shadowed_at_most), self.options.value_log_gc_percent);
        ValueLogTotals { all, share, shadowed_at_most }
    }

    /// Returns the share of the entries above the deepest level that GC assumes to shadow an older
    /// value. In GC mode `segments` this is the share that compactions have measured. In mode
    /// `tail` it is 0. In a store that has been idle for a long time it is 1 in both modes.
    fn shadowed_share(&self, state: &DbState) -> f64 {
        match self.options.value_log_gc {
            _ if state.compactions.idle.is_long_idle() => 1.0,
            GcMode::Segments => state.gc.shadow_stats.share(&self.limits()),
            _ => 0.0,
        }
    }

    /// Returns the percentage of the value log that may be garbage now: the option
    /// `value_log_gc_percent`, or three fifths of it in a store that has been idle for a long time,
    /// where relocation delays no writer. The lower limit leaves space within the option's limit
    /// for keys, pointers and entry headers, which take a tenth of the space with values of 512 B.
    /// Tail GC always uses the option itself.
    fn garbage_limit_percent(&self, state: &DbState) -> u64 {
        let rests = state.compactions.idle.is_long_idle() && self.options.value_log_gc == GcMode::Segments;
        if rests { (self.options.value_log_gc_percent * 3 / 5).max(1) } else { self.options.value_log_gc_percent }
    }

    /// Returns the next step of GC when no victim has live values any more. `free` states whether
    /// another compaction may start.
    fn next_step(&self, state: &DbState, situation: &Situation<'_>, log: &ValueLogTotals, free: bool) -> GcStep {
        let ValueLogGc { refused, low_on_space, baseline_bytes, .. } = &state.gc;
        let (percent, resting, merges) =
            (self.garbage_limit_percent(state), state.compactions.idle.is_long_idle(), free && !low_on_space);
        if resting
            && merges
            && let Some((level, range)) = shadow_estimate::range_deleting_table(situation.version, refused)
        {
            let plan = self.policy.plan_range(situation, level, &range);
            return plan.map_or(GcStep::None, |plan| GcStep::Compact(Plan { gc_only: true, ..plan }));
        }
        let due = |hidden| value_log_gc::due(&log.all, hidden, percent, (!resting).then_some(*baseline_bytes));
        if due(log.shadowed_at_most) == GcAction::Nothing {
            return GcStep::None; // before any table is visited
        }
        let estimate = ShadowEstimate::of(situation, refused);
        let hidden = estimate.shadowed_bytes(&log.all, log.share);
        match due(hidden) {
            GcAction::Nothing => GcStep::None,
            GcAction::Collect if self.options.value_log_gc == GcMode::Segments => GcStep::ChooseVictims,
            GcAction::Collect | GcAction::Expose => {
                let reveals = merges && hidden > 0;
                reveals
                    .then(|| estimate.expose(situation, &*self.policy))
                    .flatten()
                    .map_or(GcStep::ChooseVictims, GcStep::Compact)
            }
        }
    }

    /// Ends a GC compaction that failed. The store does not stop, because only GC needs this
    /// compaction. After a read or write error, GC no longer picks the tables of the compaction,
    /// nor the segments that these tables point into.
    pub(super) fn on_gc_compaction_failed(self: &Arc<Self>, plan: &Plan, error: Error) -> Result<()> {
        let mut state = self.state.lock();
        let reveals = plan.output_level > plan.level && state.gc.victims.is_empty();
        match &error {
            full if full.is_no_space() && reveals => state.gc.low_on_space = true,
            full if full.is_no_space() => self.suspend_gc(&mut state),
            failed if failed.is_io_or_damage() => {
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

    /// Quarantines the victims among `segments`: GC does not pick them again until the next open.
    pub fn quarantine(&self, state: &mut DbState, segments: BTreeSet<ObjectId>) {
        if segments.is_empty() {
            return;
        }
        state.gc.quarantine(segments);
        if self.options.value_log_gc == GcMode::Segments {
            self.storage.set_gc_victims(state.gc.victims.clone());
        }
    }

    /// Returns whether compactions that start now relocate values out of victims (segments that GC
    /// empties).
    pub fn relocates_values(&self, state: &DbState) -> bool {
        self.options.value_log_gc == GcMode::Segments && !state.gc.victims.is_empty()
    }

    /// Suspends GC until space is freed, because there is too little disk space. Compactions then
    /// relocate no values.
    pub fn suspend_gc(&self, state: &mut DbState) {
        state.gc.out_of_space = true;
        if self.relocates_values(state) {
            state.gc.victims.clear();
            state.gc.forced = false;
            self.storage.set_gc_victims(BTreeSet::new());
        }
    }

    /// Makes every WAL that SSTables point into a victim of GC, so that compactions write the
    /// values of these WALs to segments in key order. The call has an effect only in GC mode
    /// `segments`.
    pub fn relocate_from_wals(self: &Arc<Self>, state: &mut DbState) {
        if !self.separates_values || self.options.value_log_gc != GcMode::Segments || state.gc.out_of_space {
            return;
        }
        let DbState { versions, gc, .. } = &mut *state;
        let logs = versions.segments.referenced().map(|(object, _)| object);
        let logs = logs.filter(|object| matches!(object, ObjectId::Wal(_)) && !gc.quarantined.contains(object));
        gc.victims.extend(logs);
        gc.forced = !gc.victims.is_empty();
        self.storage.set_gc_victims(gc.victims.clone());
        self.schedule(state);
    }

    /// Returns the victims (segments that GC empties) of mode `segments` that still have live
    /// values.
    fn remaining_victims(&self, state: &mut DbState) -> BTreeSet<ObjectId> {
        let DbState { versions, gc, .. } = state;
        gc.victims.retain(|victim| versions.segments.live(*victim) > 0);
        gc.forced &= !gc.victims.is_empty();
        gc.victims.clone()
    }

    /// Chooses new victims: segments that GC empties.
    fn choose_victims(&self, state: &mut DbState) -> BTreeSet<ObjectId> {
        let percent = self.garbage_limit_percent(state);
        let DbState { versions, gc, .. } = state;
        gc.victims = value_log_gc::victims(&versions.segments, &gc.quarantined, percent);
        self.storage.set_gc_victims(gc.victims.clone());
        gc.victims.clone()
    }

    /// Returns the victims of tail GC whose live values have all been re-appended, so that no
    /// SSTable needs to point into them any more. If there are no victims, chooses some and queues
    /// the job that re-appends their live values.
    fn tail_gc_victims(self: &Arc<Self>, state: &mut DbState) -> BTreeSet<ObjectId> {
        let DbState { versions, gc, closing, .. } = state;
        if gc.relocating {
            return BTreeSet::new();
        }
        gc.victims.retain(|victim| versions.segments.live(*victim) > 0);
        if gc.victims.is_empty() {
            gc.relocated_by = None;
            let ValueLogGc { quarantined: spared, .. } = &*gc;
            gc.victims = value_log_gc::oldest(&versions.segments, spared, self.options.value_log_gc_percent);
        }
        if gc.relocated_by.is_none() && !gc.victims.is_empty() && !*closing {
            gc.relocating = true;
            let job = |shared: &Arc<DbInner>| (shared.jobs.relocate)(shared);
            self.submit(Lane::Relocate, "relocate", job, |state| state.gc.relocating = false);
        }
        gc.obsolete_victims(self.snapshots.oldest(|| self.visible()), versions.base())
    }
}
