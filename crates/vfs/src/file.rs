//! Files of a [`FileSystem`](crate::FileSystem): appended to once, then only read.
use std::{io, os::fd::BorrowedFd};
use terrace_format::block::Bytes;

/// A file being written. Appends only.
pub trait WriteFile: Send + Sync {
    /// Appends all of `bytes`. A failed call may have appended any part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes everything appended, and the size, durable (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Whether a sync of something else has already made the finished file durable, so that its
    /// own sync is not needed.
    fn is_saved(&self) -> bool {
        false
    }
    /// Ends the file: nothing is appended any more, and preallocated space is released. The bytes
    /// and the length are final.
    fn end(&mut self) {}
    /// A second handle on the same open file. It can sync and write back the file while this one
    /// appends.
    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The descriptor, for calls to the kernel; `None` where this is not a file of the operating
    /// system.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Writes everything appended to the device. The next [commit](crate::JournalCommit::commit)
    /// makes it durable. Blocks until the bytes are written, and forces no commit itself.
    fn write_back(&self) -> io::Result<()>;
}

/// A file being read.
pub trait ReadFile: Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends earlier.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// The size in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Reads `bytes` at `offset` into a new buffer; see
    /// [`read_exact_at`](ReadFile::read_exact_at).
    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; bytes];
        self.read_exact_at(&mut buf, offset)?;
        Ok(buf)
    }
    /// Drops cached pages, so that later reads show the bytes of the device. After a failed sync
    /// the page cache can hold bytes that the device never got and that no later sync writes.
    /// Dirty pages stay. Does nothing where reads come from the device anyway.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }
    /// Announces a read of `bytes` at `offset`. A hint.
    fn expect(&self, _offset: u64, _bytes: u64) {}
    /// Maps the whole file; `None` if this kind of file cannot be mapped. The file must be
    /// complete and must not change while the result is alive.
    fn map(&self) -> io::Result<Option<Bytes>> {
        Ok(None)
    }
}
