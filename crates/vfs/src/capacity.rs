//! The disk space and the file descriptors that files take.
use std::{io, ops::Range};

/// Reports and manages the disk space and the descriptors of a file system. Every method has a
/// default, for file systems that count neither space nor descriptors.
pub trait Capacity: Send + Sync {
    /// Returns the number of bytes that can still be allocated; `None` if unknown.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// Creates the file `name` with `bytes` bytes of allocated space and undefined contents. If
    /// `bytes` is 0, removes the file. Does nothing if the file system cannot allocate space
    /// without writing.
    fn reserve(&self, name: &str, bytes: u64) -> io::Result<()> {
        let _ = (name, bytes);
        Ok(())
    }
    /// Deallocates `range`, which must begin and end at multiples of 4096 bytes. The range then
    /// reads as zeros; the size of the file does not change. Does nothing if the file has a second
    /// name, or if the file system cannot deallocate space.
    fn punch(&self, name: &str, range: Range<u64>) -> io::Result<()> {
        let _ = (name, range);
        Ok(())
    }
    /// Returns the number of files that may be open at the same time; `None` if an open file takes
    /// no descriptor of the process.
    fn open_files_max(&self) -> Option<u64> {
        None
    }
}
