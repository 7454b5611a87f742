//! What a drive counts: bytes that came from the host, and bytes programmed into flash, by cause.

use serde::{Deserialize, Serialize};

/// Why bytes are programmed into flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The host wrote them.
    Host,
    /// They were still valid where garbage was collected.
    Collection,
    /// They were moved off a block that is worn too little.
    Wear,
    /// They fill what had to be programmed and held nothing: the rest of a page that was written in part, of a unit that a
    /// flush did not wait for, of a superblock into which the next page did not fit.
    Padding,
}

/// Counts since the drive was new. All of them only grow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytes the host wrote, before compression.
    pub host_bytes: u64,
    /// Bytes the host read.
    pub read_bytes: u64,
    /// Bytes of pages that a trim let go.
    pub trimmed_bytes: u64,
    /// Flushes the host asked for.
    pub flushes: u64,
    /// Superblocks erased.
    pub erases: u64,
    nand_bytes: [u64; 4],
}

impl Cause {
    /// All causes, in the order of the reports.
    pub const ALL: [Cause; 4] = [Cause::Host, Cause::Collection, Cause::Wear, Cause::Padding];

    /// One word, as reports use it.
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
    /// Bytes programmed into flash for one cause.
    pub fn nand(&self, cause: Cause) -> u64 {
        self.nand_bytes[cause as usize]
    }

    /// Bytes programmed into flash: the sum over the causes.
    pub fn nand_bytes(&self) -> u64 {
        self.nand_bytes.iter().sum()
    }

    /// Bytes programmed for each byte that the host wrote; nothing while it has written nothing.
    pub fn wa2(&self) -> Option<f64> {
        (self.host_bytes > 0).then(|| self.nand_bytes() as f64 / self.host_bytes as f64)
    }

    /// What was added after `earlier`, which the same drive counted before.
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
