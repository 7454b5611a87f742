//! A store in two places: logs and tables in slots of a device, everything else (manifest, `CURRENT`, `LOCK`) in a directory, as
//! LevelDB-Raw has it. The file `DATA` in the directory says which device, and which formatting of it:
//!
//! ```text
//! device = /dev/sdb2
//! formatting = 00c0ffee00c0ffee
//! ```
//! The path may be edited when the device moves; another formatting is refused, since its files would be taken for this store's.
use super::{RawFs, Sizes, names::Names};
use crate::{
    Error, Result,
    backends::files::{
        fs::{DirEntry, FileSystem, ReadFile, WriteFile},
        real::{RealFs, parent},
        root,
    },
    config::{StorageConfig, WalWriteMode},
    placement::{Hint, OpenMode},
};
use std::{
    fs,
    io::{self, ErrorKind, Write},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use terrace_format::{FileName, Medium};

/// The file that makes a directory one half of a store.
pub const DATA: &str = "DATA";

/// A table of 2 MiB, and what its index and filters take.
const SLOT_BYTES: u32 = (2 << 20) + (64 << 10);

/// Both halves as one directory.
pub struct SplitFs {
    meta: Arc<dyn FileSystem>,
    data: Arc<RawFs>,
    /// Those in the directory.
    names: Names,
}

impl SplitFs {
    /// Of a directory and a device.
    pub fn new(meta: Arc<dyn FileSystem>, data: Arc<RawFs>) -> SplitFs {
        SplitFs { meta, data, names: Names::default() }
    }

    /// The half without a file system.
    pub fn device(&self) -> &RawFs {
        &self.data
    }

    /// The half in which the file `name` is.
    fn of(&self, name: &str) -> &dyn FileSystem {
        match name.strip_prefix("lost/").map_or_else(|| FileName::parse(name), root::set_aside_from) {
            Some(
                FileName::Table(_)
                | FileName::Bundle(_)
                | FileName::Log(_)
                | FileName::ValueLog(_)
                | FileName::SmallLog(_)
                | FileName::Values(_),
            ) => &*self.data,
            _ => &*self.meta,
        }
    }

    /// Changes the name `name` in its half, by `call`.
    fn change<T>(&self, name: &str, call: impl FnOnce(&dyn FileSystem) -> io::Result<T>) -> io::Result<T> {
        self.names.change(|| call(self.of(name))) // those of the device, too, which costs a sync that has nothing to do
    }

    /// Refuses to move a file from one half to the other.
    fn within(&self, from: &str, to: &str) -> io::Result<()> {
        let same = std::ptr::addr_eq(self.of(from), self.of(to));
        if same { Ok(()) } else { Err(io::Error::new(ErrorKind::Unsupported, format!("{to} is not where {from} is"))) }
    }
}

impl FileSystem for SplitFs {
    fn name(&self) -> String {
        self.meta.name()
    }

    fn medium(&self) -> Medium {
        Medium::Split
    }

    fn make_directory(&self) -> io::Result<()> {
        self.data.make_directory()?;
        self.meta.make_directory()
    }

    fn exists(&self) -> io::Result<bool> {
        self.meta.exists()
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        self.change(name, |half| half.create(name))
    }

    fn create_log(&self, name: &str, how: WalWriteMode) -> io::Result<Box<dyn WriteFile>> {
        self.change(name, |half| half.create_log(name, how))
    }

    fn create_table(&self, name: &str, hint: &Hint) -> io::Result<Box<dyn WriteFile>> {
        self.of(name).create_table(name, hint)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        self.of(name).open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.within(from, to)?;
        self.change(from, |half| half.rename(from, to))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.within(from, to)?;
        self.change(from, |half| half.link(from, to))
    }

    fn take(&self, from: &dyn FileSystem, name: &str, to: &str) -> io::Result<bool> {
        self.change(to, |half| half.take(from, name, to))
    }

    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        self.of(name).punch(name, range)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(name, |half| half.remove(name))
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        Ok([self.meta.list()?, self.data.list()?].concat())
    }

    fn list_lost(&self) -> io::Result<Vec<String>> {
        Ok([self.meta.list_lost()?, self.data.list_lost()?].concat())
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.data.sync_directory()?;
        self.names.sync(|| self.meta.sync_directory())
    }

    fn commit(&self) -> io::Result<()> {
        self.sync_directory()
    }

    fn can_commit(&self) -> std::result::Result<Duration, String> {
        Err("no one journal commits both a directory and a device".into())
    }

    fn commits(&self) -> io::Result<u64> {
        Err(ErrorKind::Unsupported.into())
    }

    fn beat(&self) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn sync_file(&self, name: &str) -> io::Result<()> {
        self.of(name).sync_file(name)
    }

    fn forget_cached(&self, name: &str) -> io::Result<()> {
        self.of(name).forget_cached(name)
    }

    /// Of the device, where nearly all is.
    fn free_bytes(&self) -> Option<u64> {
        self.data.free_bytes()
    }

    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        self.change(name, |half| half.reserve(name, bytes))
    }

    /// That of the directory before that of the device.
    fn lock(&self, exclusive: bool) -> io::Result<Box<dyn Send + Sync>> {
        let meta = self.meta.lock(exclusive)?;
        Ok(Box::new((self.data.lock(exclusive)?, meta)))
    }

    fn check_lock(&self) -> io::Result<()> {
        self.meta.check_lock()
    }
}

/// What suits LevelDB's tables on a device of so many bytes: slots a little larger than one, each a unit of its own; smaller ones
/// where there would be few.
pub fn usual_sizes(device_bytes: u64) -> Sizes {
    let slot = device_bytes / 64 / 4096 * 4096;
    Sizes { slot_bytes: slot.clamp(64 << 10, SLOT_BYTES.into()) as u32, unit_slots: 1 }
}

/// Whether the directory at `path` is one half of a store.
pub fn is_split(path: &Path) -> bool {
    fs::symlink_metadata(path.join(DATA)).is_ok_and(|found| found.is_file())
}

/// Makes the directory `meta`, which is absent or empty, one half of a store whose other half is the prepared `device`. Durable at return.
pub fn join(meta: &Path, device: &Path) -> Result<()> {
    refuse_full(meta)?;
    let failed = |op| move |e| Error::io(op, meta.display().to_string(), e);
    let whole = device.canonicalize().map_err(|e| Error::io("find", device.display().to_string(), e))?;
    let data = super::open(device, OpenMode::ReadOnly, &StorageConfig::default())?;
    let superblock = data.superblock().map_err(|e| Error::io("read", device.display().to_string(), e))?;
    RealFs::new(meta).make_directory().map_err(failed("make directory"))?;
    let text = format!("device = {}\nformatting = {:016x}\n", whole.display(), superblock.id());
    let made = fs::File::create_new(meta.join(DATA)).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    made.map_err(failed("write DATA in"))?;
    [meta, parent(meta)].into_iter().try_for_each(|folder| {
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| Error::io("sync directory", folder.display().to_string(), e))
    })
}

/// Refuses a directory that could not become one half.
pub fn refuse_full(meta: &Path) -> Result<()> {
    let entries = match fs::read_dir(meta) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|e| Error::io("list", meta.display().to_string(), e))?,
    };
    let others = entries.flatten().map(|entry| entry.file_name()).find(|name| name != "lost+found");
    others.map_or(Ok(()), |name| {
        let why = format!("{} is not empty (it holds {})", meta.display(), name.display());
        Err(Error::Unsupported(why))
    })
}

/// The store in the directory `path`. Of its device nothing but the superblock is read yet.
pub fn open(path: &Path, mode: OpenMode, setup: &StorageConfig) -> Result<Arc<SplitFs>> {
    let (device, formatting) = read(path)?;
    let data = super::open(&device, mode, setup).map_err(|error| match error {
        Error::Missing { .. } => Error::Missing {
            what: if device.exists() { "half of the store on its device" } else { "device" },
            object: format!("{} (the file {} names it)", device.display(), path.join(DATA).display()),
        },
        other => other,
    })?;
    let found = data.superblock().map_err(|e| Error::io("read", device.display().to_string(), e))?;
    if found.id() != formatting {
        return Err(Error::Unsupported(format!(
            "{} was formatted as {:016x}, and {} names formatting {formatting:016x}: it holds another store's logs and tables, or none",
            device.display(),
            found.id(),
            path.join(DATA).display()
        )));
    }
    Ok(Arc::new(SplitFs::new(Arc::new(RealFs::new(path)), data)))
}

/// What the file says: a device, and the number of its formatting.
fn read(path: &Path) -> Result<(PathBuf, u64)> {
    let file = path.join(DATA);
    let corrupt = |detail: &str| Error::Corrupt {
        what: "names of a device",
        object: file.display().to_string(),
        offset: 0,
        detail: detail.into(),
    };
    let text = root::read_whole(&RealFs::new(path), "names of a device", DATA)?;
    let text = text.ok_or_else(|| Error::Missing { what: "names of a device", object: file.display().to_string() })?;
    let text = String::from_utf8(text).map_err(|_| corrupt("it is not UTF-8"))?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
    };
    let formatting = field("formatting").and_then(|text| u64::from_str_radix(text, 16).ok());
    let device = field("device").filter(|device| !device.is_empty()).map(PathBuf::from);
    device.zip(formatting).ok_or_else(|| corrupt("\"device = PATH\" and \"formatting = NUMBER\" are expected"))
}
