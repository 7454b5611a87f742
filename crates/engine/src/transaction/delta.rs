//! The writes of a transaction before its commit, indexed by key, so that the transaction reads
//! them.
use crate::WriteBatch;
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};
use terrace_format::{FamilyId, KeyOrder, batch::Op};

/// A key in the order of the store.
#[derive(Clone, Debug)]
pub struct OrderedKey {
    order: KeyOrder,
    /// The bytes of the key.
    pub bytes: Vec<u8>,
}

impl OrderedKey {
    /// Makes a key.
    pub fn new(order: &KeyOrder, bytes: &[u8]) -> OrderedKey {
        OrderedKey { order: order.clone(), bytes: bytes.to_vec() }
    }

    /// Returns whether the key is in the range from `from` to `to` (excluded).
    pub fn is_within(&self, from: &[u8], to: &[u8]) -> bool {
        self.order.user(from, &self.bytes).is_le() && self.order.user(&self.bytes, to).is_lt()
    }
}

impl Ord for OrderedKey {
    fn cmp(&self, other: &OrderedKey) -> Ordering {
        self.order.user(&self.bytes, &other.bytes)
    }
}

impl PartialOrd for OrderedKey {
    fn partial_cmp(&self, other: &OrderedKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedKey {
    fn eq(&self, other: &OrderedKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedKey {}

/// The writes of a transaction to one column family.
#[derive(Clone, Debug, Default)]
pub struct FamilyDelta {
    /// The newest write of each key: a value, or a delete.
    keys: BTreeMap<OrderedKey, Option<Vec<u8>>>,
    /// Deleted ranges (end excluded). A key that is in `keys` too was written after every range
    /// that contains it.
    ranges: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FamilyDelta {
    /// Returns what the transaction has written to `key`: `Some(None)` if it deleted the key,
    /// `None` if it did not write the key.
    pub fn get(&self, key: &OrderedKey) -> Option<Option<&[u8]>> {
        match self.keys.get(key) {
            Some(value) => Some(value.as_deref()),
            None => self.hides(key).then_some(None),
        }
    }

    /// Returns whether a range that the transaction deleted includes `key`.
    pub fn hides(&self, key: &OrderedKey) -> bool {
        self.ranges.iter().any(|(from, to)| key.is_within(from, to))
    }

    /// Returns the written keys for which `admits` returns true, in key order.
    pub fn entries(&self, admits: impl Fn(&[u8]) -> bool) -> Vec<(OrderedKey, Option<Vec<u8>>)> {
        let admitted = self.keys.iter().filter(|(key, _)| admits(&key.bytes));
        admitted.map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// The writes of a transaction.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// The writes in order, in the form in which the commit writes them.
    pub batch: WriteBatch,
    families: BTreeMap<FamilyId, Arc<FamilyDelta>>,
}

impl Delta {
    /// Returns the writes to `family`.
    pub fn family(&self, family: FamilyId) -> Option<&Arc<FamilyDelta>> {
        self.families.get(&family)
    }

    /// Appends the operation `op` in column family `family` of the open store `store`.
    pub fn add(&mut self, order: &KeyOrder, (family, store): (FamilyId, u64), op: Op<'_>) {
        self.batch.add_in((family, store), op);
        let delta = Arc::make_mut(self.families.entry(family).or_default());
        match op {
            Op::Put(key, value) => drop(delta.keys.insert(OrderedKey::new(order, key), Some(value.to_vec()))),
            Op::Delete(key) => drop(delta.keys.insert(OrderedKey::new(order, key), None)),
            Op::DeleteRange(from, to) => {
                delta.keys.retain(|key, _| !key.is_within(from, to));
                delta.ranges.push((from.to_vec(), to.to_vec()));
            }
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => {
                unreachable!("the family is passed apart from the operation")
            }
        }
    }
}
