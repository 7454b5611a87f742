//! Inserts of write groups into the memtables of column families.
use super::writer::WriterState;
use crate::{
    Error, Result,
    mem::MemTable,
    read::view::{FamilyMemtables, View},
    state::DbInner,
};
use std::{collections::BTreeMap, sync::Arc};
use terrace_format::{Batch, FamilyId};

/// The memtables into which one write group is inserted.
pub struct InsertTargets {
    mem: Arc<MemTable>,
    families: Vec<(FamilyId, Arc<MemTable>)>,
}

impl InsertTargets {
    /// Returns the memtables for the column families of `batch`. Creates the memtable of a family
    /// if this is the family's first write since the last rotation of the WAL.
    pub fn of(shared: &DbInner, writer: &mut WriterState, batch: &Batch) -> InsertTargets {
        let families = if batch.has_families() { families_of(shared, writer, batch) } else { Vec::new() };
        InsertTargets { mem: writer.mem.clone(), families }
    }

    /// Inserts `batch`, with the bytes `head` before each value.
    pub fn insert(&self, head: &[u8], batch: &Batch) {
        self.mem.insert_with_prefix(head, batch);
        self.families.iter().for_each(|(family, mem)| mem.insert_family(*family, head, batch));
    }
}

/// Inserts `batch` into the active memtables.
#[inline]
pub fn insert(shared: &DbInner, writer: &mut WriterState, head: &[u8], batch: &Batch) {
    if batch.has_families() {
        InsertTargets::of(shared, writer, batch).insert(head, batch);
    } else {
        writer.mem.insert_with_prefix(head, batch);
    }
}

/// Returns an error if `batch` writes to a column family that does not exist. Such a write must be
/// refused: no memtable would take the operation, and the manifest would never cover its sequence
/// number. The caller must be the commit leader, because a family is dropped only between two
/// write groups.
#[inline]
pub fn check_exist(shared: &DbInner, batch: &Batch) -> Result<()> {
    if batch.has_families() { check_each(shared, batch) } else { Ok(()) }
}

#[cold]
fn check_each(shared: &DbInner, batch: &Batch) -> Result<()> {
    let view = shared.view.load();
    let missing = batch.ops().map(|op| op.split().0).find(|family| view.version.tree(*family).is_none());
    missing.map_or(Ok(()), |family| Err(Error::family_dropped(family)))
}

/// Returns the memtables of the column families of `batch`, all of which exist.
#[cold]
fn families_of(shared: &DbInner, writer: &mut WriterState, batch: &Batch) -> Vec<(FamilyId, Arc<MemTable>)> {
    let ids = batch.ops().map(|op| op.split().0).filter(|id| *id != FamilyId::DEFAULT);
    let mut targets = BTreeMap::new();
    for id in ids {
        if targets.contains_key(&id) {
            continue;
        }
        if !writer.families.contains_key(&id) {
            create_memtable(shared, writer, id);
        }
        targets.insert(id, writer.families[&id].clone());
    }
    targets.into_iter().collect()
}

/// Creates the memtable of `family` and adds it to the view of readers.
fn create_memtable(shared: &DbInner, writer: &mut WriterState, family: FamilyId) {
    let state = shared.state.lock();
    // Only memtables of the default column family get a Bloom filter. A filter for each further
    // family would take as much memory again.
    let mem = Arc::new(MemTable::new(shared.order.clone(), writer.mem.log, 0, shared.storage.budget()));
    shared.set_view(&state, |view| {
        let mut families = BTreeMap::clone(&view.families);
        families.entry(family).or_default().mem = Some(mem.clone());
        View { families: Arc::new(families), ..view.clone() }
    });
    writer.families.insert(family, mem);
}

/// Returns the memtables of column families after a rotation of the WAL, which has sealed the
/// memtables `full`.
pub fn sealed(
    families: &Arc<BTreeMap<FamilyId, FamilyMemtables>>,
    full: BTreeMap<FamilyId, Arc<MemTable>>,
) -> Arc<BTreeMap<FamilyId, FamilyMemtables>> {
    if full.is_empty() {
        return families.clone();
    }
    let mut families = BTreeMap::clone(families);
    for (family, mem) in full {
        let memtables = families.entry(family).or_default();
        memtables.mem = None;
        memtables.sealed.insert(0, mem);
    }
    Arc::new(families)
}
