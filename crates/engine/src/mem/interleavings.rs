//! Model checks of the memtable's skip list, run by `make loom`. The model checker Loom runs a few
//! threads in every interleaving, with every value that their loads may return.
//!
//! A check fails if a thread reads a node that is not initialised, or if the writes to a node are
//! not ordered before a read of it; see `Witness`.
use super::skiplist::SkipList;
use loom::{model::Builder, sync::Arc, thread};
use std::sync::LazyLock;
use terrace_format::KeyOrder;
use terrace_storage::{Budget, Holder, StorageConfig};

/// The maximum number of preemptions of threads that the model checker tries in one execution.
/// Most concurrency bugs need one or two preemptions.
const PREEMPTIONS_MAX: usize = 3;

/// The memory budget of all skip lists in these checks. The model checker does not model the locks
/// and counters of the budget.
static BUDGET: LazyLock<std::sync::Arc<Budget>> = LazyLock::new(|| Budget::new(&StorageConfig::default()));

fn model(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(scene);
}

/// Makes a list of `keys`. Each key comes with its number of links.
fn list(keys: &[(u8, usize)]) -> Arc<SkipList> {
    let list = SkipList::new(KeyOrder::Bytewise, BUDGET.hold(Holder::Memtables));
    keys.iter().for_each(|(key, height)| add(&list, *key, *height));
    Arc::new(list)
}

fn add(list: &SkipList, key: u8, height: usize) {
    list.insert(&[key; 20], u64::from(key) << 8, [&[key], &[key; 2]], height);
}

/// Returns the keys of `list` from the first to the last, and checks each node.
fn forward(list: &SkipList) -> Vec<u8> {
    let nodes = std::iter::successors(list.first(), |node| list.next(*node));
    nodes.map(|node| checked_key(list.key(node), list.value(node))).collect()
}

/// Returns the keys of `list` from the last to the first, and checks each node.
fn backward(list: &SkipList) -> Vec<u8> {
    let nodes = std::iter::successors(list.last(), |node| list.prev(*node));
    nodes.map(|node| checked_key(list.key(node), list.value(node))).collect()
}

fn checked_key(key: &[u8], value: &[u8]) -> u8 {
    assert!(key.len() == 28 && value.len() == 3 && key[..20].iter().chain(value).all(|byte| *byte == key[0]));
    key[0]
}

fn reversed(mut keys: Vec<u8>) -> Vec<u8> {
    keys.reverse();
    keys
}

/// Tests a reader that runs concurrently with a writer. It must see every earlier node, in key
/// order, and only complete nodes.
#[test]
fn a_reader_concurrent_with_a_writer_misses_nothing() {
    model(|| {
        let list = list(&[(1, 1), (9, 1)]);
        let writer = list.clone();
        let writing = thread::spawn(move || add(&writer, 5, 2));
        for seen in [forward(&list), reversed(backward(&list))] {
            assert!(seen == [1, 9] || seen == [1, 5, 9], "{seen:?}");
        }
        let target = [&[4; 20][..], &[0xff; 8]].concat();
        let found = list.seek(&target).map(|node| list.key(node)[0]);
        assert!(matches!(found, Some(5 | 9)), "{found:?}");
        writing.join().expect("it does not panic");
        assert_eq!((forward(&list), reversed(backward(&list))), (vec![1, 5, 9], vec![1, 5, 9]));
    });
}

/// Tests two writers that insert at the same position of the skip list. No node may be lost on any
/// level.
#[test]
fn writers_at_one_splice_lose_nothing() {
    model(|| {
        let list = list(&[(1, 2)]);
        let other = list.clone();
        let writing = thread::spawn(move || add(&other, 4, 2));
        add(&list, 3, 2);
        writing.join().expect("it does not panic");
        assert_eq!((forward(&list), reversed(backward(&list))), (vec![1, 3, 4], vec![1, 3, 4]));
        for key in [1, 3, 4] {
            let target = [&[key; 20][..], &[0xff; 8]].concat();
            assert_eq!(list.seek(&target).map(|node| list.key(node)[0]), Some(key));
        }
    });
}

/// Tests two writers that append to an empty skip list at the same time. No node may be lost.
#[test]
fn writers_at_the_end_lose_nothing() {
    model(|| {
        let list = list(&[]);
        let other = list.clone();
        let writing = thread::spawn(move || add(&other, 7, 1));
        add(&list, 6, 1);
        writing.join().expect("it does not panic");
        assert_eq!((forward(&list), reversed(backward(&list))), (vec![6, 7], vec![6, 7]));
    });
}

/// Tests two threads that insert nodes which do not both fit into the arena's first block, so that
/// one thread adds a block. The arena must allocate each byte only once.
#[test]
fn a_growing_arena_hands_out_each_byte_once() {
    // A node of this size fits once into the first block of 16 KiB, and three times into the second
    // block of 32 KiB.
    const BYTES: usize = 8100;
    let budget = Budget::new(&StorageConfig::default());
    model(move || {
        let list = Arc::new(SkipList::new(KeyOrder::Bytewise, budget.hold(Holder::Memtables)));
        let large = |list: &SkipList, key: u8| list.insert(&[key; 20], u64::from(key) << 8, [&[], &[key; BYTES]], 1);
        large(&list, 1);
        let held = || budget.held().0[Holder::Memtables as usize];
        let one_block = held();
        let other = list.clone();
        let writing = thread::spawn(move || large(&other, 2));
        large(&list, 3);
        writing.join().expect("it does not panic");
        assert_eq!(held(), 3 * one_block, "two blocks, the second twice as large");
        let nodes: Vec<_> = std::iter::successors(list.first(), |node| list.next(*node)).collect();
        assert_eq!(nodes.len(), 3);
        for (node, key) in nodes.into_iter().zip(1..) {
            assert!(list.key(node)[..20] == [key; 20] && list.value(node) == [key; BYTES], "node {key}");
        }
    });
}
