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
struct Log {
    /// Its segments as one, without those that are spared.
    all: Segment,
    /// See [`DbInner::hiding_share`].
    share: f64,
    /// Bytes of live values that may be garbage in truth.
    hidden_at_most: u64,
}

/// What to do about garbage next.
enum Step {
    None,
    Merge(Plan),
    /// Segments are to be emptied.
    Condemn,
}

impl DbInner {
    /// Looks which tables above the deepest level delete ranges, where that is for [`shadow_estimate::deleting`] to know. I/O; what cannot be read is
    /// told to whoever reads it.
    pub fn look_for_range_deletes(&self) {
        if !self.values_apart || !self.deletes_ranges {
            return;
        }
        let view = self.view.load_full();
        for table in view.version.above_deepest().iter().flat_map(Level::tables) {
            let _ = table.look_for_range_deletes(&*self.storage);
        }
    }

    /// Does something about garbage in the value log, if there is too much: with one table at a time, so that it never has more than a
    /// thread, and whatever else is due comes first.
    pub(super) fn collect(self: &Arc<Self>, control: &mut DbState) {
        let off = self.options.value_log_gc == GcMode::Off || control.collecting.starved;
        if !self.values_apart || off || control.busy.collects() {
            return;
        }
        let mut victims = match self.options.value_log_gc {
            GcMode::Tail => self.spent_by_tail(control),
            _ => self.unemptied(control),
        };
        let free = control.busy.len() < self.options.max_background_compactions as usize;
        let mut step = Step::Condemn;
        if victims.is_empty() {
            let log = self.look_at_log(control);
            step = self.situated(control, |situation| self.next_step(control, situation, &log, free));
            if matches!(step, Step::Condemn) && self.options.value_log_gc == GcMode::Segments {
                victims = self.condemn(control);
            }
        }
        let empty = |situation: &Situation<'_>| {
            value_log_gc::plan(situation, &victims, |range| self.policy.plan_range(situation, 0, range))
        };
        let plan = match step {
            Step::Merge(plan) => Some(plan),
            Step::Condemn if free => self.situated(control, empty),
            Step::Condemn | Step::None => None,
        };
        if let Some(plan) =
            plan.filter(|plan| control.busy.admits(&self.order, plan) && !control.busy.hinders(&self.order, plan))
        {
            self.start_compaction(control, plan);
        }
    }

    fn look_at_log(&self, control: &mut DbState) -> Log {
        let all = control.versions.segments.sum_but(&control.collecting.spared);
        let share = self.hiding_share(control);
        let hidden_at_most = shadow_estimate::hidden_at_most(control.versions.live(), &all, share);
        control.collecting.look(&all.but_hidden(hidden_at_most), self.options.value_log_gc_percent);
        Log { all, share, hidden_at_most }
    }

    /// How much of what lies above the deepest level is taken to hide something. Merges have found that; in a store at rest all of it may, and
    /// WiscKey's collector asks for it only then.
    fn hiding_share(&self, control: &DbState) -> f64 {
        match self.options.value_log_gc {
            _ if control.busy.lull.is_long() => 1.0,
            GcMode::Segments => control.collecting.found.share(&self.limits()),
            _ => 0.0,
        }
    }

    /// How much of the log, in percent, may be garbage now. At rest, when moving values delays nobody, it is three fifths: so there is room within
    /// the limit for keys, pointers and heads of entries, a tenth of the space where values have 512 B. WiscKey's collector has one limit.
    fn value_log_gc_percent(&self, control: &DbState) -> u64 {
        let rests = control.busy.lull.is_long() && self.options.value_log_gc == GcMode::Segments;
        if rests { (self.options.value_log_gc_percent * 3 / 5).max(1) } else { self.options.value_log_gc_percent }
    }

    /// What to do where no segment is being emptied, and, if one is `free`, there is a thread to merge.
    fn next_step(&self, control: &DbState, situation: &Situation<'_>, log: &Log, free: bool) -> Step {
        let ValueLogGc { refused, cramped, calm_bytes, .. } = &control.collecting;
        let (percent, resting, merges) =
            (self.value_log_gc_percent(control), control.busy.lull.is_long(), free && !cramped);
        if resting
            && merges
            && let Some((level, range)) = shadow_estimate::deleting(situation.version, refused)
        {
            let plan = self.policy.plan_range(situation, level, &range);
            return plan.map_or(Step::None, |plan| Step::Merge(Plan { only_collects: true, ..plan }));
        }
        let due = |hidden| value_log_gc::due(&log.all, hidden, percent, (!resting).then_some(*calm_bytes));
        if due(log.hidden_at_most) == Due::Nothing {
            return Step::None; // without a look at any table
        }
        let upper = ShadowEstimate::of(situation, refused);
        let hidden = upper.hidden(&log.all, log.share);
        match due(hidden) {
            Due::Nothing => Step::None,
            Due::Collect if self.options.value_log_gc == GcMode::Segments => Step::Condemn,
            Due::Collect | Due::Reveal => {
                let reveals = merges && hidden > 0;
                reveals.then(|| upper.reveal(situation, &*self.policy)).flatten().map_or(Step::Condemn, Step::Merge)
            }
        }
    }

    /// A plan that only collects came to nothing. Nothing depended on it, so nothing stops. Where it met something that it could not read, or
    /// write, its tables and what they point into are left alone.
    pub(super) fn collection_failed(self: &Arc<Self>, plan: &Plan, error: Error) -> Result<()> {
        let mut control = self.control.lock();
        let reveals = plan.output_level > plan.level && control.collecting.victims.is_empty();
        match &error {
            full if full.is_no_space() && reveals => control.collecting.cramped = true,
            full if full.is_no_space() => self.starve(&mut control),
            failed if failed.is_input_or_output() => {
                control.collecting.refused.extend(plan.upper.iter().map(|table| table.meta.id));
                let segments = plan.inputs().flat_map(|(_, table)| table.meta.segments());
                self.spare(&mut control, segments.map(|(object, _)| object).collect());
            }
            _ => return Err(error),
        }
        control.busy.end(plan);
        self.schedule(&mut control);
        Ok(())
    }

    /// Nothing more is tried with those of `segments` that are being emptied.
    pub fn spare(&self, control: &mut DbState, segments: BTreeSet<ObjectId>) {
        if segments.is_empty() {
            return;
        }
        control.collecting.spare(segments);
        if self.options.value_log_gc == GcMode::Segments {
            self.storage.condemn(control.collecting.victims.clone());
        }
    }

    /// Whether compactions that begin now move values out of victims.
    pub fn moves_values(&self, control: &DbState) -> bool {
        self.options.value_log_gc == GcMode::Segments && !control.collecting.victims.is_empty()
    }

    /// There is no space for what is collected, so nothing is until some is given back. Compactions leave values where they are.
    pub fn starve(&self, control: &mut DbState) {
        control.collecting.starved = true;
        if self.moves_values(control) {
            control.collecting.victims.clear();
            control.collecting.sorts = false;
            self.storage.condemn(BTreeSet::new());
        }
    }

    /// From now on values are moved out of all logs that tables point into, if the collector is one that moves.
    pub fn condemn_logs(self: &Arc<Self>, control: &mut DbState) {
        if !self.values_apart || self.options.value_log_gc != GcMode::Segments || control.collecting.starved {
            return;
        }
        let DbState { versions, collecting, .. } = &mut *control;
        let logs = versions.segments.pointed_into().map(|(object, _)| object);
        let logs = logs.filter(|object| matches!(object, ObjectId::Wal(_)) && !collecting.spared.contains(object));
        collecting.victims.extend(logs);
        collecting.sorts = !collecting.victims.is_empty();
        self.storage.condemn(collecting.victims.clone());
        self.schedule(control);
    }

    /// The victims of collector `segments`.
    fn unemptied(&self, control: &mut DbState) -> BTreeSet<ObjectId> {
        let DbState { versions, collecting, .. } = control;
        collecting.victims.retain(|victim| versions.segments.live(*victim) > 0);
        collecting.sorts &= !collecting.victims.is_empty();
        collecting.victims.clone()
    }

    /// New ones.
    fn condemn(&self, control: &mut DbState) -> BTreeSet<ObjectId> {
        let percent = self.value_log_gc_percent(control);
        let DbState { versions, collecting, .. } = control;
        collecting.victims = value_log_gc::victims(&versions.segments, &collecting.spared, percent);
        self.storage.condemn(collecting.victims.clone());
        collecting.victims.clone()
    }

    /// The victims of collector `tail`, once tables need not point to them any more.
    fn spent_by_tail(self: &Arc<Self>, control: &mut DbState) -> BTreeSet<ObjectId> {
        let DbState { versions, collecting, closing, .. } = control;
        if collecting.putting {
            return BTreeSet::new();
        }
        collecting.victims.retain(|victim| versions.segments.live(*victim) > 0);
        if collecting.victims.is_empty() {
            collecting.put_by = None;
            let ValueLogGc { spared, .. } = &*collecting;
            collecting.victims = value_log_gc::oldest(&versions.segments, spared, self.options.value_log_gc_percent);
        }
        if collecting.put_by.is_none() && !collecting.victims.is_empty() && !*closing {
            collecting.putting = true;
            let job = |shared: &Arc<DbInner>| (shared.jobs.put_again)(shared);
            self.submit(Lane::Collect, "put again", job, |control| control.collecting.putting = false);
        }
        collecting.spent(self.snapshots.oldest(|| self.visible()), versions.base())
    }
}
