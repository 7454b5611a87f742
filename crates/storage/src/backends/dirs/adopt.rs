//! Takes over tables that others wrote: folders by links to their files, single files as the files backend does.
use super::{
    super::files::Files,
    table_dirs::{TableDirs, meta_of},
};
use crate::{
    Adopted, Error, Purpose, Result, TableFile,
    placement::{ObjectId, ObjectStore},
    tables::sst::read_pair_facts,
};
use terrace_format::{LEVELS, TableId};

/// Takes over `tables` under new numbers. What was taken when something fails is let go again.
pub(super) fn adopt(shelf: &TableDirs, files: &Files, tables: &[(TableFile, ObjectId)]) -> Result<Adopted> {
    shelf.store.writable("adopt tables")?;
    let (mut folders, mut others) = (Vec::new(), Vec::new());
    for (table, object) in tables.iter().cloned() {
        match object {
            ObjectId::Table(id) if is_folder(&table) => folders.push((table, id)),
            _ => others.push((table, object)),
        }
    }
    let mut adopted = files.adopt(&others)?;
    let taken = take_all(shelf, &folders, &mut adopted);
    if taken.is_err() {
        // Best effort: no manifest names them.
        folders.iter().for_each(|(_, id)| drop(shelf.remove(*id)));
        others.iter().for_each(|(_, object)| drop(files.remove(*object)));
    }
    taken.map(|()| adopted)
}

fn is_folder(table: &TableFile) -> bool {
    table.fs.folders().is_some_and(|folders| folders.list_folder(&table.name).is_ok())
}

fn take_all(shelf: &TableDirs, tables: &[(TableFile, TableId)], adopted: &mut Adopted) -> Result<()> {
    let mut taken = Vec::new();
    for (table, id) in tables {
        taken.push(take(shelf, table, *id, adopted)?);
    }
    if shelf.store.tracker.promises() { shelf.sync(taken) } else { Ok(()) }
}

/// The new folder.
fn take(shelf: &TableDirs, table: &TableFile, id: TableId, adopted: &mut Adopted) -> Result<String> {
    let level = (0..LEVELS).find(|level| table.name.starts_with(&format!("L{level}/"))).unwrap_or(0);
    let target = shelf.make(level, id)?;
    let told = |e| Error::io("take over", format!("{table} as {}", shelf.store.path(&target)), e);
    let listed = table.fs.folders().map_or(Ok(Vec::new()), |folders| folders.list_folder(&table.name)).map_err(told)?;
    let mut linked = true;
    for inside in listed {
        let (from, to) = (format!("{}/{}", table.name, inside.name), format!("{target}/{}", inside.name));
        linked &= shelf.store.fs.take(&*table.fs, &from, &to).map_err(told)?;
    }
    let meta = shelf.store.open_file("table", &meta_of(&target))?;
    let bytes = meta.bytes.saturating_add(read_pair_facts(&meta)?.file_bytes);
    if !linked {
        shelf.store.traffic.wrote(Purpose::Other, bytes);
    }
    adopted.linked += u64::from(linked);
    adopted.copied += u64::from(!linked);
    adopted.bytes += bytes;
    Ok(target)
}
