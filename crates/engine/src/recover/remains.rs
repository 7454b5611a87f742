//! The entries of a damaged store's files, merged: by key, newest version first.
//!
//! Tables whose keys lie behind one another are read one after the other, so that as few files are open at once as lie over
//! one another. What the survey has found unreadable is passed over again, without a word.
use super::survey::{Readable, SEQUENCES_END, Survey};
use crate::{Options, Result, mem::MemCursor};
use std::cmp::Ordering;
use terrace_format::{KeyOrder, LogId, key};
use terrace_storage::placement::{BlockCursor, EntryRef, Origin, Piece, Salvage, Storage};

/// All entries that count, in order.
pub struct Remains<'a> {
    survey: &'a Survey,
    order: KeyOrder,
    streams: Vec<Stream<'a>>,
    /// The stream whose entry was told last.
    told: Option<usize>,
}

impl<'a> Remains<'a> {
    /// Of what `survey` found in `from`.
    pub fn of(from: &'a dyn Storage, options: &Options, survey: &'a Survey) -> Result<Remains<'a>> {
        let order = options.order().clone();
        let mut streams = Vec::new();
        for (mem, named) in &survey.memtables {
            let mut cursor = mem.cursor();
            cursor.seek_first();
            streams.push(Stream { named: *named, source: Source::Mem(cursor, mem.log) });
        }
        for named in [true, false] {
            for tables in chains(&order, survey.tables.iter().filter(|table| table.named == named)) {
                let mut chain =
                    Chain { from, tables: tables.into_iter(), number: 0, salvage: None, block: BlockCursor::default() };
                chain.enter()?;
                streams.push(Stream { named, source: Source::Tables(Box::new(chain)) });
            }
        }
        Ok(Remains { survey, order, streams, told: None })
    }

    /// The next entry that counts; of two under one internal key, that of the younger file.
    pub fn next(&mut self) -> Result<Option<EntryRef<'_>>> {
        loop {
            if let Some(told) = self.told.take() {
                self.streams[told].step()?;
            }
            let standing = (0..self.streams.len()).filter(|at| self.streams[*at].key().is_some());
            let Some(first) = standing.min_by(|a, b| self.compare(*a, *b)) else { return Ok(None) };
            self.told = Some(first);
            let stream = &self.streams[first];
            let key = stream.key().unwrap_or_default();
            if key::apart(key).seq < SEQUENCES_END && self.survey.counts(stream.named, key) {
                break;
            }
        }
        let told = self.told.map(|at| &self.streams[at]);
        Ok(told
            .and_then(|stream| Some(EntryRef { key: stream.key()?, stored: stream.value(), origin: Origin::Memory })))
    }

    fn compare(&self, a: usize, b: usize) -> Ordering {
        let [a, b] = [a, b].map(|at| &self.streams[at]);
        let keys = self.order.internal(a.key().unwrap_or_default(), b.key().unwrap_or_default());
        keys.then_with(|| b.number().cmp(&a.number()))
    }
}

/// Tables in lists, in each of which they lie behind one another.
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

/// Entries in order, from one kind of file.
struct Stream<'a> {
    named: bool,
    source: Source<'a>,
}

enum Source<'a> {
    Mem(MemCursor, LogId),
    Tables(Box<Chain<'a>>),
}

impl Stream<'_> {
    fn key(&self) -> Option<&[u8]> {
        match &self.source {
            Source::Mem(cursor, _) => cursor.valid().then(|| cursor.key()),
            Source::Tables(chain) => chain.block.valid().then(|| chain.block.key()),
        }
    }

    fn value(&self) -> &[u8] {
        match &self.source {
            Source::Mem(cursor, _) => cursor.value(),
            Source::Tables(chain) => chain.block.value(),
        }
    }

    /// Of the file it is reading.
    fn number(&self) -> u64 {
        match &self.source {
            Source::Mem(_, log) => log.0,
            Source::Tables(chain) => chain.number,
        }
    }

    fn step(&mut self) -> Result<()> {
        match &mut self.source {
            Source::Mem(cursor, _) => cursor.next(),
            Source::Tables(chain) => return chain.step(),
        }
        Ok(())
    }
}

/// Tables that lie behind one another, read one after the other.
struct Chain<'a> {
    from: &'a dyn Storage,
    tables: std::vec::IntoIter<&'a Readable>,
    number: u64,
    salvage: Option<Box<dyn Salvage>>,
    block: BlockCursor,
}

impl Chain<'_> {
    fn step(&mut self) -> Result<()> {
        // Its block was walked to the end when it was verified.
        if self.block.next().is_err() || !self.block.valid() { self.enter() } else { Ok(()) }
    }

    /// To the first entry of the next block, of the next table if need be; nowhere behind the last.
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
