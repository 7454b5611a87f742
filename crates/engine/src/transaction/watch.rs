//! The keys and ranges on which a transaction depends, and the check at its commit that no other
//! write has changed them.
use super::delta::OrderedKey;
use crate::{
    Error, Result,
    mem::MemTable,
    read::{
        changes::{Changes, WatchedRange},
        view::View,
    },
    state::DbInner,
    write::WriteCondition,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
};
use terrace_format::{Batch, FamilyId, KeyOrder, SeqNo, batch::Op};

/// Keys and ranges of one column family.
#[derive(Clone, Debug, Default)]
struct Watched {
    keys: BTreeSet<OrderedKey>,
    ranges: Vec<WatchedRange>,
}

/// The keys and ranges that must not change between the snapshot of a transaction and its commit.
#[derive(Clone, Debug, Default)]
pub struct WatchSet(BTreeMap<FamilyId, Watched>);

impl WatchSet {
    /// Adds a key.
    pub fn add_key(&mut self, order: &KeyOrder, family: FamilyId, key: &[u8]) {
        self.0.entry(family).or_default().keys.insert(OrderedKey::new(order, key));
    }

    /// Adds a range.
    pub fn add_range(&mut self, family: FamilyId, range: WatchedRange) {
        let ranges = &mut self.0.entry(family).or_default().ranges;
        if !ranges.contains(&range) {
            ranges.push(range);
        }
    }

    /// If `op` writes a watched key or a key of a watched range, returns the column family and that
    /// key, or the start of the written range.
    fn written_by(&self, order: &KeyOrder, op: Op<'_>) -> Option<(FamilyId, Vec<u8>)> {
        let (family, op) = op.split();
        let watched = self.0.get(&family)?;
        let hit = match op {
            Op::Put(key, _) | Op::Delete(key) => {
                let is_watched = watched.keys.contains(&OrderedKey::new(order, key))
                    || watched.ranges.iter().any(|range| range.includes(order, key));
                is_watched.then(|| key.to_vec())
            }
            Op::DeleteRange(from, to) => {
                let deleted = watched.keys.iter().find(|key| key.is_within(from, to));
                let key = deleted.map(|key| key.bytes.clone());
                key.or_else(|| {
                    watched.ranges.iter().any(|range| range.overlaps(order, from, to)).then(|| from.to_vec())
                })
            }
            Op::FamilyPut(..) | Op::FamilyDelete(..) | Op::FamilyDeleteRange(..) => None, // `split` removes these
        };
        hit.map(|key| (family, key))
    }
}

/// The state of the store that a transaction reads.
#[derive(Clone, Debug)]
pub struct Base {
    /// The last write that the transaction sees.
    pub seq: SeqNo,
    /// The memtable of the default column family when the transaction made its snapshot. As long as
    /// this memtable is in the current view, memtables have every later write of all families,
    /// because a rotation seals all memtables together.
    mem: Weak<MemTable>,
}

impl Base {
    /// Returns the state of the store at `seq`. The sequence number must be visible, and `view`
    /// must have been loaded before it.
    pub fn of(view: &View, seq: SeqNo) -> Base {
        Base { seq, mem: view.mem.as_ref().map(Arc::downgrade).unwrap_or_default() }
    }

    /// Returns whether the memtables of `view` have every write after `seq`.
    fn is_in_memory(&self, view: &View) -> bool {
        view.main().memtables().any(|mem| std::ptr::eq(Arc::as_ptr(mem), self.mem.as_ptr()))
    }
}

/// The condition of a commit: nothing in `watched` was written after `base`.
pub struct Unchanged {
    /// The store.
    pub shared: Arc<DbInner>,
    /// The keys and ranges that must not have changed.
    pub watched: WatchSet,
    /// The state that the transaction has read.
    pub base: Base,
}

impl Unchanged {
    fn conflict(&self, family: FamilyId, key: &[u8]) -> Error {
        let view = self.shared.view.load();
        let name = view.version.families().get(&family).map_or("default".into(), |family| family.name.to_string());
        Error::Conflict { family: name, key: key.to_vec() }
    }
}

impl WriteCondition for Unchanged {
    fn check(&self, group: &Batch, may_read: bool) -> Result<bool> {
        let shared = &self.shared;
        let order = &shared.order;
        if let Some((family, key)) = group.ops().find_map(|op| self.watched.written_by(order, op)) {
            return Err(self.conflict(family, &key));
        }
        let view = shared.view.load();
        let in_memory = self.base.is_in_memory(&view);
        if !in_memory && !may_read {
            return Ok(false);
        }
        for (family, watched) in &self.watched.0 {
            let tree = view.tree(*family).ok_or_else(|| Error::family_dropped(*family))?;
            let changes = Changes {
                storage: &*shared.storage,
                order,
                range_tombstones: shared.has_range_tombstones,
                tree,
                since: self.base.seq,
                tables: !in_memory,
            };
            for key in &watched.keys {
                if changes.has_key(&key.bytes)? {
                    return Err(self.conflict(*family, &key.bytes));
                }
            }
            for range in &watched.ranges {
                if changes.has_any(range)? {
                    return Err(self.conflict(*family, range.from.as_deref().unwrap_or_default()));
                }
            }
        }
        Ok(true)
    }
}
