//! Point lookups. A point lookup searches the memtables, newest first. It then searches the
//! levels, and in each level the newest run first. The first entry that it finds is the newest
//! entry of the key. If a range tombstone covers the key, the lookup ends too, because the range
//! tombstone shadows all entries in memtables and runs that are searched later.
use super::{pinned::PinnedValue, view::TreeView};
use crate::{
    Result,
    mem::{MemTable, NodeId},
    version::TableRef,
};
use std::sync::Arc;
use terrace_format::{KeyOrder, Kind, SeqNo, TableId, key};
use terrace_storage::placement::{Bytes, Storage, Table, TableReadOptions};

/// The value that a point lookup found.
pub enum Value<'a> {
    /// A value in a memtable: the memtable and the value's node in it.
    Memory(&'a Arc<MemTable>, NodeId),
    /// A value that was read from an SSTable or from the value log.
    StoredValue(Bytes),
}

impl Value<'_> {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Memory(mem, node) => mem.value(*node),
            Value::StoredValue(bytes) => bytes,
        }
    }

    /// Returns the bytes as a vector. The call copies them unless this value is their only owner.
    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Value::Memory(mem, node) => mem.value(node).to_vec(),
            Value::StoredValue(bytes) => bytes.into_vec(),
        }
    }

    /// Pins the value in the memory where it is. A value that was read through the mapping of an
    /// SSTable is a copy already.
    pub fn pin(self) -> PinnedValue {
        match self {
            Value::Memory(mem, node) => PinnedValue::in_memory(mem.clone(), node),
            Value::StoredValue(bytes) => PinnedValue::stored(bytes.into_shared()),
        }
    }
}

/// The parameters of a point lookup.
pub struct PointLookup<'a> {
    /// The storage that opens the SSTables.
    pub storage: &'a dyn Storage,
    /// Order of user keys.
    pub order: &'a KeyOrder,
    /// The user key and the sequence number at which to read, as an internal key.
    pub lookup: &'a [u8],
    /// Whether SSTables of the store may have range tombstones. If not, the lookup does not search
    /// SSTables for range tombstones.
    pub ranges: bool,
    /// Whether to follow a value pointer and read the value from the value log.
    pub resolve: bool,
    /// How to read blocks of SSTables.
    pub how: TableReadOptions,
}

/// The result of a lookup in one memtable or SSTable. The outer `None` means that the memtable or
/// SSTable has no entry of the key. The inner `None` means that its newest entry of the key is a
/// tombstone.
type LookupResult<T> = Option<Option<T>>;

/// Looks up the key of `point` in `view`. Calls `on_search` with the number of SSTables that the
/// lookup searched. If this lookup exhausts the seek budget of an SSTable, the function calls
/// `on_budget_spent` with the level and the SSTable.
pub fn get<'a>(
    point: &PointLookup<'_>,
    view: TreeView<'a>,
    on_search: impl FnOnce(u64),
    on_budget_spent: impl FnOnce(usize, TableId),
) -> Result<Option<Value<'a>>> {
    if let Some(result) = search_memtables(view, point.lookup) {
        on_search(0);
        return match result {
            Some(Value::Memory(mem, node)) if point.resolve => {
                let stored = Bytes::from(mem.value(node).to_vec());
                point.value(key::apart(mem.key(node)).seq, stored).map(|value| Some(Value::StoredValue(value)))
            }
            result => Ok(result),
        };
    }
    let (mut answer, mut searched, mut first) = (None, 0, None);
    for (level, run) in view.version.runs() {
        let Some(table) = run.find(point.order, point.lookup) else { continue };
        (searched, first) = (searched + 1, first.or(Some((*level, table))));
        if let Some(result) = point.search_table(table)? {
            answer = result;
            break;
        }
    }
    on_search(searched);
    // As in LevelDB, a lookup that searches more than one SSTable charges the seek budget of the
    // first one that it searched.
    let charged = first.filter(|_| searched > 1);
    if let Some((level, table)) = charged.filter(|(_, table)| table.charge_seek()) {
        on_budget_spent(level, table.meta.id);
    }
    Ok(answer.map(Value::StoredValue))
}

fn search_memtables<'a>(view: TreeView<'a>, lookup: &[u8]) -> LookupResult<Value<'a>> {
    let key::Parsed { user, seq, .. } = key::apart(lookup);
    for mem in view.memtables() {
        let newest_tombstone = mem.newest_range_tombstone(user, seq);
        if let Some((seq, kind, node)) = mem.get(lookup) {
            let seen = kind == Kind::Put && seq > newest_tombstone;
            return Some(seen.then_some(Value::Memory(mem, node)));
        }
        if newest_tombstone > SeqNo::ZERO {
            return Some(None);
        }
    }
    None
}

impl PointLookup<'_> {
    /// Searches one SSTable. The function is not inlined into the loop over the runs, because the
    /// loop then needs fewer registers.
    #[inline(never)]
    fn search_table(&self, table: &TableRef) -> Result<LookupResult<Bytes>> {
        let table = table.open(self.storage)?;
        let newest_tombstone = if self.ranges { self.newest_tombstone(&**table)? } else { SeqNo::ZERO };
        Ok(match table.get(self.lookup, self.how)? {
            Some(found) if found.kind == Kind::Put && found.seq > newest_tombstone => {
                Some(Some(if self.resolve { self.value(found.seq, found.value)? } else { found.value }))
            }
            Some(_) => Some(None),
            None => (newest_tombstone > SeqNo::ZERO).then_some(None),
        })
    }

    /// Returns the value of the put with sequence number `seq`. `stored` are the bytes that an
    /// SSTable or memtable stores for this put: the value, or a value pointer.
    fn value(&self, seq: SeqNo, stored: Bytes) -> Result<Bytes> {
        Ok(self.storage.value(key::user_key(self.lookup), seq, stored)?)
    }

    /// Returns the sequence number of the newest range tombstone in `table` that shadows the key;
    /// zero if there is none.
    fn newest_tombstone(&self, table: &dyn Table) -> Result<SeqNo> {
        let key::Parsed { user, seq, .. } = key::apart(self.lookup);
        Ok(table.range_tombstones()?.map_or(SeqNo::ZERO, |deletes| deletes.newest(self.order, user, seq)))
    }
}

/// Starts to read the block for which a later [`get`] of the same key would wait first: a block of
/// the first SSTable that may have the key.
pub fn expect(
    storage: &dyn Storage,
    order: &KeyOrder,
    view: TreeView<'_>,
    lookup: &[u8],
    how: TableReadOptions,
) -> Result<()> {
    if view.memtables().any(|mem| mem.get(lookup).is_some()) {
        return Ok(());
    }
    for (_, run) in view.version.runs() {
        if let Some(table) = run.find(order, lookup)
            && table.open(storage)?.expect(lookup, how)?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Implements LevelDB's read sampling. A scan at the key `internal` charges a seek as a point
/// lookup of that key would: if the key is in the key ranges of several SSTables, the first of
/// them is charged. Returns that SSTable if the charge exhausts its seek budget.
pub fn sample(order: &KeyOrder, view: TreeView<'_>, internal: &[u8]) -> Option<(usize, TableId)> {
    let mut holding = view.version.runs().iter().filter_map(|(level, run)| Some((*level, run.find(order, internal)?)));
    let (level, first) = holding.next()?;
    (holding.next().is_some() && first.charge_seek()).then_some((level, first.meta.id))
}
