//! Tests of WALs on a raw device, in slots that still contain pages of older WALs. Each page
//! records to which WAL it belongs, so that replay can distinguish them.
use super::{SIZES, formatted, history::read};
use std::sync::Arc;
use terrace_device::{BlockDevice, Deaf};
use terrace_format::raw::{PAGE, page::PAYLOAD};
use terrace_sim::{CrashDevice, DeviceImage};
use terrace_vfs::{
    FileSystem, FileUse, WalWriteMode,
    raw::{self, RawFs},
};

/// Creates a WAL of `pages` full pages, in which every byte is `byte`.
fn full_pages(fs: &RawFs, name: &str, byte: u8, pages: usize) {
    let mut log = fs.create_for(name, FileUse::Log(WalWriteMode::Write)).unwrap();
    (0..pages).for_each(|_| log.append(&[byte; PAYLOAD]).unwrap());
}

/// Writes WALs of `pages` pages to slots of the device that have old contents, and opens the
/// device. Asserts that no WAL appears to continue with pages of another WAL.
fn logs_have_their_own_bytes(device: CrashDevice, pages: [usize; 2], context: &str) {
    let fs = RawFs::new(Arc::new(device), "device");
    let held = fs.lock(true).unwrap();
    let logs = [("a", pages[0]), ("b", pages[1])];
    logs.iter().for_each(|(name, pages)| full_pages(&fs, name, 3, *pages));
    fs.sync_directory().unwrap();
    drop(held);
    let _held = fs.lock(false).unwrap();
    for (name, pages) in logs {
        let bytes = read(&fs, name).unwrap();
        assert!(bytes == vec![3; pages * PAYLOAD], "ORACLE: {name} has bytes of another log, {context}");
    }
}

/// Creates the WAL "lost", which is the second file of the device and starts at the first slot.
fn with_a_log_to_lose(image: &DeviceImage, pages: usize) -> CrashDevice {
    let device = CrashDevice::new(image);
    let fs = RawFs::new(Arc::new(device.clone()), "device");
    let _held = fs.lock(true).unwrap();
    full_pages(&fs, "first", 1, 0);
    full_pages(&fs, "lost", 2, pages);
    device
}

#[test]
fn a_log_does_not_continue_with_pages_that_a_power_cut_left_of_another() {
    let device = with_a_log_to_lose(&formatted(), 7);
    for (step, seed) in (0..=device.steps()).flat_map(|step| (0..40).map(move |seed| (step, seed))) {
        let image = device.power_loss(step, seed);
        logs_have_their_own_bytes(CrashDevice::new(&image), [1, 1], &format!("step {step} seed {seed}"));
    }
}

#[test]
fn a_log_does_not_continue_with_pages_of_an_earlier_formatting() {
    let empty = CrashDevice::new(&DeviceImage::empty(3 << 20));
    raw::format(&empty, SIZES, 7).unwrap();
    let device = with_a_log_to_lose(&empty.now(), 400);
    // Pages of the former use remain on the device: `Deaf` ignores discards, and formatting erases
    // nothing between the first and the last mebibyte.
    let superblock = raw::format(&Deaf::new(Arc::new(device.clone())), SIZES, 7 << 40).unwrap();
    let (mut left, slot) = (vec![0; PAGE], 300 * PAGE as u64 / u64::from(SIZES.slot_bytes));
    device.read_at(superblock.slot_at(slot as u32) + PAGE as u64, &mut left).unwrap();
    assert_eq!(left[..PAYLOAD], [2; PAYLOAD], "no old page follows the end of the second log");
    logs_have_their_own_bytes(device, [300, 1], "formatted again");
}
