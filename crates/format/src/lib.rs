//! What bytes mean: pure encode and decode of LevelDB's formats and of our additions.
//!
//! No I/O, no threads, no clock. Every decoder takes untrusted bytes: it returns [`Corrupt`] rather than
//! panic, and allocates nothing that the input does not back. Each module is one page of `docs/format/`, or a part of one.
//!
//! | layer | modules |
//! |---|---|
//! | numbers and strings | [`ids`], [`coding`], [`crc`], [`key`]; [`fences`] searches keys in memory |
//! | logs and manifests | [`log_record`] frames records; a [`batch`] is a log's record, an [`edit`] a manifest's |
//! | tables | [`block`] holds entries, [`compress`] and [`footer`] seal and find blocks, [`search`] finds them in damage, [`filter`], [`facts`] and [`range_tombstones`] sit beside them; a [`bundle`] holds several tables |
//! | values apart from tables | [`value_log`] frames batches, and says what tables hold instead of values |
//! | the directory | [`names`] of files, a [`pair`] in a file of its own, the [`marker`] of stores that only we can read, the [`shape`] that it remembers |
//! | a device without files | [`raw`]: its superblock, its slot journal, the pages of its logs |
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
pub use ids::{LEVELS, LogId, SegmentId, SeqNo, TableId};
pub use key::{Comparator, KeyOrder, Kind};
pub use layout::{Layout, Medium, TableForm, Values};
pub use names::FileName;
pub use properties::TableProperties;
pub use range_tombstones::RangeTombstones;

/// Bytes that do not mean what they should. `offset` counts from the start of what was decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt {what} at byte {offset}: {detail}")]
pub struct Corrupt {
    /// The thing that was being decoded.
    pub what: &'static str,
    /// Where, from the start of the decoded bytes.
    pub offset: u64,
    /// What is wrong with it.
    pub detail: String,
}

impl Corrupt {
    /// Bytes at `offset` of a `what` that cannot be.
    pub fn new(what: &'static str, offset: u64, detail: impl Into<String>) -> Corrupt {
        Corrupt { what, offset, detail: detail.into() }
    }
}
