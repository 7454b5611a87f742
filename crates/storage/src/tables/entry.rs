//! Entries of tables in their stored form.
use terrace_format::TableId;

/// The present place of an entry. If the entry is in an older table, a backend may be able to
/// reuse its value without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The entry is in a memtable; no table has it yet.
    Memory,
    /// The entry is in this older table.
    Table(TableId),
}

/// A stored entry, at the position of a cursor.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// The internal key.
    pub key: &'a [u8],
    /// The stored form of the value: the bytes of the value, or the reference that the backend
    /// stores instead of them.
    pub stored: &'a [u8],
    /// The memtable or the table that has the entry.
    pub origin: Origin,
}
