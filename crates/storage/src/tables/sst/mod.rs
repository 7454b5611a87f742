//! SSTables in LevelDB's format: writer, reader, cursors, salvage.
//!
//! A backend implements [`ByteSink`] and [`ByteSource`], through which the bytes of a table are
//! written and read. The formats are those of `terrace_format`; see docs/format/table.md.
mod block_states;
mod buffers;
mod bytes;
mod cursor;
mod cut;
mod filter;
mod identity;
mod index;
mod mapped;
mod reader;
mod salvage;
mod sift;
mod span;
mod stored_block;
mod tail;
mod verify;
mod writer;

pub(crate) use bytes::{ByteSink, ByteSource};
pub(crate) use cut::Cut;
pub(crate) use reader::Reader;
pub(crate) use salvage::SstSalvager;
pub(crate) use tail::read_pair_properties;
pub(crate) use writer::{Bounds, Writer};
