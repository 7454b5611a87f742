//! The storage objects (table, bundle, segments) that belong to an SSTable.
use super::TableRef;
use std::collections::BTreeSet;
use terrace_format::TableId;
use terrace_storage::placement::{ObjectId, TableMeta};

/// Returns the objects whose files a table needs. A table in a bundle has no file of its own; it
/// needs the file of the bundle and the files of its references.
pub fn files(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    objects(table).filter(|object| table.meta.within.is_none() || *object != ObjectId::Table(table.meta.id))
}

/// Returns the objects that a table needs: the table itself and its references.
pub fn objects(table: &TableRef) -> impl Iterator<Item = ObjectId> + '_ {
    objects_of(&table.meta)
}

/// Works like [`objects`], for a table of which only the metadata is known.
pub fn objects_of(meta: &TableMeta) -> impl Iterator<Item = ObjectId> + '_ {
    std::iter::once(ObjectId::Table(meta.id)).chain(meta.refs.iter().map(|(object, _)| *object))
}

/// Returns the objects that a job wrote for the tables `metas`: the tables, their bundles, and the
/// value-log segments that have the tables' numbers. A segment with any other number existed
/// before the job.
pub fn objects_written_with(metas: &[TableMeta]) -> Vec<ObjectId> {
    let tables: BTreeSet<TableId> = metas.iter().map(|meta| meta.id).collect();
    let is_new = |object: &ObjectId| match object {
        ObjectId::Bundle(_) => true,
        ObjectId::Segment(id) => tables.contains(&TableId(id.0)),
        ObjectId::Table(_) | ObjectId::Wal(_) | ObjectId::WalSidecar(_) => false,
        ObjectId::Manifest(_) | ObjectId::Temporary(_) => false,
    };
    let referred = metas.iter().flat_map(|meta| &meta.refs).map(|(object, _)| *object);
    let others: BTreeSet<ObjectId> = referred.filter(is_new).collect();
    tables.into_iter().map(ObjectId::Table).chain(others).collect()
}
