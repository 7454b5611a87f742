//! Counts the SSTables in a store's directory that the manifest does not list.
use super::store::entries;
use anyhow::Result;
use std::{collections::BTreeSet, fs::DirEntry, path::Path, slice};
use terrace_format::{AddedTable, FileName, LEVELS, TableId};

/// Number and size of the SSTables that the manifest does not list. In an open store these
/// SSTables are new ones that are not durable yet, or obsolete ones that will be deleted. After a
/// crash they are leftovers, which the next open removes.
#[derive(Clone, Copy, Default)]
pub struct Unnamed {
    /// Number of files, bundles, or folders of directory tables.
    pub tables: usize,
    /// Total size of their files in bytes.
    pub bytes: u64,
}

impl Unnamed {
    /// Counts the SSTables among `files`, and in the level folders of `path`, that are not in
    /// `named`.
    pub fn read<'a>(
        path: &Path,
        files: &[(FileName, DirEntry)],
        named: impl Iterator<Item = &'a AddedTable>,
    ) -> Result<Unnamed> {
        let named: BTreeSet<TableId> =
            named.map(|table| table.within.map_or(table.id, |within| within.bundle)).collect();
        let mut unnamed = Unnamed::default();
        for (file, entry) in files {
            if let FileName::Table(id) | FileName::Bundle(id) = file
                && !named.contains(id)
            {
                unnamed.count(slice::from_ref(entry));
            }
        }
        for level in 0..LEVELS {
            for table in entries(&path.join(format!("L{level}")))? {
                let id = table.file_name().to_string_lossy().parse().map(TableId);
                if id.is_ok_and(|id| !named.contains(&id)) && table.file_type()?.is_dir() {
                    unnamed.count(&entries(&table.path())?);
                }
            }
        }
        Ok(unnamed)
    }

    /// Adds `files`. A file that was removed in the meantime adds zero bytes.
    fn count(&mut self, files: &[DirEntry]) {
        self.tables += 1;
        self.bytes += files.iter().filter_map(|file| file.metadata().ok()).map(|facts| facts.len()).sum::<u64>();
    }
}
