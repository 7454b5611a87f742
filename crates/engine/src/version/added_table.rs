//! The metadata of an SSTable, as a version edit describes it.
use terrace_format::edit::{AddedTable, Edit, Referred};
use terrace_storage::placement::{ObjectId, TableMeta};

/// Returns the metadata of a table that an edit adds.
pub fn meta_of(added: &AddedTable, entries: u64) -> TableMeta {
    let (smallest, largest) = (added.smallest.clone(), added.largest.clone());
    let mut meta = TableMeta::bounded(added.id, added.bytes, added.within, smallest, largest);
    meta.refs.extend(added.refs.iter().map(|(referred, bytes)| (object_of(*referred), *bytes)));
    TableMeta { entries, run: added.run, ..meta }
}

fn object_of(referred: Referred) -> ObjectId {
    match referred {
        Referred::Log(id) => ObjectId::Wal(id),
        Referred::Values(id) => ObjectId::Segment(id),
    }
}

/// Adds the table `meta` to `edit` at `level`.
pub fn add_to(edit: &mut Edit, level: usize, meta: &TableMeta) {
    let TableMeta { id, bytes, within, run, entries, smallest, largest, refs, linked_bytes: _ } = meta.clone();
    let referred = |(object, bytes)| match object {
        ObjectId::Wal(id) => Some((Referred::Log(id), bytes)),
        ObjectId::Segment(id) => Some((Referred::Values(id), bytes)),
        ObjectId::Bundle(_) => None, // the field `within` records it
        // Tables never refer to tables, WAL sidecars, manifests or temporary files.
        ObjectId::Table(_) | ObjectId::WalSidecar(_) | ObjectId::Manifest(_) | ObjectId::Temporary(_) => None,
    };
    let refs = refs.into_iter().filter_map(referred).collect();
    edit.added.push((level, AddedTable { id, bytes, within, run, smallest, largest, refs }));
    edit.entries.extend((entries > 0).then_some((id, entries)));
}
