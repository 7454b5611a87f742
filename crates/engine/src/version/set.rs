//! Two versions: the *live* one serves reads, the *durable* one is what the manifest says and trails it.
//!
//! ```text
//! install:  live := live + edit; the edit and its ticket join the queue          (in memory, at once)
//! release:  from the front, while tickets are mature: log edits, sync once,
//!           durable := durable + edits, retire what nobody needs any more        (in the order of install, but for flushes)
//! ```
//! The rule that makes this safe: an edit enters the manifest only when everything it names is durable, and a file is
//! removed only when the edit that stops needing it is durable and no reader holds it. Releasing first-in first-out keeps
//! every prefix of the manifest a version that once was live. Only a flush into level 0 may overtake, and only compactions: it
//! adds the newest run of all, whatever has become of those below.
use super::{
    TableRef, Version, add_to, meta_of,
    obsolete_files::ObsoleteFiles,
    pending::{Pending, Queue, Released, Retained},
    segments::Segments,
    spare_above,
};
use crate::{Error, Result};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, LogId, SeqNo, TableId, edit::Edit};
use terrace_storage::{
    DurabilityHandle,
    placement::{LogKind, LogWriter, ObjectId, Storage, TableMeta},
};

/// The versions and the numbers that go with them. Guarded by the control lock; does no I/O.
#[derive(Debug)]
pub struct VersionSet {
    order: KeyOrder,
    live: Arc<Version>,
    durable: Arc<Version>,
    pending: Queue,
    next_file: u64,
    /// Numbers kept free for merges within level 0, each right above that of a flushed or sealed table.
    spares: BTreeSet<TableId>,
    /// Largest sequence of the memtables flushed so far: live, and per the manifest.
    base: SeqNo,
    durable_base: SeqNo,
    /// Oldest log that replay needs: live, and per the manifest.
    replay_from: LogId,
    durable_replay_from: LogId,
    pointers: [Vec<u8>; LEVELS],
    durable_pointers: [Vec<u8>; LEVELS],
    /// What waits for what.
    pub retire: ObsoleteFiles,
    /// Of the value log.
    pub segments: Segments,
}

/// Where a store stands after recovery: the beginning of a version set.
#[derive(Debug, Default)]
pub struct Start {
    /// The tables, all durable.
    pub version: Version,
    /// Numbers below it are taken.
    pub next_file: u64,
    /// Largest sequence in tables.
    pub base: SeqNo,
    /// Oldest log to replay.
    pub replay_from: LogId,
    /// Where each level's next compaction starts: internal keys.
    pub pointers: [Vec<u8>; LEVELS],
}

impl VersionSet {
    /// Live and durable begin as one.
    pub fn new(order: KeyOrder, start: Start) -> VersionSet {
        let version = Arc::new(start.version);
        let mut retire = ObsoleteFiles::default();
        retire.pin(&version);
        retire.log_made(start.replay_from);
        VersionSet {
            order,
            live: version.clone(),
            durable: version,
            pending: Queue::default(),
            next_file: start.next_file,
            spares: BTreeSet::new(),
            base: start.base,
            durable_base: start.base,
            replay_from: start.replay_from,
            durable_replay_from: start.replay_from,
            durable_pointers: start.pointers.clone(),
            pointers: start.pointers,
            retire,
            segments: Segments::default(),
        }
    }

    /// What serves reads.
    pub fn live(&self) -> &Arc<Version> {
        &self.live
    }

    /// A number that nothing has.
    pub fn new_number(&mut self) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        number
    }

    /// The number that the next file gets: higher than that of every table there is.
    pub fn next_number(&self) -> u64 {
        self.next_file
    }

    /// The number of a memtable's table, to be drawn as it is sealed. `spare` keeps the number above it free, for a merge
    /// within level 0 to take the table's place later, when younger tables have drawn theirs.
    pub fn new_sealed_number(&mut self, spare: bool) -> TableId {
        let table = TableId(self.new_number());
        if spare {
            let above = TableId(self.new_number());
            self.spares.insert(above);
        }
        table
    }

    /// Numbers kept free.
    pub fn spares(&self) -> &BTreeSet<TableId> {
        &self.spares
    }

    /// Largest sequence that is in tables which the manifest has.
    pub fn durable_base(&self) -> SeqNo {
        self.durable_base
    }

    /// Oldest log whose entries are not all in tables of the live version.
    pub fn replay_from(&self) -> LogId {
        self.replay_from
    }

    /// Oldest log that replay needs by the manifest.
    pub fn durable_replay_from(&self) -> LogId {
        self.durable_replay_from
    }

    /// Where `level`'s next compaction starts.
    pub fn pointers(&self) -> &[Vec<u8>; LEVELS] {
        &self.pointers
    }

    /// Edits that wait for their tickets.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether an edit of a compaction waits.
    pub fn compaction_pending(&self) -> bool {
        self.pending.has_compaction()
    }

    /// What is replaced but kept.
    pub fn retained(&self) -> Retained {
        self.pending.retained()
    }

    /// The same in one sum, in bytes.
    pub fn retained_bytes(&self) -> u64 {
        let Retained { log_bytes, shadow_bytes } = self.retained();
        log_bytes + shadow_bytes
    }

    /// The memtables up to `base` are in tables of `edit`; replay begins at `replay_from`, behind about `log_bytes` of logs.
    pub fn install_flush(
        &mut self,
        mut edit: Edit,
        base: SeqNo,
        replay_from: LogId,
        log_bytes: u64,
        ticket: DurabilityHandle,
    ) -> Result<Arc<Version>> {
        let next = self.next(&edit)?;
        debug_assert!(
            base >= self.base && replay_from >= self.replay_from,
            "flushes end in the order of their memtables"
        );
        (self.base, self.replay_from) = (base, replay_from);
        edit.log_number = Some(replay_from.0);
        Ok(self.install(next, Pending { edit, tickets: vec![ticket], retains: log_bytes, ..Pending::default() }))
    }

    /// The tables that go with `edit` and that the manifest may never have heard of: storage knows whether it has.
    fn perhaps_unheard_of<'a>(&'a self, edit: &'a Edit) -> impl Iterator<Item = &'a TableMeta> {
        let added = self.pending.added();
        self.gone(edit).map(|table| &table.meta).filter(move |meta| added.contains(&meta.id))
    }

    /// The tables that are in no level any more behind `edit`; moved ones are.
    fn gone<'a>(&'a self, edit: &'a Edit) -> impl Iterator<Item = &'a Arc<TableRef>> {
        let moved: BTreeSet<_> = edit.added.iter().map(|(_, added)| added.id).collect();
        self.live.named(&edit.deleted).map(|(_, table)| table).filter(move |table| !moved.contains(&table.meta.id))
    }

    /// Tables were replaced by others. Of those that the manifest may never have heard of `give_up` tells whether nothing has been done to
    /// make them durable, nor will be. It is asked once nothing can fail any more: a table that is given up has to be released with `edit`.
    /// So many bytes of the others are `linked`, and stay when these go.
    pub fn install_compaction(
        &mut self,
        edit: Edit,
        tickets: Vec<DurabilityHandle>,
        linked: u64,
        mut give_up: impl FnMut(&TableMeta) -> bool,
    ) -> Result<Arc<Version>> {
        let next = self.next(&edit)?;
        let unheard_of = self.perhaps_unheard_of(&edit).filter(|meta| give_up(meta));
        let given_up: BTreeSet<_> = unheard_of.map(|meta| meta.id).collect();
        for (level, pointer) in &edit.compact_pointers {
            self.pointers[*level].clone_from(pointer);
        }
        for (_, table) in &edit.deleted {
            self.spares.remove(&spare_above(*table));
        }
        let shadows = self.gone(&edit).filter(|table| !given_up.contains(&table.meta.id));
        let retains = shadows.map(|table| table.meta.bytes).sum::<u64>().saturating_sub(linked);
        self.retire.never_durable(&given_up);
        Ok(self.install(next, Pending { edit, tickets, compaction: true, retains, given_up, ..Pending::default() }))
    }

    /// What the live version becomes with `edit`.
    fn next(&self, edit: &Edit) -> Result<Version> {
        self.live.apply(&self.order, edit).map_err(inconsistent)
    }

    fn install(&mut self, next: Version, mut pending: Pending) -> Arc<Version> {
        let edit = &mut pending.edit;
        edit.last_sequence = Some(self.base);
        edit.next_file_number = Some(self.next_file);
        let gone = self.live.named(&edit.deleted).map(|(_, table)| &table.meta);
        let added: Vec<_> = edit.added.iter().map(|(_, added)| meta_of(added, 0)).collect();
        let dead = self.segments.replace(gone, &added).into_iter();
        // Logs that replay may need count as such already.
        let kept_anyway = |object| matches!(object, ObjectId::Wal(log) if log >= self.durable_replay_from);
        pending.retains += dead.filter(|(object, _)| !kept_anyway(*object)).map(|(_, bytes)| bytes).sum::<u64>();
        self.live = Arc::new(next);
        self.retire.pin(&self.live);
        self.pending.push(pending);
        self.live.clone()
    }

    /// How many edits may enter the manifest now, and as which records, in their order; the error if one of them, or of those behind,
    /// never can.
    pub fn releasable(&mut self) -> Result<(usize, Vec<Edit>)> {
        let count = self.pending.releasable()?;
        Ok((count, self.pending.records(count)))
    }

    /// The first `count` edits, which were [`releasable`](VersionSet::releasable), are durable in the manifest. Returns what may
    /// be removed now; and the tables that were replaced, to be dropped under no lock, since that may close them.
    pub fn released(&mut self, count: usize) -> Result<(Vec<ObjectId>, Vec<Arc<TableRef>>)> {
        let mut replaced = Vec::new();
        for Released { edit, passed } in self.pending.release(count) {
            let next = Arc::new(self.durable.apply(&self.order, &edit).map_err(inconsistent)?);
            self.durable_base = edit.last_sequence.unwrap_or(self.durable_base);
            self.durable_replay_from = edit.log_number.map_or(self.durable_replay_from, LogId);
            for (level, pointer) in edit.compact_pointers {
                self.durable_pointers[level] = pointer;
            }
            // Record by record: a table may come and go within one batch.
            self.retire.durable_moved(&self.durable, &next, (&edit.deleted, passed), self.durable_replay_from);
            replaced.extend(self.durable.named(&edit.deleted).map(|(_, table)| table.clone()));
            self.durable = next;
        }
        Ok((self.removable(), replaced))
    }

    /// What nobody needs any more, readers included.
    pub fn removable(&mut self) -> Vec<ObjectId> {
        let removable = self.retire.take_removable(&self.live, &self.durable);
        removable.iter().for_each(|object| self.segments.forget(*object));
        removable
    }

    /// Largest sequence that is in tables.
    pub fn base(&self) -> SeqNo {
        self.base
    }

    /// Where a copy of the live version stands.
    pub fn live_start(&self) -> Start {
        Start {
            version: (*self.live).clone(),
            next_file: self.next_file,
            base: self.base,
            replay_from: self.replay_from,
            pointers: self.pointers.clone(),
        }
    }

    /// One edit that says all of the durable version, to begin a manifest with. Edits that wait come behind it there.
    pub fn snapshot(&mut self, requires: &[String]) -> Edit {
        self.pending.not_below(self.next_file);
        let mut edit = Edit {
            requires: requires.to_vec(),
            comparator: Some(self.order.name().to_string()),
            log_number: Some(self.durable_replay_from.0),
            next_file_number: Some(self.next_file),
            last_sequence: Some(self.durable_base),
            ..Edit::default()
        };
        for (level, pointer) in self.durable_pointers.iter().enumerate().filter(|(_, pointer)| !pointer.is_empty()) {
            edit.compact_pointers.push((level, pointer.clone()));
        }
        for (level, table) in self.durable.tables() {
            add_to(&mut edit, level, &table.meta);
        }
        edit
    }
}

/// An edit of our own making does not fit: a bug or damaged memory, never the user's doing. Nothing was changed.
fn inconsistent(detail: String) -> Error {
    Error::Bug(detail)
}

/// The manifest being written. Only the releasing job holds it, and it does its I/O under no other lock.
pub struct Manifest {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// Bytes of the snapshot that it began with.
    begun_bytes: u64,
    /// Each sync is followed by a durable mark, an empty record.
    marks: bool,
    /// Why it may not be the root any more, and nothing may be appended to it.
    doubt: Option<Error>,
}

impl Manifest {
    /// Begins manifest `id` with `snapshot`, durable but not yet the root.
    pub fn create(storage: &dyn Storage, id: LogId, snapshot: &Edit) -> Result<Manifest> {
        let create = || {
            let writer = storage.create_log(id, LogKind::Manifest, &snapshot.encode())?;
            writer.sync()?;
            Ok(writer)
        };
        let writer = create().inspect_err(|_: &Error| {
            let _ = storage.remove(ObjectId::Manifest(id)); // half a manifest; best effort, the next open removes it too
        })?;
        let begun_bytes = writer.bytes();
        let mut manifest = Manifest { id, writer, begun_bytes, marks: storage.promises(), doubt: None };
        manifest.mark();
        Ok(manifest)
    }

    /// Notes that all edits so far are durable. They are with or without the mark. If it fails, the next append returns its error.
    fn mark(&mut self) {
        if self.marks {
            let _ = self.writer.append(&[]);
        }
    }

    /// Appends edits, in order, and makes them durable with one sync.
    pub fn log(&mut self, edits: &[Edit]) -> Result<()> {
        self.doubt.clone().map_or(Ok(()), Err)?;
        for edit in edits {
            self.writer.append(&edit.encode())?;
        }
        self.writer.sync()?;
        self.mark();
        Ok(())
    }

    /// Another manifest may have become the root, or not.
    pub fn doubt(&mut self, why: &Error) {
        self.doubt = Some(why.clone());
    }

    /// Whether it is the root still.
    pub fn is_sure(&self) -> bool {
        self.doubt.is_none()
    }

    /// Its number.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Whether it has outgrown `limit` bytes, or what it began with, by edits.
    pub fn overlong(&self, limit: u64) -> bool {
        is_overlong(self.writer.bytes(), self.begun_bytes, limit)
    }
}

/// One that is short, or twice as long as it began at most, goes on. Of eight times that length most is what was, whatever the `limit`: a
/// small store's manifest is not to outgrow the store.
fn is_overlong(bytes: u64, begun: u64, limit: u64) -> bool {
    const SHORT: u64 = 1 << 20;
    bytes > limit.min((8 * begun).max(SHORT)).max(2 * begun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::edit::AddedTable;

    #[test]
    fn a_manifest_outgrows_its_limit_or_its_beginning() {
        let longest = |begun: u64, limit: u64| {
            (0..100 << 10).take_while(|kib: &u64| !is_overlong(kib << 10, begun << 10, limit << 10)).last()
        };
        assert_eq!(longest(0, 4), Some(4), "as short as is wanted");
        assert_eq!(
            [10, 200, 10 << 10].map(|begun| longest(begun, 64 << 10)),
            [1024, 1600, 64 << 10].map(Some),
            "eight times"
        );
        assert_eq!(longest(40 << 10, 64 << 10), Some(80 << 10), "half of it was there when it began");
    }

    /// A manifest that began anew said the next file number, and what was installed before said a lower one behind it: LevelDB
    /// believes the last, and would have given numbers that are taken.
    #[test]
    fn what_waits_says_no_lower_number_behind_a_snapshot() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        set.install_flush(Edit::default(), SeqNo(5), LogId(3), 0, DurabilityHandle::mature())
            .expect("nothing contradicts it");
        (0..5).for_each(|_| assert!(set.new_number() < 15));
        let edits = [set.snapshot(&[])].into_iter().chain(set.releasable().expect("it is mature").1);
        let said: Vec<_> = edits.map(|edit| edit.next_file_number).collect();
        assert_eq!(said, [Some(15), Some(15)], "numbers FALL");
    }

    /// The edit that brought a table goes on to wait for it alone if that of its consumer is refused.
    #[test]
    fn nothing_is_given_up_for_an_edit_that_is_refused() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        let key = terrace_format::key::lookup(b"a", SeqNo(1));
        let table = AddedTable { id: TableId(7), bytes: 9, within: None, smallest: key, largest: vec![], refs: vec![] };
        let added = AddedTable { largest: table.smallest.clone(), ..table };
        let flush = Edit { added: vec![(0, added)], ..Edit::default() };
        let (ticket, _maturity) = DurabilityHandle::pending();
        set.install_flush(flush, SeqNo(5), LogId(3), 0, ticket).expect("nothing contradicts it");
        let mut asked = Vec::new();
        for missing in [Some((1, TableId(8))), None] {
            let deleted = [(0, TableId(7))].into_iter().chain(missing).collect();
            let edit = Edit { deleted, ..Edit::default() };
            let installed = set.install_compaction(edit, Vec::new(), 0, |meta| {
                asked.push((meta.id, missing));
                true
            });
            assert_eq!(installed.is_ok(), missing.is_none());
        }
        assert_eq!(asked, [(TableId(7), None)], "given up too SOON");
    }
}
