//! A device, or one file in its place, without a file system: a flat directory of files in slots, crash-safe at every write.
//!
//! ```text
//! RawFs ── who holds it ── Mount ─┬─ Table    which file has which slots; pure
//!                                 ├─ Journal  what makes that list survive
//!                                 ├─ Space    which slots are free, and since when they may be used again
//!                                 └─ File     bytes in slots
//! ```
//! It sits on the seam of the file backend, so logs, builds and roots above it are those of a directory. What stands on the
//! device is `terrace_format::raw` and docs/format/raw.md. Every use of the device that may write reads its list of files anew.
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
use superblock::spoilt;
use terrace_device::BlockDevice;
use terrace_format::{FileName, raw::Form};

pub use error::io;
pub use format::format;
pub use found::found;
pub use salvage::{Salvaged, salvage};
pub use superblock::find;
pub use terrace_format::raw::{Sizes, Superblock};

/// Lifetimes, by which files are placed.
#[derive(Clone, Copy)]
enum Lives {
    /// Small files that are replaced: the root, the marker.
    Replaced = 0,
    /// Logs.
    Log = 1,
    /// Tables of levels 0 and 1.
    Upper = 2,
    /// Tables of deeper levels.
    Deeper = 3,
    /// Segments of a value log.
    Values = 4,
}

impl Lives {
    /// Those of file `name`, or `other` if its name does not tell.
    fn of(name: &str, other: Lives) -> Lives {
        match FileName::parse(name) {
            Some(FileName::ValueLog(_) | FileName::Values(_)) => Lives::Values,
            _ => other,
        }
    }
}

/// A file on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// The slots that it has, in the order of its bytes, each range without its end.
    pub slots: Vec<std::ops::Range<u32>>,
}

/// A device as a directory.
pub struct RawFs {
    device: Arc<dyn BlockDevice>,
    name: String,
    holders: Holders,
    /// Whether only whole pages are written.
    padding: bool,
    /// As read when it was last asked for, or locked.
    mount: Mutex<Option<Arc<Mount>>>,
}

impl RawFs {
    /// The store on `device`, which messages call `name`. Nothing is read yet.
    pub fn new(device: Arc<dyn BlockDevice>, name: impl Into<String>) -> Arc<RawFs> {
        RawFs::writing(device, name, true)
    }

    /// As [`new`](RawFs::new). With `padding` only whole pages are written, and zeros follow the bytes that do not fill one.
    pub fn writing(device: Arc<dyn BlockDevice>, name: impl Into<String>, padding: bool) -> Arc<RawFs> {
        let (holders, mount) = (Holders::default(), Mutex::default());
        Arc::new(RawFs { device, name: name.into(), holders, padding, mount })
    }

    /// How the device is divided.
    pub fn superblock(&self) -> Result<Superblock> {
        Ok(self.mount()?.superblock)
    }

    /// Slots that nobody has.
    pub fn free_slots(&self) -> Result<u64> {
        Ok(self.mount()?.free_slots())
    }

    /// Every file, those in `lost/` too.
    pub fn files(&self) -> Result<Vec<Listed>> {
        let files = self.mount()?.files().into_iter();
        files.map(|(name, file)| Ok(Listed { name, bytes: file.bytes()?, slots: file.slots() })).collect()
    }

    /// What is not as it must be: a slot with two owners or a lost one, a list of files that is not what the slot journal says, a
    /// superblock that is damaged while the other one makes up for it. Nobody may be writing.
    pub fn problems(&self) -> Result<Vec<String>> {
        let mut found = self.mount()?.problems()?;
        found.extend(spoilt(&*self.device)?);
        Ok(found)
    }

    fn mount(&self) -> Result<Arc<Mount>> {
        let mut mount = self.mount.lock();
        if let Some(mount) = &*mount {
            return Ok(mount.clone());
        }
        let superblock = find(&*self.device)?.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, "it holds no store; `terrace raw format` prepares it for one")
        })?;
        let loaded = Mount::load(self.device.clone(), superblock, self.padding)?;
        *mount = Some(loaded.clone());
        Ok(loaded)
    }

    fn create_as(&self, name: &str, form: Form, lives: Lives) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.mount()?.create(name, form, lives as u8)?)))
    }

    fn let_go(&self) {
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
        self.create_as(name, Form::Plain, Lives::Replaced)
    }

    fn create_for(&self, name: &str, file_use: FileUse) -> Result<Box<dyn WriteFile>> {
        match file_use {
            FileUse::Log(_) => self.create_as(name, Form::Log, Lives::of(name, Lives::Log)),
            FileUse::Table { level: 0 | 1 } => self.create_as(name, Form::Plain, Lives::of(name, Lives::Upper)),
            FileUse::Table { .. } => self.create_as(name, Form::Plain, Lives::of(name, Lives::Deeper)),
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
            self.let_go(); // somebody may have written since it was read
        }
        let mount = self.mount().ok();
        Ok(Box::new(Held { _end: End(exclusive.then_some(mount).flatten()), _hold: held }))
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

    /// One flush of the device commits whatever is due; none happens by itself.
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
        let file = mount.create(name, Form::Plain, Lives::Replaced as u8)?;
        file.reserve(bytes).inspect_err(|_| drop(mount.remove(name)))
    }
}

/// A hold on the device. The use ends before the hold is given up: fields drop in this order.
struct Held {
    _end: End,
    _hold: Hold,
}

impl DirectoryLock for Held {}

/// Ends a use of the device, before its hold is given up.
struct End(Option<Arc<Mount>>);

impl Drop for End {
    fn drop(&mut self) {
        if let Some(mount) = &self.0 {
            mount.end();
        }
    }
}
