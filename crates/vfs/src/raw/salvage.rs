//! Salvages the file list of a device: finds the files that the intact part of the list describes.
use super::{file::Reading, journal, mount::Mount, superblock::find, table::FileList};
use crate::file::ReadFile;
use std::{collections::BTreeSet, io::ErrorKind, sync::Arc};
use terrace_device::BlockDevice;
use terrace_format::raw::{Change, Superblock, salvage};

/// The readable part of a device with a corrupt file list.
pub struct Salvaged {
    /// All files that the intact part of the list names.
    pub files: Vec<(String, Box<dyn ReadFile>)>,
    /// The problems found. A file that a problem names may be missing, or may contain bytes of
    /// another file.
    pub damage: Vec<String>,
}

/// Reads the files of `device`, whose file list may be corrupt. Writes nothing.
///
/// # Errors
/// Returned if neither superblock is intact, or if no half of the slot journal has an intact head.
pub fn salvage(device: &Arc<dyn BlockDevice>) -> std::io::Result<Salvaged> {
    let (mount, damage) = mount(device)?;
    let files = mount.files().into_iter().map(|(name, file)| (name, Box::new(Reading(file)) as Box<dyn ReadFile>));
    Ok(Salvaged { files: files.collect(), damage })
}

/// Mounts the device read-only with the salvaged file list. Also returns the problems of that
/// list.
fn mount(device: &Arc<dyn BlockDevice>) -> std::io::Result<(Arc<Mount>, Vec<String>)> {
    let superblock =
        find(&**device)?.ok_or_else(|| std::io::Error::new(ErrorKind::NotFound, "the device holds no store"))?;
    let (mut halves, mut problems) = (Vec::new(), Vec::new());
    for (half, name) in ["A", "B"].into_iter().enumerate() {
        let bytes = journal::bytes_of(&**device, &superblock, half)?;
        if bytes.iter().all(|byte| *byte == 0) {
            // This half of the slot journal has only zeros, as formatting left it.
            continue;
        }
        match salvage::salvage(&bytes, superblock.id()) {
            Some(found) => {
                problems
                    .extend(found.damage.iter().map(|why| format!("half {name}, byte {}: {}", why.offset, why.detail)));
                halves.push(found);
            }
            None => problems.push(format!("half {name} has no intact head")),
        }
    }
    if halves.is_empty() {
        return Err(std::io::Error::new(ErrorKind::InvalidData, "no half of its slot journal has an intact head"));
    }
    let (table, rejected) = replayed(&superblock, halves);
    problems.extend(rejected);
    Ok((Mount::read_only(device.clone(), superblock, table), problems))
}

/// Replays both halves of the journal, the older one first. If the newer half has an intact
/// checkpoint, this checkpoint replaces the result of the older half. Otherwise the entries of the
/// newer half are applied to this result. Returns the changes that were rejected.
fn replayed(superblock: &Superblock, mut halves: Vec<salvage::Salvaged>) -> (FileList, Vec<String>) {
    halves.sort_by_key(|half| half.head.generation);
    let (mut table, mut rejected) = (FileList::new(superblock), Vec::new());
    for half in halves {
        if let Some(checkpoint) = &half.checkpoint {
            (table, rejected) = (FileList::new(superblock), Vec::new());
            rejected.extend(checkpoint.iter().filter_map(|change| table.apply(change).err()));
        }
        for change in half.entries.iter().flatten() {
            free_reassigned_slots(&mut table, change);
            rejected.extend(table.apply(change).err());
        }
    }
    (table, rejected)
}

/// Removes the files that own slots which a later `change` assigns to another file. The journal
/// entry that freed these slots was lost, so the files no longer exist.
fn free_reassigned_slots(table: &mut FileList, change: &Change) {
    let Change::Slots { first, count, .. } = *change else { return };
    let slots = first as usize..(first as usize).saturating_add(count as usize);
    let removed: BTreeSet<u64> =
        table.owners().get(slots).into_iter().flatten().copied().filter(|file| *file != 0).collect();
    let names: Vec<String> =
        table.names().filter(|(_, file, _)| removed.contains(file)).map(|(name, ..)| name.to_owned()).collect();
    for name in names {
        // The name exists, so this change cannot fail.
        let _ = table.apply(&Change::Unname { name });
    }
}
