//! Point lookups in the mapping of a table.
//!
//! A lookup searches a block in the mapping, without a copy of the block and without the block
//! cache. The first read of a block verifies its checksum: in the mapping if all pages of the block
//! are in memory, otherwise by a system call, which reads the pages together. Compressed blocks are
//! always read by system calls and cached.
use super::Reader;
use crate::{
    Result,
    tables::{Found, TableReadOptions},
};
use std::{ops::Range, sync::Arc};
use terrace_format::{
    Corrupt,
    block::{Block, Bytes},
    footer::{BLOCK_TRAILER_BYTES, Handle, open_block},
};
use terrace_vfs::Mapping;

/// Maximum size of a block, with its trailer, that is read through the mapping.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

impl Reader {
    /// Returns the mapping if block `at`, in the range `sealed`, should be read through it. Blocks
    /// of more than [`BLOCK_BYTES_MAX`] are cached instead, because a seek would copy the whole
    /// block.
    #[inline]
    pub(super) fn mapping_for(&self, at: usize, sealed: &Range<u64>, how: TableReadOptions) -> Option<&Mapping> {
        if !how.fill_cache || sealed.end - sealed.start > BLOCK_BYTES_MAX {
            return None;
        }
        let is_admitted = self.mapped.is_admitted(at, how.verify);
        if !is_admitted && self.mapped.is_compressed(at) {
            return None;
        }
        let mapping = self.source.mapping().filter(|mapping| mapping.is_trusted())?;
        let allows = self.budget.residency.allows(|| {
            let is_resident = mapping.is_resident(sealed.clone());
            if !is_resident {
                // A block that the cache serves would otherwise count as missing for ever.
                self.source.expect(sealed.clone());
            }
            is_resident
        });
        (allows && (is_admitted || self.admits_resident(mapping, at, sealed, how))).then_some(mapping)
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

    /// Searches block `at` in the mapping. Returns `None` if the block must be read in another way.
    #[inline]
    pub(super) fn find_mapped(
        &self,
        at: usize,
        handle: Handle,
        lookup: &[u8],
        how: TableReadOptions,
    ) -> Option<std::result::Result<Option<Found>, Corrupt>> {
        let sealed = handle.offset..handle.end()?;
        let mapping = self.mapping_for(at, &sealed, how)?;
        let contents = sealed.start..sealed.end - BLOCK_TRAILER_BYTES as u64;
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

    /// Returns block `at`, which is not cached, in memory of its own, as cursors need it. The block
    /// is copied from the mapping and cached; otherwise it is read.
    pub(super) fn owned_block(&self, at: usize, handle: Handle, how: TableReadOptions) -> Result<Arc<Block>> {
        let Some(contents) = self.copy_mapped(at, handle, how) else { return self.read_block(at, handle, how) };
        let block = Arc::new(self.decode(handle, contents)?);
        self.cache(handle, block.clone(), how.verify);
        Ok(block)
    }

    /// Returns a copy of block `at` from the mapping, without its trailer. Returns `None` if the
    /// block must be read in another way.
    fn copy_mapped(&self, at: usize, handle: Handle, how: TableReadOptions) -> Option<Bytes> {
        let sealed = handle.offset..handle.end()?;
        let mapping = self.mapping_for(at, &sealed, how)?;
        let contents = sealed.start..sealed.end - BLOCK_TRAILER_BYTES as u64;
        mapping.look(contents, <[u8]>::to_vec).map(Bytes::from)
    }

    /// Returns `how` without the verification of block `at` if its checksum was verified since the
    /// table was opened and mapped, and if the table is in memory. Background readers always
    /// verify.
    pub(super) fn unverified(&self, at: usize, how: TableReadOptions) -> TableReadOptions {
        let is_known = how.fill_cache
            && self.budget.residency.uses_mappings()
            && self.mapped.is_admitted(at, true)
            && self.source.mapping().is_some_and(|mapping| mapping.is_trusted());
        TableReadOptions { verify: how.verify && !is_known, ..how }
    }

    /// Records that the reader has read block `at`. Returns whether later reads of the block use
    /// the mapping, so that the block need not be cached.
    pub(super) fn admit_mapped(&self, at: usize, sealed: &Range<u64>, is_raw: bool, is_verified: bool) -> bool {
        if sealed.end - sealed.start > BLOCK_BYTES_MAX {
            return false;
        }
        let is_trusted = self.source.mapping().is_some_and(|mapping| mapping.is_trusted());
        is_trusted && self.mapped.admit(at, is_raw, is_verified) && self.budget.residency.uses_mappings()
    }
}
