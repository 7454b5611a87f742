//! Windows of a mapped log: how a growing file is divided into ranges that are mapped one at a
//! time.
use std::num::NonZeroUsize;

/// The least number of bytes mapped at a time; a multiple of every page size.
pub(super) const WINDOW_MIN: u64 = 1 << 20;
/// The most. In long logs fewer appends meet the end of a window, and the next window is requested
/// earlier.
const WINDOW_MAX: u64 = 4 << 20;

/// The range of a window in its file.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub from: u64,
    pub bytes: NonZeroUsize,
}

impl Span {
    /// The window that holds the byte at `at`. Its size is a fourth of `at`, rounded down to a
    /// power of two.
    pub fn of(at: u64) -> Span {
        let bytes = 1 << (at / 4).clamp(WINDOW_MIN, WINDOW_MAX).ilog2();
        Span { from: at - at % bytes, bytes: NonZeroUsize::new(bytes as usize).expect("a power of two") }
    }

    /// The offset of the byte after its last one.
    pub fn end(&self) -> u64 {
        self.from + self.bytes.get() as u64
    }
}
