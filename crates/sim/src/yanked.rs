//! A block device that simulates being disconnected: from a given request on, every request fails.
use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use terrace_device::{BlockDevice, Error, Result, Stream};

/// A wrapper that disconnects a device after a number of requests.
pub struct DisconnectedDevice {
    inner: Arc<dyn BlockDevice>,
    /// Number of requests that still succeed.
    left: AtomicU64,
}

impl DisconnectedDevice {
    /// Wraps `inner` and lets the first `requests` requests succeed.
    pub fn new(inner: Arc<dyn BlockDevice>, requests: u64) -> DisconnectedDevice {
        DisconnectedDevice { inner, left: AtomicU64::new(requests) }
    }

    /// Returns the number of requests that will still succeed.
    pub fn left(&self) -> u64 {
        self.left.load(Relaxed)
    }

    fn check_connected(&self, what: &str) -> Result<()> {
        let count = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Relaxed, Relaxed, count) {
            Ok(_) => Ok(()),
            Err(_) => {
                Err(Error::Io { what: what.into(), source: io::Error::other("injected: the device is disconnected") })
            }
        }
    }
}

impl BlockDevice for DisconnectedDevice {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.inner.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check_connected("read").and_then(|()| self.inner.read_at(offset, into))
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.check_connected("write").and_then(|()| self.inner.write_at(offset, bytes, stream))
    }

    fn flush(&self) -> Result<()> {
        self.check_connected("flush").and_then(|()| self.inner.flush())
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.check_connected("flush").and_then(|()| self.inner.flush_ranges(ranges))
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.inner.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.check_connected("discard").and_then(|()| self.inner.discard(offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.check_connected("zero").and_then(|()| self.inner.write_zeroes(offset, len))
    }
}
