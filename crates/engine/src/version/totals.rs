//! Sums over the SSTables of a level.
use super::TableRef;
use std::sync::Arc;
use terrace_storage::placement::TableMeta;

/// Sums over some tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelTotals {
    /// Tables; in level 0 each is a run.
    pub tables: usize,
    /// Bytes of the tables.
    pub bytes: u64,
    /// Known entries of the tables.
    pub entries: u64,
    /// Bytes of the tables with an unknown number of entries.
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

    /// Returns the sum of both. Saturates: sizes in a manifest may be any number.
    pub fn plus(&self, other: &LevelTotals) -> LevelTotals {
        LevelTotals {
            tables: self.tables + other.tables,
            bytes: self.bytes.saturating_add(other.bytes),
            entries: self.entries.saturating_add(other.entries),
            uncounted_bytes: self.uncounted_bytes.saturating_add(other.uncounted_bytes),
        }
    }

    /// Returns the difference, at least 0 in each field.
    pub fn minus(&self, other: &LevelTotals) -> LevelTotals {
        LevelTotals {
            tables: self.tables.saturating_sub(other.tables),
            bytes: self.bytes.saturating_sub(other.bytes),
            entries: self.entries.saturating_sub(other.entries),
            uncounted_bytes: self.uncounted_bytes.saturating_sub(other.uncounted_bytes),
        }
    }
}
