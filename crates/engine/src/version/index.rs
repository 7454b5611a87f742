//! An index of the SSTables of a version by table number.
use super::{
    TableRef,
    chunks::{Chunk, replace},
};
use std::{collections::BTreeSet, sync::Arc};
use terrace_format::TableId;

/// A table with its level.
pub type Placed = (usize, Arc<TableRef>);

#[derive(Debug)]
struct Entries(Vec<Placed>);

impl Chunk for Entries {
    type Item = Placed;

    fn items(&self) -> &[Placed] {
        &self.0
    }
}

/// Finds tables by number, in O(log n). Versions share the chunks of the index.
#[derive(Clone, Debug, Default)]
pub struct TableIndex(Vec<Arc<Entries>>);

impl TableIndex {
    /// Returns table `id` and its level.
    pub fn get(&self, id: TableId) -> Option<(usize, &Arc<TableRef>)> {
        let number = |(_, table): &Placed| table.meta.id;
        let before = |chunk: &Arc<Entries>| chunk.0.last().is_some_and(|last| number(last) < id);
        let entries = &self.0.get(self.0.partition_point(before))?.0;
        entries.binary_search_by_key(&id, number).ok().map(|at| (entries[at].0, &entries[at].1))
    }

    /// Returns the index without the tables `removed` and with the tables `added`. If a table
    /// would occur twice, returns its number as the error.
    pub fn replaced(&self, removed: Vec<Placed>, mut added: Vec<Placed>) -> Result<TableIndex, TableId> {
        added.sort_by_key(|(_, table)| table.meta.id);
        if let Some(pair) = added.windows(2).find(|pair| pair[0].1.meta.id == pair[1].1.meta.id) {
            return Err(pair[0].1.meta.id);
        }
        // A table that moves to another level is in both lists, `removed` and `added`, under the
        // same number.
        let moved: BTreeSet<TableId> = removed.iter().map(|(_, table)| table.meta.id).collect();
        let known = |id: &TableId| self.get(*id).is_some() && !moved.contains(id);
        match added.iter().map(|(_, table)| table.meta.id).find(known) {
            Some(twice) => Err(twice),
            None => Ok(TableIndex(replace(&self.0, removed, added, Entries, by_number))),
        }
    }
}

fn by_number(a: &Placed, b: &Placed) -> std::cmp::Ordering {
    a.1.meta.id.cmp(&b.1.meta.id)
}
