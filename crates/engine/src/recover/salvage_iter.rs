//! Merges the readable entries of a damaged store by internal key, newest version first.
//!
//! The sources are memtables with entries of the WALs, sorted runs to which WAL entries were
//! spilled, and SSTables of the damaged store. SSTables that do not overlap form a chain and are
//! read one after the other. The number of open files is therefore the largest number of SSTables
//! that overlap at one key. The iterator skips damage without a report, because the salvage scan
//! has reported it already.
use super::{
    salvage_scan::{Readable, SEQUENCES_END, SalvageScan},
    spill::{Run, Spilled},
};
use crate::{Options, Result, mem::MemCursor};
use std::cmp::Ordering;
use terrace_format::{KeyOrder, LogId, key};
use terrace_storage::placement::{BlockCursor, EntryRef, Origin, Piece, Salvage, Storage};

/// Iterates in order over all entries that the repair uses.
pub struct SalvageIter<'a> {
    salvage_scan: &'a SalvageScan,
    order: KeyOrder,
    streams: Vec<Stream<'a>>,
    /// Index of the stream that has the current entry.
    current: Option<usize>,
}

impl<'a> SalvageIter<'a> {
    /// Makes an iterator before the first entry that the salvage scan `survey` found in `from`.
    /// `spilled` has the WAL entries that did not fit into memory.
    pub fn new(
        from: &'a dyn Storage,
        options: &Options,
        salvage_scan: &'a SalvageScan,
        spilled: &'a Spilled<'a>,
    ) -> Result<SalvageIter<'a>> {
        let order = options.order().clone();
        let mut streams = Vec::new();
        for (mem, named) in &salvage_scan.memtables {
            let mut cursor = mem.cursor();
            cursor.seek_first();
            streams.push(Stream { named: *named, source: Source::Mem(cursor, mem.log) });
        }
        for (run, named) in spilled.runs()? {
            streams.push(Stream { named, source: Source::Spilled(Box::new(run)) });
        }
        for named in [true, false] {
            for tables in chains(&order, salvage_scan.tables.iter().filter(|table| table.named == named)) {
                let mut chain =
                    Chain { from, tables: tables.into_iter(), number: 0, salvage: None, block: BlockCursor::default() };
                chain.enter()?;
                streams.push(Stream { named, source: Source::Tables(Box::new(chain)) });
            }
        }
        Ok(SalvageIter { salvage_scan, order, streams, current: None })
    }

    /// Returns the next entry that the repair uses. If two entries have the same internal key, the
    /// entry of the younger file is returned first.
    pub fn next(&mut self) -> Result<Option<EntryRef<'_>>> {
        loop {
            if let Some(current) = self.current.take() {
                self.streams[current].step()?;
            }
            let valid = (0..self.streams.len()).filter(|at| self.streams[*at].key().is_some());
            let Some(first) = valid.min_by(|a, b| self.compare(*a, *b)) else { return Ok(None) };
            self.current = Some(first);
            let stream = &self.streams[first];
            let key = stream.key().unwrap_or_default();
            if key::apart(key).seq < SEQUENCES_END && self.salvage_scan.counts(stream.named, key) {
                break;
            }
        }
        let current = self.current.map(|at| &self.streams[at]);
        Ok(current
            .and_then(|stream| Some(EntryRef { key: stream.key()?, stored: stream.value(), origin: Origin::Memory })))
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let [first, second] = [a, b].map(|at| &self.streams[at]);
        let keys = self.order.internal(first.key().unwrap_or_default(), second.key().unwrap_or_default());
        // The same WAL may be in two sources. Of two sources of one WAL, the one that was read
        // later is later in `streams` and has priority.
        keys.then_with(|| (second.number(), b).cmp(&(first.number(), a)))
    }
}

/// Divides tables into chains. Within a chain no two tables overlap.
fn chains<'s>(order: &KeyOrder, tables: impl Iterator<Item = &'s Readable>) -> Vec<Vec<&'s Readable>> {
    let mut tables: Vec<&Readable> = tables.collect();
    tables.sort_by(|a, b| order.internal(&a.bounds.0, &b.bounds.0));
    let mut chains: Vec<Vec<&Readable>> = Vec::new();
    for table in tables {
        let before = |chain: &&mut Vec<&Readable>| {
            chain.last().is_some_and(|last| order.internal(&last.bounds.1, &table.bounds.0).is_lt())
        };
        match chains.iter_mut().find(before) {
            Some(chain) => chain.push(table),
            None => chains.push(vec![table]),
        }
    }
    chains
}

/// The entries of one source, in order.
struct Stream<'a> {
    named: bool,
    source: Source<'a>,
}

enum Source<'a> {
    Mem(MemCursor, LogId),
    Spilled(Box<Run<'a>>),
    Tables(Box<Chain<'a>>),
}

impl Stream<'_> {
    fn key(&self) -> Option<&[u8]> {
        match &self.source {
            Source::Mem(cursor, _) => cursor.valid().then(|| cursor.key()),
            Source::Spilled(run) => run.key(),
            Source::Tables(chain) => chain.block.valid().then(|| chain.block.key()),
        }
    }

    fn value(&self) -> &[u8] {
        match &self.source {
            Source::Mem(cursor, _) => cursor.value(),
            Source::Spilled(run) => run.value(),
            Source::Tables(chain) => chain.block.value(),
        }
    }

    /// Returns the number of the file that the stream reads; for a spilled run the number of the
    /// youngest WAL in the run.
    fn number(&self) -> u64 {
        match &self.source {
            Source::Mem(_, log) => log.0,
            Source::Spilled(run) => run.log.0,
            Source::Tables(chain) => chain.number,
        }
    }

    fn step(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Mem(cursor, _) => cursor.next(),
            Source::Spilled(run) => return run.step(),
            Source::Tables(chain) => return chain.step(),
        }
        Ok(())
    }
}

/// Tables that do not overlap, read one after the other.
struct Chain<'a> {
    from: &'a dyn Storage,
    tables: std::vec::IntoIter<&'a Readable>,
    number: u64,
    salvage: Option<Box<dyn Salvage>>,
    block: BlockCursor,
}

impl Chain<'_> {
    fn step(&mut self) -> Result<()> {
        // The salvage scan has verified this block from start to end, so an error here cannot hide
        // entries.
        if self.block.next().is_err() || !self.block.valid() { self.enter() } else { Ok(()) }
    }

    /// Moves the chain to the first entry of the next readable block, if necessary in the next
    /// table. After the last block the chain is at no entry.
    fn enter(&mut self) -> Result<()> {
        self.block = BlockCursor::default();
        loop {
            match self.salvage.as_mut().map(|salvage| salvage.next()) {
                Some(Piece::Block(block)) => {
                    self.block = block;
                    return Ok(());
                }
                Some(Piece::Lost(_)) => {}
                Some(Piece::End) | None => {
                    let Some(table) = self.tables.next() else { return Ok(()) };
                    self.number = table.meta.id.0;
                    self.salvage = Some(self.from.salvage(&table.meta)?);
                }
            }
        }
    }
}
