//! A store in two places, as in LevelDB-Raw. WALs and tables are in slots of a raw device. All
//! other files (manifest, `CURRENT`, `LOCK`) are in a directory. The file `DATA` in the directory
//! names the device and the number that the device got when it was formatted:
//!
//! ```text
//! device = /dev/sdb2
//! formatting = 00c0ffee00c0ffee
//! ```
//! The path may be edited when the device moves. A device with another formatting number is
//! refused, because the store would otherwise read files of another store as its own.
use super::Sizes;
use crate::{Error, Result, StorageConfig, backends::files::root, placement::OpenMode};
use std::{
    fs,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use terrace_vfs::{FileSystem, RealFs, parent, sync_directory};

pub use terrace_vfs::SplitFs;

/// The file that marks a directory as part of a split store.
pub const DATA: &str = "DATA";

/// Slot size for SSTables of 2 MiB, with room for their index and filter blocks.
const SLOT_BYTES: u32 = (2 << 20) + (64 << 10);

/// Returns slot sizes for tables of LevelDB's size on a device of `device_bytes` bytes. Each slot
/// is slightly larger than a table, and each slot is also a unit (a group of slots that is erased
/// together). Small devices get smaller slots.
pub fn leveldb_sizes(device_bytes: u64) -> Sizes {
    let slot = device_bytes / 64 / 4096 * 4096;
    Sizes { slot_bytes: slot.clamp(64 << 10, SLOT_BYTES.into()) as u32, unit_slots: 1 }
}

/// Returns whether the directory at `path` is part of a split store.
pub fn is_split(path: &Path) -> bool {
    fs::symlink_metadata(path.join(DATA)).is_ok_and(|found| found.is_file())
}

/// Makes a split store from the directory `meta`, which must be absent or empty, and the formatted
/// `device`. The store is durable at return.
pub fn join(meta: &Path, device: &Path) -> Result<()> {
    check_empty(meta)?;
    let failed = |op| move |e| Error::io(op, meta.display().to_string(), e);
    let whole = device.canonicalize().map_err(|e| Error::io("find", device.display().to_string(), e))?;
    let data = super::place::open(device, OpenMode::ReadOnly, &StorageConfig::default())?;
    let superblock = data.superblock().map_err(|e| Error::io("read", device.display().to_string(), e))?;
    RealFs::new(meta).make_directory().map_err(failed("make directory"))?;
    let text = format!("device = {}\nformatting = {:016x}\n", whole.display(), superblock.id());
    let made = fs::File::create_new(meta.join(DATA)).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    made.map_err(failed("write DATA in"))?;
    [meta, parent(meta)].into_iter().try_for_each(|folder| {
        sync_directory(folder).map_err(|e| Error::io("sync directory", folder.display().to_string(), e))
    })
}

/// Returns an error if the directory is not empty.
pub fn check_empty(meta: &Path) -> Result<()> {
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

/// Opens the split store whose directory is `path`. Of the device it reads only the superblock.
pub fn open(path: &Path, mode: OpenMode, setup: &StorageConfig) -> Result<Arc<SplitFs>> {
    let (device, formatting) = read(path)?;
    let data = super::place::open(&device, mode, setup).map_err(|error| match error {
        Error::Missing { .. } => Error::Missing {
            what: if device.exists() { "half of the store on its device" } else { "device" },
            object: format!("{} (the file {} names it)", device.display(), path.join(DATA).display()),
        },
        other => other,
    })?;
    let found = data.superblock().map_err(|e| Error::io("read", device.display().to_string(), e))?;
    if found.id() != formatting {
        return Err(Error::Unsupported(format!(
            "{} was formatted as {:016x}, and {} names formatting {formatting:016x}: it holds another store's WALs and tables, or none",
            device.display(),
            found.id(),
            path.join(DATA).display()
        )));
    }
    Ok(Arc::new(SplitFs::new(Arc::new(RealFs::new(path)), data)))
}

/// Reads the file `DATA`: the path of the device and its formatting number.
fn read(path: &Path) -> Result<(PathBuf, u64)> {
    let file = path.join(DATA);
    let corrupt = |detail: &str| Error::Corrupt {
        what: "device name",
        object: file.display().to_string(),
        offset: 0,
        detail: detail.into(),
    };
    let text = root::read_whole(&RealFs::new(path), "device name", DATA)?;
    let text = text.ok_or_else(|| Error::Missing { what: "device name", object: file.display().to_string() })?;
    let text = String::from_utf8(text).map_err(|_| corrupt("it is not UTF-8"))?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
    };
    let formatting = field("formatting").and_then(|text| u64::from_str_radix(text, 16).ok());
    let device = field("device").filter(|device| !device.is_empty()).map(PathBuf::from);
    device.zip(formatting).ok_or_else(|| corrupt("\"device = PATH\" and \"formatting = NUMBER\" are expected"))
}
