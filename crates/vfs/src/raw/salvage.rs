//! The files of a device whose list of files is damaged, as far as the rest of the list tells.
use super::{file::Reading, journal, mount::Mount, superblock::find, table::Table};
use crate::file::ReadFile;
use std::{collections::BTreeSet, io::ErrorKind, sync::Arc};
use terrace_device::BlockDevice;
use terrace_format::raw::{Change, Superblock, salvage};

/// The readable rest of a device with a damaged list of files.
pub struct Salvaged {
    /// Every file that the rest of the list names.
    pub files: Vec<(String, Box<dyn ReadFile>)>,
    /// The damage: a file that it mentions may be missing or may hold bytes of another file.
    pub damage: Vec<String>,
}

/// Reads the files of `device`, whose list of files may be damaged. Writes nothing.
///
/// # Errors
/// No superblock is whole, or no half of the slot journal has a whole head.
pub fn salvage(device: &Arc<dyn BlockDevice>) -> std::io::Result<Salvaged> {
    let (mount, damage) = mount(device)?;
    let files = mount.files().into_iter().map(|(name, file)| (name, Box::new(Reading(file)) as Box<dyn ReadFile>));
    Ok(Salvaged { files: files.collect(), damage })
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
fn replayed(superblock: &Superblock, mut halves: Vec<salvage::Salvaged>) -> (Table, Vec<String>) {
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
