//! Stored entries of tables.
use terrace_format::TableId;

/// The origin of an entry, for backends that can take it over without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A memtable: no table has the entry yet.
    Memory,
    /// An older table.
    Table(TableId),
}

/// One stored entry at the position of a cursor.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// The internal key.
    pub key: &'a [u8],
    /// The stored value: the bytes themselves, or the reference that the backend stores instead.
    pub stored: &'a [u8],
    /// The memtable or the table that has it.
    pub origin: Origin,
}
