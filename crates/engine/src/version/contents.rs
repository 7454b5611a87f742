//! Counts of the entries in an SSTable that shadow older entries or are shadowed themselves. The
//! writer of a table counts them. For a table of an earlier session they come from its properties
//! and range tombstones once it has been opened. The manifest does not have them, as LevelDB must
//! be able to read it.
use terrace_format::{Kind, RangeTombstones, SeqNo, TableProperties, key::Parsed, range_tombstones::Fragment};

/// Ranges kept per table. Further ranges extend the last one.
const RANGES_MAX: usize = 32;

/// Counts of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Entries of any kind; 0 if unknown, as for LevelDB's tables.
    pub entries: u64,
    /// Point tombstones among the entries.
    pub tombstones: u64,
    /// Entries after a newer one of their key: a snapshot saw them when the table was written.
    pub shadowed: u64,
    /// User keys that range tombstones delete, as ascending ranges (start included, end excluded).
    pub ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// The newest sequence number.
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

    /// Counts an entry; `begins_key` if it is the first of its user key.
    pub fn add(&mut self, entry: &Parsed<'_>, begins_key: bool) {
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == Kind::Delete);
        self.shadowed += u64::from(!begins_key);
        self.newest = self.newest.max(entry.seq);
    }

    /// Adds the counts of another part of the same table.
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

    /// Whether the table has a range tombstone, a shadowed entry, or a tombstone per eight entries:
    /// garbage that a compaction may pay off for.
    pub fn has_much_garbage(&self) -> bool {
        let dense = self.tombstones.saturating_mul(8) >= self.entries;
        self.tombstones > 0 && dense || self.shadowed > 0 || !self.ranges.is_empty()
    }

    /// Returns the number of entries and range tombstones that can be dropped once no older entry
    /// lies below and no snapshot is older.
    pub fn garbage(&self) -> u64 {
        self.tombstones.max(self.shadowed).saturating_add(self.ranges.len() as u64)
    }
}
