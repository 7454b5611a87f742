//! The write path: join a group, make room, append to the log, insert into the memtable, publish.
mod again;
pub mod group;
#[cfg(all(test, loom))]
mod interleavings;
mod jump;
mod owed;
mod resume;
mod stall;
mod unlogged;
pub mod wal;

use crate::{
    Error, Event, Options, Result,
    bounds::Bounds,
    mem::MemTable,
    read::view::View,
    state::{Control, Shared},
    sync::ready_soon,
};
pub use group::Own;
use group::{Lead, Queue, Turn};
use owed::Owed;
use stall::{Room, room};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_format::{LogId, SeqNo, TableId, batch, batch::Batch, edit::Edit};
use terrace_storage::{
    Awaited, Ticket, nap,
    placement::{LogKind, LogWriter, ObjectId},
};
use unlogged::Unlogged;
use wal::Wal;

/// LevelDB's brake: each write gives compaction this much time once level 0 grows long.
const DELAY: Duration = Duration::from_millis(1);
/// A buffer for single operations is kept up to this size.
const SPARE_BYTES_MAX: usize = 64 << 10;
/// A group of at least this size is worth passing the baton on for before its insert, even if nobody waits yet.
const LONG_INSERT_BYTES: usize = 64 << 10;
/// How often to look whether a long insert is over.
const LONG_INSERT_LOOK: Duration = Duration::from_micros(100);

/// The writers of one store. One leads at a time: see [`group`].
pub struct Writes {
    queue: Queue<Box<Core>>,
}

/// The baton: what the leader of a write group, or a flush that seals, has to itself during its I/O.
struct Core {
    wal: Wal,
    /// The last sequence given away. Ahead of the visible one while groups are being inserted.
    last: SeqNo,
    /// The active memtable, as in the view.
    mem: Arc<MemTable>,
    /// A buffer for the next single operation.
    spare: Option<Batch>,
    owed: Owed,
    /// Seconds that writers owe for each byte.
    pace: f64,
    /// The news that the pace, and the leave to go on, go by.
    seen: Option<u64>,
    pulse: Pulse,
    unlogged: Unlogged,
}

impl Core {
    /// Whether memtable or log have to end.
    fn is_full(&self, options: &Options) -> bool {
        self.mem.charged_bytes() > options.memtable_bytes || self.wal.is_full()
    }
}

/// What the last synced group was like: how many writers come at once, and what a sync takes.
#[derive(Default)]
struct Pulse {
    writers: usize,
    sync_time: Duration,
}

impl Writes {
    /// Writing goes on behind `last`, into `wal` and `mem`.
    pub fn new(wal: Wal, last: SeqNo, mem: Arc<MemTable>) -> Writes {
        let core = Core {
            wal,
            last,
            mem,
            spare: None,
            owed: Owed::default(),
            pace: 0.0,
            seen: None,
            pulse: Pulse::default(),
            unlogged: Unlogged::default(),
        };
        Writes { queue: Queue::new(Box::new(core)) }
    }

    /// Writes, alone or as part of a group, and returns the sequence of the last operation that was written with or
    /// before it. An empty synced batch makes everything before it durable.
    pub fn write(&self, shared: &Arc<Shared>, own: Own<'_>, sync: bool) -> Result<SeqNo> {
        match self.queue.join(own, sync) {
            Turn::Done(outcome) => outcome,
            Turn::Lead(mut lead, own) => {
                let outcome = self.lead(shared, &mut lead, own, sync);
                let told = lead.tell(outcome);
                if told.is_err() {
                    shared.wake_failed();
                } else if sync {
                    shared.wake_durable();
                }
                told
            }
        }
    }

    fn lead(&self, shared: &Arc<Shared>, lead: &mut Lead<'_, Box<Core>>, own: Own<'_>, sync: bool) -> Result<SeqNo> {
        let core = lead.baton();
        let mut batch = match own {
            Own::Many(batch) => batch,
            Own::One(op) => {
                let mut batch = core.spare.take().unwrap_or_default();
                batch.clear();
                batch.add(op);
                batch
            }
            Own::Alone => Batch::new(),
        };
        if batch.is_empty() {
            shared.check_writable(&shared.control.lock())?;
        } else {
            make_room(shared, core, batch.byte_len())?;
        }
        if lead.baton().unlogged.last.is_some() {
            unlogged::go_on_with_a_log(shared, lead.baton(), sync)?;
        }
        if sync {
            self.gather(shared, &lead.baton().pulse);
        }
        let own_bytes = batch.byte_len();
        lead.collect(&mut batch, sync);
        let core = lead.baton();
        core.owed.owe(core.pace * (batch.byte_len() - own_bytes) as f64); // who was taken along has paid nothing
        commit(shared, lead, batch, sync)
    }

    /// The writers whom the last sync served are about to come back: waits for them a little, lest every second sync serve
    /// one writer alone.
    fn gather(&self, shared: &Shared, pulse: &Pulse) {
        let wait_max = Duration::from_micros(shared.options.group_wait_us).min(pulse.sync_time / 2);
        if wait_max.is_zero() || self.queue.waiting() + 1 >= pulse.writers {
            return;
        }
        let end = shared.clock.now() + wait_max;
        while self.queue.waiting() + 1 < pulse.writers && shared.clock.now() < end {
            thread::yield_now();
        }
    }

    /// Seals the active memtable, if it has anything, and starts a new log.
    pub fn seal(&self, shared: &Arc<Shared>) -> Result<()> {
        let Turn::Lead(mut lead, _) = self.queue.join(Own::Alone, false) else {
            return Err(Error::Bug("somebody who wanted the baton alone was taken along".into()));
        };
        let core = lead.baton();
        shared.check_writable(&shared.control.lock())?;
        shared.wait_until(|_| (shared.view.load().sealed.len() as u64) + 1 < shared.options.memtables_max)?;
        if core.mem.is_empty() { Ok(()) } else { change_log(shared, core) }
    }
}

impl Core {
    /// The last sequence before those of `batch`, and its last one.
    fn sequences(&self, batch: &Batch) -> Result<(SeqNo, SeqNo)> {
        let last = self.last.plus(u64::from(batch.len()));
        if last > SeqNo::MAX {
            return Err(Error::Unsupported("all sequence numbers are used up; copy the store into a new one".into()));
        }
        Ok((self.last, last))
    }
}

/// Log, memtable, publish: the life of a group. A failure is the end of all writing, because what the log holds is then
/// unknown.
fn commit(shared: &Arc<Shared>, lead: &mut Lead<'_, Box<Core>>, batch: Batch, sync: bool) -> Result<SeqNo> {
    or_fail(shared, || write_group(shared, lead, batch, sync))
}

/// Does what must not be left half done: an error, or a panic of the comparator, stops the store.
fn or_fail<T>(shared: &Arc<Shared>, write: impl FnOnce() -> Result<T>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(write)) {
        Ok(outcome) => outcome.inspect_err(|error| shared.fail(error)),
        Err(panic) => {
            shared.fail(&Error::Bug("a write panicked, or its comparator did, so what was written is unknown".into()));
            resume_unwind(panic)
        }
    }
}

fn write_group(shared: &Arc<Shared>, lead: &mut Lead<'_, Box<Core>>, mut batch: Batch, sync: bool) -> Result<SeqNo> {
    let core = lead.baton();
    let (before, last) = core.sequences(&batch)?;
    let mut head: &[u8] = &[];
    if !batch.is_empty() {
        batch.set_sequence(before.plus(1));
        head = append(shared, core, &mut batch)?;
    }
    let mut began = None;
    if sync {
        let _awaited = (!batch.is_empty()).then(Awaited::new); // else it is for an idle store's sake, or for whoever waits by his own wish
        let started = shared.clock.now();
        shared.options.tell(|| Event::SyncBegun);
        core.wal.sync(&shared.closed_logs)?;
        let sync_time = shared.clock.now() - started;
        // The group will be back, and these have come meanwhile.
        let writers = 1 + lead.members() + lead.awaited();
        lead.baton().pulse = Pulse { writers, sync_time };
        began = Some(started);
    }
    lead.baton().last = last;
    if !batch.is_empty() {
        insert(shared, lead, head, batch);
    }
    publish(shared, before, last)?;
    if let Some(began) = began {
        shared.durable_up_to(last);
        shared.changed.notify_all();
        shared.tell_synced(began);
    }
    Ok(last)
}

/// Hands `batch` to the log. If the disk is full, what waits to be durable is made so at once, and whoever is about to give space back is
/// waited for. Where the full log ends is unknown by then, so writing goes on in another one, as after a stop. It stops at once where
/// tables are going to point into that log: the log would have to be synced on a full disk.
fn append(shared: &Arc<Shared>, core: &mut Core, batch: &mut Batch) -> Result<&'static [u8]> {
    let full = match core.wal.append(batch) {
        Err(full) if full.is_no_space() && !shared.values_apart && shared.may_be_relieved() => full,
        appended => return appended,
    };
    let appended = shared.relieved(0, |reserve| {
        resume::start_over(shared, core)?;
        drop(reserve); // a batch in a log gives nothing back, and the next opening would miss it
        shared.reserve.take(&*shared.placement)?;
        core.wal.append(batch)
    });
    appended.map_err(|still| if still.is_no_space() { full } else { still })
}

/// Inserts a group whose sequences are given away. With pipelined writes, and if somebody waits for it, the next group's
/// log goes on meanwhile.
fn insert(shared: &Shared, lead: &mut Lead<'_, Box<Core>>, head: &[u8], batch: Batch) {
    let worthwhile = lead.awaited() > 0 || batch.byte_len() >= LONG_INSERT_BYTES;
    if shared.options.pipelined_writes && worthwhile {
        let mem = lead.baton().mem.clone();
        lead.pass_on();
        mem.insert_behind(head, &batch);
        return;
    }
    let core = lead.baton();
    core.mem.insert_behind(head, &batch);
    if core.spare.is_none() && batch.capacity() <= SPARE_BYTES_MAX {
        core.spare = Some(batch);
    }
}

/// Readers may see the writes up to `last`, once they may see those up to `before`: groups become visible in the order of
/// their sequences, whichever is inserted first.
fn publish(shared: &Shared, before: SeqNo, last: SeqNo) -> Result<()> {
    if shared.visible() < before {
        wait_visible(shared, before)?;
    }
    shared.visible.store(last.0, Ordering::Release);
    Ok(())
}

/// Waits until everything up to `seq` is inserted. That is a matter of microseconds, without I/O; an error if one of the
/// inserts panicked. A lack of space keeps no insert from ending, and is not for ever.
fn wait_visible(shared: &Shared, seq: SeqNo) -> Result<()> {
    let visible = || shared.visible() >= seq;
    if ready_soon(visible) {
        return Ok(());
    }
    while !visible() {
        if let Some(first) = shared.control.lock().failed.as_ref().filter(|first| !first.is_no_space()) {
            return Err(Error::FailStopped(Arc::new(first.clone())));
        }
        thread::sleep(LONG_INSERT_LOOK);
    }
    Ok(())
}

/// Returns once the active memtable may take `bytes` more.
#[inline]
fn make_room(shared: &Arc<Shared>, core: &mut Core, bytes: usize) -> Result<()> {
    let full = core.is_full(&shared.options);
    let nothing_new = core.seen == Some(shared.news.load(Ordering::Acquire));
    if !full && nothing_new && core.pace == 0.0 {
        return Ok(());
    }
    make_room_in_time(shared, core, bytes, full || !nothing_new)
}

/// As [`make_room`], where background work has a say: it is looked at anew, or writers only owe it time.
#[inline(never)]
fn make_room_in_time(shared: &Arc<Shared>, core: &mut Core, bytes: usize, look: bool) -> Result<()> {
    let mut waited = Duration::ZERO;
    let outcome = if look { wait_for_room(shared, core, &mut waited) } else { Ok(()) };
    if outcome.is_ok() {
        pay(shared, core, bytes, &mut waited);
    }
    if !waited.is_zero() {
        shared.stats.stalled(waited);
        shared.options.tell(|| Event::StallEnded { time: waited });
    }
    outcome
}

/// Gives background work the time that `bytes` are due.
fn pay(shared: &Shared, core: &mut Core, bytes: usize, waited: &mut Duration) {
    if core.pace == 0.0 {
        return core.owed.forgive();
    }
    let Some(time) = core.owed.add(core.pace * bytes as f64) else { return };
    begin_stall(shared, *waited);
    let started = shared.clock.now();
    nap(time);
    let slept = shared.clock.now() - started;
    core.owed.paid(slept);
    *waited += slept;
}

/// Tells of a stall that begins, unless this write has waited before.
fn begin_stall(shared: &Shared, waited: Duration) {
    if waited.is_zero() {
        shared.options.tell(|| Event::StallBegun);
    }
}

fn wait_for_room(shared: &Arc<Shared>, core: &mut Core, waited: &mut Duration) -> Result<()> {
    let mut delayed = false;
    loop {
        let free = shared.free_bytes();
        let mut control = shared.control.lock();
        shared.check_writable(&control)?;
        let facts = facts(shared, core, &control, free, delayed);
        match room(&shared.options, &facts) {
            Room::Enough => {
                // As long as writes are delayed one by one, every one of them has to look.
                core.seen = (!delayed).then(|| shared.news.load(Ordering::Acquire));
                core.pace = stall::pace(&shared.options, &facts);
                return Ok(());
            }
            Room::Delay => {
                drop(control);
                begin_stall(shared, *waited);
                thread::sleep(DELAY);
                *waited += DELAY;
                delayed = true;
            }
            Room::Wait => {
                let started = shared.clock.now();
                begin_stall(shared, *waited);
                shared.wait_for_change(&mut control)?;
                *waited += shared.clock.now() - started;
            }
            Room::Seal => {
                drop(control);
                change_log(shared, core)?;
            }
        }
    }
}

fn facts(shared: &Shared, core: &Core, control: &Control, free: Option<u64>, delayed: bool) -> stall::Facts {
    let view = shared.view.load();
    let ((debt_bytes, unmerged), retained_bytes) = (shared.debt(), control.versions.retained_bytes());
    stall::Facts {
        full: core.is_full(&shared.options),
        sealed: view.sealed.len() as u64,
        l0_runs: view.version.levels[0].runs.len() as u64,
        debt_bytes,
        merging_bytes: if control.busy.merges() { unmerged } else { 0 },
        retained_bytes,
        bounds: Bounds::of(&shared.options, free, unmerged, retained_bytes),
        delayed,
    }
}

/// Goes on in a new log with a new memtable; the active one, if it has anything, stops growing and waits for its flush. If
/// the log cannot be made, writing is over, here as at every failure of a log.
fn change_log(shared: &Arc<Shared>, core: &mut Core) -> Result<()> {
    let _awaited = Awaited::new();
    wait_visible(shared, core.last)?;
    let full = (!core.mem.is_empty()).then(|| core.mem.clone());
    let created = shared.with_relief(0, || new_log(shared, core.last, full.is_none()));
    let (log, writer, table) = created.inspect_err(|error| shared.fail(error))?;
    let (ended, bytes, small_bytes) = core.wal.size();
    core.wal.rotate(log, writer, &shared.closed_logs);
    let filter_bytes = shared.options.memtable_filter_bytes();
    let mem = Arc::new(MemTable::new(shared.order.clone(), log, filter_bytes, shared.placement.budget()));
    core.mem = mem.clone();
    core.unlogged.open = false;
    if full.is_none() {
        shared.placement.log_flushed(ended); // nothing is in it
    }
    let mut control = shared.control.lock();
    control.versions.retire.log_ended(ended, bytes + small_bytes);
    control.versions.retire.log_made(log);
    if shared.values_apart {
        control.versions.segments.log_ended(ended, bytes);
        control.versions.retire.pin_log(&mem);
    }
    let view = shared.view.load_full();
    let version = if full.is_none() && view.sealed.is_empty() {
        // No flush will say that the old log is not needed.
        control.versions.install_flush(Edit::default(), core.last, log, 0, Ticket::mature())?
    } else {
        view.version.clone()
    };
    shared.set_view(&control, |view| {
        full.iter().for_each(|full| full.seal(table));
        View { mem: Some(mem), sealed: full.into_iter().chain(view.sealed.iter().cloned()).collect(), version }
    });
    shared.schedule(&mut control);
    Ok(())
}

/// A log that goes on behind `last`, and the number of the table that the memtable before it becomes. The manifest may name a log
/// only once a power cut leaves its name: that is so with the first table flushed behind it, or at once if it is to be `durable`.
fn new_log(shared: &Shared, last: SeqNo, durable: bool) -> Result<(LogId, Box<dyn LogWriter>, TableId)> {
    let (log, table) = {
        let mut control = shared.control.lock();
        (LogId(control.versions.new_number()), control.versions.new_sealed_number(shared.options.l0_merge_runs > 0))
    };
    let created = shared.placement.create_log(log, LogKind::Wal, &batch::head(last.plus(1))).and_then(|writer| {
        if durable {
            writer.sync()?;
        }
        Ok(writer)
    });
    if created.is_err() {
        let _ = shared.placement.remove(ObjectId::Wal(log)); // half a log; best effort, the next open removes it too
    }
    Ok((log, created?, table))
}
