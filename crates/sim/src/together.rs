//! A recording device that is combined with a recording directory. It records the order of the
//! operations on both, so that one simulated power cut affects both at the same moment.
use crate::{CrashDevice, CrashFs};
use parking_lot::Mutex;
use std::{ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Result, Stream};

/// The recording device. Clones share the recording.
#[derive(Clone)]
pub struct Together {
    pub(crate) device: CrashDevice,
    pub(crate) fs: CrashFs,
    /// For each request, the number of directory steps before it.
    pub(crate) when: Arc<Mutex<Vec<usize>>>,
}

impl Together {
    /// Returns the number of device steps among the first `step` steps of the combined recording.
    pub(crate) fn steps_within(&self, step: usize) -> usize {
        let when = self.when.lock();
        let at = |nth: usize| when[nth] + nth;
        let (mut low, mut high) = (0, when.len());
        while low < high {
            let middle = (low + high) / 2;
            if at(middle) < step { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Executes a request and notes its position in the order. Runs one request at a time.
    fn note<T>(&self, request: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut when = self.when.lock();
        when.push(self.fs.steps());
        let outcome = request();
        // If the device rejected the request, it did not record it, so the noted position is
        // removed.
        when.truncate(self.device.steps());
        outcome
    }
}

impl BlockDevice for Together {
    fn len_bytes(&self) -> u64 {
        self.device.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.device.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.device.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.note(|| self.device.write_at(offset, bytes, stream))
    }

    fn flush(&self) -> Result<()> {
        self.note(|| self.device.flush())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.note(|| self.device.flush_ranges(ranges))
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.device.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.note(|| self.device.discard(offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.note(|| self.device.write_zeroes(offset, len))
    }
}
