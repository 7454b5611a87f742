//! The filter of an SSTable. It has one of two forms: LevelDB's form with one filter for each 2
//! KiB of data blocks, or one filter for the whole table.
//!
//! Filters are built from user keys. They may have false positives but never false negatives.
use super::ByteSource;
use crate::{
    FilterForm, StorageConfig,
    memory::{Residency, is_sample},
};
use std::{ops::Range, sync::Arc};
use terrace_format::{
    block::Bytes,
    filter::{FilterBlock, FilterBlockBuilder, FilterPolicy, HashPolicy, block_meta_name, table_meta_name},
    footer::Handle,
};

/// Builds the filter of a table being written.
pub(super) enum FilterMaker {
    None,
    Blocks(Arc<dyn FilterPolicy>, Box<FilterBlockBuilder>),
    Whole(Arc<dyn FilterPolicy>, FilterKeys),
}

impl FilterMaker {
    pub fn new(setup: &StorageConfig) -> FilterMaker {
        match (&setup.filter, setup.filter_form) {
            (None, _) => FilterMaker::None,
            (Some(policy), FilterForm::Block) => {
                let mut builder = FilterBlockBuilder::new(policy.clone());
                builder.start_block(0);
                FilterMaker::Blocks(policy.clone(), Box::new(builder))
            }
            (Some(policy), FilterForm::Table) => FilterMaker::Whole(policy.clone(), FilterKeys::new(policy)),
        }
    }

    pub fn add(&mut self, user_key: &[u8]) {
        match self {
            FilterMaker::None => {}
            FilterMaker::Blocks(_, builder) => builder.add_key(user_key),
            FilterMaker::Whole(_, keys) => keys.add(user_key),
        }
    }

    /// Records that the next data block begins at `offset`.
    pub fn start_block(&mut self, offset: u64) {
        if let FilterMaker::Blocks(_, builder) = self {
            builder.start_block(offset);
        }
    }

    /// Returns the filter's name in the metaindex and its contents.
    pub fn finish(self) -> Option<(String, Vec<u8>)> {
        match self {
            FilterMaker::None => None,
            FilterMaker::Blocks(policy, builder) => Some((block_meta_name(&*policy), builder.finish())),
            FilterMaker::Whole(policy, keys) => Some((table_meta_name(&*policy), keys.filter(&*policy))),
        }
    }
}

/// The input of a filter for the whole table: hashes if the filter policy works on hashes, else
/// user keys. All versions of a key are adjacent, so a comparison with the previous key (or hash)
/// finds all duplicates.
pub(super) enum FilterKeys {
    Hashes(Arc<dyn HashPolicy>, Vec<u32>),
    Keys(Keys),
}

impl FilterKeys {
    fn new(policy: &Arc<dyn FilterPolicy>) -> FilterKeys {
        match policy.clone().by_hash() {
            Some(policy) => FilterKeys::Hashes(policy, Vec::new()),
            None => FilterKeys::Keys(Keys::default()),
        }
    }

    fn add(&mut self, user_key: &[u8]) {
        match self {
            FilterKeys::Hashes(policy, hashes) => {
                let hash = policy.hash(user_key);
                if hashes.last() != Some(&hash) {
                    hashes.push(hash);
                }
            }
            FilterKeys::Keys(keys) => keys.add(user_key),
        }
    }

    fn filter(&self, policy: &dyn FilterPolicy) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            FilterKeys::Hashes(policy, hashes) => policy.create_of(hashes, &mut out),
            FilterKeys::Keys(keys) => policy.create(&keys.all(), &mut out),
        }
        out
    }
}

/// A list of keys, stored one after the other.
#[derive(Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// The end offset of each key in `bytes`.
    ends: Vec<usize>,
}

impl Keys {
    fn add(&mut self, user_key: &[u8]) {
        let last_start = self.ends.iter().rev().nth(1).copied().unwrap_or(0);
        if self.ends.is_empty() || &self.bytes[last_start..] != user_key {
            self.bytes.extend_from_slice(user_key);
            self.ends.push(self.bytes.len());
        }
    }

    fn all(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(&0).chain(&self.ends);
        starts.zip(&self.ends).map(|(&start, &end)| &self.bytes[start..end]).collect()
    }
}

/// The filter of an open table.
pub(super) enum Filter {
    None,
    Blocks(FilterBlock),
    Whole(Arc<dyn FilterPolicy>, Bytes),
    /// A filter for the whole table that is not in memory of its own: its range in the mapping of
    /// the table.
    Mapped(Arc<dyn FilterPolicy>, Range<u64>),
}

impl Filter {
    /// Returns whether the table in `source` may contain `user_key`, before the index is searched.
    /// Only a filter for the whole table can exclude a key at this point.
    #[inline(always)]
    pub fn table_may_match(&self, source: &dyn ByteSource, residency: &Residency, user_key: &[u8]) -> bool {
        match self {
            Filter::Whole(policy, filter) => policy.may_match(user_key, filter),
            Filter::None | Filter::Blocks(_) => true,
            Filter::Mapped(policy, range) => mapped_may_match(source, residency, &**policy, range, user_key),
        }
    }

    /// Returns the filter without memory of its own, so that lookups read it through the mapping of
    /// the table in `source`. `handle` is the handle of the filter block, which must not be
    /// compressed. Returns the filter unchanged if it cannot be read so.
    pub fn into_mapped(self, source: &dyn ByteSource, handle: Handle) -> Filter {
        match self {
            // A filter policy of the user must not see bytes that may change.
            Filter::Whole(policy, _) if source.mapping().is_some() && policy.clone().by_hash().is_some() => {
                Filter::Mapped(policy, handle.offset..handle.offset + handle.bytes)
            }
            filter => filter,
        }
    }

    /// Returns whether the data block at `offset` may contain `user_key`, according to the block's
    /// filter.
    pub fn block_may_match(&self, offset: u64, user_key: &[u8]) -> bool {
        match self {
            Filter::Blocks(block) => block.may_match(offset, user_key),
            Filter::None | Filter::Whole(..) | Filter::Mapped(..) => true,
        }
    }

    /// Returns the size of the filter in memory, in bytes.
    pub fn byte_len(&self) -> usize {
        match self {
            Filter::None | Filter::Mapped(..) => 0,
            Filter::Blocks(block) => block.byte_len(),
            Filter::Whole(_, bytes) => bytes.len(),
        }
    }
}

/// The bytes of a filter whose pages are checked: those that [`Mapping::is_resident`] can check at
/// once.
///
/// [`Mapping::is_resident`]: terrace_vfs::Mapping::is_resident
const CHECKED_BYTES: u64 = 512 << 10;

/// Tests a filter in the mapping of a table. If its pages are not in memory, returns true: a lookup
/// that waits for each page would take longer than one that reads the block. Some of these lookups
/// start to load the filter.
#[cold]
fn mapped_may_match(
    source: &dyn ByteSource,
    residency: &Residency,
    policy: &dyn FilterPolicy,
    range: &Range<u64>,
    user_key: &[u8],
) -> bool {
    let Some(mapping) = source.mapping() else { return true };
    let checked = range.start..range.end.min(range.start + CHECKED_BYTES);
    if !residency.allows(|| mapping.is_resident(checked.clone())) && !mapping.is_resident(checked) {
        if is_sample() {
            source.expect(range.clone());
        }
        return true;
    }
    mapping.look(range.clone(), |filter| policy.may_match(user_key, filter)).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::filter::Bloom;

    /// A filter policy for tests that works on keys, not on hashes.
    struct Whole(Bloom);

    impl FilterPolicy for Whole {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn create(&self, keys: &[&[u8]], out: &mut Vec<u8>) {
            self.0.create(keys, out);
        }
        fn may_match(&self, key: &[u8], filter: &[u8]) -> bool {
            self.0.may_match(key, filter)
        }
    }

    #[test]
    fn a_whole_table_filter_takes_each_key_once() {
        let keys: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];
        let mut want = Vec::new();
        Bloom::new(1000).create(&keys, &mut want);
        let policies: [Arc<dyn FilterPolicy>; 2] = [Arc::new(Bloom::new(1000)), Arc::new(Whole(Bloom::new(1000)))];
        for (policy, is_hashed) in policies.into_iter().zip([true, false]) {
            let mut filter_keys = FilterKeys::new(&policy);
            assert_eq!(matches!(filter_keys, FilterKeys::Hashes(..)), is_hashed);
            for key in keys {
                filter_keys.add(key);
                filter_keys.add(key);
            }
            assert_eq!(filter_keys.filter(&*policy), want);
        }
    }

    #[test]
    fn adjacent_keys_with_equal_hashes_both_match() {
        let policy: Arc<dyn FilterPolicy> = Arc::new(Bloom::new(10));
        let by_hash = policy.clone().by_hash().unwrap();
        let mut seen = std::collections::HashMap::new();
        let mut keys = (0..1_000_000).map(|n: u64| ((n << 40) | (n * n)).to_le_bytes());
        let (a, b) = keys.find_map(|key| seen.insert(by_hash.hash(&key), key).map(|other| (other, key))).unwrap();
        let mut filter_keys = FilterKeys::new(&policy);
        [a, b].iter().for_each(|key| filter_keys.add(key));
        let filter = filter_keys.filter(&*policy);
        assert!(policy.may_match(&a, &filter) && policy.may_match(&b, &filter));
    }
}
