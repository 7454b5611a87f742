//! Fuzz target for a raw device with an arbitrary superblock and slot journal.
use std::sync::Arc;
use terrace_device::{BlockDevice, Memory, Stream};
use terrace_format::{
    crc,
    raw::{
        PAGE, Sizes, Superblock,
        journal::{self, Half},
        page, salvage,
    },
};
use terrace_storage::backends::{files::fs::FileSystem, raw::RawFs};

const BYTES: u64 = 256 << 10;
const SIZES: Sizes = Sizes { slot_bytes: 4096, unit_slots: 2 };
const ID: u64 = 7;

/// The fuzz target. A decoded superblock or half of a slot journal must round-trip. A device with
/// one or two such halves must open with a consistent file table that accepts changes, or report
/// problems, or fail to open.
pub fn raw(input: &[u8]) {
    for page in [input.to_vec(), sealed(input)] {
        if let Ok(found) = Superblock::decode(&page) {
            assert_eq!(Superblock::decode(&found.encode()), Ok(found));
            let (first, last) = (found.slot_at(0), found.slot_at(found.slots()));
            assert!(found.half_at(1) + found.journal_bytes() <= first && last <= found.device_bytes(), "{found:?}");
        }
    }
    if let Ok(page) = <&[u8; PAGE]>::try_from(input) {
        let _ = page::used(page, ID);
    }
    let superblock = Superblock::new(BYTES, SIZES, ID).expect("sizes that can be");
    for half in [input.to_vec(), healed(input)] {
        let salvaged = salvage::salvage(&half, ID);
        if let Ok(Some(found)) = journal::decode(&half, ID) {
            check_again(&found);
            let salvaged = salvaged.expect("its head is whole");
            assert_eq!(salvaged.checkpoint.as_ref(), found.changes.first());
            assert!(salvaged.entries.starts_with(&found.changes[1..]));
        }
        device(&superblock, [&half, &[]]);
    }
    let (front, back) = input.split_at((input.len() / 2).next_multiple_of(PAGE).min(input.len()));
    device(&superblock, [&healed(front), &healed(back)]);
}

/// A decoded half of a slot journal must round-trip.
fn check_again(found: &Half) {
    let (head, mut again) = journal::encode_checkpoint(ID, found.head.generation, &found.changes[0]);
    for changes in &found.changes[1..] {
        again.extend(journal::encode_entry(&head, changes));
    }
    again.resize(again.len() + PAGE, 0);
    let again = journal::decode(&again, ID).expect("what we write, we read").expect("it is whole");
    // If the new encoding of the checkpoint is shorter, the entries after it move. This changes
    // their checksums and nothing else.
    assert_eq!(again.changes, found.changes);
}

/// Returns the seeds: a superblock, a WAL page, and journal halves of growing length.
pub fn seeds() -> Vec<Vec<u8>> {
    let memory = Arc::new(Memory::new(BYTES).expect("whole blocks"));
    let superblock = terrace_storage::backends::raw::format(&*memory, SIZES, ID).expect("it has room");
    let mut log = [0; PAGE];
    log[..9].fill(b'r');
    page::seal(&mut log, ID, 9);
    let mut seeds = vec![superblock.encode(), log.to_vec()];
    let fs = RawFs::new(memory.clone(), "device");
    let _held = fs.lock(true).expect("nobody has it");
    for number in 0..6 {
        let name = format!("{number}");
        fs.create(&name)
            .and_then(|mut file| file.append(&[7; 9000]).and_then(|()| file.sync()))
            .expect("there is room");
        if number % 2 == 1 {
            fs.rename(&name, "0").expect("both are there");
        }
        for half in 0..2 {
            let mut bytes = vec![0; superblock.journal_bytes() as usize];
            memory.read_at(superblock.half_at(half), &mut bytes).expect("it is within");
            let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            seeds.push(bytes[..end].to_vec());
        }
    }
    seeds
}

/// Opens a device with these two journal halves, writes to it, and opens it again.
fn device(superblock: &Superblock, halves: [&[u8]; 2]) {
    let memory = Arc::new(Memory::new(BYTES).expect("whole blocks"));
    memory.write_at(0, &superblock.encode(), Stream(0)).expect("it is within");
    for (number, half) in halves.into_iter().enumerate() {
        let mut bytes = half.to_vec();
        bytes.resize(superblock.journal_bytes() as usize, 0);
        memory.write_at(superblock.half_at(number), &bytes, Stream(0)).expect("it is within");
    }
    let fs = RawFs::new(memory, "device");
    let Ok(files) = fs.files() else { return };
    if !fs.problems().expect("it was read before").is_empty() {
        return; // a file without a name, which is never written
    }
    let held = fs.lock(true).expect("nobody has it");
    let _ = fs.create("new").and_then(|mut file| file.append(&[7; 5000]).and_then(|()| file.sync()));
    drop(held);
    let _held = fs.lock(true).expect("nobody has it");
    let after = fs.files().expect("we wrote it");
    let was_there = files.iter().any(|file| file.name == "new");
    let kept: Vec<_> = after.into_iter().filter(|file| was_there || file.name != "new").collect();
    assert!(kept == files, "other files than before");
    assert_eq!(fs.problems().expect("we wrote it"), Vec::<String>::new());
}

/// Adds the magic and the checksum of a superblock to a page.
fn sealed(page: &[u8]) -> Vec<u8> {
    let mut page = page.to_vec();
    if let Some(body) = page.get_mut(..64) {
        body[..12].copy_from_slice(&[&b"TERRACER"[..], &1u32.to_le_bytes()].concat());
        let sum = crc::mask(crc::crc32c(&body[..60]));
        body[60..].copy_from_slice(&sum.to_le_bytes());
    }
    page
}

/// Recomputes the checksums of a journal half's head, checkpoint and entries.
fn healed(half: &[u8]) -> Vec<u8> {
    let mut half = half.to_vec();
    if half.len() < PAGE {
        return half;
    }
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes")) as usize;
    half[..16].copy_from_slice(&[&b"TERRACEJ"[..], &ID.to_le_bytes()].concat());
    half[20..24].fill(0); // no generation is this large
    let length = number(&half[24..28]).min(half.len() - PAGE);
    half[24..28].copy_from_slice(&(length as u32).to_le_bytes());
    let sum = crc::crc32c(&half[PAGE..PAGE + length]);
    half[28..32].copy_from_slice(&sum.to_le_bytes());
    let seed = crc::crc32c(&half[..32]);
    half[32..36].copy_from_slice(&seed.to_le_bytes());
    let mut at = (PAGE + length).next_multiple_of(PAGE);
    while let Some(head) = half.get(at..at + 8) {
        let length = number(&head[..4]);
        let Some(changes) = half.get(at + 8..).and_then(|rest| rest.get(..length)).filter(|_| length > 0) else {
            break;
        };
        let sum = crc::extend(crc::extend(seed, &half[at..at + 4]), changes);
        half[at + 4..at + 8].copy_from_slice(&sum.to_le_bytes());
        at += 8 + length;
    }
    half
}
