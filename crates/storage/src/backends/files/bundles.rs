//! The bundles of an open store: the tables in them, and their open files.
use crate::placement::{TableMeta, Within};
use parking_lot::Mutex;
use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};
use terrace_format::{TableId, bundle::Member};
use terrace_vfs::ReadFile;

/// The effect of the removal of a table on its disk space.
pub(super) enum Removed {
    /// The table is in no bundle.
    NotBundled,
    /// The table was the last one in its bundle. The engine removes the bundle as a whole.
    Last,
    /// The bundle with this number still has other tables, so the space of the removed table, which
    /// is the given member of the bundle, must be deallocated.
    Hole(TableId, Member),
}

/// The bundles of a store. While a thread holds this lock, it takes no other lock and does no I/O.
#[derive(Default)]
pub(super) struct Bundles(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// The open file of each bundle that has readers. Only the readers own the file, so it is
    /// closed when the last reader is dropped.
    files: BTreeMap<TableId, Weak<dyn ReadFile>>,
    /// The tables in bundles, with their sizes in bytes.
    tables: BTreeMap<TableId, (Within, u64)>,
    /// The number of tables of each bundle.
    counts: BTreeMap<TableId, usize>,
}

impl Bundles {
    /// Adds the tables that are in bundles. Ignores tables that have their own files.
    pub fn add<'a>(&self, tables: impl IntoIterator<Item = &'a TableMeta>) {
        let mut known = self.0.lock();
        for meta in tables {
            if let Some(within) = meta.within
                && known.tables.insert(meta.id, (within, meta.bytes)).is_none()
            {
                *known.counts.entry(within.bundle).or_default() += 1;
            }
        }
    }

    /// Returns the position of table `id` in its bundle; `None` if it is in no bundle.
    pub fn find(&self, id: TableId) -> Option<Within> {
        self.0.lock().tables.get(&id).map(|(within, _)| *within)
    }

    /// Removes table `id` from the list of tables. Returns the effect on the table's disk space.
    pub fn remove(&self, id: TableId) -> Removed {
        let mut known = self.0.lock();
        let Some((within, bytes)) = known.tables.remove(&id) else { return Removed::NotBundled };
        let left = known.counts.get_mut(&within.bundle).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            known.counts.remove(&within.bundle);
            return Removed::Last;
        }
        Removed::Hole(within.bundle, Member { id, offset: within.offset, bytes })
    }

    /// Returns the open file of `bundle`, if the bundle has readers.
    pub fn opened(&self, bundle: TableId) -> Option<Arc<dyn ReadFile>> {
        self.0.lock().files.get(&bundle).and_then(Weak::upgrade)
    }

    /// Shares the newly opened `file` of `bundle` with later readers. Returns the file that the
    /// caller must use: another thread may have opened and shared the bundle first.
    pub fn share(&self, bundle: TableId, file: Arc<dyn ReadFile>) -> Arc<dyn ReadFile> {
        let mut known = self.0.lock();
        if let Some(open) = known.files.get(&bundle).and_then(Weak::upgrade) {
            return open; // another thread was faster
        }
        known.files.retain(|_, file| file.strong_count() > 0);
        known.files.insert(bundle, Arc::downgrade(&file));
        file
    }
}
