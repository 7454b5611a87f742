//! Segments of the value log: how long each is, and how much of it the tables of the live version keep alive.
use super::Version;
use std::collections::{BTreeMap, BTreeSet};
use terrace_format::{
    LogId,
    value_log::{HEADER_BYTES, MAGIC},
};
use terrace_storage::placement::{ObjectId, TableMeta};

/// One segment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// All of it.
    pub bytes: u64,
    /// What tables point to: the sum of their references.
    pub live: u64,
}

impl Segment {
    /// What nothing points to.
    pub fn garbage(&self) -> u64 {
        self.bytes.saturating_sub(self.live)
    }

    /// The same, where `hidden` bytes of what tables point to are garbage, too.
    pub fn but_hidden(self, hidden: u64) -> Segment {
        Segment { live: self.live.saturating_sub(hidden), ..self }
    }
}

/// Every segment that is known. Guarded by the control lock.
#[derive(Clone, Debug, Default)]
pub struct Segments(BTreeMap<ObjectId, Segment>);

impl Segments {
    /// Those that `version` points into, with their sizes as far as `bytes_of` knows them.
    pub fn of(version: &Version, bytes_of: impl Fn(ObjectId) -> Option<u64>) -> Segments {
        let mut segments = Segments::default();
        version.tables().for_each(|(_, table)| segments.add(&table.meta));
        for (object, segment) in &mut segments.0 {
            let bytes = bytes_of(*object).unwrap_or(segment.live);
            segment.bytes = bytes.saturating_sub(head_bytes(*object)).max(segment.live);
        }
        segments
    }

    /// A table points to what it refers to. A segment that is new with it has as many bytes.
    pub fn add(&mut self, table: &TableMeta) {
        for (object, bytes) in table.segments() {
            let segment = self.0.entry(object).or_default();
            segment.live = segment.live.saturating_add(bytes);
            segment.bytes = segment.bytes.max(segment.live);
        }
    }

    /// Tables are replaced by others. Returns the segments that nothing points into any more, with their bytes.
    pub fn replace<'a>(
        &mut self,
        gone: impl Iterator<Item = &'a TableMeta>,
        added: &[TableMeta],
    ) -> Vec<(ObjectId, u64)> {
        let mut touched = BTreeSet::new();
        for (object, bytes) in gone.flat_map(|table| table.segments()) {
            if let Some(segment) = self.0.get_mut(&object) {
                segment.live = segment.live.saturating_sub(bytes);
                touched.insert(object);
            }
        }
        added.iter().for_each(|table| self.add(table)); // last: what moves is not to be counted twice
        let dead = |object: ObjectId| self.0.get(&object).filter(|one| one.live == 0).map(|one| (object, one.bytes));
        touched.into_iter().filter_map(dead).collect()
    }

    /// `log` takes no more; it has `bytes`.
    pub fn log_ended(&mut self, log: LogId, bytes: u64) {
        let object = ObjectId::Wal(log);
        self.0.entry(object).or_default().bytes = bytes.saturating_sub(head_bytes(object));
    }

    /// It is no more.
    pub fn forget(&mut self, object: ObjectId) {
        self.0.remove(&object);
    }

    /// Those that some table points into, by kind and number. The others go by themselves, or have memtables that point there.
    pub fn pointed_into(&self) -> impl Iterator<Item = (ObjectId, Segment)> + '_ {
        self.0.iter().filter(|(_, segment)| segment.live > 0).map(|(object, segment)| (*object, *segment))
    }

    /// All of those as one.
    pub fn sum(&self) -> Segment {
        self.sum_but(&BTreeSet::new())
    }

    /// The same without those `spared`.
    pub fn sum_but(&self, spared: &BTreeSet<ObjectId>) -> Segment {
        self.pointed_into().filter(|(object, _)| !spared.contains(object)).fold(
            Segment::default(),
            |sum, (_, segment)| Segment { bytes: sum.bytes + segment.bytes, live: sum.live + segment.live },
        )
    }

    /// How much of `object` is alive.
    pub fn live(&self, object: ObjectId) -> u64 {
        self.0.get(&object).map_or(0, |segment| segment.live)
    }
}

/// What every segment begins with, and what comes with every collection: it counts as no garbage, lest collecting had no end. In a
/// log that is its head, and the header of one frame.
fn head_bytes(segment: ObjectId) -> u64 {
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
    fn live_is_the_sum_of_references() {
        let mut segments = Segments::default();
        segments.log_ended(LogId(1), 156);
        segments.log_ended(LogId(3), 106);
        let (a, b) = (table(&[(1, 60), (2, 7)]), table(&[(1, 30)]));
        segments.add(&a);
        segments.add(&b);
        assert_eq!(segments.live(ObjectId::Wal(LogId(1))), 90);
        assert_eq!(segments.sum(), Segment { bytes: 107, live: 97 });
        let log = |number| ObjectId::Wal(LogId(number));
        assert_eq!(segments.replace([&a].into_iter(), &[]), [(log(2), 7)], "nothing leads there");
        assert_eq!(
            segments.pointed_into().collect::<Vec<_>>(),
            [(ObjectId::Wal(LogId(1)), Segment { bytes: 100, live: 30 })]
        );
        assert_eq!(segments.replace([&b].into_iter(), std::slice::from_ref(&b)), [], "it has only moved");
        assert_eq!(segments.replace([&b].into_iter(), &[]), [(log(1), 100)]);
        assert_eq!(segments.sum(), Segment::default());
    }
}
