//! A device whose flushes take as long as somebody's drive takes: what waits for them waits that long here, too.
use crate::{BlockDevice, Result, Stream};
use std::{ops::Range, os::fd::BorrowedFd, sync::Arc, thread, time::Duration};

/// Another device with slow flushes. Everything else is passed on.
pub struct SlowFlush {
    below: Arc<dyn BlockDevice>,
    flush_time: Duration,
}

impl SlowFlush {
    /// Each flush of `below` takes `flush_time` longer.
    pub fn new(below: Arc<dyn BlockDevice>, flush_time: Duration) -> SlowFlush {
        SlowFlush { below, flush_time }
    }
}

impl BlockDevice for SlowFlush {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, into)
    }

    fn read_part(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.below.read_part(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        self.below.write_at(offset, bytes, stream)
    }

    fn flush(&self) -> Result<()> {
        thread::sleep(self.flush_time);
        self.below.flush()
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        thread::sleep(self.flush_time);
        self.below.flush_ranges(ranges)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.below.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.below.write_zeroes(offset, len)
    }

    fn backing(&self) -> Option<BorrowedFd<'_>> {
        self.below.backing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;
    use std::time::Instant;

    #[test]
    fn flushes_wait_and_nothing_else_does() {
        let slow = SlowFlush::new(Arc::new(Memory::new(1 << 20).expect("memory")), Duration::from_millis(50));
        let start = Instant::now();
        let mut read = [0; 4096];
        slow.write_at(4096, &[7; 4096], Stream::default()).expect("written");
        slow.read_at(4096, &mut read).expect("read");
        assert_eq!((read, slow.len_bytes(), slow.block_bytes()), ([7; 4096], 1 << 20, 4096));
        assert!(start.elapsed() < Duration::from_millis(50));
        slow.flush().expect("flushed");
        assert!(start.elapsed() >= Duration::from_millis(50));
    }
}
