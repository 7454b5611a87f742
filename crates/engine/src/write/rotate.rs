//! From one log and memtable to the next.
use super::{WriterState, commit::wait_visible};
use crate::{Result, mem::MemTable, read::view::View, state::DbInner};
use std::sync::Arc;
use terrace_format::{LogId, SeqNo, TableId, batch, edit::Edit};
use terrace_storage::{
    BlockingScope, DurabilityHandle,
    placement::{LogKind, LogWriter, ObjectId},
};

/// Goes on in a new log with a new memtable; the active one, if it has anything, stops growing and waits for its flush. If
/// the log cannot be made, writing is over, here as at every failure of a log.
pub(super) fn change_log(shared: &Arc<DbInner>, core: &mut WriterState) -> Result<()> {
    let _awaited = BlockingScope::new();
    wait_visible(shared, core.last)?;
    let full = (!core.mem.is_empty()).then(|| core.mem.clone());
    let created = shared.with_relief(0, || new_log(shared, core.last, full.is_none()));
    let (log, writer, table) = created.inspect_err(|error| shared.fail(error))?;
    let (ended, bytes, small_bytes) = core.wal.size();
    core.wal.rotate(log, writer, &shared.closed_logs);
    let filter_bytes = shared.options.memtable_filter_bytes();
    let mem = Arc::new(MemTable::new(shared.order.clone(), log, filter_bytes, shared.storage.budget()));
    core.mem = mem.clone();
    core.unlogged.open = false;
    if full.is_none() {
        shared.storage.log_flushed(ended); // nothing is in it
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
        control.versions.install_flush(Edit::default(), core.last, log, 0, DurabilityHandle::mature())?
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
fn new_log(shared: &DbInner, last: SeqNo, durable: bool) -> Result<(LogId, Box<dyn LogWriter>, TableId)> {
    let (log, table) = {
        let mut control = shared.control.lock();
        (
            LogId(control.versions.new_number()),
            control.versions.new_sealed_number(shared.options.intra_l0_compaction_trigger > 0),
        )
    };
    let created = shared.storage.create_log(log, LogKind::Wal, &batch::head(last.plus(1))).and_then(|writer| {
        if durable {
            writer.sync()?;
        }
        Ok(writer)
    });
    if created.is_err() {
        let _ = shared.storage.remove(ObjectId::Wal(log)); // half a log; best effort, the next open removes it too
    }
    Ok((log, created?, table))
}
