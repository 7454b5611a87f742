//! What a failed flush leaves in a kernel's memory is not what the device has.
use super::{formatted, history::read};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};
use terrace_device::{BlockDevice, Stream};
use terrace_format::raw::{PAGE, page::PAYLOAD};
use terrace_sim::CrashDevice;
use terrace_vfs::{FileSystem, FileUse, WalWriteMode, raw::RawFs};

/// A device behind a kernel's memory, which after a flush that failed shows pages that the device never got, and takes them for saved.
struct Remembering {
    device: CrashDevice,
    /// Writes stay in memory, and the next flush fails.
    loses: AtomicBool,
    /// Pages, by where they begin.
    memory: Mutex<BTreeMap<u64, [u8; PAGE]>>,
}

impl BlockDevice for Remembering {
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }
    fn block_bytes(&self) -> u32 {
        PAGE as u32
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> terrace_device::Result<()> {
        self.device.read_at(offset, into)?;
        let memory = self.memory.lock().unwrap();
        for (at, page) in memory.range(offset..offset + into.len() as u64) {
            into[(at - offset) as usize..][..PAGE].copy_from_slice(page);
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> terrace_device::Result<()> {
        if !self.loses.load(SeqCst) {
            return self.device.write_at(offset, bytes, stream);
        }
        let pages = (offset..).step_by(PAGE).zip(bytes.chunks_exact(PAGE));
        self.memory.lock().unwrap().extend(pages.map(|(at, page)| (at, page.try_into().unwrap())));
        Ok(())
    }
    fn flush(&self) -> terrace_device::Result<()> {
        if self.loses.swap(false, SeqCst) {
            let source = std::io::Error::other("injected");
            return Err(terrace_device::Error::Io { what: "write back".into(), source });
        }
        self.device.flush()
    }
    fn forget_cached(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.memory.lock().unwrap().retain(|at, _| !(offset..offset + len).contains(at));
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.device.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.device.write_zeroes(offset, len)
    }
}

impl Remembering {
    fn new() -> Arc<Remembering> {
        let device = CrashDevice::new(&formatted());
        Arc::new(Remembering { device, loses: false.into(), memory: Mutex::default() })
    }
}

/// Tables may come to point into that log, so what recovery reads there must be what a power cut would leave.
#[test]
fn what_a_failed_sync_left_of_a_log_can_be_forgotten() {
    let device = Remembering::new();
    let fs = RawFs::new(device.clone(), "device");
    let held = fs.lock(true).unwrap();
    let mut log = fs.create_for("000001.vlog", FileUse::Log(WalWriteMode::Write)).unwrap();
    log.append(&[1; 100]).unwrap(); // a part of a page, which is written again with what follows
    log.sync().unwrap();
    device.loses.store(true, SeqCst);
    log.append(&[2; 3 * PAYLOAD]).unwrap();
    log.sync().unwrap_err();
    drop((log, held));

    let fs = RawFs::new(device, "device");
    let _held = fs.lock(true).unwrap();
    let open = fs.open("000001.vlog").unwrap();
    assert_eq!(open.bytes().unwrap(), 100 + 3 * PAYLOAD as u64, "memory shows it");
    fs.sync_file("000001.vlog").unwrap();
    fs.open("000001.vlog").unwrap().forget_cached().unwrap();
    assert_eq!(open.bytes().unwrap(), 100, "and the device never got it");
    assert!(read(&fs, "000001.vlog").unwrap() == vec![1; 100]);
}

/// A later checkpoint goes over the half that the one believed in does not lie in: that must not be the only one that the device has.
#[test]
fn a_list_of_files_that_the_device_never_got_is_not_believed() {
    let device = Remembering::new();
    let names = |fs: &RawFs| fs.files().unwrap().into_iter().map(|file| file.name).collect::<Vec<_>>();
    let fs = RawFs::new(device.clone(), "device");
    let held = fs.lock(true).unwrap();
    fs.create("saved").unwrap();
    fs.sync_directory().unwrap();
    drop(held);

    let fs = RawFs::new(device.clone(), "device");
    let held = fs.lock(true).unwrap();
    device.loses.store(true, SeqCst);
    fs.create("lost").map(drop).unwrap_err(); // the first change of a use is a checkpoint
    drop(held);
    let fs = RawFs::new(device, "device");
    assert_eq!(names(&fs), ["saved"], "as the device has it");
}
