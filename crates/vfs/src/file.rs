//! Files of a [`FileSystem`](crate::FileSystem). A file is written once by appending, then only
//! read.
use crate::Mapping;
use std::io;
use terrace_device::Descriptor;

/// A file that is being written, only by appending.
pub trait WriteFile: Send + Sync {
    /// Appends all of `bytes`. A failed call may have appended any part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes all appended bytes and the size durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Returns whether the finished file is durable already because of another sync, so that no
    /// sync of this file is needed.
    fn is_saved(&self) -> bool {
        false
    }
    /// Ends the file: its bytes and its length are final, and nothing may be appended afterwards.
    /// Releases preallocated space.
    fn end(&mut self) {}
    /// Returns a second handle on the same open file. With the second handle, another thread can
    /// sync and write back the file while this handle appends.
    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Returns the descriptor, for calls to the kernel; `None` if this is not a file of the
    /// operating system.
    fn descriptor(&self) -> Option<Descriptor<'_>> {
        None
    }
    /// Writes all appended bytes to the device and waits until they are written. The call forces no
    /// journal commit. The next journal [commit](crate::JournalCommit::commit) makes the bytes
    /// durable.
    fn write_back(&self) -> io::Result<()>;
}

/// A file that is open for reading.
pub trait ReadFile: Send + Sync {
    /// Fills `buf` from `offset`. Returns `UnexpectedEof` if the file ends earlier.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Returns the size in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Returns the offset at which the hole at the end of the file (zeros that were never written)
    /// begins. Returns the file's size if there is no such hole, or if the file system does not
    /// report holes.
    fn data_end(&self) -> io::Result<u64> {
        self.bytes()
    }
    /// Reads `bytes` at `offset` into a new buffer; see
    /// [`read_exact_at`](ReadFile::read_exact_at).
    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; bytes];
        self.read_exact_at(&mut buf, offset)?;
        Ok(buf)
    }
    /// Drops cached pages, so that later reads return the bytes of the device. After a failed sync
    /// the page cache can contain bytes that the device never received and that no later sync
    /// writes. Pages that are still dirty are not dropped. Does nothing if reads always come from
    /// the device.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }
    /// Hints that `bytes` bytes at `offset` will be read.
    fn expect(&self, _offset: u64, _bytes: u64) {}
    /// Maps the whole file into memory; `None` if this kind of file cannot be mapped. The file must
    /// be finished.
    fn map(&self) -> io::Result<Option<Mapping>> {
        Ok(None)
    }
}
