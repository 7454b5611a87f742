//! Raw devices by path: opens and formats them, and explains why an operation is impossible.
use super::{RawFs, Sizes, Superblock, format, found};
use crate::{Error, Result, StorageConfig, placement::OpenMode};
use std::{
    fs,
    hash::{BuildHasher, RandomState},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::Path,
    sync::Arc,
};
use terrace_device::{BlockDevice, File, loops};
use terrace_vfs::{FileSystem, KeptFromChildren, parent, sync_directory};

/// Returns whether `path` can be a device for a store: a block device or a regular file.
pub fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.is_file() || there.file_type().is_block_device())
}

/// Opens the store on the formatted device at `path`, locked against other processes.
pub fn open(path: &Path, mode: OpenMode, setup: &StorageConfig) -> Result<Arc<RawFs>> {
    let device = if mode.writes() { File::open(path) } else { File::open_read_only(path) };
    let device = device.map_err(|error| match error {
        terrace_device::Error::Io { .. } => refused(path, error),
        unfit => Error::Unsupported(format!(
            "{} is neither the directory of a store nor a device for one ({unfit})",
            path.display()
        )),
    })?;
    let device = match setup.direct_io {
        true => device
            .keeping()
            .direct()
            .map_err(|error| Error::Unsupported(format!("direct_io=true is refused: {error}")))?,
        false => device.keeping(),
    };
    // The lock of the device must end with this process. So a forked child, which may live longer,
    // must not keep the descriptor that holds the lock.
    let device = device.guarded(|descriptor| Box::new(KeptFromChildren::new(&descriptor)));
    let name = path.display().to_string();
    let fs = RawFs::writing(Arc::new(device), &*name, setup.padding);
    if !fs.exists().map_err(|error| Error::io("open", &*name, error))? {
        let object = format!("{name} (`terrace raw format` prepares a device for one)");
        return Err(Error::Missing { what: "store", object });
    }
    Ok(fs)
}

/// Formats the device at `path`, which destroys its contents. Without `force`, refuses a device
/// whose contents are recognizable, or that has any data at its start; the error describes the
/// contents. `sizes` returns the slot sizes for a device of a given number of bytes.
pub fn prepare<E: From<Error>>(
    path: &Path,
    sizes: impl FnOnce(u64) -> std::result::Result<Sizes, E>,
    force: bool,
) -> std::result::Result<Superblock, E> {
    let device = File::open(path).map_err(|error| refused(path, error))?.keeping();
    let failed = |op| move |error| Error::io(op, path.display().to_string(), error);
    if !force && let Some(what) = found(&device).map_err(failed("look at"))? {
        return Err(E::from(Error::Unsupported(format!(
            "{} holds {what}; formatting it would destroy that, which --force allows",
            path.display()
        ))));
    }
    let bytes = device.len_bytes();
    // A regular file may be sparse. If its file system cannot allocate space for it, the file stays
    // sparse, and formatting continues.
    let allocated = device.allocate().map_err(terrace_vfs::raw::io);
    let allocated =
        allocated.or_else(|error| if error.kind() == io::ErrorKind::Unsupported { Ok(()) } else { Err(error) });
    allocated.map_err(failed("allocate"))?;
    Ok(format(&device, sizes(bytes)?, RandomState::new().hash_one(bytes)).map_err(failed("format"))?)
}

/// Creates a fully allocated file of `bytes` bytes, which can be formatted for a store. Its name
/// is durable at return.
pub fn make_file(path: &Path, bytes: u64) -> Result<()> {
    let made = File::create(path, bytes).map_err(|error| refused(path, error))?;
    let allocated = made.allocate().map_err(|error| refused(path, error)).and_then(|()| sync_name(path));
    // After an error the incomplete file is removed. An error of this removal is ignored.
    allocated.inspect_err(|_| drop(fs::remove_file(path)))
}

/// Makes the directory entry of a file durable.
fn sync_name(path: &Path) -> Result<()> {
    let folder = parent(path);
    sync_directory(folder).map_err(|error| Error::io("sync directory", folder.display().to_string(), error))
}

/// Opens the device at `path` for reading, without looking at its contents.
pub fn open_damaged(path: &Path) -> Result<Arc<dyn BlockDevice>> {
    Ok(Arc::new(File::open_read_only(path).map_err(|error| refused(path, error))?))
}

/// Converts the error of an attempt to open a device.
fn refused(path: &Path, error: terrace_device::Error) -> Error {
    let terrace_device::Error::Io { source, .. } = error else {
        return Error::Unsupported(format!("{}: {error}", path.display()));
    };
    match source.kind() {
        io::ErrorKind::NotFound => Error::Missing { what: "store", object: path.display().to_string() },
        io::ErrorKind::WouldBlock => Error::InUse {
            path: path.display().to_string(),
            detail: "another process, or another handle in this one, has it open".into(),
        },
        io::ErrorKind::ResourceBusy => Error::InUse { path: path.display().to_string(), detail: user(path) },
        _ => Error::io("open", path.display().to_string(), source),
    }
}

/// Describes the process that uses a device, as far as the kernel reports it.
fn user(path: &Path) -> String {
    let unknown = "the kernel reports it as busy: mounted, or part of another device".to_string();
    let Ok(found) = fs::metadata(path) else { return unknown };
    if found.is_file() {
        return loops::over(path).map_or(unknown, |node| format!("attached to the loop device {}", node.display()));
    }
    let number = format!("{}:{}", nix::sys::stat::major(found.rdev()), nix::sys::stat::minor(found.rdev()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(line) = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&number)) {
        return format!("mounted at {}", line.split(' ').nth(4).unwrap_or("?"));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next().is_some_and(|name| Path::new(name) == path)) {
        return "swap space".into();
    }
    let holders = fs::read_dir(format!("/sys/dev/block/{number}/holders")).into_iter().flatten().flatten();
    let holders: Vec<_> = holders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    if holders.is_empty() { unknown } else { format!("part of {}", holders.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formatting_allocates_a_sparse_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("device");
        fs::File::create(&path).and_then(|file| file.set_len(8 << 20)).unwrap();
        prepare(&path, |bytes| Ok::<_, Error>(Sizes::of(bytes)), false).unwrap();
        assert!(fs::metadata(&path).unwrap().blocks() * 512 >= 8 << 20);
    }
}
