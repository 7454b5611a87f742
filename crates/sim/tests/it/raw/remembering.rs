//! Tests of recovery after a failed flush. The page cache then has contents that the device lacks,
//! and recovery must not use these contents.
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

/// A device with a page cache. After a failed flush, reads return pages that the device never
/// received and that the cache treats as clean.
struct CachedDevice {
    device: CrashDevice,
    /// When set, the next flush fails and its writes stay in the cache.
    fail_next_flush: AtomicBool,
    /// Cached pages, by offset.
    cache: Mutex<BTreeMap<u64, [u8; PAGE]>>,
}

impl BlockDevice for CachedDevice {
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }
    fn block_bytes(&self) -> u32 {
        PAGE as u32
    }
    fn read_at(&self, offset: u64, into: &mut [u8]) -> terrace_device::Result<()> {
        self.device.read_at(offset, into)?;
        let cache = self.cache.lock().unwrap();
        for (at, page) in cache.range(offset..offset + into.len() as u64) {
            into[(at - offset) as usize..][..PAGE].copy_from_slice(page);
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> terrace_device::Result<()> {
        if !self.fail_next_flush.load(SeqCst) {
            return self.device.write_at(offset, bytes, stream);
        }
        let pages = (offset..).step_by(PAGE).zip(bytes.chunks_exact(PAGE));
        self.cache.lock().unwrap().extend(pages.map(|(at, page)| (at, page.try_into().unwrap())));
        Ok(())
    }
    fn flush(&self) -> terrace_device::Result<()> {
        if self.fail_next_flush.swap(false, SeqCst) {
            let source = std::io::Error::other("injected");
            return Err(terrace_device::Error::Io { what: "write back".into(), source });
        }
        self.device.flush()
    }
    fn forget_cached(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.cache.lock().unwrap().retain(|at, _| !(offset..offset + len).contains(at));
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.device.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> terrace_device::Result<()> {
        self.device.write_zeroes(offset, len)
    }
}

impl CachedDevice {
    fn new() -> Arc<CachedDevice> {
        let device = CrashDevice::new(&formatted());
        Arc::new(CachedDevice { device, fail_next_flush: false.into(), cache: Mutex::default() })
    }
}

/// Tests a WAL of which some bytes are only in the cache after a failed sync. SSTables may later
/// have pointers into this WAL, so recovery must read the device and not the cache.
#[test]
fn cached_bytes_of_a_log_after_a_failed_sync_can_be_dropped() {
    let device = CachedDevice::new();
    let fs = RawFs::new(device.clone(), "device");
    let held = fs.lock(true).unwrap();
    let mut log = fs.create_for("000001.vlog", FileUse::Log(WalWriteMode::Write)).unwrap();
    // The log ends within a page, and the next append rewrites that page.
    log.append(&[1; 100]).unwrap();
    log.sync().unwrap();
    device.fail_next_flush.store(true, SeqCst);
    log.append(&[2; 3 * PAYLOAD]).unwrap();
    log.sync().unwrap_err();
    drop((log, held));

    let fs = RawFs::new(device, "device");
    let _held = fs.lock(true).unwrap();
    let open = fs.open("000001.vlog").unwrap();
    assert_eq!(open.bytes().unwrap(), 100 + 3 * PAYLOAD as u64, "the cache has the bytes");
    fs.sync_file("000001.vlog").unwrap();
    fs.open("000001.vlog").unwrap().forget_cached().unwrap();
    assert_eq!(open.bytes().unwrap(), 100, "the device never got the bytes");
    assert!(read(&fs, "000001.vlog").unwrap() == vec![1; 100]);
}

/// Tests a slot journal whose newer half is only in the cache. A checkpoint overwrites the older
/// half, so the newer half must be on the device before that.
#[test]
fn a_file_list_that_the_device_never_got_is_not_used() {
    let device = CachedDevice::new();
    let names = |fs: &RawFs| fs.files().unwrap().into_iter().map(|file| file.name).collect::<Vec<_>>();
    let fs = RawFs::new(device.clone(), "device");
    let held = fs.lock(true).unwrap();
    fs.create("saved").unwrap();
    fs.sync_directory().unwrap();
    drop(held);

    let fs = RawFs::new(device.clone(), "device");
    let held = fs.lock(true).unwrap();
    device.fail_next_flush.store(true, SeqCst);
    // The first change after an open writes a checkpoint, and its flush fails.
    fs.create("lost").map(drop).unwrap_err();
    drop(held);
    let fs = RawFs::new(device, "device");
    assert_eq!(names(&fs), ["saved"], "the file list of the device");
}
