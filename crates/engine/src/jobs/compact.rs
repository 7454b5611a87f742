//! Carries a plan out: merges its inputs, leaves out what nobody can see, installs the outputs.
use crate::{
    Result,
    compact::{leveled::is_bottom, may_drop::MayDrop, plan::Plan},
    read::{
        merge::{Merge, Source},
        run::RunCursor,
        view::View,
    },
    state::Shared,
    version::{TableRef, add_to},
};
use std::sync::Arc;
use terrace_format::{KeyOrder, TableId, edit::Edit, key};
use terrace_storage::{
    Ticket,
    placement::{Build, Hint, Lifetime, ReadHow, TableMeta},
};

/// Runs `plan` and installs its result.
pub fn run(shared: &Arc<Shared>, plan: &Plan) -> Result<()> {
    let started = shared.clock.now();
    let (outputs, ticket) = if plan.trivial_move {
        (vec![plan.upper[0].meta.clone()], Ticket::mature())
    } else {
        match merge(shared, plan)? {
            Some(merged) => merged,
            None => return Ok(()), // the store is closing; nothing was promised
        }
    };
    let written = if plan.trivial_move { 0 } else { outputs.iter().map(|meta| meta.bytes).sum() };
    let read = if plan.trivial_move { 0 } else { plan.bytes() };
    shared.stats.compacted(plan.output_level, read, written, shared.clock.now() - started);

    let mut edit = Edit { compact_pointers: vec![(plan.level, plan.pointer.clone())], ..Edit::default() };
    edit.deleted.extend(plan.inputs().map(|(level, table)| (level, table.meta.id)));
    outputs.iter().for_each(|meta| add_to(&mut edit, plan.output_level, meta));
    let mut control = shared.control.lock();
    control.busy.end(plan);
    let version = control.versions.install_compaction(edit, ticket)?;
    shared.set_view(&control, |view| View { mem: view.mem.clone(), sealed: view.sealed.clone(), version });
    shared.schedule(&mut control);
    Ok(())
}

/// Merges the inputs into new tables; `None` if the store began to close meanwhile.
fn merge(shared: &Arc<Shared>, plan: &Plan) -> Result<Option<(Vec<TableMeta>, Ticket)>> {
    /// How many entries pass between two looks at whether the store is closing.
    const ENTRIES_PER_LOOK: u64 = 4096;
    let mut merge = input(shared, plan);
    let mut rule = MayDrop::new(shared.snapshots.oldest(|| shared.visible()));
    let hint = Hint { level: plan.output_level, expected_bytes: plan.bytes(), lifetime: Lifetime::Compaction };
    let mut out = Output::new(shared, plan, shared.placement.begin(hint)?);
    merge.seek_first()?;
    let mut entries = 0;
    while merge.valid() {
        entries += 1;
        if entries % ENTRIES_PER_LOOK == 0 && shared.work.stopping() {
            return Ok(None);
        }
        let entry = merge.parsed()?;
        let bottom = || is_bottom(&shared.order, &plan.version, plan.output_level, entry.user);
        out.pass(merge.key());
        if !rule.entry(&shared.order, &entry, bottom) {
            out.keep(&merge)?;
        }
        merge.next()?;
    }
    out.finish().map(Some)
}

/// The plan's inputs as one. Every run of the upper level is a source of its own; the lower inputs are one run.
fn input(shared: &Arc<Shared>, plan: &Plan) -> Merge {
    let how = ReadHow { verify: true, fill_cache: false }; // damage must not get a fresh checksum
    let source = |tables: Vec<Arc<TableRef>>| {
        Source::Run(RunCursor::new(shared.placement.clone(), shared.order.clone(), Arc::new(tables), how))
    };
    let mut sources = Vec::new();
    if plan.level == 0 {
        sources.extend(plan.upper.iter().map(|table| source(vec![table.clone()])));
    } else {
        sources.push(source(in_order(&shared.order, &plan.upper)));
    }
    sources.push(source(in_order(&shared.order, &plan.lower)));
    Merge::new(shared.order.clone(), sources)
}

fn in_order(order: &KeyOrder, tables: &[Arc<TableRef>]) -> Vec<Arc<TableRef>> {
    let mut tables = tables.to_vec();
    tables.sort_by(|a, b| order.internal(&a.meta.smallest, &b.meta.smallest));
    tables
}

/// The outputs: where one table ends and the next begins.
struct Output<'a> {
    shared: &'a Shared,
    plan: &'a Plan,
    build: Box<dyn Build>,
    open: bool,
    any: bool,
    last_user: Vec<u8>,
    end_due: bool,
    /// Grandparents passed so far, and their bytes since the open table began.
    grandparent: usize,
    overlapped: u64,
    seen_key: bool,
}

impl<'a> Output<'a> {
    fn new(shared: &'a Shared, plan: &'a Plan, build: Box<dyn Build>) -> Output<'a> {
        Output {
            shared,
            plan,
            build,
            open: false,
            any: false,
            last_user: Vec::new(),
            end_due: false,
            grandparent: 0,
            overlapped: 0,
            seen_key: false,
        }
    }

    /// The merge passes `internal`, kept or not. An output that met too many grandparents would be dear to compact
    /// further; it ends before this key.
    fn pass(&mut self, internal: &[u8]) {
        let order = &self.shared.order;
        while let Some(table) = self.plan.grandparents.get(self.grandparent)
            && order.internal(internal, &table.meta.largest).is_gt()
        {
            self.overlapped += if self.seen_key { table.meta.bytes } else { 0 };
            self.grandparent += 1;
        }
        self.seen_key = true;
        if self.overlapped > self.shared.limits().grandparent_bytes() {
            self.overlapped = 0;
            self.end_due = true;
        }
    }

    /// Stores the merge's entry. Versions of one user key never part: only a new user key may begin a table.
    fn keep(&mut self, merge: &Merge) -> Result<()> {
        let user = key::user_key(merge.key());
        let full = self.end_due || self.build.table_bytes() >= self.shared.options.table_bytes;
        if self.open && full && self.shared.order.user(user, &self.last_user).is_ne() {
            self.end_table()?;
        }
        if !self.open {
            self.end_due = false; // there was nothing to end
            let id = TableId(self.shared.control.lock().versions.new_number());
            self.build.begin_table(id)?;
            (self.open, self.any) = (true, true);
        }
        self.last_user.clear();
        self.last_user.extend_from_slice(user);
        Ok(self.build.keep(merge.entry())?)
    }

    fn end_table(&mut self) -> Result<()> {
        (self.open, self.end_due) = (false, false);
        Ok(self.build.end_table()?)
    }

    fn finish(mut self) -> Result<(Vec<TableMeta>, Ticket)> {
        if self.open {
            self.end_table()?;
        }
        if !self.any {
            return Ok((Vec::new(), Ticket::mature())); // everything was dropped
        }
        Ok(self.build.finish()?)
    }
}
