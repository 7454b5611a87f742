//! A point lookup: memtables newest first, then level by level, the newest run first. The first
//! entry found is the newest. A range tombstone over the key shadows all older entries, and so
//! everything searched later.
use super::{pinned::PinnedValue, view::View};
use crate::{
    Result,
    mem::{MemTable, NodeId},
    version::TableRef,
};
use std::sync::Arc;
use terrace_format::{KeyOrder, Kind, SeqNo, TableId, key};
use terrace_storage::placement::{Bytes, Storage, Table, TableReadOptions};

/// A value in its place.
pub enum Value<'a> {
    /// In a memtable.
    Memory(&'a Arc<MemTable>, NodeId),
    /// In a table.
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

    /// Returns a copy.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// Pins the value where it is.
    pub fn pin(self) -> PinnedValue {
        match self {
            Value::Memory(mem, node) => PinnedValue::in_memory(mem.clone(), node),
            Value::StoredValue(bytes) => PinnedValue::stored(bytes),
        }
    }
}

/// The parameters of a point lookup.
pub struct PointLookup<'a> {
    /// Opens tables.
    pub storage: &'a dyn Storage,
    /// Order of user keys.
    pub order: &'a KeyOrder,
    /// The key and the sequence number to read at, as an internal key.
    pub lookup: &'a [u8],
    /// Whether tables may have range tombstones.
    pub ranges: bool,
    /// Whether to read the value of a stored value pointer.
    pub resolve: bool,
    /// How to read blocks.
    pub how: TableReadOptions,
}

/// The answer of one memtable or table: it does not have the key, or its newest entry is a value
/// or a tombstone.
type LookupResult<T> = Option<Option<T>>;

/// Looks up `point` in `view`. Calls `on_budget_spent` with a table and its level if this lookup
/// exhausted the table's seek budget.
pub fn get<'a>(
    point: &PointLookup<'_>,
    view: &'a View,
    on_budget_spent: impl FnOnce(usize, TableId),
) -> Result<Option<Value<'a>>> {
    if let Some(result) = search_memtables(view, point.lookup) {
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
    // LevelDB's rule: the first of several probed tables pays.
    let charged = first.filter(|_| searched > 1);
    if let Some((level, table)) = charged.filter(|(_, table)| table.charge_seek()) {
        on_budget_spent(level, table.meta.id);
    }
    Ok(answer.map(Value::StoredValue))
}

fn search_memtables<'a>(view: &'a View, lookup: &[u8]) -> LookupResult<Value<'a>> {
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
    /// Probes one table. Out of line, so that the loop over the runs needs few registers.
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

    /// Returns the value for the bytes `stored` of the put at `seq`.
    fn value(&self, seq: SeqNo, stored: Bytes) -> Result<Bytes> {
        Ok(self.storage.value(key::user_key(self.lookup), seq, stored, self.how)?)
    }

    /// Returns the newest range tombstone in `table` that shadows the key; zero if there is none.
    fn newest_tombstone(&self, table: &dyn Table) -> Result<SeqNo> {
        let key::Parsed { user, seq, .. } = key::apart(self.lookup);
        Ok(table.range_tombstones()?.map_or(SeqNo::ZERO, |deletes| deletes.newest(self.order, user, seq)))
    }
}

/// Starts to read the block that [`get`] would wait for: that of the first table that may have
/// the key.
pub fn expect(storage: &dyn Storage, order: &KeyOrder, view: &View, lookup: &[u8]) -> Result<()> {
    if view.memtables().any(|mem| mem.get(lookup).is_some()) {
        return Ok(());
    }
    for (_, run) in view.version.runs() {
        if let Some(table) = run.find(order, lookup)
            && table.open(storage)?.expect(lookup)?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// LevelDB's read sampling. A scan positioned at `internal` charges a seek as a point lookup of
/// the key would: if several tables cover the key, the first one pays. Returns the table if this
/// exhausted its seek budget.
pub fn sample(order: &KeyOrder, view: &View, internal: &[u8]) -> Option<(usize, TableId)> {
    let mut holding = view.version.runs().iter().filter_map(|(level, run)| Some((*level, run.find(order, internal)?)));
    let (level, first) = holding.next()?;
    (holding.next().is_some() && first.charge_seek()).then_some((level, first.meta.id))
}
