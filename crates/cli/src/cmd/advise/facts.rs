//! The facts from which `advise` derives its advice: the size of the store, a sample of its
//! pairs, and its last session.
use super::session::Session;
use crate::{
    args::{Follow, Store},
    layout,
    table::size,
};
use anyhow::Result;
use serde_json::{Value, json};
use std::{io::Write, path::PathBuf};
use terrace::{Codec, Db, Options, ReadOptions, Statistics};
use terrace_format::compress::compress;

/// Number of places in the store from which pairs are sampled.
const PLACES: usize = 16;
/// Bytes of pairs that are sampled at each place.
const PLACE_BYTES: usize = 64 << 10;

/// The facts on which the rules decide.
pub struct Facts {
    pub path: PathBuf,
    pub options: Options,
    pub statistics: Statistics,
    pub pairs: Sample,
    pub session: Option<Session>,
}

/// A sample of the pairs of a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub pairs: u64,
    pub key_bytes: u64,
    pub value_bytes: u64,
    /// The compressed size of blocks of these pairs as a part of their size, by codec.
    pub ratios: Vec<(Codec, f64)>,
}

impl Sample {
    /// Returns the average size of a value in bytes.
    pub fn value_size(&self) -> u64 {
        self.value_bytes / self.pairs.max(1)
    }

    /// Returns the compressed size with `codec` as a part of the uncompressed size.
    pub fn ratio(&self, codec: Codec) -> f64 {
        self.ratios.iter().find(|(known, _)| *known == codec).map_or(1.0, |(_, ratio)| *ratio)
    }
}

impl Facts {
    pub fn of(store: &Store, follow: &Follow) -> Result<Facts> {
        let db = store.open_to_read(follow)?;
        Ok(Facts {
            path: store.path.clone(),
            options: store.options()?,
            statistics: db.statistics(),
            pairs: sample(&db)?,
            session: Session::last(&store.path),
        })
    }

    /// Returns the size of all SSTables and of the value log.
    pub fn bytes(&self) -> u64 {
        self.statistics.levels.iter().map(|level| level.bytes).sum::<u64>() + self.statistics.value_log.bytes
    }

    pub fn tables(&self) -> u64 {
        self.statistics.levels.iter().map(|level| level.tables).sum()
    }

    /// Writes the facts as text.
    pub fn write(&self, out: &mut dyn Write) -> Result<()> {
        let layout = layout::text_at(&self.path, self.statistics.layout);
        let (path, bytes, tables) = (self.path.display(), size(self.bytes()), self.tables());
        let plural = if tables == 1 { "" } else { "s" };
        writeln!(out, "store    {path}: {bytes} in {tables} SSTable{plural}; {layout}")?;
        let Sample { pairs, key_bytes, value_bytes, .. } = self.pairs;
        if let Some(keys) = key_bytes.checked_div(pairs) {
            writeln!(
                out,
                "pairs    keys of {keys} B and values of {} B on average, from a sample of {pairs}",
                value_bytes / pairs
            )?;
        }
        match &self.session {
            Some(session) => writeln!(
                out,
                "session  {:.0} s with preset {}: {:.0} lookups, {:.0} stalls, flushed {}, compacted {}",
                session.number("seconds"),
                session.text("preset").escape_debug(),
                session.number("lookups"),
                session.number("stalls"),
                size(session.number("flushes.bytes_written") as u64),
                size(session.number("compactions.bytes_written") as u64),
            )?,
            None => writeln!(
                out,
                "session  unknown: LOG has no session of at least a second; advice follows from the files alone"
            )?,
        }
        Ok(())
    }

    pub fn store_json(&self) -> Value {
        json!({
            "bytes": self.bytes(),
            "tables": self.tables(),
            "value_bytes_average": self.pairs.value_size(),
            "session": self.session.as_ref().map(|session| session.json().clone()),
        })
    }
}

/// Samples pairs at places spread over the SSTables.
fn sample(db: &Db) -> Result<Sample> {
    let mut tables = Vec::new();
    for name in db.cf_names() {
        let family = db.cf(&name)?;
        let starts = family.layout()?.into_iter().flat_map(|level| level.tables).map(|table| table.smallest);
        tables.extend(starts.map(|start| (family.clone(), start)));
    }
    let every = tables.len().div_ceil(PLACES).max(1);
    let (mut sample, mut blocks) = (Sample::default(), Vec::new());
    for (family, start) in tables.iter().step_by(every) {
        let mut cursor = family.cursor(ReadOptions::new());
        cursor.seek(start)?;
        let mut block = Vec::new();
        while cursor.valid() && block.len() < PLACE_BYTES {
            let (key, value) = (cursor.key(), cursor.value());
            sample.pairs += 1;
            sample.key_bytes += key.len() as u64;
            sample.value_bytes += value.len() as u64;
            block.extend_from_slice(key);
            block.extend_from_slice(&value[..value.len().min(PLACE_BYTES)]);
            cursor.next()?;
        }
        blocks.push(block);
    }
    sample.ratios = [Codec::Snappy, Codec::Lz4, Codec::Zstd].map(|codec| (codec, ratio(codec, &blocks))).to_vec();
    Ok(sample)
}

/// Returns the compressed size of `places` as a part of their size, in blocks of 4 KiB.
fn ratio(codec: Codec, places: &[Vec<u8>]) -> f64 {
    let (mut before, mut after, mut stored) = (0, 0, Vec::new());
    for block in places.iter().flat_map(|place| place.chunks(4 << 10)) {
        stored.clear();
        compress(codec, 1, block, &mut stored);
        before += block.len();
        after += stored.len();
    }
    if before == 0 { 1.0 } else { after as f64 / before as f64 }
}
