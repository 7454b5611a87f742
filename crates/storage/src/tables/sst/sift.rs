//! Which entries of a damaged table can be trusted: its checksums may be right, and its keys still wrong, as what a failing memory has
//! changed before the checksums were made.
//!
//! Most keys are taken to be right: of keys that are not in order, as few as can be are left out so that the rest is. The values and the
//! other keys of their block are not touched by that.
use crate::tables::Loss;
use std::{cmp::Ordering, sync::Arc};
use terrace_format::{
    Corrupt, KeyOrder,
    block::{Block, BlockBuilder, BlockCursor, Bytes},
    footer::Handle,
    key::{self, TRAILER_BYTES},
};

/// Keys share what they begin with, so a small block may stand for long ones; beyond this many times its own size they are not put
/// together.
const EXPANSION_MAX: usize = 64;
/// Losses of one block that are listed one by one.
const LISTED_MAX: usize = 16;
const RESTART_INTERVAL: usize = 16;

/// Which of `items` make up a longest part of them that ascends, as `less` says.
pub(super) fn ascending<T>(items: &[T], less: impl Fn(&T, &T) -> bool) -> Vec<bool> {
    let mut tails: Vec<usize> = Vec::new(); // of parts of each length, the one that ends lowest
    let mut before: Vec<Option<usize>> = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let length = tails.partition_point(|tail| less(&items[*tail], item));
        before.push(length.checked_sub(1).map(|length| tails[length]));
        if length == tails.len() {
            tails.push(at);
        } else {
            tails[length] = at;
        }
    }
    let (mut kept, mut next) = (vec![false; items.len()], tails.last().copied());
    while let Some(at) = next {
        kept[at] = true;
        next = before[at];
    }
    kept
}

/// Between which keys the entries of a block lie: behind `last`, at or before `listed`. Empty keys bound nothing.
pub(super) struct Between<'a> {
    pub order: &'a KeyOrder,
    pub last: &'a [u8],
    pub listed: &'a [u8],
    /// Of the table, as the manifest has them.
    pub bounds: &'a [Vec<u8>; 2],
}

/// What is left of a block.
pub(super) struct Sifted {
    /// Stands on the first entry; `None` if none is left.
    pub block: Option<BlockCursor>,
    /// The last key.
    pub last: Vec<u8>,
    pub lost: Vec<Loss>,
    pub kept: usize,
    pub left_out: usize,
}

/// An entry as it was found.
struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
    /// Why it cannot be.
    wrong: Option<String>,
}

/// Takes out of the block at `handle` the entries that cannot be.
pub(super) fn sift(between: &Between<'_>, handle: Handle, contents: Bytes) -> Result<Sifted, Corrupt> {
    let mut entries = decode(contents)?;
    for entry in &mut entries {
        entry.wrong = between.wrong(&entry.key);
    }
    let sound: Vec<usize> = (0..entries.len()).filter(|at| entries[*at].wrong.is_none()).collect();
    let kept = ascending(&sound, |a, b| between.order.internal(&entries[*a].key, &entries[*b].key).is_lt());
    for (&at, _) in sound.iter().zip(kept).filter(|(_, kept)| !kept) {
        entries[at].wrong = Some("it does not follow the entries around it".into());
    }
    forget_doubles(between.order, &mut entries);
    let lost = losses(between, handle, &entries);
    let mut builder = BlockBuilder::new(RESTART_INTERVAL);
    let (mut last, mut count) = (Vec::new(), 0);
    for entry in entries.iter().filter(|entry| entry.wrong.is_none()) {
        builder.add(&entry.key, &entry.value);
        last.clone_from(&entry.key);
        count += 1;
    }
    let mut block = None;
    if count > 0 {
        let mut cursor = BlockCursor::new(Arc::new(Block::of_internal_keys(builder.finish().to_vec())?));
        cursor.seek_first()?;
        block = Some(cursor);
    }
    Ok(Sifted { block, last, lost, kept: count, left_out: entries.len() - count })
}

/// Of two entries with one key and two values neither is believed.
fn forget_doubles(order: &KeyOrder, entries: &mut [Entry]) {
    let (left_out, kept): (Vec<usize>, Vec<usize>) = (0..entries.len()).partition(|at| entries[*at].wrong.is_some());
    for at in left_out {
        let Entry { key, value, .. } = &entries[at];
        if key.len() < TRAILER_BYTES {
            continue;
        }
        let Ok(found) = kept.binary_search_by(|kept| order.internal(&entries[*kept].key, key)) else { continue };
        let found = kept[found];
        if entries[found].value != *value {
            entries[found].wrong = Some("another one has the same key and another value".into());
        }
    }
}

/// All entries of a block, whatever their keys are.
fn decode(contents: Bytes) -> Result<Vec<Entry>, Corrupt> {
    let key_bytes_max = contents.len().saturating_mul(EXPANSION_MAX);
    let mut cursor = BlockCursor::new(Arc::new(Block::new(contents)?));
    let (mut entries, mut key_bytes) = (Vec::new(), 0);
    cursor.seek_first()?;
    while cursor.valid() {
        key_bytes += cursor.key().len();
        if key_bytes > key_bytes_max {
            return Err(Corrupt::new("block", 0, format!("its keys take more than {key_bytes_max} bytes")));
        }
        entries.push(Entry { key: cursor.key().to_vec(), value: cursor.value().to_vec(), wrong: None });
        cursor.next()?;
    }
    Ok(entries)
}

impl Between<'_> {
    /// Why there can be no such key, if there cannot.
    fn wrong(&self, key: &[u8]) -> Option<String> {
        if let Err(found) = key::parse(key) {
            return Some(found.detail);
        }
        let is = |bound: &[u8], how: Ordering| !bound.is_empty() && self.order.internal(key, bound) == how;
        if is(self.last, Ordering::Less) || is(self.last, Ordering::Equal) {
            return Some("it does not lie behind the entries before its block".into());
        }
        if is(&self.bounds[0], Ordering::Less) || is(&self.bounds[1], Ordering::Greater) {
            return Some("it lies outside of what the manifest says of the table".into());
        }
        is(self.listed, Ordering::Greater).then(|| "it lies behind the end of its block".into())
    }
}

/// What to say of the entries that were left out: where the right key of each would lie.
fn losses(between: &Between<'_>, handle: Handle, entries: &[Entry]) -> Vec<Loss> {
    let user = |key: &[u8]| (key.len() >= TRAILER_BYTES).then(|| key::user_key(key).to_vec());
    let wrong = || entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry, entry.wrong.as_ref()?)));
    let is_kept = |entry: &&Entry| entry.wrong.is_none();
    let loss = |at: usize, bytes: usize, reason: String| {
        let before = entries[..at].iter().rev().find(is_kept).map_or(between.last, |entry| &entry.key);
        let behind = entries[at..].iter().find(is_kept).map_or(between.listed, |entry| &entry.key);
        Loss { offset: handle.offset, bytes: bytes as u64, reason, from: user(before), to: user(behind) }
    };
    let bytes = |entry: &Entry| entry.key.len() + entry.value.len();
    if wrong().count() <= LISTED_MAX {
        let one = |(at, entry, why): (usize, &Entry, &String)| {
            let shown = user(&entry.key).unwrap_or_else(|| entry.key.clone());
            let reason = format!("entry {at} of the block, key '{}': {why}", shown.escape_ascii());
            loss(at, bytes(entry), reason)
        };
        return wrong().map(one).collect();
    }
    let (first, last) = (wrong().next().map_or(0, |(at, ..)| at), wrong().next_back().map_or(0, |(at, ..)| at));
    let all = wrong().map(|(_, entry, _)| bytes(entry)).sum();
    let reason = format!("{} entries of the block are out of order or no entries", wrong().count());
    vec![Loss { to: loss(last, 0, String::new()).to, ..loss(first, all, reason) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_as_can_be_are_left_out() {
        for (items, want) in [
            (&[][..], &[][..]),
            (&[1], &[1]),
            (&[1, 2, 3], &[1, 2, 3]),
            (&[1, 9, 2, 3], &[1, 2, 3]),
            (&[9, 1, 2, 3], &[1, 2, 3]),
            (&[1, 2, 0, 3], &[1, 2, 3]),
            (&[1, 2, 2, 3], &[1, 2, 3]),
            (&[5, 6, 1, 7, 2, 8], &[5, 6, 7, 8]),
        ] {
            let kept = ascending(items, |a, b| a < b);
            let left: Vec<i32> = items.iter().zip(kept).filter(|(_, kept)| *kept).map(|(item, _)| *item).collect();
            assert_eq!(left, want, "{items:?}");
        }
    }
}
