//! Flush: the oldest sealed memtable becomes a table.
use crate::{Result, mem::MemTable, read::view::View, state::Shared, version::add_to};
use std::sync::Arc;
use terrace_format::{TableId, edit::Edit, key};
use terrace_storage::{
    Ticket,
    placement::{EntryRef, Hint, Lifetime, Origin, Placement, TableMeta},
};

/// Flushes the oldest sealed memtable and installs its table. One flush runs at a time, so flushes end in order.
pub fn run(shared: &Arc<Shared>) -> Result<()> {
    let mem = shared.view.load().sealed.last().cloned().expect("a flush is queued only for a sealed memtable");
    let started = shared.clock.now();
    let (meta, ticket) = write_table(&*shared.placement, &mem, mem.sealed_as())?;
    shared.stats.flushed(meta.bytes, shared.clock.now() - started);

    let mut control = shared.control.lock();
    let level = shared.flush_level(&control, key::user_key(&meta.smallest), key::user_key(&meta.largest));
    let mut edit = Edit::default();
    add_to(&mut edit, level, &meta);
    let view = shared.view.load();
    let newer = view.memtables().take_while(|other| !Arc::ptr_eq(other, &mem)).last();
    let replay_from = newer.expect("the active memtable is newer than a sealed one").log;
    let version = control.versions.install_flush(edit, mem.last_sequence(), replay_from, ticket)?;
    shared.set_view(&control, |view| View {
        mem: view.mem.clone(),
        sealed: view.sealed.iter().filter(|other| !Arc::ptr_eq(other, &mem)).cloned().collect(),
        version,
    });
    control.flushing = false;
    shared.schedule(&mut control);
    Ok(())
}

/// Writes every entry of `mem` as table `id`.
pub fn write_table(placement: &dyn Placement, mem: &Arc<MemTable>, id: TableId) -> Result<(TableMeta, Ticket)> {
    let hint = Hint { level: 0, expected_bytes: mem.charged_bytes(), lifetime: Lifetime::Flush };
    let mut build = placement.begin(hint)?;
    build.begin_table(id)?;
    let mut cursor = mem.cursor();
    cursor.seek_first();
    while cursor.valid() {
        build.keep(EntryRef { key: cursor.key(), stored: cursor.value(), origin: Origin::Memory })?;
        cursor.next();
    }
    build.end_table()?;
    let (mut metas, ticket) = build.finish()?;
    Ok((metas.pop().expect("a build of one table yields one"), ticket))
}
