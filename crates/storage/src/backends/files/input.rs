//! Files that are open for reading, by system calls or through a memory mapping.
use crate::{Error, Result, tables::sst::ByteSource};
use std::{io, ops::Range};
use terrace_format::block::Bytes;
use terrace_vfs::{Mapping, ReadFile};

/// A file open for reading. Its size is fixed when it is opened, even if the file grows later.
pub(in crate::backends) struct Input {
    pub(super) file: Box<dyn ReadFile>,
    pub bytes: u64,
    /// The size of the whole file in bytes. It is larger than `bytes` if bytes follow the object
    /// that is read.
    pub there: u64,
    pub name: String,
    /// The mapping, if the file is mapped.
    mapping: Option<Mapping>,
}

impl Input {
    /// Makes an input for the first `bytes` bytes of `file`. `name` is its name in messages.
    pub(super) fn new(file: Box<dyn ReadFile>, bytes: u64, name: String) -> Input {
        Input { file, bytes, there: bytes, name, mapping: None }
    }

    /// Limits reads to the first `bytes` bytes.
    pub fn end_at(&mut self, bytes: u64) {
        self.bytes = self.bytes.min(bytes);
    }

    /// Fills `buf` from `offset`.
    pub(super) fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        self.answer(self.file.read_exact_at(buf, offset))
    }

    /// Returns the offset at which the hole at the end of the file (zeros that were never written)
    /// begins. Returns the file's size if there is no such hole.
    pub(super) fn data_end(&self) -> Result<u64> {
        self.answer(self.file.data_end())
    }

    /// Fills `buf` as `read_exact_at` does, for a log that its writer may end during the read. When
    /// the writer ends the log, it truncates the preallocated zeros at the end of the file. If
    /// bytes are missing for this reason, this function fills the rest of `buf` with zeros.
    pub(super) fn read_growing(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        match self.file.read_exact_at(buf, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let there = self.answer(self.file.bytes())?.saturating_sub(offset).min(buf.len() as u64) as usize;
                buf[there..].fill(0);
                self.read_exact_at(&mut buf[..there], offset)
            }
            read => self.answer(read),
        }
    }

    /// Maps the file if possible. If the file cannot be mapped, for instance because the process
    /// has too many mappings, all reads are system calls.
    pub fn map(&mut self) {
        let mapping = self.file.map().ok().flatten();
        self.mapping = mapping.filter(|mapping| mapping.byte_len() as u64 == self.bytes);
    }

    fn answer<T>(&self, answer: io::Result<T>) -> Result<T> {
        answer.map_err(|e| Error::io("read", &self.name, e))
    }
}

impl ByteSource for Input {
    fn read(&self, range: Range<u64>) -> Result<Bytes> {
        let bytes = length(&range)?;
        self.answer(self.file.read_at(range.start, bytes)).map(Bytes::from)
    }

    fn read_into(&self, buffer: &mut Vec<u8>, range: Range<u64>) -> Result<()> {
        buffer.resize(length(&range)?, 0);
        self.read_exact_at(buffer, range.start)
    }

    fn expect(&self, range: Range<u64>) {
        self.file.expect(range.start, range.end.saturating_sub(range.start));
    }

    fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn length(range: &Range<u64>) -> Result<usize> {
    let bytes = range.end.saturating_sub(range.start);
    usize::try_from(bytes)
        .map_err(|_| Error::Unsupported(format!("a block of {bytes} bytes, more than memory can address")))
}
