//! Few threads at one list, in every order, with every value that their loads may see: `make loom`.
//!
//! What a reader takes from a node that is not whole, or not ordered behind its writing, fails the model by itself; see
//! `Witness`.
use super::skiplist::SkipList;
use loom::{model::Builder, sync::Arc, thread};
use std::sync::LazyLock;
use terrace_format::KeyOrder;
use terrace_storage::{Budget, Holder, StorageConfig};

/// A thread is interrupted at most this often where it could go on. Most mistakes need one interruption or two.
const PREEMPTIONS_MAX: usize = 3;

/// Of all lists; its own locks and counters are not the model's.
static BUDGET: LazyLock<std::sync::Arc<Budget>> = LazyLock::new(|| Budget::new(&StorageConfig::default()));

fn model(scene: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS_MAX);
    builder.check(scene);
}

/// A list of these keys, each with as many links as is said.
fn list(keys: &[(u8, usize)]) -> Arc<SkipList> {
    let list = SkipList::new(KeyOrder::Bytewise, BUDGET.hold(Holder::Memtables));
    keys.iter().for_each(|(key, height)| add(&list, *key, *height));
    Arc::new(list)
}

fn add(list: &SkipList, key: u8, height: usize) {
    list.insert(&[key; 20], u64::from(key) << 8, [&[key], &[key; 2]], height);
}

/// The keys from the first to the last; each node must be whole.
fn forward(list: &SkipList) -> Vec<u8> {
    let nodes = std::iter::successors(list.first(), |node| list.next(*node));
    nodes.map(|node| whole(list.key(node), list.value(node))).collect()
}

/// The keys from the last to the first.
fn backward(list: &SkipList) -> Vec<u8> {
    let nodes = std::iter::successors(list.last(), |node| list.prev(*node));
    nodes.map(|node| whole(list.key(node), list.value(node))).collect()
}

fn whole(key: &[u8], value: &[u8]) -> u8 {
    assert!(key.len() == 28 && value.len() == 3 && key[..20].iter().chain(value).all(|byte| *byte == key[0]));
    key[0]
}

fn reversed(mut keys: Vec<u8>) -> Vec<u8> {
    keys.reverse();
    keys
}

/// Whoever reads sees everything that was there before, in order, and nothing half.
#[test]
fn a_reader_beside_a_writer_misses_nothing() {
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

/// Two writers, each with keys that go into one gap: nobody's node is lost, on any level.
#[test]
fn writers_at_one_gap_lose_nothing() {
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

/// A list that is still empty, whose end two writers find at once.
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

/// Two threads whose nodes do not fit into the first block: one makes the next, and each byte is given away once.
#[test]
fn an_arena_that_grows_gives_each_byte_away_once() {
    const BYTES: usize = 8100; // one fits into the first block of 16 KiB, three into the second of 32
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
