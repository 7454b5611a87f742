//! A table's filter in either form: LevelDB's for every 2 KiB of blocks, or one for the whole table.
//!
//! Filters see user keys. A filter may admit a key that is not there; it never hides one that is.
use crate::{FilterForm, StorageConfig};
use std::sync::Arc;
use terrace_format::block::Bytes;
use terrace_format::filter::{
    FilterBlock, FilterBlockBuilder, FilterPolicy, HashPolicy, block_meta_name, table_meta_name,
};

/// Gathers what the filter of a table being written needs.
pub(super) enum FilterMaker {
    None,
    Blocks(Arc<dyn FilterPolicy>, Box<FilterBlockBuilder>),
    Whole(Arc<dyn FilterPolicy>, Gathered),
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
            (Some(policy), FilterForm::Table) => FilterMaker::Whole(policy.clone(), Gathered::new(policy)),
        }
    }

    pub fn add(&mut self, user_key: &[u8]) {
        match self {
            FilterMaker::None => {}
            FilterMaker::Blocks(_, builder) => builder.add_key(user_key),
            FilterMaker::Whole(_, gathered) => gathered.add(user_key),
        }
    }

    /// The next data block begins at `offset`.
    pub fn start_block(&mut self, offset: u64) {
        if let FilterMaker::Blocks(_, builder) = self {
            builder.start_block(offset);
        }
    }

    /// The filter's contents and its name in the metaindex.
    pub fn finish(self) -> Option<(String, Vec<u8>)> {
        match self {
            FilterMaker::None => None,
            FilterMaker::Blocks(policy, builder) => Some((block_meta_name(&*policy), builder.finish())),
            FilterMaker::Whole(policy, gathered) => Some((table_meta_name(&*policy), gathered.filter(&*policy))),
        }
    }
}

/// What a policy needs of each user key of a table. Versions of one key come one after the other, so comparing with the last key, or
/// its hash, is enough to have each once.
pub(super) enum Gathered {
    Hashes(Arc<dyn HashPolicy>, Vec<u32>),
    Keys(Keys),
}

impl Gathered {
    fn new(policy: &Arc<dyn FilterPolicy>) -> Gathered {
        match policy.clone().by_hash() {
            Some(policy) => Gathered::Hashes(policy, Vec::new()),
            None => Gathered::Keys(Keys::default()),
        }
    }

    fn add(&mut self, user_key: &[u8]) {
        match self {
            Gathered::Hashes(policy, hashes) => {
                let hash = policy.hash(user_key);
                if hashes.last() != Some(&hash) {
                    hashes.push(hash);
                }
            }
            Gathered::Keys(keys) => keys.add(user_key),
        }
    }

    fn filter(&self, policy: &dyn FilterPolicy) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Gathered::Hashes(policy, hashes) => policy.create_of(hashes, &mut out),
            Gathered::Keys(keys) => policy.create(&keys.all(), &mut out),
        }
        out
    }
}

/// Keys end to end.
#[derive(Default)]
pub(super) struct Keys {
    bytes: Vec<u8>,
    /// Where in `bytes` each one ends.
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

/// The filter of a table being read.
pub(super) enum Filter {
    None,
    Blocks(FilterBlock),
    Whole(Arc<dyn FilterPolicy>, Bytes),
}

impl Filter {
    /// Whether the table may have `user_key`; asked before the index is.
    pub fn table_may_match(&self, user_key: &[u8]) -> bool {
        match self {
            Filter::Whole(policy, filter) => policy.may_match(user_key, filter),
            Filter::None | Filter::Blocks(_) => true,
        }
    }

    /// Whether the data block at `offset` may have `user_key`.
    pub fn block_may_match(&self, offset: u64, user_key: &[u8]) -> bool {
        match self {
            Filter::Blocks(block) => block.may_match(offset, user_key),
            Filter::None | Filter::Whole(..) => true,
        }
    }

    /// Bytes that it occupies.
    pub fn byte_len(&self) -> usize {
        match self {
            Filter::None => 0,
            Filter::Blocks(block) => block.byte_len(),
            Filter::Whole(_, bytes) => bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_format::filter::Bloom;

    /// A policy that wants whole keys.
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
    fn a_whole_filter_takes_each_key_once() {
        let keys: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];
        let mut want = Vec::new();
        Bloom::new(1000).create(&keys, &mut want);
        let policies: [Arc<dyn FilterPolicy>; 2] = [Arc::new(Bloom::new(1000)), Arc::new(Whole(Bloom::new(1000)))];
        for (policy, is_hashed) in policies.into_iter().zip([true, false]) {
            let mut gathered = Gathered::new(&policy);
            assert_eq!(matches!(gathered, Gathered::Hashes(..)), is_hashed);
            for key in keys {
                gathered.add(key);
                gathered.add(key);
            }
            assert_eq!(gathered.filter(&*policy), want);
        }
    }

    #[test]
    fn neighbours_of_one_hash_are_both_admitted() {
        let policy: Arc<dyn FilterPolicy> = Arc::new(Bloom::new(10));
        let by_hash = policy.clone().by_hash().unwrap();
        let mut seen = std::collections::HashMap::new();
        let mut keys = (0..1_000_000).map(|n: u64| ((n << 40) | (n * n)).to_le_bytes());
        let (a, b) = keys.find_map(|key| seen.insert(by_hash.hash(&key), key).map(|other| (other, key))).unwrap();
        let mut gathered = Gathered::new(&policy);
        [a, b].iter().for_each(|key| gathered.add(key));
        let filter = gathered.filter(&*policy);
        assert!(policy.may_match(&a, &filter) && policy.may_match(&b, &filter));
    }
}
