//! Opens and removes stores at all locations. Only this module knows all kinds of locations and
//! all backends.
//!
//! ```text
//! Location ── file system ── layout ─┬─ Files               tables of blocks, or bundles of them
//!                                    ├─ ValueLog over Files  key-value separation
//!                                    └─ Dirs over Files      directory tables
//! ```
use crate::{
    DurabilityMode, Error, Result, StorageConfig,
    durability::DurabilityTracker,
    placement::{OpenMode, Storage},
};
use dirs::Dirs;
use files::Files;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace_format::{Medium, TableForm, Values, names::FileName};
use terrace_vfs::{CHECKPOINT_FOLDER, CHECKPOINT_MARKER, FileSystem, MemFs, RealFs, set_aside_from};
use value_log::ValueLog;

mod descriptors;
pub(crate) mod dirs;
pub mod files;
mod interrupted;
pub mod layout;
mod mode;
mod open_files;
pub mod raw;
mod replace;
mod shares;
mod value_log;

pub use replace::{destroy_with_replaced, replace_directory};
/// The location of a store.
#[derive(Clone, Debug)]
pub enum Location {
    /// A directory of a file system, by its path.
    Directory(PathBuf),
    /// A block device that was formatted for a store, or a formatted file that is used as one.
    Device(PathBuf),
    /// A split store, by the path of its directory. WALs and tables are on the device that the file
    /// `DATA` in the directory names.
    Split(PathBuf),
    /// The memory of this process.
    Memory(MemFs),
}

impl Location {
    /// Returns the location at `path`. The path of a block device or of a regular file is a device.
    /// Any other path is a directory, which may be missing, and which may be one part of a split
    /// store.
    pub fn at(path: impl Into<PathBuf>) -> Location {
        let path = path.into();
        match path {
            path if raw::is_device(&path) => Location::Device(path),
            path if raw::split::is_split(&path) => Location::Split(path),
            path => Location::Directory(path),
        }
    }
}

/// Opens the store at `location`.
///
/// # Errors
/// [`Error::Missing`] if there is no store and `mode` does not allow to create one.
/// [`Error::InUse`] if another process or handle has the store open. [`Error::Unsupported`] if the
/// file system cannot keep the promise of the durability mode.
pub fn open(
    location: &Location,
    mode: OpenMode,
    durability_mode: DurabilityMode,
    setup: &StorageConfig,
) -> Result<Box<dyn Storage>> {
    let fs: Arc<dyn FileSystem> = match location {
        Location::Directory(path) => {
            if mode == OpenMode::Create {
                interrupted::check_interrupted(path)?;
            }
            Arc::new(RealFs::new(path))
        }
        Location::Device(path) => raw::open(path, mode, setup)?,
        Location::Split(path) => raw::split::open(path, mode, setup)?,
        Location::Memory(memory) => Arc::new(memory.clone()),
    };
    let particular = match durability_mode {
        // An open for reading needs no durability guarantee. It therefore succeeds in the modes
        // `group` and `journal` even on a file system that does not support them.
        DurabilityMode::Group | DurabilityMode::Journal | DurabilityMode::JournalBpf => !mode.writes(),
        DurabilityMode::Inherit => mode == OpenMode::Salvage, // the format file may be damaged
        DurabilityMode::Sync | DurabilityMode::Background | DurabilityMode::Auto | DurabilityMode::None => false,
    };
    let durability_mode = if particular { DurabilityMode::Auto } else { durability_mode };
    let tracker = durability_mode.tracker(&*fs, setup)?;
    open_files(fs, mode, tracker, setup)
}

/// Removes the checkpoint that a killed backup has left in the directory of the store. Ignores
/// errors, and a directory of the same name that no backup has made.
fn remove_checkpoint(path: &Path) {
    let folder = path.join(CHECKPOINT_FOLDER);
    if folder.join(CHECKPOINT_MARKER).is_file() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Opens the store in the file system `fs`. `tracker` completes the durability handles.
pub fn open_files(
    fs: Arc<dyn FileSystem>,
    mode: OpenMode,
    tracker: Arc<dyn DurabilityTracker>,
    setup: &StorageConfig,
) -> Result<Box<dyn Storage>> {
    let layout = layout::of_files(&*fs, mode, setup)?;
    let can_follow =
        (layout.tables, layout.values, layout.medium) == (TableForm::Block, Values::Table, Medium::Directory);
    if mode == OpenMode::Follow && !can_follow {
        let text = "only a store of block tables in a directory can be read while another process writes it";
        return Err(Error::Unsupported(format!("{}: {text}", fs.name())));
    }
    let setup = &descriptors::for_tables(setup, layout, descriptors::open_files_max(&*fs));
    let block = |layout| Files::open(fs, mode, tracker, setup, layout);
    match (layout.tables, layout.values) {
        (TableForm::Block | TableForm::Bundled, Values::Table) => Ok(Box::new(block(layout)?)),
        (TableForm::Block | TableForm::Bundled, Values::Log) => {
            let files = block(layout)?;
            let share = files.store.share.clone();
            Ok(Box::new(ValueLog::new(Box::new(files), share, setup)))
        }
        (TableForm::Directory, Values::Table) => Ok(Box::new(Dirs::open(block(layout)?)?)),
        (TableForm::Directory, Values::Log) => Err(Error::Unsupported(
            "values=log is refused with tables=directory, whose values have files of their own".into(),
        )),
    }
}

/// Returns whether the directory `inner`, which need not exist yet, is `outer` or below it.
pub fn lies_in(inner: &Path, outer: &Path) -> Result<bool> {
    let whole = |path: &Path| -> io::Result<PathBuf> {
        let path = std::path::absolute(path)?;
        let there = path.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
        Ok(there.canonicalize()?.join(path.strip_prefix(there).unwrap_or(Path::new(""))))
    };
    let find = |path: &Path| whole(path).map_err(|e| Error::io("look for", path.display().to_string(), e));
    Ok(find(inner)?.starts_with(find(outer)?))
}

/// Removes the store at `location`: first the files of the store, which are recognized by their
/// names, then the directory if it is empty. Returns [`Error::InUse`] while the store is open. A
/// missing store is no error.
pub fn destroy(location: &Location) -> Result<()> {
    match location {
        Location::Directory(path) => {
            // First, so that no later repair brings the store back.
            if let Some((_, repaired)) = interrupted::interrupted(path) {
                destroy_directory(&repaired)?;
                let _ = std::fs::remove_file(repaired.join(interrupted::REPLACES));
                let _ = std::fs::remove_dir(&repaired);
            }
            destroy_directory(path)
        }
        Location::Device(path) => {
            let device = raw::open(path, OpenMode::Write, &StorageConfig::default())?;
            destroy_prepared(path, &*device, || names_on(&device))
        }
        Location::Split(path) => {
            let (split, fs) = (raw::split::open(path, OpenMode::Write, &StorageConfig::default())?, RealFs::new(path));
            let at = |name: &str| path.join(name).display().to_string();
            destroy_prepared(path, &*split, || Ok([own_names(&fs, &at)?, names_on(split.device())?].concat()))
        }
        Location::Memory(memory) => memory.clear().map_err(|e| files::lock_error("memory".into(), e)),
    }
}

/// Removes the store in the directory `path`. It removes `CURRENT` first, so that an interrupted
/// removal leaves no store instead of an incomplete one. It removes `LOCK` last.
fn destroy_directory(path: &Path) -> Result<()> {
    let fs = RealFs::new(path);
    let at = |name: &str| path.join(name).display().to_string();
    if !fs.exists().map_err(|e| Error::io("look for", fs.name(), e))? {
        return Ok(());
    }
    let remove = |name: String| match fs.remove(&name) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", at(&name), e)),
        _ => Ok(()),
    };
    if own_names(&fs, &at)?.is_empty() && !fs.has("LOCK") {
        return Ok(()); // not a store, so no lock file is created in it
    }
    let held = fs.lock(true).map_err(|e| files::lock_error(fs.name(), e))?;
    remove(FileName::Current.to_string())?;
    remove_checkpoint(path);
    dirs::destroy(&fs)?;
    let names = own_names(&fs, &at)?; // again: a writer may have added files
    let mark = fs.has(interrupted::REPLACES).then(|| interrupted::REPLACES.to_owned());
    names.into_iter().chain(mark).try_for_each(remove)?;
    match fs.remove_lock(held) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io("remove", at("LOCK"), e)),
        _ => {}
    }
    fs.remove_empty().map_err(|e| Error::io("remove", fs.name(), e))
}

/// Removes all files of a store on a device, or of a split store, `CURRENT` first. The device
/// stays formatted, and the directory of a split store is not removed.
fn destroy_prepared(path: &Path, fs: &dyn FileSystem, names: impl FnOnce() -> Result<Vec<String>>) -> Result<()> {
    let failed = |op| move |e| Error::io(op, path.display().to_string(), e);
    let held = fs.lock(true).map_err(|e| files::lock_error(fs.name(), e))?;
    let mut names = names()?;
    let current = FileName::Current.to_string();
    names.sort_by_key(|name| *name != current);
    for name in &names {
        fs.remove(name).map_err(failed("remove files of"))?;
        if *name == current {
            fs.sync_directory().map_err(failed("sync directory"))?;
        }
    }
    fs.sync_directory().map_err(failed("sync directory"))?;
    drop(held);
    Ok(())
}

fn names_on(device: &raw::RawFs) -> Result<Vec<String>> {
    let files = device.files().map_err(|e| Error::io("list", device.name(), e))?;
    Ok(files.into_iter().map(|file| file.name).collect())
}

/// Returns the names of the store's files, without `LOCK`.
fn own_names(fs: &RealFs, at: &dyn Fn(&str) -> String) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs.list().map_err(|e| Error::io("list", fs.name(), e))? {
        match FileName::parse(&entry.name) {
            Some(FileName::Lock) | None => {}
            Some(_) => names.push(entry.name),
        }
    }
    for name in fs.list_lost().map_err(|e| Error::io("list", at("lost"), e))? {
        if set_aside_from(&name).is_some() {
            names.push(format!("lost/{name}"));
        }
    }
    Ok(names)
}
