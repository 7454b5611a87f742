//! The files of a device whose list of files is damaged: what the rest of the list tells is copied into a directory, for a repair.
use super::{
    place::refused,
    transfer::{Copied, emptied, stays_within},
};
use crate::{Error, Result};
use std::{
    fs,
    io::{Seek, Write},
    path::Path,
    sync::Arc,
};
use terrace_device::{BlockDevice, File};
use terrace_vfs::{FileSystem, ReadFile, raw::Salvaged};

/// Files are copied in pieces of this size.
const PIECE: u64 = 1 << 20;

/// Copies the files of a device into the directory `to`, which must be absent or empty, as far as its list of files tells, which may be
/// damaged. Durable at return. Tells what was wrong: a file of which it says so may be missing, or have bytes of another; `terrace repair` of
/// the directory makes a store of what is right.
///
/// # Errors
/// No superblock that is whole, no half of the journal with a whole head; a directory that cannot be written.
pub fn salvage(from: &Path, to: &Path) -> Result<(Copied, Vec<String>)> {
    let device: Arc<dyn BlockDevice> = Arc::new(File::open_read_only(from).map_err(|error| refused(from, error))?);
    let failed = |e| Error::io("read the list of files of", from.display().to_string(), e);
    let Salvaged { files, damage: mut told } = terrace_vfs::raw::salvage(&device).map_err(failed)?;
    let target = emptied(to)?;
    let mut copied = Copied::default();
    for (name, file) in files {
        if !stays_within(&name) {
            told.push(format!("{name:?} is no name of a file of a store"));
            continue;
        }
        let failed = |e| Error::io("write", format!("{}/{name}", target.name()), e);
        let (bytes, wrong) = copy(&*file, &to.join(&name)).map_err(failed)?;
        copied = Copied { files: copied.files + 1, bytes: copied.bytes + bytes };
        told.extend(wrong.map(|error| format!("{name}, from byte {bytes} on: {error}")));
    }
    let lost = to.join("lost");
    let synced = if lost.is_dir() { fs::File::open(lost).and_then(|lost| lost.sync_all()) } else { Ok(()) };
    synced.and_then(|()| target.sync_directory()).map_err(|e| Error::io("sync directory", target.name(), e))?;
    Ok((copied, told))
}

/// Copies as much of a file as can be read: so many bytes, and why no more. An error is of the new file.
fn copy(from: &dyn ReadFile, to: &Path) -> std::io::Result<(u64, Option<std::io::Error>)> {
    fs::create_dir_all(to.parent().expect("a file in a directory"))?;
    let (mut file, mut at) = (fs::File::create_new(to)?, 0);
    let wrong = loop {
        let piece = from.bytes().and_then(|all| from.read_at(at, (all - at).min(PIECE) as usize));
        match piece {
            Ok(bytes) if bytes.is_empty() => break None,
            Ok(bytes) => file.write_all(&bytes)?,
            Err(error) => break Some(error),
        }
        at = file.stream_position()?;
    };
    file.sync_all()?;
    Ok((at, wrong))
}
