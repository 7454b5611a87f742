//! Rotation: the switch to a new WAL and a new memtable.
use super::{families, visibility::wait_visible, writer::WriterState};
use crate::{
    Result,
    mem::MemTable,
    read::view::View,
    state::{DbInner, DbState},
};
use std::sync::Arc;
use terrace_format::{LogId, SeqNo, TableId, batch, edit::Edit};
use terrace_storage::{
    BlockingScope,
    placement::{LogKind, LogWriter, ObjectId},
};

/// Switches to a new WAL and a new memtable. The memtables of all column families are sealed
/// together and then wait for their flush, unless they are empty. If the new WAL cannot be
/// created, the store stops, as after every failure of a WAL.
pub(super) fn rotate_wal(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    let _blocking = BlockingScope::new();
    wait_visible(shared, writer.last)?;
    let seals = !writer.is_empty();
    let created = shared.retry_on_no_space(0, || create_wal(shared, writer.last, !seals));
    let (log, wal_writer, table) = created.inspect_err(|error| shared.fail(error))?;
    let (ended, bytes, sidecar_bytes) = writer.wal.size();
    writer.wal.rotate(log, wal_writer, &shared.closed_wals);
    let filter_bytes = shared.options.memtable_filter_bytes();
    let mem = Arc::new(MemTable::new(shared.order.clone(), log, filter_bytes, shared.storage.budget()));
    let full = Some(std::mem::replace(&mut writer.mem, mem.clone())).filter(|full| !full.is_empty());
    let full_families = std::mem::take(&mut writer.families);
    writer.unlogged.active = false;
    if !seals {
        shared.storage.wal_flushed(ended); // the old WAL is empty
    }
    let mut state = shared.state.lock();
    state.versions.obsolete_files.wal_sealed(ended, bytes + sidecar_bytes);
    state.versions.obsolete_files.wal_created(log);
    if shared.separates_values {
        state.versions.segments.wal_sealed(ended, bytes);
        state.versions.obsolete_files.pin_wal(&mem);
    }
    let version = if !seals && state.sealed == 0 {
        // If no memtable has entries, no flush will record that the old WAL is obsolete. Therefore
        // the rotation installs an edit without tables, which records it.
        state.versions.install_flush(Edit::default(), writer.last, log, 0, Vec::new())?
    } else {
        state.versions.live().clone()
    };
    full.iter().for_each(|full| full.seal(table));
    full_families.values().for_each(|full| full.seal(sealed_number(shared, &mut state)));
    state.sealed += u64::from(seals);
    shared.set_view(&state, |view| View {
        mem: Some(mem),
        sealed: full.into_iter().chain(view.sealed.iter().cloned()).collect(),
        families: families::sealed(&view.families, full_families),
        version,
    });
    shared.schedule(&mut state);
    Ok(())
}

/// Returns the table number for a memtable that is being sealed.
fn sealed_number(shared: &DbInner, state: &mut DbState) -> TableId {
    state.versions.new_sealed_number(shared.options.intra_l0_compaction_trigger > 0)
}

/// Creates the WAL for writes after the sequence number `last`, and draws the table number for the
/// memtable that is sealed.
///
/// The manifest may name a WAL only if the directory entry of the WAL survives a power cut. The
/// sync of the first SSTable that is flushed after the creation makes the directory entry durable.
/// With `durable` the WAL is synced immediately.
fn create_wal(shared: &DbInner, last: SeqNo, durable: bool) -> Result<(LogId, Box<dyn LogWriter>, TableId)> {
    let (log, table) = {
        let mut state = shared.state.lock();
        (LogId(state.versions.new_number()), sealed_number(shared, &mut state))
    };
    let created = shared.storage.create_log(log, LogKind::Wal, &batch::head(last.plus(1))).and_then(|wal_writer| {
        if durable {
            wal_writer.sync()?;
        }
        Ok(wal_writer)
    });
    if created.is_err() {
        // The WAL is incomplete after this error. If it cannot be removed, the next open removes
        // it.
        let _ = shared.storage.remove(ObjectId::Wal(log));
    }
    Ok((log, created?, table))
}

/// Waits until one more memtable may be sealed, then seals the active memtable and rotates the
/// WAL.
pub fn seal_memtable(shared: &Arc<DbInner>, writer: &mut WriterState) -> Result<()> {
    shared.wait_to_seal()?;
    rotate_wal(shared, writer)
}
