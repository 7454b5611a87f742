//! The format (version 1) of a recording: a file with all requests to a device. Integers are
//! little-endian.
//!
//! ```text
//! head, 32 bytes                        one record per request
//!  0  8  "TERRACEB"                      0  4  crc32c of bytes 4..32
//!  8  4  format                          4  4  crc32c of the data
//! 12  4  block size of the device        8  1  kind: 1 write, 2 flush, 3 discard, 4 zero, 5 mark
//! 16  8  size of the device              9  1  stream of a write
//! 24  4  0                              10  6  0
//! 28  4  crc32c of bytes 0..28          16  8  offset; of a mark its number
//!                                       24  8  length
//!                                       32  n  data of a write
//! ```
//! Records are in the order in which the device executed the requests. A file is corrupt if it
//! ends within a record or if a checksum is wrong. A recording with a gap would yield crash states
//! that cannot occur.
use super::appender::Appender;
use crate::{Error, Result, Stream, error::check_range};
use std::{
    fs::File,
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

const MAGIC: &[u8; 8] = b"TERRACEB";
const FORMAT: u32 = 1;
/// Size of the file's head and of a record's head, in bytes.
const HEAD: usize = 32;
/// Read buffer size in bytes.
const BUFFER: usize = 1 << 20;

/// Kind of a recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A write.
    Write,
    /// A flush. When it has completed, all requests before it are durable.
    Flush,
    /// A discard.
    Discard,
    /// A zeroed range.
    Zero,
    /// A mark, which is not a request to the device. The workload inserts marks to record its
    /// progress.
    Mark,
}

const KINDS: [Kind; 5] = [Kind::Write, Kind::Flush, Kind::Discard, Kind::Zero, Kind::Mark];

/// A recorded request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Kind of the request.
    pub kind: Kind,
    /// Offset of the request on the device. For a mark, the number of the mark.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
    /// Stream of a write.
    pub stream: Stream,
    /// Offset in the recording at which the data of a write begin.
    pub(super) at: u64,
}

/// The head of a recording: size and block size of the recorded device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub len: u64,
    pub block: u32, // always 4096 in this format
}

/// Writes the file of a recording.
pub(super) struct Writer {
    file: Appender,
    path: PathBuf,
    pub bytes: u64,
}

impl Writer {
    /// Creates a file.
    pub fn create(path: &Path, shape: Shape) -> Result<Writer> {
        let failed = |source| Error::Io { what: format!("create {}", path.display()), source };
        let file = Appender::create(path).map_err(failed)?;
        let mut writer = Writer { file, path: path.into(), bytes: 0 };
        writer.put(&head(shape))?;
        Ok(writer)
    }

    /// Appends an event; `data` are the bytes of a write.
    pub fn append(&mut self, kind: Kind, stream: u8, offset: u64, len: u64, data: &[u8]) -> Result<()> {
        let mut record = [0; HEAD];
        record[4..8].copy_from_slice(&crc32c::crc32c(data).to_le_bytes());
        record[8] = KINDS.iter().position(|known| *known == kind).expect("all are listed") as u8 + 1;
        record[9] = stream;
        record[16..24].copy_from_slice(&offset.to_le_bytes());
        record[24..].copy_from_slice(&len.to_le_bytes());
        let sum = crc32c::crc32c(&record[4..]);
        record[..4].copy_from_slice(&sum.to_le_bytes());
        self.put(&record)?;
        self.put(data)
    }

    /// Writes all bytes to the operating system.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|source| self.failed(source))
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        self.file.append(bytes).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> Error {
        Error::Io { what: format!("write {}", self.path.display()), source }
    }
}

fn head(shape: Shape) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    head[12..16].copy_from_slice(&shape.block.to_le_bytes());
    head[16..24].copy_from_slice(&shape.len.to_le_bytes());
    let sum = crc32c::crc32c(&head[..28]);
    head[28..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Reads a recording from its start and verifies every byte.
pub(super) struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    pub shape: Shape,
    /// File offset of the next record.
    at: u64,
    data: Vec<u8>,
}

impl Reader {
    pub fn open(path: &Path) -> Result<Reader> {
        let file = File::open(path).map_err(|source| Error::Io { what: format!("open {}", path.display()), source })?;
        let shape = Shape { len: 0, block: 0 };
        let file = BufReader::with_capacity(BUFFER, file);
        let mut reader = Reader { file, path: path.into(), shape, at: 0, data: Vec::new() };
        let mut head = [0; HEAD];
        if !reader.fill(&mut head)? || head[..8] != *MAGIC {
            return Err(reader.damaged("it is no recorded past"));
        }
        if u32_at(&head, 28) != crc32c::crc32c(&head[..28]) {
            return Err(reader.damaged("checksum mismatch in the head"));
        }
        if u32_at(&head, 8) != FORMAT {
            return Err(reader.damaged(&format!("format {} is not known here, only {FORMAT}", u32_at(&head, 8))));
        }
        reader.shape = Shape { len: u64_at(&head, 16), block: u32_at(&head, 12) };
        if reader.shape.block != 4096 || !reader.shape.len.is_multiple_of(4096) || reader.shape.len == 0 {
            return Err(reader.damaged("no device has such a length or block"));
        }
        reader.at = HEAD as u64;
        Ok(reader)
    }

    /// Returns the next event, or `None` at the end.
    pub fn next(&mut self) -> Result<Option<Event>> {
        let mut record = [0; HEAD];
        if !self.fill(&mut record)? {
            return Ok(None);
        }
        if u32_at(&record, 0) != crc32c::crc32c(&record[4..]) {
            return Err(self.damaged("checksum mismatch in a record"));
        }
        let kind = usize::from(record[8]).checked_sub(1).and_then(|kind| KINDS.get(kind).copied());
        let Some(kind) = kind else { return Err(self.damaged("a request of an unknown kind")) };
        let (offset, len) = (u64_at(&record, 16), u64_at(&record, 24));
        if kind != Kind::Mark && check_range(offset, len, self.shape.block, self.shape.len).is_err() {
            return Err(self.damaged("a request beyond the device"));
        }
        let event = Event { kind, offset, len, stream: Stream(record[9]), at: self.at + HEAD as u64 };
        let mut data = std::mem::take(&mut self.data);
        data.resize(if kind == Kind::Write { len as usize } else { 0 }, 0);
        if !data.is_empty() && !self.fill(&mut data)? {
            return Err(self.damaged("it ends within a record"));
        }
        if u32_at(&record, 4) != crc32c::crc32c(&data) {
            return Err(self.damaged("checksum mismatch in the data of a write"));
        }
        self.at = event.at + data.len() as u64;
        self.data = data;
        Ok(Some(event))
    }

    /// Fills `bytes`. Returns false at the end of the file.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read(&mut bytes[filled..]) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(self.damaged("it ends within a record")),
                Ok(more) => filled += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { what: format!("read {}", self.path.display()), source }),
            }
        }
        Ok(true)
    }

    fn damaged(&self, why: &str) -> Error {
        Error::Damaged { file: self.path.display().to_string(), offset: self.at, why: why.into() }
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
