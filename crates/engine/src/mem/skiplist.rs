//! A lock-free skip list for concurrent readers and writers: the sorted map of a memtable. The
//! nodes are in an [`Arena`]. They are never moved, changed or removed.
//!
//! ```text
//! level 1:  head ──────────▶ b ──────────▶ nil
//! level 0:  head ──▶ a ────▶ b ──▶ c ────▶ nil      links: to the next node of the level
//!           head ◀── a ◀──── b ◀── c                back links: to some earlier node
//! ```
//! A node is published in this order:
//! 1. The insert sets the node's own links.
//! 2. On each level, from the bottom level up, the insert links the node after its predecessor with
//!    a compare-and-swap.
//! 3. The insert sets the back link of the node's successor.
//!
//! A reader that follows a link sees an initialised node. A back link leads to *some* node before
//! its own node: to the predecessor or, during concurrent inserts, to a node a little before the
//! predecessor. To move backward, a reader follows the back link and then moves forward to the
//! predecessor.
use super::arena::{Arena, Link, NodeId};
use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::cmp::Ordering;
use terrace_format::{KeyOrder, key::TRAILER_BYTES};
use terrace_storage::Held;

const HEIGHT_MAX: usize = 12;
/// The number of random bits that decide whether a node gets one more link. With two bits, one
/// node in four has a second link.
const BITS_PER_LINK: u32 = 2;

/// Returns the number of links of the node with sequence number `seq`, from 1 to 12. Each further
/// link is four times rarer. The result depends only on the sequence number. So writers share no
/// random generator, and a writer knows the height before the insert.
pub fn height(seq: u64) -> usize {
    // These are the steps of the random generator splitmix64, without its counter.
    let mixed = (seq ^ (seq >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let bounded = (mixed >> 31) | 1 << (BITS_PER_LINK as usize * (HEIGHT_MAX - 1));
    1 + (bounded.trailing_zeros() / BITS_PER_LINK) as usize
}

/// The internal key that an insert or a lookup searches, split into its parts.
struct Target<'a> {
    user: &'a [u8],
    trailer: u64,
    /// The first 16 bytes of the user key, as a big-endian number; `None` for shorter keys.
    head: Option<u128>,
}

impl<'a> Target<'a> {
    fn new(user: &'a [u8], trailer: u64) -> Target<'a> {
        Target { user, trailer, head: head(user) }
    }

    fn of(internal: &'a [u8]) -> Target<'a> {
        let (user, trailer) = internal.split_last_chunk::<TRAILER_BYTES>().expect("a whole internal key");
        Target::new(user, u64::from_le_bytes(*trailer))
    }
}

fn head(user: &[u8]) -> Option<u128> {
    user.first_chunk::<{ size_of::<u128>() }>().map(|bytes| u128::from_be_bytes(*bytes))
}

/// The position of a key in the list: for each level, the last node before the key and the
/// successor of this node.
struct Splice {
    before: [NodeId; HEIGHT_MAX],
    after: [Option<NodeId>; HEIGHT_MAX],
}

/// A skip list whose keys are internal keys. Each key is inserted once.
pub struct SkipList {
    arena: Arena,
    order: KeyOrder,
    bytewise: bool, // whether `order` is bytewise
    head: NodeId,
    /// The number of levels in use.
    height: AtomicUsize,
    /// For each level, the last node, or a node a little before it. An insert of a key that is
    /// larger than all others starts here.
    tails: [Link; HEIGHT_MAX],
}

impl SkipList {
    /// Makes an empty list. `held` reports its memory to the memory budget.
    pub fn new(order: KeyOrder, held: Held) -> SkipList {
        let arena = Arena::new(held);
        let head = arena.node(HEIGHT_MAX, &[], 0, [&[]; 2]);
        let tails: [Link; HEIGHT_MAX] = Default::default();
        tails.iter().for_each(|tail| tail.set(Some(head)));
        SkipList {
            bytewise: matches!(order, KeyOrder::Bytewise),
            arena,
            order,
            head,
            height: AtomicUsize::new(1),
            tails,
        }
    }

    /// Returns the order of the keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Inserts an entry whose node has `height` links. If the list already has the internal key,
    /// the list does not change.
    #[inline(always)] // into both callers; the call cost 40 instructions per put
    pub fn insert(&self, user: &[u8], trailer: u64, value: [&[u8]; 2], height: usize) {
        let target = Target::new(user, trailer);
        if self.height.load(Relaxed) < height {
            // A reader may see the new height before the node is linked. It then finds empty links
            // at the head of the new levels.
            self.height.fetch_max(height, Relaxed);
        }
        let mut splice = Splice { before: [self.head; HEIGHT_MAX], after: [None; HEIGHT_MAX] };
        if !self.is_at_end(&target, height, &mut splice) {
            self.find(&target, |level, before, after| (splice.before[level], splice.after[level]) = (before, after));
        }
        let same = |node| self.key(node).ends_with(&trailer.to_le_bytes()) && self.compare(node, &target).is_eq();
        if splice.after[0].is_some_and(same) {
            return; // a damaged WAL may have a record twice
        }
        let node = self.arena.node(height, user, trailer, value);
        for level in 0..height {
            let after = self.link_in(node, &target, level, splice.before[level], splice.after[level]);
            match after {
                None => self.tails[level].set(Some(node)),
                Some(after) if level == 0 => self.arena.back(after).set(Some(node)),
                Some(_) => (),
            }
        }
    }

    /// Links `node` into `level` after the node `before`. If concurrent inserts have added nodes
    /// after `before`, links `node` after those of them whose keys precede its key. Returns the
    /// successor of `node`.
    #[inline]
    fn link_in(
        &self,
        node: NodeId,
        target: &Target<'_>,
        level: usize,
        mut before: NodeId,
        mut after: Option<NodeId>,
    ) -> Option<NodeId> {
        loop {
            self.link(node, level).set(after);
            if level == 0 {
                self.arena.back(node).set(Some(before));
            }
            if self.link(before, level).replace(after, node) {
                return after;
            }
            after = self.link(before, level).get();
            while let Some(next) = after.filter(|next| self.is_before(*next, target)) {
                (before, after) = (next, self.link(next, level).get());
            }
        }
    }

    /// Returns the first node at or after `target`.
    pub fn seek(&self, target: &[u8]) -> Option<NodeId> {
        self.find(&Target::of(target), |_, _, _| ())
    }

    /// Returns the first node.
    pub fn first(&self) -> Option<NodeId> {
        self.next(self.head)
    }

    /// Returns the last node.
    pub fn last(&self) -> Option<NodeId> {
        self.last_before(self.tails[0].get()?, None)
    }

    /// Returns the node after `id`.
    pub fn next(&self, id: NodeId) -> Option<NodeId> {
        self.link(id, 0).get()
    }

    /// Returns the node before `id`.
    pub fn prev(&self, id: NodeId) -> Option<NodeId> {
        self.last_before(self.arena.back(id).get()?, Some(id))
    }

    /// Walks forward from `at` and returns the last node before `end`. Returns `None` if this node
    /// is the head of the list, which has no entry.
    fn last_before(&self, mut at: NodeId, end: Option<NodeId>) -> Option<NodeId> {
        while let Some(next) = self.next(at).filter(|next| Some(*next) != end) {
            at = next;
        }
        (at != self.head).then_some(at)
    }

    /// Returns the node's internal key.
    pub fn key(&self, id: NodeId) -> &[u8] {
        self.arena.key(id)
    }

    /// Returns the node's value.
    pub fn value(&self, id: NodeId) -> &[u8] {
        self.arena.value(id)
    }

    /// Returns whether `target` is after all nodes of the lowest `levels` levels. If so, sets
    /// `splice` to the end of the list, so that inserts of ascending keys need no search.
    #[inline]
    fn is_at_end(&self, target: &Target<'_>, levels: usize, splice: &mut Splice) -> bool {
        (0..levels).all(|level| {
            let tail = self.tails[level].get().unwrap_or(self.head);
            splice.before[level] = tail;
            self.link(tail, level).get().is_none() && (tail == self.head || self.is_before(tail, target))
        })
    }

    /// Returns the first node at or after `target`. Calls `record` for every level, from the top
    /// level down, with the last node before `target` and with its successor.
    fn find(&self, target: &Target<'_>, mut record: impl FnMut(usize, NodeId, Option<NodeId>)) -> Option<NodeId> {
        let mut at = self.head;
        // `after` is a node that the search already knows to be at or after the target. The search
        // does not compare it again on the next lower level.
        let mut after = None;
        for level in (0..self.height.load(Relaxed)).rev() {
            loop {
                let next = self.link(at, level).get();
                match next {
                    Some(node) if next != after && self.is_before(node, target) => at = node,
                    _ => {
                        after = next;
                        break;
                    }
                }
            }
            record(level, at, after);
        }
        after
    }

    /// Returns whether the node's key is before `target`. Most bytewise keys differ in their first
    /// 16 bytes; for these the comparison costs two loads and no call.
    #[inline]
    fn is_before(&self, node: NodeId, target: &Target<'_>) -> bool {
        if self.bytewise
            && let (Some(a), Some(b)) = (head(self.arena.user(node)), target.head)
            && a != b
        {
            return a < b;
        }
        self.compare(node, target).is_lt()
    }

    #[inline(never)]
    fn compare(&self, node: NodeId, target: &Target<'_>) -> Ordering {
        let key = Target::of(self.key(node));
        // Of two entries of one user key, the newer one comes first.
        self.order.user(key.user, target.user).then_with(|| target.trailer.cmp(&key.trailer))
    }

    /// Returns the node's link at `level`. The function is private, because its callers must
    /// guarantee that the node has a link at this level. A caller may pass a level on which it
    /// found the node, any lower level, or a level below the height with which the node was made.
    /// The head has links on all levels. The tail of a level was linked on that level, so it has a
    /// link there.
    #[allow(unsafe_code)]
    fn link(&self, node: NodeId, level: usize) -> &Link {
        // SAFETY: the callers guarantee that the node has a link at `level`; see the doc comment of
        // this function.
        unsafe { self.arena.link(node, level) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        collections::BTreeMap,
        sync::atomic::{AtomicU64, Ordering::SeqCst},
        thread,
    };
    use terrace_format::{Kind, SeqNo, key};
    use terrace_storage::{Budget, Holder, StorageConfig};

    fn user(n: u64) -> Vec<u8> {
        format!("{:06}", n * 7919 % 100_003).into_bytes()
    }

    fn internal(n: u64) -> Vec<u8> {
        key::encode(&user(n), SeqNo(n + 1), Kind::Put)
    }

    fn add(list: &SkipList, n: u64) {
        let internal = internal(n);
        let target = Target::of(&internal);
        list.insert(target.user, target.trailer, [&[], &n.to_le_bytes()], height(n));
    }

    fn number(list: &SkipList, at: NodeId) -> u64 {
        u64::from_le_bytes(list.value(at).try_into().expect("eight bytes"))
    }

    fn walk(mut at: Option<NodeId>, step: impl Fn(NodeId) -> Option<NodeId>) -> Vec<NodeId> {
        let mut seen = Vec::new();
        while let Some(id) = at {
            seen.push(id);
            at = step(id);
        }
        seen
    }

    fn uncounted() -> Held {
        Budget::new(&StorageConfig::default()).hold(Holder::Memtables)
    }

    #[test]
    fn walks_both_ways_like_a_sorted_map() {
        let list = SkipList::new(KeyOrder::Bytewise, uncounted());
        assert_eq!((list.first(), list.last()), (None, None));
        let model: BTreeMap<Vec<u8>, u64> = (0..5000).map(|n| (user(n), n)).collect();
        (0..5000).chain(17..19).for_each(|n| add(&list, n)); // existing keys stay unchanged
        let forward = walk(list.first(), |id| list.next(id));
        let backward = walk(list.last(), |id| list.prev(id));
        assert!(forward.iter().eq(backward.iter().rev()));
        let found = forward.iter().map(|id| (key::user_key(list.key(*id)).to_vec(), number(&list, *id)));
        assert!(found.eq(model.clone()));
        for probe in [0, 17, 9999, 100_002, 200_000] {
            let target = key::lookup(format!("{probe:06}").as_bytes(), SeqNo::MAX);
            let found = list.seek(&target).map(|id| number(&list, id));
            assert_eq!(found, model.range(key::user_key(&target).to_vec()..).next().map(|(_, n)| *n), "{probe}");
        }
    }

    #[test]
    fn ascending_and_descending_keys_of_any_length_keep_their_order() {
        for (ascending, key_bytes) in [(true, 0), (false, 0), (true, 5), (true, 14), (false, 15), (false, 40)] {
            let list = SkipList::new(KeyOrder::Bytewise, uncounted());
            for n in 0..1000u64 {
                let k = if ascending { n } else { 999 - n };
                let user = [&vec![7; key_bytes][..], &(k as u16).to_be_bytes()].concat();
                list.insert(&user, n << 8, [&[1], &vec![1; (n % 50) as usize * 100]], height(n));
            }
            let keys: Vec<_> = walk(list.first(), |id| list.next(id)).iter().map(|id| list.key(*id).to_vec()).collect();
            assert!(keys.len() == 1000 && keys.is_sorted_by(|a, b| list.order().internal(a, b).is_lt()));
        }
    }

    #[test]
    fn each_further_link_is_a_quarter_as_frequent() {
        let mut counts = [0u32; HEIGHT_MAX + 1];
        (0..1 << 16).for_each(|seq| counts[height(seq)] += 1);
        assert_eq!(counts[0], 0);
        for links in 1..5 {
            let expected = (1 << 16) / 4u32.pow(links) * 3;
            assert!(counts[links as usize].abs_diff(expected) < expected / 5, "{counts:?}");
        }
    }

    /// Tests concurrent writers that insert at the same positions of the skip list, together with
    /// readers. No node may be lost. Readers must see initialised nodes in key order, in both
    /// directions of iteration.
    #[test]
    fn readers_see_sorted_nodes_while_writers_add() {
        const EACH: u64 = if cfg!(miri) { 100 } else { 10_000 };
        const WRITERS: u64 = 3;
        let (list, done) = (SkipList::new(KeyOrder::Bytewise, uncounted()), AtomicU64::new(0));
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (list, done) = (&list, &done);
                scope.spawn(move || {
                    for n in 0..EACH {
                        add(list, n * WRITERS + writer);
                        done.fetch_add(1, SeqCst);
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(|| {
                    let sound = |pair: &[NodeId]| list.order().internal(list.key(pair[0]), list.key(pair[1])).is_lt();
                    while done.load(SeqCst) < EACH * WRITERS {
                        let at_least = done.load(SeqCst) as usize;
                        let forward = walk(list.first(), |id| list.next(id));
                        assert!(forward.len() >= at_least && forward.windows(2).all(sound));
                        assert!(forward.iter().all(|id| list.key(*id) == internal(number(&list, *id))));
                        let mut backward = walk(list.last(), |id| list.prev(id));
                        backward.reverse();
                        assert!(backward.len() >= at_least && backward.windows(2).all(sound));
                    }
                });
            }
        });
        assert_eq!(walk(list.first(), |id| list.next(id)).len() as u64, EACH * WRITERS);
        assert_eq!(walk(list.last(), |id| list.prev(id)).len() as u64, EACH * WRITERS);
    }
}
