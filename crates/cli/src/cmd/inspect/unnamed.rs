//! Tables that lie in a store's directory and that its manifest does not name.
use anyhow::Result;
use std::{collections::BTreeSet, fs, path::Path};
use terrace_format::{AddedTable, FileName, LEVELS, TableId};

/// While a store is open they wait to be durable, or to be removed; behind a crash they are left over until it is opened again.
#[derive(Clone, Copy, Default)]
pub struct Unnamed {
    /// How many: files, bundles, or folders of directory tables.
    pub tables: usize,
    /// What their files hold.
    pub bytes: u64,
}

impl Unnamed {
    /// Those in `path` that are none of `named`. What goes while this looks counts or does not.
    pub fn read<'a>(path: &Path, named: impl Iterator<Item = &'a AddedTable>) -> Result<Unnamed> {
        let named: BTreeSet<TableId> =
            named.map(|table| table.within.map_or(table.id, |within| within.bundle)).collect();
        let mut unnamed = Unnamed::default();
        for (name, _, bytes) in list(path)? {
            if let Some(FileName::Table(id) | FileName::Bundle(id)) = FileName::parse(&name)
                && !named.contains(&id)
            {
                unnamed.count(bytes);
            }
        }
        for level in 0..LEVELS {
            let level = path.join(format!("L{level}"));
            for (name, is_folder, _) in list(&level).unwrap_or_default() {
                if is_folder && name.parse().is_ok_and(|id| !named.contains(&TableId(id))) {
                    unnamed.count(list(&level.join(name)).unwrap_or_default().iter().map(|(.., bytes)| bytes).sum());
                }
            }
        }
        Ok(unnamed)
    }

    fn count(&mut self, bytes: u64) {
        self.tables += 1;
        self.bytes += bytes;
    }
}

/// Names in a folder, whether each is a folder, and its bytes.
fn list(folder: &Path) -> Result<Vec<(String, bool, u64)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Ok(facts) = entry.metadata() {
            found.push((entry.file_name().to_string_lossy().into_owned(), facts.is_dir(), facts.len()));
        }
    }
    Ok(found)
}
