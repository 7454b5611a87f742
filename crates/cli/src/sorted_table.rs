//! Reads an SSTable without opening its store. Every length in the file is checked before it is
//! used.
use anyhow::{Context, Result, bail};
use std::{collections::BTreeMap, fs::File, path::Path, sync::Arc};
use terrace_format::{
    TableProperties,
    block::{Block, BlockCursor},
    compress::decompress,
    footer::{BLOCK_TRAILER_BYTES, FOOTER_BYTES, Footer, Handle, open_block},
    pair::{self, PairProperties},
    properties,
};
use terrace_storage::open_store_file;
use terrace_storage::read_exact_at;

/// An open SSTable.
pub struct SortedTable {
    file: File,
    /// Offset of the SSTable in its file.
    begin: u64,
    /// Size of the SSTable in bytes.
    pub bytes: u64,
    /// Handles of the index and metaindex blocks.
    pub footer: Footer,
}

/// Totals of the data blocks of an SSTable that are compressed with one codec.
#[derive(Clone, Copy, Default)]
pub struct Stored {
    /// Number of these data blocks.
    pub blocks: u64,
    /// Total stored size of these data blocks in bytes, without their trailers.
    pub bytes: u64,
}

impl SortedTable {
    /// Opens an SSTable file and reads its footer.
    pub fn open(path: &Path) -> Result<SortedTable> {
        SortedTable::open_within(path, 0, open_store_file(path)?.metadata()?.len())
    }

    /// Opens the SSTable of `bytes` bytes at offset `begin` of a file.
    pub fn open_within(path: &Path, begin: u64, bytes: u64) -> Result<SortedTable> {
        let file = open_store_file(path)?;
        let Some(at) = bytes.checked_sub(FOOTER_BYTES as u64) else { bail!("{bytes} bytes: too short for a table") };
        let mut footer = [0; FOOTER_BYTES];
        read_exact_at(&file, &mut footer, begin + at)?;
        Ok(SortedTable { file, begin, bytes, footer: Footer::decode(&footer)? })
    }

    /// Returns the names and handles of the meta blocks.
    pub fn meta_blocks(&self) -> Result<Vec<(String, Handle)>> {
        let named = |(name, handle): (Vec<u8>, Vec<u8>)| {
            Ok((String::from_utf8_lossy(&name).into_owned(), Handle::decode(&handle)?))
        };
        self.entries(self.footer.metaindex).context("metaindex")?.into_iter().map(named).collect()
    }

    /// Returns the table properties, if present.
    pub fn properties(&self) -> Result<Option<TableProperties>> {
        match self.meta_blocks()?.iter().find(|(name, _)| name == properties::META_NAME) {
            Some((_, handle)) => Ok(Some(TableProperties::decode(&self.contents(*handle)?)?)),
            None => Ok(None),
        }
    }

    /// Returns the statistics of the pair files of a directory table, if present.
    pub fn pair_properties(&self) -> Result<Option<PairProperties>> {
        match self.meta_blocks()?.iter().find(|(name, _)| name == pair::META_NAME) {
            Some((_, handle)) => Ok(Some(PairProperties::decode(&self.contents(*handle)?)?)),
            None => Ok(None),
        }
    }

    /// Returns the handles of the data blocks in key order.
    pub fn data_blocks(&self) -> Result<Vec<Handle>> {
        let index = self.entries(self.footer.index).context("index")?;
        index.iter().map(|(_, handle)| Ok(Handle::decode(handle)?)).collect()
    }

    /// Counts data blocks by codec id. Reads only the blocks' trailers.
    pub fn codecs(&self) -> Result<BTreeMap<u8, Stored>> {
        let mut found = BTreeMap::<u8, Stored>::new();
        for handle in self.data_blocks()? {
            self.check(handle)?;
            let mut codec = [0];
            read_exact_at(&self.file, &mut codec, self.begin + handle.offset + handle.bytes)?;
            let stored = found.entry(codec[0]).or_default();
            stored.blocks += 1;
            stored.bytes += handle.bytes;
        }
        Ok(found)
    }

    /// Verifies the block at `handle` and returns its entries.
    pub fn entries(&self, handle: Handle) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = BlockCursor::new(Arc::new(Block::new(self.contents(handle)?)?));
        let mut entries = Vec::new();
        cursor.seek_first()?;
        while cursor.valid() {
            entries.push((cursor.key().to_vec(), cursor.value().to_vec()));
            cursor.next()?;
        }
        Ok(entries)
    }

    /// Verifies and decompresses the block at `handle` and returns its contents.
    fn contents(&self, handle: Handle) -> Result<Vec<u8>> {
        self.check(handle)?;
        let mut stored = vec![0; handle.bytes as usize + BLOCK_TRAILER_BYTES];
        read_exact_at(&self.file, &mut stored, self.begin + handle.offset)?;
        let at = || format!("block at byte {}", handle.offset);
        let (codec, contents) = open_block(&stored, true).with_context(at)?;
        decompress(codec, contents).with_context(at)
    }

    /// Checks that a block lies within the SSTable.
    fn check(&self, handle: Handle) -> Result<()> {
        match handle.end() {
            Some(end) if end <= self.bytes => Ok(()),
            _ => bail!("block at byte {} of {} bytes extends past the end of the table", handle.offset, handle.bytes),
        }
    }
}
