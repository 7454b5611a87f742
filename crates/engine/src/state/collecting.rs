//! What is done about garbage in the value log, beside what else is due.
use super::{Control, Shared};
use crate::{
    Collection, Error, Result,
    compact::{
        collect::{self, Collecting},
        hidden,
        plan::Plan,
    },
    version::Level,
    work::Lane,
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_storage::placement::ObjectId;

/// No more than this part of the garbage that may be is hidden when segments are emptied: it would be moved.
const HIDDEN_PART: u64 = 4;

impl Shared {
    /// Looks which tables above the deepest level delete ranges, where that is for [`hidden::deleting`] to know. I/O; what cannot be read is
    /// told to whoever reads it.
    pub fn look_for_range_deletes(&self) {
        if !self.values_apart || !self.deletes_ranges {
            return;
        }
        let view = self.view.load_full();
        for table in view.version.above_deepest().iter().flat_map(Level::tables) {
            let _ = table.look_for_range_deletes(&*self.placement);
        }
    }

    /// Empties segments of the value log, if there is too much garbage: one table at a time, so that it never has more than a
    /// thread, and whatever else is due comes first.
    pub(super) fn collect(self: &Arc<Self>, control: &mut Control) {
        let off = self.options.collection == Collection::Off || control.collecting.starved;
        if !self.values_apart || off || control.busy.is_renewing() {
            return;
        }
        let (percent, long) = (self.options.garbage_percent, control.busy.lull.is_long());
        let hidden = self.hidden_bytes(control);
        let all = control.versions.segments.sum_but(&control.collecting.spared).but_hidden(hidden);
        let due = collect::is_due(&all, percent, long);
        let victims = match self.options.collection {
            Collection::Tail => self.spent_by_tail(control),
            _ => self.condemned(control, due, hidden),
        };
        if control.busy.len() >= self.options.compactions_max as usize {
            return;
        }
        let plan = self.situated(control, |situation| {
            if !victims.is_empty() {
                return collect::plan(situation, &victims, |range| self.policy.plan_range(situation, 0, range));
            }
            if let Some((level, range)) = long.then(|| hidden::deleting(situation.version)).flatten() {
                return self.policy.plan_range(situation, level, &range);
            }
            (due && hidden > 0).then(|| hidden::merge(situation, &*self.policy)).flatten()
        });
        if let Some(plan) =
            plan.filter(|plan| control.busy.admits(&self.order, plan) && !control.busy.hinders(&self.order, plan))
        {
            self.start_compaction(control, plan);
        }
    }

    /// A plan that only collects came to nothing. Nothing depended on it, so nothing stops.
    pub(super) fn collection_failed(self: &Arc<Self>, plan: &Plan, error: Error) -> Result<()> {
        let mut control = self.control.lock();
        match &error {
            full if full.is_no_space() => self.starve(&mut control),
            Error::Corrupt { .. } | Error::Missing { .. } | Error::Io { .. } => {
                let segments = plan.upper.iter().flat_map(|table| table.meta.segments());
                self.spare(&mut control, segments.map(|(object, _)| object).collect());
            }
            _ => return Err(error),
        }
        control.busy.end(plan);
        self.schedule(&mut control);
        Ok(())
    }

    /// Nothing more is tried with those of `segments` that are being emptied.
    pub fn spare(&self, control: &mut Control, segments: BTreeSet<ObjectId>) {
        if segments.is_empty() {
            return;
        }
        control.collecting.spare(segments);
        if self.options.collection == Collection::Segments {
            self.placement.condemn(control.collecting.victims.clone());
        }
    }

    /// Whether compactions that begin now move values out of victims.
    pub fn moves_values(&self, control: &Control) -> bool {
        self.options.collection == Collection::Segments && !control.collecting.victims.is_empty()
    }

    /// There is no space for what is collected, so nothing is until some is given back. Compactions leave values where they are.
    pub fn starve(&self, control: &mut Control) {
        control.collecting.starved = true;
        if self.moves_values(control) {
            control.collecting.victims.clear();
            control.collecting.sorts = false;
            self.placement.condemn(BTreeSet::new());
        }
    }

    /// From now on values are moved out of all logs that tables point into, if the collector is one that moves.
    pub fn condemn_logs(self: &Arc<Self>, control: &mut Control) {
        if !self.values_apart || self.options.collection != Collection::Segments || control.collecting.starved {
            return;
        }
        let Control { versions, collecting, .. } = &mut *control;
        let logs = versions.segments.pointed_into().map(|(object, _)| object);
        let logs = logs.filter(|object| matches!(object, ObjectId::Wal(_)) && !collecting.spared.contains(object));
        collecting.victims.extend(logs);
        collecting.sorts = !collecting.victims.is_empty();
        self.placement.condemn(collecting.victims.clone());
        self.schedule(control);
    }

    /// Bytes of values that tables point to, and that are garbage all the same. For a store at rest everything above the deepest level may
    /// hide something; else it is what merges have found, and WiscKey's collector does not ask.
    fn hidden_bytes(&self, control: &Control) -> u64 {
        let share = match self.options.collection {
            _ if control.busy.lull.is_long() => 1.0,
            Collection::Segments => control.collecting.found.share(),
            _ => return 0,
        };
        let all = control.versions.segments.sum_but(&control.collecting.spared);
        self.situated(control, |situation| hidden::bytes(situation, &all, share))
    }

    /// The victims of collector `segments`. New ones, if that is `due`, and not much is `hidden` among what they would move.
    fn condemned(&self, control: &mut Control, due: bool, hidden: u64) -> BTreeSet<ObjectId> {
        let Control { versions, collecting, .. } = control;
        collecting.victims.retain(|victim| versions.segments.live(*victim) > 0);
        collecting.sorts &= !collecting.victims.is_empty();
        let percent = self.options.garbage_percent;
        let much =
            hidden.saturating_mul(HIDDEN_PART * 100) > versions.segments.sum_but(&collecting.spared).bytes * percent;
        if collecting.victims.is_empty() && due && !much {
            collecting.victims = collect::victims(&versions.segments, &collecting.spared, percent, hidden);
            self.placement.condemn(collecting.victims.clone());
        }
        collecting.victims.clone()
    }

    /// The victims of collector `tail`, once tables need not point to them any more.
    fn spent_by_tail(self: &Arc<Self>, control: &mut Control) -> BTreeSet<ObjectId> {
        let Control { versions, collecting, closing, .. } = control;
        if collecting.putting {
            return BTreeSet::new();
        }
        collecting.victims.retain(|victim| versions.segments.live(*victim) > 0);
        if collecting.victims.is_empty() {
            collecting.put_by = None;
            let Collecting { spared, .. } = &*collecting;
            collecting.victims = collect::oldest(&versions.segments, spared, self.options.garbage_percent);
        }
        if collecting.put_by.is_none() && !collecting.victims.is_empty() && !*closing {
            collecting.putting = true;
            let job = |shared: &Arc<Shared>| (shared.jobs.put_again)(shared);
            self.submit(Lane::Collect, "put again", job, |control| control.collecting.putting = false);
        }
        collecting.spent(self.snapshots.oldest(|| self.visible()), versions.base())
    }
}
