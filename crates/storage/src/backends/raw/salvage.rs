//! The files of a device whose list of files is damaged: what the rest of the list tells is copied into a directory, for a repair.
use super::{
    file::Reading,
    find, journal,
    mount::Mount,
    place::refused,
    table::Table,
    transfer::{Copied, emptied, stays_within},
};
use crate::{
    Error, Result,
    backends::files::fs::{FileSystem, ReadFile},
};
use std::{
    collections::BTreeSet,
    fs,
    io::{ErrorKind, Seek, Write},
    path::Path,
    sync::Arc,
};
use terrace_device::{BlockDevice, File};
use terrace_format::raw::{
    Change, Superblock,
    salvage::{self, Salvaged},
};

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
    let (mount, mut told) = mount(&device).map_err(failed)?;
    let target = emptied(to)?;
    let mut copied = Copied::default();
    for (name, file) in mount.files() {
        if !stays_within(&name) {
            told.push(format!("{name:?} is no name of a file of a store"));
            continue;
        }
        let failed = |e| Error::io("write", format!("{}/{name}", target.name()), e);
        let (bytes, wrong) = copy(&Reading(file), &to.join(&name)).map_err(failed)?;
        copied = Copied { files: copied.files + 1, bytes: copied.bytes + bytes };
        told.extend(wrong.map(|error| format!("{name}, from byte {bytes} on: {error}")));
    }
    let lost = to.join("lost");
    let synced = if lost.is_dir() { fs::File::open(lost).and_then(|lost| lost.sync_all()) } else { Ok(()) };
    synced.and_then(|()| target.sync_directory()).map_err(|e| Error::io("sync directory", target.name(), e))?;
    Ok((copied, told))
}

/// Copies as much of a file as can be read: so many bytes, and why no more. An error is of the new file.
fn copy(from: &Reading, to: &Path) -> std::io::Result<(u64, Option<std::io::Error>)> {
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

/// The device as its damaged list of files shows it, to read; and what is wrong with that list.
fn mount(device: &Arc<dyn BlockDevice>) -> std::io::Result<(Arc<Mount>, Vec<String>)> {
    let superblock = find(&**device)?.ok_or_else(|| std::io::Error::new(ErrorKind::NotFound, "it holds no store"))?;
    let (mut halves, mut told) = (Vec::new(), Vec::new());
    for (half, name) in ["A", "B"].into_iter().enumerate() {
        let bytes = journal::bytes_of(&**device, &superblock, half)?;
        if bytes.iter().all(|byte| *byte == 0) {
            continue; // as formatting leaves it
        }
        match salvage::salvage(&bytes, superblock.id()) {
            Some(found) => {
                told.extend(found.damage.iter().map(|why| format!("half {name}, byte {}: {}", why.offset, why.detail)));
                halves.push(found);
            }
            None => told.push(format!("half {name} has no whole head")),
        }
    }
    if halves.is_empty() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "no half of its slot journal has a whole head"));
    }
    let (table, refused) = replayed(&superblock, halves);
    told.extend(refused);
    Ok((Mount::shown(device.clone(), superblock, table), told))
}

/// What the halves tell together: the newer one continues the older one, unless its checkpoint is right. And the changes that cannot be.
fn replayed(superblock: &Superblock, mut halves: Vec<Salvaged>) -> (Table, Vec<String>) {
    halves.sort_by_key(|half| half.head.generation);
    let (mut table, mut refused) = (Table::new(superblock), Vec::new());
    for half in halves {
        if let Some(checkpoint) = &half.checkpoint {
            (table, refused) = (Table::new(superblock), Vec::new());
            refused.extend(checkpoint.iter().filter_map(|change| table.apply(change).err()));
        }
        for change in half.entries.iter().flatten() {
            make_way(&mut table, change);
            refused.extend(table.apply(change).err());
        }
    }
    (table, refused)
}

/// Slots that a later change gives away were freed before: by an entry that is lost, if they are not free. So their file is gone.
fn make_way(table: &mut Table, change: &Change) {
    let Change::Slots { first, count, .. } = *change else { return };
    let slots = first as usize..(first as usize).saturating_add(count as usize);
    let gone: BTreeSet<u64> =
        table.owners().get(slots).into_iter().flatten().copied().filter(|file| *file != 0).collect();
    let names: Vec<String> =
        table.names().filter(|(_, file, _)| gone.contains(file)).map(|(name, ..)| name.to_owned()).collect();
    for name in names {
        let _ = table.apply(&Change::Unname { name }); // which is there
    }
}
