//! Flush: sealed memtables become a table.
use crate::{
    Event, Result,
    mem::MemTable,
    read::{
        merge::Merge,
        source::{Source, Sources},
        view::View,
    },
    state::Shared,
    version::add_to,
};
use std::sync::Arc;
use terrace_format::{KeyOrder, RangeDeletes, TableId, edit::Edit, key};
use terrace_storage::{
    Ticket,
    placement::{Build, EntryRef, Hint, Lifetime, Origin, Placement, TableMeta},
};

/// Flushes the sealed memtables that wait into one table and installs it. One flush runs at a time, so flushes end in
/// order. Several wait when flushing has fallen behind: together they cost one build, and level 0 one run.
pub fn run(shared: &Arc<Shared>) -> Result<()> {
    let waiting = shared.view.load().sealed.clone();
    let newest = waiting.first().expect("a flush is queued only for a sealed memtable");
    let started = shared.clock.now();
    shared.options.tell(|| Event::FlushBegun { bytes: waiting.iter().map(|mem| mem.charged_bytes()).sum() });
    if shared.options.sync_logs {
        // Nobody was promised this. Who is promised something later asks again, and is told; what is written here cures it.
        let _ = shared.closed_logs.sync();
    }
    let (meta, ticket) = write_table(&*shared.placement, &shared.order, &waiting, newest.sealed_as())?;
    shared.stats.flushed(meta.bytes, shared.clock.since(started));

    let mut control = shared.control.lock();
    let level = shared.flush_level(&control, key::user_key(&meta.smallest), key::user_key(&meta.largest));
    let mut edit = Edit::default();
    add_to(&mut edit, level, &meta);
    let view = shared.view.load();
    let newer = view.memtables().take_while(|other| !Arc::ptr_eq(other, newest)).last();
    let replay_from = newer.expect("the active memtable is newer than a sealed one").log;
    let log_bytes = |mem: &Arc<MemTable>| match shared.values_apart {
        true => control.versions.retire.log_bytes(mem.log), // far more than of the memtable
        false => mem.charged_bytes(),
    };
    let log_bytes = waiting.iter().map(log_bytes).sum();
    let version = control.versions.install_flush(edit, newest.last_sequence(), replay_from, log_bytes, ticket)?;
    let flushed = |mem: &Arc<MemTable>| waiting.iter().any(|other| Arc::ptr_eq(other, mem));
    shared.set_view(&control, |view| View {
        mem: view.mem.clone(),
        sealed: view.sealed.iter().filter(|mem| !flushed(mem)).cloned().collect(),
        version,
    });
    control.flushing = false;
    control.collecting.found.came(meta.bytes);
    shared.schedule(&mut control);
    drop(control);
    waiting.iter().for_each(|mem| shared.placement.log_flushed(mem.log));
    shared.options.tell(|| Event::FlushEnded { bytes: meta.bytes, level, time: shared.clock.since(started) });
    Ok(())
}

/// Writes every entry of `mems` as table `id`.
pub fn write_table(
    placement: &dyn Placement,
    order: &KeyOrder,
    mems: &[Arc<MemTable>],
    id: TableId,
) -> Result<(TableMeta, Ticket)> {
    let expected_bytes = mems.iter().map(|mem| mem.charged_bytes()).sum();
    let mut build = placement.begin(Hint { level: 0, expected_bytes, lifetime: Lifetime::Flush })?;
    build.begin_table(id)?;
    match mems {
        [mem] => keep_all(&mut *build, mem)?,
        _ => merge_all(&mut *build, order, mems)?,
    }
    let mut ranges = RangeDeletes::default();
    mems.iter().for_each(|mem| ranges.extend(order, &mem.range_deletes()));
    ranges.fragments().iter().try_for_each(|fragment| build.delete_range(fragment))?;
    build.end_table()?;
    let (mut metas, ticket) = build.finish()?;
    Ok((metas.pop().expect("a build of one table yields one"), ticket))
}

fn keep_all(build: &mut dyn Build, mem: &Arc<MemTable>) -> Result<()> {
    let mut cursor = mem.cursor();
    cursor.seek_first();
    while cursor.valid() {
        build.keep(EntryRef { key: cursor.key(), stored: cursor.value(), origin: Origin::Memory })?;
        cursor.next();
    }
    Ok(())
}

fn merge_all(build: &mut dyn Build, order: &KeyOrder, mems: &[Arc<MemTable>]) -> Result<()> {
    let mut sources = Sources::new();
    sources.extend(mems.iter().map(|mem| Source::Mem(mem.cursor())));
    let mut merge = Merge::new(order.clone(), sources);
    merge.seek_first()?;
    while merge.valid() {
        build.keep(merge.entry())?;
        merge.next()?;
    }
    Ok(())
}
