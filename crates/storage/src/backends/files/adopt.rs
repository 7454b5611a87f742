//! Adopts tables and segments that are in other stores or in no store: links or copies their files
//! into this store, and makes them durable.
use super::Store;
use crate::{Adopted, Error, Purpose, Result, SyncKind, TableFile, durability::sync_directory, placement::ObjectId};
use std::time::Instant;

/// Adopts `files` under new numbers. After an error, removes the files that it has adopted so far.
pub(super) fn adopt(store: &Store, files: &[(TableFile, ObjectId)]) -> Result<Adopted> {
    store.writable("adopt tables")?;
    let mut adopted = Adopted::default();
    for (at, (file, object)) in files.iter().enumerate() {
        if let Err(error) = take(store, file, *object, &mut adopted) {
            for (_, object) in &files[..at] {
                // An error of the removal is ignored: no manifest names this file, so recovery
                // removes it.
                let _ = store.remove_name(&store.name_of(*object));
            }
            return Err(error);
        }
    }
    if store.tracker.promises() {
        sync_directory(&*store.fs, &store.io_stats)?;
    }
    Ok(adopted)
}

fn take(store: &Store, file: &TableFile, object: ObjectId, adopted: &mut Adopted) -> Result<()> {
    let name = &store.name_of(object);
    let opened = file.fs.open(&file.name).and_then(|file| file.bytes());
    let bytes = opened.map_err(|e| Error::io("open", file.to_string(), e))?;
    let taken = store.fs.take(&*file.fs, &file.name, name);
    let linked = taken.map_err(|e| Error::io("take over", format!("{file} as {}", store.path(name)), e))?;
    if !linked {
        store.io_stats.wrote(Purpose::Other, bytes);
    }
    if store.tracker.promises() {
        let start = Instant::now();
        let synced = store.fs.sync_file(name).map_err(store.io("sync", name));
        synced.inspect_err(|_| drop(store.remove_name(name)))?;
        store.io_stats.synced(SyncKind::Tables(Purpose::Other), if linked { 0 } else { bytes }, start.elapsed());
    }
    adopted.linked += u64::from(linked);
    adopted.copied += u64::from(!linked);
    adopted.bytes += bytes;
    Ok(())
}
