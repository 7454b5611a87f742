//! Encoders and decoders for LevelDB's on-disk formats and Terrace's additions to them.
//!
//! The crate does no I/O, starts no thread and reads no clock. All decoders accept untrusted
//! bytes. For invalid bytes a decoder returns [`Corrupt`] and does not panic. It allocates no more
//! memory than the size of the input justifies. Each module implements one page of `docs/format/`,
//! or a part of one.
//!
//! - Integers and keys: [`ids`], [`coding`], [`crc`], [`key`]; [`fences`] searches keys in memory.
//! - WAL and manifest: [`log_record`] frames records. A WAL record is a [`batch`], a manifest
//!   record an [`edit`].
//! - SSTables: [`block`] stores entries, [`compress`] and [`footer`] seal and locate blocks, and
//!   [`search`] finds blocks in damaged files. [`filter`], [`properties`] and [`range_tombstones`]
//!   are meta blocks. A [`bundle`] is a file of several SSTables.
//! - Separated values: [`value_log`] has segment frames, and the value pointers that SSTables
//!   store.
//! - The directory: file [`names`], a [`pair`] in its own file, the format file
//!   ([`format_file`]) and the [`layout`] that it records.
//! - A raw device: [`raw`] has the superblock, the slot journal and WAL pages.
#![forbid(unsafe_code)]
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod batch;
pub mod block;
pub mod bundle;
pub mod coding;
pub mod compress;
pub mod crc;
pub mod edit;
pub mod fences;
pub mod filter;
pub mod footer;
pub mod format_file;
pub mod ids;
pub mod key;
pub mod layout;
pub mod log_record;
pub mod names;
pub mod pair;
pub mod properties;
pub mod range_tombstones;
pub mod raw;
pub mod search;
pub mod value_log;

pub use batch::{Batch, Op};
pub use bundle::Within;
pub use compress::Codec;
pub use edit::{AddedTable, Edit, Referred};
pub use format_file::FormatFile;
pub use ids::{FamilyId, LEVELS, LogId, SegmentId, SeqNo, TableId};
pub use key::{Comparator, KeyOrder, Kind};
pub use layout::{Layout, Medium, TableForm, Values};
pub use names::FileName;
pub use properties::TableProperties;
pub use range_tombstones::RangeTombstones;

/// Describes bytes that violate their format. `offset` is relative to the start of the decoded
/// bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what} at byte {offset}: {detail}")]
pub struct Corrupt {
    /// The structure that was being decoded.
    pub what: &'static str,
    /// Byte offset of the violation.
    pub offset: u64,
    /// Description of the violation.
    pub detail: String,
}

impl Corrupt {
    /// Makes an error: the structure named `what` is invalid at byte `offset`.
    pub fn new(what: &'static str, offset: u64, detail: impl Into<String>) -> Corrupt {
        Corrupt { what, offset, detail: detail.into() }
    }
}
