//! A point read: memtables newest first, then level by level, the newest run first; the first answer is the newest. Where
//! a range with the key was deleted, all that is older, and so all that comes later, is hidden.
use super::{pinned::PinnedValue, view::View};
use crate::{
    Result,
    mem::{MemTable, NodeId},
    version::TableRef,
};
use std::sync::Arc;
use terrace_format::{KeyOrder, Kind, SeqNo, TableId, key};
use terrace_storage::placement::{Bytes, ReadHow, Storage, Table};

/// A value where it lies.
pub enum Value<'a> {
    /// In a memtable.
    Memory(&'a Arc<MemTable>, NodeId),
    /// In a table.
    StoredValue(Bytes),
}

impl Value<'_> {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Value::Memory(mem, node) => mem.value(*node),
            Value::StoredValue(bytes) => bytes,
        }
    }

    /// A copy.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes().to_vec()
    }

    /// Keeps it where it is.
    pub fn pin(self) -> PinnedValue {
        match self {
            Value::Memory(mem, node) => PinnedValue::in_memory(mem.clone(), node),
            Value::StoredValue(bytes) => PinnedValue::stored(bytes),
        }
    }
}

/// What is asked, and of whom.
pub struct PointLookup<'a> {
    /// Opens tables.
    pub storage: &'a dyn Storage,
    /// Of user keys.
    pub order: &'a KeyOrder,
    /// The key and the sequence at which to read it.
    pub lookup: &'a [u8],
    /// Whether tables may have deletes of ranges.
    pub ranges: bool,
    /// Whether what is stored for a value is to be turned into the value, which lives elsewhere.
    pub resolve: bool,
    /// How to read blocks.
    pub how: ReadHow,
}

/// What a place knows of a key: nothing, or whether it has a value.
type Known<T> = Option<Option<T>>;

/// Answers `question` from `view`. `worn` is told of a table, and its level, whose allowance of fruitless seeks this used up.
pub fn get<'a>(
    question: &PointLookup<'_>,
    view: &'a View,
    worn: impl FnOnce(usize, TableId),
) -> Result<Option<Value<'a>>> {
    if let Some(known) = in_memory(view, question.lookup) {
        return match known {
            Some(Value::Memory(mem, node)) if question.resolve => {
                let stored = Bytes::from(mem.value(node).to_vec());
                question.value(key::apart(mem.key(node)).seq, stored).map(|value| Some(Value::StoredValue(value)))
            }
            known => Ok(known),
        };
    }
    let (mut answer, mut asked, mut first) = (None, 0, None);
    for (level, run) in view.version.runs() {
        let Some(table) = run.find(question.order, question.lookup) else { continue };
        (asked, first) = (asked + 1, first.or(Some((*level, table))));
        if let Some(known) = question.ask(table)? {
            answer = known;
            break;
        }
    }
    let in_vain = first.filter(|_| asked > 1); // LevelDB's rule: the first of several tables pays
    if let Some((level, table)) = in_vain.filter(|(_, table)| table.charge_seek()) {
        worn(level, table.meta.id);
    }
    Ok(answer.map(Value::StoredValue))
}

fn in_memory<'a>(view: &'a View, lookup: &[u8]) -> Known<Value<'a>> {
    let key::Parsed { user, seq, .. } = key::apart(lookup);
    for mem in view.memtables() {
        let hidden = mem.newest_range_delete(user, seq);
        if let Some((seq, kind, node)) = mem.get(lookup) {
            let seen = kind == Kind::Put && seq > hidden;
            return Some(seen.then_some(Value::Memory(mem, node)));
        }
        if hidden > SeqNo::ZERO {
            return Some(None);
        }
    }
    None
}

impl PointLookup<'_> {
    /// Asks one table. Not part of the loop over the runs, which would have to keep all that this needs at hand.
    #[inline(never)]
    fn ask(&self, table: &TableRef) -> Result<Known<Bytes>> {
        let table = table.open(self.storage)?;
        let hidden = if self.ranges { self.hidden(&**table)? } else { SeqNo::ZERO };
        Ok(match table.get(self.lookup, self.how)? {
            Some(found) if found.kind == Kind::Put && found.seq > hidden => {
                Some(Some(if self.resolve { self.value(found.seq, found.value)? } else { found.value }))
            }
            Some(_) => Some(None),
            None => (hidden > SeqNo::ZERO).then_some(None),
        })
    }

    /// The value for which the put at `seq` has `stored`.
    fn value(&self, seq: SeqNo, stored: Bytes) -> Result<Bytes> {
        Ok(self.storage.value(key::user_key(self.lookup), seq, stored, self.how)?)
    }

    /// The newest delete of a range in `table` that hides the key; zero if none does.
    fn hidden(&self, table: &dyn Table) -> Result<SeqNo> {
        let key::Parsed { user, seq, .. } = key::apart(self.lookup);
        Ok(table.range_tombstones()?.map_or(SeqNo::ZERO, |deletes| deletes.newest(self.order, user, seq)))
    }
}

/// Starts to read what [`get`] of the same would wait for: the block of the first table that may have the key.
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

/// LevelDB's read sampling: a scan that stands on `internal` would, as a point read, have asked every table whose range
/// holds its key; if there are several, the first one pays. Returns it if that used its allowance up.
pub fn sample(order: &KeyOrder, view: &View, internal: &[u8]) -> Option<(usize, TableId)> {
    let mut holding = view.version.runs().iter().filter_map(|(level, run)| Some((*level, run.find(order, internal)?)));
    let (level, first) = holding.next()?;
    (holding.next().is_some() && first.charge_seek()).then_some((level, first.meta.id))
}
