//! Manual compaction: the caller compacts a key range down the tree, level by level. In the bottom
//! level of the range, the compaction rewrites only the tables whose rewrite frees space.
use super::Db;
use crate::{
    Error, Result,
    compact::{inputs::rewrite_in_place, plan::Plan, reservation::Reservation, situation::Situation},
    jobs,
    state::DbInner,
    version::{KeyRange, TableRef, Version},
};
use std::sync::Arc;
use terrace_format::{FamilyId, LEVELS, TableId, key};

impl Db {
    /// Compacts all SSTables with keys from `from` to `to`, both inclusive, down the tree, even if
    /// they are new. `None` means no bound. The call flushes the memtables before the compaction.
    /// The compaction drops deleted and shadowed entries, unless a snapshot needs them. Tables in
    /// the bottom level that overlap no table above are read, and are rewritten only if there are
    /// entries to drop.
    ///
    /// With value separation and `segments` GC, a compaction of all keys also moves values from
    /// WALs to segments in key order, so that scans read the values sequentially. Until the end of
    /// the compaction, the moved values take additional space. If there is too little space, the
    /// values stay where they are.
    ///
    /// # Errors
    /// The errors of [every write](Db#errors), and those of a [read](Db::get) of the bottom level.
    ///
    /// ```
    /// # use terrace::{Db, Options};
    /// let db = Db::open_in_memory(Options::default())?;
    /// db.put("key", "old")?;
    /// db.flush()?;
    /// db.put("key", "new")?;
    /// db.compact_range(None, None)?;
    /// assert_eq!(db.layout().iter().map(|level| level.tables.len()).sum::<usize>(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    pub fn compact_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.compact_range_in(FamilyId::DEFAULT, from, to)
    }

    pub(super) fn compact_range_in(&self, family: FamilyId, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.flush()?;
        ManualCompaction { shared: self.shared(), family }.run(&KeyRange { from, to })
    }
}

/// A manual compaction of one column family.
struct ManualCompaction<'a> {
    shared: &'a Arc<DbInner>,
    family: FamilyId,
}

impl ManualCompaction<'_> {
    fn run(&self, range: &KeyRange<'_>) -> Result<()> {
        let KeyRange { from, to } = range;
        if from.is_none() && to.is_none() {
            self.shared.relocate_from_wals(&mut self.shared.state.lock());
        }
        let begun = self.wait_for_running_compactions()?;
        let deepest = self.deepest(range);
        for level in 0..LEVELS {
            if level < deepest || self.has_several_runs(level) && level + 1 < LEVELS {
                self.compact_level_down(level, range)?;
                continue;
            }
            // Meanwhile automatic compactions may have moved tables to levels below the level
            // `deepest`. A table of the level `level` that overlaps such a table has newer entries,
            // so it is compacted down too.
            for table in self.below(level, range) {
                self.compact_level_down(level, &table.span())?;
            }
            self.rewrite_bottom(level, range, begun)?;
        }
        self.shared.wait_until(|state| !state.gc.forced)
    }

    /// Returns the SSTables of the column family; none if the family was dropped.
    fn tree(&self) -> Arc<Version> {
        let version = self.shared.view.load().version.clone();
        match self.family {
            FamilyId::DEFAULT => version,
            id => version.families().get(&id).map(|family| family.version.clone()).unwrap_or_default(),
        }
    }

    /// Waits until all compactions that run at the time of the call have ended. The reason: they
    /// still keep entries for snapshots that may have been released in the meantime. Returns a
    /// table number. All tables that are made later, except the outputs of intra-L0 compactions,
    /// have this number or a larger one.
    fn wait_for_running_compactions(&self) -> Result<TableId> {
        let shared = self.shared;
        let running = shared.state.lock().compactions.running_inputs();
        let mut next = 0;
        shared.wait_until(|state| {
            next = state.versions.next_number();
            !running.iter().any(|mark| state.compactions.has(*mark))
        })?;
        Ok(TableId(next))
    }

    /// Returns the deepest level below level 0 with keys of `range`; 1 if there is none.
    fn deepest(&self, range: &KeyRange<'_>) -> usize {
        let version = self.tree();
        let holds = |level: &usize| version.levels[*level].tables().any(|t| t.overlaps(&self.shared.order, range));
        (1..LEVELS).rev().find(holds).unwrap_or(1)
    }

    /// Returns whether `level`, below level 0, has several sorted runs. Only a compaction of all
    /// runs of the level merges them into one.
    fn has_several_runs(&self, level: usize) -> bool {
        level > 0 && self.tree().levels[level].runs.len() > 1
    }

    /// Returns those tables below `level` with keys of `range` that overlap a table of `level`.
    fn below(&self, level: usize, range: &KeyRange<'_>) -> Vec<Arc<TableRef>> {
        let (version, order) = (self.tree(), &self.shared.order);
        let meets = |table: &Arc<TableRef>| {
            let keys = table.span();
            version.levels[level].overlap_slices(order, &keys).any(|tables| !tables.is_empty())
        };
        version.levels[level + 1..].iter().flat_map(|l| l.overlapping(order, range)).filter(meets).collect()
    }

    /// Compacts the tables of `level` in `range` into the next level.
    fn compact_level_down(&self, level: usize, range: &KeyRange<'_>) -> Result<()> {
        let mut from = range.from.map(<[u8]>::to_vec);
        while let Some(largest) = self.compact_next_range(level, &KeyRange { from: from.as_deref(), to: range.to })? {
            from = Some(largest);
        }
        Ok(())
    }

    /// Executes one compaction of `level` that begins at the start of `range`. If tables with keys
    /// of the range may be left after this compaction, returns the last key that it took from the
    /// level.
    fn compact_next_range(&self, level: usize, range: &KeyRange<'_>) -> Result<Option<Vec<u8>>> {
        let shared = self.shared;
        let done = self.run_plan(|situation| shared.policy.plan_range(situation, level, range))?;
        let Some(plan) = done else { return Ok(None) };
        let more = level > 0; // in level 0 one compaction takes all tables
        let taken = || key::user_key(&plan.pointer).to_vec();
        let past_end = range.to.is_some_and(|to| shared.order.user(&taken(), to).is_ge());
        Ok((more && !past_end).then(taken))
    }

    /// Rewrites the tables of `level` that have entries to drop. Tables with the number `begun` or
    /// a larger one are newer than this manual compaction and are not rewritten.
    fn rewrite_bottom(&self, level: usize, range: &KeyRange<'_>, begun: TableId) -> Result<()> {
        let shared = self.shared;
        let mut after: Option<Vec<u8>> = None;
        loop {
            shared.check_writable(&shared.state.lock())?;
            let next = |situation: &Situation<'_>| rewrite_in_place(situation, level, range, after.as_deref(), begun);
            let (plan, kept) = {
                let state = shared.state.lock();
                (shared.with_situation_of(&state, self.family, next).flatten(), state.versions.live().clone())
            };
            let Some(mut plan) = plan else { return Ok(()) };
            let drops_some = jobs::compact::drops_some(shared, &plan)?;
            drop(kept); // it pinned the tables during the scan
            if drops_some {
                match self.run_plan(next)? {
                    Some(done) => plan = done,
                    None => return Ok(()),
                }
            }
            after = Some(key::user_key(&plan.pointer).to_vec());
        }
    }

    /// Executes the plan that `choose` returns: waits until no other compaction conflicts with the
    /// plan, starts the compaction, and waits for its end. Returns the plan.
    fn run_plan(&self, choose: impl Fn(&Situation<'_>) -> Option<Plan>) -> Result<Option<Plan>> {
        let shared = self.shared;
        let (mut started, mut damage) = (None, None);
        let waited = shared.wait_until(|state| {
            let plan = shared.with_situation_of(state, self.family, &choose).flatten();
            match plan {
                Some(plan) if !state.compactions.admits(&shared.order, &plan) => {
                    damage = state.compactions.damage(&shared.order, &plan).cloned();
                    if damage.is_some() {
                        state.compactions.reserve_manual(None);
                        return true;
                    }
                    state.compactions.reserve_manual(Some(Reservation::of(&shared.order, &plan)));
                    false
                }
                plan => {
                    state.compactions.reserve_manual(None);
                    started = plan.inspect(|plan| shared.start_compaction(state, plan.clone(), false));
                    // The reservation of the manual compaction may have blocked other compactions.
                    // They must be scheduled here, because no other thread starts them.
                    shared.schedule(state);
                    true
                }
            }
        });
        waited.inspect_err(|_| shared.state.lock().compactions.reserve_manual(None))?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        let Some(plan) = started else { return Ok(None) };
        let first = plan.upper[0].meta.id;
        shared.wait_until(|state| {
            let over = !state.compactions.has(first);
            if over {
                damage = state.compactions.damage_of(first).cloned();
            }
            over
        })?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        let state = shared.state.lock();
        shared.check_writable(&state)?; // the compaction may have failed
        if state.closing {
            return Err(Error::Closed); // the compaction may have been cancelled
        }
        Ok(Some(plan))
    }
}
