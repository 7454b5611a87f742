//! The flush job: it writes immutable memtables to one SSTable.
use crate::{
    Event, Result,
    compact::drop_rule::{DropRule, SnapshotStripes},
    jobs::drop_filter::readers,
    mem::MemTable,
    read::{
        merge::Merge,
        source::{Source, Sources},
        view::View,
    },
    state::DbInner,
    version::{Contents, add_to},
};
use std::sync::Arc;
use terrace_format::{KeyOrder, RangeTombstones, TableId, edit::Edit, key};
use terrace_storage::{
    DurabilityHandle,
    placement::{EntryRef, Hint, Lifetime, Origin, Storage, TableMeta, TableSink},
};

/// Flushes all waiting immutable memtables into one SSTable and installs it. Only one flush runs
/// at a time, so flushes end in the order of their memtables. If writes are faster than flushes,
/// several memtables wait. One flush of all of them writes only one output table, which is only
/// one sorted run in level 0.
pub fn run(shared: &Arc<DbInner>) -> Result<()> {
    let waiting = shared.view.load().sealed.clone();
    let newest = waiting.first().expect("a flush is queued only for an immutable memtable");
    let started = shared.clock.now();
    shared.options.notify(|| Event::FlushBegin { bytes: waiting.iter().map(|mem| mem.charged_bytes()).sum() });
    if shared.options.sync_sealed_wals {
        // An error is ignored here, because no caller waits for this sync. A later sync gets the
        // same error and reports it, unless the SSTable of this flush makes the WAL obsolete.
        let _ = shared.closed_wals.sync();
    }
    let readers = (shared.options.tombstone_compaction_percent > 0).then(|| readers(shared));
    let (meta, contents, handle) = write_table(&*shared.storage, &shared.order, &waiting, newest.sealed_as(), readers)?;
    shared.stats.flushed(meta.bytes, shared.clock.since(started));

    let mut state = shared.state.lock();
    let level = shared.flush_level(&state, key::user_key(&meta.smallest), key::user_key(&meta.largest));
    let mut edit = Edit::default();
    add_to(&mut edit, level, &meta);
    let view = shared.view.load();
    let newer = view.memtables().take_while(|other| !Arc::ptr_eq(other, newest)).last();
    let replay_from = newer.expect("the active memtable is newer than a sealed one").log;
    let log_bytes = |mem: &Arc<MemTable>| match shared.separates_values {
        // With value separation the WAL holds the values too, and is far larger than the memtable.
        true => state.versions.obsolete_files.log_bytes(mem.log),
        false => mem.charged_bytes(),
    };
    let log_bytes = waiting.iter().map(log_bytes).sum();
    let version = state.versions.install_flush(edit, newest.last_sequence(), replay_from, log_bytes, handle)?;
    let flushed = |mem: &Arc<MemTable>| waiting.iter().any(|other| Arc::ptr_eq(other, mem));
    version.set_contents(level, vec![(meta.id, contents)]);
    shared.set_view(&state, |view| View {
        mem: view.mem.clone(),
        sealed: view.sealed.iter().filter(|mem| !flushed(mem)).cloned().collect(),
        version,
    });
    state.flush_scheduled = false;
    state.gc.shadow_stats.record_new_bytes(meta.bytes);
    shared.schedule(&mut state);
    drop(state);
    waiting.iter().for_each(|mem| shared.storage.wal_flushed(mem.log));
    shared.options.notify(|| Event::FlushEnd { bytes: meta.bytes, level, time: shared.clock.since(started) });
    Ok(())
}

/// Writes the entries of `mems` to SSTable `id`. Drops entries that none of `readers` can see; if
/// `readers` is `None`, keeps all entries.
pub fn write_table(
    storage: &dyn Storage,
    order: &KeyOrder,
    mems: &[Arc<MemTable>],
    id: TableId,
    readers: Option<SnapshotStripes>,
) -> Result<(TableMeta, Contents, DurabilityHandle)> {
    let expected_bytes = mems.iter().map(|mem| mem.charged_bytes()).sum();
    let mut sink = storage.begin(Hint { level: 0, expected_bytes, lifetime: Lifetime::Flush })?;
    sink.begin_table(id)?;
    let mut ranges = RangeTombstones::default();
    mems.iter().for_each(|mem| ranges.extend(order, &mem.range_tombstones()));
    let drops = readers.is_some();
    let (rule, contents) = (DropRule::new(readers.unwrap_or_default()), Contents::default());
    let mut filter = FlushFilter { sink: &mut *sink, order, ranges: &ranges, drops, rule, contents };
    match mems {
        [mem] => filter.add_memtable(mem)?,
        _ => filter.add_merged(mems)?,
    }
    let mut contents = filter.contents;
    for fragment in ranges.fragments() {
        contents.add_range(fragment);
        sink.delete_range(fragment)?;
    }
    sink.end_table()?;
    let (mut metas, handle) = sink.finish()?;
    Ok((metas.pop().expect("one table was begun"), contents, handle))
}

/// Selects the entries that a flush keeps. For each key it keeps the newest entry, or a range
/// tombstone that deletes this entry.
struct FlushFilter<'a> {
    sink: &'a mut dyn TableSink,
    order: &'a KeyOrder,
    ranges: &'a RangeTombstones,
    /// Whether the flush drops entries that no reader can see.
    drops: bool,
    rule: DropRule,
    contents: Contents,
}

impl FlushFilter<'_> {
    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let parsed = key::apart(entry.key);
        if !self.drops {
            self.contents.add(&parsed, true);
            return Ok(self.sink.keep(entry)?);
        }
        let by_rule = self.rule.entry(self.order, &parsed, || false);
        let hidden = || {
            let first_reader = self.rule.readers().stripe_end(parsed.seq);
            self.ranges.newest(self.order, parsed.user, first_reader) > parsed.seq
        };
        if by_rule || hidden() {
            return Ok(());
        }
        self.contents.add(&parsed, self.rule.begins_key());
        Ok(self.sink.keep(entry)?)
    }

    fn add_memtable(&mut self, mem: &Arc<MemTable>) -> Result<()> {
        let mut cursor = mem.cursor();
        cursor.seek_first();
        while cursor.valid() {
            self.keep(EntryRef { key: cursor.key(), stored: cursor.value(), origin: Origin::Memory })?;
            cursor.next();
        }
        Ok(())
    }

    fn add_merged(&mut self, mems: &[Arc<MemTable>]) -> Result<()> {
        let mut sources = Sources::new();
        sources.extend(mems.iter().map(|mem| Source::Mem(mem.cursor())));
        let mut merge = Merge::new(self.order.clone(), sources);
        merge.seek_first()?;
        while merge.valid() {
            self.keep(merge.entry())?;
            merge.next()?;
        }
        Ok(())
    }
}
