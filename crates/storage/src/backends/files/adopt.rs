//! Tables that others wrote become this store's: linked or copied, and made durable.
use super::Store;
use crate::{Adopted, Error, Purpose, Result, SyncKind, TableFile, durability::sync_directory};
use std::time::Instant;
use terrace_format::{TableId, names::FileName};

/// Takes over `tables` under new numbers. What was taken when something fails is let go again.
pub(super) fn adopt(store: &Store, tables: &[(TableFile, TableId)]) -> Result<Adopted> {
    store.writable("adopt tables")?;
    let mut adopted = Adopted::default();
    for (at, (table, id)) in tables.iter().enumerate() {
        if let Err(error) = take(store, table, *id, &mut adopted) {
            for (_, id) in &tables[..at] {
                let _ = store.remove_name(&FileName::Table(*id).to_string()); // best effort: no manifest names it
            }
            return Err(error);
        }
    }
    if store.tracker.promises() {
        sync_directory(&*store.fs, &store.traffic)?;
    }
    Ok(adopted)
}

fn take(store: &Store, table: &TableFile, id: TableId, adopted: &mut Adopted) -> Result<()> {
    let name = FileName::Table(id).to_string();
    let opened = table.fs.open(&table.name).and_then(|file| file.bytes());
    let bytes = opened.map_err(|e| Error::io("open", table.to_string(), e))?;
    let taken = store.fs.take(&*table.fs, &table.name, &name);
    let linked = taken.map_err(|e| Error::io("take over", format!("{table} as {}", store.path(&name)), e))?;
    if !linked {
        store.traffic.wrote(Purpose::Other, bytes);
    }
    if store.tracker.promises() {
        let start = Instant::now();
        let synced = store.fs.sync_file(&name).map_err(store.io("sync", &name));
        synced.inspect_err(|_| drop(store.remove_name(&name)))?;
        store.traffic.synced(SyncKind::Tables, if linked { 0 } else { bytes }, start.elapsed());
    }
    adopted.linked += u64::from(linked);
    adopted.copied += u64::from(!linked);
    adopted.bytes += bytes;
    Ok(())
}
