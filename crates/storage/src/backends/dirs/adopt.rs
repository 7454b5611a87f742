//! Adopts tables: takes them over from other stores into a store with directory tables. A
//! directory table is adopted by hard links to its files. A table in a single file is adopted as
//! in the files backend.
use super::{
    super::files::Files,
    table_dirs::{TableDirs, meta_of},
};
use crate::{
    Adopted, Error, Purpose, Result, TableFile,
    placement::{ObjectId, ObjectStore},
    tables::sst::read_pair_properties,
};
use terrace_format::{LEVELS, TableId};

/// Adopts (takes over) `tables` under new numbers. After an error, removes the tables that it has
/// adopted so far.
pub(super) fn adopt(dirs: &TableDirs, files: &Files, tables: &[(TableFile, ObjectId)]) -> Result<Adopted> {
    dirs.store.writable("adopt tables")?;
    let (mut folders, mut others) = (Vec::new(), Vec::new());
    for (table, object) in tables.iter().cloned() {
        match object {
            ObjectId::Table(id) if is_folder(&table) => folders.push((table, id)),
            _ => others.push((table, object)),
        }
    }
    let mut adopted = files.adopt(&others)?;
    let taken = adopt_all(dirs, &folders, &mut adopted);
    if taken.is_err() {
        // Errors of the removals are ignored: no manifest names these objects, so recovery removes
        // them.
        folders.iter().for_each(|(_, id)| drop(dirs.remove(*id)));
        others.iter().for_each(|(_, object)| drop(files.remove(*object)));
    }
    taken.map(|()| adopted)
}

fn is_folder(table: &TableFile) -> bool {
    table.fs.folders().is_some_and(|folders| folders.list_folder(&table.name).is_ok())
}

fn adopt_all(dirs: &TableDirs, tables: &[(TableFile, TableId)], adopted: &mut Adopted) -> Result<()> {
    let mut taken = Vec::new();
    for (table, id) in tables {
        taken.push(adopt_one(dirs, table, *id, adopted)?);
    }
    if dirs.store.tracker.promises() { dirs.sync(taken) } else { Ok(()) }
}

/// Adopts one directory table: links or copies its files. Returns the new directory.
fn adopt_one(dirs: &TableDirs, table: &TableFile, id: TableId, adopted: &mut Adopted) -> Result<String> {
    let level = (0..LEVELS).find(|level| table.name.starts_with(&format!("L{level}/"))).unwrap_or(0);
    let target = dirs.make(level, id)?;
    let failed = |e| Error::io("take over", format!("{table} as {}", dirs.store.path(&target)), e);
    let listed =
        table.fs.folders().map_or(Ok(Vec::new()), |folders| folders.list_folder(&table.name)).map_err(failed)?;
    let mut linked = true;
    for inside in listed {
        let (from, to) = (format!("{}/{}", table.name, inside.name), format!("{target}/{}", inside.name));
        linked &= dirs.store.fs.take(&*table.fs, &from, &to).map_err(failed)?;
    }
    let meta = dirs.store.open_file("table", &meta_of(&target))?;
    let bytes = meta.bytes.saturating_add(read_pair_properties(&meta)?.file_bytes);
    if !linked {
        dirs.store.io_stats.wrote(Purpose::Other, bytes);
    }
    adopted.linked += u64::from(linked);
    adopted.copied += u64::from(!linked);
    adopted.bytes += bytes;
    Ok(target)
}
