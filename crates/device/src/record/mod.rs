//! A device with a past: what was asked of it, in order, in a file; and any state it could have been in.
//!
//! | | |
//! |---|---|
//! | [`Recorder`] | a device that writes down what is asked of the device below |
//! | [`Past`] | such a file, read again: replayed, or asked for states |
//! | [`State`] | the device as a power cut may have left it, writable, made without copying |
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

/// Where requests are written down.
enum Log {
    Open(Writer),
    /// What comes now is no part of the past.
    Ended,
    /// A record could not be written: what follows would be a past with a hole.
    Broken,
}

/// A device that records what changes the device below: one order for all, as it was carried out. Reads are not recorded.
pub struct Recorder {
    below: Arc<dyn BlockDevice>,
    /// Held while the device below carries out a change, so that the record has the same order.
    log: Mutex<Log>,
}

impl Recorder {
    /// Records what is asked of `below` from now on, in a new file at `path`, which must not lie on the device itself. What the
    /// device holds already is not in it.
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

    /// Puts a mark between the requests before and after: number `number` has happened.
    pub fn mark(&self, number: u64) -> Result<()> {
        self.record(Kind::Mark, Stream::default(), number, 0, &[], || Ok(()))
    }

    /// Hands all records so far to the operating system, so that the file can be read.
    pub fn finish(&self) -> Result<()> {
        self.log().writer()?.map_or(Ok(()), Writer::flush)
    }

    /// The power is cut: the past ends here. What is asked later is carried out, and in no record.
    pub fn end(&self) -> Result<()> {
        let mut log = self.log();
        log.writer()?.map_or(Ok(()), Writer::flush)?;
        *log = Log::Ended;
        Ok(())
    }

    /// Carries `change` out and writes it down. What failed is not written down.
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
    /// What to write to, unless the past has ended.
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

    /// `mark N`, or `sync`, which hands the records to the operating system.
    fn order(&self, order: &str) -> std::result::Result<(), String> {
        let done = match order.split_once(' ') {
            None if order == "sync" => self.finish(),
            Some(("mark", number)) => self.mark(number.trim().parse().map_err(|_| format!("'{number}' is no number"))?),
            _ => return Err(format!("'{order}': known are 'mark N' and 'sync'")),
        };
        done.map_err(|error| error.to_string())
    }
}
