//! The value-log segments: the size of each segment, and the number of its bytes that the tables
//! of the live version reference.
use super::Version;
use std::collections::{BTreeMap, BTreeSet};
use terrace_format::{
    LogId,
    value_log::{HEADER_BYTES, MAGIC},
};
use terrace_storage::placement::{ObjectId, TableMeta};

/// The bytes of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// The bytes of all values in the segment.
    pub bytes: u64,
    /// The bytes of the values that tables reference.
    pub live: u64,
}

impl Segment {
    /// Returns the bytes that no table references.
    pub fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live)
    }

    /// Returns the segment with `hidden` of its live bytes counted as garbage: the bytes of values
    /// that only shadowed entries reference.
    pub fn with_shadowed(self, hidden: u64) -> Segment {
        Segment { live: self.live.saturating_sub(hidden), ..self }
    }
}

/// All known segments. The state lock guards them.
#[derive(Clone, Debug, Default)]
pub struct Segments(BTreeMap<ObjectId, Segment>);

impl Segments {
    /// Makes the list of the segments that `version` references, with the sizes that `bytes_of`
    /// returns.
    pub fn of(version: &Version, bytes_of: impl Fn(ObjectId) -> Option<u64>) -> Segments {
        let mut segments = Segments::default();
        version.all_tables().for_each(|(_, table)| segments.add(&table.meta));
        for (object, segment) in &mut segments.0 {
            let bytes = bytes_of(*object).unwrap_or(segment.live);
            segment.bytes = bytes.saturating_sub(header_bytes(*object)).max(segment.live);
        }
        segments
    }

    /// Adds the references of a table to the segments. If a segment is new in the list, its size is
    /// set to the bytes that the table references.
    pub fn add(&mut self, table: &TableMeta) {
        for (object, bytes) in table.segments() {
            let segment = self.0.entry(object).or_default();
            segment.live = segment.live.saturating_add(bytes);
            segment.bytes = segment.bytes.max(segment.live);
        }
    }

    /// Replaces the tables `removed` by the tables `added`. Returns the segments that no table
    /// references any more, with their bytes.
    pub fn replace<'a>(
        &mut self,
        removed: impl Iterator<Item = &'a TableMeta>,
        added: &[TableMeta],
    ) -> Vec<(ObjectId, u64)> {
        let mut touched = BTreeSet::new();
        for (object, bytes) in removed.flat_map(|table| table.segments()) {
            if let Some(segment) = self.0.get_mut(&object) {
                segment.live = segment.live.saturating_sub(bytes);
                touched.insert(object);
            }
        }
        // The added tables are counted after the removed ones are subtracted, so that a table that
        // moves to another level does not count twice.
        added.iter().for_each(|table| self.add(table));
        let unreferenced =
            |object: ObjectId| self.0.get(&object).filter(|one| one.live == 0).map(|one| (object, one.bytes));
        touched.into_iter().filter_map(unreferenced).collect()
    }

    /// Records that WAL `log` was sealed with a size of `bytes`.
    pub fn wal_sealed(&mut self, log: LogId, bytes: u64) {
        let object = ObjectId::Wal(log);
        self.0.entry(object).or_default().bytes = bytes.saturating_sub(header_bytes(object));
    }

    /// Removes the entry of a deleted segment.
    pub fn forget(&mut self, object: ObjectId) {
        self.0.remove(&object);
    }

    /// Returns the segments that at least one table references, ordered by kind and number. GC need
    /// not treat any other segment: memtables reference it, or it becomes obsolete without GC.
    pub fn referenced(&self) -> impl Iterator<Item = (ObjectId, Segment)> + '_ {
        self.0.iter().filter(|(_, segment)| segment.live > 0).map(|(object, segment)| (*object, *segment))
    }

    /// Returns the sums over all referenced segments.
    pub fn sum(&self) -> Segment {
        self.sum_except(&BTreeSet::new())
    }

    /// Returns the sums over all referenced segments except those in `spared`.
    pub fn sum_except(&self, spared: &BTreeSet<ObjectId>) -> Segment {
        self.referenced().filter(|(object, _)| !spared.contains(object)).fold(
            Segment::default(),
            |sum, (_, segment)| Segment {
                bytes: sum.bytes.saturating_add(segment.bytes),
                live: sum.live.saturating_add(segment.live),
            },
        )
    }

    /// Returns the live bytes of `object`.
    pub fn live(&self, object: ObjectId) -> u64 {
        self.0.get(&object).map_or(0, |segment| segment.live)
    }
}

/// Returns the bytes of a segment's header. They do not count as garbage. Otherwise GC would never
/// end, because it writes a header for each new segment. For a WAL these are the bytes of the
/// file's header and of the header of one frame (the form in which the WAL stores a batch).
fn header_bytes(segment: ObjectId) -> u64 {
    let frames = if matches!(segment, ObjectId::Segment(_)) { 0 } else { 2 };
    (MAGIC.len() + frames * HEADER_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::TableId;

    fn table(refs: &[(u64, u64)]) -> TableMeta {
        let refs = refs.iter().map(|(log, bytes)| (ObjectId::Wal(LogId(*log)), *bytes)).collect();
        TableMeta { refs, ..TableMeta::unbounded(TableId(1), 1) }
    }

    #[test]
    fn live_bytes_are_the_sum_of_references() {
        let mut segments = Segments::default();
        segments.wal_sealed(LogId(1), 156);
        segments.wal_sealed(LogId(3), 106);
        let (a, b) = (table(&[(1, 60), (2, 7)]), table(&[(1, 30)]));
        segments.add(&a);
        segments.add(&b);
        assert_eq!(segments.live(ObjectId::Wal(LogId(1))), 90);
        assert_eq!(segments.sum(), Segment { bytes: 107, live: 97 });
        let log = |number| ObjectId::Wal(LogId(number));
        assert_eq!(segments.replace([&a].into_iter(), &[]), [(log(2), 7)], "no reference is left");
        assert_eq!(
            segments.referenced().collect::<Vec<_>>(),
            [(ObjectId::Wal(LogId(1)), Segment { bytes: 100, live: 30 })]
        );
        assert_eq!(segments.replace([&b].into_iter(), std::slice::from_ref(&b)), [], "the table was moved");
        assert_eq!(segments.replace([&b].into_iter(), &[]), [(log(1), 100)]);
        assert_eq!(segments.sum(), Segment::default());
    }
}
