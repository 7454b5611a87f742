//! Writes one SSTable as a stream.
//!
//! ```text
//! data block*  filter  properties  range tombstones  metaindex block  index block  footer
//! ```
//! The writer keeps only one data block, the index, and the input of the filter in memory.
//! Without the properties block, and with LevelDB's form of filter, the bytes of a table without
//! compression are those that LevelDB would write. LevelDB also compresses the index.
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

/// Size of the largest block that is compressed. A larger block is written uncompressed, without a
/// copy.
const COMPRESSED_BYTES_MAX: usize = 1 << 30;
/// Largest offset of an entry in the index block, because the block stores restart offsets in 32
/// bits. An index reaches this size only with keys of gigabytes.
const INDEX_BYTES_MAX: usize = u32::MAX as usize;
/// If a scratch buffer has grown beyond this size, it is freed and not reused for the next block.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Smallest and largest internal key of the table; see [`TableMeta`](crate::placement::TableMeta).
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
    properties: TableProperties,
    range_tombstones: RangeTombstones,
    /// Additional meta blocks with their names.
    metas: Vec<(&'static str, Vec<u8>)>,
    smallest: Vec<u8>,
    /// Number and size of the finished data blocks.
    cut: Cut,
    /// The last finished block, whose index entry is not written yet. The index key is the shortest
    /// separator between the block's last key and the next key, so the writer must know the next
    /// key first.
    unindexed: Option<Handle>,
}

impl<S: ByteSink> Writer<S> {
    /// Creates a writer that appends to `sink`.
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
            properties: TableProperties::default(),
            range_tombstones: RangeTombstones::default(),
            metas: Vec::new(),
            smallest: Vec::new(),
            cut: Cut::default(),
            unindexed: None,
        }
    }

    /// Returns the number of bytes written so far, without the block that is being filled.
    pub fn bytes(&self) -> u64 {
        self.blocks.bytes
    }

    /// Adds an entry. Returns an error if the internal key is malformed or not greater than the
    /// previous key. Such a key is a sign of corrupt input, which must not be written under a new,
    /// valid checksum.
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        let shared = self.note(internal_key, value)?;
        self.data.add_sharing(shared, internal_key, value);
        if self.data.byte_len() >= self.block_size { self.end_block() } else { Ok(()) }
    }

    /// Records the next entry in the index, the filter and the properties, but does not write it to
    /// the data block. Returns the length of the prefix that its key shares with the previous key.
    #[inline]
    fn note(&mut self, internal_key: &[u8], value: &[u8]) -> Result<usize> {
        let parsed = key::parse(internal_key).map_err(|found| self.corrupt(found))?;
        let last = self.data.last_key();
        let shared = common_prefix(last, internal_key);
        if self.properties.entries == 0 {
            self.smallest.extend_from_slice(internal_key);
        } else if self.order.internal_past(last, internal_key, shared) != Ordering::Less {
            return Err(self.corrupt(Corrupt::new("table", 0, "a key is not greater than the previous key")));
        }
        if let Some(handle) = self.unindexed.take() {
            let mut listed = last.to_vec();
            self.order.shorten_between(&mut listed, internal_key);
            self.list_block(handle, &listed)?;
        }
        self.filter.add(parsed.user);
        count(&mut self.properties, parsed.seq, parsed.kind, internal_key, value);
        Ok(shared)
    }

    /// Returns the number and total size of the table's data blocks. The block that is being filled
    /// is counted as if it ended now.
    pub fn cut(&self) -> Cut {
        let mut cut = self.cut;
        if !self.data.is_empty() {
            cut.add(self.data.byte_len());
        }
        cut
    }

    /// Copies a block of another table, in its stored form, into the table.
    pub fn add_block(&mut self, block: &WholeBlock<'_>) -> Result<()> {
        self.end_block()?;
        for (internal_key, value) in block.entries.window_entries() {
            self.note(internal_key, value)?;
            self.data.pass(internal_key);
        }
        self.unindexed = Some(self.blocks.copy(&block.sealed)?);
        self.cut.add(block.entries.block_bytes());
        self.filter.start_block(self.blocks.bytes);
        Ok(())
    }

    /// Adds range tombstones. May be called at any time before [`finish`](Writer::finish).
    pub fn delete_range(&mut self, fragment: &Fragment) {
        for seq in &fragment.sequences {
            self.range_tombstones.insert(&self.order, &fragment.from, &fragment.to, *seq);
        }
    }

    /// Adds a meta block. May be called at any time before [`finish`](Writer::finish).
    pub fn add_meta(&mut self, name: &'static str, contents: Vec<u8>) {
        self.metas.push((name, contents));
    }

    /// Writes the remaining parts and returns the sink. The table must have an entry or a range
    /// tombstone.
    pub fn finish(mut self) -> Result<(S, Bounds)> {
        if self.properties.entries == 0 && self.range_tombstones.is_empty() {
            let name = self.blocks.sink.name();
            return Err(Error::Unsupported(format!("{name}: an SSTable without entries cannot be written")));
        }
        self.end_block()?;
        let mut metas = Vec::new();
        if let Some((name, contents)) = std::mem::replace(&mut self.filter, FilterMaker::None).finish() {
            metas.push((name, self.blocks.write(&contents, Codec::None)?));
        }
        metas.push((properties::META_NAME.to_string(), self.blocks.write(&self.properties.encode(), Codec::None)?));
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
        // Not compressed, so that lookups can read a part of the index.
        let index = self.blocks.write(self.index.finish(), Codec::None)?;
        self.blocks.sink.append(&Footer { metaindex, index }.encode())?;
        Ok((self.blocks.sink, bounds))
    }

    /// Returns the bounds of all entries and range tombstones. `last` is the key of the last entry.
    fn bounds(&mut self, last: &[u8]) -> Bounds {
        let entries = (self.properties.entries > 0).then(|| [std::mem::take(&mut self.smallest), last.to_vec()]);
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

    /// Adds an index entry for the block at `handle`. `listed` is the internal key of the index
    /// entry.
    fn list_block(&mut self, handle: Handle, listed: &[u8]) -> Result<()> {
        if self.index.byte_len() > INDEX_BYTES_MAX {
            let name = self.blocks.sink.name();
            return Err(Error::Unsupported(format!("{name}: the index would exceed {INDEX_BYTES_MAX} bytes")));
        }
        self.index.add(listed, &encoded(handle));
        Ok(())
    }

    fn corrupt(&self, found: Corrupt) -> Error {
        Error::corrupt(self.blocks.sink.name(), self.blocks.bytes, found)
    }
}

/// Counts one entry in `properties`. The writer and the verification share this function.
pub(super) fn count(properties: &mut TableProperties, seq: SeqNo, kind: Kind, internal_key: &[u8], value: &[u8]) {
    let (oldest, newest) = if properties.entries == 0 { (seq, seq) } else { properties.sequences };
    properties.sequences = (oldest.min(seq), newest.max(seq));
    properties.entries += 1;
    properties.deletes += u64::from(kind == Kind::Delete);
    properties.key_bytes += internal_key.len() as u64;
    properties.value_bytes += value.len() as u64;
}

fn encoded(handle: Handle) -> Vec<u8> {
    let mut out = Vec::new();
    handle.encode(&mut out);
    out
}

/// Writes the blocks of a table one after the other, each with its trailer.
struct BlockStream<S> {
    sink: S,
    bytes: u64,
    codec: Codec,
    zstd_level: i32,
    /// The compressed form of the current block.
    scratch: Vec<u8>,
}

impl<S: ByteSink> BlockStream<S> {
    fn write(&mut self, raw: &[u8], codec: Codec) -> Result<Handle> {
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        let uncompressed = codec == Codec::None || raw.len() > COMPRESSED_BYTES_MAX;
        let (stored, codec) = if uncompressed {
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

    /// Appends a block that has its trailer already.
    fn copy(&mut self, sealed: &[u8]) -> Result<Handle> {
        let handle = Handle { offset: self.bytes, bytes: (sealed.len() - BLOCK_TRAILER_BYTES) as u64 };
        self.sink.append(sealed)?;
        self.bytes += sealed.len() as u64;
        Ok(handle)
    }
}

/// Returns the trailer (codec and checksum) of the block `stored`. Used if the block is not in a
/// buffer to which `footer::seal_block` could append the trailer.
fn trailer(stored: &[u8], codec: Codec) -> [u8; BLOCK_TRAILER_BYTES] {
    let id = codec as u8;
    let [a, b, c, d] = crc::mask(crc::extend(crc::crc32c(stored), &[id])).to_le_bytes();
    [id, a, b, c, d]
}
