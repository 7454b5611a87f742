//! A sorted list that is divided into chunks, which versions share. A change copies the list of
//! chunks and the chunks that it affects, but no other elements.
//!
//! ```text
//! version n     [ a b c ] [ d e f ] [ g h i ]
//!                   │         ╎         │           removes e, adds x
//! version n+1   [ a b c ] [ d f x ] [ g h i ]       first and last chunk are shared
//! ```
//! Invariants: no chunk is empty. Each chunk has at most [`CHUNK_MAX`] elements. A chunk that a
//! change has made, together with the chunk before it, has more than half of [`CHUNK_MAX`]
//! elements, so there are few chunks.
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

/// Maximum number of elements in a chunk.
pub const CHUNK_MAX: usize = 256;

/// An immutable part of the list.
pub trait Chunk {
    /// The type of the elements.
    type Item: Clone;
    /// Returns the elements of the chunk.
    fn items(&self) -> &[Self::Item];
}

/// Returns the list `chunks` without the elements `removed` and with the elements `added`. The
/// function `make` makes a chunk of sorted elements. No two elements of the list may compare as
/// equal. The call copies only the list of chunks and the chunks that change.
pub fn replace<C: Chunk>(
    chunks: &[Arc<C>],
    removed: Vec<C::Item>,
    added: Vec<C::Item>,
    make: impl Fn(Vec<C::Item>) -> C,
    compare: impl Fn(&C::Item, &C::Item) -> Ordering,
) -> Vec<Arc<C>> {
    let place = |item: &C::Item| {
        let before = |chunk: &Arc<C>| chunk.items().last().is_some_and(|last| compare(last, item).is_lt());
        chunks.partition_point(before).min(chunks.len().saturating_sub(1))
    };
    // For each chunk, the elements that are removed from it and those that are added to it.
    let mut changes = BTreeMap::<usize, [Vec<C::Item>; 2]>::new();
    removed.into_iter().for_each(|item| changes.entry(place(&item)).or_default()[0].push(item));
    added.into_iter().for_each(|item| changes.entry(place(&item)).or_default()[1].push(item));
    let (mut out, mut rebuilt) = (Vec::with_capacity(chunks.len() + changes.len()), Vec::new());
    let first = chunks.is_empty().then_some(None);
    for (at, chunk) in first.into_iter().chain(chunks.iter().map(Some)).enumerate() {
        let items = chunk.map_or(&[][..], |chunk| chunk.items());
        match (changes.remove(&at), chunk) {
            (Some([mut removed, added]), _) => {
                removed.sort_by(&compare);
                let stays = |item: &&C::Item| removed.binary_search_by(|other| compare(other, item)).is_err();
                rebuilt.extend(items.iter().filter(stays).cloned());
                rebuilt.extend(added);
            }
            (None, Some(chunk)) => {
                emit(&mut out, &mut rebuilt, &make, &compare);
                out.push(chunk.clone());
            }
            (None, None) => {}
        }
    }
    emit(&mut out, &mut rebuilt, &make, &compare);
    out
}

/// Appends the elements `rebuilt` to `out` in chunks of about equal size. If the last chunk of
/// `out` is small, its elements are put into the new chunks too.
fn emit<C: Chunk>(
    out: &mut Vec<Arc<C>>,
    rebuilt: &mut Vec<C::Item>,
    make: &impl Fn(Vec<C::Item>) -> C,
    compare: &impl Fn(&C::Item, &C::Item) -> Ordering,
) {
    if rebuilt.is_empty() {
        return;
    }
    if let Some(small) = out.pop_if(|last| last.items().len() + rebuilt.len() <= CHUNK_MAX / 2) {
        rebuilt.extend(small.items().iter().cloned());
    }
    rebuilt.sort_by(compare);
    let count = rebuilt.len().div_ceil(CHUNK_MAX);
    let mut rest = std::mem::take(rebuilt);
    for left in (1..=count).rev() {
        let tail = rest.split_off(rest.len().div_ceil(left));
        out.push(Arc::new(make(rest)));
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_set, prelude::*};
    use std::collections::BTreeSet;

    struct Numbers(Vec<u32>);

    impl Numbers {
        fn new(items: Vec<u32>) -> Numbers {
            assert!(!items.is_empty() && items.len() <= CHUNK_MAX && items.is_sorted());
            Numbers(items)
        }
    }

    impl Chunk for Numbers {
        type Item = u32;

        fn items(&self) -> &[u32] {
            &self.0
        }
    }

    proptest! {
        #[test]
        fn a_change_equals_that_of_a_sorted_set(changes in prop::collection::vec((btree_set(0..9000u32, 0..1500), 0..4u32), 1..12)) {
            let (mut chunks, mut model) = (Vec::<Arc<Numbers>>::new(), BTreeSet::new());
            for (numbers, part) in changes {
                let removed: Vec<u32> = model.iter().copied().filter(|n| n % 4 < part && numbers.contains(&(n / 2))).collect();
                let added: Vec<u32> = numbers.into_iter().filter(|n| !model.contains(n)).collect();
                removed.iter().for_each(|n| assert!(model.remove(n)));
                model.extend(&added);
                chunks = replace(&chunks, removed, added, Numbers::new, Ord::cmp);
                prop_assert!(chunks.iter().flat_map(|chunk| chunk.items()).eq(&model));
            }
        }
    }

    #[test]
    fn a_change_copies_the_chunks_it_touches() {
        let all: Vec<u32> = (0..100_000).map(|n| 2 * n).collect();
        let chunks = replace::<Numbers>(&[], Vec::new(), all, Numbers::new, Ord::cmp);
        assert_eq!(chunks.len(), 100_000_usize.div_ceil(CHUNK_MAX));
        let changed = replace(&chunks, vec![80_000, 150_000], vec![7, 80_001], Numbers::new, Ord::cmp);
        let shared = changed.iter().filter(|chunk| chunks.iter().any(|old| Arc::ptr_eq(old, chunk))).count();
        // The first chunk was full before the change, so the change splits it.
        assert_eq!((changed.len(), shared), (chunks.len() + 1, chunks.len() - 3));
        let few = (0..chunks.len()).fold(chunks, |chunks, at| {
            let removed: Vec<u32> =
                (0..100_000).filter(|n| n / CHUNK_MAX as u32 == at as u32 && n % 100 > 0).map(|n| 2 * n).collect();
            replace(&chunks, removed, Vec::new(), Numbers::new, Ord::cmp)
        });
        assert!((4..=16).contains(&few.len()), "{} chunks for 1,000 elements", few.len());
    }
}
