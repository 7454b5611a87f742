//! A table's filter in either form: LevelDB's for every 2 KiB of blocks, or one for the whole table.
//!
//! Filters see user keys. A filter may admit a key that is not there; it never hides one that is.
use crate::{FilterForm, Setup};
use std::sync::Arc;
use terrace_format::block::Bytes;
use terrace_format::filter::{FilterBlock, FilterBlockBuilder, FilterPolicy, block_meta_name, table_meta_name};

/// Gathers the keys of a table being written.
pub(super) enum FilterMaker {
    None,
    Blocks(Arc<dyn FilterPolicy>, Box<FilterBlockBuilder>),
    Whole(WholeMaker),
}

impl FilterMaker {
    pub fn new(setup: &Setup) -> FilterMaker {
        match (&setup.filter, setup.filter_form) {
            (None, _) => FilterMaker::None,
            (Some(policy), FilterForm::Block) => {
                let mut builder = FilterBlockBuilder::new(policy.clone());
                builder.start_block(0);
                FilterMaker::Blocks(policy.clone(), Box::new(builder))
            }
            (Some(policy), FilterForm::Table) => FilterMaker::Whole(WholeMaker::new(policy.clone())),
        }
    }

    pub fn add(&mut self, user_key: &[u8]) {
        match self {
            FilterMaker::None => {}
            FilterMaker::Blocks(_, builder) => builder.add_key(user_key),
            FilterMaker::Whole(maker) => maker.add(user_key),
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
            FilterMaker::Whole(maker) => Some((table_meta_name(&*maker.policy), maker.finish())),
        }
    }
}

/// All user keys of a table, each once, end to end.
pub(super) struct WholeMaker {
    policy: Arc<dyn FilterPolicy>,
    keys: Vec<u8>,
    /// Where in `keys` each one ends.
    ends: Vec<usize>,
}

impl WholeMaker {
    fn new(policy: Arc<dyn FilterPolicy>) -> WholeMaker {
        WholeMaker { policy, keys: Vec::new(), ends: Vec::new() }
    }

    /// Versions of one key come one after the other, so comparing with the last key is enough.
    fn add(&mut self, user_key: &[u8]) {
        let last_start = self.ends.iter().rev().nth(1).copied().unwrap_or(0);
        if self.ends.is_empty() || &self.keys[last_start..] != user_key {
            self.keys.extend_from_slice(user_key);
            self.ends.push(self.keys.len());
        }
    }

    fn finish(&self) -> Vec<u8> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let keys: Vec<&[u8]> = starts.zip(&self.ends).map(|(&start, &end)| &self.keys[start..end]).collect();
        let mut out = Vec::new();
        self.policy.create(&keys, &mut out);
        out
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

    #[test]
    fn a_whole_filter_takes_each_key_once() {
        let policy: Arc<dyn FilterPolicy> = Arc::new(Bloom::new(10));
        let keys: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];
        let mut maker = WholeMaker::new(policy.clone());
        for key in keys {
            maker.add(key);
            maker.add(key);
        }
        let mut want = Vec::new();
        policy.create(&keys, &mut want);
        assert_eq!(maker.finish(), want);
    }
}
