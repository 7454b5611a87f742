//! A wrapper that simulates a drive without TRIM.
use crate::{BlockDevice, Descriptor, Error, Result, Stream};
use std::{io::ErrorKind, ops::Range, sync::Arc};

/// Wraps another block device so that every discard fails, as on a drive without TRIM. All other
/// operations are passed to the wrapped device.
pub struct Deaf(Arc<dyn BlockDevice>);

impl Deaf {
    /// Wraps `below`.
    pub fn new(below: Arc<dyn BlockDevice>) -> Deaf {
        Deaf(below)
    }
}

impl BlockDevice for Deaf {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.0.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, into)
    }

    fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.0.read_part(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.0.write_at(offset, bytes, stream)
    }

    fn backing(&self) -> Option<Descriptor<'_>> {
        self.0.backing()
    }

    fn flush(&self) -> Result<()> {
        self.0.flush()
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        self.0.flush_ranges(ranges)
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.0.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let what = format!("discard {len} bytes at {offset} of a drive that knows no discard");
        Err(Error::Io { what, source: ErrorKind::Unsupported.into() })
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.0.write_zeroes(offset, len)
    }
}
