//! Writes one table: entries in, LevelDB's table format out, as a stream.
//!
//! ```text
//! data block*  filter  facts  range deletes  metaindex block  index block  footer
//! ```
//! In memory are one block, the index and what the filter needs. Without our facts block, and with LevelDB's
//! kind of filter, the bytes are those that LevelDB writes.
use super::{ByteSink, Cut, filter::FilterMaker};
use crate::{Error, Result, StorageConfig, tables::WholeBlock};
use std::cmp::Ordering;
use terrace_format::{
    Corrupt, KeyOrder, Kind, RangeTombstones, SeqNo, TableProperties,
    block::{BlockBuilder, common_prefix},
    compress::{Codec, compress},
    crc,
    footer::{BLOCK_TRAILER_BYTES, Footer, Handle},
    key, properties,
    range_tombstones::{Fragment, META_NAME},
};

/// Larger blocks are stored raw; they are written from where they lie.
const COMPRESSED_BYTES_MAX: usize = 1 << 30;
/// Index entries begin before this offset, as 32 bits say where. Only keys of gigabytes come near it.
const INDEX_BYTES_MAX: usize = u32::MAX as usize;
/// A buffer that grew past this is given back rather than kept for the next block.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// First and last internal key of a table; see [`TableMeta`](crate::placement::TableMeta).
pub(crate) struct Bounds {
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
}

/// A table being written.
pub(crate) struct Writer<S> {
    blocks: BlockStream<S>,
    order: KeyOrder,
    block_size: usize,
    block_restart_interval: usize,
    data: BlockBuilder,
    index: BlockBuilder,
    filter: FilterMaker,
    facts: TableProperties,
    range_tombstones: RangeTombstones,
    /// Meta blocks of the caller's, by their names.
    metas: Vec<(&'static str, Vec<u8>)>,
    smallest: Vec<u8>,
    /// Of the blocks that ended.
    cut: Cut,
    /// The block that ended with the last key. Its index entry waits for the next key, to be no longer than it must.
    unindexed: Option<Handle>,
}

impl<S: ByteSink> Writer<S> {
    /// A table whose bytes go to `sink`.
    pub fn new(sink: S, setup: &StorageConfig) -> Writer<S> {
        Writer {
            blocks: BlockStream {
                sink,
                bytes: 0,
                codec: setup.codec,
                zstd_level: setup.zstd_level,
                scratch: Vec::new(),
            },
            order: setup.order.clone(),
            block_size: setup.block_size,
            block_restart_interval: setup.block_restart_interval,
            data: BlockBuilder::new(setup.block_restart_interval),
            index: BlockBuilder::new(1),
            filter: FilterMaker::new(setup),
            facts: TableProperties::default(),
            range_tombstones: RangeTombstones::default(),
            metas: Vec::new(),
            smallest: Vec::new(),
            cut: Cut::default(),
            unindexed: None,
        }
    }

    /// Bytes written so far, without the block that is being filled.
    pub fn bytes(&self) -> u64 {
        self.blocks.bytes
    }

    /// Adds an entry. An internal key that is none, or not behind the last one, is an error: it comes from damage
    /// that must not be given a fresh checksum.
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let shared = self.note(internal_key, value)?;
        self.data.add_sharing(shared, internal_key, value);
        if self.data.byte_len() >= self.block_size { self.end_block() } else { Ok(()) }
    }

    /// Takes all notes of the next entry but for its block; how many bytes of its key the last one begins with.
    #[inline]
    fn note(&mut self, internal_key: &[u8], value: &[u8]) -> Result<usize> {
        let parsed = key::parse(internal_key).map_err(|found| self.corrupt(found))?;
        let last = self.data.last_key();
        let shared = common_prefix(last, internal_key);
        if self.facts.entries == 0 {
            self.smallest.extend_from_slice(internal_key);
        } else if self.order.internal_past(last, internal_key, shared) != Ordering::Less {
            return Err(self.corrupt(Corrupt::new("table", 0, "an entry does not follow the one before it")));
        }
        if let Some(handle) = self.unindexed.take() {
            let mut listed = last.to_vec();
            self.order.shorten_between(&mut listed, internal_key);
            self.list_block(handle, &listed)?;
        }
        self.filter.add(parsed.user);
        count(&mut self.facts, parsed.seq, parsed.kind, internal_key, value);
        Ok(shared)
    }

    /// What it was cut into, if the block that is being filled ended here.
    pub fn cut(&self) -> Cut {
        let mut cut = self.cut;
        if !self.data.is_empty() {
            cut.add(self.data.byte_len());
        }
        cut
    }

    /// Adds a block as it is stored.
    pub fn add_block(&mut self, block: &WholeBlock<'_>) -> Result<()> {
        self.end_block()?;
        for (internal_key, value) in block.entries.at_hand() {
            self.note(internal_key, value)?;
            self.data.pass(internal_key);
        }
        self.unindexed = Some(self.blocks.copy(&block.sealed)?);
        self.cut.add(block.entries.block_bytes());
        self.filter.start_block(self.blocks.bytes);
        Ok(())
    }

    /// Adds deletes of ranges, at any time.
    pub fn delete_range(&mut self, fragment: &Fragment) {
        for seq in &fragment.sequences {
            self.range_tombstones.insert(&self.order, &fragment.from, &fragment.to, *seq);
        }
    }

    /// Adds a meta block, at any time.
    pub fn add_meta(&mut self, name: &'static str, contents: Vec<u8>) {
        self.metas.push((name, contents));
    }

    /// Writes everything else and gives the sink back. The table must have an entry, or a delete of a range.
    pub fn finish(mut self) -> Result<(S, Bounds)> {
        if self.facts.entries == 0 && self.range_tombstones.is_empty() {
            return Err(Error::Unsupported(format!("{} would be an empty table", self.blocks.sink.name())));
        }
        self.end_block()?;
        let mut metas = Vec::new();
        if let Some((name, contents)) = std::mem::replace(&mut self.filter, FilterMaker::None).finish() {
            metas.push((name, self.blocks.write(&contents, Codec::None)?));
        }
        metas.push((properties::META_NAME.to_string(), self.blocks.write(&self.facts.encode(), Codec::None)?));
        if !self.range_tombstones.is_empty() {
            metas.push((META_NAME.to_string(), self.blocks.write(&self.range_tombstones.encode(), Codec::None)?));
        }
        for (name, contents) in std::mem::take(&mut self.metas) {
            metas.push((name.to_string(), self.blocks.write(&contents, Codec::None)?));
        }
        metas.sort_by(|a, b| a.0.cmp(&b.0));
        let mut metaindex = BlockBuilder::new(self.block_restart_interval);
        for (name, handle) in metas {
            metaindex.add(name.as_bytes(), &encoded(handle));
        }
        let metaindex = self.blocks.write(metaindex.finish(), self.blocks.codec)?;
        let last = self.data.last_key().to_vec();
        let bounds = self.bounds(&last);
        if let Some(handle) = self.unindexed.take() {
            let mut listed = last;
            self.order.shorten_above(&mut listed);
            self.list_block(handle, &listed)?;
        }
        let index = self.blocks.write(self.index.finish(), self.blocks.codec)?;
        self.blocks.sink.append(&Footer { metaindex, index }.encode())?;
        Ok((self.blocks.sink, bounds))
    }

    /// What bounds the entries, of which `last` is the last, and the ranges.
    fn bounds(&mut self, last: &[u8]) -> Bounds {
        let entries = (self.facts.entries > 0).then(|| [std::mem::take(&mut self.smallest), last.to_vec()]);
        let all = match (entries, self.range_tombstones.bounds()) {
            (Some([a, b]), Some([c, d])) => {
                let smallest = if self.order.internal(&a, &c).is_le() { a } else { c };
                [smallest, if self.order.internal(&b, &d).is_ge() { b } else { d }]
            }
            (entries, ranges) => entries.or(ranges).unwrap_or_default(),
        };
        let [smallest, largest] = all;
        Bounds { smallest, largest }
    }

    fn end_block(&mut self) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let contents = self.data.finish();
        self.cut.add(contents.len());
        self.unindexed = Some(self.blocks.write(contents, self.blocks.codec)?);
        self.data.reset();
        self.filter.start_block(self.blocks.bytes);
        Ok(())
    }

    /// Lists the block at `handle` in the index under the internal key `listed`.
    fn list_block(&mut self, handle: Handle, listed: &[u8]) -> Result<()> {
        if self.index.byte_len() > INDEX_BYTES_MAX {
            return Err(Error::Unsupported(format!("{}: the index is full", self.blocks.sink.name())));
        }
        self.index.add(listed, &encoded(handle));
        Ok(())
    }

    fn corrupt(&self, found: Corrupt) -> Error {
        Error::corrupt(self.blocks.sink.name(), self.blocks.bytes, found)
    }
}

/// Adds one entry to `facts`; what a writer claims and what a check counts are the same.
pub(super) fn count(facts: &mut TableProperties, seq: SeqNo, kind: Kind, internal_key: &[u8], value: &[u8]) {
    let (oldest, newest) = if facts.entries == 0 { (seq, seq) } else { facts.sequences };
    facts.sequences = (oldest.min(seq), newest.max(seq));
    facts.entries += 1;
    facts.deletes += u64::from(kind == Kind::Delete);
    facts.key_bytes += internal_key.len() as u64;
    facts.value_bytes += value.len() as u64;
}

fn encoded(handle: Handle) -> Vec<u8> {
    let mut out = Vec::new();
    handle.encode(&mut out);
    out
}

/// Blocks with their trailers, one behind the other.
struct BlockStream<S> {
    sink: S,
    bytes: u64,
    codec: Codec,
    zstd_level: i32,
    /// Compressed form of the current block.
    scratch: Vec<u8>,
}

impl<S: ByteSink> BlockStream<S> {
    fn write(&mut self, raw: &[u8], codec: Codec) -> Result<Handle> {
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        let as_it_is = codec == Codec::None || raw.len() > COMPRESSED_BYTES_MAX;
        let (stored, codec) = if as_it_is {
            (raw, Codec::None)
        } else {
            let used = compress(codec, self.zstd_level, raw, &mut self.scratch);
            (&self.scratch[..], used)
        };
        let handle = Handle { offset: self.bytes, bytes: stored.len() as u64 };
        self.sink.append(stored)?;
        self.sink.append(&trailer(stored, codec))?;
        self.bytes += handle.bytes + BLOCK_TRAILER_BYTES as u64;
        Ok(handle)
    }

    /// Writes a block that has its trailer.
    fn copy(&mut self, sealed: &[u8]) -> Result<Handle> {
        let handle = Handle { offset: self.bytes, bytes: (sealed.len() - BLOCK_TRAILER_BYTES) as u64 };
        self.sink.append(sealed)?;
        self.bytes += sealed.len() as u64;
        Ok(handle)
    }
}

/// Codec and checksum, as `footer::seal_block` has them, for bytes that are not to be copied.
fn trailer(stored: &[u8], codec: Codec) -> [u8; BLOCK_TRAILER_BYTES] {
    let id = codec as u8;
    let [a, b, c, d] = crc::mask(crc::extend(crc::crc32c(stored), &[id])).to_le_bytes();
    [id, a, b, c, d]
}
