//! A block device with a write-back page cache like the kernel's. Small writes wait in memory for
//! the next flush, and repeated writes of a page become one write. Unlike the kernel's cache, this
//! cache is lost when the process ends. It is used to measure simulated drives within one process.
use crate::{BlockDevice, Error, Result, Stream, error::check_range};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

const PAGE: u64 = 4096;
/// Maximum size of a cached write, in bytes. Larger writes bypass the cache, as direct I/O does.
const SMALL_BYTES: usize = 64 << 10;
/// Maximum number of waiting pages.
const PAGES_MAX: usize = 4096;

type Pages = BTreeMap<u64, (Stream, Box<[u8]>)>;

/// A write-back cache for the device `below`.
pub struct Cached {
    below: Arc<dyn BlockDevice>,
    /// The pages that wait to be written, by page number. A write-back keeps this mutex locked
    /// until its pages are written, so that no later write of the same page overtakes it.
    waiting: Mutex<Pages>,
    /// Whether a write-back has failed, so that its pages are lost. Accessed only while `waiting`
    /// is locked.
    lost: AtomicBool,
}

impl Cached {
    /// Returns an empty cache in front of `below`.
    pub fn new(below: Arc<dyn BlockDevice>) -> Cached {
        Cached { below, waiting: Mutex::default(), lost: AtomicBool::new(false) }
    }

    fn waiting(&self) -> MutexGuard<'_, Pages> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes pages to the device below. Fails if an earlier write-back lost pages.
    fn write_back(&self, pages: Pages) -> Result<()> {
        if self.lost.load(Ordering::SeqCst) {
            let source = std::io::Error::other("it lost pages before");
            return Err(Error::Io { what: "write back what waits before a device".into(), source });
        }
        self.hand_on(pages).inspect_err(|_| self.lost.store(true, Ordering::SeqCst))
    }

    /// Writes `pages` to the device below. Adjacent pages of one stream become one write.
    fn hand_on(&self, pages: Pages) -> Result<()> {
        let mut run: Option<(u64, Stream, Vec<u8>)> = None;
        for (number, (stream, page)) in pages {
            match &mut run {
                Some((first, of, bytes))
                    if *of == stream && first.wrapping_add(bytes.len() as u64) == number * PAGE =>
                {
                    bytes.extend_from_slice(&page);
                }
                _ => {
                    if let Some((first, stream, bytes)) = run.replace((number * PAGE, stream, page.into_vec())) {
                        self.below.write_at(first, &bytes, stream)?;
                    }
                }
            }
        }
        run.map_or(Ok(()), |(first, stream, bytes)| self.below.write_at(first, &bytes, stream))
    }

    /// Removes the pages within a range from `waiting` and returns them.
    fn take(&self, waiting: &mut Pages, offset: u64, len: u64) -> Result<Pages> {
        check_range(offset, len, PAGE as u32, self.len_bytes())?;
        let mut taken = waiting.split_off(&(offset / PAGE));
        waiting.append(&mut taken.split_off(&((offset + len) / PAGE)));
        Ok(taken)
    }

    /// Drops the waiting pages within a range without writing them.
    fn forget(&self, offset: u64, len: u64) -> Result<MutexGuard<'_, Pages>> {
        let mut waiting = self.waiting();
        self.take(&mut waiting, offset, len)?;
        Ok(waiting)
    }
}

impl BlockDevice for Cached {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        PAGE as u32
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let waiting = self.waiting();
        self.below.read_at(offset, into)?;
        for (number, (_, page)) in waiting.range(offset / PAGE..(offset + into.len() as u64) / PAGE) {
            into[(number * PAGE - offset) as usize..][..PAGE as usize].copy_from_slice(page);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        let mut waiting = self.forget(offset, bytes.len() as u64)?;
        if bytes.len() >= SMALL_BYTES {
            return self.below.write_at(offset, bytes, stream);
        }
        for (number, page) in (offset / PAGE..).zip(bytes.chunks_exact(PAGE as usize)) {
            waiting.insert(number, (stream, page.into()));
        }
        if waiting.len() > PAGES_MAX { self.write_back(std::mem::take(&mut waiting)) } else { Ok(()) }
    }

    fn flush(&self) -> Result<()> {
        let mut waiting = self.waiting();
        self.write_back(std::mem::take(&mut waiting))?;
        drop(waiting);
        self.below.flush()
    }

    fn flush_ranges(&self, ranges: &[Range<u64>]) -> Result<()> {
        let mut waiting = self.waiting();
        for range in ranges {
            let pages = self.take(&mut waiting, range.start, range.end - range.start)?;
            self.write_back(pages)?;
        }
        drop(waiting);
        self.below.flush()
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.below.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        let _waiting = self.forget(offset, len)?;
        self.below.discard(offset, len)
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        let _waiting = self.forget(offset, len)?;
        self.below.write_zeroes(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn waiting_pages_are_readable_and_written_by_a_flush() {
        let below = Arc::new(Memory::new(1 << 20).unwrap());
        let device = Cached::new(below.clone());
        let read = |device: &dyn BlockDevice, page: u64| {
            let mut bytes = vec![0; 4096];
            device.read_at(page * 4096, &mut bytes).unwrap();
            bytes[0]
        };
        device.write_at(0, &[1; 3 * 4096], Stream(0)).unwrap();
        device.write_at(4096, &[2; 4096], Stream(1)).unwrap();
        device.discard(2 * 4096, 4096).unwrap();
        device.write_at(16 * 4096, &[3; SMALL_BYTES], Stream(0)).unwrap();
        assert_eq!([0, 1, 2, 16].map(|page| read(&device, page)), [1, 2, 0, 3]);
        assert_eq!([0, 1, 2, 16].map(|page| read(&*below, page)), [0, 0, 0, 3]);
        device.flush_ranges(&[4096..8192, 8192..12288]).unwrap();
        assert_eq!([0, 1, 2, 16].map(|page| read(&*below, page)), [0, 2, 0, 3]);
        device.flush().unwrap();
        assert_eq!([0, 1, 2, 16].map(|page| read(&*below, page)), [1, 2, 0, 3]);
    }
}
