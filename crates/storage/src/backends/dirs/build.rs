//! Writes the directory tables of a job: one directory for each table, with one file for each
//! value that is large enough. All tables of a job become durable together.
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

/// The number of inodes that a job which writes directory tables leaves free. In addition it
/// leaves at least one in `FILES_RESERVED_SHARE` of all inodes free. WALs, manifests and tables
/// need these inodes. If fewer inodes are free, the job stores values in the META file (the sorted
/// list of a table's keys) and not in files of their own. A table takes two inodes, so tables of
/// 64 KiB with inline values can still fill a quarter of a disk formatted by `mkfs.ext4`.
const FILES_RESERVED: u64 = 1024;
const FILES_RESERVED_SHARE: u64 = 8;
/// Number of value files that a job creates before it queries the file system again for free
/// inodes.
const FILES_PER_QUERY: u64 = 64;

/// Starts to write the directory tables of a job.
pub(super) fn begin(dirs: Arc<TableDirs>, hint: Hint) -> Result<Box<dyn TableSink>> {
    dirs.store.writable("build tables")?;
    let setup = StorageConfig { filter_form: FilterForm::Table, ..dirs.store.setup.clone() };
    let (purpose, level) = (purpose(hint), hint.level);
    let (open, metas, finished, made) = Default::default();
    Ok(Box::new(DirsBuild { dirs, setup, purpose, level, open, metas, bytes: 0, finished, made, files: 0 }))
}

struct DirsBuild {
    dirs: Arc<TableDirs>,
    setup: StorageConfig,
    purpose: Purpose,
    level: usize,
    open: Option<OpenTable>,
    metas: Vec<TableMeta>,
    /// Total size of the finished tables in bytes.
    bytes: u64,
    /// Directories of the finished tables.
    finished: Vec<String>,
    /// All tables that this job has begun. If the job is abandoned, it removes them.
    made: Vec<TableId>,
    /// Number of files that may still be created before the next query of free inodes.
    files: u64,
}

/// A directory table that is being built.
struct OpenTable {
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

/// The place of a pair's value.
enum ValueAt {
    /// The value is in a file that contains only this value.
    File(InFile),
    /// The value is in the META file of the table, next to the key, for one of three reasons:
    ///
    /// - The value is small.
    /// - A file of the same name exists, which belongs to a pair whose key differs only in the part
    ///   that the name omits.
    /// - The directory or the file system accepts no more files.
    ///
    /// If the disk has no space left, the write of the META file returns that error.
    Meta,
}

impl DirsBuild {
    fn open(&mut self) -> Result<&mut OpenTable> {
        self.open.as_mut().ok_or_else(none_open)
    }

    /// Adds the pair with the key `internal` and the new value `value`.
    fn add(&mut self, internal: &[u8], value: &[u8]) -> Result<()> {
        self.open()?;
        let here = (value.len() as u64) < self.setup.min_value_file_size;
        let placed = if here || !self.may_create_file()? { ValueAt::Meta } else { self.write(internal, value)? };
        self.list(internal, placed, value)
    }

    /// Returns whether enough inodes are free to create one more value file.
    fn may_create_file(&mut self) -> Result<bool> {
        if self.files == 0 {
            let room = self.dirs.folders().room();
            let Room { left, all } = room.map_err(self.dirs.store.io("query the free inodes of", ""))?;
            let reserved = FILES_RESERVED.max(all / FILES_RESERVED_SHARE);
            self.files = left.saturating_sub(reserved).min(FILES_PER_QUERY);
        }
        let may = self.files > 0;
        self.files = self.files.saturating_sub(1);
        Ok(may)
    }

    /// Writes `value` to a new file. If the directory does not accept the file, writes nothing and
    /// returns the META file as the place of the value.
    fn write(&mut self, internal: &[u8], value: &[u8]) -> Result<ValueAt> {
        let file = InFile::new(internal, value, self.dirs.name_bytes_max);
        let path = format!("{}/{}", self.open()?.folder, file.name(internal));
        let TableDirs { store, .. } = &*self.dirs;
        let mut output = match store.fs.create(&path) {
            Err(e) if takes_no_more(&e) => return Ok(ValueAt::Meta),
            made => made.map_err(store.io("create", &path))?,
        };
        let head = file.head(internal);
        let written = if head.is_empty() { output.append(value) } else { output.append(&[&head[..], value].concat()) };
        written.map_err(store.io("append to", &path))?;
        store.io_stats.wrote_tables(self.purpose, self.level, file.file_bytes(internal));
        Ok(ValueAt::File(file))
    }

    /// Adds the pair with the key `internal` from the directory `from`, which belongs to another
    /// table. Links the value file into the new directory, or copies the value if the file cannot
    /// be linked.
    fn take(&mut self, from: &str, internal: &[u8], stored: &[u8]) -> Result<()> {
        let corrupt = |found| Error::corrupt(self.dirs.store.path(&meta_of(from)), 0, found);
        let file = match Reference::decode(stored).map_err(corrupt)? {
            Reference::Here(value) => return self.list(internal, ValueAt::Meta, value),
            Reference::File(file) => file,
        };
        let name = file.name(internal);
        let (old, new) = (format!("{from}/{name}"), format!("{}/{name}", self.open()?.folder));
        match self.dirs.folders().link_into(&old, &new) {
            Ok(()) => {
                self.open()?.linked_bytes += file.file_bytes(internal);
                self.list(internal, ValueAt::File(file), &[])
            }
            Err(e) if cannot_link(&e) => {
                let value = read_pair(&self.dirs.store, from, internal, &file, true)?;
                self.add(internal, &value)
            }
            Err(e) => Err(self.dirs.store.io("link to", &new)(e)),
        }
    }

    /// Adds the pair with the key `internal` to the META file. The META entry has either a
    /// reference to the value's file or the value itself.
    fn list(&mut self, internal: &[u8], placed: ValueAt, value: &[u8]) -> Result<()> {
        let OpenTable { writer, pairs, .. } = self.open()?;
        let (mut stored, mut value_bytes) = (Vec::new(), value.len() as u64);
        match placed {
            ValueAt::Meta => Reference::Here(value).encode(&mut stored),
            ValueAt::File(file) => {
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

/// Returns whether `error` means that a hard link cannot be made: the file has too many links, the
/// file system does not support links, or the directory has no room.
fn cannot_link(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::TooManyLinks | ErrorKind::PermissionDenied | ErrorKind::Unsupported | ErrorKind::CrossesDevices
    ) || takes_no_more(error)
}

/// Returns whether `error` means that the directory accepts no file of this name: the name exists,
/// or there are too many files.
fn takes_no_more(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::StorageFull)
}

impl TableSink for DirsBuild {
    fn begin_table(&mut self, id: TableId) -> Result<()> {
        if let Some(open) = &self.open {
            return Err(Error::Unsupported(format!("table {} of this build is still open", open.id)));
        }
        let folder = self.dirs.make(self.level, id)?;
        self.made.push(id);
        let output = Output::create(&self.dirs.store, self.purpose, self.level, &meta_of(&folder))?;
        let writer = Writer::new(output, &self.setup);
        self.open =
            Some(OpenTable { id, folder, writer, pairs: PairProperties::default(), entries: 0, linked_bytes: 0 });
        Ok(())
    }

    fn keep(&mut self, entry: EntryRef<'_>) -> Result<()> {
        let open = self.open.as_mut().ok_or_else(none_open)?;
        open.entries += 1;
        let corrupt = |found| Error::corrupt(self.dirs.store.path(&meta_of(&open.folder)), 0, found);
        if key::parse(entry.key).map_err(corrupt)?.kind == Kind::Delete {
            return open.writer.add(entry.key, &[]);
        }
        let Origin::Table(id) = entry.origin else { return self.add(entry.key, entry.stored) };
        let from = self.dirs.folder(id).ok_or_else(|| {
            let object = format!("{id} in {}", self.dirs.store.fs.name());
            Error::Missing { what: "directory of table", object }
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
        let Some(OpenTable { id, folder, mut writer, pairs, entries, linked_bytes }) = self.open.take() else {
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
        let unsynced = folders.first().map(|first| Finished {
            name: self.dirs.store.path(first),
            file: self.dirs.whole(folders.clone()),
            bytes: self.bytes,
            purpose: self.purpose,
        });
        let handle = watch(&self.dirs.store, self.purpose, unsynced.into_iter().collect())?;
        self.made.clear();
        Ok((std::mem::take(&mut self.metas), handle))
    }
}

impl Drop for DirsBuild {
    fn drop(&mut self) {
        for id in &self.made {
            // An error of the removal is ignored: recovery removes directories that no manifest
            // names.
            let _ = self.dirs.remove(*id);
        }
    }
}
