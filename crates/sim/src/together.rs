//! A recording device beside a recording directory: which request came after which step there, so that one power cut hits both.
use crate::{CrashDevice, CrashFs};
use parking_lot::Mutex;
use std::{ops::Range, sync::Arc};
use terrace_device::{BlockDevice, Result, Stream};

/// The device. Clones are handles on the same one.
#[derive(Clone)]
pub struct Together {
    pub(crate) below: CrashDevice,
    pub(crate) beside: CrashFs,
    /// For each request, how many steps of the directory came before it.
    pub(crate) when: Arc<Mutex<Vec<usize>>>,
}

impl Together {
    /// Of the first `step` steps of both together, how many are the device's.
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

    /// Notes a request, which is about to be recorded: one at a time.
    fn note<T>(&self, request: impl FnOnce() -> Result<T>) -> Result<T> {
        let mut when = self.when.lock();
        when.push(self.beside.steps());
        let outcome = request();
        when.truncate(self.below.steps()); // a refused one was not recorded
        outcome
    }
}

impl BlockDevice for Together {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.note(|| self.below.write_at(offset, bytes, stream))
    }

    fn flush(&self) -> Result<()> {
        self.note(|| self.below.flush())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.note(|| self.below.flush_ranges(ranges))
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.below.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.note(|| self.below.discard(offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.note(|| self.below.write_zeroes(offset, len))
    }
}
