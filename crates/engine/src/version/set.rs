//! The version set. The *live* version serves reads. The *durable* version is the one that the
//! manifest records, and it is the same as the live version or older.
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
//! Invariants: an edit enters the manifest only when every file that it names is durable. A file
//! is deleted only when the edit that removes it is durable and no reader pins the file. Edits are
//! committed in the order in which they were installed, so every prefix of the manifest is a
//! version that was live. There is one exception: a flush into level 0 may overtake compactions,
//! because it adds the newest run, which does not depend on the older runs.
use super::{
    TableRef, Version, add_to, meta_of,
    obsolete_files::ObsoleteFiles,
    pending::{CommittedRecord, Pending, PendingQueue, Retained},
    reserved_above,
    segments::Segments,
};
use crate::{Error, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use terrace_format::{
    FamilyId, KeyOrder, LogId, SeqNo, TableId,
    edit::{COLUMN_FAMILIES, Edit, FamilyChange},
};
use terrace_storage::{
    DurabilityHandle,
    placement::{LogKind, LogWriter, ObjectId, Storage, TableMeta},
};

/// The live and the durable version, and the numbers that belong to them. The state lock guards
/// them, and the set does no I/O.
#[derive(Debug)]
pub struct VersionSet {
    order: KeyOrder,
    live: Arc<Version>,
    durable: Arc<Version>,
    pending: PendingQueue,
    next_file: u64,
    /// Table numbers that are reserved for outputs of intra-L0 compactions. Each is the number
    /// directly above that of a flushed table or of a sealed memtable.
    reserved_numbers: BTreeSet<TableId>,
    /// The base of the live version: the largest sequence number in its tables. `durable_base` is
    /// the base that the manifest records.
    base: SeqNo,
    durable_base: SeqNo,
    /// The oldest WAL that must be replayed in addition to the tables of the live version.
    /// `durable_replay_from` is the one that the manifest records.
    replay_from: LogId,
    durable_replay_from: LogId,
    pointers: Pointers,
    durable_pointers: Pointers,
    /// The number of the next column family. It is above the numbers of all families that the store
    /// ever had.
    next_family: FamilyId,
    /// The obsolete files.
    pub obsolete_files: ObsoleteFiles,
    /// The value-log segments.
    pub segments: Segments,
}

/// For each level number of [`FamilyId::level`], the internal key at which the next compaction of
/// the level starts.
pub type Pointers = BTreeMap<usize, Vec<u8>>;

/// The state of a store after recovery.
#[derive(Debug)]
pub struct Start {
    /// The tables. All of them are durable.
    pub version: Version,
    /// The next free file number.
    pub next_file: u64,
    /// The largest sequence number in the tables.
    pub base: SeqNo,
    /// The oldest WAL that must be replayed.
    pub replay_from: LogId,
    /// The compaction pointers.
    pub pointers: Pointers,
    /// The number of the next column family.
    pub next_family: FamilyId,
}

impl Default for Start {
    fn default() -> Start {
        Start {
            version: Version::default(),
            next_file: 0,
            base: SeqNo::ZERO,
            replay_from: LogId(0),
            pointers: Pointers::new(),
            next_family: FamilyId(1),
        }
    }
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
            next_family: start.next_family,
            obsolete_files,
            segments: Segments::default(),
        }
    }

    /// Returns the live version, which serves reads.
    pub fn live(&self) -> &Arc<Version> {
        &self.live
    }

    /// Returns a new file number.
    pub fn new_number(&mut self) -> u64 {
        let number = self.next_file;
        self.next_file += 1;
        number
    }

    /// Returns the next file number, which is above the number of every table.
    pub fn next_number(&self) -> u64 {
        self.next_file
    }

    /// Returns the table number for a memtable that is being sealed. With `reserve_next` the number
    /// after it is reserved. The output of an intra-L0 compaction can later use the reserved
    /// number, and so take the table's position in level 0, although younger tables have larger
    /// numbers.
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

    /// Returns the oldest WAL that has entries which are not in tables of the live version.
    pub fn replay_from(&self) -> LogId {
        self.replay_from
    }

    /// Returns the oldest WAL that replay needs according to the manifest.
    pub fn durable_replay_from(&self) -> LogId {
        self.durable_replay_from
    }

    /// Returns the compaction pointers.
    pub fn pointers(&self) -> &Pointers {
        &self.pointers
    }

    /// Returns the number of pending edits.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns whether a pending edit adds or deletes tables of `family`.
    pub fn has_pending(&self, family: FamilyId) -> bool {
        self.pending.has_family(family)
    }

    /// Returns whether a compaction's edit is pending.
    pub fn compaction_pending(&self) -> bool {
        self.pending.has_compaction()
    }

    /// Returns the bytes of obsolete files that are kept until the pending edits are committed.
    pub fn retained(&self) -> Retained {
        self.pending.retained()
    }

    /// Returns all bytes of obsolete files that are kept until the pending edits are committed, as
    /// one sum.
    pub fn retained_bytes(&self) -> u64 {
        let Retained { log_bytes, shadow_bytes } = self.retained();
        log_bytes.saturating_add(shadow_bytes)
    }

    /// Installs the edit of a flush in the live version. The tables of `edit` contain the memtables
    /// up to the sequence number `base`, and replay now starts at `replay_from`. About `log_bytes`
    /// bytes of WALs become obsolete with this edit. The edit stays pending until all `handles` are
    /// durable.
    pub fn install_flush(
        &mut self,
        mut edit: Edit,
        base: SeqNo,
        replay_from: LogId,
        log_bytes: u64,
        handles: Vec<DurabilityHandle>,
    ) -> Result<Arc<Version>> {
        let next = self.next(&edit)?;
        debug_assert!(
            base >= self.base && replay_from >= self.replay_from,
            "flushes are installed in the order of their memtables"
        );
        (self.base, self.replay_from) = (base, replay_from);
        edit.log_number = Some(replay_from.0);
        Ok(self.install(next, Pending { edit, handles, retained_bytes: log_bytes, ..Pending::default() }))
    }

    /// Returns those tables that `edit` removes and that a pending edit adds, so that the manifest
    /// may not name them yet. The storage layer knows whether the manifest names a table.
    fn uncommitted_inputs<'a>(&'a self, edit: &'a Edit) -> impl Iterator<Item = &'a TableMeta> {
        let added = self.pending.added();
        self.removed_tables(edit).map(|table| &table.meta).filter(move |meta| added.contains(&meta.id))
    }

    /// Returns the tables that `edit` deletes and that are in no level afterwards. A table that the
    /// edit moves to another level is not one of them.
    fn removed_tables<'a>(&'a self, edit: &'a Edit) -> impl Iterator<Item = &'a Arc<TableRef>> {
        let moved: BTreeSet<_> = edit.added.iter().map(|(_, added)| added.id).collect();
        self.live.named(&edit.deleted).map(|(_, table)| table).filter(move |table| !moved.contains(&table.meta.id))
    }

    /// Installs the edit of a compaction in the live version. Calls `cancel_sync` for each input
    /// that the manifest may not name yet. `cancel_sync` returns true if it cancelled the input's
    /// sync before the sync started. An input whose sync was cancelled never becomes durable.
    /// Therefore the earlier edit that added this input can be committed only together with `edit`,
    /// which removes it. For this reason `cancel_sync` is called after every step that can fail.
    /// The outputs continue to use `linked` bytes of the inputs.
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
        self.pointers.extend(edit.compact_pointers.iter().cloned());
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

    /// Returns the version that results from the live version when `edit` is applied.
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
        // A WAL that replay may need is kept for the replay, even if no table points into it any
        // more. Its bytes already count as retained and must not be counted twice.
        let kept_anyway = |object| matches!(object, ObjectId::Wal(log) if log >= self.durable_replay_from);
        let unreferenced = dead_segments.filter(|(object, _)| !kept_anyway(*object)).map(|(_, bytes)| bytes);
        pending.retained_bytes = unreferenced.fold(pending.retained_bytes, u64::saturating_add);
        self.live = Arc::new(next);
        self.obsolete_files.pin(&self.live);
        self.pending.push(pending);
        self.live.clone()
    }

    /// Returns how many pending edits can be committed now, and their manifest records in order.
    /// Returns an error if the files of one of these edits can never become durable.
    pub fn committable(&mut self) -> Result<(usize, Vec<Edit>)> {
        let count = self.pending.committable()?;
        Ok((count, self.pending.records(count)))
    }

    /// Records that the first `count` pending edits, which were
    /// [`committable`](VersionSet::committable), are durable in the manifest. Returns the objects
    /// to delete, and the tables that the edits have replaced. The caller must drop the replaced
    /// tables while it holds no lock, because the drop may close files.
    pub fn mark_committed(&mut self, count: usize) -> Result<(Vec<ObjectId>, Vec<Arc<TableRef>>)> {
        let mut replaced = Vec::new();
        for CommittedRecord { edit, transient } in self.pending.take_committed(count) {
            let next = Arc::new(self.durable.apply(&self.order, &edit).map_err(inconsistent)?);
            self.durable_base = edit.last_sequence.unwrap_or(self.durable_base);
            self.durable_replay_from = edit.log_number.map_or(self.durable_replay_from, LogId);
            self.durable_pointers.extend(edit.compact_pointers);
            // The manifest records are applied one by one, because one record may delete a table
            // that an earlier record adds.
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

    /// Removes the objects that no version and no reader needs any more from the list of obsolete
    /// files, and returns them.
    pub fn removable(&mut self) -> Vec<ObjectId> {
        let removable = self.obsolete_files.take_deletable(&self.live, &self.durable);
        removable.iter().for_each(|object| self.segments.forget(*object));
        removable
    }

    /// Returns the largest sequence number in tables of the live version.
    pub fn base(&self) -> SeqNo {
        self.base
    }

    /// Returns the state from which a store with only the live version would start.
    pub fn live_start(&self) -> Start {
        Start {
            version: (*self.live).clone(),
            next_file: self.next_file,
            base: self.base,
            replay_from: self.replay_from,
            pointers: self.pointers.clone(),
            next_family: self.next_family,
        }
    }

    /// Returns the number of the next column family.
    pub fn next_family(&self) -> FamilyId {
        self.next_family
    }

    /// Creates or drops a column family in the live and in the durable version. The caller has
    /// recorded `change` in the manifest already, and ensures that no edit of a dropped family is
    /// pending. Returns the objects to delete.
    pub fn change_family(&mut self, change: FamilyChange) -> Result<Vec<ObjectId>> {
        if let FamilyChange::Created { id, .. } = &change {
            self.next_family = FamilyId(id.0 + 1);
        }
        let edit = Edit { families: vec![change], ..Edit::default() };
        let live = Arc::new(self.live.apply(&self.order, &edit).map_err(inconsistent)?);
        let durable = Arc::new(self.durable.apply(&self.order, &edit).map_err(inconsistent)?);
        let dropped = |old: &Version, new: &Version| -> Vec<_> {
            let is_gone = |(_, table): &(usize, &Arc<TableRef>)| !new.has_table(table.meta.id);
            old.all_tables().filter(is_gone).map(|(level, table)| (level, table.meta.id)).collect()
        };
        for (_, table) in dropped(&self.live, &live) {
            self.reserved_numbers.remove(&reserved_above(table));
        }
        let exists = |level: &usize| live.tree(FamilyId::of_level(*level).0).is_some();
        for pointers in [&mut self.pointers, &mut self.durable_pointers] {
            pointers.retain(|level, _| exists(level));
        }
        let tables = dropped(&self.durable, &durable);
        if !tables.is_empty() {
            self.obsolete_files.durable_advanced(
                &self.durable,
                &durable,
                (&tables, Vec::new()),
                self.durable_replay_from,
            );
        }
        (self.live, self.durable) = (live, durable);
        self.obsolete_files.pin(&self.live);
        Ok(self.removable())
    }

    /// Returns one edit that describes the whole durable version: the snapshot at the start of a
    /// new manifest. The pending edits will follow the snapshot in that manifest.
    pub fn snapshot(&mut self, requires: &[String]) -> Edit {
        self.pending.raise_next_file(self.next_file);
        let mut edit = Edit {
            requires: requires.to_vec(),
            families: self.family_changes(),
            comparator: Some(self.order.name().to_string()),
            log_number: Some(self.durable_replay_from.0),
            next_file_number: Some(self.next_file),
            last_sequence: Some(self.durable_base),
            ..Edit::default()
        };
        if self.next_family > FamilyId(1) && !edit.requires.iter().any(|feature| feature == COLUMN_FAMILIES) {
            edit.requires.push(COLUMN_FAMILIES.into());
        }
        let exists = |level: usize| self.durable.tree(FamilyId::of_level(level).0).is_some();
        let pointers = self.durable_pointers.iter().filter(|(level, _)| exists(**level));
        edit.compact_pointers.extend(pointers.map(|(level, pointer)| (*level, pointer.clone())));
        for (level, table) in self.durable.all_tables() {
            add_to(&mut edit, level, &table.meta);
        }
        edit
    }

    /// Returns the changes that create the column families of the durable version. If the family
    /// with the largest number was dropped, its drop is included too, so that the store does not
    /// assign its number again.
    fn family_changes(&self) -> Vec<FamilyChange> {
        let comparator = self.order.name().to_string();
        let families = self.durable.families();
        let mut changes: Vec<_> = families
            .iter()
            .map(|(id, family)| FamilyChange::Created {
                id: *id,
                name: family.name.to_string(),
                comparator: comparator.clone(),
            })
            .collect();
        let youngest = FamilyId(self.next_family.0 - 1);
        if youngest > FamilyId::DEFAULT && !families.contains_key(&youngest) {
            changes.push(FamilyChange::Dropped(youngest));
        }
        changes
    }
}

/// Returns the error for an edit that does not apply to a version. The cause is a bug or damaged
/// memory, never an argument of the caller. The version is unchanged after this error.
fn inconsistent(detail: String) -> Error {
    Error::Bug(detail)
}

/// The current manifest file. Only commits of pending edits use it, and they do its I/O while they
/// hold no lock other than the manifest lock.
pub struct Manifest {
    id: LogId,
    writer: Box<dyn LogWriter>,
    /// The size of the snapshot at the start of the manifest, in bytes.
    snapshot_bytes: u64,
    /// Whether a durable mark (an empty record) is appended after each sync.
    writes_marks: bool,
    /// The error after which the root file may name another manifest. If it is set, nothing more is
    /// appended to this manifest.
    doubt: Option<Error>,
}

impl Manifest {
    /// Creates manifest `id` with the edit `snapshot` at its start. The manifest is durable
    /// afterwards, but the root file does not name it yet.
    pub fn create(storage: &dyn Storage, id: LogId, snapshot: &Edit) -> Result<Manifest> {
        let create = || {
            let writer = storage.create_log(id, LogKind::Manifest, &snapshot.encode())?;
            writer.sync()?;
            Ok(writer)
        };
        let writer = create().inspect_err(|_: &Error| {
            // The manifest is incomplete after this error. If it cannot be removed, the next open
            // removes it.
            let _ = storage.remove(ObjectId::Manifest(id));
        })?;
        let snapshot_bytes = writer.bytes();
        let mut manifest = Manifest { id, writer, snapshot_bytes, writes_marks: storage.promises(), doubt: None };
        manifest.mark();
        Ok(manifest)
    }

    /// Appends a durable mark (an empty record), which states that all edits so far are durable.
    /// They are durable even without the mark. So an error is ignored here; the next append to the
    /// manifest returns it.
    fn mark(&mut self) {
        if self.writes_marks {
            let _ = self.writer.append(&[]);
        }
    }

    /// Appends `edits` in order and syncs the manifest once.
    pub fn log(&mut self, edits: &[Edit]) -> Result<()> {
        self.doubt.clone().map_or(Ok(()), Err)?;
        for edit in edits {
            self.writer.append(&edit.encode())?;
        }
        self.writer.sync()?;
        self.mark();
        Ok(())
    }

    /// Records that the root file may name another manifest, because of the error `why`.
    pub fn mark_uncertain(&mut self, why: &Error) {
        self.doubt = Some(why.clone());
    }

    /// Returns whether the root file certainly names this manifest.
    pub fn is_root(&self) -> bool {
        self.doubt.is_none()
    }

    /// Returns the number of the manifest.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Returns whether the manifest should be rewritten, because its edits have become larger than
    /// `limit` bytes or much larger than its snapshot.
    pub fn needs_rewrite(&self, limit: u64) -> bool {
        exceeds_limit(self.writer.bytes(), self.snapshot_bytes, limit)
    }
}

/// Returns whether a manifest is too large and should be rewritten. A manifest is not too large if
/// it is smaller than `limit` or smaller than twice its snapshot. There is one exception below
/// `limit`: a manifest of at least 1 MiB and at least eight times its snapshot is too large,
/// because most of it is obsolete. Otherwise the manifest of a small store could become larger
/// than the store.
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

    /// Tests the file numbers in a rewritten manifest. The snapshot at its start contains the next
    /// file number. An edit that was installed before the rewrite is appended after the snapshot,
    /// and must not contain a lower number. The reason: LevelDB uses the last such number in a
    /// manifest, and would use file numbers twice.
    #[test]
    fn pending_edits_after_a_snapshot_carry_no_lower_file_number() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        set.install_flush(Edit::default(), SeqNo(5), LogId(3), 0, Vec::new()).expect("the edit applies");
        (0..5).for_each(|_| assert!(set.new_number() < 15));
        let edits = [set.snapshot(&[])].into_iter().chain(set.committable().expect("the handle is durable").1);
        let said: Vec<_> = edits.map(|edit| edit.next_file_number).collect();
        assert_eq!(said, [Some(15), Some(15)], "numbers FALL");
    }

    /// Tests an edit that removes a table and is refused. The sync of the table must not be
    /// cancelled, because the edit that added the table still waits for it.
    #[test]
    fn a_refused_edit_cancels_no_sync() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        let key = terrace_format::key::lookup(b"a", SeqNo(1));
        let table =
            AddedTable { id: TableId(7), bytes: 9, within: None, run: 0, smallest: key, largest: vec![], refs: vec![] };
        let added = AddedTable { largest: table.smallest.clone(), ..table };
        let flush = Edit { added: vec![(0, added)], ..Edit::default() };
        let (handle, _completer) = DurabilityHandle::pending();
        set.install_flush(flush, SeqNo(5), LogId(3), 0, vec![handle]).expect("the edit applies");
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
