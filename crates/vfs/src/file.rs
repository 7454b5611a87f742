//! Files of a [`FileSystem`](crate::FileSystem): appended to once, then only read.
use std::{io, os::fd::BorrowedFd};
use terrace_format::block::Bytes;

/// A file being written. Appends only.
pub trait WriteFile: Send + Sync {
    /// Appends all of `bytes`, or fails having appended any part of them.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Everything appended, and the size, survives a power cut (`fdatasync`).
    fn sync(&self) -> io::Result<()>;
    /// Whether a sync of something else has saved all of it since it was finished, so that none of its own is due.
    fn is_saved(&self) -> bool {
        false
    }
    /// Nothing more is appended: what is kept for that may go. From now on the file keeps its bytes and its length.
    fn end(&mut self) {}
    /// A second handle on the same open file, through which it can be synced and written back while it grows through this one.
    fn twin(&self) -> io::Result<Box<dyn WriteFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// For questions to the kernel; `None` where this is no file of its own.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Everything appended is written to the device; what finds it there becomes durable with the next
    /// [commit](crate::JournalCommit::commit). Blocks for as long as that takes, and forces no commit itself.
    fn write_back(&self) -> io::Result<()>;
}

/// A file being read.
pub trait ReadFile: Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Size in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// As [`read_exact_at`](ReadFile::read_exact_at), `bytes` into memory of their own.
    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut buf = vec![0; bytes];
        self.read_exact_at(&mut buf, offset)?;
        Ok(buf)
    }
    /// Drops cached pages, so that later reads show the bytes of the device. After a failed sync the page cache can hold
    /// bytes that the device never got and that no later sync writes. Dirty pages stay. Does nothing where reads come from
    /// the device anyway.
    fn forget_cached(&self) -> io::Result<()> {
        Ok(())
    }
    /// Says that `bytes` at `offset` will be read soon. A hint.
    fn expect(&self, _offset: u64, _bytes: u64) {}
    /// All its bytes, where they lie in memory; `None` if this kind of file cannot show them. The file must have been
    /// written completely, and must not be changed while the answer lives.
    fn map(&self) -> io::Result<Option<Bytes>> {
        Ok(None)
    }
}
