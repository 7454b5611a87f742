//! The version set: the *live* version serves reads, the *durable* version is the manifest's and
//! trails it.
//!
//! ```text
//! flush or compaction job
//!    │ install            live := live + edit; edit and durability handles are queued (memory)
//!    ▼
//! pending edits
//!    │ commit             front of the queue, while handles are durable: append the edits to the
//!    ▼                    manifest, sync once, durable := durable + edits
//! durable version
//!    │                    files that neither version names and no reader pins are obsolete
//!    ▼
//! file deletion
//! ```
//! Invariants: an edit enters the manifest only when every file it names is durable; a file is
//! deleted only when the edit that stops naming it is durable and no reader pins it. Edits are
//! committed in the order of install, so every prefix of the manifest is a version that was live.
//! Only a flush into level 0 may overtake, and only compactions: it adds the newest run, whatever
//! becomes of the older ones.
use super::{
    TableRef, Version, add_to, meta_of,
    obsolete_files::ObsoleteFiles,
    pending::{CommittedRecord, Pending, PendingQueue, Retained},
    reserved_above,
    segments::Segments,
};
use crate::{Error, Result};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::{KeyOrder, LEVELS, LogId, SeqNo, TableId, edit::Edit};
use terrace_storage::{
    DurabilityHandle,
    placement::{LogKind, LogWriter, ObjectId, Storage, TableMeta},
};

/// The versions, and the numbers that belong to them. Guarded by the state lock; does no I/O.
#[derive(Debug)]
pub struct VersionSet {
    order: KeyOrder,
    live: Arc<Version>,
    durable: Arc<Version>,
    pending: PendingQueue,
    next_file: u64,
    /// Table numbers reserved for intra-L0 compactions, each directly above that of a flushed or
    /// sealed table.
    reserved_numbers: BTreeSet<TableId>,
    /// Largest flushed sequence number: live, and in the manifest.
    base: SeqNo,
    durable_base: SeqNo,
    /// Oldest WAL that replay needs: live, and in the manifest.
    replay_from: LogId,
    durable_replay_from: LogId,
    pointers: [Vec<u8>; LEVELS],
    durable_pointers: [Vec<u8>; LEVELS],
    /// Obsolete files.
    pub obsolete_files: ObsoleteFiles,
    /// Value-log segments.
    pub segments: Segments,
}

/// The state of a store after recovery.
#[derive(Debug, Default)]
pub struct Start {
    /// The tables, all durable.
    pub version: Version,
    /// The next free file number.
    pub next_file: u64,
    /// Largest sequence number in tables.
    pub base: SeqNo,
    /// Oldest WAL to replay.
    pub replay_from: LogId,
    /// Where each level's next compaction starts (internal keys).
    pub pointers: [Vec<u8>; LEVELS],
}

impl VersionSet {
    /// Makes a version set with one version as both live and durable.
    pub fn new(order: KeyOrder, start: Start) -> VersionSet {
        let version = Arc::new(start.version);
        let mut obsolete_files = ObsoleteFiles::default();
        obsolete_files.pin(&version);
        obsolete_files.wal_created(start.replay_from);
        VersionSet {
            order,
            live: version.clone(),
            durable: version,
            pending: PendingQueue::default(),
            next_file: start.next_file,
            reserved_numbers: BTreeSet::new(),
            base: start.base,
            durable_base: start.base,
            replay_from: start.replay_from,
            durable_replay_from: start.replay_from,
            durable_pointers: start.pointers.clone(),
            pointers: start.pointers,
            obsolete_files,
            segments: Segments::default(),
        }
    }

    /// Returns the live version, which serves reads.
    pub fn live(&self) -> &Arc<Version> {
        &self.live
    }

    /// Draws a file number.
    pub fn new_number(&mut self) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        number
    }

    /// Returns the next file number, which is above every table's.
    pub fn next_number(&self) -> u64 {
        self.next_file
    }

    /// Draws the table number of a memtable that is sealed. With `reserve_next` it also reserves
    /// the next number, so that an intra-L0 compaction can later take the table's position although
    /// younger tables have drawn their numbers.
    pub fn new_sealed_number(&mut self, reserve_next: bool) -> TableId {
        let table = TableId(self.new_number());
        if reserve_next {
            let above = TableId(self.new_number());
            self.reserved_numbers.insert(above);
        }
        table
    }

    /// Returns the reserved table numbers.
    pub fn reserved_numbers(&self) -> &BTreeSet<TableId> {
        &self.reserved_numbers
    }

    /// Returns the largest sequence number in tables that the manifest names.
    pub fn durable_base(&self) -> SeqNo {
        self.durable_base
    }

    /// Returns the oldest WAL with entries that are not in tables of the live version.
    pub fn replay_from(&self) -> LogId {
        self.replay_from
    }

    /// Returns the oldest WAL that replay needs by the manifest.
    pub fn durable_replay_from(&self) -> LogId {
        self.durable_replay_from
    }

    /// Returns where each level's next compaction starts.
    pub fn pointers(&self) -> &[Vec<u8>; LEVELS] {
        &self.pointers
    }

    /// Returns the number of pending edits.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether a compaction's edit is pending.
    pub fn compaction_pending(&self) -> bool {
        self.pending.has_compaction()
    }

    /// Returns the bytes that pending edits keep.
    pub fn retained(&self) -> Retained {
        self.pending.retained()
    }

    /// Returns the same as one sum, in bytes.
    pub fn retained_bytes(&self) -> u64 {
        let Retained { log_bytes, shadow_bytes } = self.retained();
        log_bytes.saturating_add(shadow_bytes)
    }

    /// Installs a flush: memtables up to sequence number `base` are in the tables of `edit`, and
    /// replay starts at `replay_from`. About `log_bytes` of WALs become obsolete with it.
    pub fn install_flush(
        &mut self,
        mut edit: Edit,
        base: SeqNo,
        replay_from: LogId,
        log_bytes: u64,
        handle: DurabilityHandle,
    ) -> Result<Arc<Version>> {
        let next = self.next(&edit)?;
        debug_assert!(
            base >= self.base && replay_from >= self.replay_from,
            "flushes are installed in the order of their memtables"
        );
        (self.base, self.replay_from) = (base, replay_from);
        edit.log_number = Some(replay_from.0);
        Ok(self.install(next, Pending { edit, handles: vec![handle], retained_bytes: log_bytes, ..Pending::default() }))
    }

    /// Returns the inputs of `edit` that the manifest may not name yet; storage knows whether it
    /// does.
    fn uncommitted_inputs<'a>(&'a self, edit: &'a Edit) -> impl Iterator<Item = &'a TableMeta> {
        let added = self.pending.added();
        self.removed_tables(edit).map(|table| &table.meta).filter(move |meta| added.contains(&meta.id))
    }

    /// Returns the tables that are in no level after `edit`; moved tables stay.
    fn removed_tables<'a>(&'a self, edit: &'a Edit) -> impl Iterator<Item = &'a Arc<TableRef>> {
        let moved: BTreeSet<_> = edit.added.iter().map(|(_, added)| added.id).collect();
        self.live.named(&edit.deleted).map(|(_, table)| table).filter(move |table| !moved.contains(&table.meta.id))
    }

    /// Installs a compaction. Calls `cancel_sync` for each input that the manifest may not name
    /// yet; it returns whether it cancelled the input's sync before the sync started. Such an input
    /// never becomes durable by itself. The earlier edit that added it can then be committed only
    /// together with `edit`, which removes it. So `cancel_sync` is called only after every step
    /// that can fail. The outputs continue to use `linked` bytes of the inputs.
    pub fn install_compaction(
        &mut self,
        edit: Edit,
        handles: Vec<DurabilityHandle>,
        linked: u64,
        mut cancel_sync: impl FnMut(&TableMeta) -> bool,
    ) -> Result<Arc<Version>> {
        let next = self.next(&edit)?;
        let cancelled = self.uncommitted_inputs(&edit).filter(|meta| cancel_sync(meta));
        let sync_cancelled: BTreeSet<_> = cancelled.map(|meta| meta.id).collect();
        for (level, pointer) in &edit.compact_pointers {
            self.pointers[*level].clone_from(pointer);
        }
        for (_, table) in &edit.deleted {
            self.reserved_numbers.remove(&reserved_above(*table));
        }
        let replaced = self.removed_tables(&edit).filter(|table| !sync_cancelled.contains(&table.meta.id));
        let retained_bytes = replaced.map(|table| table.meta.bytes).fold(0, u64::saturating_add).saturating_sub(linked);
        self.obsolete_files.never_committed(&sync_cancelled);
        Ok(self.install(
            next,
            Pending { edit, handles, compaction: true, retained_bytes, sync_cancelled, ..Pending::default() },
        ))
    }

    /// Returns the version that `edit` makes of the live one.
    fn next(&self, edit: &Edit) -> Result<Version> {
        self.live.apply(&self.order, edit).map_err(inconsistent)
    }

    fn install(&mut self, next: Version, mut pending: Pending) -> Arc<Version> {
        let edit = &mut pending.edit;
        edit.last_sequence = Some(self.base);
        edit.next_file_number = Some(self.next_file);
        let removed_tables = self.live.named(&edit.deleted).map(|(_, table)| &table.meta);
        let added: Vec<_> = edit.added.iter().map(|(_, added)| meta_of(added, 0)).collect();
        let dead_segments = self.segments.replace(removed_tables, &added).into_iter();
        // WALs that replay may need are counted already.
        let kept_anyway = |object| matches!(object, ObjectId::Wal(log) if log >= self.durable_replay_from);
        let unreferenced = dead_segments.filter(|(object, _)| !kept_anyway(*object)).map(|(_, bytes)| bytes);
        pending.retained_bytes = unreferenced.fold(pending.retained_bytes, u64::saturating_add);
        self.live = Arc::new(next);
        self.obsolete_files.pin(&self.live);
        self.pending.push(pending);
        self.live.clone()
    }

    /// Returns how many pending edits can be committed now, and their manifest records in order.
    /// Fails if one of the edits looked at can never be committed.
    pub fn committable(&mut self) -> Result<(usize, Vec<Edit>)> {
        let count = self.pending.committable()?;
        Ok((count, self.pending.records(count)))
    }

    /// Notes that the first `count` pending edits, which were
    /// [`committable`](VersionSet::committable), are durable in the manifest. Returns the objects
    /// to delete, and the replaced tables. The caller drops the latter under no lock, since that
    /// may close files.
    pub fn mark_committed(&mut self, count: usize) -> Result<(Vec<ObjectId>, Vec<Arc<TableRef>>)> {
        let mut replaced = Vec::new();
        for CommittedRecord { edit, transient } in self.pending.take_committed(count) {
            let next = Arc::new(self.durable.apply(&self.order, &edit).map_err(inconsistent)?);
            self.durable_base = edit.last_sequence.unwrap_or(self.durable_base);
            self.durable_replay_from = edit.log_number.map_or(self.durable_replay_from, LogId);
            for (level, pointer) in edit.compact_pointers {
                self.durable_pointers[level] = pointer;
            }
            // One record at a time: a table may come and go within one batch.
            self.obsolete_files.durable_advanced(
                &self.durable,
                &next,
                (&edit.deleted, transient),
                self.durable_replay_from,
            );
            replaced.extend(self.durable.named(&edit.deleted).map(|(_, table)| table.clone()));
            self.durable = next;
        }
        Ok((self.removable(), replaced))
    }

    /// Takes the objects that no version and no reader needs any more.
    pub fn removable(&mut self) -> Vec<ObjectId> {
        let removable = self.obsolete_files.take_deletable(&self.live, &self.durable);
        removable.iter().for_each(|object| self.segments.forget(*object));
        removable
    }

    /// Returns the largest sequence number in tables of the live version.
    pub fn base(&self) -> SeqNo {
        self.base
    }

    /// Returns the state of a copy of the live version.
    pub fn live_start(&self) -> Start {
        Start {
            version: (*self.live).clone(),
            next_file: self.next_file,
            base: self.base,
            replay_from: self.replay_from,
            pointers: self.pointers.clone(),
        }
    }

    /// Returns one edit with the whole durable version, the snapshot at the start of a manifest.
    /// Pending edits will follow it there.
    pub fn snapshot(&mut self, requires: &[String]) -> Edit {
        self.pending.raise_next_file(self.next_file);
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

/// An edit that does not apply: a bug or damaged memory, never the caller's fault. Nothing was
/// changed.
fn inconsistent(detail: String) -> Error {
    Error::Bug(detail)
}

/// The current manifest file. Only the job that commits edits uses it, and does its I/O under no
/// other lock.
pub struct Manifest {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// Bytes of the snapshot at its start.
    snapshot_bytes: u64,
    /// Whether each sync is followed by a durable mark, an empty record.
    writes_marks: bool,
    /// The error after which the root file may name another manifest. Then nothing more is
    /// appended.
    doubt: Option<Error>,
}

impl Manifest {
    /// Creates manifest `id` with `snapshot`, durable but not yet named by the root file.
    pub fn create(storage: &dyn Storage, id: LogId, snapshot: &Edit) -> Result<Manifest> {
        let create = || {
            let writer = storage.create_log(id, LogKind::Manifest, &snapshot.encode())?;
            writer.sync()?;
            Ok(writer)
        };
        let writer = create().inspect_err(|_: &Error| {
            // An incomplete manifest; best effort, the next open removes it too.
            let _ = storage.remove(ObjectId::Manifest(id));
        })?;
        let snapshot_bytes = writer.bytes();
        let mut manifest = Manifest { id, writer, snapshot_bytes, writes_marks: storage.promises(), doubt: None };
        manifest.mark();
        Ok(manifest)
    }

    /// Appends a durable mark: all edits so far are durable. They are durable without the mark too,
    /// so an error is left to the next append.
    fn mark(&mut self) {
        if self.writes_marks {
            let _ = self.writer.append(&[]);
        }
    }

    /// Appends `edits` in order and syncs once.
    pub fn log(&mut self, edits: &[Edit]) -> Result<()> {
        self.doubt.clone().map_or(Ok(()), Err)?;
        for edit in edits {
            self.writer.append(&edit.encode())?;
        }
        self.writer.sync()?;
        self.mark();
        Ok(())
    }

    /// Notes that the root file may name another manifest.
    pub fn mark_uncertain(&mut self, why: &Error) {
        self.doubt = Some(why.clone());
    }

    /// Whether the root file certainly names this manifest.
    pub fn is_root(&self) -> bool {
        self.doubt.is_none()
    }

    /// Returns the number of the manifest.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Whether the manifest should be rewritten: its edits have outgrown `limit` bytes or its
    /// snapshot.
    pub fn needs_rewrite(&self, limit: u64) -> bool {
        exceeds_limit(self.writer.bytes(), self.snapshot_bytes, limit)
    }
}

/// A manifest under `limit`, or under twice its snapshot, is kept. At eight times its snapshot
/// most of it is obsolete whatever the limit is: the manifest of a small store must not outgrow
/// the store.
fn exceeds_limit(bytes: u64, snapshot: u64, limit: u64) -> bool {
    const SHORT: u64 = 1 << 20;
    bytes > limit.min((8 * snapshot).max(SHORT)).max(2 * snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::edit::AddedTable;

    #[test]
    fn a_manifest_is_rewritten_past_its_limit_or_a_multiple_of_its_snapshot() {
        let longest = |snapshot: u64, limit: u64| {
            (0..100 << 10).take_while(|kib: &u64| !exceeds_limit(kib << 10, snapshot << 10, limit << 10)).last()
        };
        assert_eq!(longest(0, 4), Some(4), "up to the limit");
        assert_eq!(
            [10, 200, 10 << 10].map(|snapshot| longest(snapshot, 64 << 10)),
            [1024, 1600, 64 << 10].map(Some),
            "eight times"
        );
        assert_eq!(longest(40 << 10, 64 << 10), Some(80 << 10), "twice its snapshot");
    }

    /// A rewritten manifest contained the next file number, and an edit installed earlier a lower
    /// one after it: LevelDB believes the last, and would have reused numbers.
    #[test]
    fn pending_edits_after_a_snapshot_carry_no_lower_file_number() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        set.install_flush(Edit::default(), SeqNo(5), LogId(3), 0, DurabilityHandle::mature())
            .expect("the edit applies");
        (0..5).for_each(|_| assert!(set.new_number() < 15));
        let edits = [set.snapshot(&[])].into_iter().chain(set.committable().expect("the handle is durable").1);
        let said: Vec<_> = edits.map(|edit| edit.next_file_number).collect();
        assert_eq!(said, [Some(15), Some(15)], "numbers FALL");
    }

    /// If the consumer's edit is refused, the edit that added the table still waits for the table.
    #[test]
    fn a_refused_edit_cancels_no_sync() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        let key = terrace_format::key::lookup(b"a", SeqNo(1));
        let table =
            AddedTable { id: TableId(7), bytes: 9, within: None, run: 0, smallest: key, largest: vec![], refs: vec![] };
        let added = AddedTable { largest: table.smallest.clone(), ..table };
        let flush = Edit { added: vec![(0, added)], ..Edit::default() };
        let (handle, _completer) = DurabilityHandle::pending();
        set.install_flush(flush, SeqNo(5), LogId(3), 0, handle).expect("the edit applies");
        let mut calls = Vec::new();
        for missing in [Some((1, TableId(8))), None] {
            let deleted = [(0, TableId(7))].into_iter().chain(missing).collect();
            let edit = Edit { deleted, ..Edit::default() };
            let installed = set.install_compaction(edit, Vec::new(), 0, |meta| {
                calls.push((meta.id, missing));
                true
            });
            assert_eq!(installed.is_ok(), missing.is_none());
        }
        assert_eq!(calls, [(TableId(7), None)], "sync cancelled too SOON");
    }
}
