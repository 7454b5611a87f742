//! SSTables: how they are named, written, read and salvaged, whatever files contain them.
mod cursor;
mod entry;
mod object;
mod sink;
pub(crate) mod sst;
mod table;
mod table_file;
mod table_writer;

pub use cursor::{Blocks, Cursor, Values, WholeBlock};
pub use entry::{EntryRef, Origin};
pub use object::{Listed, ObjectId};
pub use sink::{Hint, Lifetime, TableSink};
pub use table::{Found, Loss, Piece, Salvage, Table, TableMeta, TableReadOptions};
pub use table_file::{Adopted, TableFile};
pub use table_writer::{FinishedTable, TableFileWriter};
pub(crate) use terrace_format::{TableProperties, block::Bytes};
