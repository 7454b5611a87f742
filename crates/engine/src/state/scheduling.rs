//! Scheduling of background work: it picks the flushes, compactions and commits that are due,
//! starts them as jobs, and handles the end of these jobs.
use super::{DbInner, DbState};
use crate::{
    Error, Event, Options, Result,
    compact::{idle, limits::Limits, parallelism, plan::Plan, seek_compaction, situation::Situation},
    read::scan::ReadTrigger,
    version::{Contents, KeyRange, Version},
    work::Lane,
};
use std::{
    cmp::Reverse,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
};
use terrace_format::{FamilyId, TableForm, TableId};
use terrace_storage::BlockingScope;

/// Maximum number of SSTables whose entry counts the idle timer loads in one round.
const TABLES_PER_ROUND: usize = 256;

impl DbInner {
    /// Returns the sizes and triggers that compaction policies use.
    pub fn limits(&self) -> Limits {
        let Options { target_file_size, mut max_entries_for_level_base, .. } = self.options;
        let max_bytes_for_level_base = self.options.level_1_bytes();
        if self.storage.layout().tables != TableForm::Directory {
            max_entries_for_level_base = 0; // only directory tables have entry counts
        }
        let Options {
            level0_file_num_compaction_trigger,
            level0_min_overlap_percent,
            intra_l0_compaction_trigger,
            level_compaction_dynamic_level_bytes,
            ..
        } = self.options;
        Limits {
            target_file_size,
            max_bytes_for_level_base,
            level_compaction_dynamic_level_bytes,
            max_entries_for_level_base,
            level0_file_num_compaction_trigger,
            l0_pressing_runs: self.options.l0_pressing_runs(),
            level0_min_overlap_percent,
            intra_l0_compaction_trigger,
            min_overlapping_ratio: self.options.min_overlapping_ratio(),
            tombstone_compaction_percent: self.options.tombstone_compaction_percent,
        }
    }

    /// Returns two forms of the compaction debt of all column families, in bytes. The first is the
    /// bytes above the target sizes of levels. The second is these bytes plus the bytes of level 0.
    pub fn compaction_debt(&self) -> (u64, u64) {
        let (view, limits) = (self.view.load(), self.limits());
        view.version.trees().fold((0, 0), |(debts, unmerged): (u64, u64), (_, tree)| {
            let debt = self.policy.debt(&limits, tree);
            let all = debt.saturating_add(tree.levels[0].bytes());
            (debts.saturating_add(debt), unmerged.saturating_add(all))
        })
    }

    /// Returns the number of sorted runs of the column family that has the most. The write
    /// controller compares this number with its limits. A family that is being dropped does not
    /// count, because no compaction of it starts any more.
    pub fn stall_runs(&self, state: &DbState) -> u64 {
        families(state).map(|(_, tree)| self.policy.stall_runs(tree)).max().unwrap_or(0)
    }

    /// Returns the free bytes of the disk, if a lack of free bytes should speed up commits of
    /// pending edits. Returns `None` in durability modes that wait for the file system's own
    /// commits. The call does I/O and must not be made under a lock.
    pub fn free_bytes(&self) -> Option<u64> {
        let free = self.storage.free_bytes();
        self.last_free_bytes.store(free.unwrap_or(u64::MAX), Ordering::Relaxed);
        free.filter(|_| !self.storage.waits_for_fs_commit())
    }

    /// Loads the entry counts of SSTables that existed when the store was opened, a limited number
    /// per call. Tombstone compactions (`compact/tombstones.rs`) need these counts. The call does
    /// I/O. It ignores a read error, because a later read of the table reports the error. Returns
    /// whether the counts of all tables are known now.
    pub fn load_table_contents(&self) -> bool {
        if self.options.tombstone_compaction_percent == 0 {
            return true;
        }
        let view = self.view.load_full();
        let unknown: Vec<_> = view.version.all_tables().filter(|(_, table)| table.contents().is_none()).collect();
        for (_, table) in unknown.iter().take(TABLES_PER_ROUND) {
            // If a table is damaged, its entry counts are set to zero, so that this method does not
            // read it again. A table with another read error may be readable later.
            if table.load_contents(&*self.storage).is_err_and(|error| crate::Error::from(error).is_damage()) {
                table.set_contents(Contents::default());
            }
        }
        unknown.iter().all(|(_, table)| table.contents().is_some())
    }

    /// Calls `look` with the inputs of the compaction policy for the default column family.
    pub fn with_situation<T>(&self, state: &DbState, look: impl FnOnce(&Situation<'_>) -> T) -> T {
        self.with_limits(state, (FamilyId::DEFAULT, state.versions.live()), &self.limits(), look)
    }

    /// Calls `look` with the inputs of the compaction policy for `family`. Returns `None` if the
    /// family does not exist or is being dropped.
    pub fn with_situation_of<T>(
        &self,
        state: &DbState,
        family: FamilyId,
        look: impl FnOnce(&Situation<'_>) -> T,
    ) -> Option<T> {
        let tree = tree_of(state, family).filter(|_| state.dropping != Some(family))?;
        Some(self.with_limits(state, (family, tree), &self.limits(), look))
    }

    fn with_limits<T>(
        &self,
        state: &DbState,
        (family, version): (FamilyId, &Arc<Version>),
        limits: &Limits,
        look: impl FnOnce(&Situation<'_>) -> T,
    ) -> T {
        look(&Situation {
            order: &self.order,
            family,
            version,
            busy: &state.compactions,
            pointers: state.versions.pointers(),
            limits,
            reserved_numbers: state.versions.reserved_numbers(),
            seek_hint: state.seek_hint.filter(|(of, ..)| *of == family).map(|(_, level, table)| (level, table)),
            oldest_reader: self.snapshots.oldest(|| self.visible()),
            room: self.last_free_bytes.load(Ordering::Relaxed).saturating_sub(state.compactions.bytes()),
            shadow_ratio: state.gc.shadow_stats.share(limits),
        })
    }

    /// Returns the most urgent compaction that may start now, and whether it is optional. A
    /// compaction is optional if it only drops tombstones, or if it merges whole runs and writers
    /// do not wait for it yet. After an optional compaction has run out of disk space, no optional
    /// compaction is returned until space is freed. The column family with the most sorted runs
    /// comes first, because it is the next one that would stop writers.
    pub fn pick_compaction(&self, state: &DbState) -> Option<(Plan, bool)> {
        #[cfg(test)]
        self.picks.fetch_add(1, Ordering::Relaxed);
        let limits = self.limits();
        let required = Limits { tombstone_compaction_percent: 0, ..limits };
        let mut trees: Vec<_> = families(state).map(|tree| (self.policy.stall_runs(tree.1), tree)).collect();
        trees.sort_by_key(|(runs, _)| Reverse(*runs));
        let plan = |tree, limits| self.with_limits(state, tree, limits, |situation| self.policy.plan(situation));
        let is_required = |(runs, tree): &(u64, _)| {
            let plan = plan(*tree, &required)?;
            // A universal compaction that merges whole runs may need as much space as the store. If
            // this space is missing, the compaction can wait until level 0 has so many runs that
            // writers stop.
            let can_wait = plan.own_run && plan.output_level > 0 && *runs < self.options.level0_stop_writes_trigger;
            (!can_wait || !state.optional_suspended).then_some((plan, can_wait))
        };
        if let Some(picked) = trees.iter().find_map(is_required) {
            return Some(picked);
        }
        if limits.tombstone_compaction_percent == 0 || state.optional_suspended {
            return None;
        }
        trees.iter().find_map(|(_, tree)| plan(*tree, &limits)).map(|plan| (plan, true))
    }

    /// Returns the level in which a flush may place an SSTable with keys from `smallest` to
    /// `largest`, or `None` if the column family does not exist. Only level 0 is allowed in two
    /// cases. In the first case a compaction is running, and its outputs may have any key between
    /// its inputs. In the second case the edit of a compaction is pending: a flush into level 0 may
    /// be committed before that edit (docs/durability.md).
    pub fn flush_level(&self, state: &DbState, family: FamilyId, smallest: &[u8], largest: &[u8]) -> Option<usize> {
        let only_0 = !state.compactions.is_empty() || state.versions.compaction_pending();
        let range = KeyRange { from: Some(smallest), to: Some(largest) };
        let tree = tree_of(state, family)?;
        Some(match only_0 {
            true => 0,
            false => self.with_limits(state, (family, tree), &self.limits(), |situation| {
                self.policy.level_for_flush(situation, &range)
            }),
        })
    }

    /// Starts all background work that is due. It must be called under the state lock after every
    /// change of the state.
    pub fn schedule(self: &Arc<Self>, state: &mut DbState) {
        state.commit_epoch += 1;
        self.changed.notify_all();
        if self.view.load().mem.is_none() || state.failed.is_some() || state.closed {
            return;
        }
        state.compactions.idle.look(self.visible().0);
        if !state.flush_scheduled && state.sealed > 0 {
            state.flush_scheduled = true;
            self.submit(Lane::Flush, "flush", self.jobs.flush, |state| state.flush_scheduled = false);
        }
        if !state.closing {
            self.schedule_compactions(state);
        }
        let busy = state.flush_scheduled || !state.compactions.is_empty();
        state.no_jobs_since = state.no_jobs_since.or_else(|| Some(self.clock.now())).filter(|_| !busy);
        if !state.commit_scheduled && state.versions.pending() > 0 {
            state.commit_scheduled = true;
            self.submit(Lane::Durability, "commit edits", self.jobs.commit_edits, |state| {
                state.commit_scheduled = false
            });
        }
    }

    /// Starts the compactions and the value-log GC that are due.
    fn schedule_compactions(self: &Arc<Self>, state: &mut DbState) {
        while state.compactions.len() < self.compaction_threads(state, self.options.max_background_compactions)
            && let Some((plan, optional)) = self.pick_compaction(state)
        {
            self.start_compaction(state, plan, optional);
        }
        self.schedule_value_log_gc(state);
    }

    /// Updates the idle detector with `update`, and starts the background work that the new state
    /// of the detector allows.
    pub fn update_idle(self: &Arc<Self>, update: impl FnOnce(&mut idle::IdleDetector)) {
        let mut state = self.state.lock();
        if !state.closing {
            update(&mut state.compactions.idle);
            state.compactions.idle.look(self.visible().0);
            state.optional_suspended &= !state.compactions.idle.is_idle();
            self.schedule(&mut state);
        }
    }

    /// Returns the number of compactions, or of subcompactions, that may run now. `most` is the
    /// configured maximum.
    pub fn compaction_threads(&self, state: &DbState, most: u64) -> usize {
        let runs = self.stall_runs(state);
        parallelism::threads(&self.options, most, runs, state.compactions.idle.is_quiet())
    }

    /// Starts the compaction of `plan`, which must not conflict with a running compaction. An
    /// `optional` compaction does nothing if there is not enough disk space for it.
    pub fn start_compaction(self: &Arc<Self>, state: &mut DbState, plan: Plan, optional: bool) {
        debug_assert!(state.compactions.admits(&self.order, &plan));
        state.compactions.begin(&self.order, &plan);
        if let Some((family, _, id)) = state.seek_hint
            && plan.upper.iter().any(|table| table.meta.id == id)
        {
            let paid = self.options.seek_compaction && self.options.seek_compaction_bytes > 0;
            let left = seek_compaction::left_of_hint(&plan, id, paid);
            state.seek_hint = left.map(|(level, table)| (family, level, table));
        }
        let ended = plan.clone();
        let job = move |shared: &Arc<DbInner>| {
            if shared.cancel_if_closing(&plan) {
                return Ok(());
            }
            let freed = shared.space_freed.load(Ordering::Acquire);
            let bytes = shared.state.lock().compactions.bytes();
            if optional && !plan.trivial_move && !shared.has_room(bytes) {
                shared.end_optional_compaction(&plan, Some(freed));
                return Ok(());
            }
            let moved = shared.relocates_values(&shared.state.lock());
            let outcome = match (shared.jobs.compact)(shared, &plan) {
                Err(full) if full.is_no_space() && moved && !plan.gc_only => {
                    shared.suspend_gc(&mut shared.state.lock());
                    (shared.jobs.compact)(shared, &plan)
                }
                outcome => outcome,
            };
            match outcome {
                Err(full) if full.is_no_space() && optional => {
                    // The optional compaction has ended for lack of space and has deleted its
                    // outputs. The counter must change, so that a job that waits for space checks
                    // again.
                    shared.space_freed.fetch_add(1, Ordering::Release);
                    shared.end_optional_compaction(&plan, None);
                    Ok(())
                }
                Err(error) if plan.gc_only => shared.on_gc_compaction_failed(&plan, error),
                Err(damage) if damage.is_damage() => shared.on_damaged_input(&plan, damage),
                outcome => outcome,
            }
        };
        self.submit(Lane::Compact, "compact", job, move |state| state.compactions.end(&ended));
    }

    /// Cancels the queued compaction `plan` if the store is closing. Returns whether the store is
    /// closing.
    fn cancel_if_closing(&self, plan: &Plan) -> bool {
        let mut state = self.state.lock();
        if state.closing {
            state.compactions.end(plan);
            self.changed.notify_all();
        }
        state.closing
    }

    /// Ends an optional compaction for which there is not enough disk space. No other optional
    /// compaction starts until a file is deleted, or until the next round of the idle timer,
    /// because other users of the disk may free space too. `freed` is the value of `space_freed`
    /// before the check for space. If `space_freed` has changed since then, files were deleted
    /// after the check, and the freed space may be sufficient.
    fn end_optional_compaction(self: &Arc<Self>, plan: &Plan, freed: Option<u64>) {
        let mut state = self.state.lock();
        state.compactions.end(plan);
        self.work.start_timer(); // its ticks notice space that others free
        state.optional_suspended |= freed.is_none_or(|freed| self.space_freed.load(Ordering::Acquire) == freed);
        self.schedule(&mut state);
    }

    /// Ends a compaction with an input that cannot be read. The store does not stop, because the
    /// compaction has lost no data: the damage existed before. The inputs stay in place and are not
    /// compacted again. Reads can still use the undamaged parts of the inputs.
    fn on_damaged_input(self: &Arc<Self>, plan: &Plan, error: Error) -> Result<()> {
        let (level, output_level) = (plan.level, plan.output_level);
        let mut state = self.state.lock();
        state.compactions.end_damaged(&self.order, plan, error.clone());
        // A writer that waits until level 0 has fewer runs must decide again whether to wait: the
        // ended compaction will not reduce the runs.
        self.bump_stall_epoch(&state);
        self.schedule(&mut state);
        drop(state);
        self.options.notify(|| Event::CompactionFailed { level, output_level, error });
        Ok(())
    }

    /// Queues a job. If the job fails or panics, the store stops. The function `ended` then records
    /// the end of the failed job in the state. A job that succeeds records its end itself.
    pub fn submit(
        self: &Arc<Self>,
        lane: Lane,
        name: &'static str,
        job: impl Fn(&Arc<DbInner>) -> Result<()> + Send + 'static,
        ended: impl FnOnce(&mut DbState) + Send + 'static,
    ) {
        let shared = self.clone();
        self.work.submit(lane, name, move || {
            let _awaited = matches!(lane, Lane::Flush | Lane::Compact).then(BlockingScope::new);
            let outcome = catch_unwind(AssertUnwindSafe(|| match lane {
                Lane::Durability => job(&shared), // this job retries by itself
                Lane::Flush | Lane::Compact => shared.retry_on_no_space(1, || job(&shared)),
                Lane::Relocate | Lane::Idle => shared.retry_on_no_space(0, || job(&shared)),
            }));
            let bug = |_| Err(Error::Bug(format!("job {name} panicked")));
            if let Err(error) = outcome.unwrap_or_else(bug) {
                shared.fail_and_end(&error, ended);
                shared.wake_failed();
            }
        });
    }

    /// Handles an SSTable whose seek budget is exhausted: extends the budget or requests a seek
    /// compaction.
    pub fn on_seek_budget_spent(self: &Arc<Self>, family: FamilyId, level: usize, table: TableId) {
        let Options { seek_compaction, seek_compaction_bytes: worth, .. } = self.options;
        if seek_compaction
            && level + 1 < terrace_format::LEVELS
            && !(worth > 0 && self.extend_seek_budget(family, level, table, worth))
        {
            self.request_compaction(family, level, table);
        }
    }

    /// Returns whether the seek budget of a table was extended. Each seek is worth `worth` bytes.
    /// The budget is extended if the seeks so far are worth less than the compaction of the table
    /// costs, or if the table is no longer in `level`.
    fn extend_seek_budget(&self, family: FamilyId, level: usize, table: TableId, worth: u64) -> bool {
        let state = self.state.lock();
        let extended = self.with_situation_of(&state, family, |situation| {
            seek_compaction::price(situation, (level, table))
                .is_none_or(|(table, bytes)| table.extend_seek_budget(bytes / worth))
        });
        extended.unwrap_or(true)
    }

    /// Requests a compaction of an SSTable of `level` of `family` into the next level. The
    /// compaction starts as soon as no other compaction is more urgent.
    pub fn request_compaction(self: &Arc<Self>, family: FamilyId, level: usize, table: TableId) {
        let mut state = self.state.lock();
        state.seek_hint = Some((family, level, table));
        self.schedule(&mut state);
    }
}

impl ReadTrigger for DbInner {
    fn range_reads_paid(self: Arc<Self>, family: FamilyId, oldest: TableId) {
        self.request_compaction(family, 0, oldest);
    }

    fn seek_budget_spent(self: Arc<Self>, family: FamilyId, level: usize, table: TableId) {
        self.on_seek_budget_spent(family, level, table);
    }
}

/// Returns the tree of each column family whose compactions may start, the default family first.
fn families(state: &DbState) -> impl Iterator<Item = (FamilyId, &Arc<Version>)> {
    let live = state.versions.live();
    let others = live.families().iter().map(|(id, family)| (*id, &family.version));
    std::iter::once((FamilyId::DEFAULT, live)).chain(others).filter(|(id, _)| state.dropping != Some(*id))
}

/// Returns the tree of `family`, if the family exists.
fn tree_of(state: &DbState, family: FamilyId) -> Option<&Arc<Version>> {
    let live = state.versions.live();
    if family == FamilyId::DEFAULT { Some(live) } else { live.families().get(&family).map(|found| &found.version) }
}
