//! Builds: a folder for each table, a file for each value that is worth one, all saved together.
use super::{
    super::files::build::{Output, purpose, watch},
    table::read_pair,
    table_dirs::{TableDirs, meta_of},
};
use crate::{
    DurabilityHandle, Error, FilterForm, Purpose, Result, StorageConfig,
    durability::Finished,
    placement::{EntryRef, Fragment, Hint, Origin, TableMeta, TableSink},
    tables::sst::{Bounds, Writer},
};
use std::{io::ErrorKind, sync::Arc};
use terrace_format::{
    Kind, TableId, key,
    pair::{self, InFile, PairProperties, Reference},
};
use terrace_vfs::Room;

/// So many files are left for logs, manifests and tables, and this share of all that there can be: with fewer, values stay in the meta file.
/// A table is a folder and a file, so that tables of 64 KiB, full of such values, still come to a quarter of a disk as `mkfs.ext4` makes it.
const FILES_KEPT: u64 = 1024;
const FILES_KEPT_SHARE: u64 = 8;
/// So many files are made before the file system is asked again how many there can be.
const FILES_AT_ONCE: u64 = 64;

/// Starts a build.
pub(super) fn begin(shelf: Arc<TableDirs>, hint: Hint) -> Result<Box<dyn TableSink>> {
    shelf.store.writable("build tables")?;
    let setup = StorageConfig { filter_form: FilterForm::Table, ..shelf.store.setup.clone() };
    let (purpose, level) = (purpose(hint), hint.level);
    let (open, metas, finished, made) = Default::default();
    Ok(Box::new(DirsBuild { shelf, setup, purpose, level, open, metas, bytes: 0, finished, made, files: 0 }))
}

struct DirsBuild {
    shelf: Arc<TableDirs>,
    setup: StorageConfig,
    purpose: Purpose,
    level: usize,
    open: Option<Open>,
    metas: Vec<TableMeta>,
    /// Of the tables that are ended.
    bytes: u64,
    /// Their folders.
    finished: Vec<String>,
    /// Tables begun, to remove if the build is abandoned.
    made: Vec<TableId>,
    /// So many may be made without asking.
    files: u64,
}

/// A table being built.
struct Open {
    id: TableId,
    folder: String,
    writer: Writer<Output>,
    pairs: PairProperties,
    entries: u64,
    linked_bytes: u64,
}

fn none_open() -> Error {
    Error::Unsupported("no table of this build is open".into())
}

/// What became of a try to give a value a file.
enum Placed {
    /// It has one.
    File(InFile),
    /// It stays beside its key: it is small, its name is taken by a pair whose key differs where the name does not say so, or the
    /// folder or the file system takes no more files. Whether there is space for it is for the meta file to find out.
    Here,
}

impl DirsBuild {
    fn open(&mut self) -> Result<&mut Open> {
        self.open.as_mut().ok_or_else(none_open)
    }

    /// Stores a new value.
    fn add(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        self.open()?;
        let here = (value.len() as u64) < self.setup.min_value_file_size;
        let placed = if here || !self.may_make_a_file()? { Placed::Here } else { self.write(internal, value)? };
        self.list(internal, placed, value)
    }

    /// Whether enough files can be made for this to be one of them.
    fn may_make_a_file(&mut self) -> Result<bool> {
        if self.files == 0 {
            let room = self.shelf.folders().room();
            let Room { left, all } = room.map_err(self.shelf.store.io("ask for the files left in", ""))?;
            let kept = FILES_KEPT.max(all / FILES_KEPT_SHARE);
            self.files = left.saturating_sub(kept).min(FILES_AT_ONCE);
        }
        let may = self.files > 0;
        self.files = self.files.saturating_sub(1);
        Ok(may)
    }

    /// Writes `value` into a file of its own.
    fn write(&mut self, internal: &[u8], value: &[u8]) -> Result<Placed> {
        let file = InFile::new(internal, value, self.shelf.name_bytes_max);
        let path = format!("{}/{}", self.open()?.folder, file.name(internal));
        let TableDirs { store, .. } = &*self.shelf;
        let mut output = match store.fs.create(&path) {
            Err(e) if takes_no_more(&e) => return Ok(Placed::Here),
            made => made.map_err(store.io("create", &path))?,
        };
        let head = file.head(internal);
        let written = if head.is_empty() { output.append(value) } else { output.append(&[&head[..], value].concat()) };
        written.map_err(store.io("append to", &path))?;
        store.traffic.wrote_tables(self.purpose, self.level, file.file_bytes(internal));
        Ok(Placed::File(file))
    }

    /// Takes over what `from`, another table's folder, has for `internal`.
    fn take(&mut self, from: &str, internal: &[u8], stored: &[u8]) -> Result<()> {
        let corrupt = |found| Error::corrupt(self.shelf.store.path(&meta_of(from)), 0, found);
        let file = match Reference::decode(stored).map_err(corrupt)? {
            Reference::Here(value) => return self.list(internal, Placed::Here, value),
            Reference::File(file) => file,
        };
        let name = file.name(internal);
        let (old, new) = (format!("{from}/{name}"), format!("{}/{name}", self.open()?.folder));
        match self.shelf.folders().link_into(&old, &new) {
            Ok(()) => {
                self.open()?.linked_bytes += file.file_bytes(internal);
                self.list(internal, Placed::File(file), &[])
            }
            Err(e) if is_no_link(&e) => {
                let value = read_pair(&self.shelf.store, from, internal, &file, true)?;
                self.add(internal, &value)
            }
            Err(e) => Err(self.shelf.store.io("link to", &new)(e)),
        }
    }

    /// Enters a pair into the meta file, with its value unless that is in a file.
    fn list(&mut self, internal: &[u8], placed: Placed, value: &[u8]) -> Result<()> {
        let Open { writer, pairs, .. } = self.open()?;
        let (mut stored, mut value_bytes) = (Vec::new(), value.len() as u64);
        match placed {
            Placed::Here => Reference::Here(value).encode(&mut stored),
            Placed::File(file) => {
                Reference::File(file).encode(&mut stored);
                pairs.files += 1;
                pairs.file_bytes = pairs.file_bytes.saturating_add(file.file_bytes(internal));
                value_bytes = file.bytes;
            }
        }
        pairs.value_bytes = pairs.value_bytes.saturating_add(value_bytes);
        writer.add(internal, &stored)
    }
}

/// Whether a file cannot have this further name: it has too many, the file system has no links, or the folder no place.
fn is_no_link(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TooManyLinks | ErrorKind::PermissionDenied | ErrorKind::Unsupported | ErrorKind::CrossesDevices
    ) || takes_no_more(error)
}

/// Whether a folder has no place for this name: it is taken, or there are too many.
fn takes_no_more(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::StorageFull)
}

impl TableSink for DirsBuild {
    fn begin_table(&mut self, id: TableId) -> Result<()> {
        if let Some(open) = &self.open {
            return Err(Error::Unsupported(format!("table {} of this build is still open", open.id)));
        }
        let folder = self.shelf.make(self.level, id)?;
        self.made.push(id);
        let output = Output::create(&self.shelf.store, self.purpose, self.level, &meta_of(&folder))?;
        let writer = Writer::new(output, &self.setup);
        self.open = Some(Open { id, folder, writer, pairs: PairProperties::default(), entries: 0, linked_bytes: 0 });
        Ok(())
    }

    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(none_open)?;
        open.entries += 1;
        let corrupt = |found| Error::corrupt(self.shelf.store.path(&meta_of(&open.folder)), 0, found);
        if key::parse(entry.key).map_err(corrupt)?.kind == Kind::Delete {
            return open.writer.add(entry.key, &[]);
        }
        let Origin::Table(id) = entry.origin else { return self.add(entry.key, entry.stored) };
        let from = self.shelf.folder(id).ok_or_else(|| {
            let object = format!("{id} in {}", self.shelf.store.fs.name());
            Error::Missing { what: "folder of table", object }
        })?;
        self.take(&from, entry.key, entry.stored)
    }

    fn delete_range(&mut self, fragment: &Fragment) -> Result<()> {
        self.open()?.writer.delete_range(fragment);
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, |open| open.writer.bytes().saturating_add(open.pairs.file_bytes))
    }

    fn end_table(&mut self) -> Result<()> {
        self.open()?;
        let Some(Open { id, folder, mut writer, pairs, entries, linked_bytes }) = self.open.take() else {
            return Ok(());
        };
        writer.add_meta(pair::META_NAME, pairs.encode());
        let (output, Bounds { smallest, largest }) = writer.finish()?;
        let bytes = output.finish()?.bytes.saturating_add(pairs.file_bytes);
        self.metas.push(TableMeta { entries, linked_bytes, ..TableMeta::bounded(id, bytes, None, smallest, largest) });
        self.bytes = self.bytes.saturating_add(bytes);
        self.finished.push(folder);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<TableMeta>, DurabilityHandle)> {
        if let Some(open) = &self.open {
            return Err(Error::Unsupported(format!("table {} of this build is still open", open.id)));
        }
        let folders = std::mem::take(&mut self.finished);
        let whole = folders.first().map(|first| Finished {
            name: self.shelf.store.path(first),
            file: self.shelf.whole(folders.clone()),
            bytes: self.bytes,
            purpose: self.purpose,
        });
        let ticket = watch(&self.shelf.store, self.purpose, whole.into_iter().collect())?;
        self.made.clear();
        Ok((std::mem::take(&mut self.metas), ticket))
    }
}

impl Drop for DirsBuild {
    fn drop(&mut self) {
        for id in &self.made {
            let _ = self.shelf.remove(*id); // best effort: recovery removes what no manifest names
        }
    }
}
