//! Point lookups in the mapping of a table.
//!
//! A lookup, or a seek of a cursor, searches a block in the mapping, without a copy of the block
//! and without the block cache. The first read of a block verifies its checksum: in the mapping
//! if all pages of the block are in memory, otherwise by a system call, which reads the pages
//! together. Compressed blocks are always read by system calls and cached.
use super::Reader;
use crate::{
    Result,
    tables::{Found, TableReadOptions},
};
use std::{ops::Range, sync::Arc};
use terrace_format::{
    Corrupt,
    block::{Block, Bytes},
    footer::{Handle, open_block},
};
use terrace_vfs::Mapping;

/// Maximum size of a block that is read through the mapping.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

impl Reader {
    /// Returns the mapping if block `at` should be read through it. Blocks of more than
    /// [`BLOCK_BYTES_MAX`] are cached instead, because a cursor that moves copies the whole block.
    #[inline]
    pub(super) fn mapping_for(&self, at: usize, handle: Handle, how: TableReadOptions) -> Option<&Mapping> {
        if !how.fill_cache || handle.bytes > BLOCK_BYTES_MAX {
            return None;
        }
        let is_admitted = self.mapped.is_admitted(at, how.verify);
        if !is_admitted && self.mapped.is_compressed(at) {
            return None;
        }
        let (mapping, sealed) = (self.trusted_mapping()?, handle.offset..handle.end()?);
        let allows = self.budget.residency.allows(|| {
            let is_resident = mapping.is_resident(sealed.clone());
            if !is_resident {
                // A block that the cache serves would otherwise count as missing for ever.
                self.source.expect(sealed.clone());
            }
            is_resident
        });
        (allows && (is_admitted || self.admits_resident(mapping, at, &sealed, how))).then_some(mapping)
    }

    fn trusted_mapping(&self) -> Option<&Mapping> {
        self.source.mapping().filter(|mapping| mapping.is_trusted())
    }

    /// Verifies block `at` in the mapping if its pages are in memory. Returns whether lookups may
    /// read it through the mapping. An error in the block is found again, and reported, by the
    /// system call that reads the block next.
    #[cold]
    fn admits_resident(&self, mapping: &Mapping, at: usize, sealed: &Range<u64>, how: TableReadOptions) -> bool {
        if !mapping.is_resident(sealed.clone()) {
            return false;
        }
        match mapping.look(sealed.clone(), |bytes| open_block(bytes, how.verify).map(|(codec, _)| codec == 0)) {
            Some(Ok(is_raw)) => self.mapped.admit(at, is_raw, how.verify),
            Some(Err(_)) | None => false,
        }
    }

    /// Searches the block at `handle` in the mapping. Returns `None` if the block must be read in
    /// another way.
    #[inline]
    pub(super) fn find_mapped(
        &self,
        mapping: &Mapping,
        handle: Handle,
        lookup: &[u8],
    ) -> Option<std::result::Result<Option<Found>, Corrupt>> {
        let contents = contents_of(handle);
        mapping.prefetch(contents.clone());
        mapping.look(contents, |bytes| self.find_in(bytes, lookup).transpose())?
    }

    /// Searches the contents of a block. Returns `None` if the search needs the block in memory of
    /// its own.
    fn find_in(&self, contents: &[u8], lookup: &[u8]) -> std::result::Result<Option<Option<Found>>, Corrupt> {
        let Some(found) = Block::of_borrowed_keys(contents)?.find_in_place(&self.order, lookup)? else {
            return Ok(None);
        };
        let Some((seq, kind, value)) = found else { return Ok(Some(None)) };
        let value = contents.get(value).ok_or_else(|| Corrupt::new("block", 0, "a value extends past its end"))?;
        Ok(Some(Some(Found { seq, kind, value: Bytes::from(value.to_vec()) })))
    }

    /// Returns block `at`, which is not cached, in memory of its own, as cursors need it. With a
    /// `mapping`, the result of [`Reader::mapping_for`], the block is copied from it and cached;
    /// otherwise it is read.
    pub(super) fn owned_block(
        &self,
        mapping: Option<&Mapping>,
        at: usize,
        handle: Handle,
        how: TableReadOptions,
    ) -> Result<Arc<Block>> {
        let copy = mapping.and_then(|mapping| mapping.look(contents_of(handle), <[u8]>::to_vec));
        let Some(contents) = copy else { return self.read_block(at, handle, how) };
        let block = Arc::new(self.decode(handle, Bytes::from(contents))?);
        self.cache(handle, block.clone(), how.verify);
        Ok(block)
    }

    /// Returns `how` without the verification of block `at` if its checksum was verified since the
    /// table was opened and mapped, and if the table is in memory. Background readers always
    /// verify.
    pub(super) fn unverified(&self, at: usize, how: TableReadOptions) -> TableReadOptions {
        let is_known = how.fill_cache
            && self.budget.residency.uses_mappings()
            && self.mapped.is_admitted(at, true)
            && self.trusted_mapping().is_some();
        TableReadOptions { verify: how.verify && !is_known, ..how }
    }

    /// Records that the reader has read block `at`. Returns whether later reads of the block use
    /// the mapping, so that the block need not be cached.
    pub(super) fn admit_mapped(&self, at: usize, handle: Handle, is_raw: bool, is_verified: bool) -> bool {
        handle.bytes <= BLOCK_BYTES_MAX
            && self.trusted_mapping().is_some()
            && self.mapped.admit(at, is_raw, is_verified)
            && self.budget.residency.uses_mappings()
    }
}

/// Returns the range of the block at `handle`, without its trailer.
pub(super) fn contents_of(handle: Handle) -> Range<u64> {
    handle.offset..handle.offset.saturating_add(handle.bytes)
}
