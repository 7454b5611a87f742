//! Windows of a mapped log. A growing log file is divided into ranges, the windows. Only the
//! window that is being filled is mapped for writing.
use std::num::NonZeroUsize;

/// The minimum size of a window in bytes; a multiple of every page size.
pub(super) const WINDOW_MIN: u64 = 1 << 20;
/// The maximum size of a window in bytes. In a long log, a large window has two benefits over a
/// small one. First, fewer appends reach the end of a window. Second, there is more time to
/// prepare the next window, because the writer requests it at the latest when it begins the window
/// before.
const WINDOW_MAX: u64 = 4 << 20;

/// The range of a window in the log file.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub from: u64,
    pub bytes: NonZeroUsize,
}

impl Span {
    /// Returns the window that contains the byte at `at`. The size of the window is a fourth of
    /// `at`, at least `WINDOW_MIN` and at most `WINDOW_MAX`, rounded down to a power of two.
    pub fn of(at: u64) -> Span {
        let bytes = 1 << (at / 4).clamp(WINDOW_MIN, WINDOW_MAX).ilog2();
        Span { from: at - at % bytes, bytes: NonZeroUsize::new(bytes as usize).expect("a power of two") }
    }

    /// Returns the offset after the last byte of the window.
    pub fn end(&self) -> u64 {
        self.from + self.bytes.get() as u64
    }
}
