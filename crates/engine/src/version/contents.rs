//! The entry counts of an SSTable: how many entries shadow older entries, and how many are
//! shadowed themselves. The job that writes a table counts its entries. For a table that was
//! written before the store was opened, the counts come from the table's properties and range
//! tombstones, once the table has been opened. The manifest does not have the counts, because
//! LevelDB must be able to read the manifest.
use terrace_format::{Kind, RangeTombstones, SeqNo, TableProperties, key::Parsed, range_tombstones::Fragment};

/// Maximum number of deleted ranges that the counts store per table. Further ranges extend the
/// last one.
const RANGES_MAX: usize = 32;

/// The entry counts of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Number of entries of any kind; 0 if unknown, as for tables that LevelDB has written.
    pub entries: u64,
    /// Number of point tombstones among the entries.
    pub tombstones: u64,
    /// Number of entries that a newer entry of their key shadows. The table contains them because a
    /// snapshot saw them when the table was written.
    pub shadowed: u64,
    /// The ranges of user keys that range tombstones delete, ascending (start included, end
    /// excluded).
    pub ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// The newest sequence number in the table.
    pub newest: SeqNo,
}

impl Contents {
    /// Makes the counts from a table's own properties and range tombstones.
    pub fn from_properties(properties: Option<TableProperties>, ranges: Option<&RangeTombstones>) -> Contents {
        let properties = properties.unwrap_or_default();
        let TableProperties { entries, deletes: tombstones, sequences: (_, newest), .. } = properties;
        let mut contents = Contents { entries, tombstones, newest, ..Contents::default() };
        ranges.iter().flat_map(|ranges| ranges.fragments()).for_each(|fragment| contents.add_range(fragment));
        contents
    }

    /// Counts an entry. `begins_key` is whether it is the first entry of its user key.
    pub fn add(&mut self, entry: &Parsed<'_>, begins_key: bool) {
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == Kind::Delete);
        self.shadowed += u64::from(!begins_key);
        self.newest = self.newest.max(entry.seq);
    }

    /// Adds the counts of another part of the same table, whose keys follow.
    pub fn extend(&mut self, other: &Contents) {
        self.entries = self.entries.saturating_add(other.entries);
        self.tombstones = self.tombstones.saturating_add(other.tombstones);
        self.shadowed = self.shadowed.saturating_add(other.shadowed);
        self.newest = self.newest.max(other.newest);
    }

    /// Adds a range tombstone, which starts at or after the end of the previous one.
    pub fn add_range(&mut self, fragment: &Fragment) {
        self.newest = self.newest.max(fragment.sequences.first().copied().unwrap_or_default());
        let full = self.ranges.len() >= RANGES_MAX;
        match self.ranges.last_mut() {
            Some((_, to)) if full || *to == fragment.from => to.clone_from(&fragment.to),
            _ => self.ranges.push((fragment.from.clone(), fragment.to.clone())),
        }
    }

    /// Returns whether the table has a range tombstone, a shadowed entry, or at least one tombstone
    /// per eight entries. If so, a compaction that removes garbage may be worth its cost.
    pub fn has_much_garbage(&self) -> bool {
        let dense = self.tombstones.saturating_mul(8) >= self.entries;
        self.tombstones > 0 && dense || self.shadowed > 0 || !self.ranges.is_empty()
    }

    /// Returns the number of entries and range tombstones that a rewrite can drop if no deeper
    /// level has older entries of the table's keys, and no snapshot is older than the table.
    pub fn garbage(&self) -> u64 {
        self.tombstones.max(self.shadowed).saturating_add(self.ranges.len() as u64)
    }
}
