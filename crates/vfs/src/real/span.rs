//! Windows of a mapped log. A growing file is divided into ranges (windows), of which one at a
//! time is mapped.
use std::num::NonZeroUsize;

/// The minimum size of a window in bytes; a multiple of every page size.
pub(super) const WINDOW_MIN: u64 = 1 << 20;
/// The maximum size of a window in bytes. In long logs larger windows have two benefits: fewer
/// appends reach the end of a window, and the next window is requested earlier.
const WINDOW_MAX: u64 = 4 << 20;

/// The range of a window in its file.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub from: u64,
    pub bytes: NonZeroUsize,
}

impl Span {
    /// Returns the window that contains the byte at `at`. Its size is a fourth of `at`, rounded
    /// down to a power of two.
    pub fn of(at: u64) -> Span {
        let bytes = 1 << (at / 4).clamp(WINDOW_MIN, WINDOW_MAX).ilog2();
        Span { from: at - at % bytes, bytes: NonZeroUsize::new(bytes as usize).expect("a power of two") }
    }

    /// Returns the offset after the last byte of the window.
    pub fn end(&self) -> u64 {
        self.from + self.bytes.get() as u64
    }
}
