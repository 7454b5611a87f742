//! One stored entry of a table.
use terrace_format::TableId;

/// Where an entry comes from, for backends that can take it over without copying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A memtable: the entry is new to tables.
    Memory,
    /// An older table.
    Table(TableId),
}

/// One stored entry, as a cursor stands on it.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<'a> {
    /// Internal key.
    pub key: &'a [u8],
    /// The value as stored there: the bytes themselves, or whatever the backend keeps in their place.
    pub stored: &'a [u8],
    /// Who stores it.
    pub origin: Origin,
}
