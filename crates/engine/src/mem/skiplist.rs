//! A skip list that readers walk without a lock while one writer adds to it. No unsafe code: nodes are named by
//! index, never move and never change; a node is published by storing its index in its neighbours' links.
//!
//! ```text
//! slot:   chunk 0 (64 nodes) | chunk 1 (128) | chunk 2 (256) | …     index 0 is the head and means "none" in a link
//! node:   { internal key ++ value, key length, prev, next at level 0, next at higher levels }
//! ```
//! Order of publication: a node's slot is set, then its own links, then (Release) the links of its predecessors from
//! the bottom up, then its successor's back link. A reader that follows a link (Acquire) sees a whole node. A back
//! link may lag behind: walking back can miss a node that is being inserted, which no reader is yet entitled to see,
//! because sequences become visible only after their insert is over.
use parking_lot::Mutex;
use std::{
    cmp::Ordering,
    sync::{
        OnceLock,
        atomic::{
            AtomicU32, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
};
use terrace_format::KeyOrder;

/// Names a node; never 0.
pub type NodeId = u32;

const HEAD: u32 = 0;
const HEIGHT_MAX: usize = 12;
/// One node in four reaches the next height, as in LevelDB.
const BRANCHING: u32 = 4;
const FIRST_CHUNK: usize = 64;
const CHUNKS: usize = 26; // 64 · (2^26 − 1) nodes: a memtable of 4 GiB holds fewer

struct Node {
    bytes: Box<[u8]>, // internal key, then value
    key_bytes: usize,
    prev: AtomicU32,
    next: AtomicU32,
    higher: Box<[AtomicU32]>, // links at heights 1.. ; empty, and not allocated, for three nodes in four
}

impl Node {
    fn link(&self, height: usize) -> &AtomicU32 {
        if height == 0 { &self.next } else { &self.higher[height - 1] }
    }

    fn key(&self) -> &[u8] {
        &self.bytes[..self.key_bytes]
    }
}

type Chunk = Box<[OnceLock<Node>]>;

/// The list. Keys are internal keys; each is inserted once.
pub struct SkipList {
    order: KeyOrder,
    chunks: [OnceLock<Chunk>; CHUNKS],
    height: AtomicUsize,
    len: AtomicU32,
    writer: Mutex<u64>, // state of the height generator; held for a whole insert, so writers take turns
}

impl SkipList {
    /// An empty list.
    pub fn new(order: KeyOrder) -> SkipList {
        let list = SkipList {
            order,
            chunks: [const { OnceLock::new() }; CHUNKS],
            height: AtomicUsize::new(1),
            len: AtomicU32::new(0),
            writer: Mutex::new(0x9e37_79b9_7f4a_7c15),
        };
        list.place(HEAD, Box::default(), 0, HEIGHT_MAX);
        list
    }

    /// The order of its keys.
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Entries inserted.
    pub fn len(&self) -> u32 {
        self.len.load(Acquire)
    }

    /// Adds an entry and returns its node's height. A key that is there stays as it is: then the height is 0.
    pub fn insert(&self, key: &[u8], value: &[u8]) -> usize {
        let mut rng = self.writer.lock();
        let height = random_height(&mut rng);
        let mut before = [HEAD; HEIGHT_MAX];
        let after = self.find(key, Some(&mut before));
        if after.is_some_and(|node| self.key(node) == key) {
            return 0; // a damaged log may say the same thing twice
        }
        if height > self.height.load(Relaxed) {
            self.height.store(height, Relaxed); // a reader that sees it early finds empty links at the head
        }

        let id = self.len.load(Relaxed) + 1;
        let mut bytes = Vec::with_capacity(key.len() + value.len());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
        let node = self.place(id, bytes.into_boxed_slice(), key.len(), height);
        node.prev.store(before[0], Relaxed);
        for (h, &p) in before.iter().enumerate().take(height) {
            let link = self.node(p).link(h);
            node.link(h).store(link.load(Relaxed), Relaxed);
            link.store(id, Release);
        }
        self.node(after.unwrap_or(HEAD)).prev.store(id, Release); // the head's back link is the last node
        self.len.store(id, Release);
        height
    }

    /// The first node whose key is at or after `target`.
    pub fn seek(&self, target: &[u8]) -> Option<NodeId> {
        self.find(target, None)
    }

    /// The first node.
    pub fn first(&self) -> Option<NodeId> {
        some(self.node(HEAD).next.load(Acquire))
    }

    /// The last node.
    pub fn last(&self) -> Option<NodeId> {
        some(self.node(HEAD).prev.load(Acquire))
    }

    /// The node after `id`.
    pub fn next(&self, id: NodeId) -> Option<NodeId> {
        some(self.node(id).next.load(Acquire))
    }

    /// The node before `id`.
    pub fn prev(&self, id: NodeId) -> Option<NodeId> {
        some(self.node(id).prev.load(Acquire))
    }

    /// The node's internal key.
    pub fn key(&self, id: NodeId) -> &[u8] {
        self.node(id).key()
    }

    /// The node's value.
    pub fn value(&self, id: NodeId) -> &[u8] {
        let node = self.node(id);
        &node.bytes[node.key_bytes..]
    }

    /// The first node at or after `target`, and on request the last node before it at each height.
    fn find(&self, target: &[u8], mut before: Option<&mut [u32; HEIGHT_MAX]>) -> Option<NodeId> {
        let mut at = HEAD;
        for height in (0..self.height.load(Relaxed)).rev() {
            let next = loop {
                let next = self.node(at).link(height).load(Acquire);
                if next == HEAD || self.order.internal(self.key(next), target) != Ordering::Less {
                    break next;
                }
                at = next;
            };
            if let Some(before) = before.as_deref_mut() {
                before[height] = at;
            }
            if height == 0 {
                return some(next);
            }
        }
        None
    }

    fn node(&self, id: u32) -> &Node {
        let (chunk, offset) = position(id);
        self.chunks[chunk].get().and_then(|chunk| chunk[offset].get()).expect("a link names a node that is placed")
    }

    fn place(&self, id: u32, bytes: Box<[u8]>, key_bytes: usize, height: usize) -> &Node {
        let (chunk, offset) = position(id);
        let chunk = self.chunks[chunk].get_or_init(|| (0..FIRST_CHUNK << chunk).map(|_| OnceLock::new()).collect());
        let higher = (1..height).map(|_| AtomicU32::new(HEAD)).collect();
        chunk[offset].get_or_init(|| Node {
            bytes,
            key_bytes,
            prev: AtomicU32::new(HEAD),
            next: AtomicU32::new(HEAD),
            higher,
        })
    }
}

fn some(id: u32) -> Option<NodeId> {
    (id != HEAD).then_some(id)
}

/// Chunk k holds `FIRST_CHUNK << k` nodes, so the chunk of a node is the magnitude of its shifted index.
fn position(id: u32) -> (usize, usize) {
    let shifted = id as usize + FIRST_CHUNK;
    let chunk = (shifted.ilog2() - FIRST_CHUNK.ilog2()) as usize;
    (chunk, shifted - (FIRST_CHUNK << chunk))
}

fn random_height(state: &mut u64) -> usize {
    let mut height = 1;
    while height < HEIGHT_MAX {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        if !((*state >> 32) as u32).is_multiple_of(BRANCHING) {
            break;
        }
        height += 1;
    }
    height
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use terrace_format::{Kind, SeqNo, key};

    fn internal(n: u64) -> Vec<u8> {
        key::encode(format!("{:06}", n * 7919 % 10_007).as_bytes(), SeqNo(n + 1), Kind::Put)
    }

    #[test]
    fn walks_both_ways_like_a_sorted_map() {
        let list = SkipList::new(KeyOrder::Bytewise);
        let mut model = BTreeMap::new();
        assert_eq!((list.first(), list.last()), (None, None));
        for n in 0..5000 {
            list.insert(&internal(n), &n.to_le_bytes());
            model.insert(key::user_key(&internal(n)).to_vec(), n.to_le_bytes());
        }
        let (mut forward, mut backward) = (Vec::new(), Vec::new());
        let mut at = list.first();
        while let Some(id) = at {
            forward.push((key::user_key(list.key(id)).to_vec(), list.value(id).try_into().unwrap()));
            at = list.next(id);
        }
        let mut at = list.last();
        while let Some(id) = at {
            backward.push((key::user_key(list.key(id)).to_vec(), list.value(id).try_into().unwrap()));
            at = list.prev(id);
        }
        backward.reverse();
        let expected: Vec<(Vec<u8>, [u8; 8])> = model.into_iter().collect();
        assert_eq!(forward, expected);
        assert_eq!(backward, expected);
        for probe in [0, 17, 9999, 20_000] {
            let target = key::lookup(format!("{probe:06}").as_bytes(), SeqNo::MAX);
            let found = list.seek(&target).map(|id| key::user_key(list.key(id)).to_vec());
            let want = expected.iter().map(|(k, _)| k).find(|k| k[..] >= *key::user_key(&target)).cloned();
            assert_eq!(found, want, "{probe}");
        }
    }

    /// Readers see whole nodes in order while a writer adds.
    #[test]
    fn readers_see_sorted_prefixes_while_a_writer_adds() {
        let list = SkipList::new(KeyOrder::Bytewise);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..20_000).for_each(|n| {
                    list.insert(&internal(n), &n.to_le_bytes());
                })
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while list.len() < 20_000 {
                        let at_least = list.len();
                        let (mut seen, mut at, mut last) = (0, list.first(), None::<NodeId>);
                        while let Some(id) = at {
                            let value = u64::from_le_bytes(list.value(id).try_into().unwrap());
                            assert_eq!(list.key(id), internal(value));
                            assert!(last.is_none_or(|l| list.order().internal(list.key(l), list.key(id)).is_lt()));
                            (seen, last, at) = (seen + 1, at, list.next(id));
                        }
                        assert!(seen >= at_least);
                    }
                });
            }
        });
    }
}
