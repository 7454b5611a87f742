//! Counters of the requests to a served device and of their bytes, by kind of request.
use crate::{Error, Result};
use nix::errno::Errno;
use std::fmt;

/// Counters of one kind of request.
#[derive(Default)]
struct Count {
    requests: u64,
    bytes: u64,
}

/// Counters of all requests. If a counted request has failed, its error is also converted into an
/// error number for the kernel. A reply to the kernel has no place for an error message, so the
/// message is printed on standard error. Messages about unaligned ranges are not printed: such
/// errors are expected, because programs probe which lengths the device allows.
#[derive(Default)]
pub struct Tally {
    reads: Count,
    writes: Count,
    flushes: Count,
    discards: Count,
    zeroes: Count,
    failed: u64,
}

impl Tally {
    pub fn read(&mut self, bytes: usize, done: Result<()>) -> std::result::Result<(), Errno> {
        count(&mut self.reads, bytes as u64);
        self.told(done)
    }

    pub fn write(&mut self, bytes: usize, done: Result<()>) -> std::result::Result<(), Errno> {
        count(&mut self.writes, bytes as u64);
        self.told(done)
    }

    pub fn flush(&mut self, done: Result<()>) -> std::result::Result<(), Errno> {
        count(&mut self.flushes, 0);
        self.told(done)
    }

    pub fn discard(&mut self, bytes: u64, done: Result<()>) -> std::result::Result<(), Errno> {
        count(&mut self.discards, bytes);
        self.told(done)
    }

    pub fn zero(&mut self, bytes: u64, done: Result<()>) -> std::result::Result<(), Errno> {
        count(&mut self.zeroes, bytes);
        self.told(done)
    }

    fn told(&mut self, done: Result<()>) -> std::result::Result<(), Errno> {
        done.map_err(|error| {
            self.failed += 1;
            if !matches!(error, Error::Unaligned { .. }) {
                eprintln!("virtual device: {error}");
            }
            match error {
                Error::Io { source, .. } => source.raw_os_error().map_or(Errno::EIO, Errno::from_raw),
                Error::Unaligned { .. } | Error::BeyondEnd { .. } => Errno::EINVAL,
                _ => Errno::EIO,
            }
        })
    }
}

fn count(kind: &mut Count, bytes: u64) {
    kind.requests += 1;
    kind.bytes += bytes;
}

/// A JSON object.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("reads", &self.reads),
            ("writes", &self.writes),
            ("flushes", &self.flushes),
            ("discards", &self.discards),
            ("zeroes", &self.zeroes),
        ];
        f.write_str("{")?;
        for (name, Count { requests, bytes }) in kinds {
            write!(f, "\"{name}\":{{\"requests\":{requests},\"bytes\":{bytes}}},")?;
        }
        write!(f, "\"failed\":{}}}", self.failed)
    }
}
