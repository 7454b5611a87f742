//! Tables of blocks: LevelDB's table format, written and read over a private seam of bytes.
//!
//! A backend says where a table's bytes go ([`ByteSink`]) and where they come from ([`ByteSource`]): a file
//! today, an extent of one or slots of a device later. Formats are `terrace_format`'s; spec: docs/format/table.md.
mod buffers;
mod bytes;
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

pub(crate) use bytes::{ByteSink, ByteSource};
pub(crate) use cut::Cut;
pub(crate) use reader::Reader;
pub(crate) use salvage::Salvager;
pub(crate) use tail::read_pair_facts;
pub(crate) use writer::{Bounds, Writer};
