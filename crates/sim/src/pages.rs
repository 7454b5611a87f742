//! The state of a file's pages in the kernel's page cache after a failed sync. The kernel reports
//! the error once and marks the pages as clean, although the device never received them. Reads
//! return these pages until they are evicted from the page cache. Later syncs do not write them.
use parking_lot::Mutex;
use std::{ops::Range, sync::Arc};

/// The state of one file's bytes, shared by all its names. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Pages(Arc<Mutex<State>>); // a leaf lock

#[derive(Default)]
struct State {
    /// Number of bytes appended.
    bytes: u64,
    /// Length of the prefix that is on the device.
    synced: u64,
    /// Range of bytes that a failed sync lost.
    lost: Option<Range<u64>>,
    /// Whether the lost pages are evicted from the page cache.
    forgotten: bool,
}

impl Pages {
    pub fn appended(&self, bytes: usize) {
        self.0.lock().bytes += bytes as u64;
    }

    /// Returns the number of bytes appended so far.
    pub fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    /// Records that the first `bytes` bytes are on the device.
    pub fn synced(&self, bytes: u64) {
        self.0.lock().synced = bytes;
    }

    /// Marks all bytes that are not on the device as lost.
    pub fn lose(&self) {
        let mut state = self.0.lock();
        let from = state.lost.as_ref().map_or(state.synced, |lost| lost.start);
        state.lost = Some(from..state.bytes);
    }

    /// Returns whether any sync has failed. Later successful syncs then write nothing.
    pub fn lost_any(&self) -> bool {
        self.0.lock().lost.is_some()
    }

    /// Evicts the pages. From now on reads return the device's contents.
    pub fn forget(&self) {
        self.0.lock().forgotten = true;
    }

    /// Changes `buf`, which was read at `offset`, to the bytes that a reader gets. Bytes that a
    /// failed sync lost read as zeros after they are evicted from the page cache.
    pub fn show(&self, buf: &mut [u8], offset: u64) {
        let state = self.0.lock();
        let Some(lost) = state.lost.as_ref().filter(|_| state.forgotten) else { return };
        let within = |at: u64| at.clamp(offset, offset + buf.len() as u64) - offset;
        let (from, to) = (within(lost.start) as usize, within(lost.end) as usize);
        buf[from..to].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_bytes_are_readable_until_evicted() {
        let pages = Pages::default();
        pages.appended(10);
        pages.synced(pages.bytes());
        pages.appended(5);
        pages.lose();
        pages.appended(5);
        let seen = |offset: u64, bytes: usize| {
            let mut buf = vec![1; bytes];
            pages.show(&mut buf, offset);
            buf
        };
        assert!(pages.lost_any());
        assert_eq!(seen(0, 20), [1; 20]);
        pages.forget();
        assert_eq!(seen(8, 4), [1, 1, 0, 0]);
        assert_eq!(seen(13, 4), [0, 0, 1, 1]);
        assert_eq!((seen(0, 10), seen(15, 5)), (vec![1; 10], vec![1; 5]));
    }
}
