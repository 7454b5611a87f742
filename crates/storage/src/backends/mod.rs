//! Every place bytes can live in, and every way they become durable: the only list of either.
use crate::{
    Error, Result, Setup,
    durability::{CommitTracker, NoTracker, SyncTracker},
    placement::{Mode, Placement},
};
use files::{Files, fs::FileSystem, real::RealFs};
use memory::Memory;
use std::{io, path::Path, path::PathBuf, sync::Arc};
use terrace_format::names::FileName;

pub mod files;
pub mod memory;

/// Where a store is.
#[derive(Clone, Debug)]
pub enum Location {
    /// A directory of a file system.
    Directory(PathBuf),
    /// Memory of this process.
    Memory(Memory),
}

/// How written bytes become durable (docs/durability.md §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// Each build is synced as it is finished.
    #[default]
    Sync,
    /// Never: nothing is promised at a power cut.
    None,
}

impl Tier {
    /// Every tier, in the order of help texts.
    pub const ALL: [Tier; 2] = [Tier::Sync, Tier::None];

    /// As options and reports spell it.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Sync => "sync",
            Tier::None => "none",
        }
    }

    /// The tier spelled `name`.
    pub fn from_name(name: &str) -> Option<Tier> {
        Tier::ALL.into_iter().find(|tier| tier.name() == name)
    }

    fn tracker(self) -> Arc<dyn CommitTracker> {
        match self {
            Tier::Sync => Arc::new(SyncTracker),
            Tier::None => Arc::new(NoTracker),
        }
    }
}

/// Opens the store at `location`.
///
/// Fails with [`Error::Missing`] if there is none and `mode` may not create it, with [`Error::InUse`] if somebody
/// else has it open.
pub fn open(location: &Location, mode: Mode, tier: Tier, setup: &Setup) -> Result<Box<dyn Placement>> {
    let fs: Arc<dyn FileSystem> = match location {
        Location::Directory(path) => Arc::new(RealFs::new(path)),
        Location::Memory(memory) => Arc::new(memory.clone()),
    };
    open_files(fs, mode, tier.tracker(), setup)
}

/// Opens a store of files in a directory of the caller's making, with tickets that mature as the caller likes.
pub fn open_files(
    fs: Arc<dyn FileSystem>,
    mode: Mode,
    tracker: Arc<dyn CommitTracker>,
    setup: &Setup,
) -> Result<Box<dyn Placement>> {
    Ok(Box::new(Files::open(fs, mode, tracker, setup)?))
}

/// Removes the store at `location`: its own files, known by their names, and then the directory if nothing is left
/// in it. Refused with [`Error::InUse`] while somebody has it open; a missing store is fine.
pub fn destroy(location: &Location) -> Result<()> {
    match location {
        Location::Directory(path) => destroy_directory(path),
        Location::Memory(memory) => memory.clear().map_err(|e| files::lock_error("memory".into(), e)),
    }
}

/// `CURRENT` goes first, so that an interrupted removal leaves no store rather than half of one; `LOCK` goes last.
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
    if own_names(&fs, &at)?.is_empty() && !path.join("LOCK").exists() {
        return Ok(()); // not a store, and not ours to put a lock file into
    }
    let held = fs.lock(true).map_err(|e| files::lock_error(fs.name(), e))?;
    let names = own_names(&fs, &at)?; // again: until now somebody may have been writing
    names.into_iter().chain(["LOCK".to_string()]).try_for_each(remove)?;
    drop(held);
    fs.remove_empty().map_err(|e| Error::io("remove", fs.name(), e))
}

/// The store's own files but `LOCK`, `CURRENT` first.
fn own_names(fs: &RealFs, at: &dyn Fn(&str) -> String) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs.list().map_err(|e| Error::io("list", fs.name(), e))? {
        match FileName::parse(&entry.name) {
            Some(FileName::Current) => names.insert(0, entry.name),
            Some(FileName::Lock) | None => {}
            Some(_) => names.push(entry.name),
        }
    }
    for name in fs.list_lost().map_err(|e| Error::io("list", at("lost"), e))? {
        if files::root::is_set_aside(&name) {
            names.push(format!("lost/{name}"));
        }
    }
    Ok(names)
}
