//! Tables of blocks: LevelDB's table format, written and read over a private seam of bytes.
//!
//! A backend says where a table's bytes go ([`ByteSink`]) and where they come from ([`ByteSource`]): a file
//! today, an extent of one or slots of a device later. Formats are `terrace_format`'s; spec: docs/format/table.md.
use crate::Result;
use std::ops::Range;
use terrace_format::block::Bytes;

mod buffers;
mod cache;
mod cursor;
mod cut;
mod filter;
mod identity;
mod index;
mod reader;
mod salvage;
mod sift;
mod span;
mod tail;
mod verify;
mod writer;

pub(crate) use buffers::Buffers;
pub(crate) use cache::BlockCache;
pub(crate) use cut::Cut;
pub(crate) use reader::Reader;
pub(crate) use salvage::Salvager;
pub(crate) use tail::read_pair_facts;
pub(crate) use writer::{Bounds, Writer};

/// Takes a table's bytes, in order.
pub(crate) trait ByteSink {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// For messages.
    fn name(&self) -> &str;
}

/// Gives a table's bytes, which never change. A range that is asked for lies within the table.
pub(crate) trait ByteSource: Send + Sync {
    /// The bytes of `range`: read, or shown where they are if the source is [`mapped`](ByteSource::mapped).
    fn read(&self, range: Range<u64>) -> Result<Bytes>;
    /// Reads `range` into `buffer`, which holds nothing else afterwards.
    fn read_into(&self, buffer: &mut Vec<u8>, range: Range<u64>) -> Result<()>;
    /// Says that `range` will be read soon. A hint, which may come to nothing.
    fn expect(&self, range: Range<u64>);
    /// Has the processor fetch what is mapped of `range`, which need not lie within the table, while it goes on. A hint.
    fn prefetch(&self, range: Range<u64>);
    /// Whether the bytes lie in memory already.
    fn mapped(&self) -> bool;
    /// Size in bytes.
    fn bytes(&self) -> u64;
    /// For messages.
    fn name(&self) -> &str;
}
