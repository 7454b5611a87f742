//! The drive's counters: bytes received from the host and bytes programmed into flash, by cause.

use serde::{Deserialize, Serialize};

/// The cause of programming flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A host write.
    Host,
    /// Relocation by garbage collection.
    Collection,
    /// Relocation by wear levelling.
    Wear,
    /// Padding. It fills the rest of a partially written page, the rest of a program unit at a
    /// flush, or the rest of a superblock into which the next page does not fit.
    Padding,
}

/// Counters since the drive was new. They never decrease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytes written by the host, before compression.
    pub host_bytes: u64,
    /// Bytes read by the host.
    pub read_bytes: u64,
    /// Bytes of mapped pages that were trimmed.
    pub trimmed_bytes: u64,
    /// Flushes by the host.
    pub flushes: u64,
    /// Superblocks erased.
    pub erases: u64,
    nand_bytes: [u64; 4],
}

impl Cause {
    /// All causes in report order.
    pub const ALL: [Cause; 4] = [Cause::Host, Cause::Collection, Cause::Wear, Cause::Padding];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Host => "host",
            Cause::Collection => "gc",
            Cause::Wear => "wear_levelling",
            Cause::Padding => "padding",
        }
    }
}

impl Counts {
    /// Returns the bytes programmed for a cause.
    pub fn nand(&self, cause: Cause) -> u64 {
        self.nand_bytes[cause as usize]
    }

    /// Returns the bytes programmed, the sum over all causes.
    pub fn nand_bytes(&self) -> u64 {
        self.nand_bytes.iter().sum()
    }

    /// Returns the write amplification of the drive (WA2: bytes programmed per host byte), or
    /// `None` before the first host write.
    pub fn wa2(&self) -> Option<f64> {
        (self.host_bytes > 0).then(|| self.nand_bytes() as f64 / self.host_bytes as f64)
    }

    /// Returns the increase of the counters since `earlier`, an earlier value of them.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts {
            host_bytes: self.host_bytes - earlier.host_bytes,
            read_bytes: self.read_bytes - earlier.read_bytes,
            trimmed_bytes: self.trimmed_bytes - earlier.trimmed_bytes,
            flushes: self.flushes - earlier.flushes,
            erases: self.erases - earlier.erases,
            nand_bytes: std::array::from_fn(|cause| self.nand_bytes[cause] - earlier.nand_bytes[cause]),
        }
    }

    pub(super) fn program(&mut self, cause: Cause, bytes: u64) {
        self.nand_bytes[cause as usize] += bytes;
    }
}
