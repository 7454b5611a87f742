//! What a table holds that hides older entries, or is hidden itself. Whoever writes a table counts; of a table that was there when the
//! store was opened its facts and range tombstones say it, once it has been looked at. No manifest does: LevelDB must read it.
use super::TableRef;
use terrace_format::{Kind, RangeTombstones, SeqNo, TableProperties, key::Parsed, range_tombstones::Fragment};
use terrace_storage::placement::Storage;

/// Ranges that are told apart; those behind them count as one.
const RANGES_MAX: usize = 32;

/// What is counted of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Entries of any kind; 0 if nothing is known of them, as of LevelDB's tables.
    pub entries: u64,
    /// Of these, tombstones of one key.
    pub tombstones: u64,
    /// Of these, those behind a newer one of their key: some snapshot saw them when they were written.
    pub shadowed: u64,
    /// User keys that range tombstones delete, from the first up to but not including the second, in order.
    pub ranges: Vec<(Vec<u8>, Vec<u8>)>,
    /// The newest sequence.
    pub newest: SeqNo,
}

impl Contents {
    /// Of a table that says this of itself.
    pub fn told(facts: Option<TableProperties>, ranges: Option<&RangeTombstones>) -> Contents {
        let facts = facts.unwrap_or_default();
        let TableProperties { entries, deletes: tombstones, sequences: (_, newest), .. } = facts;
        let mut contents = Contents { entries, tombstones, newest, ..Contents::default() };
        ranges.iter().flat_map(|ranges| ranges.fragments()).for_each(|fragment| contents.add_range(fragment));
        contents
    }

    /// Counts an entry, the first of its user key or not.
    pub fn add(&mut self, entry: &Parsed<'_>, begins_key: bool) {
        self.entries += 1;
        self.tombstones += u64::from(entry.kind == Kind::Delete);
        self.shadowed += u64::from(!begins_key);
        self.newest = self.newest.max(entry.seq);
    }

    /// Counts all of `other`, which is of the same table.
    pub fn extend(&mut self, other: &Contents) {
        self.entries += other.entries;
        self.tombstones += other.tombstones;
        self.shadowed += other.shadowed;
        self.newest = self.newest.max(other.newest);
    }

    /// Counts range tombstones, behind those before.
    pub fn add_range(&mut self, fragment: &Fragment) {
        self.newest = self.newest.max(fragment.sequences.first().copied().unwrap_or_default());
        let full = self.ranges.len() >= RANGES_MAX;
        match self.ranges.last_mut() {
            Some((_, to)) if full || *to == fragment.from => to.clone_from(&fragment.to),
            _ => self.ranges.push((fragment.from.clone(), fragment.to.clone())),
        }
    }

    /// Whether it hides anything of older tables for certain, if they have it.
    pub fn has_tombstones(&self) -> bool {
        self.tombstones > 0 || !self.ranges.is_empty()
    }

    /// Entries and range tombstones that are gone once nothing older lies below, and no snapshot is older.
    pub fn garbage(&self) -> u64 {
        self.tombstones.max(self.shadowed) + self.ranges.len() as u64
    }
}

impl TableRef {
    /// Looks what it holds. I/O, unless that is known.
    pub fn look_for_contents(&self, storage: &dyn Storage) -> terrace_storage::Result<()> {
        if self.contents().is_none() {
            let table = self.open(storage)?;
            self.learn(Contents::told(table.facts()?, table.range_tombstones()?.as_deref()));
        }
        Ok(())
    }
}
