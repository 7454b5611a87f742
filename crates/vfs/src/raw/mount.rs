//! A mount: a formatted device in use. A mount contains the file list, the slot journal and the
//! free space, and it orders their changes.
//!
//! A call that changes the file list writes a journal entry to the device before it returns, so a
//! kill of the process loses no entry. Each flush makes the journal entries durable, together with
//! the bytes of the files for which the flush is made. If a journal write, a flush, or the last
//! write of a closed file fails, the state of the device is unknown. The mount then refuses all
//! further writes and syncs.
use super::{
    error::io,
    journal::Journal,
    space::Space,
    table::{FileList, Run},
    unflushed::{Flushing, Unflushed},
};
use crate::process::Process;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
use std::{
    any::Any,
    collections::HashMap,
    io::{Error, ErrorKind, Result},
    ops::Range,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
};
use terrace_device::{BlockDevice, Stream};
use terrace_format::raw::{Change, PAGE, Superblock};

/// If more than one in this many slots is stale (free, although the drive still considers the slot
/// in use), stale slots are discarded.
const STALE_SHARE: usize = 32;

/// A device in use. Lock order: the lock of a file's contents; then `flushing` or `discarding`,
/// never both; then `state`; then `unflushed`. While `state` is held, the only I/O is that of the
/// slot journal. A checkpoint of the journal flushes the device.
pub struct Mount {
    pub device: Arc<dyn BlockDevice>,
    pub superblock: Superblock,
    /// Whether only whole pages are written to the device.
    pub padding: bool,
    pub(super) state: Mutex<State>,
    /// Tracks running flushes. A thread that flushes the device holds this lock shared, so that a
    /// short flush of a WAL need not wait for a long flush of a table. A thread that holds this
    /// lock exclusively knows that no flush is running.
    flushing: RwLock<()>,
    /// Locked while stale slots (free slots that the drive still considers in use) are discarded.
    discarding: Mutex<()>,
    unflushed: Mutex<Unflushed>,
    /// Signalled when a flush has finished.
    flushed: Condvar,
    /// Whether this mount has ended. The open files of an ended mount can be read but not written.
    ended: AtomicBool,
    process: Process,
}

/// The part of an open file that its mount uses.
pub trait OpenFile: Any + Send + Sync {
    /// Returns the slots of the file.
    fn runs(&self) -> Vec<Run>;
}

pub(super) struct State {
    pub table: FileList,
    pub journal: Journal,
    space: Space,
    /// Open files, by file number.
    pub open: HashMap<u64, Weak<dyn OpenFile>>,
    broken: Option<String>,
}

impl State {
    fn check_not_broken(&self) -> Result<()> {
        let disabled = |why| Err(Error::other(format!("writes to the device are disabled: {why}")));
        self.broken.as_ref().map_or(Ok(()), disabled)
    }
}

/// A running flush of some files. When this value is dropped, other flushes of these files may
/// begin.
struct RunningFlush<'a> {
    mount: &'a Mount,
    flushing: Flushing,
}

impl Drop for RunningFlush<'_> {
    fn drop(&mut self) {
        self.mount.unflushed.lock().end(&self.flushing);
        self.mount.flushed.notify_all();
    }
}

impl Mount {
    /// Loads the contents of the device that `superblock` describes. Writes nothing.
    pub fn load(device: Arc<dyn BlockDevice>, superblock: Superblock, padding: bool) -> Result<Arc<Mount>> {
        let (journal, table) = Journal::load(device, &superblock)?;
        Ok(Mount::of(journal, superblock, table, padding))
    }

    /// Mounts the device read-only with the given file list, without reading the journal.
    pub fn read_only(device: Arc<dyn BlockDevice>, superblock: Superblock, table: FileList) -> Arc<Mount> {
        let mount = Mount::of(Journal::empty(device, &superblock), superblock, table, true);
        mount.ended.store(true, Ordering::SeqCst);
        mount
    }

    fn of(journal: Journal, superblock: Superblock, table: FileList, padding: bool) -> Arc<Mount> {
        let space = Space::new(superblock.sizes().unit_slots, table.owners());
        Arc::new(Mount {
            device: journal.device.clone(),
            superblock,
            padding,
            state: Mutex::new(State { table, journal, space, open: HashMap::new(), broken: None }),
            flushing: RwLock::default(),
            discarding: Mutex::default(),
            unflushed: Mutex::default(),
            flushed: Condvar::new(),
            ended: AtomicBool::new(false),
            process: Process::current(),
        })
    }

    /// Returns whether this process mounted the device. In a forked child, which has only a copy of
    /// the mount, the result is false.
    pub fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    /// Ends all writing by this mount, because another process may write to the device from now on.
    /// Returns true in the first call.
    pub fn expire(&self) -> bool {
        !self.ended.swap(true, Ordering::SeqCst)
    }

    /// Ends the mount. The caller must still hold the device's lock, so that no other process can
    /// have begun to write.
    pub fn end(&self) {
        if !self.is_ours() || !self.expire() {
            return;
        }
        self.discard(&self.discarding.lock(), 0);
        let mut state = self.state.lock();
        let State { table, journal, broken: None, .. } = &mut *state else { return };
        journal.record_flushed(table);
    }

    /// Returns the number of slots that are free, or will be free after a flush or a discard.
    pub fn free_slots(&self) -> u64 {
        self.state.lock().space.free_slots()
    }

    /// Reads the journal again, checks the invariants, and returns the violations. There must be no
    /// writer.
    pub fn problems(&self) -> Result<Vec<String>> {
        let unnamed_files: Vec<Arc<dyn OpenFile>> = {
            let state = self.state.lock();
            let nameless = state.open.iter().filter(|(number, _)| state.table.file(**number).is_none());
            nameless.filter_map(|(_, file)| file.upgrade()).collect()
        };
        // The lock order requires that locks of file contents are taken before `state`. So the
        // slots of these files are read first.
        let held: Vec<Run> = unnamed_files.iter().flat_map(|file| file.runs()).collect();
        let state = self.state.lock();
        let mut found = state.table.problems();
        found.extend(state.space.problems(state.table.owners(), &held));
        if Journal::load(self.device.clone(), &self.superblock)?.1 != state.table {
            found.push("the file list differs from the slot journal".into());
        }
        Ok(found)
    }

    /// Gives the file `from` the name `to`. With `instead`, the file loses the name `from`. If
    /// another file has the name `to`, the other file loses this name.
    pub fn name(&self, from: &str, to: &str, instead: bool) -> Result<()> {
        let mut state = self.changing()?;
        let file = state.table.find(from).ok_or(ErrorKind::NotFound)?;
        let name = Change::Name { file, name: to.into() };
        if instead && from != to {
            return self.record(&mut state, &[name, Change::Unname { name: from.into() }]);
        }
        if !instead && state.table.find(to).is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        self.record(&mut state, &[name])
    }

    /// Removes a name. A file without a name is removed, and its slots are freed when its last open
    /// handle is dropped.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.changing()?;
        state.table.find(name).ok_or(ErrorKind::NotFound)?;
        self.record(&mut state, &[Change::Unname { name: name.into() }])?;
        drop(state);
        self.discard_many();
        Ok(())
    }

    /// Returns whether the file still has a name.
    pub fn is_named(&self, file: u64) -> Result<bool> {
        Ok(self.changing()?.table.file(file).is_some())
    }

    /// Records the length of a plain file in the file list, unless the file's last name was removed
    /// in the meantime.
    pub fn set_bytes(&self, file: u64, bytes: u64) -> Result<()> {
        let mut state = self.changing()?;
        let is_named = state.table.file(file).is_some();
        if is_named { self.record(&mut state, &[Change::Bytes { file, bytes }]) } else { Ok(()) }
    }

    /// Allocates `count` more slots for a file. `after` is the file's last slot. Returns
    /// `StorageFull` if fewer slots are free.
    pub fn allocate(&self, file: u64, count: u64, after: Option<u32>) -> Result<Vec<Run>> {
        match self.try_allocate(file, count, after) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                self.reclaim()?;
                let _no_discard = self.discarding.lock();
                self.try_allocate(file, count, after)
            }
            taken => taken,
        }
    }

    fn try_allocate(&self, file: u64, count: u64, after: Option<u32>) -> Result<Vec<Run>> {
        let mut state = self.changing()?;
        let stream = state.table.file(file).ok_or(ErrorKind::NotFound)?.stream;
        if state.space.free_now() < count {
            return Err(Error::new(ErrorKind::StorageFull, "the device has no free slot"));
        }
        let (mut runs, mut last): (Vec<Run>, _) = (Vec::new(), after);
        for _ in 0..count {
            let slot = state.space.take(stream, last).expect("so many are free");
            last = Some(slot);
            match runs.last_mut() {
                Some(run) if run.first + run.count == slot => run.count += 1,
                _ => runs.push(Run { first: slot, count: 1 }),
            }
        }
        let changes = runs.iter().map(|run| Change::Slots { file, first: run.first, count: run.count });
        let changes: Vec<_> = changes.collect();
        self.record(&mut state, &changes).inspect_err(|_| state.space.free(&runs))?;
        Ok(runs)
    }

    /// Makes freed slots reusable. Flushes the device if there are freed slots, and waits for
    /// running flushes, which may make further slots reusable.
    fn reclaim(&self) -> Result<()> {
        let wants_flush = self.state.lock().space.wants_flush();
        if wants_flush {
            self.flush_names()?;
        }
        // Slots that were freed earlier may become reusable at the end of a running flush, so this
        // thread waits for it.
        drop(self.flushing.write());
        Ok(())
    }

    /// Makes all bytes written to `file`, and the file list, durable.
    pub fn flush(&self, file: u64) -> Result<()> {
        self.flush_begun(|unflushed| unflushed.begin(file))
    }

    /// Makes the file list durable.
    pub fn flush_names(&self) -> Result<()> {
        self.flush_ranges(Vec::new())
    }

    /// Makes the file list durable, and all files that are [due](Mount::is_due) (wait for a
    /// commit).
    pub fn commit(&self) -> Result<()> {
        self.flush_begun(Unflushed::begin_commit)
    }

    /// Waits until `begin` allows a flush, then runs the flush.
    fn flush_begun(&self, begin: impl Fn(&mut Unflushed) -> Option<Flushing>) -> Result<()> {
        let mut unflushed = self.unflushed.lock();
        let flushing = loop {
            match begin(&mut unflushed) {
                Some(flushing) => break flushing,
                None => self.flushed.wait(&mut unflushed),
            }
        };
        drop(unflushed);
        let mut begun = RunningFlush { mount: self, flushing };
        self.flush_ranges(std::mem::take(&mut begun.flushing.ranges))
    }

    /// Adds `file` to the files that the next [`commit`](Mount::commit) makes durable.
    pub fn is_due(&self, file: u64) {
        self.unflushed.lock().is_due(file);
    }

    /// Flushes `ranges` of the device and the slot journal, if any part of them is unflushed.
    /// Afterwards the slots that durable journal entries have freed may be reused.
    fn flush_ranges(&self, mut ranges: Vec<Range<u64>>) -> Result<()> {
        let _shared = self.flushing.read();
        let (freed, journal, mark) = {
            let mut state = self.changing()?;
            (state.space.flushing(), state.journal.unflushed(), state.journal.mark())
        };
        let outcome = match journal {
            None => self.device.flush(),
            Some(journal) => {
                ranges.extend((!journal.is_empty()).then_some(journal));
                if ranges.is_empty() { Ok(()) } else { self.device.flush_ranges(&ranges) }
            }
        };
        let mut state = self.state.lock();
        if let Err(error) = outcome.map_err(io) {
            state.broken.get_or_insert_with(|| format!("a flush failed: {error}"));
            return Err(error);
        }
        // If a parallel flush has failed, the bytes that it lost may be in these ranges too.
        state.check_not_broken()?;
        state.space.reuse(&freed);
        state.journal.flushed(mark);
        Ok(())
    }

    /// Discards stale slots (free slots that the drive still considers in use) if there are many
    /// and no other thread is discarding.
    pub fn discard_many(&self) {
        let Some(one) = self.discarding.try_lock() else { return };
        if self.check().is_ok() {
            self.discard(&one, self.superblock.slots() as usize / STALE_SHARE);
        }
    }

    /// Discards stale slots if there are more than `kept`.
    fn discard(&self, _one: &MutexGuard<'_, ()>, kept: usize) {
        let stale = match &mut *self.state.lock() {
            State { broken: Some(_), .. } => return,
            State { space, .. } => space.take_stale(kept),
        };
        for run in &stale {
            let bytes = u64::from(run.count) * u64::from(self.superblock.sizes().slot_bytes);
            // The result is ignored: a discard is only a hint, and the drive may not support it.
            let _ = self.device.discard(self.superblock.slot_at(run.first), bytes);
        }
        self.state.lock().space.discarded(&stale);
    }

    /// Writes to the slots of `file`: whole pages, or parts of them without
    /// [`padding`](Mount::padding).
    pub fn write(&self, file: u64, at: u64, bytes: &[u8], stream: u8) -> Result<()> {
        drop(self.changing()?);
        // Stream 0 belongs to the journal.
        let stream = Stream(stream + 1);
        let page = PAGE as u64;
        let is_whole = at.is_multiple_of(page) && (bytes.len() as u64).is_multiple_of(page);
        let written =
            if is_whole { self.device.write_at(at, bytes, stream) } else { self.device.write_part(at, bytes, stream) };
        let written = written.map_err(io);
        // The write is recorded as unflushed after it was made. In the opposite order, a flush
        // between the two steps would remove the record without covering the write.
        self.unflushed.lock().wrote(file, at, bytes.len() as u64);
        written
    }

    /// Marks the mount as broken. Called if the last bytes of a closed file could not be written:
    /// the writer of the file got no error, so later syncs must report it.
    pub fn write_failed(&self, why: &Error) {
        if !self.ended.load(Ordering::SeqCst) {
            self.state.lock().broken.get_or_insert_with(|| format!("a file could not be written: {why}"));
        }
    }

    /// Ends the use of a file whose last handle was closed. If the file has no name any more, the
    /// call frees the file's slots.
    pub fn closed(&self, number: u64, file: &dyn OpenFile) {
        let mut state = self.state.lock();
        if state.open.get(&number).is_some_and(|known| std::ptr::addr_eq(known.as_ptr(), file)) {
            state.open.remove(&number);
            if state.table.file(number).is_none() {
                state.space.release(file.runs());
                self.unflushed.lock().forget(number);
            }
        }
    }

    fn check(&self) -> Result<()> {
        if self.ended.load(Ordering::SeqCst) {
            return Err(Error::other("the store of this file is closed"));
        }
        Ok(())
    }

    pub(super) fn changing(&self) -> Result<MutexGuard<'_, State>> {
        self.check()?;
        let state = self.state.lock();
        state.check_not_broken()?;
        Ok(state)
    }

    /// Applies `changes` to the file list and writes them to the journal as one entry.
    pub(super) fn record(&self, state: &mut State, changes: &[Change]) -> Result<()> {
        // The file list must stay small enough that its checkpoint fits into a half of the journal
        // and leaves room for later entries.
        let grows = changes.iter().any(|change| !matches!(change, Change::Unname { .. } | Change::Bytes { .. }));
        if grows && state.table.weight() as u64 > self.superblock.journal_bytes() / 2 {
            return Err(Error::new(ErrorKind::StorageFull, "the slot journal is full: too many files"));
        }
        let outcome = self.apply(state, changes);
        if let Err(error) = &outcome {
            state.broken = Some(format!("the slot journal could not be written: {error}"));
        }
        outcome
    }

    fn apply(&self, state: &mut State, changes: &[Change]) -> Result<()> {
        for change in changes {
            let before = match change {
                Change::Name { name, .. } | Change::Unname { name } => state.table.find(name),
                _ => None,
            };
            let freed = state.table.apply(change).map_err(Error::other)?;
            // The slots of an open file are freed when its last handle is closed.
            if let Some(number) = before.filter(|number| !state.open.contains_key(number)) {
                state.space.release(freed);
                if state.table.file(number).is_none() {
                    self.unflushed.lock().forget(number);
                }
            }
        }
        state.journal.append(changes, &state.table)
    }
}
