//! The directories of directory tables. `L2/000012` is table 12, which was made for level 2. A
//! trivial move (a move of a table to the next level without rewriting it) changes only the
//! manifest and not the path. The level in the path is therefore the level for which the table was
//! made, and tables are found by their numbers.
use super::super::{
    files::{Input, Store},
    open_files::OpenFiles,
};
use super::folder_saver::{Saver, WholeFolders};
use crate::{
    Error, Purpose, Result, SyncKind,
    placement::{Listed, ObjectId, TableMeta},
    tables::sst::read_pair_properties,
};
use parking_lot::Mutex;
use std::{collections::BTreeMap, io, sync::Arc, time::Instant};
use terrace_format::{LEVELS, TableId, names::FileName, pair};
use terrace_vfs::{FileSystem, Folders, Inside, WriteFile};

/// The table directories of a store.
pub(super) struct TableDirs {
    pub store: Arc<Store>,
    /// Longest file name in bytes.
    pub name_bytes_max: usize,
    saver: Arc<Saver>,
    /// Open value files, by directory and name.
    pub pairs: Arc<OpenFiles<(String, String), Arc<Input>>>,
    /// For each table, the level in the path of its directory. A thread that holds this lock does
    /// no I/O.
    levels: Mutex<BTreeMap<TableId, usize>>,
}

fn level_folder(level: usize) -> String {
    format!("L{level}")
}

fn folder(level: usize, id: TableId) -> String {
    format!("L{level}/{id}")
}

/// Returns the number of the table whose directory is `inside`; `None` if it is not the directory
/// of a table.
fn table_of(inside: &Inside) -> Option<TableId> {
    let Some(FileName::Table(id)) = FileName::parse(&format!("{}.ldb", inside.name)) else { return None };
    inside.is_folder.then_some(id)
}

impl TableDirs {
    /// Lists the existing tables.
    pub fn open(store: Arc<Store>, name_bytes_max: usize) -> Result<TableDirs> {
        let saver = Arc::new(Saver::new(store.fs.clone()));
        let pairs = OpenFiles::new(store.share.clone());
        let dirs = TableDirs { store, name_bytes_max, saver, pairs, levels: Mutex::default() };
        let found = found(&*dirs.store.fs)?;
        dirs.levels.lock().extend(found);
        Ok(dirs)
    }

    pub fn folders(&self) -> &dyn Folders {
        self.store.fs.folders().expect("a store of directory tables has directories")
    }

    /// Returns the directory of a table; `None` if the table has no directory.
    pub fn folder(&self, id: TableId) -> Option<String> {
        self.levels.lock().get(&id).map(|level| folder(*level, id))
    }

    /// Creates the directory of a new table.
    pub fn make(&self, level: usize, id: TableId) -> Result<String> {
        let (above, name) = (level_folder(level), folder(level, id));
        let make = |name: &str| self.folders().make_folder(name);
        let made = match make(&name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => make(&above)
                .or_else(|e| if e.kind() == io::ErrorKind::AlreadyExists { Ok(()) } else { Err(e) })
                .and_then(|()| make(&name)),
            made => made,
        };
        made.map_err(self.store.io("make folder", &name))?;
        self.levels.lock().insert(id, level);
        Ok(name)
    }

    /// Lists all tables. The size of a table includes its value files, as recorded in its META
    /// file. If the META file is corrupt, the size is that of the META file only.
    pub fn list(&self) -> Result<Vec<Listed>> {
        let mut listed = Vec::new();
        for (id, level) in found(&*self.store.fs)? {
            let bytes = match self.store.open_file("META file", &meta_of(&folder(level, id))) {
                Ok(input) => match read_pair_properties(&input) {
                    Ok(pairs) => input.bytes.saturating_add(pairs.file_bytes),
                    Err(Error::Corrupt { .. }) => input.bytes,
                    // In salvage mode this error is ignored, because the later read of the table
                    // reports the damage of the META file.
                    Err(_) if self.store.salvages() => input.bytes,
                    Err(error) => return Err(error),
                },
                Err(Error::Missing { .. }) => 0,
                Err(_) if self.store.salvages() => 0,
                Err(error) => return Err(error),
            };
            listed.push(Listed { object: ObjectId::Table(id), bytes });
        }
        Ok(listed)
    }

    /// Opens the META file of the table that `meta` describes.
    pub fn open_meta(&self, folder: &str, meta: &TableMeta) -> Result<Input> {
        let mut input = self.store.open_file("table", &meta_of(folder))?;
        let bytes = input.bytes.saturating_add(read_pair_properties(&input)?.file_bytes);
        if bytes != meta.bytes {
            let detail = format!("META file and value files have {bytes} bytes, the manifest says {}", meta.bytes);
            return Err(Error::Corrupt { what: "table", object: input.name, offset: input.bytes, detail });
        }
        if self.store.maps() {
            input.map();
        }
        Ok(input)
    }

    /// Removes a table's directory with all files.
    pub fn remove(&self, id: TableId) -> Result<()> {
        let Some(name) = self.folder(id) else { return Ok(()) };
        self.pairs.forget(|(folder, _)| *folder == name);
        remove_all(&*self.store.fs, self.folders(), &name).map_err(self.store.io("remove", &name))?;
        self.levels.lock().remove(&id);
        Ok(())
    }

    /// Makes all files in `folders` durable.
    pub fn sync(&self, folders: Vec<String>) -> Result<()> {
        let Some(first) = folders.first().cloned() else { return Ok(()) };
        let start = Instant::now();
        self.whole(folders).sync().map_err(self.store.io("sync", &first))?;
        self.store.io_stats.synced(SyncKind::Tables(Purpose::Other), 0, start.elapsed());
        Ok(())
    }

    /// Combines the finished directories `names` into one object that a durability tracker can
    /// sync.
    pub fn whole(&self, names: Vec<String>) -> Box<WholeFolders> {
        Box::new(self.saver.finished(names))
    }

    /// Links the files of the table directory `name` into a new directory below `lost/`. If the new
    /// name exists, the suffix `-2`, `-3`, … is appended.
    pub fn set_aside(&self, name: &str) -> Result<()> {
        self.store.writable("set aside")?;
        let failed = |e| self.store.io("set aside", name)(e);
        let own = name.rsplit('/').next().unwrap_or(name);
        let make = |target: &str| match self.folders().make_folder(target) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            made => made.map(|()| true).map_err(failed),
        };
        make("lost")?;
        let (mut target, mut copy) = (format!("lost/{own}"), 1u64);
        while !make(&target)? {
            copy += 1;
            target = format!("lost/{own}-{copy}");
        }
        for inside in self.folders().list_folder(name).map_err(failed)? {
            let (from, to) = (format!("{name}/{}", inside.name), format!("{target}/{}", inside.name));
            self.folders().link_into(&from, &to).map_err(failed)?;
        }
        if self.store.tracker.promises() { self.sync(vec![target]) } else { Ok(()) }
    }
}

/// Lists all tables with a directory, and the level in the directory's path.
fn found(fs: &dyn FileSystem) -> Result<Vec<(TableId, usize)>> {
    let (Some(folders), mut found) = (fs.folders(), Vec::new()) else { return Ok(Vec::new()) };
    for level in 0..LEVELS {
        let name = level_folder(level);
        match folders.list_folder(&name) {
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            listed => {
                let listed = listed.map_err(|e| Error::io("list", format!("{}/{name}", fs.name()), e))?;
                found.extend(listed.iter().filter_map(table_of).map(|id| (id, level)));
            }
        }
    }
    Ok(found)
}

/// Returns the directory of any one table; `None` if the store has no directory table. A store
/// that has lost its root and its format file still has these directories.
pub(crate) fn any_folder(fs: &dyn FileSystem) -> Result<Option<String>> {
    Ok(found(fs)?.first().map(|(id, level)| folder(*level, *id)))
}

/// Path of the META file in a directory.
pub(super) fn meta_of(folder: &str) -> String {
    format!("{folder}/{}", pair::META)
}

/// Removes the table directories of a store that is being destroyed, including the directories
/// below `lost/`. Other directories stay.
pub(in crate::backends) fn destroy(fs: &dyn FileSystem) -> Result<()> {
    let Some(folders) = fs.folders() else { return Ok(()) };
    let failed = |e| Error::io("remove", fs.name(), e);
    let levels = (0..LEVELS).map(level_folder);
    for above in levels.chain(["lost".to_string()]) {
        let inside = match folders.list_folder(&above) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            listed => listed.map_err(failed)?,
        };
        for table in inside.iter().filter(|inside| table_of(inside).is_some() || is_copy(&above, inside)) {
            remove_all(fs, folders, &format!("{above}/{}", table.name)).map_err(failed)?;
        }
        match folders.remove_folder(&above) {
            Err(e) if e.kind() != io::ErrorKind::DirectoryNotEmpty => return Err(failed(e)),
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether `inside`, an entry of the folder `above`, is a further copy of a table in
/// `lost/`: its name ends in a suffix such as `-2`.
fn is_copy(above: &str, inside: &Inside) -> bool {
    let stem = inside.name.rsplit_once('-').map(|(stem, _)| stem.to_string());
    above == "lost" && stem.is_some_and(|name| table_of(&Inside { name, ..inside.clone() }).is_some())
}

/// Removes a directory and its files. The META file is removed last, because it identifies the
/// directory as a table. A missing directory is no error.
fn remove_all(fs: &dyn FileSystem, folders: &dyn Folders, name: &str) -> io::Result<()> {
    let absent_is_fine = |done: io::Result<()>| match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    };
    let mut inside = match folders.list_folder(name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    inside.sort_by_key(|inside| inside.name == pair::META);
    inside.iter().try_for_each(|inside| absent_is_fine(fs.remove(&format!("{name}/{}", inside.name))))?;
    absent_is_fine(folders.remove_folder(name))
}
