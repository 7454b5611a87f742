//! What files take: space and descriptors.
use std::{io, ops::Range};

/// The space and the descriptors of a file system. Every method has a default for file systems
/// that do not count.
pub trait Capacity: Send + Sync {
    /// Bytes that can still be allocated; `None` if unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Makes `name` a file with `bytes` of allocated space and meaningless contents; removes it if
    /// `bytes` is 0. Does nothing where space cannot be allocated without writing.
    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        let _ = (name, bytes);
        Ok(())
    }
    /// Deallocates `range`, which reads as zeros from then on; the size of the file stays. `range`
    /// begins and ends at multiples of 4096 bytes. Does nothing to a file with a second name, nor
    /// where space cannot be deallocated.
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        let _ = (name, range);
        Ok(())
    }
    /// The number of files that may be open at once, where each takes a descriptor of the process.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
}
