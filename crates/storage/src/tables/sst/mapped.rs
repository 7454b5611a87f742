//! Point lookups in the mapping of a table.
//!
//! The first read of a data block is a system call: it reads all pages of the block together, it
//! returns the error of the device, and it verifies the checksum. Later lookups of the block search
//! it in the mapping, without a copy of the block and without the block cache. Compressed blocks
//! are always read by system calls and cached.
use super::Reader;
use crate::tables::{Found, TableReadOptions};
use std::ops::Range;
use terrace_format::{
    Corrupt,
    block::{Block, Bytes},
    footer::{BLOCK_TRAILER_BYTES, Handle},
};
use terrace_vfs::Mapping;

impl Reader {
    /// Returns the mapping if block `at`, in the range `sealed`, should be read through it.
    #[inline]
    pub(super) fn mapping_for(&self, at: usize, sealed: &Range<u64>, how: TableReadOptions) -> Option<&Mapping> {
        if !how.fill_cache || !self.mapped.is_admitted(at, how.verify) {
            return None;
        }
        let mapping = self.source.mapping()?;
        self.budget.residency.allows(|| mapping.is_resident(sealed.clone())).then_some(mapping)
    }

    /// Searches block `at` in the mapping. Returns `None` if the block must be read in another way.
    #[inline]
    pub(super) fn find_mapped(
        &self,
        at: usize,
        handle: Handle,
        lookup: &[u8],
        how: TableReadOptions,
    ) -> Option<Result<Option<Found>, Corrupt>> {
        let sealed = handle.offset..handle.end()?;
        let mapping = self.mapping_for(at, &sealed, how)?;
        let contents = sealed.start..sealed.end - BLOCK_TRAILER_BYTES as u64;
        mapping.prefetch(contents.clone());
        mapping.look(contents, |bytes| self.find_in(bytes, lookup).transpose())?
    }

    /// Searches the contents of a block. Returns `None` if the search needs the block in memory of
    /// its own.
    fn find_in(&self, contents: &[u8], lookup: &[u8]) -> Result<Option<Option<Found>>, Corrupt> {
        let Some(found) = Block::of_borrowed_keys(contents)?.find_in_place(&self.order, lookup)? else {
            return Ok(None);
        };
        let Some((seq, kind, value)) = found else { return Ok(Some(None)) };
        let value = contents.get(value).ok_or_else(|| Corrupt::new("block", 0, "a value extends past its end"))?;
        Ok(Some(Some(Found { seq, kind, value: Bytes::from(value.to_vec()) })))
    }

    /// Returns a copy of block `at` from the mapping, without its trailer. Returns `None` if the
    /// block must be read in another way.
    pub(super) fn copy_mapped(&self, at: usize, handle: Handle, how: TableReadOptions) -> Option<Bytes> {
        let sealed = handle.offset..handle.end()?;
        let mapping = self.mapping_for(at, &sealed, how)?;
        let contents = sealed.start..sealed.end - BLOCK_TRAILER_BYTES as u64;
        mapping.look(contents, <[u8]>::to_vec).map(Bytes::from)
    }

    /// Records that the reader has read block `at`. Returns whether later reads of the block use
    /// the mapping, so that the block need not be cached.
    pub(super) fn admit_mapped(&self, at: usize, is_raw: bool, is_verified: bool) -> bool {
        is_raw && self.mapped.admit(at, is_verified) && self.budget.residency.allows(|| true)
    }
}
