//! A formatted device in use: its list of files, its slot journal, its space, and the order in which they change.
//!
//! A record is handed to the device before the call that made it returns, so a killed process loses none; every flush makes it durable, and
//! those bytes of files that it is for. After a write to the journal, a flush, or the last write of a file that was closed has failed, what the
//! device holds is unknown: nothing is written, and nothing promised, any more.
use super::{
    error::io,
    journal::Journal,
    space::Space,
    table::{Run, Table},
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

/// One of so many slots may be stale.
const STALE_SHARE: usize = 32;

/// A device in use. Locks: a file's contents; `flushing` or `discarding`, neither under the other; `state`; `unflushed`. The only I/O under `state`
/// is that of the slot journal, whose checkpoint flushes the device.
pub struct Mount {
    pub device: Arc<dyn BlockDevice>,
    pub superblock: Superblock,
    /// Whether only whole pages are written.
    pub padding: bool,
    pub(super) state: Mutex<State>,
    /// Shared by device flushes, which run side by side: those of tables take their time, and a log must not wait for them. Who has it
    /// alone finds every one of them over.
    flushing: RwLock<()>,
    /// Held while stale slots are discarded.
    discarding: Mutex<()>,
    unflushed: Mutex<Unflushed>,
    /// Signalled when a flush is over.
    flushed: Condvar,
    /// Whoever had it in use has let go: what is still open may read, and write no more.
    ended: AtomicBool,
    process: Process,
}

/// An open file as its mount knows it.
pub trait OpenFile: Any + Send + Sync {
    /// The slots of the file.
    fn runs(&self) -> Vec<Run>;
}

pub(super) struct State {
    pub table: Table,
    pub journal: Journal,
    space: Space,
    /// Files that are open.
    pub open: HashMap<u64, Weak<dyn OpenFile>>,
    broken: Option<String>,
}

impl State {
    fn unbroken(&self) -> Result<()> {
        let told = |why| Err(Error::other(format!("the device is not written any more since {why}")));
        self.broken.as_ref().map_or(Ok(()), told)
    }
}

/// A flush that has begun for some files. Its end lets others begin for them.
struct Begun<'a> {
    mount: &'a Mount,
    flushing: Flushing,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.mount.unflushed.lock().end(&self.flushing);
        self.mount.flushed.notify_all();
    }
}

impl Mount {
    /// Reads what `superblock` says is there. Writes nothing.
    pub fn load(device: Arc<dyn BlockDevice>, superblock: Superblock, padding: bool) -> Result<Arc<Mount>> {
        let (journal, table) = Journal::load(device, &superblock)?;
        Ok(Mount::of(journal, superblock, table, padding))
    }

    /// What `table` says is there, whatever the journal does. Nothing is ever written.
    pub fn shown(device: Arc<dyn BlockDevice>, superblock: Superblock, table: Table) -> Arc<Mount> {
        let shown = Mount::of(Journal::unread(device, &superblock), superblock, table, true);
        shown.ended.store(true, Ordering::SeqCst);
        shown
    }

    fn of(journal: Journal, superblock: Superblock, table: Table, padding: bool) -> Arc<Mount> {
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

    /// Whether the calling process has the device in use, not one that was forked from it and has but a copy of this.
    pub fn is_ours(&self) -> bool {
        self.process.is_current()
    }

    /// From now on nothing is written, as somebody else may. Whether that is new.
    pub fn expire(&self) -> bool {
        !self.ended.swap(true, Ordering::SeqCst)
    }

    /// The use of the device ends, while nobody else can have begun one.
    pub fn end(&self) {
        if !self.is_ours() || !self.expire() {
            return;
        }
        self.discard(&self.discarding.lock(), 0);
        let mut state = self.state.lock();
        let State { table, journal, broken: None, .. } = &mut *state else { return };
        journal.tell(table);
    }

    /// Slots that are free, or will be after a flush or a discard.
    pub fn free_slots(&self) -> u64 {
        self.state.lock().space.free_slots()
    }

    /// What is not as it must be. Reads the journal again. Nobody may be writing.
    pub fn problems(&self) -> Result<Vec<String>> {
        let gone: Vec<Arc<dyn OpenFile>> = {
            let state = self.state.lock();
            let nameless = state.open.iter().filter(|(number, _)| state.table.file(**number).is_none());
            nameless.filter_map(|(_, file)| file.upgrade()).collect()
        };
        let held: Vec<Run> = gone.iter().flat_map(|file| file.runs()).collect(); // whose lock comes first
        let state = self.state.lock();
        let mut found = state.table.problems();
        found.extend(state.space.problems(state.table.owners(), &held));
        if Journal::load(self.device.clone(), &self.superblock)?.1 != state.table {
            found.push("the list of files is not what the slot journal says".into());
        }
        Ok(found)
    }

    /// Gives `from`'s file the name `to` as well, or instead; who had the name `to` loses it.
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

    /// Removes a name; its file goes with the last one, its slots when nobody reads it any more.
    pub fn remove(&self, name: &str) -> Result<()> {
        let mut state = self.changing()?;
        state.table.find(name).ok_or(ErrorKind::NotFound)?;
        self.record(&mut state, &[Change::Unname { name: name.into() }])?;
        drop(state);
        self.discard_many();
        Ok(())
    }

    /// Whether the file still has a name.
    pub fn is_named(&self, file: u64) -> Result<bool> {
        Ok(self.changing()?.table.file(file).is_some())
    }

    /// Notes a plain file's length, unless it has lost its name meanwhile: then nobody will look for it.
    pub fn set_bytes(&self, file: u64, bytes: u64) -> Result<()> {
        let mut state = self.changing()?;
        let is_named = state.table.file(file).is_some();
        if is_named { self.record(&mut state, &[Change::Bytes { file, bytes }]) } else { Ok(()) }
    }

    /// Takes `count` more slots for a file whose last one is `after`. `StorageFull` if there are not so many.
    pub fn allocate(&self, file: u64, count: u64, after: Option<u32>) -> Result<Vec<Run>> {
        match self.try_allocate(file, count, after) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                self.reclaim()?;
                let _none_is_being_discarded = self.discarding.lock();
                self.try_allocate(file, count, after)
            }
            taken => taken,
        }
    }

    fn try_allocate(&self, file: u64, count: u64, after: Option<u32>) -> Result<Vec<Run>> {
        let mut state = self.changing()?;
        let stream = state.table.file(file).ok_or(ErrorKind::NotFound)?.stream;
        if state.space.free_now() < count {
            return Err(Error::new(ErrorKind::StorageFull, "no slot of the device is free"));
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

    /// Makes freed slots reusable, at the cost of a flush if there are any. Those that somebody else flushes are so at return, too.
    fn reclaim(&self) -> Result<()> {
        let wants_flush = self.state.lock().space.wants_flush();
        if wants_flush {
            self.flush_names()?;
        }
        drop(self.flushing.write()); // whoever took freed slots before did so as one of those who flush
        Ok(())
    }

    /// What was written to `file` so far survives a power cut, and the list of files as it is.
    pub fn flush(&self, file: u64) -> Result<()> {
        self.flush_begun(|unflushed| unflushed.begin(file))
    }

    /// The list of files survives a power cut.
    pub fn flush_names(&self) -> Result<()> {
        self.flush_ranges(Vec::new())
    }

    /// The list of files survives a power cut, and all files that are [due](Mount::is_due).
    pub fn commit(&self) -> Result<()> {
        self.flush_begun(Unflushed::begin_commit)
    }

    /// Carries out what `begin` begins, once it can.
    fn flush_begun(&self, begin: impl Fn(&mut Unflushed) -> Option<Flushing>) -> Result<()> {
        let mut unflushed = self.unflushed.lock();
        let flushing = loop {
            match begin(&mut unflushed) {
                Some(flushing) => break flushing,
                None => self.flushed.wait(&mut unflushed),
            }
        };
        drop(unflushed);
        let mut begun = Begun { mount: self, flushing };
        self.flush_ranges(std::mem::take(&mut begun.flushing.ranges))
    }

    /// The next [`commit`](Mount::commit) is for `file`, too.
    pub fn is_due(&self, file: u64) {
        self.unflushed.lock().is_due(file);
    }

    /// Flushes `ranges` and the slot journal, if there is anything to flush; what the journal has freed may be given out then.
    fn flush_ranges(&self, mut ranges: Vec<Range<u64>>) -> Result<()> {
        let _one_of_some = self.flushing.read();
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
        state.unbroken()?; // what another was told has failed may have been for this one, too
        state.space.reuse(&freed);
        state.journal.flushed(mark);
        Ok(())
    }

    /// Tells the device that nobody will read stale slots again, if they are many and nobody is about to.
    pub fn discard_many(&self) {
        let Some(one) = self.discarding.try_lock() else { return };
        if self.check().is_ok() {
            self.discard(&one, self.superblock.slots() as usize / STALE_SHARE);
        }
    }

    /// The same where more than `kept` of them are stale.
    fn discard(&self, _one: &MutexGuard<'_, ()>, kept: usize) {
        let stale = match &mut *self.state.lock() {
            State { broken: Some(_), .. } => return,
            State { space, .. } => space.take_stale(kept),
        };
        for run in &stale {
            let bytes = u64::from(run.count) * u64::from(self.superblock.sizes().slot_bytes);
            let _ = self.device.discard(self.superblock.slot_at(run.first), bytes); // a hint: a drive may not know it
        }
        self.state.lock().space.discarded(&stale);
    }

    /// Writes to the slots of `file`: whole pages, or parts of them without [`padding`](Mount::padding).
    pub fn write(&self, file: u64, at: u64, bytes: &[u8], stream: u8) -> Result<()> {
        drop(self.changing()?);
        let stream = Stream(stream + 1); // stream 0 is the journal's
        let page = PAGE as u64;
        let is_whole = at.is_multiple_of(page) && (bytes.len() as u64).is_multiple_of(page);
        let written =
            if is_whole { self.device.write_at(at, bytes, stream) } else { self.device.write_part(at, bytes, stream) };
        let written = written.map_err(io);
        self.unflushed.lock().wrote(file, at, bytes.len() as u64); // afterwards, or a flush between could miss it
        written
    }

    /// A file was closed whose last bytes could not be written, which nobody was told: nothing is promised any more.
    pub fn lost(&self, why: &Error) {
        if !self.ended.load(Ordering::SeqCst) {
            self.state.lock().broken.get_or_insert_with(|| format!("a file could not be written: {why}"));
        }
    }

    /// Called by a file that nobody has open any more.
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
            return Err(Error::other("the store that this file was opened in is closed"));
        }
        Ok(())
    }

    pub(super) fn changing(&self) -> Result<MutexGuard<'_, State>> {
        self.check()?;
        let state = self.state.lock();
        state.unbroken()?;
        Ok(state)
    }

    /// Makes `changes` to the list and writes them down, as one.
    pub(super) fn record(&self, state: &mut State, changes: &[Change]) -> Result<()> {
        // A checkpoint must fit into a half of the journal, and leave room for what follows.
        let grows = changes.iter().any(|change| !matches!(change, Change::Unname { .. } | Change::Bytes { .. }));
        if grows && state.table.weight() as u64 > self.superblock.journal_bytes() / 2 {
            return Err(Error::new(ErrorKind::StorageFull, "the slot journal has no room for more files"));
        }
        let outcome = self.apply(state, changes);
        if let Err(error) = &outcome {
            state.broken = Some(format!("its journal could not be written: {error}"));
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
            // A file that is open keeps its slots until it is closed.
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
