//! Checks that an SSTable file is the table that the manifest describes, by its smallest and
//! largest key.
//!
//! For nearly every table the check needs only parts that are already in memory. The index key of
//! the last block is derived from the table's last key, and the properties of tables that Terrace
//! wrote contain the range of sequence numbers. Data blocks are read only if these parts do not
//! match the manifest, and for tables without properties.
use super::{ByteSource, index::Partition, stored_block::read_contents, tail::Tail};
use crate::{Error, Result, tables::TableMeta};
use std::sync::Arc;
use terrace_format::{
    Corrupt, KeyOrder,
    block::{Block, BlockCursor},
    key::{self, TRAILER_BYTES},
};

/// The smallest and the largest internal key of a table.
type Ends = [Vec<u8>; 2];

/// Returns an error if the table's bounds differ from those in `meta`. If `meta` has no bounds,
/// every table is accepted.
pub(super) fn check(source: &dyn ByteSource, tail: &Tail, order: &KeyOrder, meta: &TableMeta) -> Result<()> {
    let index = &*tail.index.partition_at(source, order, 0)?;
    let bounds = [&meta.smallest, &meta.largest];
    if bounds.iter().any(|bound| bound.len() < TRAILER_BYTES) || fits(tail, index, order, bounds) {
        return Ok(());
    }
    // If the blocks are corrupt, the check accepts the table, because a later read of the blocks
    // reports the corruption.
    let Some(entries) = ends(source, index, order)? else { return Ok(()) };
    let ranges = tail.range_tombstones.as_ref().and_then(|ranges| ranges.bounds());
    for (at, name) in ["first", "last"].into_iter().enumerate() {
        let own = entries.iter().chain(&ranges).map(|ends| &ends[at]).reduce(|a, b| {
            let a_first = order.internal(a, b).is_lt();
            if a_first == (at == 0) { a } else { b }
        });
        let wrong = match own {
            None => "the table is empty".to_string(),
            Some(own) if order.internal(own, bounds[at]).is_ne() => difference(name, own, bounds[at]),
            Some(_) => continue,
        };
        return Err(Error::Corrupt { what: "table", object: source.name().to_string(), offset: 0, detail: wrong });
    }
    Ok(())
}

/// Describes the difference between the table's smallest or largest key (`name`) and the
/// manifest's.
fn difference(name: &str, own: &[u8], bound: &[u8]) -> String {
    let [own, bound] = [own, bound].map(key::apart);
    let (is, says) = (own.user.escape_ascii(), bound.user.escape_ascii());
    if own.user == bound.user {
        return format!("its {name} key is {is} of sequence {}, the manifest says of sequence {}", own.seq, bound.seq);
    }
    format!("its {name} key is {is}, the manifest says {says}: the file holds another table")
}

/// Returns whether the parts of the table that are in memory are consistent with the smallest and
/// largest key in the manifest.
fn fits(tail: &Tail, index: &Partition, order: &KeyOrder, [smallest, largest]: [&Vec<u8>; 2]) -> bool {
    let Some(properties) = &tail.properties else { return false };
    let ranges = tail.range_tombstones.as_ref().and_then(|ranges| ranges.bounds());
    let is_range_bound = |at: usize, bound: &[u8]| ranges.as_ref().is_some_and(|ends| ends[at] == bound);
    let (blocks, oldest, newest) = (index.end(), properties.sequences.0, properties.sequences.1);
    let seq_in_range = |bound: &[u8]| (oldest..=newest).contains(&key::apart(bound).seq);
    let begins = || blocks > 0 && seq_in_range(smallest) && order.internal(smallest, index.key(0)).is_le();
    let ends = || {
        let mut listed = largest.clone();
        order.shorten_above(&mut listed);
        let in_last = blocks < 2 || order.internal(index.key(blocks - 2), largest).is_lt();
        blocks > 0 && seq_in_range(largest) && in_last && listed == index.key(blocks - 1)
    };
    (is_range_bound(0, smallest) || begins()) && (is_range_bound(1, largest) || ends())
}

/// Reads the smallest and the largest key of the table's point entries. The inner `None` means
/// that there are no point entries. The outer `None` means that the blocks with these entries are
/// corrupt.
fn ends(source: &dyn ByteSource, index: &Partition, order: &KeyOrder) -> Result<Option<Option<Ends>>> {
    let end = |at: usize, last: bool| -> Result<Option<Vec<u8>>> {
        let Some(handle) = index.handle(at) else { return Ok(None) };
        let read = |contents| {
            let mut data = BlockCursor::new(Arc::new(Block::of_sorted_keys(contents, order)?));
            if last {
                data.seek_last()?
            } else {
                data.seek_first()?
            }
            Ok::<_, Corrupt>(data.valid().then(|| data.key().to_vec()))
        };
        read(read_contents(source, handle, true)?).map_err(|found| Error::corrupt(source.name(), handle.offset, found))
    };
    let ends = end(0, false).and_then(|first| Ok((first, end(index.end().wrapping_sub(1), true)?)));
    match ends {
        Err(Error::Corrupt { .. }) => Ok(None),
        ends => ends.map(|(first, last)| Some(first.zip(last).map(|(first, last)| [first, last]))),
    }
}
