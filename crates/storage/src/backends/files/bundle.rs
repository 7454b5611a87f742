//! Bundles: files with several tables. All readers of a bundle share one descriptor. The disk
//! space of a removed table is deallocated.
//!
//! The engine removes a bundle when it removes the bundle's last table. Before that, the space of
//! a removed table becomes a hole, which reads as zeros. No reader can see these zeros, for two
//! reasons:
//!
//! - In this store, a table is removed only when no pinned version names it, and tables in bundles
//!   are never memory-mapped.
//! - Another store may have the same file, as a hard link in a checkpoint. A checkpoint pins the
//!   version that it copies until its hard link exists. From then on the file has a second name,
//!   and the space of its tables is not deallocated.
use super::{Input, Store, bundles::Removed};
use crate::{
    Error, Result,
    placement::{ObjectId, TableMeta, Within},
};
use std::{collections::BTreeSet, io, ops::Range, sync::Arc};
use terrace_format::{
    TableId,
    bundle::{self, FOOTER_BYTES, Member},
    names::FileName,
};
use terrace_vfs::ReadFile;

/// Removes table `id` from its bundle. Returns false if the table is in no bundle. If the bundle
/// has other tables, deallocates the space of the removed table. If the bundle has no other table,
/// the engine removes the whole bundle.
pub(super) fn remove(store: &Store, id: TableId) -> Result<bool> {
    match store.bundles.remove(id) {
        Removed::NotBundled => Ok(false),
        Removed::Last => Ok(true),
        Removed::Hole(bundle, gone) => punch(store, bundle, gone).map(|()| true),
    }
}

/// Returns the open file of `bundle`. All readers of the bundle share it.
fn file(store: &Store, bundle: TableId) -> Result<Arc<dyn ReadFile>> {
    if let Some(open) = store.bundles.opened(bundle) {
        return Ok(open);
    }
    let opened: Arc<dyn ReadFile> = store.open_file("bundle", &name(bundle))?.file.into();
    Ok(store.bundles.share(bundle, opened))
}

/// Returns the name of the file of a bundle.
pub(super) fn name(bundle: TableId) -> String {
    FileName::Bundle(bundle).to_string()
}

/// Opens a table in a bundle. If the file of the bundle was truncated, opens the remaining part of
/// the table.
pub(super) fn open(store: &Store, within: Within, bytes: u64) -> Result<Input> {
    let file = file(store, within.bundle)?;
    let there = file.bytes().map_err(store.io("read size of", &name(within.bundle)))?;
    let bytes = bytes.min(there.saturating_sub(within.offset));
    let shown = format!("{} from byte {} on", store.path(&name(within.bundle)), within.offset);
    Ok(Input::new(Box::new(Part { file, offset: within.offset, bytes }), bytes, shown))
}

/// Returns the tables that the directory of `bundle` lists, without tables that were removed.
pub(super) fn tables_in(store: &Store, bundle: TableId) -> Result<Vec<TableMeta>> {
    let file = file(store, bundle)?;
    let mut tables = Vec::new();
    for member in members(store, bundle, &*file)? {
        if !is_hole(&*file, &member).map_err(store.io("read", &name(bundle)))? {
            let within = Some(Within { bundle, offset: member.offset });
            tables.push(TableMeta::bounded(member.id, member.bytes, within, Vec::new(), Vec::new()));
        }
    }
    Ok(tables)
}

/// Deallocates the space of tables that are in the same bundles as `tables` but are not among
/// `tables`.
pub(super) fn trim(store: &Store, tables: &[TableMeta]) -> Result<()> {
    store.bundles.add(tables);
    let kept: BTreeSet<TableId> = tables.iter().map(|meta| meta.id).collect();
    let bundles: BTreeSet<TableId> = tables.iter().filter_map(|meta| meta.within).map(|within| within.bundle).collect();
    let trim = |bundle| {
        let file = file(store, bundle)?;
        let mut gone = members(store, bundle, &*file)?.into_iter().filter(|member| !kept.contains(&member.id));
        gone.try_for_each(|member| punch(store, bundle, member))
    };
    // If deallocation fails in one bundle, the other bundles are still processed.
    bundles.into_iter().map(trim).fold(Ok(()), Result::and)
}

fn punch(store: &Store, bundle: TableId, gone: Member) -> Result<()> {
    let name = name(bundle);
    let end = gone.end().unwrap_or(gone.offset);
    let capacity = store.fs.capacity();
    let punched = capacity.map_or(Ok(()), |capacity| capacity.punch(&name, gone.offset..end));
    punched.map_err(store.io("give back space of", &name))
}

/// Reads the directory of a bundle.
fn members(store: &Store, bundle: TableId, file: &dyn ReadFile) -> Result<Vec<Member>> {
    let name = name(bundle);
    let corrupt = |found| Error::corrupt(store.path(&name), 0, found);
    let read = |range: Range<u64>| {
        let bytes = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        file.read_at(range.start, bytes).map_err(store.io("read", &name))
    };
    let bytes = file.bytes().map_err(store.io("read size of", &name))?;
    let footer = read(bytes.saturating_sub(FOOTER_BYTES as u64)..bytes)?;
    let footer: [u8; FOOTER_BYTES] = footer.try_into().map_err(|short: Vec<u8>| Error::Corrupt {
        what: "bundle",
        object: store.path(&name),
        offset: 0,
        detail: format!("{} bytes are too few for one", short.len()),
    })?;
    let offset = bundle::directory_offset(&footer, bytes).map_err(corrupt)?;
    bundle::decode(&read(offset..bytes)?, offset).map_err(corrupt)
}

/// Returns whether the space of a table was deallocated. Deallocated space reads as zeros, but the
/// first and last bytes of a table are never zeros.
fn is_hole(file: &dyn ReadFile, member: &Member) -> io::Result<bool> {
    let bytes = member.bytes.min(8);
    let [first, last] = [member.offset, member.offset + member.bytes - bytes];
    let zeros = |offset| Ok::<_, io::Error>(file.read_at(offset, bytes as usize)?.iter().all(|byte| *byte == 0));
    Ok(zeros(first)? && zeros(last)?)
}

/// A table within a bundle, which is read like a file.
struct Part {
    file: Arc<dyn ReadFile>,
    offset: u64,
    bytes: u64,
}

impl Part {
    /// Returns the offset in the bundle of the `bytes` bytes at `offset` of the table.
    fn at(&self, offset: u64, bytes: u64) -> io::Result<u64> {
        let within = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        if within { Ok(self.offset + offset) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl ReadFile for Part {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, self.at(offset, buf.len() as u64)?)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        self.file.read_at(self.at(offset, bytes as u64)?, bytes)
    }

    fn expect(&self, offset: u64, bytes: u64) {
        if let Ok(at) = self.at(offset, bytes) {
            self.file.expect(at, bytes);
        }
    }
}

/// Returns the object whose file contains a table: the bundle, or the table itself.
pub(super) fn file_object(meta: &TableMeta) -> ObjectId {
    meta.within.map_or(ObjectId::Table(meta.id), |within| ObjectId::Bundle(within.bundle))
}
