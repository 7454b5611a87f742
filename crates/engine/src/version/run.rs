//! A sorted run: SSTables in key order that do not overlap. Versions share the chunks of a run.
use super::{
    Contents, KeyRange, TableRef,
    chunks::{CHUNK_MAX, Chunk, replace},
    totals::LevelTotals,
};
use std::{
    cmp::Ordering,
    iter,
    ops::Range,
    slice,
    sync::{Arc, OnceLock},
};
use terrace_format::{KeyOrder, fences::Fences, key};

/// A sorted run: tables in key order that do not overlap.
pub type Run = Arc<Tables>;

/// Iterates over the tables of a run.
pub type TableIter<'a> = iter::FlatMap<
    slice::Iter<'a, Arc<TableChunk>>,
    slice::Iter<'a, Arc<TableRef>>,
    fn(&'a Arc<TableChunk>) -> slice::Iter<'a, Arc<TableRef>>,
>;

/// The tables of a run, with an index of the last key of each table, so that a search need not
/// visit the tables.
#[derive(Debug)]
pub struct Tables {
    chunks: Vec<Arc<TableChunk>>,
    /// For each chunk, the number of tables from the start of the run to the end of the chunk.
    ends: Vec<usize>,
    totals: LevelTotals,
}

/// Some neighbouring tables of a run.
#[derive(Debug)]
pub struct TableChunk {
    tables: Vec<Arc<TableRef>>,
    largest: Fences,
    totals: LevelTotals,
    /// Whether any table of the chunk refers to another object, such as a value-log segment.
    has_references: bool,
    /// The summary of the entry counts of the chunk's tables. It is set once the counts of all
    /// tables are known. After that it never changes, because the counts of a table do not change.
    garbage: OnceLock<ChunkGarbage>,
}

/// A summary of the entry counts of a chunk's tables.
#[derive(Debug, Default)]
pub struct ChunkGarbage {
    /// Positions of tables with much garbage, as [`Contents::has_much_garbage`] says.
    pub tables: Vec<usize>,
    /// The sum of the bytes of all tables with known entry counts, and the sum of their entries.
    pub counted: (u64, u64),
    /// The average size of an entry in bytes, in the table of the chunk with the smallest average.
    pub smallest_entries: Option<u64>,
}

impl Chunk for TableChunk {
    type Item = Arc<TableRef>;

    fn items(&self) -> &[Arc<TableRef>] {
        &self.tables
    }
}

impl TableChunk {
    fn new(order: &KeyOrder, tables: Vec<Arc<TableRef>>) -> TableChunk {
        let (mut keys, mut ends) = (Vec::new(), Vec::with_capacity(tables.len()));
        for table in &tables {
            keys.extend_from_slice(&table.meta.largest);
            ends.push(keys.len());
        }
        TableChunk {
            largest: Fences::new(order, keys, ends),
            totals: LevelTotals::of(&tables),
            has_references: tables.iter().any(|table| !table.meta.refs.is_empty()),
            garbage: OnceLock::new(),
            tables,
        }
    }

    /// Returns the tables of the chunk.
    pub fn tables(&self) -> &[Arc<TableRef>] {
        &self.tables
    }

    /// Returns whether any table of the chunk refers to another object, such as a value-log
    /// segment.
    pub fn has_references(&self) -> bool {
        self.has_references
    }

    /// Returns the summary of the entry counts of the chunk's tables; `None` as long as the counts
    /// of any table are unknown.
    pub fn garbage(&self) -> Option<&ChunkGarbage> {
        if self.garbage.get().is_none() {
            let mut garbage = ChunkGarbage::default();
            for (at, table) in self.tables.iter().enumerate() {
                let contents = table.contents()?;
                garbage.add(at, table.meta.bytes, contents);
            }
            let _ = self.garbage.set(garbage); // another thread has computed the same
        }
        self.garbage.get()
    }
}

impl ChunkGarbage {
    fn add(&mut self, at: usize, bytes: u64, contents: &Contents) {
        if contents.has_much_garbage() {
            self.tables.push(at);
        }
        let (sum, entries) = self.counted;
        self.counted = (sum.saturating_add(bytes), entries.saturating_add(contents.entries));
        if let Some(average) = bytes.checked_div(contents.entries) {
            self.smallest_entries = Some(self.smallest_entries.map_or(average, |least| least.min(average)));
        }
    }
}

impl Tables {
    /// Makes a run of tables in key order.
    pub fn new(order: &KeyOrder, tables: Vec<Arc<TableRef>>) -> Tables {
        let chunks = tables.chunks(CHUNK_MAX).map(|part| Arc::new(TableChunk::new(order, part.to_vec())));
        Tables::of(chunks.collect())
    }

    fn of(chunks: Vec<Arc<TableChunk>>) -> Tables {
        let mut count = 0;
        let ends = chunks.iter().map(|chunk| {
            count += chunk.tables.len();
            count
        });
        let ends = ends.collect();
        let totals = chunks.iter().fold(LevelTotals::default(), |sum, chunk| sum.plus(&chunk.totals));
        Tables { chunks, ends, totals }
    }

    /// Returns the run without the tables `removed` and with the tables `added`. A run is a list of
    /// chunks, each with the references to some tables. The call copies only the chunks in which a
    /// table changes; the old and the new run share all others.
    pub fn replaced(&self, order: &KeyOrder, removed: Vec<Arc<TableRef>>, added: Vec<Arc<TableRef>>) -> Tables {
        let compare = |a: &Arc<TableRef>, b: &Arc<TableRef>| position(order, a, b);
        Tables::of(replace(&self.chunks, removed, added, |tables| TableChunk::new(order, tables), compare))
    }

    /// Returns the sums over the tables.
    pub fn totals(&self) -> &LevelTotals {
        &self.totals
    }

    /// Returns the chunks of the run.
    pub fn chunks(&self) -> &[Arc<TableChunk>] {
        &self.chunks
    }

    /// Returns the number of tables.
    pub fn len(&self) -> usize {
        self.totals.tables
    }

    /// Returns whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the table at index `at`.
    pub fn get(&self, at: usize) -> Option<&Arc<TableRef>> {
        if let [only] = &self.chunks[..] {
            return only.tables.get(at);
        }
        let chunk = self.ends.partition_point(|end| *end <= at);
        self.chunks.get(chunk)?.tables.get(at - self.start(chunk))
    }

    /// Returns the first table.
    pub fn first(&self) -> Option<&Arc<TableRef>> {
        self.chunks.first()?.tables.first()
    }

    /// Returns the tables in key order.
    pub fn iter(&self) -> TableIter<'_> {
        self.chunks.iter().flat_map(|chunk| chunk.tables.iter())
    }

    /// Returns the tables with indices in `range`.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = &Arc<TableRef>> {
        let chunk = self.ends.partition_point(|end| *end <= range.start);
        let skipped = range.start - self.start(chunk).min(range.start);
        let tables = self.chunks[chunk.min(self.chunks.len())..].iter().flat_map(|chunk| &chunk.tables);
        tables.skip(skipped).take(range.len())
    }

    /// Returns the index of the first table of a chunk.
    fn start(&self, chunk: usize) -> usize {
        chunk.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Returns the number of tables at the front of the run for which `is_before` returns true.
    /// After the first table for which `is_before` returns false, it must return false for all
    /// tables.
    pub fn partition_point(&self, is_before: impl Fn(&Arc<TableRef>) -> bool) -> usize {
        let chunk = self.chunks.partition_point(|chunk| chunk.tables.last().is_some_and(&is_before));
        let tables = self.chunks.get(chunk).map_or(&[][..], |chunk| &chunk.tables);
        self.start(chunk) + tables.partition_point(&is_before)
    }

    /// Returns the chunk that contains the first table whose last key is at or after `internal`.
    fn chunk_of(&self, order: &KeyOrder, internal: &[u8]) -> usize {
        if self.chunks.len() < 2 {
            return 0; // the common case needs no comparison
        }
        let ends_before = |chunk: &Arc<TableChunk>| {
            chunk.tables.last().is_some_and(|last| order.internal(&last.meta.largest, internal).is_lt())
        };
        self.chunks.partition_point(ends_before)
    }

    /// Returns the index of the first table whose last key is at or after `internal`. If there is
    /// no such table, returns the number of tables.
    pub fn first_at_or_after(&self, order: &KeyOrder, internal: &[u8]) -> usize {
        let chunk = self.chunk_of(order, internal);
        self.start(chunk) + self.chunks.get(chunk).map_or(0, |chunk| chunk.largest.first_at_or_after(order, internal))
    }

    /// Returns the only table that may contain the internal key `lookup`.
    pub fn find(&self, order: &KeyOrder, lookup: &[u8]) -> Option<&Arc<TableRef>> {
        let chunk = self.chunks.get(self.chunk_of(order, lookup))?;
        let table = chunk.tables.get(chunk.largest.first_at_or_after(order, lookup));
        table.filter(|table| order.user(table.smallest(), key::user_key(lookup)).is_le())
    }

    /// Returns the indices of the tables that may contain keys of `range`.
    pub fn overlapping(&self, order: &KeyOrder, range: &KeyRange<'_>) -> Range<usize> {
        let ends_before =
            |table: &Arc<TableRef>| range.from.is_some_and(|from| order.user(table.largest(), from).is_lt());
        let starts = |table: &Arc<TableRef>| range.to.is_none_or(|to| order.user(table.smallest(), to).is_le());
        let from = self.partition_point(ends_before);
        from..self.partition_point(starts).max(from)
    }

    /// Returns the tables directly before and after `table`, which is a table of the run.
    pub fn neighbours(&self, order: &KeyOrder, table: &Arc<TableRef>) -> [Option<&Arc<TableRef>>; 2] {
        let at = self.partition_point(|other| position(order, other, table).is_lt());
        [at.checked_sub(1).and_then(|before| self.get(before)), self.get(at + 1)]
    }
}

/// The order of tables in a run: by first key. If two tables overlap, which never happens in a
/// valid version, the table number determines the order.
fn position(order: &KeyOrder, a: &TableRef, b: &TableRef) -> Ordering {
    order.internal(&a.meta.smallest, &b.meta.smallest).then(a.meta.id.cmp(&b.meta.id))
}

/// Neighbouring tables of a run.
#[derive(Clone, Debug)]
pub struct TableSlice<'a> {
    run: &'a Tables,
    range: Range<usize>,
}

impl<'a> TableSlice<'a> {
    /// Makes the slice of the tables of `run` with indices in `range`.
    pub fn new(run: &'a Tables, range: Range<usize>) -> TableSlice<'a> {
        TableSlice { run, range }
    }

    /// Returns whether there is no table.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl<'a> IntoIterator for TableSlice<'a> {
    type Item = &'a Arc<TableRef>;
    type IntoIter = Box<dyn Iterator<Item = &'a Arc<TableRef>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        if self.range.is_empty() { Box::new(iter::empty()) } else { Box::new(self.run.range(self.range)) }
    }
}
