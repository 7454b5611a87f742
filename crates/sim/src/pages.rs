//! A file's pages when a sync has failed: the kernel tells that once and takes them for clean. They are shown, though the device
//! never got them, until memory forgets them; and no later sync has anything to save.
use parking_lot::Mutex;
use std::{ops::Range, sync::Arc};

/// What has become of one file's bytes, under whichever name. Clones tell of the same file.
#[derive(Clone, Default)]
pub(crate) struct Pages(Arc<Mutex<State>>); // a leaf lock

#[derive(Default)]
struct State {
    /// Bytes appended.
    bytes: u64,
    /// Bytes that the device has, a prefix.
    saved: u64,
    /// Bytes that it did not get when a sync failed.
    lost: Option<Range<u64>>,
    /// Whether these are shown no more.
    forgotten: bool,
}

impl Pages {
    pub fn appended(&self, bytes: usize) {
        self.0.lock().bytes += bytes as u64;
    }

    /// So far.
    pub fn bytes(&self) -> u64 {
        self.0.lock().bytes
    }

    /// The first `bytes` have reached the device.
    pub fn saved(&self, bytes: u64) {
        self.0.lock().saved = bytes;
    }

    /// What has not reached the device never will.
    pub fn lose(&self) {
        let mut state = self.0.lock();
        let from = state.lost.as_ref().map_or(state.saved, |lost| lost.start);
        state.lost = Some(from..state.bytes);
    }

    /// Whether a sync ever failed: then those that succeed save nothing.
    pub fn are_lost(&self) -> bool {
        self.0.lock().lost.is_some()
    }

    /// Reads show from now on what the device has.
    pub fn forget(&self) {
        self.0.lock().forgotten = true;
    }

    /// Makes of `buf`, read at `offset`, what a reader sees: where the device has nothing there are zeros.
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
    fn what_is_lost_is_shown_until_it_is_forgotten() {
        let pages = Pages::default();
        pages.appended(10);
        pages.saved(pages.bytes());
        pages.appended(5);
        pages.lose();
        pages.appended(5);
        let seen = |offset: u64, bytes: usize| {
            let mut buf = vec![1; bytes];
            pages.show(&mut buf, offset);
            buf
        };
        assert!(pages.are_lost());
        assert_eq!(seen(0, 20), [1; 20]);
        pages.forget();
        assert_eq!(seen(8, 4), [1, 1, 0, 0]);
        assert_eq!(seen(13, 4), [0, 0, 1, 1]);
        assert_eq!((seen(0, 10), seen(15, 5)), (vec![1; 10], vec![1; 5]));
    }
}
