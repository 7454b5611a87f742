//! Whether a table is the one that the manifest names: its first and last key are known to the manifest.
//!
//! What is in memory anyway decides for nearly every table: the key under which the index lists the last block is made of the last
//! key, and our tables say between which sequences their entries lie. Only where these do not fit, and in tables that do not say,
//! blocks are read.
use super::{
    ByteSource,
    tail::{Tail, read_contents},
};
use crate::{Error, Result, tables::TableMeta};
use std::sync::Arc;
use terrace_format::{
    Corrupt, KeyOrder,
    block::{Block, BlockCursor},
    key::{self, TRAILER_BYTES},
};

/// First and last internal key.
type Ends = [Vec<u8>; 2];

/// Refuses a table that is not the one `meta` tells of. One without bounds is any table.
pub(super) fn check(source: &dyn ByteSource, tail: &Tail, order: &KeyOrder, meta: &TableMeta) -> Result<()> {
    let bounds = [&meta.smallest, &meta.largest];
    if bounds.iter().any(|bound| bound.len() < TRAILER_BYTES) || fits(tail, order, bounds) {
        return Ok(());
    }
    let Some(entries) = ends(source, tail, order)? else { return Ok(()) }; // reading the damaged block reports it
    let ranges = tail.range_tombstones.as_ref().and_then(|ranges| ranges.bounds());
    for (at, name) in ["first", "last"].into_iter().enumerate() {
        let own = entries.iter().chain(&ranges).map(|ends| &ends[at]).reduce(|a, b| {
            let a_first = order.internal(a, b).is_lt();
            if a_first == (at == 0) { a } else { b }
        });
        let wrong = match own {
            None => "it is empty".to_string(),
            Some(own) if order.internal(own, bounds[at]).is_ne() => difference(name, own, bounds[at]),
            Some(_) => continue,
        };
        return Err(Error::Corrupt { what: "table", object: source.name().to_string(), offset: 0, detail: wrong });
    }
    Ok(())
}

/// How the key that is the `name` one of a table differs from the one in the manifest.
fn difference(name: &str, own: &[u8], bound: &[u8]) -> String {
    let [own, bound] = [own, bound].map(key::apart);
    let (is, says) = (own.user.escape_ascii(), bound.user.escape_ascii());
    if own.user == bound.user {
        return format!("its {name} key is {is} of sequence {}, the manifest says of sequence {}", own.seq, bound.seq);
    }
    format!("its {name} key is {is}, the manifest says {says}: it is another table than the one that belongs here")
}

/// Whether what is in memory proves that the table has these bounds, as far as it ever can.
fn fits(tail: &Tail, order: &KeyOrder, [smallest, largest]: [&Vec<u8>; 2]) -> bool {
    let Some(facts) = &tail.facts else { return false };
    let ranges = tail.range_tombstones.as_ref().and_then(|ranges| ranges.bounds());
    let of_range = |at: usize, bound: &[u8]| ranges.as_ref().is_some_and(|ends| ends[at] == bound);
    let (blocks, oldest, newest) = (tail.index.len(), facts.sequences.0, facts.sequences.1);
    let in_time = |bound: &[u8]| (oldest..=newest).contains(&key::apart(bound).seq);
    let begins = || blocks > 0 && in_time(smallest) && order.internal(smallest, tail.index.key(0)).is_le();
    let ends = || {
        let mut listed = largest.clone();
        order.shorten_above(&mut listed);
        let in_last = blocks < 2 || order.internal(tail.index.key(blocks - 2), largest).is_lt();
        blocks > 0 && in_time(largest) && in_last && listed == tail.index.key(blocks - 1)
    };
    (of_range(0, smallest) || begins()) && (of_range(1, largest) || ends())
}

/// The first and the last key of the entries, if there are any; `None` if the blocks that have them are damaged.
fn ends(source: &dyn ByteSource, tail: &Tail, order: &KeyOrder) -> Result<Option<Option<Ends>>> {
    let end = |at: usize, last: bool| -> Result<Option<Vec<u8>>> {
        let Some(handle) = tail.index.handle(at) else { return Ok(None) };
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
    let ends = end(0, false).and_then(|first| Ok((first, end(tail.index.len().wrapping_sub(1), true)?)));
    match ends {
        Err(Error::Corrupt { .. }) => Ok(None),
        ends => ends.map(|(first, last)| Some(first.zip(last).map(|(first, last)| [first, last]))),
    }
}
