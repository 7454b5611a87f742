//! Recorded devices. A recording is a file with all requests to a block device, in order. Every
//! crash state (a disk content that a power cut can leave) can be derived from it.
//!
//! - [`Recorder`]: a device that records the requests to the device below.
//! - [`Past`]: a recording that was opened for replay and for crash states.
//! - [`State`]: a crash state as a writable device. It is created without copying the device.
mod appender;
mod log;
mod past;
mod state;

pub use log::{Event, Kind};
pub use past::Past;
pub use state::{Kept, State};

use crate::{BlockDevice, Error, Result, Stream, serve::Desk};
use log::{Shape, Writer};
use past::BLOCK;
use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The state of a recording.
enum Log {
    Open(Writer),
    /// The recording has ended, so further requests are not recorded.
    Ended,
    /// A record could not be written. Later requests are not recorded, because the recording would
    /// have a gap.
    Broken,
}

/// A device that records all changes in the order in which it executes them. Reads are not
/// recorded.
pub struct Recorder {
    below: Arc<dyn BlockDevice>,
    /// Locked while the device below executes a change. The log therefore has the requests in the
    /// order in which the device executed them.
    log: Mutex<Log>,
}

impl Recorder {
    /// Starts recording the requests to `below` in a new file at `path`, which must not be on the
    /// device itself. The contents that the device has at this time are not recorded.
    pub fn new(below: Arc<dyn BlockDevice>, path: &Path) -> Result<Recorder> {
        let shape = Shape { len: below.len_bytes(), block: below.block_bytes() };
        if u64::from(shape.block) != BLOCK {
            return Err(Error::Impossible {
                field: "block",
                why: format!("{} bytes; recorded are {BLOCK}", shape.block),
            });
        }
        Ok(Recorder { log: Mutex::new(Log::Open(Writer::create(path, shape)?)), below })
    }

    /// Inserts a mark with the id `number` after all requests so far.
    pub fn mark(&self, number: u64) -> Result<()> {
        self.record(Kind::Mark, Stream::default(), number, 0, &[], || Ok(()))
    }

    /// Passes all records to the operating system, so that other processes can read the file.
    pub fn finish(&self) -> Result<()> {
        self.log().writer()?.map_or(Ok(()), Writer::flush)
    }

    /// Ends the recording, to simulate a power cut. The device still executes later requests, but
    /// they are not recorded.
    pub fn end(&self) -> Result<()> {
        let mut log = self.log();
        log.writer()?.map_or(Ok(()), Writer::flush)?;
        *log = Log::Ended;
        Ok(())
    }

    /// Executes `change` and, if it succeeds, records it.
    fn record(
        &self,
        kind: Kind,
        stream: Stream,
        offset: u64,
        len: u64,
        data: &[u8],
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut log = self.log();
        let writer = log.writer()?;
        change()?;
        let written = writer.map_or(Ok(()), |writer| writer.append(kind, stream.0, offset, len, data));
        if written.is_err() {
            *log = Log::Broken;
        }
        written
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    /// Returns the writer, or `None` if the recording has ended.
    fn writer(&mut self) -> Result<Option<&mut Writer>> {
        match self {
            Log::Open(writer) => Ok(Some(writer)),
            Log::Ended => Ok(None),
            Log::Broken => Err(Error::Io {
                what: "record a request".into(),
                source: std::io::Error::other("an earlier record could not be written"),
            }),
        }
    }
}

impl BlockDevice for Recorder {
    fn len_bytes(&self) -> u64 {
        self.below.len_bytes()
    }

    fn block_bytes(&self) -> u32 {
        self.below.block_bytes()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.below.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8], stream: Stream) -> Result<()> {
        let write = || self.below.write_at(offset, bytes, stream);
        self.record(Kind::Write, stream, offset, bytes.len() as u64, bytes, write)
    }

    fn flush(&self) -> Result<()> {
        self.record(Kind::Flush, Stream::default(), 0, 0, &[], || self.below.flush())
    }

    fn forget_cached(&self, offset: u64, len: u64) -> Result<()> {
        self.below.forget_cached(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<()> {
        self.record(Kind::Discard, Stream::default(), offset, len, &[], || self.below.discard(offset, len))
    }

    fn write_zeroes(&self, offset: u64, len: u64) -> Result<()> {
        self.record(Kind::Zero, Stream::default(), offset, len, &[], || self.below.write_zeroes(offset, len))
    }
}

impl Desk for Recorder {
    fn stats(&self) -> String {
        let recorded = match &*self.log() {
            Log::Open(writer) => writer.bytes.to_string(),
            Log::Ended | Log::Broken => "null".into(),
        };
        format!("{{\"recorded_bytes\":{recorded}}}")
    }

    /// Executes a command: `mark N`, or `sync`, which passes the records to the operating system.
    fn order(&self, order: &str) -> std::result::Result<(), String> {
        let done = match order.split_once(' ') {
            None if order == "sync" => self.finish(),
            Some(("mark", number)) => self.mark(number.trim().parse().map_err(|_| format!("'{number}' is no number"))?),
            _ => return Err(format!("'{order}': known are 'mark N' and 'sync'")),
        };
        done.map_err(|error| error.to_string())
    }
}
