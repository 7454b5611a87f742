//! The write path: join a group, make room, append to the log, insert into the memtable, publish.
pub mod group;
pub mod stall;
pub mod wal;

use crate::{Error, Result, mem::MemTable, read::view::View, state::Shared};
use group::{Group, Queue};
use parking_lot::Mutex;
use stall::{Room, room};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};
use terrace_format::{LogId, SeqNo, TableId, batch};
use terrace_storage::placement::LogKind;
use wal::Wal;

/// LevelDB's brake: each write gives compaction this much time once level 0 grows long.
const DELAY: Duration = Duration::from_millis(1);

/// The writers of one store.
pub struct Writes {
    queue: Queue,
    core: Mutex<Core>,
}

/// Held by the leader of a write group, and by a flush that seals, during its I/O.
struct Core {
    wal: Wal,
    last: SeqNo,
}

impl Writes {
    /// Writing goes on behind `last`, into `wal`.
    pub fn new(wal: Wal, last: SeqNo) -> Writes {
        Writes { queue: Queue::default(), core: Mutex::new(Core { wal, last }) }
    }

    /// Writes a batch, alone or as part of a group, and returns the sequence of the last operation that was written
    /// with or before it. An empty synced batch makes everything before it durable.
    pub fn write(&self, shared: &Arc<Shared>, batch: batch::Batch, sync: bool) -> Result<SeqNo> {
        self.queue.write(batch, sync, |first| {
            let mut core = self.core.lock();
            if first.adds_nothing() {
                shared.check_writable(&shared.control.lock())?;
            } else {
                make_room(shared, &mut core)?;
            }
            let group = first.collect();
            commit(shared, &mut core, group)
        })
    }

    /// Seals the active memtable, if it has anything, and starts a new log.
    pub fn seal(&self, shared: &Arc<Shared>) -> Result<()> {
        let mut core = self.core.lock();
        shared.check_writable(&shared.control.lock())?;
        shared.wait_until(|_| (shared.view.load().sealed.len() as u64) + 1 < shared.options.memtables_max)?;
        let empty = shared.view.load().mem.as_ref().is_none_or(|mem| mem.is_empty());
        if empty { Ok(()) } else { seal(shared, &mut core) }
    }
}

/// Log, memtable, publish: the life of a group. A failure is the end of all writing, because what the log holds is then
/// unknown.
fn commit(shared: &Arc<Shared>, core: &mut Core, mut group: Group) -> Result<SeqNo> {
    match catch_unwind(AssertUnwindSafe(|| write_group(shared, core, &mut group))) {
        Ok(outcome) => outcome.inspect_err(|error| shared.fail(error)),
        Err(panic) => {
            shared.fail(&Error::Bug("a write panicked, or its comparator did, so what was written is unknown".into()));
            resume_unwind(panic)
        }
    }
}

fn write_group(shared: &Arc<Shared>, core: &mut Core, group: &mut Group) -> Result<SeqNo> {
    let count = u64::from(group.batch.len());
    let last = core.last.plus(count);
    if last > SeqNo::MAX {
        return Err(Error::Unsupported("all sequence numbers are used up; copy the store into a new one".into()));
    }
    if count > 0 {
        group.batch.set_sequence(core.last.plus(1));
        core.wal.append(group.batch.as_bytes())?;
    }
    if group.sync {
        core.wal.sync(shared.durable_replay_from())?;
    }
    if count > 0 {
        let view = shared.view.load();
        view.mem.as_ref().expect("a store that is written has a memtable").insert(&group.batch);
        core.last = last;
        shared.visible.store(last.0, Ordering::Release);
    }
    if group.sync {
        shared.durable_up_to(last);
        shared.changed.notify_all();
    }
    Ok(last)
}

/// Returns once the active memtable may take more.
fn make_room(shared: &Arc<Shared>, core: &mut Core) -> Result<()> {
    let mut waited = Duration::ZERO;
    let outcome = wait_for_room(shared, core, &mut waited);
    if !waited.is_zero() {
        shared.stats.stalled(waited);
    }
    outcome
}

fn wait_for_room(shared: &Arc<Shared>, core: &mut Core, waited: &mut Duration) -> Result<()> {
    let mut delayed = false;
    loop {
        let mut control = shared.control.lock();
        shared.check_writable(&control)?;
        let view = shared.view.load_full();
        let mem = view.mem.as_ref().ok_or(Error::ReadOnly)?;
        let facts = stall::Facts {
            full: mem.charged_bytes() > shared.options.memtable_bytes,
            sealed: view.sealed.len() as u64,
            l0_runs: view.version.levels[0].runs.len() as u64,
            delayed,
        };
        match room(&shared.options, &facts) {
            Room::Enough => return Ok(()),
            Room::Delay => {
                drop(control);
                thread::sleep(DELAY);
                *waited += DELAY;
                delayed = true;
            }
            Room::Wait => {
                let started = shared.clock.now();
                shared.wait_for_change(&mut control)?;
                *waited += shared.clock.now() - started;
            }
            Room::Seal => {
                drop(control);
                seal(shared, core)?;
            }
        }
    }
}

/// The active memtable stops growing and waits for its flush; a new one with a new log takes its place. If the log cannot
/// be made, writing is over, here as at every failure of a log.
fn seal(shared: &Arc<Shared>, core: &mut Core) -> Result<()> {
    let (log, table) = {
        let mut control = shared.control.lock();
        (LogId(control.versions.new_number()), TableId(control.versions.new_number()))
    };
    let created = shared.placement.create_log(log, LogKind::Wal, &batch::head(core.last.plus(1))).map_err(Error::from);
    let writer = created.inspect_err(|error| shared.fail(error))?;
    core.wal.rotate(log, writer, shared.durable_replay_from());
    let mem = Arc::new(MemTable::new(shared.order.clone(), log));
    let mut control = shared.control.lock();
    control.versions.retire.log_made(log);
    shared.set_view(&control, |view| {
        let full = view.mem.clone().expect("a store that is written has a memtable");
        full.seal(table);
        let sealed = std::iter::once(full).chain(view.sealed.iter().cloned()).collect();
        View { mem: Some(mem), sealed, version: view.version.clone() }
    });
    shared.schedule(&mut control);
    Ok(())
}
