//! Directory tables: a table is a directory with one file for each key-value pair, named by its
//! key. A compaction makes hard links to these files instead of copying values.
//!
//! ```text
//! L0/000012/META               sorted keys, filter, small values, references to the value files
//! L0/000012/user42.1007.5a1b…  one value; see terrace_format::pair
//! ```
//! The backend [`files`](super::files) stores everything else: the WAL, the manifest, `CURRENT`,
//! the format file, and adopted SSTables. The path of a table contains the level for which the
//! table was made. Tables are found by their numbers, whatever the level in the path.
//!
//! `table_dirs.rs` maps numbers to directories, `build.rs` builds tables, `table.rs` reads them,
//! `adopt.rs` takes over tables of other stores, and `salvage.rs` salvages damaged tables. The
//! format is specified in docs/format/directory-table.md.
use super::files::{Files, Store, open_input, tables::Tables};
use crate::{
    Adopted, Budget, Error, IoStats, Result, TableFile,
    placement::{
        Durability, Hint, Limits, Listed, LogKind, LogReader, LogStore, LogWriter, ObjectId, ObjectStore, RootStore,
        Salvage, StoreInfo, Table, TableMeta, TableSink, TableStore, ValueStore,
    },
};
use std::{
    io::{self, ErrorKind},
    sync::Arc,
};
use table::DirectoryTable;
use table_dirs::TableDirs;
pub(crate) use table_dirs::any_folder;
pub(super) use table_dirs::destroy;
use terrace_format::{Layout, LogId, pair};

mod adopt;
mod build;
mod folder_saver;
mod salvage;
mod table;
mod table_dirs;

/// A store with directory tables.
pub struct Dirs {
    files: Files,
    dirs: Arc<TableDirs>,
    tables: Arc<Tables>,
}

impl Dirs {
    /// Wraps an open store with tables in files. Returns [`Error::Unsupported`] if the file system
    /// lacks directories, or if it limits file names to fewer bytes than directory tables need.
    pub fn open(files: Files) -> Result<Dirs> {
        let store = &files.store;
        let rejected =
            |why: String| Error::Unsupported(format!("tables=directory is refused for {}: {why}", files.name()));
        let folders = store.fs.folders().ok_or_else(|| rejected("there can be no folders".into()))?;
        let name_bytes_max = folders.name_bytes_max().map_err(store.io("query the longest name of", ""))?;
        if name_bytes_max < pair::NAME_BYTES_MIN {
            return Err(rejected(format!(
                "its names have at most {name_bytes_max} bytes, and {} are needed",
                pair::NAME_BYTES_MIN
            )));
        }
        if store.writable("try names").is_ok() && files.load_root()?.is_none() {
            try_special_chars(store)?.map_err(|e| rejected(format!("it rejects names with {SPECIAL_CHARS} ({e})")))?;
        }
        let dirs = Arc::new(TableDirs::open(store.clone(), name_bytes_max)?);
        let find = {
            let dirs = dirs.clone();
            move |meta: &TableMeta| match dirs.folder(meta.id) {
                Some(folder) => dirs.open_meta(&folder, meta),
                None => open_input(&dirs.store, meta),
            }
        };
        let tables = Arc::new(Tables::new(store.clone(), files.budget().clone(), Box::new(find)));
        Ok(Dirs { files, dirs, tables })
    }

    fn store(&self) -> &Arc<Store> {
        &self.files.store
    }
}

/// Characters that appear unescaped in the names of value files, and that some file systems
/// reject.
const SPECIAL_CHARS: &str = r#""*:<>?|\"#;

/// Checks whether the file system accepts special characters in file names: creates and removes a
/// file whose name contains all of `SPECIAL_CHARS`. The inner result is an error if the file
/// system rejects the name.
fn try_special_chars(store: &Store) -> Result<io::Result<()>> {
    match store.fs.create(SPECIAL_CHARS) {
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidFilename) => return Ok(Err(e)),
        // The test file exists already, because an earlier open was interrupted before it removed
        // the file.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        made => drop(made.map_err(store.io("create", SPECIAL_CHARS))?),
    }
    store.fs.remove(SPECIAL_CHARS).map_err(store.io("remove", SPECIAL_CHARS)).map(Ok)
}

impl StoreInfo for Dirs {
    fn name(&self) -> String {
        self.files.name()
    }

    fn place_of(&self, object: ObjectId) -> String {
        let ObjectId::Table(id) = object else { return self.files.place_of(object) };
        match self.dirs.folder(id) {
            Some(folder) => self.store().path(&folder),
            // The table is either a single file that was adopted, or it is missing. The level of a
            // missing table is unknown.
            None if self.store().name_there(object).is_some() => self.files.place_of(object),
            None => self.store().path(&format!("L*/{id}")),
        }
    }

    fn limits(&self) -> Limits {
        self.files.limits()
    }

    fn layout(&self) -> Layout {
        self.files.layout()
    }

    fn budget(&self) -> &Arc<Budget> {
        self.files.budget()
    }

    fn io_stats(&self) -> &IoStats {
        self.files.io_stats()
    }

    fn text_log(&self) -> Option<terrace_vfs::TextLog> {
        self.files.text_log()
    }
}

impl LogStore for Dirs {
    fn create_log(&self, id: LogId, kind: LogKind, first: &[u8]) -> Result<Box<dyn LogWriter>> {
        self.files.create_log(id, kind, first)
    }

    fn open_log(&self, id: LogId, kind: LogKind) -> Result<Box<dyn LogReader>> {
        self.files.open_log(id, kind)
    }

    fn closed_wals_max(&self) -> usize {
        self.files.closed_wals_max()
    }
}

impl ValueStore for Dirs {
    fn separates_values(&self) -> bool {
        true
    }
}

impl TableStore for Dirs {
    fn begin(&self, hint: Hint) -> Result<Box<dyn TableSink>> {
        build::begin(self.dirs.clone(), hint)
    }

    fn open_table(&self, meta: &TableMeta) -> Result<Arc<dyn Table>> {
        let file = self.tables.open(meta)?;
        Ok(match self.dirs.folder(meta.id) {
            Some(folder) => Arc::new(DirectoryTable::new(self.dirs.clone(), folder, file)),
            None => file,
        })
    }

    fn salvage(&self, table: &TableMeta) -> Result<Box<dyn Salvage>> {
        match self.dirs.folder(table.id) {
            Some(folder) => Ok(Box::new(salvage::open(self.dirs.clone(), folder, table)?)),
            None => self.files.salvage(table),
        }
    }
}

impl RootStore for Dirs {
    fn publish_root(&self, manifest: LogId) -> Result<()> {
        self.files.publish_root(manifest)
    }

    fn load_root(&self) -> Result<Option<LogId>> {
        self.files.load_root()
    }

    fn publish_format_file(&self, text: &str) -> Result<()> {
        self.files.publish_format_file(text)
    }

    fn load_format_file(&self) -> Result<Option<String>> {
        self.files.load_format_file()
    }
}

impl ObjectStore for Dirs {
    fn list(&self) -> Result<Vec<Listed>> {
        let mut listed = self.files.list()?;
        listed.extend(self.dirs.list()?);
        Ok(listed)
    }

    fn remove(&self, object: ObjectId) -> Result<()> {
        self.store().writable("remove")?;
        if let ObjectId::Table(id) = object {
            self.dirs.remove(id)?;
        }
        self.files.remove(object)
    }

    fn lost(&self) -> Result<Vec<String>> {
        self.files.lost()
    }

    fn set_aside(&self, object: ObjectId) -> Result<()> {
        let folder = if let ObjectId::Table(id) = object { self.dirs.folder(id) } else { None };
        match folder {
            Some(folder) => self.dirs.set_aside(&folder),
            None => self.files.set_aside(object),
        }
    }

    fn file_of(&self, object: ObjectId) -> Result<TableFile> {
        let folder = if let ObjectId::Table(id) = object { self.dirs.folder(id) } else { None };
        match folder {
            Some(folder) => Ok(TableFile::new(self.store().fs.clone(), folder)),
            None => self.files.file_of(object),
        }
    }

    fn adopt(&self, tables: &[(TableFile, ObjectId)]) -> Result<Adopted> {
        adopt::adopt(&self.dirs, &self.files, tables)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.files.free_bytes()
    }

    fn reserve(&self, bytes: u64) -> Result<()> {
        self.files.reserve(bytes)
    }
}

impl Durability for Dirs {
    fn durability_mode(&self) -> &'static str {
        self.files.durability_mode()
    }

    fn promises(&self) -> bool {
        self.files.promises()
    }

    fn sync_manifest(&self, id: LogId) -> Result<()> {
        self.files.sync_manifest(id)
    }

    fn settle(&self, tables: &[TableMeta]) -> Result<()> {
        let (folders, others): (Vec<_>, Vec<_>) = tables.iter().partition(|meta| self.dirs.folder(meta.id).is_some());
        if self.promises() && self.unsynced() {
            self.dirs.sync(folders.iter().filter_map(|meta| self.dirs.folder(meta.id)).collect())?;
        }
        self.files.settle(&others.into_iter().cloned().collect::<Vec<_>>())
    }

    fn unsynced(&self) -> bool {
        self.files.unsynced()
    }

    fn waits_for_fs_commit(&self) -> bool {
        self.files.waits_for_fs_commit()
    }

    fn advance(&self) -> Result<bool> {
        self.files.advance()
    }

    fn commit(&self) -> Result<()> {
        self.files.commit()
    }
}
