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
use terrace_storage::placement::{Bytes, Placement, ReadHow};

/// What a point read found, and whom it cost.
pub struct Got<'a> {
    /// The value, if the key has one.
    pub value: Option<Value<'a>>,
    /// A table whose allowance of fruitless seeks this read used up, and its level.
    pub worn: Option<(usize, TableId)>,
}

/// A value where it lies.
pub enum Value<'a> {
    /// In a memtable.
    Memory(&'a Arc<MemTable>, NodeId),
    /// In a table.
    Stored(Bytes),
}

impl Value<'_> {
    /// A copy.
    pub fn to_vec(&self) -> Vec<u8> {
        match self {
            Value::Memory(mem, node) => mem.value(*node).to_vec(),
            Value::Stored(bytes) => bytes.to_vec(),
        }
    }

    /// Keeps it where it is.
    pub fn pin(self) -> PinnedValue {
        match self {
            Value::Memory(mem, node) => PinnedValue::in_memory(mem.clone(), node),
            Value::Stored(bytes) => PinnedValue::stored(bytes),
        }
    }
}

/// Looks `lookup` up in `view`, whose tables may have deletes of ranges if `ranges` says so.
pub fn get<'a>(
    placement: &dyn Placement,
    order: &KeyOrder,
    view: &'a View,
    lookup: &[u8],
    ranges: bool,
    how: ReadHow,
) -> Result<Got<'a>> {
    let key::Parsed { user, seq, .. } = key::apart(lookup);
    for mem in view.memtables() {
        let hidden = mem.newest_range_delete(user, seq);
        if let Some((seq, kind, node)) = mem.get(lookup) {
            let seen = kind == Kind::Put && seq > hidden;
            return Ok(Got { value: seen.then_some(Value::Memory(mem, node)), worn: None });
        }
        if hidden > SeqNo::ZERO {
            return Ok(Got { value: None, worn: None });
        }
    }
    let mut first: Option<(usize, &Arc<TableRef>)> = None;
    let mut asked = 0;
    let mut answer = None;
    'search: for (level, runs) in view.version.levels.iter().enumerate() {
        for run in &runs.runs {
            let Some(table) = run.find(order, lookup) else { continue };
            (asked, first) = (asked + 1, first.or(Some((level, table))));
            let table = table.open(placement)?;
            let deletes = if ranges { table.range_deletes()? } else { None };
            let hidden = deletes.map_or(SeqNo::ZERO, |deletes| deletes.newest(order, user, seq));
            if let Some(found) = table.get(lookup, how)? {
                let seen = found.kind == Kind::Put && found.seq > hidden;
                answer = seen.then_some(Value::Stored(found.value));
                break 'search;
            }
            if hidden > SeqNo::ZERO {
                break 'search;
            }
        }
    }
    let in_vain = first.filter(|_| asked > 1); // LevelDB's rule: the first of several tables pays
    let worn = in_vain.filter(|(_, table)| table.charge_seek()).map(|(level, table)| (level, table.meta.id));
    Ok(Got { value: answer, worn })
}

/// Starts to read what [`get`] of the same would wait for: the block of the first table that may have the key.
pub fn expect(placement: &dyn Placement, order: &KeyOrder, view: &View, lookup: &[u8]) -> Result<()> {
    if view.memtables().any(|mem| mem.get(lookup).is_some()) {
        return Ok(());
    }
    for run in view.version.levels.iter().flat_map(|level| &level.runs) {
        if let Some(table) = run.find(order, lookup)
            && table.open(placement)?.expect(lookup)?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// LevelDB's read sampling: a scan that stands on `internal` would, as a point read, have asked every table whose range
/// holds its key; if there are several, the first one pays. Returns it if that used its allowance up.
pub fn sample(order: &KeyOrder, view: &View, internal: &[u8]) -> Option<(usize, TableId)> {
    let levels = view.version.levels.iter().enumerate();
    let mut holding = levels
        .flat_map(|(level, runs)| runs.runs.iter().filter_map(move |run| Some((level, run.find(order, internal)?))));
    let (level, first) = holding.next()?;
    (holding.next().is_some() && first.charge_seek()).then_some((level, first.meta.id))
}
