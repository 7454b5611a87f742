//! A raw device: a block device, or a file used as one, without a file system. It provides a flat
//! directory of files in slots that is consistent after a power cut at any write.
//!
//! ```text
//! RawFs ── lock ── Mount ─┬─ FileList  names, numbers and slots of the files; in memory
//!                         ├─ Journal   the slot journal, which makes the file list durable
//!                         ├─ Space     free slots, and slots waiting for a flush or discard
//!                         └─ File      bytes in slots
//! ```
//! Layout of the device (`terrace_format::raw`; docs/format/raw.md):
//!
//! ```text
//! 0       64 KiB   128 KiB              128 KiB + 2 × half              first slot
//! ├────────┼────────┼─────────┬─────────┼───────────────────────────────┼────────┬────────┬───
//! │ super- │ super- │ slot journal      │ padding to a whole unit       │ slot 0 │ slot 1 │ …
//! │ block  │ block  │ half A  │ half B  │                               │        │        │
//! └────────┴────────┴─────────┴─────────┴───────────────────────────────┴────────┴────────┴───
//!                       │
//!                       └─ head, checkpoint of the file list, entries since then
//! ```
//! A file is a list of slots (the allocation units of the device). Slots are grouped into units; a
//! unit has the size that the drive erases as a whole. Files of one lifetime class (files that are
//! removed at similar times) share units. Each entry of the slot journal changes the file list.
//! When one half of the journal is full, a checkpoint is written to the other half.
//!
//! `RawFs` implements [`FileSystem`], so the code for WALs, tables and roots is the same as in a
//! directory. Each time the device is locked for writing, the file list is read from the device
//! again.
mod error;
mod file;
mod files;
mod format;
mod found;
mod journal;
mod mount;
mod salvage;
mod space;
mod superblock;
mod table;
mod unflushed;

use crate::{
    capacity::Capacity,
    file::{ReadFile, WriteFile},
    fs::{DirEntry, DirectoryLock, FileSystem, FileUse},
    holders::{Hold, Holders},
    journal::JournalCommit,
};
use file::{Reading, Writing};
use mount::Mount;
use parking_lot::Mutex;
use std::{
    io::{Error, ErrorKind, Result},
    sync::Arc,
    time::Duration,
};
use superblock::damaged_superblocks;
use terrace_device::BlockDevice;
use terrace_format::{FileName, raw::Form};

pub use error::io;
pub use format::format;
pub use found::found;
pub use salvage::{Salvaged, salvage};
pub use superblock::find;
pub use terrace_format::raw::{Sizes, Superblock};

/// Lifetime classes: groups of files that are removed at similar times. Files of one class share
/// units.
#[derive(Clone, Copy)]
enum LifetimeClass {
    /// Small files that are replaced: the root, the format file.
    Replaced = 0,
    /// WALs.
    Log = 1,
    /// SSTables of levels 0 and 1.
    Upper = 2,
    /// SSTables of deeper levels.
    Deeper = 3,
    /// Segments of a value log.
    Values = 4,
}

impl LifetimeClass {
    /// Returns the class of file `name`, or `other` if the name does not determine the class.
    fn of(name: &str, other: LifetimeClass) -> LifetimeClass {
        match FileName::parse(name) {
            Some(FileName::ValueLog(_) | FileName::Values(_)) => LifetimeClass::Values,
            _ => other,
        }
    }
}

/// A file on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFile {
    /// The name of the file.
    pub name: String,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The slots of the file, in the order of its bytes.
    pub slots: Vec<std::ops::Range<u32>>,
}

/// A raw device that is used like a directory.
pub struct RawFs {
    device: Arc<dyn BlockDevice>,
    name: String,
    holders: Holders,
    /// Whether writes to the device consist of whole pages only.
    padding: bool,
    /// The mounted device. It is loaded at the first use, and again at the first use after the
    /// device was locked.
    mount: Mutex<Option<Arc<Mount>>>,
}

impl RawFs {
    /// Makes the file system on `device`. `name` is its name in messages. Nothing is read yet.
    pub fn new(device: Arc<dyn BlockDevice>, name: impl Into<String>) -> Arc<RawFs> {
        RawFs::writing(device, name, true)
    }

    /// Makes the file system as [`new`](RawFs::new) does. With `padding`, writes consist of whole
    /// pages only, padded with zeros.
    pub fn writing(device: Arc<dyn BlockDevice>, name: impl Into<String>, padding: bool) -> Arc<RawFs> {
        let (holders, mount) = (Holders::default(), Mutex::default());
        Arc::new(RawFs { device, name: name.into(), holders, padding, mount })
    }

    /// Returns the device's superblock.
    pub fn superblock(&self) -> Result<Superblock> {
        Ok(self.mount()?.superblock)
    }

    /// Returns the number of free slots.
    pub fn free_slots(&self) -> Result<u64> {
        Ok(self.mount()?.free_slots())
    }

    /// Lists every file, including those in `lost/`.
    pub fn files(&self) -> Result<Vec<RawFile>> {
        let files = self.mount()?.files().into_iter();
        files.map(|(name, file)| Ok(RawFile { name, bytes: file.bytes()?, slots: file.slots() })).collect()
    }

    /// Checks three invariants: each slot has one owner or is free, the file list in memory equals
    /// that of the journal, and both superblocks are intact. Returns the violations. The device
    /// must have no writer during the check.
    pub fn problems(&self) -> Result<Vec<String>> {
        let mut found = self.mount()?.problems()?;
        found.extend(damaged_superblocks(&*self.device)?);
        Ok(found)
    }

    fn mount(&self) -> Result<Arc<Mount>> {
        let mut mount = self.mount.lock();
        if let Some(mount) = &*mount {
            return Ok(mount.clone());
        }
        let superblock = find(&*self.device)?
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "it holds no store; `terrace raw format` formats it"))?;
        let loaded = Mount::load(self.device.clone(), superblock, self.padding)?;
        *mount = Some(loaded.clone());
        Ok(loaded)
    }

    fn create_as(&self, name: &str, form: Form, class: LifetimeClass) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.mount()?.create(name, form, class as u8)?)))
    }

    fn unmount(&self) {
        if let Some(mount) = self.mount.lock().take() {
            mount.expire();
        }
    }
}

impl FileSystem for RawFs {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn make_directory(&self) -> Result<()> {
        self.mount().map(drop)
    }

    fn exists(&self) -> Result<bool> {
        match self.mount() {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            mounted => mounted.map(|_| true),
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn WriteFile>> {
        self.create_as(name, Form::Plain, LifetimeClass::Replaced)
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> Result<Box<dyn WriteFile>> {
        match file_use {
            FileUse::Log(_) => self.create_as(name, Form::Log, LifetimeClass::of(name, LifetimeClass::Log)),
            FileUse::Table { level: 0 | 1 } => {
                self.create_as(name, Form::Plain, LifetimeClass::of(name, LifetimeClass::Upper))
            }
            FileUse::Table { .. } => self.create_as(name, Form::Plain, LifetimeClass::of(name, LifetimeClass::Deeper)),
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadFile>> {
        Ok(Box::new(Reading(self.mount()?.open(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.mount()?.name(from, to, true)
    }

    fn link(&self, from: &str, to: &str) -> Result<()> {
        self.mount()?.name(from, to, false)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.mount()?.remove(name)
    }

    fn list(&self) -> Result<Vec<DirEntry>> {
        let files = self.mount()?.files();
        let here = files.into_iter().filter(|(name, _)| !name.contains('/'));
        here.map(|(name, file)| Ok(DirEntry { name, bytes: file.bytes()? })).collect()
    }

    fn list_lost(&self) -> Result<Vec<String>> {
        let files = self.mount()?.files();
        Ok(files.into_iter().filter_map(|(name, _)| name.strip_prefix("lost/").map(str::to_owned)).collect())
    }

    fn sync_directory(&self) -> Result<()> {
        self.mount()?.flush_names()
    }

    fn sync_file(&self, name: &str) -> Result<()> {
        let file = self.mount()?.open(name)?;
        file.save()?;
        file.flush()
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn DirectoryLock>> {
        let held = self.holders.hold(exclusive)?;
        if held.is_first() {
            // Another process may have changed the device since this process read it, so the device
            // must be read again.
            self.unmount();
        }
        let mount = self.mount().ok();
        Ok(Box::new(Held { _end: SessionEnd(exclusive.then_some(mount).flatten()), _hold: held }))
    }

    fn journal(&self) -> Option<&dyn JournalCommit> {
        Some(self)
    }

    fn capacity(&self) -> Option<&dyn Capacity> {
        Some(self)
    }
}

impl JournalCommit for RawFs {
    fn commit(&self) -> Result<()> {
        let mount = self.mount()?;
        mount.commit()?;
        mount.discard_many();
        Ok(())
    }

    /// Returns `Duration::MAX`: a raw device makes no periodic commit. A commit is one device flush
    /// that makes all files durable that wait for it.
    fn commit_interval(&self) -> std::result::Result<Duration, String> {
        Ok(Duration::MAX)
    }

    fn commit_count(&self) -> Result<u64> {
        Err(ErrorKind::Unsupported.into())
    }

    fn join_transaction(&self) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl Capacity for RawFs {
    fn free_bytes(&self) -> Option<u64> {
        let mount = self.mount().ok()?;
        Some(mount.free_slots() * u64::from(mount.superblock.sizes().slot_bytes))
    }

    fn reserve(&self, name: &str, bytes: u64) -> Result<()> {
        let mount = self.mount()?;
        match mount.remove(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if bytes == 0 {
            return Ok(());
        }
        let file = mount.create(name, Form::Plain, LifetimeClass::Replaced as u8)?;
        file.reserve(bytes).inspect_err(|_| drop(mount.remove(name)))
    }
}

/// A lock on the device. The fields are dropped in the order of their declaration, so this process
/// stops using the device before the lock is released.
struct Held {
    _end: SessionEnd,
    _hold: Hold,
}

impl DirectoryLock for Held {}

/// Ends writing to the device before the device's lock is released.
struct SessionEnd(Option<Arc<Mount>>);

impl Drop for SessionEnd {
    fn drop(&mut self) {
        if let Some(mount) = &self.0 {
            mount.end();
        }
    }
}
