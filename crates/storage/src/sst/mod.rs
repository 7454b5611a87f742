//! Tables of blocks: LevelDB's table format, written and read over a private seam of bytes.
//!
//! A backend says where a table's bytes go ([`ByteSink`]) and where they come from ([`ByteSource`]): a file
//! today, an extent of one or slots of a device later. Formats are `terrace_format`'s; spec: docs/format/table.md.
use crate::Result;

mod cache;
mod cursor;
mod filter;
mod reader;
mod tail;
mod verify;
mod writer;

pub(crate) use cache::BlockCache;
pub(crate) use reader::Reader;
pub(crate) use writer::{Bounds, Writer};

/// Takes a table's bytes, in order.
pub(crate) trait ByteSink {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// For messages.
    fn name(&self) -> &str;
}

/// Gives a table's bytes, which never change.
pub(crate) trait ByteSource: Send + Sync {
    /// Fills `buf` from `offset`.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()>;
    /// Size in bytes.
    fn bytes(&self) -> u64;
    /// For messages.
    fn name(&self) -> &str;
}
