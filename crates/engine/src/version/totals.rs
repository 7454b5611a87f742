//! Sums over the SSTables of a level.
use super::TableRef;
use std::sync::Arc;
use terrace_storage::placement::TableMeta;

/// Sums over some tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTotals {
    /// The number of tables. In level 0 each table is a run.
    pub tables: usize,
    /// Bytes of the tables.
    pub bytes: u64,
    /// The entries of those tables whose number of entries is known.
    pub entries: u64,
    /// The bytes of those tables whose number of entries is unknown.
    pub uncounted_bytes: u64,
}

impl LevelTotals {
    /// Sums over `tables`.
    pub fn of<'a>(tables: impl IntoIterator<Item = &'a Arc<TableRef>>) -> LevelTotals {
        tables.into_iter().fold(LevelTotals::default(), |sum, table| {
            let TableMeta { bytes, entries, .. } = table.meta;
            let uncounted_bytes = if entries == 0 { bytes } else { 0 };
            sum.plus(&LevelTotals { tables: 1, bytes, entries, uncounted_bytes })
        })
    }

    /// Returns the sum of `self` and `other` in each field. Sums of bytes and entries saturate at
    /// the largest integer, because a damaged manifest may declare any size.
    pub fn plus(&self, other: &LevelTotals) -> LevelTotals {
        LevelTotals {
            tables: self.tables + other.tables,
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
            uncounted_bytes: self.uncounted_bytes.saturating_add(other.uncounted_bytes),
        }
    }

    /// Returns the difference `self` minus `other`, at least 0 in each field.
    pub fn minus(&self, other: &LevelTotals) -> LevelTotals {
        LevelTotals {
            tables: self.tables.saturating_sub(other.tables),
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
            uncounted_bytes: self.uncounted_bytes.saturating_sub(other.uncounted_bytes),
        }
    }
}
