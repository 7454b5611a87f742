//! The flush job: it writes immutable memtables to SSTables.
use crate::{
    Event, Result,
    compact::drop_rule::{DropRule, SnapshotStripes},
    jobs::{commit_edits, drop_filter::readers},
    mem::MemTable,
    read::{
        merge::Merge,
        source::{Source, Sources},
        view::View,
    },
    state::{DbInner, DbState},
    version::{Contents, Version, add_to},
};
use std::sync::Arc;
use terrace_format::{FamilyId, KeyOrder, LogId, RangeTombstones, SeqNo, TableId, edit::Edit, key};
use terrace_storage::{
    DurabilityHandle,
    placement::{EntryRef, Hint, Lifetime, Origin, Storage, TableMeta, TableSink},
};

/// The memtables that one flush writes.
struct Waiting {
    /// The immutable memtables of each column family that has some, newest first.
    families: Vec<(FamilyId, Vec<Arc<MemTable>>)>,
    /// The number of memtable rotations that sealed these memtables.
    rotations: u64,
}

impl Waiting {
    /// Returns all memtables that wait for a flush.
    fn of(shared: &DbInner) -> Waiting {
        let state = shared.state.lock();
        let view = shared.view.load();
        let families = view.sealed().map(|(family, sealed)| (family, sealed.to_vec())).collect();
        Waiting { families, rotations: state.sealed }
    }

    fn memtables(&self) -> impl Iterator<Item = &Arc<MemTable>> {
        self.families.iter().flat_map(|(_, memtables)| memtables)
    }

    /// Returns the last sequence number of the memtables that this flush writes. All writes up to
    /// it are in SSTables or in these memtables.
    fn last_sequence(&self) -> SeqNo {
        self.memtables().map(|mem| mem.last_sequence()).max().unwrap_or(SeqNo::ZERO)
    }

    /// Returns the bytes of the WALs that become obsolete with this flush.
    fn log_bytes(&self, shared: &DbInner, state: &DbState) -> u64 {
        let of = |mem: &Arc<MemTable>| match shared.separates_values {
            // With value separation the WAL contains the values too, so its file is far larger than
            // the memtable.
            true => state.versions.obsolete_files.log_bytes(mem.log),
            false => mem.charged_bytes(),
        };
        self.memtables().map(of).sum()
    }

    fn includes(&self, mem: &Arc<MemTable>) -> bool {
        self.memtables().any(|other| Arc::ptr_eq(other, mem))
    }

    /// Returns the number of the oldest WAL with entries of memtables that this flush does not
    /// write. `view` must be the current view: while the flush ran, an empty memtable and its WAL
    /// may have been replaced, and no version edit records this replacement.
    fn replay_from(&self, view: &View) -> LogId {
        let others = view.all_memtables().filter(|mem| !self.includes(mem));
        others.map(|mem| mem.log).min().expect("a store that flushes has an active memtable")
    }

    /// Returns a copy of `view` with the new `version` and without the memtables that this flush
    /// has written.
    fn removed_from(&self, view: &View, version: Arc<Version>) -> View {
        let rest = |sealed: &[Arc<MemTable>]| sealed.iter().filter(|mem| !self.includes(mem)).cloned().collect();
        let mut families = view.families.clone();
        if self.families.iter().any(|(family, _)| *family != FamilyId::DEFAULT) {
            let memtables = Arc::make_mut(&mut families);
            memtables.values_mut().for_each(|family| family.sealed = rest(&family.sealed));
            memtables.retain(|_, family| family.mem.is_some() || !family.sealed.is_empty());
        }
        View { mem: view.mem.clone(), sealed: rest(&view.sealed), version, families }
    }
}

/// A table that a flush has written.
struct FlushedTable {
    family: FamilyId,
    meta: TableMeta,
    contents: Contents,
    handle: DurabilityHandle,
}

/// Flushes all waiting immutable memtables, into one SSTable for each column family, and installs
/// the SSTables. Only one flush runs at a time, so flushes end in the order of their memtables. If
/// writes are faster than flushes, several memtables wait. One flush then writes all of them to
/// only one output table, which is only one sorted run in level 0.
///
/// One version edit adds the tables of all column families. With separate edits, the manifest
/// could cover a write to one family while a power cut loses an earlier write to another family
/// from the WAL.
pub fn run(shared: &Arc<DbInner>) -> Result<()> {
    let waiting = Waiting::of(shared);
    let started = shared.clock.now();
    shared.options.notify(|| Event::FlushBegin { bytes: waiting.memtables().map(|mem| mem.charged_bytes()).sum() });
    if shared.options.sync_sealed_wals {
        // An error of this sync is ignored here, because no caller waits for it. A later sync of
        // the same WAL gets the same error and reports it, unless the SSTable of this flush makes
        // the WAL obsolete.
        let _ = shared.closed_wals.sync();
    }
    let tables = write_tables(shared, &waiting)?;
    let bytes = tables.iter().map(|table| table.meta.bytes).sum();
    shared.stats.flushed(bytes, shared.clock.since(started));

    let mut state = shared.state.lock();
    let (mut edit, mut contents, mut handles, mut deepest) = (Edit::default(), Vec::new(), Vec::new(), 0);
    for table in tables {
        let meta = &table.meta;
        let (smallest, largest) = (key::user_key(&meta.smallest), key::user_key(&meta.largest));
        // A column family that was dropped during the flush has no reader any more. The flush adds
        // the family's table to no version, and the next open removes its file.
        let Some(level) = shared.flush_level(&state, table.family, smallest, largest) else { continue };
        add_to(&mut edit, table.family.level(level), meta);
        deepest = deepest.max(level);
        contents.push((table.family, level, meta.id, table.contents));
        handles.push(table.handle);
    }
    let log_bytes = waiting.log_bytes(shared, &state);
    let replay_from = waiting.replay_from(&shared.view.load());
    let version = state.versions.install_flush(edit, waiting.last_sequence(), replay_from, log_bytes, handles)?;
    for (family, level, id, contents) in contents {
        version.tree(family).expect("the edit added a table").set_contents(level, vec![(id, contents)]);
    }
    state.sealed -= waiting.rotations;
    shared.set_view(&state, |view| waiting.removed_from(view, version));
    state.gc.shadow_stats.record_new_bytes(bytes);
    shared.schedule(&mut state);
    drop(state);
    waiting.memtables().for_each(|mem| shared.storage.wal_flushed(mem.log));
    shared.options.notify(|| Event::FlushEnd { bytes, level: deepest, time: shared.clock.since(started) });
    // The flush ends after it has released its memtables: a memtable keeps its WAL, and a caller of
    // `wait_idle` expects that obsolete WALs are deleted. The state lock is not held, because
    // freeing a memtable takes long.
    drop(waiting);
    let mut state = shared.state.lock();
    state.flush_scheduled = false;
    shared.schedule(&mut state);
    Ok(())
}

/// Writes one SSTable for each column family. After an error, removes the SSTables that it has
/// written.
fn write_tables(shared: &DbInner, waiting: &Waiting) -> Result<Vec<FlushedTable>> {
    let readers = (shared.options.tombstone_compaction_percent > 0).then(|| readers(shared));
    let mut tables = Vec::new();
    for (family, memtables) in &waiting.families {
        let id = memtables[0].sealed_as();
        match write_table(&*shared.storage, &shared.order, memtables, id, readers.clone()) {
            Ok((meta, contents, handle)) => tables.push(FlushedTable { family: *family, meta, contents, handle }),
            Err(error) => {
                let written: Vec<_> = tables.into_iter().map(|table| table.meta).collect();
                commit_edits::delete_outputs(shared, &written);
                return Err(error);
            }
        }
    }
    Ok(tables)
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
