//! Salvages a device with a corrupt file list, for `terrace repair`: copies the files that the
//! readable part of the list describes to a directory.
use super::{
    place::open_damaged,
    transfer::{Copied, emptied, stays_within},
};
use crate::{Error, Result};
use std::{
    fs,
    io::{Seek, Write},
    path::Path,
};
use terrace_vfs::{FileSystem, ReadFile, raw::Salvaged, sync_directory};

/// Size of the pieces in which files are copied.
const PIECE: u64 = 1 << 20;

/// Copies the files of a device to the directory `to`, as far as the device's file list is
/// readable. `to` must be absent or empty, and is durable at return. Also returns the problems
/// found. A file that a problem names may be missing, or it may contain bytes of another file.
/// `terrace repair` of the directory then makes a store of the valid data.
///
/// # Errors
/// Neither superblock is intact, no half of the journal has an intact head, or the directory
/// cannot be written.
pub fn salvage(from: &Path, to: &Path) -> Result<(Copied, Vec<String>)> {
    let device = open_damaged(from)?;
    let failed = |e| Error::io("read the list of files of", from.display().to_string(), e);
    let Salvaged { files, damage: mut problems } = terrace_vfs::raw::salvage(&device).map_err(failed)?;
    let target = emptied(to)?;
    let mut copied = Copied::default();
    for (name, file) in files {
        if !stays_within(&name) {
            problems.push(format!("{name:?} is not the name of a store's file"));
            continue;
        }
        let failed = |e| Error::io("write", format!("{}/{name}", target.name()), e);
        let (bytes, wrong) = copy(&*file, &to.join(&name)).map_err(failed)?;
        copied = Copied { files: copied.files + 1, bytes: copied.bytes + bytes };
        problems.extend(wrong.map(|error| format!("{name}, from byte {bytes} on: {error}")));
    }
    let lost = to.join("lost");
    let synced = if lost.is_dir() { sync_directory(&lost) } else { Ok(()) };
    synced.and_then(|()| target.sync_directory()).map_err(|e| Error::io("sync directory", target.name(), e))?;
    Ok((copied, problems))
}

/// Copies a file up to its first unreadable byte. Returns the number of bytes copied, and the read
/// error that ended the copy, if any. An error of a write is returned as the outer error.
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
