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
use super::{TableRef, Version, add_to, meta_of, retire::Retire, segments::Segments, spare_above};
use crate::{Error, Result};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};
use terrace_format::{KeyOrder, LEVELS, LogId, SeqNo, TableId, edit::Edit};
use terrace_storage::{
    Ticket,
    placement::{LogKind, LogWriter, ObjectId, Placement},
};

/// An installed edit that the manifest does not have yet.
#[derive(Debug)]
struct Pending {
    edit: Edit,
    /// One for each build that made its tables.
    tickets: Vec<Ticket>,
    compaction: bool,
    /// Bytes that go when it is released: of logs if it is a flush, else of tables.
    retains: u64,
}

/// Bytes that are kept because what replaces them is not known to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Of logs whose memtables were flushed.
    pub log_bytes: u64,
    /// Of tables that a compaction replaced, and of segments that nothing points into since.
    pub shadow_bytes: u64,
}

impl Retained {
    fn of(&mut self, pending: &Pending) -> &mut u64 {
        if pending.compaction { &mut self.shadow_bytes } else { &mut self.log_bytes }
    }
}

impl Pending {
    /// It is released behind `flush`, which was installed later: what the manifest says of numbers never falls.
    fn let_pass(&mut self, flush: &Edit) {
        self.edit.last_sequence = self.edit.last_sequence.max(flush.last_sequence);
        self.edit.next_file_number = self.edit.next_file_number.max(flush.next_file_number);
    }

    /// The manifest says `next_file` before it says this.
    fn not_below(&mut self, next_file: u64) {
        self.edit.next_file_number = self.edit.next_file_number.max(Some(next_file));
    }

    fn is_durable(&self) -> Result<bool> {
        let mut durable = true;
        for ticket in &self.tickets {
            durable &= ticket.is_durable().map_err(|error| Error::from(error).lasting())?;
        }
        Ok(durable)
    }
}

/// The versions and the numbers that go with them. Guarded by the control lock; does no I/O.
#[derive(Debug)]
pub struct VersionSet {
    order: KeyOrder,
    live: Arc<Version>,
    durable: Arc<Version>,
    pending: VecDeque<Pending>,
    /// Sums over `pending`.
    retained: Retained,
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
    pub retire: Retire,
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
        let mut retire = Retire::default();
        retire.pin(&version);
        retire.log_made(start.replay_from);
        VersionSet {
            order,
            live: version.clone(),
            durable: version,
            pending: VecDeque::new(),
            retained: Retained::default(),
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
        self.pending.iter().any(|pending| pending.compaction)
    }

    /// What is replaced but kept.
    pub fn retained(&self) -> Retained {
        self.retained
    }

    /// The same in one sum, in bytes.
    pub fn retained_bytes(&self) -> u64 {
        self.retained.log_bytes + self.retained.shadow_bytes
    }

    /// The memtables up to `base` are in tables of `edit`; replay begins at `replay_from`, behind about `log_bytes` of logs.
    pub fn install_flush(
        &mut self,
        mut edit: Edit,
        base: SeqNo,
        replay_from: LogId,
        log_bytes: u64,
        ticket: Ticket,
    ) -> Result<Arc<Version>> {
        debug_assert!(
            base >= self.base && replay_from >= self.replay_from,
            "flushes end in the order of their memtables"
        );
        (self.base, self.replay_from) = (base, replay_from);
        edit.log_number = Some(replay_from.0);
        self.install(edit, vec![ticket], false, log_bytes)
    }

    /// Tables were replaced by others.
    pub fn install_compaction(&mut self, edit: Edit, tickets: Vec<Ticket>) -> Result<Arc<Version>> {
        for (level, pointer) in &edit.compact_pointers {
            self.pointers[*level].clone_from(pointer);
        }
        for (_, table) in &edit.deleted {
            self.spares.remove(&spare_above(*table));
        }
        let moved: BTreeSet<_> = edit.added.iter().map(|(_, added)| added.id).collect();
        let gone = self.live.named(&edit.deleted).filter(|(_, table)| !moved.contains(&table.meta.id));
        let shadow_bytes = gone.map(|(_, table)| table.meta.bytes).sum();
        self.install(edit, tickets, true, shadow_bytes)
    }

    fn install(
        &mut self,
        mut edit: Edit,
        tickets: Vec<Ticket>,
        compaction: bool,
        retains: u64,
    ) -> Result<Arc<Version>> {
        let next = self.live.apply(&self.order, &edit).map_err(inconsistent)?;
        edit.last_sequence = Some(self.base);
        edit.next_file_number = Some(self.next_file);
        let gone = self.live.named(&edit.deleted).map(|(_, table)| &table.meta);
        let added: Vec<_> = edit.added.iter().map(|(_, added)| meta_of(added, 0)).collect();
        let dead = self.segments.replace(gone, &added).into_iter();
        // Logs that replay may need count as such already.
        let kept_anyway = |object| matches!(object, ObjectId::Wal(log) if log >= self.durable_replay_from);
        let retains = retains + dead.filter(|(object, _)| !kept_anyway(*object)).map(|(_, bytes)| bytes).sum::<u64>();
        self.live = Arc::new(next);
        self.retire.pin(&self.live);
        let pending = Pending { edit, tickets, compaction, retains };
        *self.retained.of(&pending) += retains;
        self.pending.push_back(pending);
        Ok(self.live.clone())
    }

    /// The edits that may enter the manifest now, in their order; the error if one of them, or of those behind, never can.
    pub fn releasable(&mut self) -> Result<Vec<Edit>> {
        let count = self.let_flushes_overtake()?;
        Ok(self.pending.iter().take(count).map(|pending| pending.edit.clone()).collect())
    }

    /// Moves flushes whose tables are durable before compactions whose tables are not; no flush passes another one. One that was
    /// installed while a compaction waits went into level 0 (`Shared::flush_level`). How many durable edits are at the front now.
    fn let_flushes_overtake(&mut self) -> Result<usize> {
        let mut front = 0;
        for at in 0..self.pending.len() {
            let pending = &self.pending[at];
            let durable = pending.is_durable()?;
            if durable && at == front {
                front += 1;
            } else if durable && !pending.compaction {
                let flush = self.pending.remove(at).expect("it was just looked at");
                self.pending.range_mut(front..at).for_each(|waiting| waiting.let_pass(&flush.edit));
                self.pending.insert(front, flush);
                front += 1;
            } else if !pending.compaction {
                break;
            }
        }
        Ok(front)
    }

    /// The first `count` edits, which were [`releasable`](VersionSet::releasable), are durable in the manifest. Returns what may
    /// be removed now; and the tables that were replaced, to be dropped under no lock, since that may close them.
    pub fn released(&mut self, count: usize) -> Result<(Vec<ObjectId>, Vec<Arc<TableRef>>)> {
        let mut replaced = Vec::new();
        for pending in self.pending.drain(..count) {
            *self.retained.of(&pending) -= pending.retains;
            let next = Arc::new(self.durable.apply(&self.order, &pending.edit).map_err(inconsistent)?);
            self.durable_base = pending.edit.last_sequence.unwrap_or(self.durable_base);
            self.durable_replay_from = pending.edit.log_number.map_or(self.durable_replay_from, LogId);
            for (level, pointer) in pending.edit.compact_pointers {
                self.durable_pointers[level] = pointer;
            }
            // Edit by edit: a table may come and go within one batch.
            self.retire.durable_moved(&self.durable, &next, &pending.edit.deleted, self.durable_replay_from);
            replaced.extend(self.durable.named(&pending.edit.deleted).map(|(_, table)| table.clone()));
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
        self.pending.iter_mut().for_each(|pending| pending.not_below(self.next_file));
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
    /// Why it may not be the root any more, and nothing may be appended to it.
    doubt: Option<Error>,
}

impl Manifest {
    /// Begins manifest `id` with `snapshot`, durable but not yet the root.
    pub fn create(placement: &dyn Placement, id: LogId, snapshot: &Edit) -> Result<Manifest> {
        let create = || {
            let writer = placement.create_log(id, LogKind::Manifest, &snapshot.encode())?;
            writer.sync()?;
            Ok(writer)
        };
        let writer = create().inspect_err(|_: &Error| {
            let _ = placement.remove(ObjectId::Manifest(id)); // half a manifest; best effort, the next open removes it too
        })?;
        let begun_bytes = writer.bytes();
        Ok(Manifest { id, writer, begun_bytes, doubt: None })
    }

    /// Appends edits, in order, and makes them durable with one sync.
    pub fn log(&mut self, edits: &[Edit]) -> Result<()> {
        self.doubt.clone().map_or(Ok(()), Err)?;
        for edit in edits {
            self.writer.append(&edit.encode())?;
        }
        Ok(self.writer.sync()?)
    }

    /// Another manifest may have become the root, or not.
    pub fn doubt(&mut self, why: &Error) {
        self.doubt = Some(why.clone());
    }

    /// Its number.
    pub fn id(&self) -> LogId {
        self.id
    }

    /// Whether it has outgrown `limit` bytes by edits, not by the size of the store that it began with.
    pub fn overlong(&self, limit: u64) -> bool {
        self.writer.bytes() > limit.max(2 * self.begun_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A manifest that began anew said the next file number, and what was installed before said a lower one behind it: LevelDB
    /// believes the last, and would have given numbers that are taken.
    #[test]
    fn what_waits_says_no_lower_number_behind_a_snapshot() {
        let mut set = VersionSet::new(KeyOrder::Bytewise, Start { next_file: 10, ..Start::default() });
        set.install_flush(Edit::default(), SeqNo(5), LogId(3), 0, Ticket::mature()).expect("nothing contradicts it");
        (0..5).for_each(|_| assert!(set.new_number() < 15));
        let edits = [set.snapshot(&[])].into_iter().chain(set.releasable().expect("it is mature"));
        let said: Vec<_> = edits.map(|edit| edit.next_file_number).collect();
        assert_eq!(said, [Some(15), Some(15)], "numbers FALL");
    }
}
