//! Copies the files of a store from a device to a directory, and from a directory to a device.
use super::RawFs;
use crate::{
    Error, Result,
    backends::{
        files::{lock_error, root},
        layout,
    },
};
use std::{fs, path::Path};
use terrace_format::{FileName, Layout, Medium};
use terrace_vfs::{FileSystem, RealFs, sync_directory};

/// The number and size of the copied files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Number of files.
    pub files: u64,
    /// Total size in bytes.
    pub bytes: u64,
}

/// Copies every file of a device to the directory `to`, which must be absent or empty. The copy is
/// durable at return. An interrupted export leaves no valid store in the directory.
pub fn export(from: &RawFs, to: &Path) -> Result<Copied> {
    let failed = |op, of: &str| {
        let of = of.to_string();
        move |e| Error::io(op, of, e)
    };
    let _held = from.lock(false).map_err(|e| lock_error(from.name(), e))?;
    let names: Vec<String> =
        from.files().map_err(failed("list", &from.name()))?.into_iter().map(|file| file.name).collect();
    if let Some(name) = names.iter().find(|name| !stays_within(name)) {
        return Err(Error::Unsupported(format!(
            "{} has a file {name:?}, which is not the name of a store's file",
            from.name()
        )));
    }
    let target = emptied(to)?;
    let (lost, own): (Vec<String>, Vec<String>) = names.into_iter().partition(|name| name.starts_with("lost/"));
    let mut copied = Copied::default();
    if !lost.is_empty() {
        let folder = to.join("lost");
        fs::create_dir(&folder).map_err(failed("make directory", &target.name()))?;
        copied = copy(from, &target, lost)?;
        sync_directory(&folder).map_err(failed("sync directory", &folder.display().to_string()))?;
    }
    let more = copy(from, &target, own)?;
    Ok(Copied { files: copied.files + more.files, bytes: copied.bytes + more.bytes })
}

/// Returns whether a copy of the file `name` would be in the target directory or in its folder
/// `lost`. The check is necessary because the names on a device are untrusted.
pub fn stays_within(name: &str) -> bool {
    let last = name.strip_prefix("lost/").unwrap_or(name);
    // On Windows, a name with a backslash or a colon could be a path, too.
    !last.is_empty() && !last.contains(['/', '\\', ':']) && !last.starts_with('.')
}

/// Creates the directory `to`. Returns an error if it exists and is not empty.
pub fn emptied(to: &Path) -> Result<RealFs> {
    let target = RealFs::new(to);
    target.make_directory().map_err(|e| Error::io("make directory", target.name(), e))?;
    if fs::read_dir(to).map_err(|e| Error::io("list", target.name(), e))?.next().is_some() {
        return Err(Error::Unsupported(format!("{} is not empty; an export makes a new store", to.display())));
    }
    Ok(target)
}

/// Copies the store in directory `from` to a device without files. No writer may have the store
/// open. The copy is durable at return. An interrupted import leaves no valid store on the device.
pub fn import(from: &Path, to: &RawFs) -> Result<Copied> {
    let failed = |op, of: &str| {
        let of = of.to_string();
        move |e| Error::io(op, of, e)
    };
    let source = RealFs::new(from);
    let _held = source.lock(false).map_err(|e| lock_error(source.name(), e))?;
    let _target = to.lock(true).map_err(|e| lock_error(to.name(), e))?;
    if !to.files().map_err(failed("list", &to.name()))?.is_empty() {
        return Err(Error::Unsupported(format!("{} holds a store; an import makes a new one", to.name())));
    }
    let there = source.list().map_err(failed("list", &source.name()))?.into_iter().map(|entry| entry.name);
    let own = |name: &String| {
        let found = FileName::parse(name);
        found.is_some_and(|found| !matches!(found, FileName::Lock | FileName::InfoLog | FileName::Temporary(_)))
    };
    let names: Vec<String> = there.filter(own).collect();
    if !names.contains(&FileName::Current.to_string()) {
        return Err(Error::Missing { what: "store", object: format!("{} (no file CURRENT)", from.display()) });
    }
    let layout = match root::read_marker_of(&source)? {
        Some(text) => layout::decode_format_file(&source.name(), &text)?.layout,
        None => Layout::default(),
    };
    if layout.medium == Medium::Split || (Layout { medium: Medium::Directory, ..layout }) != Layout::default() {
        let why = format!(
            "{} must have SSTables with inline values, all in one directory; convert it with `terrace convert`",
            from.display()
        );
        return Err(Error::Unsupported(why));
    }
    copy(&source, to, names)
}

/// Copies the files. `CURRENT` is copied last, when all files to which it refers are durable.
fn copy(from: &dyn FileSystem, to: &dyn FileSystem, mut names: Vec<String>) -> Result<Copied> {
    let current = FileName::Current.to_string();
    names.sort_by_key(|name| *name == current);
    let mut copied = Copied::default();
    for name in &names {
        let path = |fs: &dyn FileSystem| format!("{}/{name}", fs.name());
        if *name == current {
            to.sync_directory().map_err(|e| Error::io("sync directory", to.name(), e))?;
        }
        to.take(from, name, name).map_err(|e| Error::io("copy", format!("{} to {}", path(from), path(to)), e))?;
        to.sync_file(name).map_err(|e| Error::io("sync", path(to), e))?;
        let bytes = |fs: &dyn FileSystem| {
            let bytes = fs.open(name).and_then(|file| file.bytes());
            bytes.map_err(|e| Error::io("read size of", path(fs), e))
        };
        let (was, is) = (bytes(from)?, bytes(to)?);
        if was != is {
            let detail = format!("only {is} of {was} bytes were copied");
            return Err(Error::Corrupt { what: "copy", object: path(to), offset: was.min(is), detail });
        }
        copied.files += 1;
        copied.bytes += is;
    }
    to.sync_directory().map_err(|e| Error::io("sync directory", to.name(), e))?;
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backends::raw::{Sizes, format};
    use std::sync::Arc;
    use terrace_device::Memory;

    #[test]
    fn an_export_writes_only_to_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let outside = folder.path().join("outside");
        for name in [
            "../outside",
            outside.to_str().unwrap(),
            "lost/../../outside",
            "lost/",
            ".hidden",
            r"..\outside",
            "C:outside",
        ] {
            let device = Memory::new(1 << 20).unwrap();
            format(&device, Sizes { slot_bytes: 16 << 10, unit_slots: 4 }, 1).unwrap();
            let device = RawFs::new(Arc::new(device), "device");
            let held = device.lock(true).unwrap();
            device.create(name).unwrap().sync().unwrap();
            drop(held);
            let to = folder.path().join("to");
            let error = export(&device, &to).unwrap_err().to_string();
            assert!(error.contains(&format!("a file {name:?}")), "{error}");
            assert!(!outside.exists() && !to.exists(), "{name}");
        }
    }
}
