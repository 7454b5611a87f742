//! Searches a store for writes after a sequence number. A transaction uses this search to find
//! conflicts.
use super::view::TreeView;
use crate::{Result, version::KeyRange};
use terrace_format::{KeyOrder, RangeTombstones, SeqNo, key};
use terrace_storage::placement::{Storage, TableReadOptions};

/// The sequence number with which a lookup finds the newest entry of a key. It is above every
/// assigned sequence number, but below [`SeqNo::MAX`]. The reason: if a table ends with a range
/// tombstone, its largest key has the number `SeqNo::MAX`, and a lookup of that user key must
/// reach the next table.
const NEWEST: SeqNo = SeqNo(SeqNo::MAX.0 - 1);
const HOW: TableReadOptions = TableReadOptions { verify: true, fill_cache: true };

/// Answers whether a key or a range of keys of one column family was written after `since`.
pub struct Changes<'a> {
    /// The storage that opens the SSTables.
    pub storage: &'a dyn Storage,
    /// Order of user keys.
    pub order: &'a KeyOrder,
    /// Whether SSTables may have range tombstones.
    pub range_tombstones: bool,
    /// The memtables and SSTables to search.
    pub tree: TreeView<'a>,
    /// The last sequence number that does not count: only later writes are found.
    pub since: SeqNo,
    /// Whether SSTables may have writes after `since`. If not, only memtables are searched, so that
    /// there is no I/O.
    pub tables: bool,
}

/// A range of user keys. `None` means no bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedRange {
    /// The first key.
    pub from: Option<Vec<u8>>,
    /// The end of the range.
    pub to: Option<Vec<u8>>,
    /// Whether the range includes the key `to`.
    pub includes_to: bool,
}

impl WatchedRange {
    /// Returns whether the range includes `user`.
    pub fn includes(&self, order: &KeyOrder, user: &[u8]) -> bool {
        self.from.as_ref().is_none_or(|from| order.user(user, from).is_ge()) && !self.ends_before(order, user)
    }

    /// Returns whether the range ends before `user`.
    fn ends_before(&self, order: &KeyOrder, user: &[u8]) -> bool {
        self.to.as_ref().is_some_and(|to| match order.user(user, to) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => !self.includes_to,
            std::cmp::Ordering::Greater => true,
        })
    }

    /// Returns whether the range and the keys from `from` to `to` (excluded) have a key in common.
    pub fn overlaps(&self, order: &KeyOrder, from: &[u8], to: &[u8]) -> bool {
        !self.ends_before(order, from) && self.from.as_ref().is_none_or(|own| order.user(own, to).is_lt())
    }
}

impl Changes<'_> {
    /// Returns whether `user` was written after `since`.
    pub fn has_key(&self, user: &[u8]) -> Result<bool> {
        let lookup = key::lookup(user, NEWEST);
        for mem in self.tree.memtables().filter(|mem| mem.last_sequence() > self.since) {
            let newest = mem.get(&lookup).map_or(SeqNo::ZERO, |(seq, ..)| seq);
            if newest.max(mem.newest_range_tombstone(user, SeqNo::MAX)) > self.since {
                return Ok(true);
            }
        }
        if !self.tables {
            return Ok(false);
        }
        for (_, run) in self.tree.version.runs() {
            let Some(table) = run.find(self.order, &lookup) else { continue };
            let table = table.open(self.storage)?;
            let tombstones = if self.range_tombstones { table.range_tombstones()? } else { None };
            let deleted = tombstones.map_or(SeqNo::ZERO, |found| found.newest(self.order, user, SeqNo::MAX));
            // The newest run that contains the key has the key's newest entry, so older runs need
            // no search.
            match table.get(&lookup, HOW)? {
                Some(found) => return Ok(found.seq.max(deleted) > self.since),
                None if deleted > self.since => return Ok(true),
                None => {}
            }
        }
        Ok(false)
    }

    /// Returns whether a key of `range` was written after `since`.
    pub fn has_any(&self, range: &WatchedRange) -> Result<bool> {
        let start = range.from.as_ref().map(|from| key::lookup(from, NEWEST));
        for mem in self.tree.memtables().filter(|mem| mem.last_sequence() > self.since) {
            if mem.has_range_tombstones() && self.deletes_any(&mem.range_tombstones(), range) {
                return Ok(true);
            }
            let mut cursor = mem.cursor();
            match &start {
                Some(start) => cursor.seek(start),
                None => cursor.seek_first(),
            }
            while cursor.valid() {
                let entry = key::apart(cursor.key());
                if !range.includes(self.order, entry.user) {
                    break;
                }
                if entry.seq > self.since {
                    return Ok(true);
                }
                cursor.next();
            }
        }
        if self.tables { self.tables_have_any(range, start.as_deref()) } else { Ok(false) }
    }

    fn tables_have_any(&self, range: &WatchedRange, start: Option<&[u8]>) -> Result<bool> {
        let keys = KeyRange { from: range.from.as_deref(), to: range.to.as_deref() };
        for (_, run) in self.tree.version.runs() {
            for table in run.range(run.overlapping(self.order, &keys)) {
                let table = table.open(self.storage)?;
                if self.range_tombstones
                    && let Some(found) = table.range_tombstones()?
                    && self.deletes_any(&found, range)
                {
                    return Ok(true);
                }
                let mut cursor = table.cursor(HOW)?;
                match start {
                    Some(start) => cursor.seek(start)?,
                    None => cursor.seek_first()?,
                }
                while cursor.valid() {
                    let entry = key::apart(cursor.key());
                    if !range.includes(self.order, entry.user) {
                        break;
                    }
                    if entry.seq > self.since {
                        return Ok(true);
                    }
                    cursor.next()?;
                }
            }
        }
        Ok(false)
    }

    /// Returns whether a range tombstone after `since` shadows keys of `range`.
    fn deletes_any(&self, tombstones: &RangeTombstones, range: &WatchedRange) -> bool {
        let is_new = |sequences: &[SeqNo]| sequences.iter().any(|seq| *seq > self.since);
        let mut fragments = tombstones.fragments().iter();
        fragments.any(|one| is_new(&one.sequences) && range.overlaps(self.order, &one.from, &one.to))
    }
}
