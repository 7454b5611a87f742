//! Files of a real file system, written and read by system calls.
use crate::{
    file::{ReadFile, WriteFile},
    kernel,
    mapping::{self, Mapping},
};
use nix::{
    errno::Errno,
    fcntl::{PosixFadviseAdvice, posix_fadvise},
    unistd::{Whence, lseek},
};
use std::{
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileExt,
    },
};

/// Fills `buf` from `offset` of `file`. Returns `UnexpectedEof` if the file ends earlier.
pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

/// A file being written.
pub(super) struct Writing(pub File);

impl WriteFile for Writing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        mapping::checked(self.0.sync_data())
    }

    fn second_handle(&self) -> io::Result<Box<dyn WriteFile>> {
        Ok(Box::new(Writing(self.0.try_clone()?)))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn write_back(&self) -> io::Result<()> {
        mapping::checked(kernel::write_back(&self.0))
    }
}

/// A file being read.
pub(super) struct Reading(pub File);

/// Returns the start of the hole at the end of a file of `bytes` bytes. Returns an error if the
/// file system does not report holes, or if the file has many holes.
fn data_end(file: &File, bytes: u64) -> nix::Result<u64> {
    const HOLES_MAX: usize = 64;
    let mut data = 0;
    for _ in 0..HOLES_MAX {
        let hole = lseek(file, data, Whence::SeekHole)?;
        data = match lseek(file, hole, Whence::SeekData) {
            Err(Errno::ENXIO) => return Ok(u64::try_from(hole).unwrap_or(bytes)),
            next => next?,
        };
    }
    Err(Errno::E2BIG)
}

impl ReadFile for Reading {
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(&self.0, buf, offset)
    }

    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn data_end(&self) -> io::Result<u64> {
        let bytes = self.bytes()?;
        Ok(data_end(&self.0, bytes).unwrap_or(bytes))
    }

    fn read_at(&self, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        mapping::read_at(&self.0, offset, bytes)
    }

    fn forget_cached(&self) -> io::Result<()> {
        // An offset and a length of 0 mean the whole file.
        posix_fadvise(&self.0, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).map_err(io::Error::from)
    }

    fn expect(&self, offset: u64, bytes: u64) {
        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
        // The kernel starts the read and returns. If it refuses, only the hint is lost.
        let _ = posix_fadvise(&self.0, offset, bytes, PosixFadviseAdvice::POSIX_FADV_WILLNEED);
    }

    fn map(&self) -> io::Result<Option<Mapping>> {
        Mapping::of(&self.0)
    }
}
